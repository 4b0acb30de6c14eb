"""Logs of producers, fed to the model: what it refuses, and the state of producers at given offsets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow.compute as pc

from checkers.engine.memory import uncollected
from checkers.logs.cluster_era import era_of
from checkers.logs.elections import elections
from checkers.logs.replicas import ReplicaLog
from core.internal_topics import GROUP_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence
from model.accepting.data_partition import DataPartition
from model.accepting.refusal import Refusal
from model.eras import Era
from model.log.unified_log import ABORT, COMMIT, NO_SEQUENCE, REMOVED, ProducerSnapshotEntry, RecordBatch

PERMISSIVE: Final = Era(remembered_batches=1, marker_epoch_rises=False, begins_at_zero=False)
"""Asks for nothing that some version with producer ids does not do."""


Snapshot = dict[int, ProducerSnapshotEntry]
"""By producer id."""


@dataclass(frozen=True, slots=True)
class KnownProducers:
    """What is known beside the partition. era: None = unknown. ends, begun: transaction version by (producer
    id, epoch of the marker), and of its records. ids: transactional id by producer id."""

    era: Era | None
    ends: dict[tuple[int, int], int]
    begun: dict[tuple[int, int], int]
    ids: dict[int, str]

    @classmethod
    def of(cls, evidence: Evidence) -> "KnownProducers":
        """By the finalized features and `__transaction_state`."""
        names = ["producer_id", "producer_epoch", "client_transaction_version", "state", "transactional_id"]
        rows = evidence.columns("transaction_log", names)
        known = rows.filter(pc.is_valid(rows["state"]))
        ends: dict[tuple[int, int], int] = {}
        begun: dict[tuple[int, int], int] = {}
        ids: dict[int, str] = {}
        for row in known.group_by(names).aggregate([]).to_pylist():
            ids[row["producer_id"]] = row["transactional_id"]
            key, version = (row["producer_id"], row["producer_epoch"]), row["client_transaction_version"] or 0
            if row["state"].startswith("Prepare"):
                ends[key] = min(version, ends.get(key, version))
            elif row["state"] == "Ongoing":
                begun[key] = min(version, begun.get(key, version))
        return cls(evidence.once(era_of), ends, begun, ids)


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """Records below this offset were deleted, as the disk of one node shows, in words; 0 = no disk shows
    any."""

    below: int = 0
    shown_by: str = ""


@dataclass(slots=True)
class Walk:
    """What one log made. states: of producers by the offset of a snapshot. left: records below this offset
    were deleted, 0 = none were. deletion: that by which this is known."""

    accepted: DataPartition
    left: int = 0
    deletion: DeletedRecords = DeletedRecords()
    refusals: list[Refusal] = field(default_factory=list)
    states: dict[int, Snapshot] = field(default_factory=dict)


@uncollected()
def walk(
    evidence: Evidence,
    tp: TopicPartition,
    log: ReplicaLog,
    cluster: KnownProducers,
    offsets: set[int],
    deletion: DeletedRecords,
) -> Walk:
    """Feed a log to the model. offsets: of snapshots. deletion: `deleted_below`."""
    left = _first_left(log, deletion.below)
    accepting = DataPartition(cluster.era or PERMISSIVE, numbered=tp.topic != GROUP_TOPIC)
    found = Walk(accepting, left, deletion)
    accepted = found.accepted
    wanted = sorted(offset for offset in offsets if offset <= log.end)
    for batch in _batches(log, _markers(evidence, tp, log), cluster):
        while wanted and wanted[0] <= batch.base:
            found.states[wanted.pop(0)] = accepted.log.producer_states.snapshot()
        if left and batch.base == left:
            accepted.forget(left)
        refusal = accepted.add(batch)
        if refusal is not None:
            found.refusals.append(refusal)
    if left == log.end:
        accepted.forget(left)
    for offset in wanted:
        found.states[offset] = accepted.log.producer_states.snapshot()
    return found


def deleted_below(evidence: Evidence, tp: TopicPartition, logs: Sequence[ReplicaLog]) -> DeletedRecords:
    """The greatest that some disk shows. logs: of one topic (`of_one_topic`).

    Any node may have led when it had forgotten what was deleted by then: one that cuts its log, or starts
    again, reads the producers of what is left. Its disk need not show it, for the checkpoint of log starts is
    written once a minute; the first entry of leader-epoch-checkpoint moves at once.
    """
    starts = [(_log_start(evidence, tp, log), log) for log in logs]
    below, log = max(starts, key=lambda one: one[0], default=(0, None))
    return DeletedRecords(below, log.where()) if log is not None and below > 0 else DeletedRecords()


def _log_start(evidence: Evidence, tp: TopicPartition, log: ReplicaLog) -> int:
    noted, moved = log.marks.get("log-start", 0), min(log.epochs.values(), default=0)
    if noted and _is_of_namesake(evidence, tp, log, noted):
        noted = 0
    return max(log.start, noted, moved if log.has_epochs and moved > log.epochs_begin else 0)


def forgotten(made: Walk) -> str:
    """Why brokers may know less of producers than a log shows below `left`, in words."""
    return (
        f"records before offset {made.left} were deleted, as the disk of {made.deletion.shown_by} shows, and "
        f"a broker may have forgotten their producers"
    )


def _first_left(log: ReplicaLog, deleted: int) -> int:
    """Base of the first batch that is left, where records were deleted that still stand in their segment; the
    end of the log, where all of it was; 0 = none of its records were deleted."""
    if deleted <= max(log.start, 0):
        return 0
    at = int(np.searchsorted(log.whole["last"], deleted))
    return int(log.whole["base"][at]) if at < log.count else log.end


def _is_of_namesake(evidence: Evidence, tp: TopicPartition, log: ReplicaLog, deleted: int) -> bool:
    """Whether the log start that a broker noted is that of a deleted topic of the same name: a broker that
    deletes records moves the first entry of leader-epoch-checkpoint first, and it did not."""
    unmoved = not log.died and min(log.epochs.values(), default=deleted) < deleted
    return unmoved and bool(elections(evidence, tp).of_namesake(log, "log-start"))


_COLUMNS: Final = (
    "base",
    "last",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "transactional",
    "control",
    "max_timestamp",
)
_RECORDS: Final = [(REMOVED,) * count for count in range(512)]
"""Records whose contents do not matter, by their number."""
_MARKERS: Final = {"COMMIT": COMMIT, "ABORT": ABORT}


def _batches(
    log: ReplicaLog, markers: dict[int, tuple[str, int]], cluster: KnownProducers
) -> Iterator[RecordBatch]:
    """Rows as the model's batches. A control batch without a marker changes no producer."""
    ends, begun = cluster.ends, cluster.begun
    columns = (log.whole[name].tolist() for name in _COLUMNS)
    for base, last, epoch, producer, producer_epoch, sequence, transactional, control, at_ms in zip(
        *columns, strict=True
    ):
        who = (producer, producer_epoch)
        if not control:
            count = last - base + 1
            records = _RECORDS[count] if count < len(_RECORDS) else (REMOVED,) * count
            version = begun.get(who, 0) if transactional else 0
            yield RecordBatch(base, epoch, records, *who, sequence, transactional, "", -1, at_ms, version)
        elif base in markers:
            kind, coordinator = markers[base]
            version = ends.get(who, 0)
            yield RecordBatch(base, epoch, (), *who, NO_SEQUENCE, True, kind, coordinator, at_ms, version)
        else:
            yield RecordBatch(base, epoch, _RECORDS[1])


def _markers(evidence: Evidence, tp: TopicPartition, log: ReplicaLog) -> dict[int, tuple[str, int]]:
    """Kind and coordinator epoch of each marker, by its offset."""
    rows = evidence.of("control", tp)
    mine = pc.and_(pc.equal(rows["take"], log.take), pc.equal(rows["node"], log.node))
    rows = rows.filter(pc.and_(mine, pc.is_valid(rows["coordinator_epoch"])))
    columns = (rows[name].to_pylist() for name in ("offset", "name", "coordinator_epoch"))
    return {
        offset: (_MARKERS[name], epoch)
        for offset, name, epoch in zip(*columns, strict=True)
        if name in _MARKERS
    }
