"""A stage with producers who send by hand what Kafka clients send automatically.

    s.identify("A")                     InitProducerId without a transactional id
    s.init("A")                         InitProducerId with one (`id=`, `timeout=`), repeated as clients do
    s.add("A", 0, 1)                    AddPartitions
    s.write("A", 0, "m0")               Produce, with the next sequence or the one that is given
    s.add_group("A"), s.offsets("A", 7) AddOffsets, TxnOffsetCommit: the group "g" continues at 7 in `IN`
    s.end("A", commit=True)             EndTxn, and with transaction version 2 the next epoch

What each was answered stands in `told`: of a record by its name, of other requests by the producer's. A
request that is not answered yet "waits"; one that will never be is "unknown".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from core.java_hash import java_hash
from model.coordinator.transaction_metadata import TransactionMetadata, TransactionRecord
from model.errors import KafkaError
from model.log.unified_log import NO_EPOCH, NO_PRODUCER, RecordBatch
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    OffsetFetch,
    TxnOffsetCommit,
)
from model.protocol.messages import Produce
from model.protocol.requests import Request
from model.replication.node import GROUP_TOPIC, TRANSACTION_TOPIC
from model.scenarios.drivers.cluster import TOPIC, ClusterStage, data
from model.settings import Settings

IN: Final = ("in", 0)
"""The partition whose offsets the group "g" commits."""
AGAIN: Final = (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
WAITS: Final = "waits"


@dataclass(slots=True)
class RawProducer:
    """A producer. `next`: its next sequence by partition."""

    id: str | None
    producer_id: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    next: dict[int, int] = field(default_factory=dict)

    def take(self, producer_id: int, epoch: int) -> None:
        """A new identity begins at 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.next = producer_id, epoch, {}


