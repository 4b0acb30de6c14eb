"""Reading `__transaction_state` of a running cluster: what coordinators wrote down, to the high watermark."""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as At

from core.cluster import TRANSACTION_TOPIC
from core.errors import ClusterError
from core.op import Isolation
from core.transaction_log import TransactionLog, TransactionRecord
from harness.evidence.coordinator_records import transaction_value, transactional_id
from harness.evidence.cursor import Malformed
from harness.evidence.messages import UnknownMessage
from harness.kafka.admin import broker_views
from harness.kafka.admin.connection import Brokers

READ_S: Final = 15.0
"""About 50 000 records a second, on a machine that does nothing else."""
BATCH: Final = 10_000


def transaction_log(brokers: Brokers, within_s: float = READ_S) -> TransactionLog:
    """All of it, or what could be read in time. Never raises."""
    deadline = time.monotonic() + within_s
    roles = broker_views.roles(brokers)
    tps = sorted(tp for tp in roles.leaders if tp.topic == TRANSACTION_TOPIC)
    listed = broker_views.offsets(brokers, roles, tps, Isolation.READ_UNCOMMITTED)
    missing = [f"the end of {tp} is not known" for tp in tps if tp not in listed]
    ends = {tp.partition: span for tp, span in listed.items()}
    found: list[TransactionRecord] = []
    places: dict[int, int] = {}
    try:
        places = _read(brokers, ends, deadline, found)
    except (KafkaException, ClusterError) as error:
        missing.append(str(error))
    missing += [
        f"{TRANSACTION_TOPIC}-{number} was read to {places.get(number, start)} of {end}"
        for number, (start, end) in sorted(ends.items())
        if places.get(number, start) < end
    ]
    whole = frozenset(number for number, span in ends.items() if _whole(number, span, found))
    return TransactionLog(
        records=tuple(sorted(found, key=lambda record: (record.partition, record.offset))),
        whole=whole,
        missing="; ".join(missing),
    )


def _whole(partition: int, span: tuple[int, int], found: list[TransactionRecord]) -> bool:
    """Every offset up to the end is a record that was understood: nothing was compacted away."""
    start, end = span
    return start == 0 and len({one.offset for one in found if one.partition == partition}) == end


def _read(
    brokers: Brokers, ends: Mapping[int, tuple[int, int]], deadline: float, found: list[TransactionRecord]
) -> dict[int, int]:
    """Read each partition up to its end; the offset after the last one read of each.

    Raises: KafkaException; ClusterError, for a record that is damaged.
    """
    wanted = {number: span for number, span in ends.items() if span[0] < span[1]}
    places: dict[int, int] = {}
    if not wanted:
        return places
    reader = Consumer(
        {
            "bootstrap.servers": ",".join(map(str, brokers.addresses.values())),
            "group.id": "inquest-transaction-log",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        reader.assign([At(TRANSACTION_TOPIC, number, start) for number, (start, _) in wanted.items()])
        while time.monotonic() < deadline and any(
            places.get(number, start) < end for number, (start, end) in wanted.items()
        ):
            for message in reader.consume(BATCH, 0.2):
                if message.error() is None:
                    number, offset = int(message.partition() or 0), int(message.offset() or 0)
                    places[number] = offset + 1
                    if offset < wanted[number][1] and (record := _record(message, number, offset)):
                        found.append(record)
    finally:
        reader.close()
    return places


def _record(message: Message, number: int, offset: int) -> TransactionRecord | None:
    """None = of a type with another meaning. Raises: ClusterError."""
    key, value = message.key(), message.value()
    if not isinstance(key, bytes):
        return None
    try:
        name = transactional_id(key)
    except UnknownMessage:
        return None
    except Malformed as error:
        raise ClusterError(f"{TRANSACTION_TOPIC}-{number}, key at offset {offset}: {error}") from error
    ms, epoch = message.timestamp()[1], message.leader_epoch()
    leader_epoch = -1 if epoch is None else epoch
    if not isinstance(value, bytes):
        return TransactionRecord(
            partition=number, offset=offset, ms=ms, leader_epoch=leader_epoch, transactional_id=name
        )
    try:
        state = transaction_value(value)
    except (UnknownMessage, Malformed) as error:
        raise ClusterError(f"{TRANSACTION_TOPIC}-{number}, value at offset {offset}: {error}") from error
    return TransactionRecord(
        partition=number,
        offset=offset,
        ms=ms,
        leader_epoch=leader_epoch,
        transactional_id=name,
        state=state.state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.timeout_ms,
        partitions=tuple(f"{topic}-{at}" for topic, at in state.partitions),
        started_ms=state.start_ms,
        updated_ms=state.last_update_ms,
    )
