"""A session on the simulated cluster: the modelled producer and consumer behind Kafka's verbs.

Each verb waits in virtual time, until the client machines are done or the verb's deadline has come.

Not here: what the clients do (`model.producer`, `model.consumer`), the network.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.op import AssignmentKind, Isolation, Outcome, TopicPartition
from harness.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    AutoCommitted,
    CommittedSeen,
    Definite,
    Delivery,
    EndReached,
    Fetched,
    Indefinite,
    Record,
    SessionEvent,
    SessionSpec,
    Unknown,
)
from harness.simulation.scheduler import BASE_NS, Future, Scheduler
from model.client import RETRIABLE
from model.consumer import BEGINNING, Consumer
from model.errors import KafkaError
from model.member import ASSIGNED, COMMITTED, LOST, Member, News
from model.messages import CreateTopic
from model.node import Ask
from model.producer import Producer, ProducerSettings
from model.settings import Settings
from model.transactional import Goal, TransactionalProducer

SESSION_MS: Final = 6_000
AUTO_COMMIT_MS: Final = 1_000
STEP_US: Final = 20_000
"""Distance between looks at what can be sent, besides those after each answer."""

Sender = Callable[[Ask, Callable[[Any], None]], None]
"""Carries a request to a node; the answer, or None, comes back."""


class SimSession:
    """See `harness.session.Session`. `dead`: the client's process is gone, whoever waited in a verb
    waits for ever. A paused client neither sends nor sees anything."""

    def __init__(
        self,
        spec: SessionSpec,
        nodes: Sequence[int],
        scheduler: Scheduler,
        sender: Sender,
        model: Settings,
    ) -> None:
        self.spec = spec
        self.dead = False
        self._going: Future[None] | None = None
        self._scheduler = scheduler
        self._send_request = sender
        self._events: list[SessionEvent] = []
        self._ended: dict[TopicPartition, int] = {}
        self._tokens: dict[int, Future[Delivery]] = {}
        self._token = 0
        self._changed: Future[None] = Future()
        self._nodes = tuple(nodes)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.member: Member | None = None
        self._auto_at = 0
        self._auto: dict[int, tuple[dict[TopicPartition, int], int, int]] = {}
        if spec.transactional_id is not None:
            self.producer = TransactionalProducer(producer_settings(spec, model), nodes)
        elif spec.acks is not None:
            self.producer = Producer(producer_settings(spec, model), nodes)
        if spec.isolation is not Isolation.NONE:
            committed = spec.isolation is Isolation.READ_COMMITTED
            self.consumer = Consumer(nodes, committed=committed, bugs=model.bugs)
        scheduler.after(0, self._tick)

    @property
    def fatal(self) -> str | None:
        """Code of the error that made this session unusable, or None."""
        return self.producer.fatal or None if self.producer is not None else None

    # ---- the machines

    @property
    def _now_ms(self) -> int:
        return self._scheduler.now // 1000

    def pause(self) -> None:
        """Stand still."""
        if self._going is None:
            self._going = Future()

    def resume(self) -> None:
        """Go on, with everything that came meanwhile."""
        going, self._going = self._going, None
        if going is not None:
            going.set(None)

    def _tick(self) -> None:
        if self.dead:
            return
        if self._going is None:
            self._pump()
        self._scheduler.after(STEP_US, self._tick)

    def _pump(self) -> None:
        if self.dead:
            return  # killed between two calls: it sends nothing that its journal does not hold
        for machine in (self.producer, self.consumer, self.member):
            if machine is None:
                continue
            machine.pump(self._now_ms)
            asks, machine.out = machine.out, []
            for ask in asks:
                self._send_request(ask, self._answer_to(machine, ask.channel))
        self._collect()

    def _answer_to(
        self, machine: Producer | Consumer | Member, channel: str
    ) -> Callable[[Any], None]:
        def answered(answer: Any) -> None:
            if self.dead:
                return
            if self._going is not None:
                self._going.then(lambda: answered(answer))
                return
            machine.answered(channel, answer, self._now_ms)
            self._pump()

        return answered

    def _collect(self) -> None:
        if self.producer is not None and self.producer.delivered:
            delivered, self.producer.delivered = self.producer.delivered, []
            for token, error, offset in delivered:
                future = self._tokens.pop(token, None)
                if future is not None:
                    done: Delivery = Unknown(error) if error else Acked(offset, self._now_ns)
                    future.set(done)
        if self.consumer is not None:
            for tp in self.consumer.resets:
                self._assignment(AssignmentKind.RESET, [TopicPartition(*tp)])
            self.consumer.resets.clear()
        self._look()

    @property
    def _now_ns(self) -> int:
        return BASE_NS + self._scheduler.now * 1000

    def _assignment(self, kind: AssignmentKind, tps: Sequence[TopicPartition]) -> None:
        self._events.append(
            AssignmentEvent(kind=kind, tps=tuple(tps), generation=-1, ns=self._now_ns)
        )

    def _look(self) -> None:
        """Let those who wait look again."""
        changed, self._changed = self._changed, Future()
        changed.set(None)

    async def _until(self, done: Callable[[], bool], microseconds: int) -> bool:
        """Wait until something holds, or the time is over; whether it holds."""
        ends = self._scheduler.now + microseconds
        self._scheduler.at(ends, self._look)
        while self.dead or self._going is not None or not done():
            if self.dead:
                await Future[None]()  # nobody is there any more to go on
            elif self._going is not None:
                await self._going
            elif self._scheduler.now >= ends:
                break
            else:
                await self._changed
        return done()

    # ---- verbs

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        """Send all records pipelined; one delivery each, in order. Does not raise."""
        assert self.producer is not None
        futures: list[Future[Delivery]] = []
        lanes: dict[TopicPartition, list[tuple[Any, int]]] = {}
        for record in records:
            self._token += 1
            future: Future[Delivery] = Future()
            futures.append(future)
            if wait:
                self._tokens[self._token] = future
            lanes.setdefault(record.tp, []).append((record.payload, self._token))
        for tp, queued in lanes.items():
            self.producer.send(tp, queued, self._now_ms)
        self._pump()
        if not wait:
            return [Unknown(UNAWAITED)] * len(records)
        await self._until(lambda: all(f.done for f in futures), int(self.spec.deadline_s * 1e6))
        return [f.value if f.value is not None else Unknown("_TIMED_OUT") for f in futures]

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        """The next records, at most `max_records`, waiting at most `wait_ms` for the first."""
        consumer = self._consumer()
        self._auto_commit()
        self._pump()
        self._rebalanced()
        await self._until(
            lambda: consumer.ready or self._at_end() or self._has_news(), wait_ms * 1000
        )
        self._rebalanced()
        taken = consumer.take(max_records)
        self._pump()
        self._note_ends()
        return [
            Fetched(TopicPartition(*got.tp), got.offset, got.payload, got.leader_epoch)
            for got in taken
        ]

    def _at_end(self) -> bool:
        """Something new is to be told of an end."""
        if not self.spec.report_end or self.consumer is None:
            return False
        return any(
            p.end >= 0 and p.position >= p.end and self._ended.get(TopicPartition(*tp), -1) < p.end
            for tp, p in self.consumer.positions.items()
        )

    def _note_ends(self) -> None:
        if not self.spec.report_end or self.consumer is None:
            return
        for key, position in self.consumer.positions.items():
            tp = TopicPartition(*key)
            reached = position.end >= 0 and not position.buffer and position.next >= position.end
            if reached and self._ended.get(tp, -1) < position.end:
                self._ended[tp] = position.end
                self._events.append(EndReached(tp=tp, offset=position.end, ns=self._now_ns))

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (-2: beginning of the log)."""
        self._consumer().assign({(tp.topic, tp.partition): at for tp, at in positions.items()})

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move the positions of assigned partitions."""
        for tp, offset in positions.items():
            self._consumer().seek(tp, offset)

    async def position(self) -> dict[TopicPartition, int]:
        """Next offset to read of each assigned partition; -1 where nothing was read yet."""
        return {TopicPartition(*tp): p.position for tp, p in self._consumer().positions.items()}

    # ---- groups

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; partitions come with later polls."""
        consumer = self._consumer()
        assert self.spec.group is not None
        consumer.assign({})
        stable = self.spec.isolation is Isolation.READ_COMMITTED
        self.member = Member(self.spec.group, topics, consumer.cluster, SESSION_MS, stable=stable)
        self._pump()

    def _has_news(self) -> bool:
        return self.member is not None and bool(self.member.news)

    def _rebalanced(self) -> None:
        """Take what happened to the group's partitions since the last poll."""
        if self.member is None:
            return
        for news in self.member.take_news():
            tps = [TopicPartition(*tp) for tp in news.partitions]
            if news.kind == COMMITTED:
                self._start_at(news)
            elif news.kind == ASSIGNED:
                self._rebalance(AssignmentKind.ASSIGNED, tps, news.generation)
            else:
                kind = AssignmentKind.LOST if news.kind == LOST else AssignmentKind.REVOKED
                self._rebalance(kind, tps, news.generation)
                self._consumer().assign({})
        self._pump()

    def _rebalance(
        self, kind: AssignmentKind, tps: Sequence[TopicPartition], generation: int
    ) -> None:
        event = AssignmentEvent(kind=kind, tps=tuple(tps), generation=generation, ns=self._now_ns)
        self._events.append(event)

    def _start_at(self, news: News) -> None:
        self._consumer().assign(
            {tp: at if at >= 0 else BEGINNING for tp, at in news.offsets.items()}
        )
        known = {TopicPartition(*tp): at for tp, at in news.offsets.items() if at >= 0}
        if known:
            self._events.append(
                CommittedSeen(
                    offsets=known, generation=news.generation,
                    begin_ns=BASE_NS + news.asked_ms * 1_000_000, ns=self._now_ns,
                )
            )  # fmt: skip

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Commit consumer positions to the group; the generation used (-1 unknown)."""
        if self.member is None:
            raise Definite("_UNKNOWN_GROUP")
        member, generation = self.member, self.member.generation
        number = member.commit({(tp.topic, tp.partition): at for tp, at in positions.items()})
        self._pump()
        if not await self._until(lambda: number in member.commits, self._deadline_us):
            raise Indefinite("_TIMED_OUT")
        error = member.commits.pop(number)
        if error:
            raise (Indefinite if KafkaError[error] in RETRIABLE else Definite)(error)
        return generation

    def _auto_commit(self) -> None:
        """As the client does by itself, between polls: commit what was handed out."""
        member, consumer = self.member, self.consumer
        if not self.spec.auto_commit or member is None or consumer is None:
            return
        for number, (known, generation, begin) in list(self._auto.items()):
            if number in member.commits:
                error = member.commits.pop(number)
                del self._auto[number]
                self._told_commit(known, generation, begin, error)
        if self._now_ms < self._auto_at or self._auto or not consumer.positions:
            return
        self._auto_at = self._now_ms + AUTO_COMMIT_MS
        offsets = {tp: p.position for tp, p in consumer.positions.items() if p.position > 0}
        if offsets:
            number = member.commit(offsets)
            known = {TopicPartition(*tp): at for tp, at in offsets.items()}
            self._auto[number] = (known, member.generation, self._now_ns)

    def _told_commit(
        self, offsets: dict[TopicPartition, int], generation: int, begin: int, error: str
    ) -> None:
        outcome = Outcome.OK if not error else Outcome.FAIL
        if error and KafkaError[error] in RETRIABLE:
            outcome = Outcome.INFO
        self._events.append(
            AutoCommitted(
                offsets=offsets, generation=generation, outcome=outcome, begin_ns=begin,
                ns=self._now_ns,
            )
        )  # fmt: skip

    # ---- transactions

    async def begin(self) -> None:
        """Begin a transaction (the first call also initialises the transactional id)."""
        producer = self._transactional()
        goal = producer.init()
        if not goal.done:
            self._pump()
            await self._reach(goal)
        producer.begin()

    async def commit(self) -> None:
        """Commit the open transaction. Called at most once for it."""
        await self._finish(commit=True)

    async def abort(self) -> None:
        """Abort the open transaction. A normal return means: confirmed aborted."""
        await self._finish(commit=False)

    async def _finish(self, *, commit: bool) -> None:
        goal = self._transactional().finish(commit=commit)
        self._pump()
        await self._reach(goal)

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Add consumer positions to the open transaction; the generation used (-1 unknown)."""
        if self.member is None or self.spec.group is None:
            raise Definite("_UNKNOWN_GROUP")
        generation = self.member.generation
        goal = self._transactional().add_offsets(
            self.spec.group,
            {(tp.topic, tp.partition): at for tp, at in positions.items()},
            generation,
            self.member.member,
        )
        self._pump()
        await self._reach(goal)
        return generation

    async def _reach(self, goal: Goal) -> None:
        """Wait for what a transactional call wants. Raises: Indefinite."""
        if not await self._until(lambda: goal.done, self._deadline_us):
            raise Indefinite("_TIMED_OUT")
        if goal.error:
            raise Indefinite(goal.error, wants_abort=goal.abort)

    @property
    def _deadline_us(self) -> int:
        return int(self.spec.deadline_s * 1e6)

    def _transactional(self) -> TransactionalProducer:
        assert isinstance(self.producer, TransactionalProducer)
        return self.producer

    # ---- the rest

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when the controller has (brokers may not know it yet)."""
        answers: list[Any] = []

        def answered(answer: Any) -> None:
            answers.append(answer)
            self._look()

        ask = Ask(self._nodes[0], "create", CreateTopic(topic, partitions, replication))
        self._send_request(ask, answered)
        if not await self._until(lambda: bool(answers), self._deadline_us) or answers[0] is None:
            raise Indefinite("_TIMED_OUT")
        if answers[0].error is not KafkaError.NONE:
            raise Indefinite(answers[0].error.name)

    async def close(self) -> None:
        """Close the clients: a member leaves its group; what was not finished is left as it is."""
        if self.member is not None:
            self._rebalanced()
            self.member.leave()
            self._pump()
        self.dead = True

    def events(self) -> list[SessionEvent]:
        """What happened outside of verbs since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def _consumer(self) -> Consumer:
        if self.consumer is None:
            raise RuntimeError(f"session of process {self.spec.process}: no consumer")
        return self.consumer


def producer_settings(spec: SessionSpec, model: Settings) -> ProducerSettings:
    """The modelled producer's settings for a session; the model says what its brokers understand."""
    assert spec.acks is not None
    window = spec.settings.get("producer.max.in.flight.requests.per.connection", "5")
    return ProducerSettings(
        acks=spec.acks,
        idempotent=spec.idempotent,
        transactional_id=spec.transactional_id,
        transaction_timeout_ms=int(spec.transaction_timeout_s * 1000),
        transaction_version=model.era.transaction_version,
        in_flight=int(window),
        delivery_ms=int(spec.deadline_s * 1000),
        bugs=model.bugs,
    )
