"""Where the replicas of new partitions were placed, against the placers of the model: KRaft's, and the one of
the time of ZooKeeper; and with what Kafka's own topics were created.

Only topics of the run and internal ones are looked at: others may have been created with replicas that
a client chose.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE, LogFinding
from checkers.internal_topics import MINIMUM, PARTITIONS, copies_set, minimum_set, partitions_set
from checkers.log_settings import COPIES, MIN_ISR
from checkers.logs.elections import METADATA, newest_log
from checkers.logs.metadata_rows import Row, record, rows
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import EphemeralZnode, TopicZnode, ZooKeeperLog, zookeeper_log
from core.config import RunConfig, recorded_config
from model.accepting.metadata_records import Config, LogImage
from model.metadata.replica_placer import assign
from model.metadata.striped_replica_placer import UsableBroker, place

STRIPED: Final = "placed-in-stripes"
SPREAD: Final = "placed-over-racks"
IN_TURN: Final = "placed-in-turn"
AS_SET: Final = "internal-replicas-as-set"
UNKNOWN: Final = -1
MOST_ORDERED: Final = 5
"""Brokers whose orders are all tried: which one Kafka takes them in is not on record."""
RULES: Final = {
    STRIPED: Rule(
        "Partitions that are created together are on the brokers on which Kafka's placer puts them, for some"
        " start that it drew, until it shuffles the brokers.",
        "KIP-36; StripedReplicaPlacer",
    ),
    SPREAD: Rule(
        "A new partition has its replicas on as many racks as there are, or as it has replicas, and its"
        " leader is not fenced.",
        "KIP-36; StripedReplicaPlacer",
    ),
    IN_TURN: Rule(
        "With ZooKeeper, the partitions of a new topic are on the brokers on which Kafka's placer puts them,"
        " for some order of the brokers, start and shift.",
        "KIP-36; AdminUtils.assignReplicasToBrokers",
    ),
    AS_SET: Rule(
        "Kafka creates a topic of its own with as many replicas and partitions as the brokers' settings ask"
        " for, or not at all; `__transaction_state` also with the min.insync.replicas that they say.",
        "KIP-98, KIP-115; transaction.state.log.replication.factor, transaction.state.log.num.partitions,"
        " transaction.state.log.min.isr, offsets.topic.replication.factor, offsets.topic.num.partitions,"
        " share.coordinator.state.topic.replication.factor, share.coordinator.state.topic.num.partitions",
    ),
}


class _Creation(NamedTuple):
    """Partitions that one request created, by their numbers, with their replicas. offset: of the first one.
    usable: the brokers that could get replicas, in each way that the log leaves open. minimum: the
    min.insync.replicas that the topic got, 0 = none (UNKNOWN)."""

    topic: str
    offset: int
    usable: Sequence[Sequence[UsableBroker]]
    placed: Sequence[tuple[int, tuple[int, ...]]]
    minimum: int


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module."""
    log, znodes = run.evidence.once(newest_log), run.evidence.once(zookeeper_log)
    own = {row["topic"] for row in run.tables["tps"].to_pylist()} if "tps" in run.tables else set()
    if not own:
        return  # who created the topics is not known
    topics = frozenset({*own, *COPIES})
    config = recorded_config(run.history.run.config) if run.history is not None else None
    made = [*_creations(list(rows(log)), topics)] if log is not None else []
    if znodes is not None:
        for creation in znodes.creations:
            if creation.topic in topics:
                _in_turn(creation, znodes, result)
    for one in made:
        _spread(one, result)
        _striped(one, result)
    if config is not None:
        _as_set(config, made, result)
        _as_set(config, _by_znodes(znodes), result, znodes=True)


CHECKS: Final = checks_of(RULES, ring=3, join=join)