class RawProducerStage(ClusterStage):
    """See the module."""

    def __init__(
        self,
        settings: Settings | None = None,
        partitions: Sequence[Sequence[int]] = ((1,), (1,)),
        coordinators: Sequence[int] = (1,),
    ) -> None:
        nodes, turns = tuple(coordinators), [n % len(coordinators) for n in range(3)]
        spread = tuple(nodes[turn:] + nodes[:turn] for turn in turns)
        internal = {TRANSACTION_TOPIC: spread, GROUP_TOPIC: spread}
        self.writers: dict[str, RawProducer] = {}
        self.told: dict[str, str] = {}
        super().__init__(settings, partitions, internal)
        # Brokers have producer ids in hand before the story begins.
        for n in sorted({*coordinators, *(replicas[0] for replicas in partitions)}):
            self.until(self._has_ids(n))

    def _has_ids(self, n: int) -> Callable[[], bool]:
        return lambda: not self.ask(InitProducerId(None, 0), to=n).error

    # ---- state

    def coordinator(self, key: str, topic: str = TRANSACTION_TOPIC) -> int:
        """Who coordinates a transactional id, or a group."""
        return self.leader((topic, self.number(key, topic)))

    def number(self, key: str, topic: str = TRANSACTION_TOPIC) -> int:
        """The partition of the coordinators' topic that a key belongs to."""
        return java_hash(key) % self.controller.node.image.topics[topic]

    def transaction(self, key: str = "t") -> TransactionMetadata | None:
        """What the coordinator has in memory of a transactional id."""
        broker = self.nodes.get(self.coordinator(key))
        if broker is None:
            return None
        known = broker.coordinators.transactions.log.known
        return known.get(self.number(key), {}).get(key)

    def logged(self, key: str = "t") -> list[TransactionRecord]:
        """What the transaction log has of a transactional id."""
        replica = self.replica((TRANSACTION_TOPIC, self.number(key)))
        if replica is None:
            return []
        records = [r for _, _, r in replica.log.records() if isinstance(r, TransactionRecord)]
        return [record for record in records if record.transactional_id == key]

    # ---- what producers do

    def _say(
        self, name: str, request: Request, to: int, key: str, made: Callable[[Any], str] | None = None
    ) -> Self:
        self.told[key] = WAITS

        def told(answer: Any) -> None:
            self.told[key] = "unknown" if answer is None else (made or _named)(answer)

        return self.deliver(name, request, to, told)

    def identify(self, name: str) -> Self:
        """See the module."""
        writer = self.writers.setdefault(name, RawProducer(None))
        answer = self.ask(InitProducerId(None, 0), to=min(self.nodes))
        writer.take(answer.producer_id, answer.producer_epoch)
        return self

    def init(
        self, name: str, id: str = "t", *, timeout: int = 10_000, again: bool = True, bump: bool = False
    ) -> Self:
        """See the module. again: ask until the answer is a final one. bump: with the identity in hand."""
        writer = self.writers.setdefault(name, RawProducer(id))
        identity = (writer.producer_id, writer.epoch) if bump else (-1, -1)
        errors: list[KafkaError] = []

        def made(answer: Any) -> str:
            errors.append(answer.error)
            if answer.error is KafkaError.NONE:
                writer.take(answer.producer_id, answer.producer_epoch)
            return _named(answer)

        def asked() -> bool:
            errors.clear()
            self._say(name, InitProducerId(id, timeout, *identity), self.coordinator(id), name, made)
            return not again or not errors or errors[0] not in AGAIN

        return self.until(asked)

    def add(self, name: str, *numbers: int) -> Self:
        """See the module."""
        writer = self.writers[name]
        assert writer.id is not None
        tps = tuple(data(number) for number in numbers)
        request = AddPartitionsToTxn(writer.id, writer.producer_id, writer.epoch, tps)
        return self._say(name, request, self.coordinator(writer.id), name)

    def write(
        self, name: str, number: int, *records: str, sequence: int = -1, epoch: int = -1, plain: bool = False
    ) -> Self:
        """See the module. sequence: instead of the next one, which stays as it is. epoch: an older one.
        plain: without a producer id. The first record's name stands for all."""
        writer = self.writers.setdefault(name, RawProducer(None))
        batch = RecordBatch(-1, -1, records)
        if not plain:
            used = sequence if sequence >= 0 else writer.next.get(number, 0)
            if sequence < 0:
                writer.next[number] = used + len(records)
            batch = RecordBatch(
                -1,
                -1,
                records,
                writer.producer_id,
                epoch if epoch >= 0 else writer.epoch,
                used,
                transactional=writer.id is not None,
            )
        request = Produce(-1, {data(number): batch}, writer.id if not plain else None)
        return self._say(name, request, self.leader(data(number)), records[0], _produced)

    def add_group(self, name: str, group: str = "g") -> Self:
        """See the module."""
        writer = self.writers[name]
        assert writer.id is not None
        request = AddOffsetsToTxn(writer.id, writer.producer_id, writer.epoch, group)
        return self._say(name, request, self.coordinator(writer.id), name)

    def offsets(
        self, name: str, offset: int, *, group: str = "g", generation: int = -1, member: str = ""
    ) -> Self:
        """See the module."""
        writer = self.writers[name]
        assert writer.id is not None
        request = TxnOffsetCommit(
            writer.id, group, writer.producer_id, writer.epoch, {IN: offset}, generation, member
        )
        return self._say(name, request, self.coordinator(group, GROUP_TOPIC), name)

    def end(self, name: str, *, commit: bool) -> Self:
        """See the module."""
        writer = self.writers[name]
        assert writer.id is not None

        def made(answer: Any) -> str:
            if answer.error is KafkaError.NONE and answer.producer_id >= 0:
                writer.take(answer.producer_id, answer.producer_epoch)
            return _named(answer)

        request = EndTxn(writer.id, writer.producer_id, writer.epoch, commit)
        return self._say(name, request, self.coordinator(writer.id), name, made)

    # ---- what readers see

    def position(self, group: str = "g") -> str:
        """The committed offset that a member of the group receives."""
        to = self.coordinator(group, GROUP_TOPIC)
        answer = self.ask(OffsetFetch(group, (IN,)), to=to)
        if answer.error:
            return str(answer.error.name)
        offset = answer.offsets[IN]
        return str(offset) if offset >= 0 else "none"


