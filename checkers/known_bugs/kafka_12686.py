"""A leader never asks again to change its in-sync replicas: an answer that came late removed the request."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.few_in_sync import all_stuck, roles_seen, same_logs
from checkers.known_bugs.transaction_fates import Suspicion
from history.events import FaultHealed, FaultStarted, RolesSeen
from history.reader import History
from history.replica_lines import InSyncKind, InSyncLine, IsrFailedLine, in_sync_lines, isr_failed_lines
from history.verdict import NOT_RECOVERED

ASKS: Final = (2, 7)
"""The first version whose leaders ask the controller to change the in-sync replicas (AlterIsr)."""
CURED: Final = (3, 0)
SEEN_NS: Final = 5_000_000_000
"""How late the harness sees another controller at most, for this label."""
LATE_NS: Final = 10_000_000_000
"""How late the controller before says that it could not write, for this label."""


class DroppedRequest(NamedTuple):
    """A leader had asked for other in-sync replicas, and was made leader again before it had an answer.
    asked_ns, again_ns: when, or before. isr: the in-sync replicas from then on. failed: the controller that
    could not write what it had asked, -1 = none said so."""

    asked_ns: int
    again_ns: int
    isr: frozenset[int]
    failed: int


def dropped_request(
    history: History,
    lines: Sequence[InSyncLine],
    partition: str,
    until_ns: int,
    failed: Sequence[IsrFailedLine] = (),
) -> DroppedRequest | None:
    """Of the leader whose lines these are, by a time: since when the in-sync replicas of a partition have not
    changed, though those of another one have; None = it is not so. Lines after that time only refute it.
    failed: when controllers could not write some. A leader does not say that it asks to let one in."""
    asked: datetime | None = None
    again: InSyncLine | None = None
    epoch, once_more, others, controller = -1, False, False, -1
    for line in lines:
        later = line.wall is not None and history.wall_ns(line.wall) > until_ns
        if line.partition != partition:
            others |= line.kind is InSyncKind.CHANGED and not later
        elif line.kind is InSyncKind.SHRINKS:
            if once_more and again:  # the one that was removed may have been one of these, no second one
                asked, again, controller = None, None, -1
            asked, once_more = asked or line.wall, again is not None
        elif line.kind in {InSyncKind.LEADS, InSyncKind.FOLLOWS} and later:
            break
        elif line.kind is InSyncKind.LEADS:
            leads_on = line.previous == epoch < line.epoch
            if controller >= 0 or not leads_on:  # it followed, or its process is another one
                asked, controller = None, -1
            if leads_on and asked is None:
                late = [one.node for one in failed if _soon(history, line, one.wall)]
                asked, controller = (line.wall, late[0]) if late else (None, -1)
            again, epoch, once_more, others = line if asked else None, line.epoch, False, False
        else:
            asked, again, controller = None, None, -1
            epoch = -1 if line.kind is InSyncKind.FOLLOWS else epoch
    if asked is None or again is None or again.wall is None or not others:
        return None
    return DroppedRequest(history.wall_ns(asked), history.wall_ns(again.wall), again.isr, controller)


def _soon(history: History, line: InSyncLine, at: datetime) -> bool:
    """Whether a time is that of a line, or shortly behind it."""
    return line.wall is not None and 0 <= history.wall_ns(at) - history.wall_ns(line.wall) <= LATE_NS


def _controller_lost(history: History, dropped: DroppedRequest) -> bool:
    """Another controller came between the request and the change of the leader epoch, and a fault had hit the
    one before."""
    asked_ns, again_ns, failed = dropped.asked_ns, dropped.again_ns, dropped.failed
    looks = [one for one in roles_seen(history) if one.controller >= 0]
    if failed >= 0:
        named = [one.controller for one in looks if abs(one.ns - again_ns) <= SEEN_NS]
        before = {failed} if any(one != failed for one in named) else set[int]()
    else:
        agreed = [one.ns for one in looks if one.agreed and one.ns <= asked_ns]
        if not agreed:
            return False
        named = [one.controller for one in looks if agreed[-1] <= one.ns <= again_ns + SEEN_NS]
        before = {one for one in named if one != named[-1]}
    healed = {one.fault: one.ns for one in history.events if isinstance(one, FaultHealed)}
    return any(
        one.begin_ns <= again_ns and asked_ns <= healed.get(one.fault, asked_ns) and before & {*one.nodes}
        for one in history.events
        if isinstance(one, FaultStarted)
    )


def _never_again(suspicion: Suspicion) -> bool:
    run, history, at_ns = suspicion.run, suspicion.history, suspicion.finding.at_ns
    versions = run.versions.known
    if not versions or not all(ASKS <= version < CURED for version in versions):
        return False
    lines, failed = in_sync_lines(history.run), isr_failed_lines(history.run)

    def stuck(tp: str, roles: RolesSeen) -> bool:
        dropped = dropped_request(history, lines.get(roles.leaders[tp], ()), tp, at_ns, failed.get(tp, ()))
        return (
            dropped is not None
            and dropped.isr == {*roles.isr.get(tp, ())}
            and _controller_lost(history, dropped)
            and same_logs(run, tp, dropped.isr)
        )

    return all_stuck(suspicion, stuck)


BUG: Final = KnownBug(
    title="In-sync replicas of a partition never change again: the leader's request was removed unsent",
    link="KAFKA-12686",
    versions="brokers of 2.7 and 2.8; fixed in 3.0.0",
    doc="""\
