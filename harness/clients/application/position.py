"""Where a group stands in a topic: its committed offsets, and the ends of the logs, asked of the brokers."""

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from core.op import TopicPartition
from harness.clients.librdkafka.settings import of_librdkafka

ASK_S: Final = 2.0
"""How long brokers may take to answer one question."""
END_S: Final = 5.0
"""How long they may take to show that the logs have ended."""


class GroupPosition:
    """One group. It asks from outside of the group."""

    def __init__(self, args: Mapping[str, str], group: str) -> None:
        """args: those of an endpoint."""
        settings = {"group.id": group, "enable.auto.commit": False, "log_level": 0}
        # the records at an offset may be deleted: the next ones are still to be read
        settings |= {"auto.offset.reset": "earliest"}
        own = {**settings, "isolation.level": "read_committed", "enable.partition.eof": True}
        self._client = Consumer({**of_librdkafka(args), **own, "error_cb": lambda _: None})

    def committed(
        self, tps: Iterable[TopicPartition], seconds: float = ASK_S
    ) -> dict[TopicPartition, int] | None:
        """The offset that the group has committed of each partition, 0 = none; None = it is not known."""
        try:
            found = self._client.committed([KafkaPartition(*tp) for tp in tps], timeout=seconds)
        except KafkaException:
            return None
        if any(at.error is not None for at in found):
            return None
        return {TopicPartition(at.topic, at.partition): max(at.offset, 0) for at in found}

    def at_the_end(self, committed: Mapping[TopicPartition, int]) -> bool:
        """Whether a consumer at read_committed finds no record from these offsets on. (Behind the last record
        a log may have records of control: offsets do not tell.)"""
        self._client.assign([KafkaPartition(*tp, offset) for tp, offset in committed.items()])
        left, until = set(committed), monotonic() + END_S
        while left and monotonic() < until:
            message = self._client.poll(ASK_S / 10)
            error = None if message is None else message.error()
            if message is not None and error is None:
                break
            if message is not None and error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard(TopicPartition(message.topic() or "", message.partition() or 0))
        self._client.unassign()
        return not left

    def close(self) -> None:
        """Release the client."""
        self._client.close()