def _creations(log: Sequence[Row], topics: frozenset[str]) -> Iterator[_Creation]:
    """What was created of these topics, in the order of the log."""
    names: dict[str, str] = {}
    racks: dict[int, str] = {}
    minimums: dict[str, int] = {}
    image = LogImage()
    for (name, topic_id), group in itertools.groupby(log, key=lambda row: (row.name, row.topic_id)):
        made = list(group)
        topic = names.get(topic_id or "", "")
        if name == "PartitionRecord" and topic in topics:
            placed = sorted((row.partition or 0, tuple(row.replicas or ())) for row in made)
            yield _Creation(topic, made[0].offset, _usable(image, racks), placed, minimums.get(topic, 0))
        for row in made:
            image.apply(one := record(row, names))
            if isinstance(one, Config) and one.name == MIN_ISR:
                minimums[one.topic] = _minimum(one.value)
            if name == "RegisterBrokerRecord" and row.broker is not None:
                racks[row.broker] = json.loads(row.body or "{}").get("rack") or ""


def _minimum(value: str | None) -> int:
    return int(value) if value and value.isdecimal() else 0


def _by_znodes(log: ZooKeeperLog | None) -> list[_Creation]:
    """What was created, by the log of ZooKeeper."""
    if log is None:
        return []
    return [
        _Creation(one.topic, one.zxid, (), sorted(one.replicas.items()), _first_minimum(one, log))
        for one in log.creations
    ]


def _first_minimum(one: TopicZnode, log: ZooKeeperLog) -> int:
    """Kafka writes a topic's settings before the topic. They are known of the newest of a name, and not where
    its znode has none, for it may not have been read."""
    before = [said for zxid, said in log.settings.get(one.topic, ()) if zxid < one.zxid]
    if log.topics.get(one.topic) != 1 or (before and not before[-1]):
        return UNKNOWN
    return _minimum(before[-1].get(MIN_ISR)) if before else 0


def _as_set(config: RunConfig, created: Iterable[_Creation], result: Tally, *, znodes: bool = False) -> None:
    """znodes: the offsets are zxids. An administrator may change later what a topic has: the first partitions
    of a name count alone, and what it was set to then."""
    first = {one.topic: one for one in reversed([*created]) if one.topic in COPIES}
    for topic, one in first.items():
        if copies := copies_set(config, topic):
            result.asked[AS_SET] += len(one.placed)
            for number, replicas in one.placed:
                if len(replicas) != copies:
                    _refuse(AS_SET, one, number, f"{COPIES[topic]} is {copies}", result, znodes=znodes)
        for name, wanted, got, of in (
            (PARTITIONS[topic], partitions_set(config, topic), len(one.placed) or UNKNOWN, "partitions"),
            (MINIMUM, minimum_set(config, topic), one.minimum, f"as {MIN_ISR}"),
        ):
            if not wanted or got == UNKNOWN:
                continue
            result.asked[AS_SET] += 1
            if got != wanted:
                text = f"{topic} is created with {got or 'none'} {of}; {name} is {wanted}"
                _refuse_creation(AS_SET, one, text, result, znodes=znodes)


def _usable(image: LogImage, racks: Mapping[int, str]) -> list[list[UsableBroker]]:
    """A broker that shuts down in order gets no replicas. A controller forgets that it does as it fences it
    (BrokerHeartbeatManager.touch); another one learns it only with its next heartbeat."""
    brokers = [UsableBroker(n, racks.get(n, ""), one.fenced) for n, one in image.brokers.items()]
    leaving = sorted(n for n, one in image.brokers.items() if one.leaving and not one.fenced)
    return [
        [one for one in brokers if one.broker not in without]
        for count in range(len(leaving), -1, -1)
        for without in itertools.combinations(leaving, count)
    ]


def _spread(one: _Creation, result: Tally) -> None:
    every = one.usable[-1]
    racks, fenced = {b.broker: b.rack for b in every}, {b.broker for b in every if b.fenced}
    least = min(len({broker.rack for broker in usable}) for usable in one.usable)
    result.asked[SPREAD] += len(one.placed)
    for number, replicas in one.placed:
        on = len({racks.get(broker) for broker in replicas})
        if on < min(len(replicas), least):
            _refuse(SPREAD, one, number, f"that is {on} of {least} racks", result)
        elif replicas[0] in fenced:
            _refuse(SPREAD, one, number, f"broker {replicas[0]} is fenced", result)


