"""A stage on which a whole small cluster plays: brokers, a controller, and clients.

Everything that is sent arrives and is answered at once, except what a step holds; time passes only where a
step says so (`wait`, and `until` where a client or broker has to try again).

    s.hold(EndTxn)             the next request of this kind stays under way
    s.hold(Produce, answer=True)   the next one arrives, its answer stays under way
    s.release()                what was held arrives (of one kind: `release(Produce)`, and so on)
    s.give_up()                the connection of what is held breaks: who asked knows nothing, and the
                               message may still arrive with `release`
    s.lose()                   the same, and the message never arrives
    s.ask(request, to=1)       a request from outside; its answer, which comes at once
    s.join(machine, "A")       a client of the model takes part: it sends, and asks again, on its own
    s.crash(1), s.restart(1)
    s.pause(1), s.resume(1)    the process stands still, and continues
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from model.broker import TICK_MS, Broker, Durable
from model.client.consumer import Consumer
from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import OffsetFetch, OffsetFetchResponse
from model.protocol.messages import (
    CreateTopics,
    DeleteRecords,
    DeleteTopics,
    ListOffsets,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, Request, Response
from model.replication.node import Ask, Reply
from model.replication.replica import Replica
from model.settings import Settings
from scenarios.drivers.messages import HeldMessage, MessageInFlight

A = TypeVar("A", bound=Response)

CONTROLLER_NODE: Final = 9
TOPIC: Final = "p"
GROUP: Final = "g"
TV1: Final = ERAS["4.3-tv1"]
"""Brokers and clients of today, with transaction protocol 1."""
MOST: Final = 100_000
"""Messages of one step: more is a loop."""


class Machine(Protocol):
    """A client of the model."""

    out: list[Ask]

    def pump(self, now: int) -> None:
        """Send what can be sent."""

    def answered(self, channel: str, answer: Response | None, now: int) -> bool:
        """The answer to an `Ask`, None = none came."""


def data(number: int) -> Partition:
    """A partition of the scene's topic."""
    return (TOPIC, number)


def lone(**settings: Any) -> Settings:
    """Settings of a scene with one broker, which holds the only replica of everything."""
    return Settings(min_isr=1, internal_replication=1, **settings)


