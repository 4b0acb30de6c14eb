"""A stage with clients that act on their own: the model's producers, consumers and members of groups.

    s.producer("A", in_flight=1)     a producer (with transactional_id: a transactional one)
    s.send("A", 0, "m0", "m1")       it is handed records of a partition, by one call
    s.records("m0", "m1")            producer P's records are in partition 0
    s.consumer("C")                  a member of the group "g", at read_committed
    s.poll("C")                      it is asked for records, as soon as it has some; `got` of it
    s.process("C"), s.commit("C")    what the application does with what it got; commit of its position
    s.die("C")                       the process is gone

`told`: what happened to each record. `done`: what applications have processed, in that order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from model.client.consumer import BEGINNING, Consumer
from model.client.consumer_coordinator import ConsumerCoordinator
from model.client.group_member import ASSIGNED, COMMITTED
from model.client.producer import Producer, ProducerSettings
from model.client.transactional_producer import TransactionalProducer, TransactionalRequestResult
from model.protocol.messages import Produce
from model.protocol.requests import Response
from model.replication.node import Ask
from model.settings import Settings
from scenarios.drivers import cluster
from scenarios.drivers.cluster import GROUP, TOPIC, ClusterStage, data
from scenarios.framework import look

AUTO_MS: Final = 5000
"""auto.commit.interval.ms."""
SESSION_MS: Final = 6000


@dataclass(slots=True)
class GroupReader:
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
        self.done: list[str] = []
        self.goals: dict[str, TransactionalRequestResult] = {}
        self.producers: dict[str, Producer] = {}
        self.readers: dict[str, GroupReader] = {}
        self._tokens: list[str] = []
        super().__init__(settings, partitions, coordinators)

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

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

    def records(self, *names: str) -> Self:
        """Producer P's records are in partition 0."""
        return self.producer("P").send("P", 0, *names).wait(100)

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
        reader = self.readers[name] = GroupReader(consumer, member, auto, self.now + AUTO_MS)
        return self.join(reader, name)

    def poll(self, name: str, most: int = 100) -> Self:
        """See the module. Waits for records up to 10 s."""
        reader, end = self.readers[name], self.now + 10_000
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

    def _rebalanced(self, reader: GroupReader) -> None:
        for news in reader.member.take_news():
            if news.kind == COMMITTED:
                starts = {tp: at if at >= 0 else BEGINNING for tp, at in news.offsets.items()}
                reader.consumer.assign(starts)
            elif news.kind != ASSIGNED:
                reader.consumer.assign({})

    def _auto_commit(self, reader: GroupReader) -> None:
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

    def _commit(self, reader: GroupReader, offset: int = -1) -> None:
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


Column = Callable[[ClientStage, str], object]


def _requests(s: ClientStage, _: str) -> object:
    """Produce requests of producer A, in brackets each, in the order in which they were sent."""
    requests = [request for who, _, request in s.sent if who == "A" and isinstance(request, Produce)]
    batches = [batch for request in requests for batch in request.batches.values()]
    return [f"({' '.join(map(str, batch.records))})" for batch in batches]


def _identity(s: ClientStage, name: str) -> object:
    """Producer id and epoch."""
    machine = s.producers.get(name)
    return f"{machine.producer_id}/{machine.producer_epoch}" if machine else None


def _leader_known(s: ClientStage, name: str) -> object:
    """Who leads partition 0, as a producer knows."""
    node, epoch = s.producers[name].cluster.leaders.get(data(0), (-1, -1))
    return f"{node}, epoch {epoch}" if node >= 0 else None


def _of_reader(show: Callable[[GroupReader], object]) -> Column:
    """Of a consumer, A by default; None when it is gone."""

    def column(s: ClientStage, name: str) -> object:
        reader = s.readers.get(name or "A")
        return show(reader) if reader is not None else None

    return column


def _ended(s: ClientStage, _: str) -> object:
    """How the end of producer A's transaction goes."""
    goal = s.goals.get("A")
    return (goal.error or "ok" if goal.done else "waits") if goal is not None else None


def _committed(s: ClientStage, _: str) -> object:
    """Committed offset of the group in partition 0."""
    found = s.position(data(0))
    return found if found != "none" else None


COLUMNS: Mapping[str, Column] = {
    "requests": _requests,
    r"([A-Z])": _identity,
    r"([A-Z]) knows": _leader_known,
    # What a consumer has handed out and its application has not processed; its position in partition 0; the
    # answer to its newest commit.
    r"([A-Z]) has": _of_reader(lambda r: r.got),
    "position": _of_reader(lambda r: r.position if r.position >= 0 else None),
    "commit": _of_reader(lambda r: (r.member.commits.get(r.outcome, "waits") or "ok") if r.outcome else None),
    "committed": _committed,
    "processed": lambda s, _: s.done,
    "end": _ended,
    **cluster.COLUMNS,
}
