"""What the metadata log of KRaft says of one partition: its leaders, epoch by epoch.

The states of the partition are those of `model.accepting`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from checkers.logs.metadata_rows import READ, Row, change, record, rows, state
from checkers.logs.replicas import ReplicaLog, last_take, newest, replicas
from core.op import TopicPartition
from history.evidence import END, LOST_POWER, METADATA_LOG, Evidence
from model.accepting import partition_state
from model.accepting.metadata_records import Config
from model.protocol.messages import PartitionState

MIN_ISR: Final = "min.insync.replicas"
METADATA: Final = METADATA_LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A leader epoch of a partition. leader: -1 = none. clean: the leader was in sync, or eligible, or the
    last known one (KIP-966) before: it has all that was committed, if no node lost power. offset, ms: of the
    record in the metadata log. heard_ms: when the leader that it replaced was in sync again (infinity:
    never): until then that one may not have heard of it, and still have answered."""

    epoch: int
    leader: int
    clean: bool
    offset: int
    ms: int
    heard_ms: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Elections:
    """The leaders of a partition in the order of their epochs.

    unknown: why the metadata log does not tell all of them, "" = it does. powerless: replicas that lost power
    in the run. together: the most of them that were out at one time. minimum: the topic's
    min.insync.replicas, 1 where the metadata log does not have it. topics: how many topics had the name, one
    after the other. removed: the last of them was deleted. in_sync: the in-sync replicas at the end. states:
    the partition's states, each with its time (ms).
    """

    found: Sequence[Election] = field(default=())
    unknown: str = ""
    powerless: frozenset[int] = frozenset()
    together: frozenset[int] = frozenset()
    minimum: int = 1
    topics: int = 1
    removed: bool = False
    in_sync: frozenset[int] = frozenset()
    states: Sequence[tuple[int, PartitionState]] = field(default=(), repr=False)

    @property
    def last(self) -> Election | None:
        """The newest one; None = there was none."""
        return self.found[-1] if self.found else None

    def epochs(self) -> set[int]:
        """Epochs that had a leader."""
        return {one.epoch for one in self.found if one.leader >= 0}

    def may_lose(self, *, after_epoch: int = -1, since_ms: float = 0) -> str:
        """Why records of this leader epoch, or an older one, that were committed may be gone, "" = they may
        not. since_ms: they were not there before, by the clock of the nodes. When a node lost its power, its
        disk does not tell."""
        if self.unknown:
            return self.unknown
        if len(self.together) >= self.minimum:
            return f"nodes {', '.join(map(str, sorted(self.together)))} lost power"
        for one in self.found:
            if not one.clean and one.epoch > after_epoch and one.heard_ms >= since_ms:
                return f"the election of leader epoch {one.epoch} was unclean"
        return ""

    def cut(self, *logs: ReplicaLog) -> str:
        """Why one of these logs may have lost its end, whatever others have, "" = none did."""
        lost = sorted({log.node for log in logs} & self.powerless)
        return f"node {lost[0]} lost power" if lost else ""

    def returned(self, log: ReplicaLog) -> str:
        """Why the high watermark of a log that a death left may be that of another log, "" = it is not.

        A node that gets a replica again begins a new log. Its checkpoint keeps what it says of the log before
        until it is written again (`replica.high.watermark.checkpoint.interval.ms`, 5 s).
        """
        times = sum(has for has, _ in groupby(self.states, lambda state: log.node in state[1].replicas))
        if not log.died or times < 2:
            return ""
        return f"node {log.node} was a replica before, and its checkpoint may be of the log that it had then"

    def lacks(self, log: ReplicaLog) -> str:
        """Why the log that was judged may lack records that are committed and not lost, "" = it may not."""
        if log.count < len(log.every["base"]):
            return f"a part of the log of {log.where()} cannot be read"
        if self.in_sync and log.node not in self.in_sync:
            return f"{log.where()} was not in sync, and no in-sync replica was looked at"
        return ""

    def without_leader(self, since_ms: int, until_ms: int) -> str:
        """A time without a leader in between, in words; "" = there was a leader at all times, or it is
        unknown."""
        ends = [*(one.ms for one in self.found[1:]), until_ms]
        for one, end in zip(self.found, ends, strict=False):  # without a metadata log none is found
            if one.leader < 0 and one.ms <= until_ms and end >= since_ms:
                return f"in leader epoch {one.epoch}, from {one.ms} to {end} ms, the partition had no leader"
        return ""


