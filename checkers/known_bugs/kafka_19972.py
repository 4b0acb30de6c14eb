"""KAFKA-19972: a member that ends gives back the records that it held with a lower delivery count."""

from typing import Final

from checkers.checks.share_groups import CountFell
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.transaction_fates import Suspicion
from history.columns import columns

RIGHT: Final = (4, 2)
"""First version that counts on."""


def _given_back(suspicion: Suspicion) -> bool:
    """The first member did nothing any more from the second delivery on, and had said nothing of the record;
    and brokers count so: they take its delivery back, and nothing more."""
    finding, history = suspicion.finding, suspicion.history
    assert isinstance(finding, CountFell)
    if finding.after != finding.before:
        return False
    first, second = finding.records
    if not suspicion.run.versions.some_before(RIGHT, second.done_ns):
        return False
    # Who leaves ends its sessions first, its journal last: so what it did counts, not when that ended.
    ops = columns(history.tables["ops"], ("process", "complete_ns"))
    done_ns = ops["complete_ns"][ops["process"] == first.process].max()
    if min(done_ns, history.processes[first.process].end_ns) >= second.done_ns:
        return False
    said = columns(history.tables["acknowledgements"], ("tp", "process", "offset", "invoke_ns"))
    of = (said["tp"] == first.tp) & (said["process"] == first.process) & (said["offset"] == first.offset)
    return not bool((of & (said["invoke_ns"] >= first.done_ns)).any())


BUG: Final = KnownBug(
    title="Share groups: a record whose members die is delivered for ever",
    link="KAFKA-19972",
    versions="Kafka 4.1; right from 4.2.0 on",
    doc="""\
The delivery count of a record ends one that no member can process: at the limit (5) the group archives it.
Where the session of a member ends, because it left, died or its connection broke, the leader gives back what
the member held, and lowers the count as if it had not been delivered. A record with which every member ends
is delivered for ever.

`--preset share --nemesis client:crash@member` on 4.1.2 found it in the first run of 15 s (3 records, each
with count 1 twice); 4.3.1 and 4.4.0 count on. The schedule lets members die by hand, since many of
librdkafka's are given nothing on 4.1 (KAFKA-19846).""",
    evidence="Some brokers were older than 4.2. A record was delivered again with the same delivery count"
    " (one that is lower has another cause: the bug takes back one delivery); the member that had it before"
    " had died or begun to leave by then: it did no op any more, and had not acknowledged it. Where only its"
    " connection broke, and it lives on, the history does not show that its session ended: such a finding"
    " bears no label. A known bug has to explain each such pair of the record.",
    anomalies=("share-count",),
    match=_given_back,
)
