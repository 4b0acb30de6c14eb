"""The logs of the coordinators: `__transaction_state` and `__consumer_offsets`.

A key is the number of its type (two bytes) and a message, a value is the number of its version and a
message; no value = a tombstone.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import pyarrow as pa

from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, decoded
from harness.evidence.segments import Segment
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.definitions import definitions
from harness.protocol.messages import Message, UnknownMessage, Value, decode
from history.evidence_tables import GROUP_LOG, OFFSET_LOG, TRANSACTION_LOG, Cell, Row, table

TRANSACTION_STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)
"""Names of Kafka's `TransactionState` by their number in the log."""
UNKNOWN: Final = "unknown"
OTHERS: Final = ("TransactionLogKey", "ShareSnapshotKey", "ShareUpdateKey")
"""Keys of other logs, whose types have numbers of their own."""
OFFSETS: Final = ("LegacyOffsetCommit", "OffsetCommit")
"""Names of types are those of their keys in Kafka, without `Key`."""


@cache
def group_types() -> dict[int, str]:
    """Names of the types of `__consumer_offsets` by their number."""
    keys = [one for one in definitions().values() if one.type == "coordinator-key" and one.name not in OTHERS]
    names = {one.api_key: one.name.removesuffix("Key") for one in keys if one.api_key is not None}
    return names | {0: OFFSETS[0]}


@dataclass(frozen=True, slots=True)
class TransactionLogValue:
    """Kafka's TransactionLogValue: the state of a transactional id.

    state: of TRANSACTION_STATES. Times: ms since 1970; -1 = none, also of ids and epochs. partitions: topic
    and number.
    """

    version: int
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    next_producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    client_transaction_version: int
    last_update_ms: int
    start_ms: int


COLUMNS: Final = tuple(one.name for one in fields(TransactionLogValue))
"""Columns of `tables.TRANSACTION_LOG` that hold a value."""


def transactional_id(key: bytes) -> str:
    """The transactional id that a key of `__transaction_state` names.

    Raises: UnknownMessage: it is of another type. Malformed.
    """
    cursor = Cursor(key)
    kind = cursor.integer(2)
    if kind != 0:
        raise UnknownMessage(f"key of type {kind}")
    return str(decode("TransactionLogKey", 0, cursor)["transactionalId"])


def transaction_value(value: bytes) -> TransactionLogValue:
    """A value of `__transaction_state`.

    Raises: UnknownMessage: a newer version. Malformed.
    """
    cursor = Cursor(value)
    version = cursor.integer(2)
    message = decode("TransactionLogValue", version, cursor)
    status = number(message["transactionStatus"])
    if not 0 <= status < len(TRANSACTION_STATES):
        raise Malformed(0, f"no transaction state has the number {status}")
    return TransactionLogValue(
        version=version,
        producer_id=number(message["producerId"]),
        previous_producer_id=number(message.get("previousProducerId", -1)),
        next_producer_id=number(message.get("nextProducerId", -1)),
        producer_epoch=number(message["producerEpoch"]),
        next_producer_epoch=number(message.get("nextProducerEpoch", -1)),
        timeout_ms=number(message["transactionTimeoutMs"]),
        state=TRANSACTION_STATES[status],
        partitions=tuple(_partitions(message["transactionPartitions"])),
        client_transaction_version=number(message.get("clientTransactionVersion", 0)),
        last_update_ms=number(message["transactionLastUpdateTimestampMs"]),
        start_ms=number(message["transactionStartTimestampMs"]),
    )


def _partitions(topics: Value) -> Iterator[tuple[str, int]]:
    """The partitions of a TransactionLogValue; a null in the log is none."""
    for one in topics if isinstance(topics, list) else []:
        assert isinstance(one, dict)
        numbers = one["partitionIds"]
        assert isinstance(numbers, list)
        yield from ((str(one["topic"]), number(each)) for each in numbers)


