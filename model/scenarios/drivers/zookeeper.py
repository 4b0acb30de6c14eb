"""A stage with brokers on ZooKeeper: a scene whose node 9 is the ensemble.

    s.start(1, 2, 3)         broker processes begin sessions and register; the first one is controller
    s.crash(2), s.cut(2), s.heal(2)      of `cluster`: the session continues until its time-out
    s.pause(1), s.resume(1)  the process stands still: what reaches it waits; it does not know of that
    s.hold(Ops, of=1, times=9), s.release(Ops)   broker 1's requests to the ensemble, one after the other
    s.produce("m0", to=2)    a producer's record, acks=all
    s.say(3, LeaderAndIsr(…))            a controller's request, from nowhere
    s.operator(Delete("/controller"))    an operator at a shell of ZooKeeper

Era 2.4 where nothing else is said; sessions of 3 s.

Columns:

ids, controller, controller_epoch    what these znodes hold
ids_of, controller_of        the ephemeral ones, with the number of their session
believers                    brokers that believe to be controller
controller_at(2)             controller, and its epoch, that broker 2 heard of
leader(0), isr(0), version(0)        a partition's state in ZooKeeper; its version is the partition epoch
leads(2), isr_at(2), hw(2), waits_for(2), log(2)     as the replica on a broker has it
known(4), known_isr(4)       what a broker answers to clients; `known_brokers`: live brokers
acting_on(1), decided_isr(1) live brokers and the in-sync set, as a controller knows them
untold(2)                    partitions whose changed sets a leader has not reported yet
notes, change_notes          notifications of such changes that are there; that were made so far
written(1)                   outcome of a broker's newest write of a state
last_answer(1)                      newest answer of a broker to a controller; `answer`: to `say`
time                         milliseconds since the scenario said so
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, cast

from model.broker import TICK_MS, Broker, Durable
from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import CreateTopics, ErrorResponse, Partition, Produce, ProduceResponse
from model.protocol.requests import Request
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
from model.scenarios.drivers.cluster import CONTROLLER_NODE, TOPIC, ClusterStage, MessageInFlight, data
from model.settings import Settings
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

ENSEMBLE: Final = CONTROLLER_NODE
CONTROL: Final = (LeaderAndIsr, StopReplica, UpdateMetadata)


def on_zookeeper(era: str = "2.4", **settings: Any) -> Settings:
    """Settings of a cluster on ZooKeeper."""
    return Settings(era=ERAS[era], **settings)


class ZookeeperStage(ClusterStage):
    """See the module. partitions: replicas of each partition of the topic. brokers: those that are started,
    in this order; the first one is controller.

    answers: the newest answer of a broker to a controller. writes: what resulted from a broker's newest
    write of a partition's state. results: the answer to the producer of each record.
    """

    def __init__(
        self,
        partitions: Sequence[Sequence[int]] = (),
        *,
        brokers: Sequence[int] = (1, 2, 3, 4),
        settings: Settings | None = None,
    ) -> None:
        self.zookeeper = ZooKeeper(TOP_LEVEL)
        self.paused: set[int] = set()
        self.answers: dict[int, str] = {}
        self.writes: dict[int, str] = {}
        self.results: dict[str, str] = {}
        self.answer = ""
        """Answer to the newest request of `say`."""
        self.last = ""
        """Name of the newest record that was sent."""
        self.since = 0
        """From when on a scenario counts its time."""
        self._starting = brokers
        self._asleep: list[MessageInFlight] = []
        super().__init__(settings or on_zookeeper(), partitions)

    def _begin(self, brokers: Sequence[int], topics: Mapping[str, Sequence[Sequence[int]]]) -> None:
        # The scene asks no more of a node than an ensemble has: requests in, effects out, time.
        self.nodes[ENSEMBLE] = cast(Broker, Ensemble(self.zookeeper))
        self.start(*self._starting)
        if topics[TOPIC]:
            self.create(TOPIC, topics[TOPIC])
            self.wait(1000)

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> Self:
        """See `ClusterStage`; any broker writes the znode."""
        assignment = tuple(tuple(nodes) for nodes in replicas)
        request = CreateTopics(topic, len(assignment), len(assignment[0]), assignment)
        answer = self.ask(request, to=self._starting[0])
        assert answer.error is KafkaError.NONE, answer
        return self

    # ---- state

    def side(self, n: int) -> ZkMetadata:
        """A broker's part in the cluster's metadata."""
        metadata = self.nodes[n].metadata
        assert isinstance(metadata, ZkMetadata)
        return metadata

    def alive(self) -> list[int]:
        """Brokers whose process runs."""
        return [n for n in self.nodes if n != ENSEMBLE]

    def believers(self) -> list[int]:
        """Brokers that believe to be controller."""
        return [n for n in self.alive() if self.side(n).controls]

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

    def produce(self, record: str, *, to: int, number: int = 0) -> Self:
        """A producer's record with acks=all; `results`."""
        self.last = record
        self.results[record] = "waits"

        def told(answer: ProduceResponse | None) -> None:
            error = None if answer is None else answer.results[data(number)][0]
            said = "nothing" if error is None else error.name
            self.results[record] = "acknowledged" if error is KafkaError.NONE else said

        return self.deliver("", Produce(-1, {data(number): RecordBatch(-1, -1, (record,))}), to, told)

    def say(self, n: int, request: Request) -> Self:
        """A controller's request reaches a broker; `answer`."""
        answer: ErrorResponse = self.ask(request, to=n)
        self.answer = answer.error.name
        return self

    def operator(self, op: ZkOp) -> Self:
        """An operator's op, in its own session."""
        session = self.zookeeper.connect(self.now, 60_000)
        results = self.zookeeper.run(self.now, session, [op])
        assert results is not None
        assert results[0].error is ZkError.OK
        return self.poke()

    def poke(self) -> Self:
        """The ensemble sends its notifications."""
        self.nodes[ENSEMBLE].tick(self.now)
        return self.flow()

    # ---- messages

    def _travel(self, message: MessageInFlight) -> None:
        to = message.sender if message.answering else message.ask.node
        if to in self.paused:
            self._asleep.append(message)
        else:
            super()._travel(message)

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

    def start(self, *brokers: int) -> Self:
        """The processes start (again); a registration of a former life may still stand in their way."""
        for n in brokers:
            self._incarnation += 1
            self.nodes[n] = Broker(
                n,
                voters=(),
                settings=self.settings,
                durable=self._durable.setdefault(n, Durable()),
                incarnation=self._incarnation,
                draw=lambda low, _: low,
                ensemble=ENSEMBLE,
            )
            self.nodes[n].start(self.now)
            self.flow()
        return self

    def shut_down(self, n: int) -> Self:
        """A clean shutdown, to its end."""
        broker = self.nodes[n]
        broker.shut_down(self.now)
        self.flow().until(lambda: broker.may_end)
        broker.end()
        return self.crash(n)

    def restart(self, *nodes: int) -> Self:
        """The processes start again, and are registered."""
        return self.start(*nodes).until(lambda: not any(self.nodes[n].fenced for n in nodes))

    def pause(self, n: int) -> Self:
        """See the module."""
        self.paused.add(n)
        return self

    def resume(self, n: int) -> Self:
        """It continues where it stood; what reached it meanwhile comes in that order."""
        self.paused.discard(n)
        asleep, self._asleep = self._asleep, []
        self._queue.extendleft(reversed(asleep))
        return self.flow()

    def wait(self, milliseconds: int) -> Self:
        """Time passes."""
        for _ in range(milliseconds // TICK_MS):
            self.now += TICK_MS
            for n in [n for n in self.nodes if n not in self.paused]:
                self.nodes[n].tick(self.now)
            self.flow()
        return self

    def expire(self, n: int) -> Self:
        """Time passes until the session of a broker has ended, as the ensemble has it."""
        session = self.zookeeper.nodes[f"/brokers/ids/{n}"].owner
        return self.until(lambda: session not in self.zookeeper.sessions)


Column = Callable[[ZookeeperStage], object]
DOWN = "down"


def ids(s: ZookeeperStage) -> object:
    """Brokers that are registered, in their order."""
    return s.zookeeper.nodes[IDS].children.keys()


def ids_of(s: ZookeeperStage) -> object:
    """Brokers that are registered, each with the session that its znode belongs to."""
    nodes = s.zookeeper.nodes
    return [f"{n} (s{nodes[f'{IDS}/{n}'].owner})" for n in sorted(nodes[IDS].children)]


def controller(s: ZookeeperStage) -> object:
    """Who holds /controller."""
    node = s.zookeeper.nodes.get(CONTROLLER)
    return node.data if node is not None else None


def controller_of(s: ZookeeperStage) -> object:
    """Who holds /controller, with the session that it belongs to."""
    node = s.zookeeper.nodes.get(CONTROLLER)
    return f"{node.data} (s{node.owner})" if node is not None else None


def controller_epoch(s: ZookeeperStage) -> object:
    """How many controllers there were."""
    return s.zookeeper.nodes[CONTROLLER_EPOCH].data


def believers(s: ZookeeperStage) -> object:
    """Brokers that believe to be controller; one that stands still believes on."""
    return s.believers()


def controller_at(n: int) -> Column:
    """As a broker heard of it last."""
    return lambda s: (
        f"{s.side(n).controller_id}, epoch {s.side(n).controller_epoch}" if n in s.nodes else DOWN
    )


def leader(number: int) -> Column:
    """Leader and its epoch in ZooKeeper."""

    def show(s: ZookeeperStage) -> object:
        state = s.written(data(number))
        return f"{state.leader if state.leader >= 0 else '–'}, epoch {state.leader_epoch}"

    return show


def isr(number: int) -> Column:
    """In-sync set in ZooKeeper."""
    return lambda s: s.written(data(number)).isr


def version(number: int) -> Column:
    """Of the state's znode."""
    return lambda s: s.zookeeper.nodes[state_path(data(number))].version


def _of(n: int, number: int, show: Callable[[Replica], object]) -> Column:
    def column(s: ZookeeperStage) -> object:
        replica = s.replica(data(number), n)
        if replica is None:
            return None if n in s.nodes else DOWN
        return show(replica)

    return column


def leads(n: int, number: int = 0) -> Column:
    """Leader and its epoch, as a broker's replica knows them."""
    return _of(n, number, lambda r: f"{r.state.leader}, epoch {r.state.leader_epoch}")


def isr_at(n: int, number: int = 0) -> Column:
    """In-sync set that the replica knows."""
    return _of(n, number, lambda r: r.isr)


def hw(n: int, number: int = 0) -> Column:
    """High watermark."""
    return _of(n, number, lambda r: r.high_watermark)


def log(n: int, number: int = 0) -> Column:
    """Names of the records, oldest first."""
    return _of(n, number, lambda r: [str(record) for _, _, record in r.log.records()])


def waits_for(n: int, number: int = 0) -> Column:
    """For whom a leader's high watermark waits."""
    return _of(n, number, lambda r: r.maximal_isr if r.leads else None)


def known(n: int, number: int = 0) -> Column:
    """Leader and its epoch that a broker tells clients."""

    def show(s: ZookeeperStage) -> object:
        if n not in s.nodes:
            return DOWN
        state = s.nodes[n].node.image.partitions[data(number)]
        return f"{state.leader if state.leader >= 0 else '–'}, epoch {state.leader_epoch}"

    return show


def known_isr(n: int, number: int = 0) -> Column:
    """In-sync set that a broker tells clients."""
    return lambda s: s.nodes[n].node.image.partitions[data(number)].isr if n in s.nodes else DOWN


def untold(n: int) -> Column:
    """Partitions whose in-sync sets a leader changed and did not tell of yet."""
    return lambda s: [number for _, number in s.side(n).isr.changed]


def change_notes(s: ZookeeperStage) -> object:
    """Znodes made under /isr_change_notification so far."""
    return s.zookeeper.nodes[ISR_CHANGES].sequence


def written(n: int) -> Column:
    """See the module."""
    return lambda s: s.writes.get(n)


def last_answer(n: int) -> Column:
    """See the module."""
    return lambda s: s.answers.get(n)


def answer(s: ZookeeperStage) -> object:
    """What the newest request of a controller was answered."""
    return s.answer or None


def acting_on(n: int) -> Column:
    """Brokers that live, as far as a controller knows."""

    def show(s: ZookeeperStage) -> object:
        found = s.side(n).controller if n in s.nodes else None
        return set(found.context.live) if found is not None else None

    return show


def result(s: ZookeeperStage) -> object:
    """The answer that the producer of the newest record got."""
    return s.results.get(s.last)


def time(s: ZookeeperStage) -> object:
    """Milliseconds."""
    return s.now - s.since


def state_epoch(number: int) -> Column:
    """Controller epoch that a partition's state names: of the controller that wrote it, or that its leader
    heard of."""
    return lambda s: s.written(data(number)).controller_epoch


def decided_isr(n: int, number: int = 0) -> Column:
    """In-sync set that a controller knows of."""

    def show(s: ZookeeperStage) -> object:
        found = s.side(n).controller if n in s.nodes else None
        return found.context.states[data(number)].isr if found is not None else None

    return show


def notes(s: ZookeeperStage) -> object:
    """Znodes under /isr_change_notification that are there."""
    return len(s.zookeeper.nodes[ISR_CHANGES].children)


def changes(s: ZookeeperStage) -> object:
    """Changes of partitions' states so far, of all partitions together."""
    nodes = s.zookeeper.nodes
    return sum(nodes[path].version for path in nodes if partition_of(path) is not None)
