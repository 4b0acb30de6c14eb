"""Keeps of each key how many records it has, and which; right, or wrong in one of three ways (the argument).

    inquest run --app "python examples/applications/aggregator.py right" --set 'app={"shape":"aggregate"}'

right: the new result of a key and the offset are in one transaction; who is given a partition reads the last
results of its keys from the output first. at-least-once: the same without transactions; every 10 s it
commits the offsets of the records whose results are written. forgets: as right, but it begins with no
results. dirty: as right, but it reads records of aborted transactions.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from hanging import watched

COMMON = {**json.loads(os.environ["INQUEST_CLIENT"]), "log_level": 0}
IN, OUT, GROUP = (os.environ[f"INQUEST_{name}"] for name in ("IN", "OUT", "GROUP"))
MODE = sys.argv[1] if len(sys.argv) > 1 else "right"
WORK_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.02
"""What an application does with a record takes its time."""
COMMIT_S = 10
CALL_S = 15
HANGS_S = 2 * CALL_S
"""As in copier.py."""
STEP_S = 3 * CALL_S
"""A step may read the last results of partitions that it was just given, which takes longer."""
NUMBER = slice(24, 32)
"""Where an input record has its number (docs/applications.md)."""
stopping = threading.Event()


def client(isolation: str, **own: object) -> Consumer:
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, **own}
    return Consumer({**COMMON, **settings, "isolation.level": isolation, "session.timeout.ms": 6000})


class Aggregator:
    def __init__(self) -> None:
        self.results: dict[int, dict[bytes, list[int]]] = {}
        """Of each partition that it has: of each key the numbers of its records."""
        self.failed = 0
        self.done: dict[int, Message] = {}
        """Of each partition the last record whose result is written and whose offset is not committed."""
        self.gone: set[int] = set()
        """Partitions that were taken away while it got records: they may be another one's work."""
        self.committed = time.monotonic()
        self.transactional = MODE != "at-least-once"
        own = {"transactional.id": os.environ["INQUEST_TRANSACTIONAL_ID"], "transaction.timeout.ms": 10000}
        made = {"linger.ms": 5, "enable.idempotence": True, **(own if self.transactional else {})}
        self.producer = Producer({**COMMON, **made})
        if self.transactional:
            self.producer.init_transactions(CALL_S)
        self.consumer = client("read_uncommitted" if MODE == "dirty" else "read_committed")
        self.consumer.subscribe([IN], on_revoke=self.dropped, on_lost=self.dropped)

    def dropped(self, _: Consumer, tps: list[TopicPartition]) -> None:
        for tp in tps:
            self.results.pop(tp.partition, None)
            self.done.pop(tp.partition, None)
            self.gone.add(tp.partition)

    def step(self) -> None:
        if self.done and time.monotonic() - self.committed >= COMMIT_S:
            self.consumer.commit(offsets=offsets(self.done.values()), asynchronous=False)
            self.done, self.committed = {}, time.monotonic()
        first = self.consumer.poll(0.2)
        if first is None:
            return
        self.gone.clear()
        messages = [m for m in (first, *self.consumer.consume(99, 0)) if m.error() is None]
        if self.gone:
            raise KafkaException(
                KafkaError(KafkaError._STATE, "partitions were taken away with their records")
            )
        if not messages:
            return
        for partition in {m.partition() for m in messages} - self.results.keys():
            self.results[partition] = {} if MODE == "forgets" else last_results(partition)
        if self.transactional:
            self.in_transaction(messages)
            return
        for message in messages:
            self.fold(message)
            if self.producer.flush(60) or self.failed:
                raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
            self.done[message.partition() or 0] = message
            time.sleep(WORK_S)

    def in_transaction(self, messages: list[Message]) -> None:
        with watched(HANGS_S):
            self.producer.begin_transaction()
            for message in messages:
                self.fold(message)
            group = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(offsets(messages), group, CALL_S)
            self.producer.commit_transaction(CALL_S)

    def fold(self, message: Message) -> None:
        """Add a record to the result of its key, and write that to the partition of the same number."""
        key = message.key() or b""
        numbers = self.results[message.partition() or 0].setdefault(key, [])
        numbers.append(int.from_bytes((message.value() or b"")[NUMBER], "little"))
        result = json.dumps({"count": len(numbers), "inputs": numbers})
        self.producer.produce(OUT, result, key, message.partition(), on_delivery=self.reported)
        self.producer.poll(0)

    def reported(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None

    def close(self) -> None:
        self.consumer.close()


def last_results(partition: int) -> dict[bytes, list[int]]:
    """What the output has of a partition of the input: all that is there, once no transaction is open."""
    found: dict[bytes, list[int]] = {}
    at = TopicPartition(OUT, partition, 0)
    everything, committed = (
        client("read_uncommitted"),
        client("read_committed", **{"enable.partition.eof": True}),
    )
    try:
        _, end = everything.get_watermark_offsets(at, CALL_S)
        committed.assign([at])
        until = time.monotonic() + 2 * CALL_S
        reached = 0
        while reached < end:
            if time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{OUT} {partition} at {reached}"))
            for message in committed.consume(500, 0.2):
                if message.error() is None:
                    found[message.key() or b""] = json.loads(message.value() or b"")["inputs"]
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    reached = message.offset() or 0  # behind records of control, too
        return found
    finally:
        everything.close()
        committed.close()


def offsets(messages: Iterable[Message]) -> list[TopicPartition]:
    """The offsets behind these records."""
    last = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
    return [TopicPartition(*tp, offset) for tp, offset in last.items()]


def main() -> None:
    """Work until SIGTERM; after an error begin anew, with new clients, at the committed offsets."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    aggregator = None
    while not stopping.is_set():
        try:
            with watched(STEP_S):
                aggregator = aggregator or Aggregator()
                aggregator.step()
        except KafkaException as error:
            print(error, flush=True)
            if aggregator is not None:
                with watched(HANGS_S):
                    aggregator.close()
            aggregator = None
            time.sleep(0.5)
    if aggregator is not None:
        aggregator.close()


main()
