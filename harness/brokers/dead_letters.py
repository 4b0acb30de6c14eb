"""Reads the dead-letter queue of share groups (KIP-1191) from its beginning to its present end."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from core.capabilities import DeadLetter
from core.dead_letters import HEADER
from core.errors import ClusterError
from core.op import TopicPartition

READ_S: Final = 60.0
ASK_S: Final = 10.0
POLL_S: Final = 0.5
POLLED: Final = 1000


def read(args: Mapping[str, object], topic: str) -> Sequence[DeadLetter]:
    """Its letters. args: settings of librdkafka that reaching the cluster takes.

    Raises: ClusterError, where that takes longer than a minute, or a record there is no letter.
    """
    own = {"group.id": "inquest-dead-letters", "enable.auto.commit": False, "enable.partition.eof": True}
    with closing(Consumer({**args, **own})) as consumer:
        try:
            return [*_letters(consumer, topic)]
        except KafkaException as error:
            raise ClusterError(f"the dead letters in {topic} could not be read: {error}") from error


def _letters(consumer: Consumer, topic: str) -> Iterator[DeadLetter]:
    until = time.monotonic() + READ_S
    queue = consumer.list_topics(topic, ASK_S).topics[topic]
    if queue.error is not None or not queue.partitions:
        raise ClusterError(f"the dead letters in {topic} could not be read: {queue.error or 'no partition'}")
    for number in sorted(queue.partitions):
        consumer.assign([Place(topic, number, OFFSET_BEGINNING)])
        ended = False
        while not ended:
            if time.monotonic() > until:
                raise ClusterError(f"the dead letters in {topic} could not be read within {READ_S:.0f} s")
            for message in consumer.consume(POLLED, timeout=POLL_S):
                if (error := message.error()) is None:
                    yield _letter(TopicPartition(topic, number), message.offset() or 0, message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended = True
                else:
                    raise KafkaException(error)


def _letter(tp: TopicPartition, offset: int, message: Message) -> DeadLetter:
    payload = message.value()
    try:
        said = {
            name.removeprefix(HEADER): _text(value) for name, value in dict(message.headers() or {}).items()
        }
        return DeadLetter(
            group=said["group"],
            tp=TopicPartition(said["topic"], int(said["partition"])),
            offset=int(said["offset"]),
            times=int(said["delivery.count"]),
            payload=None if payload is None else bytes(payload),
            place=(tp, offset),
            ms=message.timestamp()[1],
        )
    except (KeyError, ValueError) as error:
        what = f"the record at offset {offset} of {tp}"
        raise ClusterError(f"{what} has not the headers of a dead letter: {error}") from error


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
