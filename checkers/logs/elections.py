"""What the metadata log of KRaft, or the log of ZooKeeper, says of a partition: its leaders, epoch by epoch.

The states of the partition are those of `model.accepting`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from checkers.logs.metadata_rows import READ, Row, change, record, rows, state
from checkers.logs.power_losses import Heard, PowerLoss, heard_of, losses_of, outages, power_losses
from checkers.logs.replicas import ReplicaLog, last_take, newest, replicas
from checkers.logs.zookeeper_log import ZooKeeperLog, zookeeper_log
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import END, METADATA_LOG
from model.accepting import partition_state
from model.accepting.metadata_records import Config
from model.protocol.messages import PartitionState

MIN_ISR: Final = "min.insync.replicas"
METADATA: Final = METADATA_LOG
NOTED_MS: Final[Mapping[str, int]] = {"replication": 15_000, "recovery-point": 75_000, "log-start": 75_000}
"""A broker that was in sync for so long has written its checkpoint again: high watermarks each 5 s
(`replica.high.watermark.checkpoint.interval.ms`), the others each minute. 10 s more, for a broker that is
paused, or whose directory fails, is in sync until the controller notes that."""


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

    unknown: why the metadata log does not tell all of them, "" = it does. losses: of power, of replicas.
    minimum: the topic's min.insync.replicas, 1 where the metadata log does not have it; least: the lowest
    that it was. topics: how many topics had the name, one after the other. removed: the last of them was
    deleted. in_sync: the in-sync replicas at the end. states: the partition's states, each with its time
    (ms). offsets: of their records in the metadata log. heard: how far each disk had that log. by_zookeeper:
    it is ZooKeeper's log that tells.
    """

    found: Sequence[Election] = field(default=())
    unknown: str = ""
    losses: Sequence[PowerLoss] = field(default=())
    minimum: int = 1
    least: int = 1
    topics: int = 1
    removed: bool = False
    in_sync: frozenset[int] = frozenset()
    states: Sequence[tuple[int, PartitionState]] = field(default=(), repr=False)
    offsets: Sequence[int] = field(default=(), repr=False)
    heard: Heard = field(default_factory=dict, repr=False)
    by_zookeeper: bool = False

    @property
    def last(self) -> Election | None:
        """The newest one; None = there was none."""
        return self.found[-1] if self.found else None

    def epochs(self) -> set[int]:
        """Epochs that had a leader."""
        return {one.epoch for one in self.found if one.leader >= 0}

    def led_since(self, epoch: int) -> int:
        """The first epoch from which a leader has led on to this one. With ZooKeeper the epoch rises with
        each in-sync set that the controller writes, and a coordinator that remains leader keeps its own."""
        if not self.by_zookeeper:
            return epoch
        first, leader = epoch, -1
        for one in reversed(self.found):
            if one.epoch <= epoch and one.leader >= 0:
                if leader not in (-1, one.leader):
                    break
                first, leader = min(first, one.epoch), one.leader
        return first

    def in_sync_since(self) -> dict[int, float]:
        """Of each leader epoch: from when on its leader had as many replicas in sync as the lowest minimum
        asks for; infinity = never. Within an epoch a leader may not have heard yet of a smaller set: its
        first one counts on. Empty where that is unknown, or each leader is enough: the minimum is 1, or there
        is one replica."""
        most = max((len(state.replicas) for _, state in self.states), default=0)
        if self.unknown or self.topics > 1 or min(self.least, most) <= 1:
            return {}
        enough: dict[int, float] = {}
        for ms, one in self.states:
            few = len(one.isr) < min(self.least, len(one.replicas))
            first = enough.get(one.leader_epoch, inf)
            enough[one.leader_epoch] = first if few else min(first, ms)
        return enough

    def may_lose(self, *, after_epoch: int = -1, since_ms: float = 0) -> str:
        """Why records of this leader epoch, or an older one, that were committed may be gone, "" = they may
        not. since_ms: they were not there before, by the clock of the nodes. When a node lost its power, its
        disk does not tell."""
        if self.unknown:
            return self.unknown
        given = next((one.offset for one in self.found if one.epoch == after_epoch), -1)
        for outage in outages(self.losses):
            enough = len(outage.nodes) >= self.minimum
            if enough and outage.until > given and outage.until_ms >= since_ms:
                return _lost_power(outage.nodes)
        for one in self.found:
            if not one.clean and one.epoch > after_epoch and one.heard_ms >= since_ms:
                return _unclean(one)
        return ""

    def cut(self, *logs: ReplicaLog) -> str:
        """Why one of these logs may have lost its end, whatever others have, "" = none did: its node lost
        power before it was looked at, and was not in sync again by then."""
        for log in logs:
            heard, _ = self.heard.get((log.take, log.node), (-1, -1))
            mine = [loss for loss in self.losses if loss.node == log.node and loss.take <= log.take]
            if any(loss.until > heard for loss in mine):
                return _lost_power([log.node])
        return ""

    def behind(self, log: ReplicaLog, file: str) -> str:
        """Why a checkpoint may be of what a log had before, "" = it is not. file: of NOTED_MS.

        A log may have been cut since: by its leader, after an unclean election that the node had heard of, or
        after a loss of power of enough replicas, which had been looked at before; or by the node's own loss.
        Or it is a new one: the node gets a replica again, or the topic its name. The checkpoint keeps
        what it says until the broker writes it again.
        """
        if self.unknown:
            return self.unknown if log.died else self.cut(log)
        after = self._since_replica(log.node)
        if after is not None and not self._noted(log, file, after):
            return _former(log)
        for outage in outages(self.losses, before_take=log.take):
            if len(outage.nodes) >= self.minimum and not self._noted(log, file, outage.until):
                return _lost_power(outage.nodes)
        for loss in self.losses:
            mine = loss.node == log.node and loss.take <= log.take
            if mine and not self._noted(log, file, loss.until):
                return _lost_power([loss.node])
        heard, _ = self.heard.get((log.take, log.node), (inf, -1))
        for one in self.found:
            reached = not one.clean and one.offset <= heard
            if reached and not self._noted(log, file, one.offset):
                return _unclean(one)
        return ""

    def of_namesake(self, log: ReplicaLog, file: str) -> str:
        """Why a checkpoint may be of a topic that was deleted, and had the name before, "" = it is not. What
        it says of a replica that the node had of this one stays true, and a shutdown in order writes all.
        file: of NOTED_MS."""
        if log.clean or self.topics < 2 or not self.offsets or self._noted(log, file, self.offsets[0]):
            return ""
        return _former(log)

    def _since_replica(self, node: int) -> int | None:
        """Offset in the metadata log at which a node got its replica, None = it had none before."""
        has = [node in state.replicas for _, state in self.states]
        gets = [at for at, now in enumerate(has) if now and not (at and has[at - 1])]
        if len(gets) > 1 or (gets and self.topics > 1):
            return self.offsets[gets[-1]]
        return None

    def _noted(self, log: ReplicaLog, file: str, since: float) -> bool:
        """Whether the log's node has written a checkpoint since a metadata record: it stood in sync for long
        enough, as far as it had heard."""
        heard, heard_ms = self.heard.get((log.take, log.node), (-1, -1))
        begin: int | None = None
        for offset, (ms, one) in zip(self.offsets, self.states, strict=True):
            if offset < since or offset > heard:
                continue
            if begin is not None and ms - begin >= NOTED_MS[file]:
                return True
            begin = (ms if begin is None else begin) if log.node in one.isr else None
        return begin is not None and heard_ms - begin >= NOTED_MS[file]

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


