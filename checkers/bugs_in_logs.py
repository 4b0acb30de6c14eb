"""Signatures of known bugs of the transaction coordinator in what brokers' logs show.

Each needs a second witness beside the finding: a line of a coordinator's log, or what coordinators had when
they were elected. Not here: the registry (`checkers.known_bugs`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow.compute as pc

from checkers.late_requests import late_markers
from checkers.logs.classes import EARLY, HANGING, LOST_DECISION, TORN_DECISION
from checkers.logs.judgement import LogFinding
from checkers.marker_evidence import went_back
from core.cluster import TRANSACTION_TOPIC
from history.evidence import Evidence
from history.reader import History

CLASSES: Final = (LOST_DECISION, TORN_DECISION, HANGING)
"""Classes of findings about one transaction's end."""
ACTS: Final = (EARLY,)
"""Classes of findings about what a coordinator did, whether it harmed or not."""


@dataclass(frozen=True)
class TransactionLogs:
    """What the logs of coordinators say about transactional ids, in its run."""

    history: History
    evidence: Evidence

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows = self.evidence.table("transaction_log")
        wanted = ["partition", "transactional_id", "producer_id"]
        return list(rows.group_by(wanted).aggregate([]).to_pylist()) if rows.num_rows else []

    def ids(self, finding: LogFinding) -> set[str]:
        """The transactional ids that a finding may be about."""
        if finding.transactional_id:
            return {finding.transactional_id}
        rows = self._rows
        return {row["transactional_id"] for row in rows if 0 <= finding.producer_id == row["producer_id"]}

    def written_ms(self, finding: LogFinding) -> int | None:
        """When the record of a finding was sent, by the clock of its client, or the decision written down;
        None = it is not there."""
        if finding.tp.topic == TRANSACTION_TOPIC:
            log = self.evidence.table("transaction_log")
            own = (pc.field("partition") == finding.tp.partition) & (pc.field("offset") == finding.offset)
            written = log.filter(own)["timestamp"].to_pylist() if log.num_rows else []
            return min(written, default=None)
        rows = self.evidence.table("batches")
        place = (
            (pc.field("topic") == finding.tp.topic)
            & (pc.field("partition") == finding.tp.partition)
            & (pc.field("base") <= finding.offset)
            & (pc.field("last") >= finding.offset)
            & (pc.field("producer_id") == finding.producer_id)
        )
        found = rows.filter(place)["base_timestamp"].to_pylist() if rows.num_rows else []
        return min(found, default=None)

    def partitions(self, transactional_ids: set[str]) -> set[int]:
        """The partitions of `__transaction_state` that hold these ids."""
        return {row["partition"] for row in self._rows if row["transactional_id"] in transactional_ids}


def marker_left_out(logs: TransactionLogs, finding: LogFinding) -> bool:
    """A coordinator's log says that it left out a marker of this transactional id in this partition."""
    ids = logs.ids(finding)
    return any(
        one.transactional_id in ids and _is_about(finding, one.partitions) for _, one in logs.history.left_out
    )


def marker_came_late(logs: TransactionLogs, finding: LogFinding) -> bool:
    """A rule of the wire took markers of this transactional id, for this partition, before one of its
    transactions began, and let them go afterwards; their broker did not refuse them."""
    history = logs.history
    own = finding.tp.topic == TRANSACTION_TOPIC
    return any(
        late.caught_ns < begin <= late.delivered_ns
        for name in logs.ids(finding)
        for late in late_markers(history, name)
        if own or str(finding.tp) in late.named
        for begin in _begins(history, name)
    )


def _begins(history: History, transactional_id: str) -> Iterator[int]:
    """When the transactions of an id began, in ns."""
    for number, process in history.processes.items():
        if process.transactional_id == transactional_id:
            yield from (op.invoke_ns for op in map(history.op, map(int, history.ops_of(number))) if op.txn)


def _is_about(finding: LogFinding, partitions: frozenset[str]) -> bool:
    """A finding in the coordinator's log is about all partitions of the transaction."""
    return finding.tp.topic == TRANSACTION_TOPIC or str(finding.tp) in partitions


def state_went_back(logs: TransactionLogs, finding: LogFinding) -> bool:
    """A coordinator of this transactional id loaded the end of its log, and a successor, in sync then, did
    not have it."""
    own = finding.tp.topic == TRANSACTION_TOPIC
    partitions = {finding.tp.partition} if own else logs.partitions(logs.ids(finding))
    return any(went_back(logs.history, partition) for partition in partitions)


def acted_upon_what_it_loaded(logs: TransactionLogs, finding: LogFinding) -> bool:
    """A coordinator sent markers by a decision that a leader before it had appended."""
    if finding.tp.topic != TRANSACTION_TOPIC:
        return False
    log, parts = logs.evidence.table("transaction_log"), logs.evidence.table("frame_parts")
    place = (pc.field("partition") == finding.tp.partition) & (pc.field("offset") == finding.offset)
    written = log.filter(place & (pc.field("producer_id") == finding.producer_id))["leader_epoch"].to_pylist()
    own = pc.field("producer_id") == finding.producer_id
    sent = parts.filter(own & (pc.field("producer_epoch") == finding.producer_epoch))["coordinator_epoch"]
    return bool(written) and any(epoch is not None and epoch > max(written) for epoch in sent.to_pylist())
