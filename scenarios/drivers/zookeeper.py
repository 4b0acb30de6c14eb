"""A stage with brokers on ZooKeeper: a scene whose node 9 is the ensemble.

    s.start(1, 2, 3)         broker processes begin sessions and register; the first one is controller
    s.crash(2), s.pause(2)   of `cluster`: the session continues until its time-out
    s.hold(Ops, of=1, times=9), s.release(Ops)   broker 1's requests to the ensemble, one after the other
    s.produce("m0", to=2)    a producer's record, acks=all
    s.say(3, LeaderAndIsr(…))            a controller's request, from nowhere
    s.operator(Delete("/controller"))    an operator at a shell of ZooKeeper

Era 2.4; sessions of 3 s.

What columns show is listed in `COLUMNS`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self, cast

from model.broker import Broker
from model.eras import ERAS
from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import ErrorResponse, Request
from model.protocol.zookeeper_messages import (
    LeaderAndIsr,
    SetData,
    StopReplica,
    UpdateMetadata,
    ZkError,
    ZkOp,
    ZkOps,
    ZkResponse,
)
from model.replication.replica import Replica
from model.settings import Settings
from model.zookeeper.controller_context import ControllerContext
from model.zookeeper.ensemble import Ensemble
from model.zookeeper.zk_data import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    IDS,
    ISR_CHANGES,
    TOP_LEVEL,
    LeaderIsrAndControllerEpoch,
    partition_of,
    state_path,
)
from model.zookeeper.zk_metadata import ZkMetadata
from model.zookeeper.zookeeper import ZooKeeper
from scenarios.drivers.cluster import CONTROLLER_NODE, TOPIC, ClusterStage, data
from scenarios.drivers.messages import MessageInFlight
from scenarios.framework import look

ENSEMBLE: Final = CONTROLLER_NODE
CONTROL: Final = (LeaderAndIsr, StopReplica, UpdateMetadata)


class ZookeeperStage(ClusterStage):
    """See the module. partitions: replicas of each partition of the topic. brokers: those that are started,
    in this order; the first one is controller.

    answers: the newest answer of a broker to a controller. writes: what resulted from a broker's newest
    write of a partition's state.
    """

    not_played = "it is about ZooKeeper"
    voters = ()
    ensemble = ENSEMBLE

    def __init__(
        self, partitions: Sequence[Sequence[int]] = (), *, brokers: Sequence[int] = (1, 2, 3, 4)
    ) -> None:
        self.zookeeper = ZooKeeper(TOP_LEVEL)
        self.answers: dict[int, str] = {}
        self.writes: dict[int, str] = {}
        self.answer = ""
        """Answer to the newest request of `say`."""
        self.since = 0
        """From when on a scenario counts its time."""
        self._starting = brokers
        super().__init__(Settings(era=ERAS["2.4"]), partitions, ())

    def _begin(self, partitions: Sequence[Sequence[int]], coordinators: Sequence[int]) -> None:
        # The scene asks no more of a node than an ensemble has: requests in, effects out, time.
        self.nodes[ENSEMBLE] = cast(Broker, Ensemble(self.zookeeper))
        self.start(*self._starting)
        if partitions:
            self.create(TOPIC, partitions, at=self._starting[0]).wait(1000)

    # ---- state

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    def side(self, n: int) -> ZkMetadata:
        """A broker's part in the cluster's metadata."""
        metadata = self.nodes[n].metadata
        assert isinstance(metadata, ZkMetadata)
        return metadata

    @property
    def controller_id(self) -> int | None:
        """Who holds /controller."""
        node = self.zookeeper.nodes.get(CONTROLLER)
        return node.data if node is not None else None

    def believers(self) -> list[int]:
        """Brokers that believe to be controller."""
        return [n for n in self.nodes if n != ENSEMBLE and self.side(n).controls]

    def written(self, tp: Partition) -> LeaderIsrAndControllerEpoch:
        """A partition's state as it stands in its znode."""
        found: LeaderIsrAndControllerEpoch = self.zookeeper.nodes[state_path(tp)].data
        return found

    def holds(self, kind: type) -> bool:
        """Whether a message of this kind is held."""
        return bool(self._of_kind(kind))

    def leader(self, tp: Partition) -> int:
        """Who leads, as the znode says."""
        return self.written(tp).leader

    # ---- requests

    def say(self, n: int, request: Request[ErrorResponse]) -> Self:
        """A controller's request reaches a broker; `answer`."""
        self.answer = self.ask(request, to=n).error.name
        return self

    def operator(self, op: ZkOp) -> Self:
        """An operator's op, in its own session. The ensemble sends its notifications."""
        session = self.zookeeper.connect(self.now, 60_000)
        results = self.zookeeper.run(self.now, session, [op])
        assert results is not None
        assert results[0].error is ZkError.OK
        self.nodes[ENSEMBLE].tick(self.now)
        return self.flow()

    # ---- messages

    def _arrive(self, message: MessageInFlight) -> None:
        sender, request, answer = message.sender, message.ask.request, message.answer
        if message.answering and isinstance(sender, int) and message.listens:
            if isinstance(request, CONTROL):
                assert isinstance(answer, ErrorResponse)
                self.answers[sender] = answer.error.name
            elif isinstance(request, ZkOps):
                assert isinstance(answer, ZkResponse)
                self._note(sender, request.ops, answer)
        super()._arrive(message)

    def _note(self, n: int, ops: Sequence[ZkOp], answer: ZkResponse) -> None:
        states = [isinstance(op, SetData) and partition_of(op.path) is not None for op in ops]
        if not any(states):
            return
        if answer.expired:
            self.writes[n] = "session has ended"
            return
        self.writes[n] = next(
            result.error.name for result, state in zip(answer.results, states, strict=True) if state
        )

    # ---- processes and time

    def shut_down(self, n: int) -> Self:
        """A clean shutdown, to its end."""
        broker = self.nodes[n]
        broker.shut_down(self.now)
        self.flow().until(lambda: broker.may_end)
        broker.end()
        return self.crash(n)

    def expire(self, n: int) -> Self:
        """Time passes until the session of a broker has ended, as the ensemble has it."""
        session = self.zookeeper.nodes[f"/brokers/ids/{n}"].owner
        return self.until(lambda: session not in self.zookeeper.sessions)


