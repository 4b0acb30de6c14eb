"""The state machines of a modelled client in virtual time: pumped, answered, paused, killed, waited for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from core.client_settings import (
    AUTO_COMMIT,
    BATCH,
    GROUP_PROTOCOL,
    IN_FLIGHT,
    INT_MAX,
    LEAST,
    LINGER,
    REQUEST_TIMEOUT,
    RETRIES,
    SESSION_TIMEOUT,
    SOCKET_TIMEOUT,
    ClientLibrary,
    ProducerConfig,
    SessionSpec,
    effective,
)
from core.op import AssignmentKind, Isolation, TopicPartition
from core.session import Acked, AssignmentEvent, Delivery, SessionEvent, Unknown
from harness.modelled.virtual.scheduler import Future, Scheduler
from model.client.client_metadata import KafkaClient
from model.client.consumer import Consumer
from model.client.group_member import GroupMember
from model.client.producer import Producer, ProducerSettings
from model.client.share_consumer import ShareConsumer
from model.client.transactional_producer import TransactionalProducer
from model.protocol.requests import Answered, Response
from model.replication.node import Ask
from model.settings import Settings

STEP_US: Final = 20_000
"""Distance between looks at what can be sent, in addition to those after each answer."""

MODELLED: Final = ClientLibrary(
    name="the simulated client",
    unset={
        RETRIES: INT_MAX,
        IN_FLIGHT: 5,  # as Java's producer
        LINGER: 0,
        BATCH: 50,
        REQUEST_TIMEOUT: 2000,
        SOCKET_TIMEOUT: 2000,
        AUTO_COMMIT: 1000,
        SESSION_TIMEOUT: 6000,
        "auto.offset.reset": "earliest",
    },
    honoured=frozenset({*LEAST, GROUP_PROTOCOL}),
)
"""Defaults of the modelled client, and the settings that it honours."""


class Sender(Protocol):
    """Carries a request to a node; the answer comes back, or None where none came in time."""

    def __call__(self, ask: Ask, answered: Answered, timeout_ms: int | None = None) -> None:
        """timeout_ms: how long to wait for the answer; None: as long as brokers do."""

    def hang_up(self) -> None:
        """All connections end with their client."""


class _WaitingVerb(msgspec.Struct, frozen=True, eq=False):
    """A verb that waits until something holds, or the time `ends` comes."""

    done: Callable[[], bool]
    ends: int
    future: Future[None]


class _Deadline(msgspec.Struct, eq=False):
    """The end of the time that a verb may wait (`harness.modelled.virtual.scheduler.Expiring`)."""

    give_up: Callable[[], None]
    waits: bool = True


class Machines:
    """See the module. `dead`: the client's process has ended, and a verb under way never returns. A
    paused client neither sends nor sees anything."""

    def __init__(
        self, spec: SessionSpec, nodes: Sequence[int], scheduler: Scheduler, sender: Sender, model: Settings
    ) -> None:
        self.spec = spec
        self.client = effective(spec, MODELLED)
        self.dead = False
        self._going: Future[None] | None = None
        self._scheduler = scheduler
        self._send_request = sender
        self._events: list[SessionEvent] = []
        self._tokens: dict[int, Future[Delivery]] = {}
        self._token = 0
        self._waiting: list[_WaitingVerb] = []
        self._nodes = tuple(nodes)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.member: GroupMember | None = None
        self.share: ShareConsumer | None = None
        if (made := self.client.producer) is not None:
            kind = Producer if made.transactional_id is None else TransactionalProducer
            self.producer = kind(producer_settings(made, model), nodes)
        read = self.client.consumer
        if spec.share:
            assert spec.group is not None
            self.share = ShareConsumer(spec.group, f"member-{spec.process}", nodes)
        elif read is not None:
            committed = read.isolation is Isolation.READ_COMMITTED
            self.consumer = Consumer(nodes, committed=committed, bugs=model.bugs)
        self._producer_timeout_ms = None if made is None else made.socket_timeout_ms
        self._consumer_timeout_ms = None if read is None else read.socket_timeout_ms
        scheduler.after(0, self._tick)

    @property
    def fatal(self) -> str | None:
        """Code of the error that made this session unusable, or None."""
        return self.producer.fatal or None if self.producer is not None else None

    # ---- the machines

    @property
    def _now_ms(self) -> int:
        return self._scheduler.now // 1000

    def die(self) -> None:
        """The client's process has ended."""
        self.dead = True
        if self.share is not None:
            self._send_request.hang_up()

    def pause(self) -> None:
        """Stand still."""
        if self._going is None:
            self._going = Future()

    def resume(self) -> None:
        """Continue, with everything that arrived meanwhile."""
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
        now = self._scheduler.now // 1000
        producer, consumer, member, share = self.producer, self.consumer, self.member, self.share
        if producer is not None:
            producer.pump(now)
            if producer.out:
                self._send_asks(producer, self._producer_timeout_ms)
        if consumer is not None:
            consumer.pump(now)
            if consumer.out:
                self._send_asks(consumer, self._consumer_timeout_ms)
        if member is not None:
            member.pump(now)
            if member.out:
                self._send_asks(member, self._consumer_timeout_ms)
        if share is not None:
            share.pump(now)
            if share.out:
                self._send_asks(share, self._consumer_timeout_ms)
        if producer is not None and producer.delivered:
            self._collect(producer)
        if consumer is not None and consumer.resets:
            for tp, left in consumer.resets:
                self._assignment(AssignmentKind.RESET, [TopicPartition(*tp)], position=left)
            consumer.resets.clear()
        if self._waiting:
            self._look()

    def _send_asks(self, machine: KafkaClient, timeout_ms: int | None) -> None:
        """Send what one of the machines wants sent."""
        asks, machine.out = machine.out, []
        for ask in asks:
            self._send_request(ask, partial(self._answered, machine, ask.channel), timeout_ms)

    def _answered(self, machine: KafkaClient, channel: str, answer: Response | None) -> None:
        if self.dead:
            return
        if self._going is not None:
            self._going.then(partial(self._answered, machine, channel, answer))
            return
        machine.answered(channel, answer, self._scheduler.now // 1000)
        self._pump()

    def _collect(self, producer: Producer) -> None:
        """Hand out what happened to records."""
        delivered, producer.delivered = producer.delivered, []
        for token, error, offset in delivered:
            future = self._tokens.pop(token, None)
            if future is not None:
                done: Delivery = Unknown(error) if error else Acked(offset, self._scheduler.ns)
                future.set(done)

    def _assignment(
        self,
        kind: AssignmentKind,
        tps: Sequence[TopicPartition],
        generation: int = -1,
        ns: int = 0,
        position: int = -1,
    ) -> None:
        """ns: when, 0 = now."""
        head = {"generation": generation, "ns": ns or self._scheduler.ns, "position": position}
        self._events.append(AssignmentEvent(kind=kind, tps=tuple(tps), **head))

    def _look(self) -> None:
        """Wake those who need not wait longer."""
        at_once = self.dead or self._going is not None  # they see to that themselves
        now = self._scheduler.now
        woken = [one for one in self._waiting if at_once or now >= one.ends or one.done()]
        if woken:
            self._waiting = [one for one in self._waiting if one not in woken]
            for one in woken:
                one.future.set(None)

    async def _until(self, done: Callable[[], bool], microseconds: int) -> bool:
        """Wait until something holds or the time has passed; whether it holds."""
        ends = self._scheduler.now + microseconds
        deadline = _Deadline(self._look)
        self._scheduler.expire(microseconds, deadline)
        while self.dead or self._going is not None or not done():
            if self.dead:
                await Future[None]()  # the process has ended in the middle of this verb
            elif self._going is not None:
                await self._going
            elif self._scheduler.now >= ends:
                break
            else:
                waiting = _WaitingVerb(done, ends, Future())
                self._waiting.append(waiting)
                await waiting.future
        deadline.waits = False
        return done()


def producer_settings(made: ProducerConfig, model: Settings) -> ProducerSettings:
    """The modelled producer's settings; the model says what its brokers understand."""
    return ProducerSettings(
        acks=made.acks,
        idempotent=made.idempotent,
        transactional_id=made.transactional_id,
        transaction_timeout_ms=made.transaction_timeout_ms,
        transaction_version=model.era.client_transaction_version,
        in_flight=made.in_flight,
        retries=made.retries,
        linger_ms=int(made.linger_ms),
        batch=made.batch_records,
        delivery_ms=made.message_timeout_ms or INT_MAX,
        request_ms=made.request_timeout_ms,
        bugs=model.bugs,
    )
