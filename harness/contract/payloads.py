"""Records of Kafka's logs as the model has them in its own."""

import numpy as np

from core.errors import ClusterError
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from harness.contract.dialect import IdPairs
from harness.contract.group_records import group_record
from harness.evidence.coordinator_records import transaction_value, transactional_id
from harness.evidence.records import LogRecord, records_of
from harness.protocol.batches import FIELDS, HEADER, PREFIX
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.messages import UnknownMessage
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone


def payloads(topic: str, data: bytes, at: int, header: np.void, names: IdPairs) -> tuple[object, ...]:
    """What a batch holds that begins at `at`: of coordinators' topics the model's records, else values
    as text. header: of type `segments.COLUMNS`.

    Raises: ClusterError, where a record cannot be read.
    """
    fields = dict(zip(FIELDS, header.tolist(), strict=True))
    cursor = Cursor(data, at + HEADER.size, at + PREFIX + fields["length"])
    try:
        return tuple(_payload(topic, record, names) for record in records_of(cursor, at, fields))
    except (Malformed, UnknownMessage) as error:
        raise ClusterError(f"a fetch of {topic} brought a record that cannot be read: {error}") from error


def _payload(topic: str, record: LogRecord, names: IdPairs) -> object:
    if topic == TRANSACTION_TOPIC:
        return _transaction(record)
    if topic == GROUP_TOPIC:
        return group_record(record, names)
    return (record.value or b"").decode(errors="replace")


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
