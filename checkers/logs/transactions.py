"""What the coordinators' log (`__transaction_state`) says of transactions, id by id.

A transaction begins with Ongoing and is decided by PrepareCommit or PrepareAbort; with CompleteCommit or
CompleteAbort its coordinator says that all markers were written. A coordinator that does not learn whether a
record was committed may write it, or another one, again: so one transaction can have several decisions;
its coordinator acts upon the last.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from checkers.logs.coordinator_log import KeptLog, Row, coordinator_log
from checkers.logs.elections import Elections, partition_count
from checkers.logs.replicas import ReplicaLog
from core.internal_topics import TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.op import TopicPartition
from history.evidence import Evidence

PREPARED: Final = {"PrepareCommit": True, "PrepareAbort": False}
COMPLETED: Final = frozenset({"CompleteCommit", "CompleteAbort"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A PrepareCommit or PrepareAbort. log, offset, leader_epoch: of its record. ms: when it was appended.
    epoch: producer epoch of its markers. partitions: that get one."""

    log: TopicPartition
    offset: int
    leader_epoch: int
    ms: int
    epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]

    @property
    def text(self) -> str:
        """In words."""
        name = "PrepareCommit" if self.commit else "PrepareAbort"
        return f"{name} at offset {self.offset} of {self.log} (leader epoch {self.leader_epoch})"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """A transaction. epoch: producer epoch of its records. version: the transaction protocol of its client,
    0 or 1 = before KIP-890. named: partitions that a record of it names. decisions: in the order of the log.
    completed, completed_ms: offset and time of its completion, -1 = none.
    """

    transactional_id: str
    log: TopicPartition
    producer_id: int
    epoch: int
    began_ms: int
    version: int = 0
    named: set[TopicPartition] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    completed: int = -1
    completed_ms: int = -1

    @property
    def decided_ms(self) -> int:
        """When it was decided first, `NEVER` = it was not."""
        return self.decisions[0].ms if self.decisions else NEVER

    @property
    def text(self) -> str:
        """In words."""
        return f"the transaction {self.producer_id}/{self.epoch} of {self.transactional_id}"


NEVER: Final = 2**62


@dataclass(slots=True, kw_only=True)
class TransactionLogs:
    """All of `__transaction_state`, as its newest logs have it at the end of the run.

    of: transactions by producer id, in the order of the log. rows: all records by transactional id.
    lost: records that a node had when it died, and that the log does not have. unsure: partition of the log
    -> why a record that was committed may be missing, whenever it was made. logs: the logs that were read.
    elections: the leaders of each. moments: `Evidence.moments`. count: how many partitions the topic has, 0 =
    unknown.
    """

    of: dict[int, list[Transaction]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[str, list[Row]] = field(default_factory=dict)
    lost: list[Row] = field(default_factory=list)
    unsure: dict[TopicPartition, str] = field(default_factory=dict)
    logs: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)
    elections: dict[TopicPartition, Elections] = field(default_factory=dict)
    moments: Mapping[tuple[int, int], str] = field(default_factory=dict)
    count: int = 0

    def place(self, transactional_id: str) -> TopicPartition | None:
        """The partition of the log that has an id, None = unknown."""
        if mine := self.rows.get(transactional_id):
            return TopicPartition(mine[0]["topic"], mine[0]["partition"])
        number = java_hash(transactional_id) % self.count if self.count else -1
        return TopicPartition(TRANSACTION_TOPIC, number) if number >= 0 else None

    def doubt(self, log: TopicPartition | None, *, since_ms: float = 0) -> str:
        """Why a record may be missing in this partition of the log (None: in any), "" = none may. since_ms:
        it was not there before, by the clock of the nodes."""
        if not self.logs:
            return "the evidence has no log of the transaction coordinators"
        logs = [log] if log else [*self.unsure, *self.elections]
        return next(filter(None, (self._doubt(one, since_ms) for one in logs)), "")

    def _doubt(self, log: TopicPartition, since_ms: float) -> str:
        why, lineage = self.unsure.get(log, ""), self.elections.get(log)
        if not why and lineage is None:
            return f"the evidence does not have {log}"
        return why or (lineage.may_lose(since_ms=since_ms) if lineage else "")

    def witness(self, producer_id: int, states: Iterable[str], tp: TopicPartition | None = None) -> str:
        """A record of this producer id that a dead node had and the log has not, in words ("" = none).

        states: it has one of these. tp: it names this partition.
        """
        wanted = set(states)
        for row in self.lost:
            if row["producer_id"] == producer_id and row["state"] in wanted:
                if tp is not None and tp not in _partitions(row):
                    continue
                when = self.moments.get((row["take"], row["node"]), "when it died")
                return (
                    f"the log that node {row['node']} had {when} holds"
                    f" {row['state']} {row['producer_id']}/{row['producer_epoch']} at offset"
                    f" {row['offset']} of {TRANSACTION_TOPIC}-{row['partition']}, leader epoch"
                    f" {row['leader_epoch']};"
                    " the log of today has another record there, or none"
                )
        return ""


