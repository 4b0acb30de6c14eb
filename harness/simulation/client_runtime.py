"""The state machines of a modelled client in virtual time: pumped, answered, paused, killed, waited for."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from core.client_settings import (
    AUTO_COMMIT,
    BATCH,
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
from harness.simulation.scheduler import Future, Scheduler
from model.client.consumer import Consumer
from model.client.consumer_coordinator import ConsumerCoordinator
from model.client.producer import Producer, ProducerSettings
from model.client.transactional_producer import TransactionalProducer
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
    honoured=frozenset(LEAST),
)
"""Defaults of the modelled client, and the settings that it honours."""


class Sender(Protocol):
    """Carries a request to a node; the answer comes back, or None where none came in time."""

    def __call__(self, ask: Ask, answered: Callable[[Any], None], timeout_ms: int | None = None) -> None:
        """timeout_ms: how long to wait for the answer; None: as long as brokers do."""


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
        self._changed: Future[None] = Future()
        self._nodes = tuple(nodes)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.member: ConsumerCoordinator | None = None
        if (made := self.client.producer) is not None:
            kind = Producer if made.transactional_id is None else TransactionalProducer
            self.producer = kind(producer_settings(made, model), nodes)
        if (read := self.client.consumer) is not None:
            committed = read.isolation is Isolation.READ_COMMITTED
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
        for machine in (self.producer, self.consumer, self.member):
            if machine is None:
                continue
            timeout_ms = self._timeout_ms(machine)
            machine.pump(self._now_ms)
            asks, machine.out = machine.out, []
            for ask in asks:
                self._send_request(ask, self._answer_to(machine, ask.channel), timeout_ms)
        self._collect()

    def _timeout_ms(self, machine: Producer | Consumer | ConsumerCoordinator) -> int | None:
        half = self.client.producer if machine is self.producer else self.client.consumer
        return None if half is None else half.socket_timeout_ms

    def _answer_to(
        self, machine: Producer | Consumer | ConsumerCoordinator, channel: str
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
                    done: Delivery = Unknown(error) if error else Acked(offset, self._scheduler.ns)
                    future.set(done)
        if self.consumer is not None:
            for tp in self.consumer.resets:
                self._assignment(AssignmentKind.RESET, [TopicPartition(*tp)])
            self.consumer.resets.clear()
        self._look()

    def _assignment(
        self, kind: AssignmentKind, tps: Sequence[TopicPartition], generation: int = -1, ns: int = 0
    ) -> None:
        """ns: when, 0 = now."""
        at = ns or self._scheduler.ns
        self._events.append(AssignmentEvent(kind=kind, tps=tuple(tps), generation=generation, ns=at))

    def _look(self) -> None:
        """Let those who wait look again."""
        changed, self._changed = self._changed, Future()
        changed.set(None)

    async def _until(self, done: Callable[[], bool], microseconds: int) -> bool:
        """Wait until something holds or the time has passed; whether it holds."""
        ends = self._scheduler.now + microseconds
        self._scheduler.at(ends, self._look)
        while self.dead or self._going is not None or not done():
            if self.dead:
                await Future[None]()  # the process has ended in the middle of this verb
            elif self._going is not None:
                await self._going
            elif self._scheduler.now >= ends:
                break
            else:
                await self._changed
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
