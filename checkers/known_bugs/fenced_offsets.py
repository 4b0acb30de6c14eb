"""A coordinator of groups stored offsets of a producer that was fenced: a later transaction ends them."""

from collections.abc import Iterator
from typing import Final

from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.log_findings import rows_of_producer
from checkers.logs.classes import TORN_DECISION, VIOLATION
from checkers.logs.decisions import AGREE
from core.internal_topics import GROUP_TOPIC
from model.accepting.data_partition import PRODUCER_EPOCH

UNCHECKED: Final = (0, 11, 0, 2)
"""First version that checks no epoch where a coordinator appends (KAFKA-6003)."""
CHECKED: Final = (2, 4, 1)
"""First version that checks it again (KAFKA-9144)."""


def _late_offsets(run: LabelledRun, finding: LogFinding) -> Iterator[tuple[int, int, int]]:
    """Of the producer and the partition of a finding: offsets that stand behind a marker with a higher epoch
    than theirs, with their epoch, and when the coordinator stamped them (ms)."""
    if finding.log.topic != GROUP_TOPIC:
        return
    markers = rows_of_producer(run, "control", finding.log, finding.producer_id)
    for row in rows_of_producer(run, "offset_log", finding.log, finding.producer_id):
        epoch, offset = row["producer_epoch"], row["offset"]
        if any(one["offset"] < offset and one["producer_epoch"] > epoch for one in markers):
            yield offset, epoch, row["timestamp"]


def _stored_late(run: LabelledRun, finding: LogFinding) -> bool:
    """The finding is such an offset, or the end of a transaction that has one."""
    if finding.check not in (PRODUCER_EPOCH, AGREE):
        return False
    return any(
        epoch == finding.producer_epoch
        and (offset == finding.offset or (finding.check == AGREE and offset < finding.offset))
        and _unchecked(run, run.ns_of(ms))
        for offset, epoch, ms in _late_offsets(run, finding)
    )


def _unchecked(run: LabelledRun, ns: int) -> bool:
    """Some brokers may have had a version that checks no epoch."""
    return run.versions.some_since(UNCHECKED, ns) and run.versions.some_before(CHECKED, ns)


BUG: Final = KnownBug(
    title="Offsets of a fenced producer are stored, and a later transaction ends them",
    page="https://issues.apache.org/jira/browse/KAFKA-9144",
    link="KAFKA-9144, which ended it",
    versions="brokers 0.11.0.2 to 2.4.0",
    doc="""\
A commit of offsets in a transaction (TxnOffsetCommit) comes late: the coordinator of transactions has aborted
the transaction with a raised producer epoch, and the marker is in `__consumer_offsets`. Since KAFKA-6003 a
leader checks the producer epoch of what clients append alone, and the coordinator of groups appends itself:
the offsets are stored behind the marker, with the epoch that was fenced. Nothing ends them but the next
marker of that producer id: if it is a commit, the group has offsets of a transaction that was aborted, and
passes over input whose output no reader sees. Since 2.4.1 the epoch of what coordinators append is checked
too (a part of KAFKA-9144).""",
    evidence="In `__consumer_offsets` the offset stands behind a marker of the same producer id with a higher"
    " epoch, and some broker may have had a version from 0.11.0.2 to 2.4.0 when it was stored. A decision"
    " that is torn there: the transaction has such an offset before the marker that the finding names.",
    in_logs={VIOLATION: _stored_late, TORN_DECISION: _stored_late},
)
