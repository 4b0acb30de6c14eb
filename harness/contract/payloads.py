"""Records of Kafka's logs as the model has them in its own."""

from typing import Any, Final

import numpy as np

from core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC
from core.errors import ClusterError
from harness.evidence.coordinator_records import group_types, transaction_value, transactional_id
from harness.evidence.records import LogRecord, records_of
from harness.protocol.batches import FIELDS, HEADER, PREFIX
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.messages import UnknownMessage, decode
from model.coordinator.classic_group import GroupRecord
from model.coordinator.group_metadata_manager import OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone

OFFSET: Final = "OffsetCommit"
GROUP: Final = "GroupMetadata"
"""Kinds of records in `__consumer_offsets`."""


def payloads(topic: str, data: bytes, at: int, header: np.void) -> tuple[object, ...]:
    """What a batch holds that begins at `at`: of coordinators' topics the model's records, else values
    as text. header: of type `segments.COLUMNS`.

    Raises: ClusterError, where a record cannot be read.
    """
    fields = dict(zip(FIELDS, header.tolist(), strict=True))
    cursor = Cursor(data, at + HEADER.size, at + PREFIX + fields["length"])
    try:
        return tuple(_payload(topic, record) for record in records_of(cursor, at, fields))
    except (Malformed, UnknownMessage) as error:
        raise ClusterError(f"a fetch of {topic} brought a record that cannot be read: {error}") from error


def _payload(topic: str, record: LogRecord) -> object:
    if topic == TRANSACTION_TOPIC:
        return _transaction(record)
    if topic == GROUP_TOPIC:
        return _group(record)
    return (record.value or b"").decode(errors="replace")


def _group(record: LogRecord) -> object:
    """Of a group without its members. None: a tombstone, or of a kind that the model has not."""
    key = Cursor(record.key or b"")
    kind = group_types().get(key.integer(2), "")
    if kind not in (OFFSET, GROUP) or record.value is None:
        return None
    names = decode(f"{kind}Key", 0, key)
    cursor = Cursor(record.value)
    value: dict[str, Any] = decode(f"{kind}Value", cursor.integer(2), cursor)
    if kind == GROUP:
        return GroupRecord(str(names["group"]), value["generation"], value["leader"] or "", ())
    tp = (str(names["topic"]), int(str(names["partition"])))
    return OffsetRecord(str(names["group"]), tp, value["offset"], value.get("leaderEpoch", -1))


def _transaction(record: LogRecord) -> object:
    name = transactional_id(record.key or b"")
    if record.value is None:
        return TransactionTombstone(name)
    value = transaction_value(record.value)
    return TransactionRecord(
        name,
        value.producer_id,
        value.timeout_ms,
        value.producer_epoch,
        state=TransactionState(value.state),
        partitions=value.partitions,
    )