def elections(evidence: Evidence, tp: TopicPartition) -> Elections:
    """The leaders that the newest metadata log at the end of the run gave to a partition."""
    takes = evidence.table("takes")
    powerless = frozenset(row["node"] for row in takes.to_pylist() if row["why"] == LOST_POWER)
    if tp == METADATA:
        why = "the quorum of the controllers elects its leader itself"
        return Elections(unknown=why, powerless=powerless)
    log = evidence.once(newest_log)
    if log is None:
        return Elections(unknown="the evidence has no whole metadata log", powerless=powerless)
    named = log.filter(pc.and_(pc.equal(log["topic"], tp.topic), pc.equal(log["name"], "TopicRecord")))
    ids = named["topic_id"].to_pylist()
    if not ids:
        return Elections(unknown=f"the metadata log has no topic {tp.topic}", powerless=powerless)
    mine = log.filter(pc.equal(log["topic_id"], ids[-1]))
    removed = "RemoveTopicRecord" in mine["name"].to_pylist()
    changes = mine.filter(pc.equal(mine["partition"], tp.partition))
    found, states, offsets = _replayed(changes, tp)
    mine_powerless = powerless.intersection(
        node for _, one in states for node in (*one.replicas, *one.isr, one.leader)
    )
    looks = [(offset, one) for offset, (_, one) in zip(offsets, states, strict=True)]
    return Elections(
        found=found,
        powerless=mine_powerless,
        together=_together(evidence, log, looks, mine_powerless),
        minimum=_minimum(log, tp.topic),
        topics=len(ids),
        removed=removed,
        in_sync=frozenset(states[-1][1].isr if states else ()),
        states=states,
    )


def _together(
    evidence: Evidence,
    log: pa.Table,
    states: Sequence[tuple[int, PartitionState]],
    powerless: Collection[int],
) -> frozenset[int]:
    """The most replicas that were out at one time, after losses of power. states: with their offsets.

    One is out from the last metadata record that its disk had when it was looked at, until it stands in
    sync again after it registered again, and was not in sync meanwhile.
    """
    every = evidence.table("metadata")
    spans: list[tuple[int, float, int]] = []
    for row in evidence.table("takes").to_pylist():
        if row["why"] == LOST_POWER and row["node"] in powerless:
            disk = pc.and_(pc.equal(every["node"], row["node"]), pc.equal(every["take"], row["take"]))
            had = pc.max(every.filter(disk)["offset"]).as_py()
            until = inf if had is None else _back(log, states, row["node"], had)
            spans.append((-1 if had is None else had, until, row["node"]))
    most: frozenset[int] = frozenset()
    for at, _, _ in spans:
        out = frozenset(node for since, until, node in spans if since <= at < until)
        most = max(most, out, key=len)
    return most


def _back(log: pa.Table, states: Sequence[tuple[int, PartitionState]], node: int, since: int) -> float:
    """The offset in the metadata log at which a node was in sync again, infinity = never."""
    registered = log.filter(
        pc.and_(pc.equal(log["name"], "RegisterBrokerRecord"), pc.equal(log["broker"], node))
    )["offset"].to_pylist()
    again = min((offset for offset in registered if offset > since), default=None)
    if again is None:
        return inf
    before = [one for offset, one in states if offset <= again]
    out = bool(before) and node not in before[-1].isr
    for offset, one in states:
        if offset > again:
            if out and node in one.isr:
                return offset
            out = out or node not in one.isr
    return inf


def _minimum(metadata: pa.Table, topic: str) -> int:
    """The topic's own min.insync.replicas, by a metadata log; 1 where it does not have it."""
    configs = metadata.filter(pc.equal(metadata["name"], "ConfigRecord"))
    found = [one for row in rows(configs) if isinstance(one := record(row, {}), Config)]
    values = [one.value for one in found if (one.topic, one.name) == (topic, MIN_ISR)]
    last = (values[-1] if values else None) or ""
    return int(last) if last.isdecimal() else 1


