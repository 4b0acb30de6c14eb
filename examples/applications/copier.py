"""Reads one topic and writes each record to another; right, or wrong in one of several ways (the argument).

    inquest run --app "python examples/applications/copier.py right"

right: output and offsets are in one transaction. at-least-once: it commits the offsets of up to 100 records
after it has written each of them. at-most-once: before. uncommitted: as right, but it reads records of
aborted transactions. newest-first: as at-least-once, but it collects records for 5 s, and writes the newest
first. swallow: it commits offsets whatever became of its output. split-…: the same with two
output records of each input record (`--set 'app={"shape":"flat-map","outputs":2}'`).
"""

import json
import os
import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from hanging import watched

COMMON = {**json.loads(os.environ["INQUEST_CLIENT"]), "log_level": 0}
IN, OUT, GROUP = (os.environ[f"INQUEST_{name}"] for name in ("IN", "OUT", "GROUP"))
WORK_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.03
"""What an application does with a record takes its time."""
CALL_S = 15
"""How long a call of a transaction may take; then it begins anew, with a producer that fences this one."""
HANGS_S = float(sys.argv[3]) if len(sys.argv) > 3 else 2 * CALL_S
"""After so long a step will never end: send_offsets_to_transaction ignores its time-out where the group's
coordinator is gone (librdkafka issue 5456), and closing a consumer has none."""
stopping = threading.Event()


class Copier:
    def __init__(self, mode: str) -> None:
        self.parts = 2 if mode.startswith("split-") else 1
        self.mode = mode = mode.removeprefix("split-")
        self.transactional = mode in ("right", "uncommitted")
        made = {"linger.ms": 5, "enable.idempotence": mode != "swallow"}
        if mode == "swallow":
            made |= {"message.timeout.ms": 500, "acks": "1", "retries": 0}
        if self.transactional:
            made |= {
                "transactional.id": os.environ["INQUEST_TRANSACTIONAL_ID"],
                "transaction.timeout.ms": 10000,
            }
        self.producer = Producer({**COMMON, **made})
        self.failed = 0
        if self.transactional:  # where this fails no member of the group is left behind
            self.producer.init_transactions(CALL_S)
        isolation = "read_uncommitted" if mode == "uncommitted" else "read_committed"
        own = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer({**COMMON, **own, "isolation.level": isolation, "session.timeout.ms": 6000})
        self.taken = False
        """Partitions were taken away while it got records: they may be another one's work."""
        self.consumer.subscribe([IN], on_revoke=self.revoked, on_lost=self.revoked)

    def revoked(self, _: Consumer, tps: list[TopicPartition]) -> None:
        self.taken = True

    def step(self) -> None:
        first = self.consumer.poll(0.2)
        if first is None:
            return
        self.taken = False
        wait_s = 5 if self.mode == "newest-first" else 0  # until it has several of one key
        messages = [m for m in (first, *self.consumer.consume(99, wait_s)) if m.error() is None]
        if not messages:
            return
        if self.transactional:
            if self.taken:
                raise KafkaException(KafkaError(KafkaError._STATE, "partitions were taken away"))
            self.in_transaction(messages)
            return
        early = self.mode == "at-most-once"
        if early:
            self.commit(messages)
        for message in reversed(messages) if self.mode == "newest-first" else messages:
            time.sleep(early * WORK_S)  # between the commit and the output, where a crash does harm
            self.write(message)
            self.acknowledged()
            time.sleep((not early) * WORK_S)
        if not early:
            self.commit(messages)

    def acknowledged(self) -> None:
        late = self.producer.flush(1 if self.mode == "swallow" else 60)
        failed, self.failed = self.failed, 0
        if self.mode != "swallow" and (late or failed):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))

    def in_transaction(self, messages: list[Message]) -> None:
        self.producer.begin_transaction()
        for message in messages:
            self.write(message)
        group = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(offsets(messages), group, CALL_S)
        self.producer.commit_transaction(CALL_S)

    def write(self, message: Message) -> None:
        key = str((message.offset() or 0) % 50)  # of what the application makes of the record
        for part in range(self.parts):
            value = (message.value() or b"") + bytes([part] * (self.parts > 1))
            self.producer.produce(OUT, value, key, on_delivery=self.reported)
        self.producer.poll(0)

    def reported(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None

    def commit(self, messages: list[Message]) -> None:
        self.consumer.commit(offsets=offsets(messages), asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


def offsets(messages: list[Message]) -> list[TopicPartition]:
    """The offsets behind these records."""
    last = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
    return [TopicPartition(*tp, offset) for tp, offset in last.items()]


def main() -> None:
    """Copy until SIGTERM; after an error begin anew, with new clients, at the committed offsets."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    mode = sys.argv[1] if len(sys.argv) > 1 else "right"
    copier = None
    while not stopping.is_set():
        try:
            with watched(HANGS_S):
                copier = copier or Copier(mode)
                copier.step()
        except KafkaException as error:
            print(error, flush=True)
            if copier is not None:
                with watched(HANGS_S):
                    copier.close()
            copier = None
            time.sleep(0.5)
    if copier is not None:
        copier.close()


main()
