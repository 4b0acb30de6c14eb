"""The state machines of a modelled client in virtual time: pumped, answered, paused, killed, waited for.

Not here: Kafka's verbs (`session`), the machines themselves (`model`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from harness.op import AssignmentKind, Isolation, TopicPartition
from harness.session import Acked, AssignmentEvent, Delivery, SessionEvent, SessionSpec, Unknown
from harness.simulation.scheduler import BASE_NS, Future, Scheduler
from model.consumer import Consumer
from model.member import Member
from model.node import Ask
from model.producer import Producer, ProducerSettings
from model.settings import Settings
from model.transactional import TransactionalProducer

STEP_US: Final = 20_000
"""Distance between looks at what can be sent, besides those after each answer."""

Sender = Callable[[Ask, Callable[[Any], None]], None]
"""Carries a request to a node; the answer, or None, comes back."""


class Machines:
    """See the module. `dead`: the client's process is gone, whoever waited in a verb waits for ever. A
    paused client neither sends nor sees anything."""

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
        self._tokens: dict[int, Future[Delivery]] = {}
        self._token = 0
        self._changed: Future[None] = Future()
        self._nodes = tuple(nodes)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.member: Member | None = None
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

    def _assignment(
        self, kind: AssignmentKind, tps: Sequence[TopicPartition], generation: int = -1, ns: int = 0
    ) -> None:
        """ns: when, 0 = now."""
        at = ns or self._now_ns
        self._events.append(
            AssignmentEvent(kind=kind, tps=tuple(tps), generation=generation, ns=at)
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
