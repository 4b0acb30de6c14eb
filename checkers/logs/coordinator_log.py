"""The transaction coordinators' log of a run (`__transaction_state`), read once.

Of each partition one copy counts (`elections.survivor`): findings and their labels rest on the log of the
same node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.logs.elections import Elections, elections, survivor
from checkers.logs.replicas import ReplicaLog, last_take, replicas
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import END
from history.tables import TableRow

Row = TableRow


class CoordinatorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record.

    partition, offset: its place. ms: its time by the coordinator's clock, since 1970. leader_epoch: of the
    leader that appended it, -1 unknown. state: by Kafka's name (`Ongoing`, `PrepareCommit`, …), "" = a
    tombstone, which has nothing beside the id. partitions: of the transaction, as `topic-partition`.
    started_ms, updated_ms: of the transaction and of its newest change, -1 = none.
    """

    partition: int
    offset: int
    ms: int
    leader_epoch: int
    transactional_id: str
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    partitions: tuple[str, ...] = ()
    started_ms: int = -1
    updated_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """A partition of the log, as the copy has it that counts.

    log: that copy. lineage: of its leaders. committed: offset up to which it is committed at least. rows: its
    records as rows of `TRANSACTION_LOG`, in order. lost: those that only other copies have, each once.
    """

    log: ReplicaLog
    lineage: Elections
    committed: int
    rows: Sequence[Row]
    lost: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class CoordinatorLog:
    """The log, as far as it is known.

    kept: its partitions, None = no node had one at the end. records: what is committed of them, by partition
    and offset. whole: partitions without a gap in these. missing: what is not known, and why; "" = nothing.
    """

    kept: Mapping[TopicPartition, KeptLog | None] = field(default_factory=dict)
    records: tuple[CoordinatorRecord, ...] = ()
    whole: frozenset[int] = frozenset()
    missing: str = ""


def coordinator_log(evidence: Evidence) -> CoordinatorLog:
    """What coordinators wrote down, of each partition as a clean leader has it at the end."""
    kept = {tp: _kept(evidence, tp) for tp in evidence.partitions() if tp.topic == TRANSACTION_TOPIC}
    records: list[CoordinatorRecord] = []
    whole, missing = set(), []
    for tp, one in kept.items():
        if one is None:
            missing.append(f"no node had {tp} at the end")
            continue
        found = [_record(row) for row in one.rows if row["offset"] < one.committed and row["opaque"] is None]
        records += found
        if len({record.offset for record in found}) == one.committed:
            whole.add(tp.partition)
        else:
            missing.append(f"{tp} of node {one.log.node} lacks records below {one.committed}")
    if END not in evidence.table("takes")["why"].to_pylist():
        missing = ["what the nodes had on disk at the end was not taken"]
    return CoordinatorLog(
        kept=kept, records=tuple(records), whole=frozenset(whole), missing="; ".join(missing)
    )


def _kept(evidence: Evidence, tp: TopicPartition) -> KeptLog | None:
    """Committed is what is below the end of the shortest replica: what all replicas have is below the high
    watermark, or will be. Or up to the high watermark that the leader noted, where that is more (a replica
    was behind)."""
    logs, lineage = replicas(evidence, tp), elections(evidence, tp)
    log = survivor(logs, lineage)
    if log is None:
        return None
    rows = evidence.of("transaction_log", tp)
    mine = pc.and_(pc.equal(rows["take"], log.take), pc.equal(rows["node"], log.node))
    own = rows.filter(mine)
    return KeptLog(
        log=log,
        lineage=lineage,
        committed=max(min(one.end for one in last_take(logs)), log.high_watermark, 0),
        rows=own.to_pylist(),
        lost=_lost(own, rows.filter(pc.invert(mine))),
    )


def _lost(own: pa.Table, others: pa.Table) -> list[Row]:
    """Records of other logs that are not in the one that was kept, in order. Few are: only these become
    rows."""
    others = others.filter(pc.is_valid(others["state"]))
    places = others.select(_PLACE).append_column("row", pa.array(np.arange(others.num_rows)))
    missing = places.join(own.select(_PLACE), _PLACE, join_type="left anti")["row"]
    rows = others.take(missing.sort()).to_pylist()
    found = {(row["offset"], row["leader_epoch"]): row for row in rows}
    return [row for _, row in sorted(found.items(), key=itemgetter(0))]


_PLACE: Final = ["offset", "leader_epoch"]


def _record(row: Row) -> CoordinatorRecord:
    """Of a row of `TRANSACTION_LOG`; without a state, it is a tombstone."""
    place = {name: row[name] for name in ("partition", "offset", "leader_epoch", "transactional_id")}
    if row["state"] is None:
        return CoordinatorRecord(**place, ms=row["timestamp"])
    return CoordinatorRecord(
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
