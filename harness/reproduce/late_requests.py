"""Schedules of one late request: the proxy holds it back, and delivers it on its own connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from core.errors import ClusterError
from core.op import TopicPartition
from core.wire import Action, Rule
from harness.kafka.waiting import NotYet, until
from harness.reproduce.stage import PAUSE_S, FiveBrokers, NotReached

CALL_S: Final = 20.0
CAUGHT_S: Final = 10.0
ACTS_S: Final = 10.0
"""A coordinator that acts upon a late request has written its markers much sooner."""

IMPATIENT: Final[Mapping[str, str | int]] = {
    "socket.timeout.ms": 2000,
    "transaction.timeout.ms": 60000,
    "message.timeout.ms": 20000,
    "linger.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 20,
    "log_level": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Transactions of one producer, each ending acknowledged. records: (partition, offset) -> value, and
    whether its transaction committed."""

    transactional_id: str
    records: Mapping[tuple[TopicPartition, int], tuple[str, bool]]


class LibraryProducer:
    """A transactional producer of librdkafka, which reaches the brokers through the proxy."""

    def __init__(self, stage: FiveBrokers, name: str) -> None:
        """Raises: ClusterError."""
        self.transactional_id = name
        self.records: dict[tuple[TopicPartition, int], tuple[str, bool]] = {}
        self._open: dict[tuple[TopicPartition, int], str] = {}
        self._stage = stage
        settings = {**IMPATIENT, **stage.cluster.endpoint().args, "transactional.id": name}
        self._producer = Producer(settings)
        self._call("init_transactions", CALL_S)

    def begin(self) -> None:
        """Begin a transaction. Raises: ClusterError."""
        self._call("begin_transaction")

    def write(self, tp: TopicPartition, value: str) -> int:
        """Write a record; its offset, once it is acknowledged. Raises: ClusterError."""
        done: list[tuple[object, Message]] = []
        self._producer.produce(
            tp.topic, value.encode(), partition=tp.partition, on_delivery=lambda *told: done.append(told)
        )
        self._producer.flush(CALL_S)
        if not done or done[0][0] is not None:
            raise ClusterError(f"{value!r} was not acknowledged: {done[0][0] if done else 'no answer'}")
        offset = int(done[0][1].offset() or 0)
        self._open[tp, offset] = value
        self._stage.say(f"{value!r} is at {tp.topic}-{tp.partition}, offset {offset}")
        return offset

    def end(self, *, commit: bool) -> None:
        """End the transaction. Raises: ClusterError, where the end is not acknowledged."""
        name = "commit_transaction" if commit else "abort_transaction"
        self._call(name, CALL_S)
        self._stage.say(f"{name} returns")
        self.records |= {at: (value, commit) for at, value in self._open.items()}
        self._open = {}

    def _call(self, name: str, *arguments: float) -> None:
        try:
            getattr(self._producer, name)(*arguments)
        except KafkaException as error:
            raise ClusterError(f"{name}: {error.args[0].name()}: {error.args[0].str()}") from error


def late_end(stage: FiveBrokers, name: str, good: bool, *, first_commits: bool) -> Ended:
    """EndTxn of the first transaction is late: it arrives when the second one has written to partition 0.
    That one adds partition 1 then, and ends the other way.

    Without the second partition the producer's own EndTxn would be refused (KAFKA-17754).
    """
    p0, p1 = stage.create(name, [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)])
    producer = LibraryProducer(stage, stage.producer(name, stage.d).transactional_id)
    wire = stage.cluster.wire
    producer.begin()
    producer.write(p0, "first")
    late = wire.number()
    if not good:
        wire.add(
            Rule(number=late, api="end_txn", action=Action.DETACH, transactional_id=producer.transactional_id)
        )
    producer.end(commit=first_commits)
    if not good and wire.wait(late, "caught", CAUGHT_S) is None:
        raise NotReached("the proxy caught no EndTxn")
    producer.begin()
    offset = producer.write(p0, "second, before")
    if not good:
        _deliver(stage, late, p0, offset)
    producer.write(p1, "second, after")
    producer.end(commit=not first_commits)
    return Ended(transactional_id=producer.transactional_id, records=producer.records)


def _deliver(stage: FiveBrokers, late: int, tp: TopicPartition, offset: int) -> None:
    """Let the late EndTxn go, and wait until the partition has the marker of what it ended.

    Raises: NotReached.
    """
    wire = stage.cluster.wire
    wire.release(late)
    answered = wire.wait(late, "answered", CAUGHT_S)
    if answered is None:
        raise NotReached("no broker answered the late EndTxn")
    stage.say(f"the late EndTxn (version {answered.version}) arrives; its answer has error {answered.error}")

    def acted() -> None:
        if stage.stable(tp) <= offset:
            raise NotYet("the late EndTxn ended nothing")

    try:
        until(ACTS_S, PAUSE_S, acted)
    except NotYet as error:
        raise NotReached(str(error)) from error
