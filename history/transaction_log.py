"""The transaction coordinators' log of a run, as the evidence of its end has it."""

from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from core.cluster import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import END, Evidence

HIGH_WATERMARKS: Final = "replication"


class TransactionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record.

    partition, offset: its place. ms: its time by the coordinator's clock, since 1970. leader_epoch: of the
    leader that appended it, -1 unknown. state: by Kafka's name (`Ongoing`, `PrepareCommit`, …), "" = a
    tombstone, which has nothing beside the id. partitions: of the transaction, as `topic-partition`.
    started_ms, updated_ms: of the transaction and of its newest change, -1 = none.
    """

    partition: int
    offset: int
    ms: int
    leader_epoch: int = -1
    transactional_id: str
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    partitions: tuple[str, ...] = ()
    started_ms: int = -1
    updated_ms: int = -1


class TransactionLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log, as far as it is known.

    records: by partition and offset. whole: partitions without a gap, up to the high watermark. missing: what
    is not known, and why; "" = nothing.
    """

    records: tuple[TransactionRecord, ...] = ()
    whole: frozenset[int] = frozenset()
    missing: str = ""


class _Leader(NamedTuple):
    """Of a partition at the end: the node that led it last, and the end of what is committed there."""

    node: int
    committed: int


def transaction_log(evidence: Evidence) -> TransactionLog:
    """What coordinators wrote down, of each partition as the node has it that led it last, as far as it is
    committed.

    That is up to the end of the shortest replica: what all replicas have is below the high watermark, or
    will be. Or up to the high watermark that the leader noted, where that is more (a replica was behind).
    """
    takes = evidence.table("takes")
    final = takes.filter(pc.equal(takes["why"], END)) if takes.num_rows else takes
    if not final.num_rows:
        return TransactionLog(missing="what the nodes had on disk at the end was not taken")
    take = pc.max(final["take"]).as_py()
    records: list[TransactionRecord] = []
    whole, missing = set(), []
    for tp in evidence.partitions():
        if tp.topic != TRANSACTION_TOPIC:
            continue
        leader = _leader(evidence, tp, take)
        if leader is None:
            missing.append(f"no node had {tp} at the end")
            continue
        found = _records(evidence, tp, take, leader)
        records += found
        if len({one.offset for one in found}) == leader.committed:
            whole.add(tp.partition)
        else:
            missing.append(f"{tp} of node {leader.node} lacks records below {leader.committed}")
    return TransactionLog(records=tuple(records), whole=frozenset(whole), missing="; ".join(missing))


def _leader(evidence: Evidence, tp: TopicPartition, take: int) -> _Leader | None:
    """The node with the newest leader epoch, which a leader notes when it begins to lead; of several, the
    one with most records. None = no node has the partition."""
    ends = dict.fromkeys(_column(_rows(evidence, "partitions", tp, take), "node"), 0)
    batches = _rows(evidence, "batches", tp, take)
    for node, last in zip(_column(batches, "node"), _column(batches, "last"), strict=True):
        ends[node] = max(ends[node], last + 1)
    epochs = dict.fromkeys(ends, -1)
    noted = _rows(evidence, "epochs", tp, take)
    for node, epoch in zip(_column(noted, "node"), _column(noted, "epoch"), strict=True):
        epochs[node] = max(epochs[node], epoch)
    if not ends:
        return None
    leader = max(ends, key=lambda node: (epochs[node], ends[node]))
    checkpoints = _rows(evidence, "ends", tp, take)
    high = checkpoints.filter(
        pc.and_(pc.equal(checkpoints["file"], HIGH_WATERMARKS), pc.equal(checkpoints["node"], leader))
    )
    return _Leader(leader, max(min(ends.values()), *_column(high, "value"), 0))


def _records(evidence: Evidence, tp: TopicPartition, take: int, leader: _Leader) -> list[TransactionRecord]:
    rows = _rows(evidence, "transaction_log", tp, take)
    mine = pc.and_(pc.equal(rows["node"], leader.node), pc.less(rows["offset"], leader.committed))
    return [_record(row) for row in rows.filter(mine).to_pylist() if row["opaque"] is None]


def _record(row: dict[str, Any]) -> TransactionRecord:
    """Of a row of `TRANSACTION_LOG`; without a state, it is a tombstone."""
    place = {name: row[name] for name in ("partition", "offset", "leader_epoch", "transactional_id")}
    if row["state"] is None:
        return TransactionRecord(**place, ms=row["timestamp"])
    return TransactionRecord(
        **place,
        ms=row["timestamp"],
        state=row["state"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        timeout_ms=row["timeout_ms"],
        partitions=tuple(f"{tp['topic']}-{tp['partition']}" for tp in row["partitions"] or ()),
        started_ms=row["start_ms"],
        updated_ms=row["last_update_ms"],
    )


def _rows(evidence: Evidence, table: str, tp: TopicPartition, take: int) -> pa.Table:
    rows = evidence.of(table, tp)
    return rows.filter(pc.equal(rows["take"], take))


def _column(rows: pa.Table, name: str) -> list[int]:
    found: list[int] = rows[name].to_pylist()
    return found
