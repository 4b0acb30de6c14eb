"""Batches of records, message format 2 (KIP-98): their header, and how they are written.

A record: length varint · attributes i8 · timestamp delta varlong · offset delta varint · key and value, each
after its length as a varint (-1 = null) · headers.
"""

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

FIELDS: Final = {
    "base": "q",
    "length": "i",
    "leader_epoch": "i",
    "magic": "b",
    "crc": "I",
    "attributes": "h",
    "last_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "records": "i",
}
"""The header, with codes of `struct`. length: of all that follows it. crc: CRC-32C of all that follows it.
last_delta: the last offset less `base`."""
HEADER: Final = struct.Struct(f">{''.join(FIELDS.values())}")
PREFIX: Final = 12
"""Bytes before those that the length counts."""
CHECKED_FROM: Final = 21
"""Index of the first byte that the CRC covers: base offset, length and leader epoch are outside."""
MAGIC: Final = 2
COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""Bits of the attributes."""


def batch(fields: tuple[int, ...], records: bytes) -> bytes:
    """A batch at offset 0, of no leader epoch. fields: of its header, from the attributes on."""
    length = HEADER.size + len(records) - PREFIX
    checked = HEADER.pack(0, length, -1, MAGIC, 0, *fields)[CHECKED_FROM:] + records
    return HEADER.pack(0, length, -1, MAGIC, crc32c(checked), *fields) + records


def sent_batch(
    values: Sequence[bytes], ms: int, producer: tuple[int, int, int], *, transactional: bool
) -> bytes:
    """A batch as a producer sends it. values: of its records, which have no keys. ms: their time. producer:
    id, epoch, base sequence."""
    records = b"".join(record(n, None, value) for n, value in enumerate(values))
    attributes = TRANSACTIONAL if transactional else 0
    return batch((attributes, len(values) - 1, ms, ms, *producer, len(values)), records)


def record(
    delta: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
) -> bytes:
    """A record of its batch's time. delta: its offset in the batch."""
    said = b"".join(_nullable(name.encode()) + _nullable(its) for name, its in headers)
    body = b"\0\0" + _signed(delta) + _nullable(key) + _nullable(value) + _signed(len(headers)) + said
    return _signed(len(body)) + body


def _nullable(value: bytes | None) -> bytes:
    return _signed(-1) if value is None else _signed(len(value)) + value


def _signed(value: int) -> bytes:
    """A signed (zigzag) number of variable length."""
    return varint(value << 1 if value >= 0 else ~(value << 1))


def varint(value: int) -> bytes:
    """An unsigned number of variable length."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
