"""Messages of formats 0 and 1, which brokers before 0.11 write: each as a batch of one record.

A message: offset i64 · length i32 · CRC-32 of all that follows · format i8 · attributes i8 · timestamp i64
(format 1 only) · key and value, each after its length as i32 (-1 = null). Source: Kafka's protocol guide,
"Message sets"; KIP-32. What a batch has and a message has not is as in a batch that does not say it: -1.

A compressed message holds others, and has the offset of the last one. It is not unpacked: it is taken to
begin with the offset after the message before it, as in a log that was not compacted.
"""

import struct
from mmap import mmap
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from harness.protocol.batches import COMPRESSION, PREFIX
from harness.protocol.cursor import Cursor, Malformed

FORMATS: Final = (0, 1)
SHORTEST: Final = {0: 14, 1: 22}
"""By format, bytes of a message with null key and value, those before them not counted."""
MOST: Final = 2**31 - 1
"""Offsets that a batch may have."""
_HEAD: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")


def walk(
    data: mmap | bytes, following: int, at: int = 0
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]], list[bool]]:
    """Where messages begin from a place on, their headers in the order of `FIELDS`, and whether each one's
    CRC is that of its bytes; up to the first thing that is no such message. following: the offset that comes
    next there."""
    positions: list[int] = []
    headers: list[tuple[int, ...]] = []
    intact: list[bool] = []
    while at + _HEAD.size <= len(data):
        offset, length, crc, magic, attributes = _HEAD.unpack_from(data, at)
        after = at + PREFIX + length
        if magic not in FORMATS or length < SHORTEST[magic] or after > len(data):
            break  # `why_none` says which
        (time,) = _TIMESTAMP.unpack_from(data, at + _HEAD.size) if magic else (-1,)
        packed = attributes & COMPRESSION and 0 <= following <= offset < following + MOST
        more = offset - following if packed else 0
        what = (offset - more, length, -1, magic, crc, attributes, more, time, time)
        headers.append((*what, -1, -1, -1, more + 1))
        intact.append(crc32(data[at + PREFIX + 4 : after]) == crc)
        positions.append(at)
        at, following = after, offset + 1
    return np.array(positions, np.int64), headers, intact


def is_whole(data: mmap | bytes, at: int) -> bool:
    """Whether a message begins at a place, with the CRC of its bytes."""
    if at + _HEAD.size > len(data):
        return False
    _, length, crc, magic, _ = _HEAD.unpack_from(data, at)
    end = at + PREFIX + length
    if magic not in FORMATS or length < SHORTEST[magic] or end > len(data):
        return False
    return bool(crc32(data[at + PREFIX + 4 : end]) == crc)


def why_none(data: mmap | bytes, at: int) -> str:
    """Why the walk ended before the end of the data."""
    left = len(data) - at
    if left < _HEAD.size:
        return f"{left} bytes are left, fewer than a message has"
    _, length, _, magic, _ = _HEAD.unpack_from(data, at)
    if magic not in FORMATS:
        return f"no message of an old format: its format is {magic}"
    if length < SHORTEST[magic]:
        return f"no message: its length is {length}"
    return f"the message is cut off: {PREFIX + length} bytes are announced and {left} are left"


def key_and_value(
    data: memoryview, position: int, header: dict[str, int]
) -> tuple[bytes | None, bytes | None]:
    """Of the message at a position. header: by the names of `FIELDS`. Raises: Malformed."""
    begin = _HEAD.size + (_TIMESTAMP.size if header["magic"] else 0)
    cursor = Cursor(data, position + begin, position + PREFIX + header["length"])
    key, value = _nullable(cursor), _nullable(cursor)
    if cursor.left:
        raise Malformed(cursor.at, f"{cursor.left} bytes are left after the message")
    return key, value


def _nullable(cursor: Cursor) -> bytes | None:
    size = cursor.integer(4)
    return None if size == -1 else cursor.take(size)
