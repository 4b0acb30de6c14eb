"""The transaction coordinators' log of a run, as far as it is committed at the end.

It is the copy that the rules about logs judge (`elections.survivor`): a finding and its label rest on the log
of the same node.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow.compute as pc

from checkers.logs.elections import elections, survivor
from checkers.logs.replicas import Replica, last_take, replicas
from core.cluster import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import END, Evidence


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


class CoordinatorLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log, as far as it is known.

    records: by partition and offset. whole: partitions without a gap, up to the high watermark. missing: what
    is not known, and why; "" = nothing.
    """

    records: tuple[TransactionRecord, ...] = ()
    whole: frozenset[int] = frozenset()
    missing: str = ""


def coordinator_log(evidence: Evidence) -> CoordinatorLog:
    """What coordinators wrote down, of each partition as the log has it that a clean leader has at the end,
    as far as it is committed.

    That is up to the end of the shortest replica: what all replicas have is below the high watermark, or
    will be. Or up to the high watermark that the leader noted, where that is more (a replica was behind).
    """
    if END not in evidence.table("takes")["why"].to_pylist():
        return CoordinatorLog(missing="what the nodes had on disk at the end was not taken")
    records: list[TransactionRecord] = []
    whole, missing = set(), []
    for tp in evidence.partitions():
        if tp.topic != TRANSACTION_TOPIC:
            continue
        logs = replicas(evidence, tp)
        log = survivor(logs, elections(evidence, tp))
        if log is None:
            missing.append(f"no node had {tp} at the end")
            continue
        committed = max(min(one.end for one in last_take(logs)), log.high_watermark, 0)
        found = _records(evidence, tp, log, committed)
        records += found
        if len({one.offset for one in found}) == committed:
            whole.add(tp.partition)
        else:
            missing.append(f"{tp} of node {log.node} lacks records below {committed}")
    return CoordinatorLog(records=tuple(records), whole=frozenset(whole), missing="; ".join(missing))


def _records(
    evidence: Evidence, tp: TopicPartition, log: Replica, committed: int
) -> Sequence[TransactionRecord]:
    rows = evidence.of("transaction_log", tp)
    own = pc.and_(pc.equal(rows["take"], log.take), pc.equal(rows["node"], log.node))
    mine = rows.filter(pc.and_(own, pc.less(rows["offset"], committed)))
    return [_record(row) for row in mine.to_pylist() if row["opaque"] is None]


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
