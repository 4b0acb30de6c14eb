"""What the metadata log of KRaft says of one partition: its leaders, epoch by epoch.

A PartitionChangeRecord has no leader epoch: the epoch rises by one where the record names a leader
(`PartitionRegistration.merge`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.op import TopicPartition
from history.evidence import END, LOST_POWER, Evidence

METADATA: Final = TopicPartition("__cluster_metadata", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A leader epoch of a partition. leader: -1 = none. clean: the leader was in sync, or eligible, or the
    last known one (KIP-966) before: it has all that was committed, if no node lost power. offset, ms: of the
    record in the metadata log."""

    epoch: int
    leader: int
    clean: bool
    offset: int
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elections:
    """The leaders of a partition in the order of their epochs.

    unknown: why the metadata log does not tell all of them, "" = it does. power: a node lost power in the
    run. topics: how many topics had the name, one after the other. removed: the last of them was deleted.
    in_sync: the in-sync replicas at the end.
    """

    found: Sequence[Election] = field(default=())
    unknown: str = ""
    power: bool = False
    topics: int = 1
    removed: bool = False
    in_sync: frozenset[int] = frozenset()

    @property
    def last(self) -> Election | None:
        """The newest one; None = there was none."""
        return self.found[-1] if self.found else None

    def epochs(self) -> set[int]:
        """Epochs that had a leader."""
        return {one.epoch for one in self.found if one.leader >= 0}

    def may_lose(self, after_epoch: int) -> str:
        """Why records of this leader epoch, or an older one, that were committed may be gone, "" = they may
        not."""
        if self.unknown:
            return self.unknown
        if self.power:
            return "nodes lost power"
        for one in self.found:
            if not one.clean and one.epoch > after_epoch:
                return f"the election of leader epoch {one.epoch} was unclean"
        return ""

    def without_leader(self, since_ms: int, until_ms: int) -> str:
        """A time without a leader in between, in words; "" = there was a leader at all times, or it is
        unknown."""
        ends = [one.ms for one in self.found[1:]] + [until_ms]
        for one, end in zip(self.found, ends, strict=True):
            if one.leader < 0 and one.ms <= until_ms and end >= since_ms:
                return f"in leader epoch {one.epoch}, from {one.ms} to {end} ms, the partition had no leader"
        return ""


def elections(evidence: Evidence, tp: TopicPartition) -> Elections:
    """The leaders that the newest metadata log at the end of the run gave to a partition."""
    takes = evidence.table("takes")
    power = LOST_POWER in takes["why"].to_pylist()
    if tp == METADATA:
        return Elections(unknown="the quorum of the controllers elects its leader itself", power=power)
    rows = newest_log(evidence)
    if rows is None:
        return Elections(unknown="the evidence has no whole metadata log", power=power)
    named = rows.filter(pc.and_(pc.equal(rows["topic"], tp.topic), pc.equal(rows["name"], "TopicRecord")))
    ids = named["topic_id"].to_pylist()
    if not ids:
        return Elections(unknown=f"the metadata log has no topic {tp.topic}", power=power)
    mine = rows.filter(pc.equal(rows["topic_id"], ids[-1]))
    removed = "RemoveTopicRecord" in mine["name"].to_pylist()
    changes = mine.filter(pc.equal(mine["partition"], tp.partition))
    found, in_sync = _replayed(changes)
    return Elections(found=found, power=power, topics=len(ids), removed=removed, in_sync=frozenset(in_sync))


def newest_log(evidence: Evidence) -> pa.Table | None:
    """The metadata records of the node whose log has the newest epoch, and of these the longest: it has all
    that is committed (Raft, 5.4). In order; None = there is none that begins at offset 0."""
    rows = evidence.table("metadata")
    rows = rows.filter(pc.equal(rows["snapshot"], -1))
    ends = {(row["take"], row["node"]) for row in evidence.table("takes").to_pylist() if row["why"] == END}
    best: tuple[int, int, int, int] | None = None
    groups = rows.group_by(["take", "node"]).aggregate([("leader_epoch", "max"), ("offset", "max")])
    for row in groups.to_pylist():
        if (row["take"], row["node"]) in ends:
            mine = row["leader_epoch_max"], row["offset_max"], row["take"], row["node"]
            best = max(best, mine) if best else mine
    if best is None:
        return None
    _, _, take, node = best
    starts = evidence.of("partitions", METADATA).to_pylist()
    if any(row["start"] > 0 and (row["take"], row["node"]) == (take, node) for row in starts):
        return None
    return rows.filter(pc.and_(pc.equal(rows["take"], take), pc.equal(rows["node"], node)))


def _replayed(rows: pa.Table) -> tuple[list[Election], Sequence[int]]:
    """The elections, and who is in sync in the end."""
    columns = ["name", "offset", "timestamp", "leader", "partition_leader_epoch", *_SETS]
    found: list[Election] = []
    leader, epoch = -1, -1
    known: dict[str, Sequence[int]] = dict.fromkeys(_SETS, ())
    for row in rows.select(columns).to_pylist():
        whole = row["name"] == "PartitionRecord"
        if not whole and row["name"] != "PartitionChangeRecord":
            continue
        moved = row["leader"] not in (None, -2)
        chosen = row["leader"] if moved else leader
        given = row["partition_leader_epoch"]
        after = given if given is not None else epoch + moved
        if after != epoch:
            clean = whole or chosen < 0 or any(chosen in (leader, *some) for some in known.values())
            one = Election(epoch=after, leader=chosen, clean=clean, offset=row["offset"], ms=row["timestamp"])
            found.append(one)
        leader, epoch = chosen, after
        known |= {name: row[name] for name in _SETS if row[name] is not None}
    return found, known["isr"]


_SETS: Final = ("isr", "elr", "last_known_elr")
