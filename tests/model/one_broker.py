"""One modelled broker, driven by hand: its own requests come back to it, time passes when a test says so.

It is its own controller and the only replica of everything, so that what is appended is committed at once,
except where a test adds a follower that lags (`lag`). Requests of the broker can be held and delivered late.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from model.broker import Broker, Durable
from model.coordinator.transaction_metadata import TransactionMetadata
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import AddPartitionsToTxn, EndTxn, FindCoordinator, InitProducerId
from model.protocol.messages import CreateTopics, Fetch, FetchPartition, Partition, Produce
from model.replication.node import Ask, Reply, ignore
from model.replication.replica import RemoteReplica, Replica
from model.settings import Settings

ME = 1
CLIENT = 1
OWN = 1000
"""Connections from here on are the broker's own."""


class OneBroker:
    """See the module. hold(request): whether a request of the broker to itself is held."""

    def __init__(self, **settings: Any) -> None:
        settings = {"min_isr": 1, "internal_replication": 1} | settings
        self.settings = Settings(**settings)
        self.durable = Durable()
        self.now = 0
        self.hold: Callable[[Any], bool] = lambda _: False
        self.held: list[Ask] = []
        self.replies: dict[int, Any] = {}
        self._number = 0
        self._asks: dict[int, Ask] = {}
        self._incarnation = 0
        self.restart()
        self.create("data", 3)
        self.until(lambda: self.finds("t", group=False) and self.finds("g", group=True))

    def restart(self) -> None:
        """A crash (the first time: a start): memory is gone, leaders get new epochs."""
        self._incarnation += 1
        self.now += self.settings.session_ms + 200  # the session of the one before is over
        self._asks, self.held = {}, []
        self.broker = Broker(
            ME,
            voters=(ME,),
            settings=self.settings,
            durable=self.durable,
            incarnation=self._incarnation,
            draw=lambda low, _: low,
        )
        self.broker.start(self.now)
        self._pump()
        self.until(lambda: self.broker.node.broker_epoch >= 0 and not self.broker.fenced)
        self.run(200)

    def create(self, topic: str, partitions: int) -> None:
        assert self.ask(CreateTopics(topic, partitions, 1)).error is KafkaError.NONE

    def finds(self, key: str, *, group: bool) -> bool:
        """The coordinator of a transactional id or a group is there and has loaded its log."""
        error = self.ask(FindCoordinator(key, group)).error
        return error is KafkaError.NONE and not self.part(group=group).loading

    def part(self, *, group: bool) -> Any:
        coordinating = self.broker.coordinators
        return coordinating.group_log if group else coordinating.transactions.log

    # ---- time and messages

    def run(self, milliseconds: int) -> None:
        """Time passes."""
        for _ in range(milliseconds // 100):
            self.now += 100
            self.broker.tick(self.now)
            self._pump()

    def until(self, condition: Callable[[], bool], milliseconds: int = 20_000) -> None:
        """Time passes until a condition holds."""
        end = self.now + milliseconds
        while not condition():
            assert self.now < end, "it does not come to that"
            self.run(100)

    def send(self, request: Any) -> int:
        """A client's request; the number under which its answer will be in `replies`."""
        self._number += 1
        number = self._number
        self.broker.receive(self.now, CLIENT, number, request)
        self._pump()
        return number

    def ask(self, request: Any) -> Any:
        """A client's request, which is answered without time passing."""
        number = self.send(request)
        assert number in self.replies, f"no answer to {request}"
        return self.replies.pop(number)

    def _pump(self) -> None:
        while out := self.broker.take_out():
            for effect in out:
                if isinstance(effect, Reply) and effect.connection == CLIENT:
                    self.replies[effect.correlation] = effect.answer
                elif isinstance(effect, Reply):
                    ask = self._asks.pop(effect.connection, None)
                    if ask is not None:
                        self.broker.answered(self.now, ask, effect.answer)
                elif self.hold(effect.request):
                    self.held.append(effect)
                else:
                    self._deliver(effect)

    def _deliver(self, ask: Ask) -> None:
        self._number += 1
        connection = OWN + self._number
        self._asks[connection] = ask
        self.broker.receive(self.now, connection, 0, ask.request)

    def release(self) -> None:
        """Deliver what was held."""
        self.hold = lambda _: False
        held, self.held = self.held, []
        for ask in held:
            self._deliver(ask)
        self._pump()

    def give_up(self) -> None:
        """What was held is not answered in time (and may still arrive: `late`)."""
        given_up, self.held = self.held, [replace(ask, then=ignore) for ask in self.held]
        for ask in given_up:
            self.broker.answered(self.now, ask, None)
        self._pump()

    def late(self) -> None:
        """Deliver what was held and given up; nobody waits for the answer."""
        held, self.held = self.held, []
        for ask in held:
            self.broker.receive(self.now, -1, 0, ask.request)
        self._pump()

    # ---- replication

    def replica(self, tp: Partition) -> Replica:
        return self.broker.node.replicas[tp]

    def lag(self, tp: Partition) -> None:
        """From now on a follower has to fetch what is appended before it is committed."""
        replica = self.replica(tp)
        replica.state = replace(replica.state, isr=(ME, 2), replicas=(ME, 2))
        replica.remotes = {2: RemoteReplica(end=replica.log.end, caught_up_ms=self.now)}

    def become(self, tp: Partition, **changes: Any) -> None:
        """The metadata tell of another leader, or of another epoch of this one."""
        replica = self.replica(tp)
        replica.become(replace(replica.state, **changes), self.now)
        self.broker.replica_manager.moved(tp)
        self.broker.coordinators.became(tp)
        self.broker.share_groups.became(tp)
        self._pump()

    def next_epoch(self, tp: Partition) -> None:
        """This broker leads anew."""
        self.become(tp, leader=ME, leader_epoch=self.replica(tp).state.leader_epoch + 2)

    def catch_up(self, tp: Partition) -> None:
        """The follower fetches everything."""
        replica = self.replica(tp)
        replica.fetched_by(2, replica.log.end, self.now)
        self.broker.replica_manager.moved(tp)
        self._pump()

    # ---- what producers do

    def transaction(self, transactional_id: str = "t") -> TransactionMetadata:
        log = self.broker.coordinators.transactions.log
        return log.known[log.number(transactional_id)][transactional_id]

    def init(self, tid: str = "t", producer_id: int = -1, epoch: int = -1, ms: int = 10_000) -> Any:
        """InitProducerId, repeated as a client repeats it."""
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(self.ask(InitProducerId(tid, ms, producer_id, epoch)))
            return answers[-1].error not in (
                KafkaError.CONCURRENT_TRANSACTIONS,
                KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            )

        self.until(answered)
        return answers[-1]

    def add(self, producer: Any, *partitions: int, tid: str = "t") -> KafkaError:
        tps = tuple(("data", n) for n in partitions)
        request = AddPartitionsToTxn(tid, producer.producer_id, producer.producer_epoch, tps)
        error: KafkaError = self.ask(request).error
        return error

    def end(self, producer: Any, *, commit: bool, tid: str = "t") -> Any:
        return self.ask(EndTxn(tid, producer.producer_id, producer.producer_epoch, commit))

    def write(
        self, producer: Any, partition: int, sequence: int, *records: str, tid: str = "t"
    ) -> KafkaError:
        return self.written(self.send(produce(producer, partition, sequence, *records, tid=tid)))

    def written(self, number: int) -> KafkaError:
        (found,) = self.replies.pop(number).results.values()
        error: KafkaError = found[0]
        return error

    # ---- what readers see

    def read(self, partition: int, *, committed: bool = True) -> list[str]:
        """Records below the end that readers see, without those of aborted transactions."""
        tp = ("data", partition)
        found = self.ask(Fetch(-1, {tp: FetchPartition(0)}, committed, 0)).parts[tp]
        seen: list[str] = []
        for batch in found.batches:
            gone = any(
                a.producer_id == batch.producer_id and a.first <= batch.base <= a.last for a in found.aborted
            )
            if not batch.control and not (committed and gone):
                seen += batch.records
        return seen

    def controls(self, partition: int) -> Sequence[tuple[str, int]]:
        """Markers of a partition: what, and the producer epoch."""
        log = self.replica(("data", partition)).log
        return [(b.control, b.producer_epoch) for b in log.batches if b.control]


def produce(producer: Any, partition: int, sequence: int, *records: str, tid: str = "t") -> Produce:
    batch = RecordBatch(
        -1, -1, records, producer.producer_id, producer.producer_epoch, sequence, transactional=True
    )
    return Produce(-1, {("data", partition): batch}, tid)