def transaction_logs(evidence: Evidence) -> TransactionLogs:
    """Read them."""
    count = partition_count(evidence, TRANSACTION_TOPIC)
    found = TransactionLogs(moments=evidence.once(Evidence.moments), count=count)
    for tp, kept in evidence.once(coordinator_log).kept.items():
        if kept is None:
            found.unsure[tp] = "no node had this partition of the log at the end"
            continue
        found.logs[tp], found.elections[tp] = kept.log, kept.lineage
        by_id: dict[str, list[Row]] = defaultdict(list)
        for row in kept.rows:
            by_id[row["transactional_id"]].append(row)
        found.rows |= by_id
        for transactional_id, some in by_id.items():
            for one in _transactions(tp, transactional_id, some):
                found.of[one.producer_id].append(one)
        found.lost += kept.lost
        if why := _unsure(kept):
            found.unsure[tp] = why
    return found


def _unsure(kept: KeptLog) -> str:
    if kept.log.start > 0 or kept.log.compacted:
        return "the beginning of the transaction log is gone"
    if any(row["opaque"] is not None for row in kept.rows):
        return "a part of the transaction log cannot be read"
    return kept.lineage.lacks(kept.log)


def _partitions(row: Row) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(one["topic"], one["partition"]) for one in row["partitions"] or ())


def _transactions(log: TopicPartition, transactional_id: str, rows: Iterable[Row]) -> list[Transaction]:
    """The transactions of one id."""
    found: list[Transaction] = []
    now: Transaction | None = None
    for row in rows:
        state = row["state"]
        if state in COMPLETED:
            if now is not None:
                now.completed, now.completed_ms = row["offset"], row["timestamp"]
            continue
        if state != "Ongoing" and state not in PREPARED:
            now = None
            continue
        if now is None or now.completed >= 0 or row["start_ms"] != now.began_ms:
            now = Transaction(
                transactional_id=transactional_id,
                log=log,
                producer_id=row["producer_id"],
                epoch=_epoch_of_records(row),
                began_ms=row["start_ms"],
            )
            found.append(now)
        now.named |= _partitions(row)
        now.version = max(now.version, row["client_transaction_version"] or 0)
        if state in PREPARED:
            now.decisions.append(_decision(log, row))
        else:
            now.epoch = row["producer_epoch"]
    return found


def _epoch_of_records(row: Row) -> int:
    """From transaction version 2 on the decision has the next epoch."""
    epoch: int = row["producer_epoch"]
    raised = row["state"] in PREPARED and (row["client_transaction_version"] or 0) >= 2
    return epoch - 1 if raised else epoch


def _decision(log: TopicPartition, row: Row) -> Decision:
    return Decision(
        log=log,
        offset=row["offset"],
        leader_epoch=row["leader_epoch"],
        ms=row["timestamp"],
        epoch=row["producer_epoch"],
        commit=PREPARED[row["state"]],
        partitions=_partitions(row),
    )
