"""What the log of ZooKeeper says of Kafka: partitions, brokers and controllers, change by change.

Of an ensemble the log that goes furthest is read, of those that begin with Kafka's first znode: it has all
that was committed. One without its beginning, for its node got a snapshot, may go further, but not begin
behind its end. One that is damaged may lack its end: the others have that where they are the majority.
Times are those of ZooKeeper's leader, and zxids count its changes.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow.compute as pc
from msgspec.structs import replace

from checkers.engine.check import Tally
from checkers.engine.findings import NOWHERE, LogFinding
from core.op import TopicPartition
from history.evidence import Evidence
from history.tables import TableRow
from model.protocol.messages import PartitionState

ROOT: Final = "/brokers"
FOREVER: Final = 1 << 62
"""Later than every zxid."""
NOT_WHOLE: Final = "no log of ZooKeeper begins with Kafka's first znode and can be read to its end"
Replicas = Mapping[int, tuple[int, ...]]
"""By partition."""


class StateZnode(NamedTuple):
    """A state of a partition. session: who wrote it. controller_epoch: as the znode names it. own: it is the
    partition's znode that was written, and not the topic's."""

    zxid: int
    ms: int
    session: int
    state: PartitionState
    controller_epoch: int
    own: bool


class TopicZnode(NamedTuple):
    """A topic that was created. replicas: of its partitions."""

    zxid: int
    ms: int
    topic: str
    replicas: Replicas


class EphemeralZnode(NamedTuple):
    """A broker had an ephemeral znode, by a session, from one zxid until another (FOREVER). rack: of the
    broker."""

    broker: int
    session: int
    since: int
    since_ms: int
    until: int
    until_ms: int
    rack: str


class IsrNotice(NamedTuple):
    """A leader said that in-sync replicas of these partitions had changed. path: of its znode."""

    zxid: int
    ms: int
    session: int
    tps: frozenset[TopicPartition]
    path: str


class NoticeDeletion(NamedTuple):
    """Who deleted a znode, and when."""

    zxid: int
    ms: int
    session: int


@dataclass(slots=True)
class ZooKeeperLog:
    """By the log of one node of ZooKeeper.

    states: of the newest topic of each name. topics: how many had it, one after the other. names: of topics
    by their ids (since Kafka 2.8), those that are gone among them. removed: names whose newest topic is gone.
    settings: of the newest topic of a name, each with its zxid; the last ones are in force. brokers,
    controllers: who was registered, and who was the controller. unread: partitions with a state that cannot
    be read. epochs: zxid, time, session and value of each write of the controller epoch. deleted_notices: by
    path. leaving: newest topics that an administrator wants deleted. moved: partitions that one reassigns by
    a znode. changes: zxid, time and session of each change. nodes: of ZooKeeper. end_ms: of the last change.
    """

    states: dict[TopicPartition, list[StateZnode]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    unread: set[TopicPartition] = field(default_factory=set)
    settings: dict[str, list[tuple[int, Mapping[str, str]]]] = field(default_factory=dict)
    creations: list[TopicZnode] = field(default_factory=list)
    brokers: list[EphemeralZnode] = field(default_factory=list)
    controllers: list[EphemeralZnode] = field(default_factory=list)
    epochs: list[tuple[int, int, int, int]] = field(default_factory=list)
    notices: list[IsrNotice] = field(default_factory=list)
    deleted_notices: dict[str, NoticeDeletion] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    moved: set[TopicPartition] = field(default_factory=set)
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    nodes: frozenset[int] = frozenset()
    end_ms: int = -1

    def broker_of(self, session: int) -> int | None:
        """Who had this session, as far as a znode says it."""
        held = (*self.brokers, *self.controllers)
        return next((one.broker for one in held if one.session == session), None)

    def writers(self, session: int) -> tuple[int, ...]:
        """The same as nodes of a finding: one, or none where it is not known."""
        broker = self.broker_of(session)
        return () if broker is None else (broker,)

    def replicas_of_last(self, tp: TopicPartition) -> frozenset[int]:
        """All brokers that ever had a replica of a partition of the newest of several topics of a name;
        empty = there was one topic alone, or it is not known."""
        if self.topics.get(tp.topic, 0) < 2 or tp in self.unread:
            return frozenset()
        states = (one.state for one in self.states.get(tp, ()))
        return frozenset(node for state in states for node in (*state.replicas, *state.adding))

    def may_control(self, session: int, zxid: int) -> bool:
        """Whether a session had /controller then. Where that went, the one that had it last may still write
        until another has it."""
        began = [one for one in self.controllers if one.since <= zxid]
        return bool(began) and max(began, key=lambda one: one.since).session == session

    def in_office(self, session: int, zxid: int) -> EphemeralZnode | None:
        """The /controller that a session had then, None = it had none."""
        mine = (one for one in self.controllers if one.session == session)
        return next((one for one in mine if one.since <= zxid < one.until), None)

    @property
    def fenced(self) -> bool:
        """Some controller took /controller and the next epoch by one request, as since Kafka 2.1: whatever it
        writes later is conditional on that epoch (KAFKA-6082)."""
        return bool({zxid for zxid, *_ in self.epochs} & {one.since for one in self.controllers})

    def lasts(self, session: int, ms: int) -> bool:
        """Whether a broker still had its znode by this session then."""
        return any(one.session == session and one.until_ms >= ms for one in self.brokers)


def zookeeper_log(evidence: Evidence) -> ZooKeeperLog | None:
    """None: there is none that is whole."""
    every = evidence.table("znodes")
    first = pc.and_(pc.equal(every["path"], ROOT), pc.equal(every["op"], "create"))
    of_logs = every.select(["take", "node", "zxid"]).append_column("first", first).group_by(["take", "node"])
    logs = of_logs.aggregate([("zxid", "min"), ("zxid", "max"), ("first", "any")]).to_pylist()
    damaged = _damaged(evidence)
    whole = [log for log in logs if log["first_any"] and log["node"] not in damaged]
    nodes = frozenset(log["node"] for log in logs)
    if not whole or (damaged and 2 * len(whole) <= len(nodes | damaged)):
        return None
    best = max(whole, key=lambda log: (log["zxid_max"], log["take"], -log["node"]))
    if any(log["zxid_min"] > best["zxid_max"] for log in logs):
        return None
    mine = pc.and_(pc.equal(every["take"], best["take"]), pc.equal(every["node"], best["node"]))
    found = _Replay().read(every.filter(mine).to_pylist())
    found.nodes = nodes
    return found


def _damaged(evidence: Evidence) -> frozenset[int]:
    """Nodes of ZooKeeper, which no take of brokers has, with a log that cannot be read to its end."""
    brokers = {row["node"] for row in evidence.table("takes").to_pylist()}
    return frozenset(row["node"] for row in evidence.table("damage").to_pylist()) - brokers


def whole_log(
    evidence: Evidence, rules: Collection[str], result: Tally, of_states: Collection[str] = ()
) -> ZooKeeperLog | None:
    """The same, for these rules: they are left open where the log is not whole, and those about partitions'
    states where one cannot be read."""
    log = evidence.once(zookeeper_log)
    if log is None and (evidence.table("znodes").num_rows or _damaged(evidence)):
        for rule in rules:
            result.leave_open(rule, NOWHERE, NOT_WHOLE)
    for tp in sorted(log.unread) if log is not None else ():
        for rule in of_states:
            result.leave_open(rule, tp, "a state in ZooKeeper cannot be read")
    return log


def refuse(
    rule: str, tp: TopicPartition, where: tuple[int, int], why: str, nodes: Iterable[int], result: Tally
) -> None:
    """A rule refuses a change. where: its zxid and time (ms). tp: NOWHERE = it is of no partition."""
    zxid, ms = where
    text = f"at zxid {zxid:#x} of ZooKeeper{'' if tp == NOWHERE else f', {tp}'}: {why}"
    found = LogFinding(check=rule, log=tp, offset=-1, take=-1, nodes=(*nodes,), text=text, ms=ms, zxid=zxid)
    result.refuse(found)


class _Replay:
    def __init__(self) -> None:
        self._found = ZooKeeperLog()
        self._assigned: dict[str, Mapping[str, Replicas]] = {}
        self._held: dict[str, tuple[int, TableRow, str]] = {}

    def read(self, rows: list[TableRow]) -> ZooKeeperLog:
        """Row by row."""
        for row in rows:
            self._found.end_ms = row["ms"]
            self._found.changes.append((row["zxid"], row["ms"], row["session"]))
            self._row(row, row["path"].split("/")[1:])
        for path in list(self._held):
            self._released(path, FOREVER, FOREVER)
        return self._found

    def _row(self, row: TableRow, path: list[str]) -> None:
        match path:
            case ["brokers", "topics", topic]:
                self._topic(row, topic)
            case ["brokers", "topics", topic, "partitions", number, "state"] if number.isdecimal():
                self._state(row, TopicPartition(topic, int(number)))
            case ["brokers", "ids", number] if number.isdecimal():
                self._holds(row, int(number), str(_json(row).get("rack") or ""))
            case ["controller"]:
                broker = _json(row).get("brokerid")
                self._holds(row, broker if isinstance(broker, int) else -1, "")
            case ["controller_epoch"] if (row["data"] or "").isdecimal():
                self._found.epochs.append((row["zxid"], row["ms"], row["session"], int(row["data"])))
            case ["config", "topics", topic]:
                values = _json(row).get("config")
                if row["op"] == "delete":  # with its topic
                    self._found.settings.pop(topic, None)
                else:
                    some = values if isinstance(values, dict) else {}
                    found = {name: one for name, one in some.items() if isinstance(one, str)}
                    self._found.settings.setdefault(topic, []).append((row["zxid"], found))
            case ["admin", "delete_topics", topic] if row["op"] == "create":
                self._found.leaving.add(topic)
            case ["admin", "reassign_partitions"]:
                self._found.moved.update(_named(_json(row)))
            case ["isr_change_notification", _]:
                self._notice(row, row["path"])

    def _notice(self, row: TableRow, path: str) -> None:
        where = row["zxid"], row["ms"], row["session"]
        if row["op"] == "create":
            self._found.notices.append(IsrNotice(*where, frozenset(_named(_json(row))), path))
        elif row["op"] == "delete":
            self._found.deleted_notices[path] = NoticeDeletion(*where)

    def _topic(self, row: TableRow, topic: str) -> None:
        """What the topic's znode says: the replicas of its partitions, and those that come and go."""
        if row["op"] == "delete":
            self._found.removed.add(topic)
            return
        said = {name: _replicas(_json(row), name) for name in ASSIGNED}
        self._assigned[topic] = said
        if isinstance(topic_id := _json(row).get("topic_id"), str):
            self._found.names[topic_id] = topic
        if row["op"] == "create":
            for tp in [tp for tp in self._found.states if tp.topic == topic]:
                del self._found.states[tp]
            self._found.removed.discard(topic)
            self._found.leaving.discard(topic)
            self._found.topics[topic] = self._found.topics.get(topic, 0) + 1
            self._found.creations.append(TopicZnode(row["zxid"], row["ms"], topic, said[PARTITIONS]))
        for tp, states in self._found.states.items():
            if tp.topic == topic:
                last = states[-1]
                state = _assigned(last.state, said, tp.partition)
                if state != last.state:
                    where = row["zxid"], row["ms"], row["session"]
                    states.append(StateZnode(*where, state, last.controller_epoch, own=False))

    def _state(self, row: TableRow, tp: TopicPartition) -> None:
        said = _json(row)
        numbers = _numbers([said.get(name) for name in ("leader", "leader_epoch", "controller_epoch")])
        if row["op"] == "delete":
            return
        if len(numbers) < 3 or not isinstance(said.get("isr"), list):
            self._found.unread.add(tp)
            return
        leader, epoch, controller = numbers
        state = PartitionState(
            replicas=(),
            isr=_numbers(said.get("isr")),
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=row["version"],
        )
        state = _assigned(state, self._assigned.get(tp.topic, {}), tp.partition)
        where = row["zxid"], row["ms"], row["session"]
        self._found.states.setdefault(tp, []).append(StateZnode(*where, state, controller, own=True))

    def _holds(self, row: TableRow, broker: int, rack: str) -> None:
        """A broker's znode, or the controller's, appears or goes; a broker creates it, and then says more."""
        path = row["path"]
        if row["op"] != "set":
            self._released(path, row["zxid"], row["ms"])
        if row["op"] == "create":
            self._held[path] = broker, row, rack
        elif path in self._held:
            self._held[path] = *self._held[path][:2], rack

    def _released(self, path: str, zxid: int, ms: int) -> None:
        if path not in self._held:
            return
        broker, row, rack = self._held.pop(path)
        found = self._found.brokers if path.startswith(ROOT) else self._found.controllers
        found.append(
            EphemeralZnode(broker, row["owner"] or row["session"], row["zxid"], row["ms"], zxid, ms, rack)
        )


PARTITIONS: Final = "partitions"
ASSIGNED: Final = (PARTITIONS, "adding_replicas", "removing_replicas")


def _json(row: TableRow) -> dict[str, object]:
    try:
        found = json.loads(row["data"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _replicas(said: Mapping[str, object], name: str) -> dict[int, tuple[int, ...]]:
    found = said.get(name)
    if not isinstance(found, dict):
        return {}
    return {int(number): _numbers(nodes) for number, nodes in found.items() if str(number).isdecimal()}


def _numbers(said: object) -> tuple[int, ...]:
    some = said if isinstance(said, list) else ()
    return tuple(one for one in some if isinstance(one, int) and not isinstance(one, bool))


def _assigned(state: PartitionState, said: Mapping[str, Replicas], partition: int) -> PartitionState:
    replicas, adding, removing = (said.get(name, {}).get(partition, ()) for name in ASSIGNED)
    return replace(state, replicas=replicas, adding=adding, removing=removing)


def _named(said: Mapping[str, object]) -> list[TopicPartition]:
    parts = said.get("partitions")
    named = [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
    places = ((str(one.get("topic")), _numbers([one.get("partition")])) for one in named)
    return [TopicPartition(topic, number[0]) for topic, number in places if number]
