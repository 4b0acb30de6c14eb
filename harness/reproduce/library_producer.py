"""Producers of librdkafka, transactional and plain, that reach the brokers as other clients do: through the
proxy where there is one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as At

from core.errors import ClusterError
from core.op import TopicPartition
from harness.clients.librdkafka.settings import of_librdkafka
from harness.reproduce.cluster import StagedCluster

CALL_S: Final = 60.0
TRANSACTION_MS: Final = 60_000
PADDING: Final = "."
"""Fills values that have to be long."""

IMPATIENT: Final[Mapping[str, str | int]] = {
    "socket.timeout.ms": 2000,
    "message.timeout.ms": 50000,
    "linger.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 20,
    "log_level": 2,
}

PATIENT: Final[Mapping[str, str | int]] = {"socket.timeout.ms": 60_000, "request.timeout.ms": 30_000}
"""A producer sends a record again when the leader gives up waiting, which Kafka's default has after 30 s."""


@contextmanager
def _refusals(call: str) -> Iterator[None]:
    """Raises: ClusterError, where the client refuses the call, as where it was fenced."""
    try:
        yield
    except KafkaException as error:
        raise ClusterError(f"{call}: {error.args[0].name()}: {error.args[0].str()}") from error


def _produce(producer: Producer, tp: TopicPartition, value: str, report: Callable[..., None]) -> None:
    with _refusals("produce"):
        producer.produce(tp.topic, value.encode(), partition=tp.partition, on_delivery=report)


class LibraryProducer:
    """A transactional producer of librdkafka, which reaches the brokers through the proxy."""

    def __init__(self, stage: StagedCluster, name: str, *, says: bool = True) -> None:
        """says: where each record is, and each end. Raises: ClusterError."""
        self.transactional_id = name
        self.records: dict[tuple[TopicPartition, int], tuple[str, bool]] = {}
        self._open: dict[tuple[TopicPartition, int], str] = {}
        self._say = stage.say if says else lambda _: None
        self._reached = of_librdkafka(stage.cluster.endpoint().args)
        settings = {
            **IMPATIENT,
            **self._reached,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_MS,
        }
        self._producer = Producer(settings)
        self._call("init_transactions", CALL_S)

    def begin(self) -> None:
        """Begin a transaction. Raises: ClusterError."""
        self._call("begin_transaction")

    def write(self, tp: TopicPartition, value: str) -> int:
        """Write a record; its offset, once it is acknowledged. Raises: ClusterError."""
        done: list[tuple[object, Message]] = []
        _produce(self._producer, tp, value, lambda *told: done.append(told))
        self._producer.flush(CALL_S)
        if not done or done[0][0] is not None:
            raise ClusterError(f"{value!r} was not acknowledged: {done[0][0] if done else 'no answer'}")
        offset = int(done[0][1].offset() or 0)
        self._open[tp, offset] = value
        self._say(f"{value!r} is at {tp.topic}-{tp.partition}, offset {offset}")
        return offset

    def commit_offset(self, group: str, tp: TopicPartition, offset: int) -> None:
        """Commit an offset of a group without members in the transaction. Raises: ClusterError."""
        consumer = Consumer({**self._reached, "group.id": group})
        try:
            what = [At(tp.topic, tp.partition, offset)]
            with _refusals("send_offsets_to_transaction"):
                self._producer.send_offsets_to_transaction(what, consumer.consumer_group_metadata(), CALL_S)
        finally:
            consumer.close()
        self._say(f"offset {offset} of {tp.topic}-{tp.partition} is committed in the transaction")

    def end(self, *, commit: bool, seconds: float = CALL_S) -> None:
        """End the transaction. Raises: ClusterError, where the end is not acknowledged in this time; then it
        may be asked for again."""
        name = "commit_transaction" if commit else "abort_transaction"
        self._call(name, seconds)
        self._say(f"{name} returns")
        self.records |= {at: (value, commit) for at, value in self._open.items()}
        self._open = {}

    def _call(self, name: str, *arguments: float) -> None:
        with _refusals(name):
            getattr(self._producer, name)(*arguments)


class PlainProducer:
    """A producer without transactions. sent: what the application sent, in order. acknowledged: what was
    reported as delivered."""

    def __init__(
        self, stage: StagedCluster, settings: Mapping[str, str | int | bool], *, says: bool = True
    ) -> None:
        """settings: of librdkafka, beside IMPATIENT. says: what happens to each record."""
        self.sent: list[tuple[TopicPartition, str]] = []
        self.acknowledged: set[tuple[TopicPartition, str]] = set()
        self._say = stage.say if says else lambda _: None
        self._producer = Producer({**IMPATIENT, **of_librdkafka(stage.cluster.endpoint().args), **settings})

    def send(self, tp: TopicPartition, *values: str) -> None:
        """Send records, and wait for nothing. Raises: ClusterError, where the client takes none."""

        def report(error: object, message: Message) -> None:
            value = (message.value() or b"").decode()
            if error is None:
                self.acknowledged.add((tp, value))
            where = f"at offset {message.offset()}" if error is None else str(error)
            self._say(f"{value[:20]!r}, to {tp.topic}-{tp.partition}: {where}")

        for value in values:
            self.sent.append((tp, value))
            _produce(self._producer, tp, value, report)
        self._producer.poll(0)

    def poll(self) -> None:
        """Learn what became known of records by now."""
        self._producer.poll(0)

    def wait(self) -> None:
        """Until each record is acknowledged or given up. Raises: ClusterError."""
        if left := self._producer.flush(CALL_S):
            raise ClusterError(f"{left} records have no outcome after {CALL_S:g} s")

    def write(self, tp: TopicPartition, value: str) -> None:
        """Send a record and wait for it. Raises: ClusterError, where it is not acknowledged."""
        self.send(tp, value)
        self.wait()
        if (tp, value) not in self.acknowledged:
            raise ClusterError(f"{value!r} was not acknowledged")
