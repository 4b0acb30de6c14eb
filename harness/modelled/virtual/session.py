"""A session on the simulated cluster: the modelled producer and consumer behind Kafka's verbs.

Each verb waits in virtual time, until the client machines are done or the verb's deadline has come.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from core.client_settings import PROTOCOLS, SessionSpec, group_protocol
from core.op import AssignmentKind, Isolation, Outcome, TopicPartition
from core.session import (
    UNAWAITED,
    AutoCommitted,
    CommittedSeen,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    Record,
    SessionEvent,
    Unknown,
)
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.client_runtime import Sender
from harness.modelled.virtual.scheduler import Future, Scheduler
from harness.modelled.virtual.share_session import SharingMachines, payload_of
from model.client.client_metadata import RETRIABLE
from model.client.consumer import BEGINNING, Consumer, TopicPartitionState
from model.client.consumer_coordinator import ConsumerCoordinator
from model.client.consumer_membership_manager import ConsumerMembershipManager
from model.client.group_member import ASSIGNED, COMMITTED, LOST, GroupEvent
from model.client.transactional_producer import TransactionalProducer, TransactionalRequestResult
from model.errors import KafkaError
from model.log.log_cleaner import KeyedRecord
from model.protocol.messages import CreateTopics, Partition
from model.protocol.requests import ErrorResponse
from model.replication.node import Ask
from model.settings import Settings


class SimSession(SharingMachines):
    """See `core.session.Session`."""

    def __init__(
        self, spec: SessionSpec, nodes: Sequence[int], scheduler: Scheduler, sender: Sender, model: Settings
    ) -> None:
        super().__init__(spec, nodes, scheduler, sender, model)
        self._model = model
        self._ended: dict[TopicPartition, int] = {}
        self._auto_at = 0
        self._subscribed = 0
        self._auto: dict[int, tuple[dict[TopicPartition, int], int, int]] = {}

    # ---- verbs

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        """Send all records pipelined; one delivery each, in order. Does not raise."""
        assert self.producer is not None
        if isinstance(self.producer, TransactionalProducer) and not self.producer.open:
            return [Failed("_STATE") for _ in records]
        futures: list[Future[Delivery]] = []
        lanes: dict[TopicPartition, list[tuple[object, int]]] = {}
        for record in records:
            self._token += 1
            future: Future[Delivery] = Future()
            futures.append(future)
            if wait:
                self._tokens[self._token] = future
            lanes.setdefault(record.tp, []).append((_as_kept(record), self._token))
        for tp, queued in lanes.items():
            self.producer.send(tp, queued, self._now_ms)
        self._pump()
        if not wait:
            return [Unknown(UNAWAITED)] * len(records)
        await self._until(lambda: all(f.done for f in futures), self._deadline_us)
        return [f.value if f.value is not None else Unknown("_TIMED_OUT") for f in futures]

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        """The next records, at most `max_records`, waiting at most `wait_ms` for the first."""
        consumer = self._consumer()
        self._auto_commit()
        self._pump()
        self._rebalanced()
        await self._until(lambda: consumer.ready or self._at_an_end() or self._has_news(), wait_ms * 1000)
        self._rebalanced()
        taken = consumer.take(max_records)
        self._pump()
        self._note_ends()
        return [
            Fetched(TopicPartition(*got.tp), got.offset, payload_of(got.payload), got.leader_epoch)
            for got in taken
        ]

    def _ends(self) -> Iterator[tuple[TopicPartition, TopicPartitionState]]:
        """Partitions whose end is another one than the consumer has reported."""
        if self.spec.report_end and self.consumer is not None:
            for key, position in self.consumer.positions.items():
                tp = TopicPartition(*key)
                if self._ended.get(tp, -1) < position.end:
                    yield tp, position

    def _at_an_end(self) -> bool:
        return self.spec.report_end and any(p.position >= p.end for _, p in self._ends())

    def _note_ends(self) -> None:
        for tp, position in self._ends():
            if not position.buffer and position.next >= position.end:
                self._ended[tp] = position.end
                self._events.append(EndReached(tp=tp, offset=position.end, ns=self._scheduler.ns))

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
        if self.share is not None:
            self.share.subscribe(topics)
            self._pump()
            return
        consumer = self._consumer()
        settings = self.client.consumer
        assert settings is not None
        assert settings.group is not None
        consumer.assign({})
        stable = settings.isolation is Isolation.READ_COMMITTED
        shared = settings.group, topics, consumer.cluster
        if group_protocol(self.spec) == PROTOCOLS[0]:
            self.member = ConsumerCoordinator(*shared, settings.session_timeout_ms, stable=stable)
        else:
            self._subscribed += 1
            name = f"member-{self.spec.process}-{self._subscribed}"
            self.member = ConsumerMembershipManager(
                *shared, name, settings.session_timeout_ms, stable=stable, bugs=self._model.bugs
            )
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
                # Not the time of this poll: the member has asked for committed offsets since.
                told = BASE_NS + news.at_ms * 1_000_000
                self._assignment(AssignmentKind.ASSIGNED, tps, news.generation, told)
            else:
                kind = AssignmentKind.LOST if news.kind == LOST else AssignmentKind.REVOKED
                self._assignment(kind, tps, news.generation)
                self._consumer().unassign(news.partitions)
        self._pump()

    def _start_at(self, news: GroupEvent) -> None:
        self._consumer().assign_more({tp: at if at >= 0 else BEGINNING for tp, at in news.offsets.items()})
        known = {TopicPartition(*tp): at for tp, at in news.offsets.items() if at >= 0}
        if known:
            self._events.append(
                CommittedSeen(
                    offsets=known,
                    generation=news.generation,
                    begin_ns=BASE_NS + news.at_ms * 1_000_000,
                    ns=self._scheduler.ns,
                )
            )

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Commit consumer positions to the group; the generation used (-1 unknown)."""
        if self.member is None:
            raise Definite("_UNKNOWN_GROUP")
        member, generation = self.member, self.member.generation
        offsets = {(tp.topic, tp.partition): at for tp, at in positions.items()}
        number = member.commit(offsets, self._epochs(offsets))
        self._pump()
        await self._in_time(lambda: number in member.commits)
        error = member.commits.pop(number)
        if error:
            raise (Indefinite if KafkaError[error] in RETRIABLE else Definite)(error)
        return generation

    def _epochs(self, offsets: Collection[Partition]) -> dict[Partition, int]:
        """Leader epochs of what was read last of these partitions."""
        if self.consumer is None or not self._model.era.fenced_fetch:
            return {}
        known = {tp: p.epoch for tp, p in self.consumer.positions.items() if p.epoch >= 0}
        return {tp: known[tp] for tp in offsets if tp in known}

    def _auto_commit(self) -> None:
        """Commit what was handed out, as the client does between polls."""
        member, consumer = self.member, self.consumer
        settings = self.client.consumer
        if settings is None or not settings.auto_commit or member is None or consumer is None:
            return
        for number, (known, generation, begin) in list(self._auto.items()):
            if number in member.commits:
                error = member.commits.pop(number)
                del self._auto[number]
                outcome = Outcome.OK
                if error:
                    outcome = Outcome.INFO if KafkaError[error] in RETRIABLE else Outcome.FAIL
                self._events.append(
                    AutoCommitted(
                        offsets=known,
                        generation=generation,
                        outcome=outcome,
                        begin_ns=begin,
                        ns=self._scheduler.ns,
                    )
                )
        if self._now_ms < self._auto_at or self._auto or not consumer.positions:
            return
        self._auto_at = self._now_ms + settings.auto_commit_interval_ms
        offsets = {tp: p.position for tp, p in consumer.positions.items() if p.position > 0}
        if offsets:
            number = member.commit(offsets, self._epochs(offsets))
            known = {TopicPartition(*tp): at for tp, at in offsets.items()}
            self._auto[number] = (known, member.generation, self._scheduler.ns)

    # ---- transactions

    async def begin(self) -> None:
        """Begin a transaction (the first call also initialises the transactional id)."""
        producer = self._transactional()
        if producer.fatal:
            raise Definite(producer.fatal, fatal=True)
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
        offsets = {(tp.topic, tp.partition): at for tp, at in positions.items()}
        goal = self._transactional().add_offsets(
            self.spec.group, offsets, generation, self.member.member, self._epochs(offsets)
        )
        self._pump()
        await self._reach(goal)
        return generation

    async def _reach(self, goal: TransactionalRequestResult) -> None:
        """Wait for what a transactional call wants. Raises: Indefinite."""
        await self._in_time(lambda: goal.done)
        if goal.error:
            raise Indefinite(goal.error, wants_abort=goal.abort)

    async def _in_time(self, done: Callable[[], bool]) -> None:
        """Wait until something holds. Raises: Indefinite, where it does not before the verb's deadline."""
        if not await self._until(done, self._deadline_us):
            raise Indefinite("_TIMED_OUT")

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
        if partitions < 1:
            raise Definite("INVALID_PARTITIONS")
        answered: Future[ErrorResponse | None] = Future()
        answered.then(self._look)
        ask = Ask(self._nodes[0], "create", CreateTopics(topic, partitions, replication))
        self._send_request(ask, answered.set)
        await self._in_time(lambda: answered.done)
        if answered.value is None:
            raise Indefinite("_TIMED_OUT")
        if answered.value.error is not KafkaError.NONE:
            raise Indefinite(answered.value.error.name)

    async def close(self) -> None:
        """Close the clients: a member leaves its group; what was not finished is left as it is."""
        if self.member is not None:
            self._rebalanced()
            self.member.leave()
            self._pump()
        if self.share is not None:
            self.share.leave()
            self._pump()
        self.die()

    def events(self) -> list[SessionEvent]:
        """What happened outside of verbs since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def _consumer(self) -> Consumer:
        if self.consumer is None:
            raise RuntimeError(f"session of process {self.spec.process}: no consumer")
        return self.consumer


def _as_kept(record: Record) -> object:
    """The record as logs have it."""
    return KeyedRecord(record.key, record.payload, record.tombstone) if record.key else record.payload
