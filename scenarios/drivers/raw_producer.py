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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from model.coordinator.transaction_metadata import PREPARE_COMMIT, TransactionMetadata, TransactionRecord
from model.errors import KafkaError
from model.log.unified_log import NO_EPOCH, NO_PRODUCER, RecordBatch
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    ProducerIdResponse,
    TransactionRequest,
    TxnOffsetCommit,
)
from model.protocol.messages import Produce, ProduceResponse
from model.protocol.requests import ErrorResponse, Request
from model.settings import Settings
from scenarios.drivers import cluster
from scenarios.drivers.cluster import GROUP, A, ClusterStage, data
from scenarios.framework import look

IN: Final = ("in", 0)
"""The partition whose offsets the group "g" commits."""
AGAIN: Final = (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(slots=True)
class RawProducer:
    """A producer. id: transactional, "" = none. next: its next sequence by partition."""

    id: str = ""
    producer_id: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    next: dict[int, int] = field(default_factory=dict)

    def take(self, producer_id: int, epoch: int) -> None:
        """A new identity begins at 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.next = producer_id, epoch, {}


def named(answer: ErrorResponse) -> str:
    """The error of an answer, or ok."""
    return "ok" if answer.error is KafkaError.NONE else str(answer.error.name)


def _produced(answer: ProduceResponse) -> str:
    ((error, base),) = answer.results.values()
    return f"offset {base}" if error is KafkaError.NONE else str(error.name)


class RawProducerStage(ClusterStage):
    """See the module."""

    def __init__(
        self,
        settings: Settings | None = None,
        partitions: Sequence[Sequence[int]] = ((1,), (1,)),
        coordinators: Sequence[int] = (1,),
    ) -> None:
        self.writers: dict[str, RawProducer] = {}
        super().__init__(settings, partitions, coordinators)
        # Brokers have producer ids in hand before the story begins.
        for n in sorted({*coordinators, *(replicas[0] for replicas in partitions)}):
            self.until(self._has_ids(n))

    def _has_ids(self, n: int) -> Callable[[], bool]:
        return lambda: not self.ask(InitProducerId(None, 0), to=n).error

    # ---- state

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    @property
    def transaction(self) -> TransactionMetadata | None:
        """What the coordinator of transactional id t has in memory of it."""
        broker = self.nodes.get(self.coordinator("t", TRANSACTION_TOPIC))
        if broker is None:
            return None
        known = broker.coordinators.transactions.log.known
        return known.get(self.number("t", TRANSACTION_TOPIC), {}).get("t")

    def logged(self, key: str, node: int = -1) -> list[TransactionRecord]:
        """What the transaction log has of a transactional id."""
        replica = self.replica((TRANSACTION_TOPIC, self.number(key, TRANSACTION_TOPIC)), node)
        if replica is None:
            return []
        records = [r for _, _, r in replica.log.records() if isinstance(r, TransactionRecord)]
        return [record for record in records if record.transactional_id == key]

    # ---- what producers do

    def _say(self, name: str, request: Request[A], to: int, key: str, made: Callable[[A], str]) -> Self:
        self.told[key] = "waits"

        def told(answer: A | None) -> None:
            self.told[key] = "unknown" if answer is None else made(answer)

        return self.deliver(name, request, to, told)

    def identify(self, name: str) -> Self:
        """See the module."""
        writer = self.writers.setdefault(name, RawProducer())
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

        def made(answer: ProducerIdResponse) -> str:
            errors.append(answer.error)
            if answer.error is KafkaError.NONE:
                writer.take(answer.producer_id, answer.producer_epoch)
            return named(answer)

        def asked() -> bool:
            errors.clear()
            request = InitProducerId(id, timeout, *identity)
            self._say(name, request, self.coordinator(id, TRANSACTION_TOPIC), name, made)
            return not again or not errors or errors[0] not in AGAIN

        return self.until(asked)

    def _in_transaction(
        self, name: str, kind: Callable[..., TransactionRequest[A]], *what: object, made: Callable[[A], str]
    ) -> Self:
        """A producer's request to the coordinator of its transactional id."""
        writer = self.writers[name]
        request = kind(writer.id, writer.producer_id, writer.epoch, *what)
        return self._say(name, request, self.coordinator(writer.id, TRANSACTION_TOPIC), name, made)

    def add(self, name: str, *numbers: int) -> Self:
        """See the module."""
        return self._in_transaction(name, AddPartitionsToTxn, tuple(map(data, numbers)), made=named)

    def write(self, name: str, number: int, *records: str, sequence: int = -1, plain: bool = False) -> Self:
        """See the module. sequence: instead of the next one, which stays as it is. plain: without a
        producer id. The first record's name stands for all."""
        writer = self.writers.setdefault(name, RawProducer())
        batch = RecordBatch(-1, -1, records)
        if not plain:
            used = sequence if sequence >= 0 else writer.next.get(number, 0)
            if sequence < 0:
                writer.next[number] = used + len(records)
            batch = RecordBatch(
                -1, -1, records, writer.producer_id, writer.epoch, used, transactional=bool(writer.id)
            )
        request = Produce(-1, {data(number): batch}, writer.id if batch.transactional else None)
        return self._say(name, request, self.leader(data(number)), records[0], _produced)

    def add_group(self, name: str) -> Self:
        """See the module."""
        return self._in_transaction(name, AddOffsetsToTxn, GROUP, made=named)

    def offsets(self, name: str, offset: int, *, generation: int = -1, member: str = "") -> Self:
        """See the module."""
        writer = self.writers[name]
        request = TxnOffsetCommit(
            writer.id, GROUP, writer.producer_id, writer.epoch, {IN: offset}, generation, member
        )
        return self._say(name, request, self.coordinator(GROUP, GROUP_TOPIC), name, named)

    def end(self, name: str, *, commit: bool) -> Self:
        """See the module."""

        def made(answer: ProducerIdResponse) -> str:
            if answer.error is KafkaError.NONE and answer.producer_id >= 0:
                self.writers[name].take(answer.producer_id, answer.producer_epoch)
            return named(answer)

        return self._in_transaction(name, EndTxn, commit, made=made)


Column = Callable[[RawProducerStage, str], object]


def _known(s: RawProducerStage, _: str) -> object:
    """What the leader's log knows of producer A: its epoch, and first sequences of its newest batches."""
    replica = s.replica(data(0))
    state = replica.log.producers.get(s.writers["A"].producer_id) if replica else None
    if state is None or state.epoch == NO_EPOCH:
        return None
    return f"{state.epoch}: {' '.join(str(b.first_sequence) for b in state.batches) or '–'}"


def _identity(s: RawProducerStage, name: str) -> object:
    """Producer id and epoch that a producer has."""
    writer = s.writers.get(name)
    return f"{writer.producer_id}/{writer.epoch}" if writer and writer.epoch >= 0 else None


def _transaction(show: Callable[[TransactionRecord], object]) -> Column:
    """As the coordinator of transactional id t has it."""
    return lambda s, _: show(s.transaction.record) if s.transaction is not None else None


def _found(s: RawProducerStage, key: str) -> object:
    """Hash of a transactional id, its partition, who coordinates it."""
    number = s.number(key, TRANSACTION_TOPIC)
    return f"{java_hash(key)} → {number} → broker {s.coordinator(key, TRANSACTION_TOPIC)}"


def _prepared(s: RawProducerStage, _: str) -> object:
    """Brokers whose log has PrepareCommit of t."""
    return {n for n in s.nodes if any(record.state is PREPARE_COMMIT for record in s.logged("t", n))}


COLUMNS: Mapping[str, Column] = {
    "epoch: sequences known": _known,
    r"([A-Z])": _identity,
    "partitions": _transaction(
        lambda r: ["offsets" if topic == GROUP_TOPIC else f"{topic}{n}" for topic, n in r.partitions]
    ),
    "coordinator": _transaction(lambda r: f"{r.state.value} {r.producer_id}/{r.epoch}"),
    r"coordinator of (\w)": _found,
    "led by": lambda s, _: s.coordinator("t", TRANSACTION_TOPIC),
    "PrepareCommit at": _prepared,
    "transaction log": lambda s, _: [record.state.value for record in s.logged("t")],
    r"log of (\w)": lambda s, key: [record.state.value for record in s.logged(key)],
    "offset of in": lambda s, _: s.position(IN),
    **cluster.COLUMNS,
}