Since 2.7 a leader asks the controller to change the in-sync replicas (AlterIsr). One request is in flight
at a time, and it is sent again, to each next controller, until one answers. A partition that has a request
in flight or waiting makes no other one, until the answer or the next LeaderAndIsr. A LeaderAndIsr with a
new leader epoch also takes the partition off the requests that wait (`AlterIsrManager.clearPending`),
though one for it may be in flight. So the leader makes the next request, which waits behind that one. When
the old one is answered, its answer is ignored, since the partition's state is another one; and then the
partition is taken off the requests that wait: the new one is gone, unsent. The partition waits for its
answer until the next LeaderAndIsr, which may never come: replicas that have everything are not let in, and
producers with `acks=all` get NOT_ENOUGH_REPLICAS.

It needs a controller that does not answer for longer than the next one takes to send a LeaderAndIsr. One
run of 30 s on 2.8.2 met it (`send-modes` under `random`, seed 704): the links from the controller were cut,
and the next controller was paused. The request was 8 s old when the third controller answered it; 10
partitions got their replicas back then, and one stayed with one in-sync replica until the end, 120 s after
healing. Another one met it without a line that the leader asked (`queue` under `pause:long@controller` and
`partition:metadata@controller`, seed 5007): what it had asked was to let a replica in, which it does not say;
the controller before answered 3 s after the leader led again, for its session had expired.""",
    evidence="All brokers are of 2.7 or 2.8, all answer and agree, and every partition has a leader; all"
    " that is missing are in-sync replicas. Of each such partition the leader's log says: it asked"
    " to take replicas off (`Shrinking ISR from …`), or a controller says, at most 10 s after the leader led"
    " once more, that it could not write what was asked (`Failed to update ISR for partition …`);"
    " with no answer since (`ISR updated to …`), and"
    " in the same process, it was made leader once more, in a later leader epoch (`Leader … starts"
    " at leader epoch …`), with the in-sync replicas that the partition has at the end; since then"
    " these did not change, while those of another partition did; it asked once more at most to take"
    " some off, and no error kept it from that (`Failed to enqueue …`). In between another"
    " controller came, and a fault had hit the one before. The logs of all replicas end at the same"
    " offset.",
    anomalies=(NOT_RECOVERED,),
    match=_never_again,
)
