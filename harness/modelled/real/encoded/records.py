"""Batches of records between Kafka's wire and the model's logs.

A client's batch stays the bytes that the client sent: its records are read only where something asks for
them. A broker changes two fields of a batch, base offset and leader epoch, and neither is under the
checksum, so a fetch sends the same bytes again.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, overload

from crc32c import crc32c

from harness.evidence.records import records_of
from harness.modelled.shared.coordinator_records import key_and_value
from harness.modelled.shared.share_records import letter_headers
from harness.protocol.batches import (
    CHECKED_FROM,
    COMPRESSION,
    CONTROL,
    FIELDS,
    HEADER,
    MAGIC,
    PREFIX,
    TRANSACTIONAL,
)
from harness.protocol.batches import batch as written
from harness.protocol.batches import record as written_record
from harness.protocol.cursor import Cursor, Malformed
from model.eras import Era
from model.log.unified_log import ABORT, REMOVED, RecordBatch
from model.share.dead_letter_queue import LetterRecord

_PLACE: Final = struct.Struct(">qii")
"""Base offset, length, leader epoch."""
_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 57
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")


class CorruptBatch(ValueError):
    """Bytes are not one batch of records as a client may send it."""


class WireRecords(Sequence[object]):
    """The records of one batch of a client. raw: the whole batch, as it was sent. An element is a record's
    value, bytes or None; those of a compressed batch cannot be read, only counted. A single one that cannot
    be read is None: a dead letter then has no copy of it."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return int(_COUNT.unpack_from(self.raw, _COUNT_AT)[0])

    @property
    def compression(self) -> int:
        """The codec by its number (`history.evidence_tables.BATCHES`), 0 = none."""
        header = dict(zip(FIELDS, HEADER.unpack_from(self.raw), strict=True))
        return int(header["attributes"] & COMPRESSION)

    def count(self, value: object) -> int:
        """How many are this value. Of what a client sent nothing was removed: that needs no look inside."""
        return 0 if value is REMOVED else self._values().count(value)

    @overload
    def __getitem__(self, at: int) -> object: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[object]: ...
    def __getitem__(self, at: int | slice) -> object | Sequence[object]:
        if isinstance(at, slice):
            return self._values()[at]
        try:
            return self._values()[at]
        except (CorruptBatch, Malformed):
            return None

    def __iter__(self) -> Iterator[object]:
        return iter(self._values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WireRecords) and self.raw[CHECKED_FROM:] == other.raw[CHECKED_FROM:]

    def __hash__(self) -> int:
        return hash(self.raw[CHECKED_FROM:])

    def __repr__(self) -> str:
        return f"WireRecords(crc={crc32c(self.raw[CHECKED_FROM:]):08x}, {len(self)})"

    def _values(self) -> list[object]:
        """Raises: Malformed, for bytes that do not form records; CorruptBatch, where they are compressed."""
        header = dict(zip(FIELDS, HEADER.unpack_from(self.raw), strict=True))
        if header["attributes"] & COMPRESSION:
            raise CorruptBatch("the records of a compressed batch are not read")
        cursor = Cursor(self.raw, HEADER.size, len(self.raw))
        return [record.value for record in records_of(cursor, 0, header)]


def batch_of(raw: bytes) -> RecordBatch:
    """The batch that a client sent. Raises: CorruptBatch."""
    if len(raw) < HEADER.size:
        raise CorruptBatch(f"{len(raw)} bytes are fewer than the header of a batch has")
    (_, length, _, magic, crc, attributes, last, _, _, producer, epoch, sequence, count) = HEADER.unpack_from(
        raw
    )
    if magic != MAGIC:
        raise CorruptBatch(f"message format {magic}; only batches (format {MAGIC}) are taken")
    if length != len(raw) - PREFIX:
        raise CorruptBatch(
            f"a batch of {length + PREFIX} bytes in {len(raw)}: one batch a partition is taken"
        )
    if crc != crc32c(memoryview(raw)[CHECKED_FROM:]):
        raise CorruptBatch("the checksum is not the one of the batch's bytes")
    if count < 1 or last != count - 1 or attributes & CONTROL:
        raise CorruptBatch("no batch of records of a client")
    transactional = bool(attributes & TRANSACTIONAL)
    return RecordBatch(-1, -1, WireRecords(raw), producer, epoch, sequence, transactional)


def fetched(batch: RecordBatch, era: Era, wall_ms: int = 0) -> bytes:
    """The batch as a fetch brings it. era: by which coordinators write. wall_ms: what the clock of the model
    lacks to the wall clock."""
    if isinstance(batch.records, WireRecords):
        begin = batch.records.raw
    elif batch.control:
        ms = batch.appended_ms + wall_ms
        begin = _marker(batch.control, batch.producer_id, batch.producer_epoch, batch.coordinator_epoch, ms)
    else:
        begin = _of_broker(batch, era, wall_ms)
    return _PLACE.pack(batch.base, len(begin) - PREFIX, batch.epoch) + begin[_PLACE.size :]


@lru_cache(maxsize=1024)
def _marker(kind: str, producer_id: int, producer_epoch: int, coordinator_epoch: int, ms: int) -> bytes:
    """A control batch with one marker (ControlRecordType, EndTxnMarker.json). At offset 0."""
    key = _MARKER_KEY.pack(0, 0 if kind == ABORT else 1)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    fields = (TRANSACTIONAL | CONTROL, 0, ms, ms, producer_id, producer_epoch, -1, 1)
    return written(fields, written_record(0, key, value))


def _letter(delta: int, record: LetterRecord) -> bytes:
    """A record of a dead-letter queue. delta: its offset in the batch."""
    copy = record.copy if isinstance(record.copy, bytes) else None
    return written_record(delta, None, copy, letter_headers(record))


def _of_broker(batch: RecordBatch, era: Era, wall_ms: int) -> bytes:
    """A batch of a coordinator's log, or of a dead-letter queue. Records that compaction removed leave their
    offsets behind; a batch without any record stays, so that a reader gets beyond it."""
    records = [
        _letter(n, record)
        if isinstance(record, LetterRecord)
        else written_record(n, *key_and_value(record, era, batch.appended_ms, wall_ms))
        for n, record in enumerate(batch.records)
        if record is not REMOVED
    ]
    ms = batch.appended_ms + wall_ms
    attributes = TRANSACTIONAL if batch.transactional else 0
    producer = (batch.producer_id, batch.producer_epoch, batch.sequence)
    return written((attributes, batch.size - 1, ms, ms, *producer, len(records)), b"".join(records))
