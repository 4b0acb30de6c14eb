"""KAFKA-19846: a member of a share group whose id has a slash or a plus is given nothing."""

from collections import defaultdict
from typing import Final

from checkers.checks.recovery import STALLED, StalledClient
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.transaction_fates import Suspicion
from history.events import Recovered
from history.reader import History

RIGHT: Final = (4, 2)
"""First version that takes any id."""
LAST_NS: Final = 10_000_000_000
"""A member that gets an error asks again at once: what is refused is refused up to the end."""


def _unread(suspicion: Suspicion) -> bool:
    """The client is in a group, and brokers have such errors for as many members of it as stand still, up to
    the end: which of them is which is not on record."""
    finding, history = suspicion.finding, suspicion.history
    assert isinstance(finding, StalledClient)
    if not suspicion.run.versions.some_before(RIGHT, finding.at_ns):
        return False
    ends = (one for one in history.events if isinstance(one, Recovered) and one.ns == finding.at_ns)
    stalled = {slot for one in ends for slot in one.stalled}
    refused: dict[str, set[str]] = defaultdict(set)
    for line in suspicion.run.unread_members:
        if finding.at_ns - LAST_NS <= history.wall_ns(line.wall) <= finding.at_ns:
            refused[line.group].add(line.member)
    return any(
        refused[group] and len(refused[group]) >= len(stalled & _slots(history, group))
        for group in refused
        if finding.slot in _slots(history, group)
    )


def _slots(history: History, group: str) -> set[int]:
    """The clients that have, or had, a member of a group."""
    processes = (one for one in history.processes.values() if one.group >= 0)
    return {one.slot for one in processes if history.group(one.group) == group}


BUG: Final = KnownBug(
    title="Share groups: a member whose id has a slash or a plus gets no record",
    link="KAFKA-19846",
    versions="Kafka 4.1; right from 4.2.0 on",
    doc="""\
The id of a member is 16 bytes in base64. Brokers of 4.1 read it in the variety for URLs; librdkafka 2.16
writes the other one, and each second id has a sign that they do not know. The group's coordinator takes such
a member, and assigns partitions to it; the leader answers each ShareFetch with UNKNOWN_SERVER_ERROR, and the
client asks again at once, some hundred times a second.

A member leaves now and then, and comes back with another id. `--preset share --nemesis elections` (seed 1,
20 s) on 4.1.2 did not recover in 2 minutes: one client of four was given nothing.""",
    evidence="Some brokers were older than 4.2. A member of a share group was given nothing up to the"
    " deadline of recovery, while another one was; in the last 10 s before, brokers' logs have an error for"
    " a ShareFetch of a member of this group whose id has a slash or a plus; and they name at least as many"
    " such members as stand still in this group: where they name fewer, none bears the label, as the id of a"
    " client is not on record.",
    anomalies=(STALLED,),
    match=_unread,
)