def _striped(one: _Creation, result: Tally) -> None:
    lead = min(sum(not broker.fenced for broker in usable) for usable in one.usable)
    first = one.placed[: max(lead, 1)]
    placed = tuple(replicas for _, replicas in first)
    result.asked[STRIPED] += len(first)
    if not any(placed in _stripes(usable, len(placed), len(placed[0])) for usable in one.usable):
        before = "; ".join(_told(replicas) for _, replicas in first[:-1])
        why = f"the placer does that from no start, where it put the ones before on {before or 'none'}"
        _refuse(STRIPED, one, first[-1][0], why, result)


def _stripes(
    usable: Sequence[UsableBroker], partitions: int, replication: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """What the placer may make of partitions, by what it draws; nothing where there are too few brokers."""
    if replication > len(usable) or all(broker.fenced for broker in usable):
        return
    sizes: list[int] = []

    def note(size: int) -> int:
        sizes.append(size)
        return 0

    yield place(usable, partitions=partitions, replication=replication, draw=note)
    for drawn in itertools.product(*map(range, sizes)):
        draw = partial(_next, iter(drawn))
        yield place(usable, partitions=partitions, replication=replication, draw=draw)


def _in_turn(one: TopicZnode, log: ZooKeeperLog, result: Tally) -> None:
    placed = tuple(one.replicas[number] for number in sorted(one.replicas))
    if not placed or len({len(replicas) for replicas in placed}) > 1:
        return
    sets = {frozenset(_racks(log.brokers, ms).items()) for ms in _moments(log.brokers, one.ms)}
    if max(map(len, sets), default=0) > MOST_ORDERED:
        return
    result.asked[IN_TURN] += len(placed)
    if any(placed in _turns(dict(racks), len(placed), len(placed[0])) for racks in sets):
        return
    on = "; ".join(_told(replicas) for replicas in placed)
    text = (
        f"at zxid {one.zxid:#x} of ZooKeeper: {one.topic} is created on {on}; from no start the placer does"
    )
    result.refuse(LogFinding(check=IN_TURN, log=NOWHERE, offset=-1, take=-1, nodes=(), text=text))


def _moments(brokers: Sequence[EphemeralZnode], until: int) -> list[int]:
    """When brokers came or went, up to a time: a controller places topics by what its own process heard of
    the controllers before, which may have been cut off from it, until it has said itself who lives."""
    changes = [ms for one in brokers for ms in (one.since_ms, one.until_ms)]
    return [until, *(ms for ms in changes if ms <= until)]


def _racks(brokers: Sequence[EphemeralZnode], ms: int) -> dict[int, str]:
    return {one.broker: one.rack for one in brokers if one.since_ms <= ms < one.until_ms}


def _turns(
    racks: Mapping[int, str], partitions: int, replication: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """What the placer of AdminUtils may make of partitions."""
    if not 0 < replication <= len(racks):
        return
    aware = racks if all(racks.values()) else None
    orders = [sorted(racks)] if aware else itertools.permutations(racks)
    for order in orders:
        names = dict(zip(sorted(racks), order, strict=True))
        for start, shift in itertools.product(range(len(racks)), repeat=2):
            placed = assign(
                sorted(racks),
                partitions=partitions,
                replication=replication,
                start=start,
                shift=shift,
                racks=aware,
            )
            yield tuple(tuple(names[broker] for broker in replicas) for replicas in placed)


def _next(drawn: Iterator[int], _: int) -> int:
    return next(drawn)


def _told(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas))


def _refuse(rule: str, one: _Creation, number: int, why: str, result: Tally, *, znodes: bool = False) -> None:
    text = f"{one.topic}-{number} is created on {_told(dict(one.placed)[number])}; {why}"
    _refuse_creation(rule, one, text, result, znodes=znodes)


def _refuse_creation(rule: str, one: _Creation, text: str, result: Tally, *, znodes: bool) -> None:
    place = f"zxid {one.offset:#x} of ZooKeeper" if znodes else f"offset {one.offset} of {METADATA}"
    log, offset, take = (NOWHERE, -1, -1) if znodes else (METADATA, one.offset, 0)
    text = f"at {place}: {text}"
    result.refuse(LogFinding(check=rule, log=log, offset=offset, take=take, nodes=(), text=text))