def number(value: Value) -> int:
    """A field that its definition calls a number."""
    assert isinstance(value, int)
    return value


def transactions(segment: Segment, damages: Damages) -> pa.Table:
    """A segment of `__transaction_state` as rows of `tables.TRANSACTION_LOG`.

    damages: gets what is malformed.
    """
    return table(TRANSACTION_LOG, [*decoded(segment, damages, transaction_row)])


def transaction_row(record: LogRecord) -> Row:
    """A record of `__transaction_state` as a row. Raises: Malformed; UnknownMessage, of the key."""
    begin: Row = (record.offset, record.leader_epoch, record.timestamp, transactional_id(record.key or b""))
    nothing: Row = (None,) * len(COLUMNS)
    if record.value is None:
        return *begin, *nothing, None
    try:
        value = transaction_value(record.value)
    except UnknownMessage:
        return *begin, *nothing, record.value
    columns: dict[str, Cell] = {name: getattr(value, name) for name in COLUMNS}
    rows: list[dict[str, str | int]] = [{"topic": topic, "partition": at} for topic, at in value.partitions]
    columns["partitions"] = rows
    return *begin, *columns.values(), None


def groups(segment: Segment, damages: Damages) -> tuple[pa.Table, pa.Table]:
    """A segment of `__consumer_offsets`: rows of `tables.OFFSET_LOG`, and of `tables.GROUP_LOG`.

    `damages` gets what is malformed.
    """
    rows = [*decoded(segment, damages, group_row)]
    offsets, others = ([row for of_offsets, row in rows if of_offsets == each] for each in (True, False))
    return table(OFFSET_LOG, offsets), table(GROUP_LOG, others)


def group_row(record: LogRecord) -> tuple[bool, Row]:
    """A record of `__consumer_offsets`: whether it is one of offsets, and its row. Raises: Malformed."""
    kind, types = Cursor(record.key or b"").integer(2), group_types()
    if types.get(kind) in OFFSETS:
        return True, _offset(record, types[kind])
    return False, _group(record, kind, types.get(kind, UNKNOWN))


def _begin(record: LogRecord) -> Row:
    return record.offset, record.leader_epoch, record.timestamp, record.producer_id, record.producer_epoch


def value_of(record: LogRecord, name: str) -> tuple[int | None, Message | None, bytes | None]:
    """Version and message of a record's value, or its bytes where no definition reads it.

    Raises: Malformed.
    """
    if record.value is None:
        return None, None, None
    cursor = Cursor(record.value)
    version = cursor.integer(2)
    try:
        return version, decode(f"{name}Value", version, cursor), None
    except UnknownMessage:
        return version, None, record.value


def _offset(record: LogRecord, name: str) -> Row:
    """Raises: Malformed."""
    key = decode(f"{name}Key", 0, Cursor(record.key or b"", 2))
    _, message, opaque = value_of(record, name)
    committed: Row = (None, None, None, None)
    if message:
        committed = (
            number(message["offset"]),
            number(message.get("leaderEpoch", -1)),
            str(message["metadata"]),
            number(message["commitTimestamp"]),
        )
    where: Row = (str(key["group"]), str(key["topic"]), number(key["partition"]))
    return *_begin(record), record.transactional, *where, *committed, opaque


def _group(record: LogRecord, kind: int, name: str) -> Row:
    """Raises: Malformed."""
    key: Message = {}
    if name != UNKNOWN:
        key = decode(f"{name}Key", 0, Cursor(record.key or b"", 2))
    version, message, opaque = value_of(record, name)
    names: list[Cell] = [key.get("group", key.get("groupId")), key.get("memberId")]  # type: ignore[list-item]
    epoch: Cell = None
    if message:
        found = message.get("generation", message.get("epoch"))
        epoch = found if isinstance(found, int) else None
    body = json.dumps(message) if message is not None else None
    return *_begin(record), kind, name, version, *names, epoch, body, opaque