def _former(log: ReplicaLog) -> str:
    return f"node {log.node} had a log of that name before, and its checkpoint may be of that one"


def _lost_power(nodes: Iterable[int]) -> str:
    many = sorted(nodes)
    return f"node{'s' * (len(many) > 1)} {', '.join(map(str, many))} lost power"


def _unclean(one: Election) -> str:
    return f"the election of leader epoch {one.epoch} was unclean"


class _StateSeen(NamedTuple):
    """A state of a partition, with offset and time of the change that made it. first: a controller made it of
    nothing."""

    offset: int
    ms: int
    state: PartitionState
    first: bool


class _Minimums(NamedTuple):
    """The topic's own min.insync.replicas, 1 where it has none: the last, the lowest."""

    last: int
    least: int

    @classmethod
    def of(cls, values: Sequence[tuple[int, int]], begun: int | None) -> "_Minimums":
        """values: each with its place in the log. begun: where the partitions were made; a value that came
        later was not in force before."""
        from_the_begin = bool(values) and begun is not None and values[0][0] < begun
        least = min(value for _, value in values) if from_the_begin else 1
        return cls(values[-1][1] if values else 1, least)


def elections(evidence: Evidence, tp: TopicPartition) -> Elections:
    """The leaders that the newest metadata log at the end of the run, or the log of ZooKeeper, gives to a
    partition."""
    losses = evidence.once(power_losses)
    if tp == METADATA:
        why = "the quorum of the controllers elects its leader itself"
        return Elections(unknown=why, losses=losses)
    if (znodes := evidence.once(zookeeper_log)) is not None:
        return _by_zookeeper(znodes, tp, losses)
    log = evidence.once(newest_log)
    if log is None:
        return Elections(unknown="the evidence has no whole metadata log", losses=losses)
    named = log.filter(pc.and_(pc.equal(log["topic"], tp.topic), pc.equal(log["name"], "TopicRecord")))
    ids = named["topic_id"].to_pylist()
    if not ids:
        return Elections(unknown=f"the metadata log has no topic {tp.topic}", losses=losses)
    mine = log.filter(pc.equal(log["topic_id"], ids[-1]))
    removed = "RemoveTopicRecord" in mine["name"].to_pylist()
    looks = [*_replayed(mine.filter(pc.equal(mine["partition"], tp.partition)), tp)]
    return _made(
        looks,
        losses=losses_of(evidence, log, [one[:3] for one in looks]),
        minimums=_minimums(log, tp.topic, ids),
        topics=len(ids),
        removed=removed,
        heard=evidence.once(heard_of),
    )