def partition_count(evidence: Evidence, topic: str) -> int:
    """How many partitions a topic has, 0 = unknown. Without a metadata log the directories tell it, if they
    are those of all nodes: so they have to be the first ones without a gap."""
    if evidence.table("metadata").num_rows:
        log = evidence.once(newest_log)
        return _created(log, topic) if log is not None else 0
    numbers = {one.partition for one in evidence.partitions() if one.topic == topic}
    return len(numbers) if numbers == {*range(len(numbers))} else 0


def _created(log: pa.Table, topic: str) -> int:
    """How many partitions a metadata log gives to the last topic of this name."""
    created = pc.and_(pc.equal(log["topic"], topic), pc.equal(log["name"], "TopicRecord"))
    ids = log.filter(created)["topic_id"].to_pylist()
    if not ids:
        return 0
    mine = pc.and_(pc.equal(log["topic_id"], ids[-1]), pc.equal(log["name"], "PartitionRecord"))
    return len(set(log.filter(mine)["partition"].to_pylist()))


def newest_log(evidence: Evidence) -> pa.Table | None:
    """The metadata records of the node whose log has the newest epoch, and of these the longest: it has all
    that is committed (Raft, 5.4). In order; None = there is none that begins at offset 0 and can be read to
    its end."""
    every = evidence.table("metadata")
    every = every.filter(pc.equal(every["snapshot"], -1))
    broken = {(log.take, log.node): log.broken for log in replicas(evidence, METADATA) if log.broken >= 0}
    for (take, node), since in broken.items():
        mine = pc.and_(pc.equal(every["take"], take), pc.equal(every["node"], node))
        every = every.filter(pc.invert(pc.and_(mine, pc.greater_equal(every["offset"], since))))
    ends = {(row["take"], row["node"]) for row in evidence.table("takes").to_pylist() if row["why"] == END}
    best: tuple[int, int, int, int] | None = None
    groups = every.group_by(["take", "node"]).aggregate([("leader_epoch", "max"), ("offset", "max")])
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
    found = every.filter(pc.and_(pc.equal(every["take"], take), pc.equal(every["node"], node)))
    opaque = found.filter(pc.is_valid(found["opaque"]))["name"].to_pylist()
    return None if (take, node) in broken or READ & {*opaque} else found


def survivor(logs: Sequence[ReplicaLog], lineage: Elections) -> ReplicaLog | None:
    """The log that a clean leader has at the end of the run: the newest one of an in-sync replica; of any,
    where no in-sync one was taken or the metadata log does not tell who is."""
    last = last_take(logs)
    return newest([log for log in last if log.node in lineage.in_sync] or last)


def _replayed(
    table: pa.Table, tp: TopicPartition
) -> tuple[list[Election], list[tuple[int, PartitionState]], list[int]]:
    """The elections, all states with their times, and the offsets of these."""
    offsets: list[int] = []
    found: list[Election] = []
    states: list[tuple[int, PartitionState]] = []
    before: PartitionState | None = None
    leader = -1
    replaced: dict[int, int] = {}  # epoch -> the leader before it
    for row in rows(table):
        if (after := _after(row, before, tp)) is None:
            continue
        if before is None or after.leader_epoch != before.leader_epoch:
            how = partition_state.election(before, after) if before else partition_state.ElectionKind.NONE
            clean = row.name == "PartitionRecord" or how is not partition_state.ElectionKind.UNCLEAN
            replaced[after.leader_epoch] = leader
            leader = after.leader if after.leader >= 0 else leader
            found.append(
                Election(
                    epoch=after.leader_epoch,
                    leader=after.leader,
                    clean=clean,
                    offset=row.offset,
                    ms=row.timestamp,
                )
            )
        before = after
        states.append((row.timestamp, after))
        offsets.append(row.offset)
    found = [replace(one, heard_ms=_heard(states, one.epoch, replaced[one.epoch])) for one in found]
    return found, states, offsets


def _heard(states: Sequence[tuple[int, PartitionState]], epoch: int, node: int) -> float:
    """When a node was in sync in this leader epoch or a later one, infinity = never."""
    return next((ms for ms, one in states if one.leader_epoch >= epoch and node in one.isr), inf)


def _after(row: Row, before: PartitionState | None, tp: TopicPartition) -> PartitionState | None:
    """What a PartitionRecord or PartitionChangeRecord makes of the partition's state, None = nothing."""
    if row.name == "PartitionRecord":
        return state(row)
    return None if before is None else change(row, (tp.topic, tp.partition)).after(before)
