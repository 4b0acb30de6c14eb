"""A stage with clients that act on their own: the model's producers, consumers and members of groups.

    s.producer("A", in_flight=1)     a producer (with transactional_id: a transactional one)
    s.send("A", 0, "m0", "m1")       it is handed records of a partition, by one call
    s.consumer("C")                  a member of the group "g", at read_committed
    s.poll("C")                      it is asked for records, as soon as it has some; `got` of it
    s.process("C"), s.commit("C")    what the application does with what it got; commit of its position
    s.die("C")                       the process is gone

`told`: what happened to each record. `done`: what applications have processed, in that order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from core.java_hash import java_hash
from model.client.consumer import BEGINNING, Consumer
from model.client.consumer_coordinator import ASSIGNED, COMMITTED, ConsumerCoordinator
from model.client.producer import Producer, ProducerSettings
from model.client.transactional_producer import TransactionalProducer, TransactionalRequestResult
from model.protocol.coordinator_messages import OffsetFetch
from model.protocol.messages import Produce
from model.protocol.requests import Response
from model.replication.node import GROUP_TOPIC, TRANSACTION_TOPIC, Ask
from model.scenarios.drivers.cluster import TOPIC, ClusterStage, data
from model.settings import Settings

AUTO_MS: Final = 5000
"""auto.commit.interval.ms."""
SESSION_MS: Final = 6000
GROUP: Final = "g"


@dataclass(slots=True)
class Reader:
    """A consumer in a group, and its application. `got`: handed out and not processed yet."""

    consumer: Consumer
    member: ConsumerCoordinator
    auto: bool
    auto_at: int = 0
    got: list[str] = field(default_factory=list)
    outcome: int = 0
    """Number of its newest commit."""

    @property
    def out(self) -> list[Ask]:
        """See `cluster.Machine`."""
        return self.consumer.out + self.member.out

    @out.setter
    def out(self, left: list[Ask]) -> None:
        assert not left
        self.consumer.out, self.member.out = [], []

    def pump(self, now: int) -> None:
        """See `cluster.Machine`."""
        self.consumer.pump(now)
        self.member.pump(now)

    def answered(self, channel: str, answer: Response | None, now: int) -> bool:
        """See `cluster.Machine`."""
        known = self.consumer.answered(channel, answer, now)
        return known or self.member.answered(channel, answer, now)

    @property
    def position(self) -> int:
        """Of partition 0, -1 = it has not got that one."""
        found = self.consumer.positions.get(data(0))
        return found.position if found is not None else -1


class ClientStage(ClusterStage):
    """See the module."""

    def __init__(
        self,
        settings: Settings | None = None,
        partitions: Sequence[Sequence[int]] = ((1,), (1,)),
        coordinators: Sequence[int] = (1,),
    ) -> None:
        self.told: dict[str, str] = {}
        self.done: list[str] = []
        self.goals: dict[str, TransactionalRequestResult] = {}
        self.producers: dict[str, Producer] = {}
        self.readers: dict[str, Reader] = {}
        self._tokens: list[str] = []
        spread = (tuple(coordinators),) * 3
        super().__init__(settings, partitions, {TRANSACTION_TOPIC: spread, GROUP_TOPIC: spread})

    # ---- producers

    def producer(self, name: str, *, bootstrap: Sequence[int] = (), **settings: Any) -> Self:
        """See the module: `model.client.producer.ProducerSettings`. Its metadata and its id are
        there at once."""
        chosen = ProducerSettings(**settings)
        nodes = bootstrap or sorted(n for n in self.nodes if self.nodes[n].is_broker)
        kind = TransactionalProducer if chosen.transactional_id else Producer
        machine = self.producers[name] = kind(chosen, nodes)
        self.join(machine, name)
        if isinstance(machine, TransactionalProducer):
            goal = machine.init()
            return self.until(lambda: goal.done)
        ready = machine.settings.idempotent
        return self.until(lambda: not ready or machine.producer_id >= 0)

    def send(self, name: str, number: int, *records: str, topic: str = TOPIC) -> Self:
        """See the module."""
        tokens = range(len(self._tokens), len(self._tokens) + len(records))
        self._tokens += records
        self.told |= dict.fromkeys(records, "waits")
        queued = list(zip(records, tokens, strict=True))
        self.producers[name].send((topic, number), queued, self.now)
        return self.flow()

    def begin(self, name: str) -> Self:
        """A transaction begins."""
        self._transactional(name).begin()
        return self

    def finish(self, name: str, *, commit: bool) -> Self:
        """It is to end; `goals` of the producer says how that goes."""
        self.goals[name] = self._transactional(name).finish(commit=commit)
        return self.flow()

    def _transactional(self, name: str) -> TransactionalProducer:
        machine = self.producers[name]
        assert isinstance(machine, TransactionalProducer)
        return machine

    def flow(self) -> Self:
        """See `ClusterStage`; notes what producers report of their records."""
        super().flow()
        for machine in self.producers.values():
            delivered, machine.delivered = machine.delivered, []
            for token, error, offset in delivered:
                known = f"offset {offset}" if offset >= 0 else "acknowledged"
                self.told[self._tokens[token]] = error or known
        return self

    # ---- consumers

    def consumer(self, name: str, *, auto: bool = False) -> Self:
        """See the module. auto: enable.auto.commit."""
        nodes = sorted(n for n in self.nodes if self.nodes[n].is_broker)
        consumer = Consumer(nodes, committed=True)
        member = ConsumerCoordinator(GROUP, (TOPIC,), consumer.cluster, SESSION_MS, stable=True)
        reader = self.readers[name] = Reader(consumer, member, auto, self.now + AUTO_MS)
        return self.join(reader, name)

    def poll(self, name: str, most: int = 100, *, milliseconds: int = 10_000) -> Self:
        """See the module. Waits for records so long."""
        reader, end = self.readers[name], self.now + milliseconds
        self._auto_commit(reader)
        while True:
            self._rebalanced(reader)
            self.flow()
            if reader.consumer.ready or self.now >= end:
                break
            self.wait(100)
        taken = reader.consumer.take(most)
        reader.got += [str(got.payload) for got in taken]
        return self.flow()

    def _rebalanced(self, reader: Reader) -> None:
        for news in reader.member.take_news():
            if news.kind == COMMITTED:
                starts = {tp: at if at >= 0 else BEGINNING for tp, at in news.offsets.items()}
                reader.consumer.assign(starts)
            elif news.kind != ASSIGNED:
                reader.consumer.assign({})

    def _auto_commit(self, reader: Reader) -> None:
        """As the Java client does it: with a poll, what the polls before it have handed out."""
        if reader.auto and self.now >= reader.auto_at:
            reader.auto_at = self.now + AUTO_MS
            self._commit(reader)

    def process(self, name: str, count: int = 1) -> Self:
        """The application does its work with this many records."""
        reader = self.readers[name]
        part, reader.got = reader.got[:count], reader.got[count:]
        assert len(part) == count, "there are fewer"
        self.done += part
        return self

    def commit(self, name: str, offset: int = -1) -> Self:
        """See the module. offset: instead of the position."""
        self._commit(self.readers[name], offset)
        return self.flow()

    def _commit(self, reader: Reader, offset: int = -1) -> None:
        at = offset if offset >= 0 else reader.position
        if at >= 0:
            reader.outcome = reader.member.commit({data(0): at})

    def seek(self, name: str, offset: int) -> Self:
        """The application moves its position."""
        reader = self.readers[name]
        reader.got.clear()
        reader.consumer.seek(data(0), offset)
        return self.flow()

    def die(self, name: str) -> Self:
        """See the module."""
        del self.machines[name]
        self.readers.pop(name, None)
        self.producers.pop(name, None)
        return self


Column = Callable[[ClientStage], object]


def told(record: str) -> Column:
    """The answer that the producer of a record got."""
    return lambda s: s.told.get(record)


def requests(name: str) -> Column:
    """Produce requests of a producer, in brackets each, in the order in which they were sent."""

    def show(s: ClientStage) -> object:
        batches = [
            batch
            for who, _, request in s.sent
            if who == name and isinstance(request, Produce)
            for batch in request.batches.values()
        ]
        return [f"({' '.join(map(str, batch.records))})" for batch in batches]

    return show


def identity(name: str) -> Column:
    """Producer id and epoch."""

    def show(s: ClientStage) -> object:
        machine = s.producers.get(name)
        return f"{machine.producer_id}/{machine.producer_epoch}" if machine else None

    return show


def leader_known(name: str) -> Column:
    """Who leads partition 0, as a producer knows."""

    def show(s: ClientStage) -> object:
        node, epoch = s.producers[name].cluster.leaders.get(data(0), (-1, -1))
        return f"{node}, epoch {epoch}" if node >= 0 else None

    return show


def got(name: str) -> Column:
    """What a consumer has handed out, and its application has not processed."""
    return lambda s: s.readers[name].got if name in s.readers else None


def position(name: str) -> Column:
    """Position of a consumer in partition 0."""

    def show(s: ClientStage) -> object:
        reader = s.readers.get(name)
        return reader.position if reader is not None and reader.position >= 0 else None

    return show


def outcome(name: str) -> Column:
    """The answer to the newest commit of a consumer."""

    def show(s: ClientStage) -> object:
        reader = s.readers.get(name)
        if reader is None or not reader.outcome:
            return None
        return reader.member.commits.get(reader.outcome, "waits") or "ok"

    return show


def ended(name: str) -> Column:
    """How the end of a producer's transaction goes."""

    def show(s: ClientStage) -> object:
        goal = s.goals.get(name)
        return (goal.error or "ok" if goal.done else "waits") if goal is not None else None

    return show


def done(s: ClientStage) -> object:
    """What applications have processed."""
    return s.done


def offset(s: ClientStage) -> object:
    """Committed offset of the group in partition 0."""
    to = s.leader((GROUP_TOPIC, java_hash(GROUP) % s.settings.offsets_partitions))
    answer = s.ask(OffsetFetch(GROUP, (data(0),)), to=to)
    found = answer.offsets.get(data(0), -1)
    return answer.error if answer.error else found if found >= 0 else None