Column = Callable[[ZookeeperStage, str], object]


def _led(state: LeaderIsrAndControllerEpoch | PartitionState) -> str:
    return f"{state.leader if state.leader >= 0 else '–'}, epoch {state.leader_epoch}"


def _at(show: Callable[[Broker], object]) -> Column:
    """As the broker has it that the column names."""
    return lambda s, n: show(s.nodes[int(n)]) if int(n) in s.nodes else "down"


def _replica(show: Callable[[Replica], object]) -> Column:
    """As its replica of partition 0 has it."""
    return _at(lambda broker: show(found) if (found := broker.node.replicas.get(data(0))) else None)


def _controller(show: Callable[[ControllerContext], object]) -> Column:
    """As broker 1 knows it, if it is controller."""

    def column(s: ZookeeperStage, _: str) -> object:
        found = s.side(1).controller if 1 in s.nodes else None
        return show(found.context) if found is not None else None

    return column


def _owned(s: ZookeeperStage, path: str, shown: object) -> str:
    """With the session that an ephemeral znode belongs to."""
    return f"{shown} (s{s.zookeeper.nodes[path].owner})"


def _heard_of(s: ZookeeperStage, n: str) -> object:
    """Controller, and its epoch, that a broker heard of last."""
    side = s.side(int(n)) if int(n) in s.nodes else None
    return f"{side.controller_id}, epoch {side.controller_epoch}" if side is not None else "down"


def _changes(s: ZookeeperStage, _: str) -> object:
    """Changes of partitions' states so far, of all partitions together."""
    nodes = s.zookeeper.nodes
    return sum(nodes[path].version for path in nodes if partition_of(path) is not None)


COLUMNS: Mapping[str, Column] = {
    "ms": lambda s, _: s.now - s.since,
    # Znodes.
    "/brokers/ids": lambda s, _: s.zookeeper.nodes[IDS].children.keys(),
    "/brokers/ids with sessions": lambda s, _: [
        _owned(s, f"{IDS}/{n}", n) for n in sorted(s.zookeeper.nodes[IDS].children)
    ],
    "/controller": lambda s, _: s.controller_id,
    "/controller with session": lambda s, _: s.controller_id and _owned(s, CONTROLLER, s.controller_id),
    "/controller_epoch": lambda s, _: s.zookeeper.nodes[CONTROLLER_EPOCH].data,
    "leader in ZooKeeper": lambda s, _: _led(s.written(data(0))),
    r"ISR(?: in ZooKeeper| of partition (\d))?": lambda s, number: s.written(data(int(number or 0))).isr,
    "version": lambda s, _: s.zookeeper.nodes[state_path(data(0))].version,
    "controller epoch in it": lambda s, _: s.written(data(0)).controller_epoch,
    "changes written": _changes,
    # Notifications of changed in-sync sets: that are there; that were made so far; what a leader has not
    # reported yet.
    "notifications": lambda s, _: len(s.zookeeper.nodes[ISR_CHANGES].children),
    "notifications so far": lambda s, _: s.zookeeper.nodes[ISR_CHANGES].sequence,
    r"unreported by (\d)": lambda s, n: [number for _, number in s.side(int(n)).isr.changed],
    # Controllers: who believes to be it (also who stands still); what it knows.
    "believes to be controller": lambda s, _: s.believers(),
    r"(?:controller that )?(\d) heard of": _heard_of,
    "controller knows of": _controller(lambda context: set(context.live)),
    "ISR as the controller has it": _controller(lambda context: context.states[data(0)].isr),
    # As a replica has it, and as a broker tells clients.
    r"as replica (\d) has it": _replica(lambda r: _led(r.state)),
    r"ISR at (\d)": _replica(lambda r: r.isr),
    r"HW of (\d)": _replica(lambda r: r.high_watermark),
    r"HW of (\d) waits for": _replica(lambda r: r.maximal_isr if r.leads else None),
    r"log (\d)": _replica(lambda r: [str(record) for _, _, record in r.log.records()]),
    r"as (\d) tells clients": _at(lambda broker: _led(broker.node.image.partitions[data(0)])),
    r"ISR as (\d) tells clients": _at(lambda broker: broker.node.image.partitions[data(0)].isr),
    # The newest answers: to a broker's write of a state, to a controller, to `say`, to a producer.
    r"write of (?:leader )?(\d)": lambda s, n: s.writes.get(int(n)),
    r"answer to (\d)": lambda s, n: s.answers.get(int(n)),
    "answer": lambda s, _: s.answer or None,
    "newest record": lambda s, _: s.told.get(s.last),
}