class ClusterStage:
    """See the module. partitions: replicas of each partition of the topic, the first one leads.
    coordinators: brokers that share out the partitions of the coordinators' topics.

    `told` has the answer to the newest request of a client, or of a record's producer, "waits" before that.
    """

    not_played: ClassVar[str] = ""
    voters: tuple[int, ...] = (CONTROLLER_NODE,)
    ensemble = -1

    def __init__(
        self,
        settings: Settings | None = None,
        partitions: Sequence[Sequence[int]] = ((1,), (1,)),
        coordinators: Sequence[int] = (1,),
    ) -> None:
        self.settings = settings or lone()
        self.partitions, self.coordinators = partitions, coordinators
        self.now = 0
        self.nodes: dict[int, Broker] = {}
        self.machines: dict[str, Machine] = {}
        self.held: list[MessageInFlight] = []
        self.sent: list[tuple[str, int, AnyRequest]] = []
        """Requests of clients: who, to which broker, what."""
        self.told: dict[str, str] = {}
        self.acked: list[str] = []
        """Acknowledged records, of `produce`."""
        self.last = ""
        """Name of the newest record of `produce`."""
        self.paused: set[int] = set()
        self._asleep: list[MessageInFlight] = []
        self._rules: list[HeldMessage] = []
        self._queue: deque[MessageInFlight] = deque()
        self._waiting: dict[int, MessageInFlight] = {}
        self._connections = 0
        self._incarnation = 0
        self._durable: defaultdict[int, Durable] = defaultdict(Durable)
        self._begin(partitions, coordinators)

    def again(self, settings: Settings) -> Self:
        """A new stage of the same brokers and partitions, with these settings."""
        return type(self)(settings, self.partitions, self.coordinators)

    def _begin(self, partitions: Sequence[Sequence[int]], coordinators: Sequence[int]) -> None:
        """The cluster comes up and gets its topics."""
        turns = [n % len(coordinators) for n in range(3)]
        spread = [(*coordinators[turn:], *coordinators[:turn]) for turn in turns]
        self.restart(CONTROLLER_NODE, *sorted({*coordinators, *(n for tp in partitions for n in tp)}))
        self.create(TOPIC, partitions).create(TRANSACTION_TOPIC, spread).create(GROUP_TOPIC, spread)
        self.wait(200)

    def create(self, topic: str, replicas: Sequence[Sequence[int]], *, at: int = CONTROLLER_NODE) -> Self:
        """A topic, whose partitions have these replicas."""
        assignment = tuple(tuple(nodes) for nodes in replicas)
        answer = self.ask(CreateTopics(topic, len(assignment), len(assignment[0]), assignment), to=at)
        assert answer.error is KafkaError.NONE, answer
        return self

    def delete(self, topic: str, *, at: int = CONTROLLER_NODE) -> Self:
        """A topic is deleted, as far as brokers know of it."""
        answer = self.ask(DeleteTopics(topic), to=at)
        assert answer.error is KafkaError.NONE, answer
        return self

    # ---- state

    @property
    def controller(self) -> Broker:
        """The node that knows."""
        return self.nodes[CONTROLLER_NODE]

    def leader(self, tp: Partition) -> int:
        """Who leads, as the controller decided."""
        return self.controller.node.image.partitions[tp].leader

    def replica(self, tp: Partition, n: int = -1) -> Replica | None:
        """The replica on a broker, on the leader by default; None where there is none."""
        broker = self.nodes.get(n if n >= 0 else self.leader(tp))
        return broker.node.replicas.get(tp) if broker is not None else None

    def number(self, key: str, topic: str) -> int:
        """The partition of a coordinators' topic that a transactional id or a group belongs to."""
        return java_hash(key) % self.controller.node.image.topics[topic]

    def coordinator(self, key: str, topic: str) -> int:
        """Who coordinates a transactional id or a group."""
        return self.leader((topic, self.number(key, topic)))

    def position(self, tp: Partition) -> str:
        """The committed offset that a member of the group receives."""
        answers: list[OffsetFetchResponse | None] = []
        self.deliver("", OffsetFetch(GROUP, (tp,)), self.coordinator(GROUP, GROUP_TOPIC), answers.append)
        answer = answers[0] if answers else None
        if answer is None:
            return "waits"
        if answer.error:
            return str(answer.error.name)
        return str(answer.offsets[tp]) if answer.offsets[tp] >= 0 else "none"

    def produce(self, *records: str, to: int, acks: int = -1, number: int = 0) -> Self:
        """A producer without an id sends one batch; the first record's name stands for all. `told`."""
        tp, name = data(number), records[0]
        self.last, self.told[name] = name, "waits" if acks else "sent"

        def told(answer: ProduceResponse | None) -> None:
            error = answer.results[tp][0] if answer is not None else None
            if error is KafkaError.NONE:
                self.acked.append(name)
                self.told[name] = "acknowledged"
            elif error is not None:
                self.told[name] = error.name

        return self.deliver("", Produce(acks, {tp: RecordBatch(-1, -1, records)}), to, told)

    def delete_before(self, offset: int, number: int = 0) -> Self:
        """DeleteRecords: what stands before the offset goes."""
        tp = data(number)
        answer = self.ask(DeleteRecords({tp: offset}), to=self.leader(tp))
        assert answer.parts[tp][0] is KafkaError.NONE, answer
        return self

    def read(self, number: int, *, committed: bool, begin: int = 0) -> list[str]:
        """What a new consumer gets of a partition."""
        tp = data(number)
        node = self.leader(tp)
        ends = self.ask(ListOffsets((tp,), committed=committed), to=node).parts[tp][1]
        consumer = Consumer((node,), committed=committed, wait_ms=0)
        consumer.assign({tp: begin})
        seen: list[str] = []
        while consumer.positions[tp].position < ends:
            consumer.pump(self.now)
            asks, consumer.out = consumer.out, []
            assert asks, "it asks for nothing"
            for ask in asks:
                consumer.answered(ask.channel, self.ask(ask.request, to=node), self.now)
            seen += [str(got.payload) for got in consumer.take(1000)]
        return seen

    # ---- messages

    def hold(
        self,
        kind: type,
        *,
        of: int | str | None = None,
        to: int | None = None,
        answer: bool = False,
        times: int = 1,
    ) -> Self:
        """See the module. of: the sender (None: any). to: the node (None: any)."""
        self._rules += [HeldMessage(kind=kind, sender=of, to=to, answer=answer)] * times
        return self

    def let(self) -> Self:
        """Nothing more is to be held than what is."""
        self._rules.clear()
        return self

    def release(self, kind: type = object) -> Self:
        """What is held arrives, the oldest first."""
        for message in self._of_kind(kind):
            self.held.remove(message)
            self._arrive(message)
        return self.flow()

    def arrive(self, message: MessageInFlight) -> Self:
        """A message that is held arrives."""
        self.held.remove(message)
        self._arrive(message)
        return self.flow()

    def give_up(self) -> Self:
        """See the module."""
        for message in self.held:
            self._hear(message, None)
        return self.flow()

    def lose(self, kind: type = object, *, answers: bool = True) -> Self:
        """See the module. answers: those too."""
        for message in self._of_kind(kind):
            if answers or not message.answering:
                self.held.remove(message)
                self._hear(message, None)
        return self.flow()

    def _of_kind(
        self,
        kind: type | tuple[type, ...],
        *,
        of: int | None = None,
        to: int | None = None,
        answering: bool | None = None,
    ) -> list[MessageInFlight]:
        """Messages that are held. None: any."""
        return [
            message
            for message in self.held
            if isinstance(message.ask.request, kind)
            and of in (None, message.sender)
            and to in (None, message.ask.node)
            and answering in (None, message.answering)
        ]

    def ask(self, request: Request[A], *, to: int) -> A:
        """A request from outside; its answer, which comes at once."""
        answers: list[A | None] = []
        self.deliver("", request, to, answers.append)
        (answer,) = answers
        assert answer is not None
        return answer

    def deliver(self, of: str, request: Request[A], to: int, told: Callable[[A | None], None]) -> Self:
        """A request; `told` gets the answer, or with None when it is given up."""
        self._queue.append(MessageInFlight(of, Ask(to, "", request), told))
        return self.flow()

    def join(self, machine: Machine, name: str) -> Self:
        """A client takes part from now on, under a name; another one of that name leaves."""
        self.machines[name] = machine
        return self.flow()

    def flow(self) -> Self:
        """Everything that is under way arrives, and what follows from it."""
        for _ in range(MOST):
            self._collect()
            if not self._queue:
                return self
            self._travel(self._queue.popleft())
        raise AssertionError("it does not come to rest")

    def _collect(self) -> None:
        for n, broker in self.nodes.items():
            for effect in broker.take_out():
                if isinstance(effect, Reply):
                    self._answered(effect)
                else:
                    self._queue.append(self._of_broker(n, effect))
        for name, machine in list(self.machines.items()):
            machine.pump(self.now)
            asks, machine.out = machine.out, []
            self.sent += [(name, ask.node, ask.request) for ask in asks]
            self._queue.extend(self._of_machine(name, machine, ask) for ask in asks)

    def _of_broker(self, n: int, ask: Ask) -> MessageInFlight:
        broker = self.nodes[n]

        def told(answer: Response | None) -> None:
            if self.nodes.get(n) is broker:
                broker.answered(self.now, ask, answer)

        return MessageInFlight(n, ask, told)

    def _of_machine(self, name: str, machine: Machine, ask: Ask) -> MessageInFlight:
        def told(answer: Response | None) -> None:
            if self.machines.get(name) is machine:
                machine.answered(ask.channel, answer, self.now)

        return MessageInFlight(name, ask, told)

    def _answered(self, reply: Reply) -> None:
        message = self._waiting.pop(reply.connection, None)
        if message is not None:
            message.answer, message.answering = reply.answer, True
            message.answered_ms = self.now
            self._queue.append(message)

    def _travel(self, message: MessageInFlight) -> None:
        if (message.sender if message.answering else message.ask.node) in self.paused:
            self._asleep.append(message)
        elif self._is_held(message):
            self.held.append(message)
        else:
            self._arrive(message)

    def _is_held(self, message: MessageInFlight) -> bool:
        """Whether a step has asked for that; it is done for one message."""
        for rule in self._rules:
            if rule.fits(message):
                self._rules.remove(rule)
                return True
        return False

    def _arrive(self, message: MessageInFlight) -> None:
        if message.answering:
            self._hear(message, message.answer)
            return
        node = message.ask.node
        if node not in self.nodes:
            self._hear(message, None)
            return
        self._connections += 1
        self._waiting[self._connections] = message
        message.arrived_ms = self.now
        self.nodes[node].receive(self.now, self._connections, 0, message.ask.request)

    def _hear(self, message: MessageInFlight, answer: Response | None) -> None:
        if message.listens:
            message.listens = False
            message.told(answer)

    # ---- processes and time

    def wait(self, milliseconds: int) -> Self:
        """Time passes."""
        for _ in range(milliseconds // TICK_MS):
            self.now += TICK_MS
            for n in [n for n in self.nodes if n not in self.paused]:
                self.nodes[n].tick(self.now)
            self.flow()
        return self

    def until(self, condition: Callable[[], bool], milliseconds: int = 20_000) -> Self:
        """Time passes until a condition holds."""
        end = self.now + milliseconds
        self.flow()
        while not condition():
            assert self.now < end, "it does not come to that"
            self.wait(TICK_MS)
        return self

    def crash(self, *nodes: int) -> Self:
        """SIGKILL; who waits for an answer of theirs hears of it."""
        for n in nodes:
            del self.nodes[n]
            self._break(n)
        return self.flow()

    def pause(self, n: int) -> Self:
        """The process stands still: what reaches it waits, and it does not know of that."""
        self.paused.add(n)
        return self

    def resume(self, n: int) -> Self:
        """It continues where it stood; what reached it meanwhile comes in that order."""
        self.paused.discard(n)
        asleep, self._asleep = self._asleep, []
        self._queue.extendleft(reversed(asleep))
        return self.flow()

    def _break(self, node: int) -> None:
        for connection, message in list(self._waiting.items()):
            if node in (message.ask.node, message.sender):
                del self._waiting[connection]
                self._hear(message, None)

    def start(self, *nodes: int) -> Self:
        """The processes start (again)."""
        for n in nodes:
            self._incarnation += 1
            self.nodes[n] = Broker(
                n,
                voters=self.voters,
                settings=self.settings,
                durable=self._durable[n],
                incarnation=self._incarnation,
                draw=lambda low, _: low,
                broker=n not in self.voters,
                ensemble=self.ensemble,
            )
            self.nodes[n].start(self.now)
            self.flow()
        return self

    def restart(self, *nodes: int) -> Self:
        """The processes start (again), and take part once the controller counts on them."""
        brokers = set(nodes).difference(self.voters)
        return self.start(*nodes).until(lambda: not any(self.nodes[n].fenced for n in brokers))


Column = Callable[[ClusterStage, str], object]


def _of(show: Callable[[Replica], object], down: str | None = None) -> Column:
    """Of the leader's replica of partition 0, or of the one that is named."""

    def column(s: ClusterStage, number: str) -> object:
        replica = s.replica(data(int(number or 0)))
        return show(replica) if replica is not None else down

    return column


def brief(batches: Sequence[RecordBatch]) -> list[str]:
    """Records, and markers in brackets."""
    return [f"[{b.control}]" if b.control else " ".join(map(str, b.records)) for b in batches]


def _records(replica: Replica | None) -> object:
    return brief(replica.log.batches) if replica is not None else "down"


COLUMNS: Mapping[str, Column] = {
    "leader": lambda s, _: s.leader(data(0)),
    r"log(?: p(\d))?": _of(_records, "down"),
    r"log (\d)": lambda s, n: _records(s.replica(data(0), int(n))),
    "log of new": lambda s, _: _records(s.replica(("new", 0))),
    "HW": _of(lambda r: r.high_watermark),
    r"LSO(?: p(\d))?": _of(lambda r: r.log.stable(r.high_watermark)),
    # (producer id, first offset, offset of the marker)
    "aborted index": _of(lambda r: [f"({a.producer_id}, {a.first}, {a.last})" for a in r.log.aborted]),
    # What a new reader gets, from the beginning on or from an offset.
    "read_uncommitted": lambda s, _: s.read(0, committed=False),
    r"read_committed(?: p(\d))?": lambda s, n: s.read(int(n or 0), committed=True),
    r"read_committed from (\d)": lambda s, begin: s.read(0, committed=True, begin=int(begin)),
    # What was answered: to a producer, or a client of a group; to the producer of a record.
    "producer": lambda s, _: s.told.get("A"),
    r"([A-Z]) learns": lambda s, name: s.told.get(name),
    r"([a-z]\d?)": lambda s, record: s.told.get(record),
}