def _named(answer: Any) -> str:
    return "ok" if answer.error is KafkaError.NONE else str(answer.error.name)


def _produced(answer: Any) -> str:
    ((error, base),) = answer.results.values()
    return f"offset {base}" if error is KafkaError.NONE else str(error.name)


Column = Callable[[RawProducerStage], object]


def told(key: str) -> Column:
    """The answer to a record's producer, or to another request of a producer."""
    return lambda s: s.told.get(key)


def log(number: int, node: int = -1, *, topic: str = TOPIC) -> Callable[[ClusterStage], object]:
    """Records, and markers in brackets."""

    def show(s: ClusterStage) -> object:
        replica = s.replica((topic, number), node)
        if replica is None:
            return "down"
        return [
            f"[{batch.control}]" if batch.control else " ".join(map(str, batch.records))
            for batch in replica.log.batches
        ]

    return show


def known(number: int, name: str) -> Column:
    """What the leader's log knows of a producer: its epoch, and first sequences of its newest batches."""

    def show(s: RawProducerStage) -> object:
        replica = s.replica(data(number))
        state = replica.log.producers.get(s.writers[name].producer_id) if replica else None
        if state is None or state.epoch == NO_EPOCH:
            return None
        return f"{state.epoch}: {' '.join(str(b.first_sequence) for b in state.batches) or '–'}"

    return show


def identity(name: str) -> Column:
    """Producer id and epoch that a producer has."""

    def show(s: RawProducerStage) -> object:
        writer = s.writers.get(name)
        return f"{writer.producer_id}/{writer.epoch}" if writer and writer.epoch >= 0 else None

    return show


def hw(number: int) -> Callable[[ClusterStage], object]:
    """High watermark."""
    return lambda s: replica.high_watermark if (replica := s.replica(data(number))) else None


def lso(number: int) -> Column:
    """Last stable offset."""

    def show(s: RawProducerStage) -> object:
        replica = s.replica(data(number))
        return replica.log.stable(replica.high_watermark) if replica else None

    return show


def aborted(number: int) -> Column:
    """The aborted index: (producer id, first offset, offset of the marker)."""

    def show(s: RawProducerStage) -> object:
        replica = s.replica(data(number))
        if replica is None:
            return None
        return [f"({a.producer_id}, {a.first}, {a.last})" for a in replica.log.aborted]

    return show


def committed(number: int, *, begin: int = 0) -> Column:
    """What a reader at read_committed gets."""
    return lambda s: s.read(number, committed=True, begin=begin)


def uncommitted(number: int) -> Column:
    """What a reader at read_uncommitted gets."""
    return lambda s: s.read(number, committed=False)


def state(key: str = "t") -> Column:
    """State, producer id and epoch at the coordinator."""

    def show(s: RawProducerStage) -> object:
        transaction = s.transaction(key)
        if transaction is None:
            return None
        record = transaction.record
        return f"{record.state.value} {record.producer_id}/{record.epoch}"

    return show


def logged(key: str = "t") -> Column:
    """States in the transaction log."""
    return lambda s: [r.state.value for r in s.logged(key)]


def members(key: str = "t") -> Column:
    """Partitions of the transaction."""

    def show(s: RawProducerStage) -> object:
        transaction = s.transaction(key)
        if transaction is None:
            return None
        partitions = transaction.record.partitions
        return ["offsets" if topic == GROUP_TOPIC else f"{topic}{n}" for topic, n in partitions]

    return show


def position(s: RawProducerStage) -> object:
    """Committed offset of the group, as a member receives it."""
    return s.position()