def _by_zookeeper(log: ZooKeeperLog, tp: TopicPartition, losses: Sequence[PowerLoss]) -> Elections:
    """No disk of a broker has that log: how far one had heard of it is not known."""
    if tp in log.unread:
        return Elections(unknown=f"a znode of {tp} cannot be read", losses=losses)
    if tp not in log.states:
        return Elections(unknown=f"the log of ZooKeeper has no partition {tp}", losses=losses)
    looks = [_StateSeen(one.zxid, one.ms, one.state, first=at == 0) for at, one in enumerate(log.states[tp])]
    settings = log.settings.get(tp.topic, ())
    values = [(zxid, _minimum(one.get(MIN_ISR))) for zxid, one in settings]
    replicas = {node for one in looks for node in one.state.replicas}
    return _made(
        looks,
        losses=[loss for loss in losses if loss.node in replicas],
        minimums=_Minimums.of(values, looks[0].offset),
        topics=log.topics.get(tp.topic, 1),
        removed=tp.topic in log.removed,
        heard={},
        by_zookeeper=True,
    )


def _made(
    looks: Sequence[_StateSeen],
    losses: Sequence[PowerLoss],
    minimums: _Minimums,
    topics: int,
    removed: bool,
    heard: Heard,
    by_zookeeper: bool = False,
) -> Elections:
    return Elections(
        found=_elected(looks),
        losses=losses,
        minimum=minimums.last,
        least=minimums.least,
        topics=topics,
        removed=removed,
        in_sync=frozenset(looks[-1].state.isr if looks else ()),
        states=[(one.ms, one.state) for one in looks],
        offsets=[one.offset for one in looks],
        heard=heard,
        by_zookeeper=by_zookeeper,
    )


def _minimums(metadata: pa.Table, topic: str, ids: Sequence[str]) -> _Minimums:
    """By a metadata log. ids: of all topics that had the name, the last one's at the end: those before took
    their settings with them."""
    older = pc.is_in(metadata["topic_id"], pa.array(ids[:-1], pa.string()))
    removed = metadata.filter(pc.and_(older, pc.equal(metadata["name"], "RemoveTopicRecord")))
    since = pc.max(removed["offset"]).as_py() or 0
    own = pc.and_(pc.equal(metadata["name"], "ConfigRecord"), pc.greater_equal(metadata["offset"], since))
    configs = metadata.filter(own)
    found = [(row.offset, one) for row in rows(configs) if isinstance(one := record(row, {}), Config)]
    values = [(at, _minimum(one.value)) for at, one in found if (one.topic, one.name) == (topic, MIN_ISR)]
    made = pc.and_(pc.equal(metadata["topic_id"], ids[-1]), pc.equal(metadata["name"], "PartitionRecord"))
    return _Minimums.of(values, pc.min(metadata.filter(made)["offset"]).as_py())


def _minimum(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 1


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


def _replayed(table: pa.Table, tp: TopicPartition) -> Iterator[_StateSeen]:
    """The states of a partition by its records in the metadata log."""
    before: PartitionState | None = None
    for row in rows(table):
        if (after := _after(row, before, tp)) is not None:
            yield _StateSeen(row.offset, row.timestamp, after, row.name == "PartitionRecord")
            before = after


def _elected(looks: Sequence[_StateSeen]) -> list[Election]:
    """The elections by all states of a partition."""
    found: list[Election] = []
    before: PartitionState | None = None
    leader = -1
    replaced: dict[int, int] = {}  # epoch -> the leader before it
    for offset, ms, after, first in looks:
        if before is None or after.leader_epoch != before.leader_epoch:
            how = partition_state.election(before, after) if before else partition_state.ElectionKind.NONE
            clean = first or how is not partition_state.ElectionKind.UNCLEAN
            replaced[after.leader_epoch] = leader
            leader = after.leader if after.leader >= 0 else leader
            found.append(
                Election(epoch=after.leader_epoch, leader=after.leader, clean=clean, offset=offset, ms=ms)
            )
        before = after
    states = [(one.ms, one.state) for one in looks]
    return [replace(one, heard_ms=_heard(states, one.epoch, replaced[one.epoch])) for one in found]


def _heard(states: Sequence[tuple[int, PartitionState]], epoch: int, node: int) -> float:
    """When a node was in sync in this leader epoch or a later one, infinity = never."""
    return next((ms for ms, one in states if one.leader_epoch >= epoch and node in one.isr), inf)


def _after(row: Row, before: PartitionState | None, tp: TopicPartition) -> PartitionState | None:
    """What a PartitionRecord or PartitionChangeRecord makes of the partition's state, None = nothing."""
    if row.name == "PartitionRecord":
        return state(row)
    return None if before is None else change(row, (tp.topic, tp.partition)).after(before)
