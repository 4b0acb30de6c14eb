"""A stage with brokers on ZooKeeper: a scene whose node 9 is the ensemble.

    s.start(1, 2, 3)         broker processes begin sessions and register; the first one is controller
    s.crash(2), s.cut(2), s.heal(2)      of `scene`: the session goes on until its time-out
    s.pause(1), s.resume(1)  the process stands still: what reaches it waits; it does not know of that
    s.hold(Ops, of=1, times=9), s.release(Ops)   broker 1's requests to the ensemble, one after the other
    s.produce("m0", to=2)    a producer's record, acks=all
    s.say(3, LeaderAndIsr(…))            a controller's request, from nowhere
    s.operator(Delete("/controller"))    somebody at a shell of ZooKeeper

Era 2.4 where nothing else is said; sessions of 3 s.

Not here: what cells show (`controlling_columns`).
"""

from collections.abc import Sequence
from typing import Any, Final, Self, cast

from model.broker import TICK_MS, Broker, Durable
from model.eras import ERAS
from model.errors import KafkaError
from model.log import Batch
from model.messages import Answer, CreateTopic, Partition, Produce, ProduceAnswer
from model.metadata_zookeeper import MetadataZookeeper
from model.scenarios.scene import CONTROLLER, TOPIC, Message, Scene, data
from model.settings import Settings
from model.zk_ensemble import Ensemble
from model.zk_messages import Answered, LeaderAndIsr, Ops, StopReplica, UpdateMetadata
from model.zk_paths import TOP_LEVEL, PartitionData, partition_of, state_path
from model.zookeeper import Op, SetData, ZkError, ZooKeeper

ENSEMBLE: Final = CONTROLLER
CONTROL: Final = (LeaderAndIsr, StopReplica, UpdateMetadata)


def on_zookeeper(era: str = "2.4", **settings: Any) -> Settings:
    """Settings of a cluster on ZooKeeper."""
    return Settings(era=ERAS[era], **settings)


class Controlling(Scene):
    """See the module. partitions: replicas of each partition of the topic. brokers: those that are started,
    in this order; the first one is controller.

    answers: what a controller was told last by a broker. writes: what came of a broker's newest write of a
    partition's state. results: what the producer of each record was told.
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
        """To the newest request that somebody said."""
        self.last = ""
        """Name of the newest record that was sent."""
        self.since = 0
        """From when on a scenario counts its time."""
        self._starting = brokers
        self._asleep: list[Message] = []
        super().__init__(settings or on_zookeeper(), partitions)

    def _begin(self, brokers: Sequence[int], topics: Any) -> None:
        # The scene asks no more of a node than an ensemble has: requests in, effects out, time.
        self.nodes[ENSEMBLE] = cast(Broker, Ensemble(self.zookeeper))
        self.start(*self._starting)
        if topics[TOPIC]:
            self.create(TOPIC, topics[TOPIC])
            self.wait(1000)

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> Self:
        """See `Scene`; any broker writes the znode."""
        assignment = tuple(tuple(nodes) for nodes in replicas)
        request = CreateTopic(topic, len(assignment), len(assignment[0]), assignment)
        answer = self.ask(request, to=self._starting[0])
        assert answer.error is KafkaError.NONE, answer
        return self

    # ---- what there is

    def side(self, n: int) -> MetadataZookeeper:
        """A broker's part in the cluster's metadata."""
        metadata = self.nodes[n].metadata
        assert isinstance(metadata, MetadataZookeeper)
        return metadata

    def alive(self) -> list[int]:
        """Brokers whose process runs."""
        return [n for n in self.nodes if n != ENSEMBLE]

    def believers(self) -> list[int]:
        """Brokers that believe to be controller."""
        return [n for n in self.alive() if self.side(n).controls]

    def written(self, tp: Partition) -> PartitionData:
        """A partition's state as it stands in its znode."""
        found: PartitionData = self.zookeeper.nodes[state_path(tp)].data
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

        def told(answer: ProduceAnswer | None) -> None:
            error = None if answer is None else answer.results[data(number)][0]
            said = "nothing" if error is None else error.name
            self.results[record] = "acknowledged" if error is KafkaError.NONE else said

        return self.deliver("", Produce(-1, {data(number): Batch(-1, -1, (record,))}), to, told)

    def say(self, n: int, request: Any) -> Self:
        """A controller's request reaches a broker; `answer`."""
        answer: Answer = self.ask(request, to=n)
        self.answer = answer.error.name
        return self

    def operator(self, op: Op) -> Self:
        """An op of somebody who has a session of their own."""
        session = self.zookeeper.connect(self.now, 60_000)
        results = self.zookeeper.run(self.now, session, [op])
        assert results is not None
        assert results[0].error is ZkError.OK
        return self.poke()

    def poke(self) -> Self:
        """The ensemble tells what there is to tell."""
        self.nodes[ENSEMBLE].tick(self.now)
        return self.flow()

    # ---- messages

    def _travel(self, message: Message) -> None:
        to = message.sender if message.answering else message.ask.node
        if to in self.paused:
            self._asleep.append(message)
        else:
            super()._travel(message)

    def _arrive(self, message: Message) -> None:
        sender, request, answer = message.sender, message.ask.request, message.answer
        if message.answering and isinstance(sender, int) and message.listens:
            if isinstance(request, CONTROL):
                self.answers[sender] = answer.error.name
            elif isinstance(request, Ops):
                self._note(sender, request.ops, answer)
        super()._arrive(message)

    def _note(self, n: int, ops: Sequence[Op], answer: Answered) -> None:
        states = [isinstance(op, SetData) and partition_of(op.path) is not None for op in ops]
        if not any(states):
            return
        if answer.expired:
            self.writes[n] = "session is over"
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
                n, voters=(), settings=self.settings, durable=self._durable.setdefault(n, Durable()),
                incarnation=self._incarnation, draw=lambda low, _: low, ensemble=ENSEMBLE,
            )  # fmt: skip
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
        """It goes on where it stood; what reached it meanwhile comes in that order."""
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
        """Time passes until the session of a broker is over, as the ensemble has it."""
        session = self.zookeeper.nodes[f"/brokers/ids/{n}"].owner
        return self.until(lambda: session not in self.zookeeper.sessions)
