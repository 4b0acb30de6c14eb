"""Records of the coordinators as Kafka's logs have them: `__consumer_offsets`, `__transaction_state`, and
`__share_group_state`.

The model keeps them in its own form. A fetch brings them as keys and values in the versions that Kafka's
brokers write: OffsetCommitValue 3, GroupMetadataValue 3, TransactionLogValue 0, or 1 with transaction version
2; those of consumer groups: `consumer_group_records`; of share groups: `share_records`. What the model does
not have is empty: metadata of a commit, client id and host of a member. The evidence of modelled nodes is
read from these bytes, too.
"""

import struct
from collections.abc import Iterator
from typing import Final

from core.consumer_protocol import assignment, subscription, text
from harness.evidence.coordinator_records import TRANSACTION_STATES
from harness.evidence.records import LogRecord
from harness.modelled.shared import consumer_group_records, share_records
from harness.protocol.batches import varint
from harness.protocol.topics import numbers_by_topic
from model.coordinator.classic_group import ClassicGroup, GroupRecord
from model.coordinator.consumer_group_records import CLASSIC, GroupTombstone, OfConsumerGroup
from model.coordinator.group_metadata_manager import TOMBSTONE, OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone
from model.eras import Era
from model.log.unified_log import REMOVED, RecordBatch

CONSUMER: Final = "consumer"
"""The one type of groups that is served."""
ASSIGNOR: Final = "range"
"""How members divide partitions that name no protocol: those of the simulation."""
OFFSET_KEY, GROUP_KEY, TRANSACTION_KEY = 1, 2, 0
OFFSET_VERSION: Final = 3
GROUP_VERSION: Final = 3

KeyAndValue = tuple[bytes, bytes | None]


def log_records(batch: RecordBatch, era: Era, wall_ms: int) -> Iterator[LogRecord]:
    """The records of a coordinator's batch as the reader of Kafka's logs has them. era, wall_ms: see
    `key_and_value`."""
    for n, record in enumerate(batch.records):
        if record is not REMOVED:
            key, value = key_and_value(record, era, batch.appended_ms, wall_ms)
            yield LogRecord(
                position=0,
                offset=batch.base + n,
                leader_epoch=batch.epoch,
                timestamp=batch.appended_ms + wall_ms,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                sequence=-1,
                control=False,
                transactional=batch.transactional,
                key=key,
                value=value,
            )


def key_and_value(record: object, era: Era, ms: int, wall_ms: int) -> KeyAndValue:
    """A record of the model as Kafka has it. ms: when it was appended. wall_ms: what the clock of the model
    lacks to the wall clock."""
    match record:
        case OffsetRecord():
            return _offset(record, ms + wall_ms)
        case GroupRecord():
            return _group_key(record.group), _group(record, ms + wall_ms)
        case GroupTombstone(what, group) if what == CLASSIC:
            return _group_key(group), None
        case _ if isinstance(record, OfConsumerGroup):
            return consumer_group_records.key(record), consumer_group_records.value(record, era, wall_ms)
        case _ if isinstance(record, share_records.OfShareState):
            return share_records.key(record), share_records.value(record, ms + wall_ms)
        case TransactionRecord():
            return _transaction_key(record.transactional_id), _transaction(record, era, wall_ms)
        case TransactionTombstone():
            return _transaction_key(record.transactional_id), None
    raise AssertionError(f"no coordinator writes {record!r}")


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


# ---- __consumer_offsets


def _offset(record: OffsetRecord, ms: int) -> KeyAndValue:
    topic, number = record.partition
    key = struct.pack(">h", OFFSET_KEY) + text(record.group) + text(topic) + struct.pack(">i", number)
    if record.offset == TOMBSTONE:
        return key, None
    value = struct.pack(">hqi", OFFSET_VERSION, record.offset, record.leader_epoch)
    return key, value + text("") + struct.pack(">q", ms)


def _group_key(group: str) -> bytes:
    return struct.pack(">h", GROUP_KEY) + text(group)


def _group(record: GroupRecord, ms: int) -> bytes:
    group = ClassicGroup.restored(record, 0)
    metadata = group.metadata()
    members = b"".join(
        text(one.member)
        + text(None)  # no static member
        + text("")
        + text("")
        + struct.pack(">ii", one.rebalance_ms, one.session_ms)
        + _bytes(metadata[one.member] or subscription(one.topics))
        + _bytes(assignment(one.assigned))
        for one in record.members
    )
    protocol = (group.protocol or ASSIGNOR) if record.members else None
    value = struct.pack(">h", GROUP_VERSION) + text(CONSUMER) + struct.pack(">i", record.generation)
    value += text(protocol) + text(record.leader or None)
    return value + struct.pack(">qi", ms, len(record.members)) + members


# ---- __transaction_state


def _transaction_key(transactional_id: str) -> bytes:
    return struct.pack(">h", TRANSACTION_KEY) + text(transactional_id)


def _transaction(record: TransactionRecord, era: Era, wall_ms: int) -> bytes:
    """TransactionLogValue. Flexible from transaction version 2 on, and only then with what came with that."""
    flexible = era.server_transaction_version >= 2
    begin = struct.pack(">hqh", int(flexible), record.producer_id, record.epoch)
    state = TRANSACTION_STATES.index(record.state.value)
    updated, started = (time if time < 0 else time + wall_ms for time in (record.updated, record.started))
    times = struct.pack(">qq", updated, started)
    begin += struct.pack(">ib", record.timeout_ms, state)
    topics = None if record.state is TransactionState.EMPTY else numbers_by_topic(record.partitions)
    if flexible:
        return begin + _compact_topics(topics) + times + _tagged(record, era)
    return begin + _topics(topics) + times


def _numbers(values: list[int]) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def _topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return struct.pack(">i", -1)
    parts = [text(topic) + struct.pack(">i", len(its)) + _numbers(its) for topic, its in topics.items()]
    return struct.pack(">i", len(parts)) + b"".join(parts)


def _compact_topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return varint(0)
    parts = []
    for topic, its in topics.items():
        raw = topic.encode()
        parts.append(varint(len(raw) + 1) + raw + varint(len(its) + 1) + _numbers(its) + varint(0))
    return varint(len(parts) + 1) + b"".join(parts)


def _tagged(record: TransactionRecord, era: Era) -> bytes:
    """Tagged fields that are not the default."""
    known = record.loaded(ids_logged=era.ids_logged)
    fields = [
        (0, struct.pack(">q", known.previous_id), known.previous_id != -1),
        (1, struct.pack(">q", known.next_id), known.next_id != -1),
        (2, struct.pack(">h", record.version), record.version != 0),
    ]
    given = [varint(tag) + varint(len(value)) + value for tag, value, there in fields if there]
    return varint(len(given)) + b"".join(given)
