"""Control records: transaction markers, and what a KRaft leader writes into the metadata log.

The key is a version and a type (`ControlRecordType`), the value a message, whose version its first two bytes
repeat.
"""

import json
from typing import Final

import pyarrow as pa

from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, walk
from harness.evidence.segments import Segment
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.messages import Message, UnknownMessage, decode
from history.evidence_tables import CONTROL, Row, table

TYPES: Final = {
    0: ("ABORT", "EndTxnMarker"),
    1: ("COMMIT", "EndTxnMarker"),
    2: ("LEADER_CHANGE", "LeaderChangeMessage"),
    3: ("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
    4: ("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
    5: ("KRAFT_VERSION", "KRaftVersionRecord"),
    6: ("KRAFT_VOTERS", "VotersRecord"),
}
"""Names of Kafka's control record types, and of the messages that are their values."""
UNKNOWN: Final = "unknown"


def read(segment: Segment, damages: Damages) -> pa.Table:
    """The control records of a segment as rows of `tables.CONTROL`; `damages` gets what is malformed."""
    rows: list[Row] = []
    for record in walk(segment, damages, control_only=True):
        try:
            rows.append(_row(record))
        except Malformed as error:
            damages.note(segment.path, record.position, f"control record at offset {record.offset}: {error}")
    return table(CONTROL, rows)


def _row(record: LogRecord) -> Row:
    """Raises: Malformed."""
    key = Cursor(record.key or b"")
    key.integer(2)
    kind = key.integer(2)
    name, message = TYPES.get(kind, (UNKNOWN, ""))
    value = record.value or b""
    version = Cursor(value).integer(2)
    body = _body(message, version, value)
    epoch = body.get("coordinatorEpoch") if body else None
    return (
        record.offset,
        record.leader_epoch,
        record.timestamp,
        record.producer_id,
        record.producer_epoch,
        kind,
        name,
        version,
        epoch if isinstance(epoch, int) else None,
        json.dumps(body) if body else None,
    )


def _body(message: str, version: int, value: bytes) -> Message | None:
    """The value; of markers without the version in front, which the other messages count as a field."""
    try:
        return decode(message, version, Cursor(value, 2 if message == "EndTxnMarker" else 0))
    except UnknownMessage:
        return None
