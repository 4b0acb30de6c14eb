"""Payloads that describe themselves: made here, recognised here.

A record carries its run, topic, partition and value under a checksum, so that a reader can tell a
record of its own partition from one that was corrupted, misdirected or left by another run:

    magic 4 | run 8 | topic 8 | partition 4 | value 8 | padding | CRC-32 of all before it 4

Integers are little-endian. The checksum stands last because CRC-32 over a message followed by its own
CRC is a constant: checking needs one pass and no slice. The padding is the same for all records of
one size, and does not compress.

Not here: which values are sent (`harness.clients.executor`), what a foreign record means (`checkers`).
"""

import random
import re
from base64 import b64decode
from binascii import unhexlify
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from core.op import TopicPartition


class Foreign(IntEnum):
    """Why a payload is not one of its partition: positions in `history.FOREIGN_REASONS`."""

    UNREADABLE = 0
    """Not a payload of this project."""
    CORRUPT = 1
    """One of this project, and its checksum is wrong."""
    MISDIRECTED = 2
    """Whole, of this run, and meant for another topic-partition."""
    OTHER_RUN = 3
    UNCOMMITTED = 4
    """What an application made of a record of this run, which its committed input does not have."""


class Uncommitted(NamedTuple):
    """What is `Foreign.UNCOMMITTED`, and the value of the record of this run that it names."""

    value: int

    @property
    def name(self) -> bytes:
        """As it stands in a history, in the place of the payload."""
        return b"%d" % self.value


def named(payload: bytes) -> int:
    """The value that stands in the place of the payload of what is `Foreign.UNCOMMITTED`; -1 = none does."""
    value = int(payload) if payload.isdigit() and len(payload) <= len(str(VALUES)) else -1
    return value if value < VALUES else -1


VALUES: Final = 2**63
"""Values are lower."""

_MAGIC: Final = b"iNQ\x01"
_HEADER: Final = Struct("<4s8s8sI")
_PARTITION: Final = slice(20, 24)
_VALUE: Final = Struct("<q")
_CRC: Final = Struct("<I")
_RESIDUE: Final = 0x2144DF1C
"""CRC-32 of any bytes followed by their own CRC-32, little-endian."""

_Written = tuple[bytes, Callable[[int], int], Callable[[bytes], bytes]]
_WRITTEN: Final[tuple[_Written, ...]] = (
    (b"aU5R", lambda size: (4 * size + 2) // 3, lambda text: b64decode(text + b"=" * (-len(text) % 4))),
    (b"694e5101", lambda size: 2 * size, unhexlify),
    (b"694E5101", lambda size: 2 * size, unhexlify),
)
"""How a record begins in what an application made of it, where that is text; its letters there, without
padding, by its size; and how they are read."""
_ESCAPE: Final = re.compile(rb"\\+u00([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})|\\+([nrt/])")
"""A character of such a text in JSON, in JSON in JSON, or in a URL."""
_ESCAPE_MAX: Final = 10
"""Most bytes that one letter takes."""
_LETTERS: Final = bytes.maketrans(b"-_", b"+/")
"""The letters of base64 in URLs."""

MIN_SIZE: Final = _HEADER.size + _VALUE.size + _CRC.size
"""Smallest payload in bytes."""

_pack_value = _VALUE.pack
_unpack_value = _VALUE.unpack_from
_pack_crc = _CRC.pack


def encode(run: str, tp: TopicPartition, value: int, size: int) -> bytes:
    """The payload of one record, `size` bytes long.

    Raises: ValueError where `size` is less than MIN_SIZE; struct.error where `value` does not fit
    into 64 bits.
    """
    body = _header(run, tp) + _pack_value(value) + _padding(size)
    return body + _pack_crc(crc32(body))


def decode(run: str, tp: TopicPartition, payload: bytes) -> int | Foreign:
    """The value that a payload read from `tp` carries, or why it is foreign there.

    A value is a plain int; test for `Foreign` first, which is an int as well.
    """
    if crc32(payload) == _RESIDUE and payload.startswith(_header(run, tp)):
        value: int = _unpack_value(payload, _HEADER.size)[0]
        return value
    return _foreign(run, payload)


def origin(run: str, topic: str, payload: bytes, size: int) -> tuple[int, int] | Foreign:
    """The partition and the value of the record of a topic that a payload names: it holds that record
    somewhere, as bytes, in base64 (RFC 4648, also that of URLs, and MIME's lines) or in hexadecimal. size: of
    the record. Else why it names none."""
    if (at := payload.find(_MAGIC)) >= 0:
        return _origin(run, topic, payload[at : at + size])
    for mark, letters, decoded in _WRITTEN:
        if (at := payload.find(mark)) >= 0:
            text = _plain(payload[at : at + _ESCAPE_MAX * letters(size)])
            with suppress(ValueError):
                return _origin(run, topic, decoded(text[: letters(size)]))
    return Foreign.UNREADABLE


def _origin(run: str, topic: str, record: bytes) -> tuple[int, int] | Foreign:
    tp = TopicPartition(topic, int.from_bytes(record[_PARTITION], "little"))
    value = decode(run, tp, record)
    return value if isinstance(value, Foreign) else (tp.partition, value)


def _plain(text: bytes) -> bytes:
    """Base64 or hexadecimal, however a program wrote it down: without line breaks, which PostgreSQL, MySQL
    and MIME put into it, nothing escaped, with the usual letters."""
    return _ESCAPE.sub(_escaped, text).translate(_LETTERS, delete=b" \t\r\n")


def _escaped(found: "re.Match[bytes]") -> bytes:
    number, percent, letter = found.groups()
    return (b"/" if letter == b"/" else b"") if letter else bytes([int(number or percent, 16)])


def _foreign(run: str, payload: bytes) -> Foreign:
    if not payload.startswith(_MAGIC):
        return Foreign.UNREADABLE
    if len(payload) < MIN_SIZE or crc32(payload) != _RESIDUE:
        return Foreign.CORRUPT
    if payload[4:12] != _digest(run):
        return Foreign.OTHER_RUN
    return Foreign.MISDIRECTED


@lru_cache(maxsize=4096)
def _header(run: str, tp: TopicPartition) -> bytes:
    return _HEADER.pack(_MAGIC, _digest(run), _digest(tp.topic), tp.partition)


@lru_cache(maxsize=64)
def _padding(size: int) -> bytes:
    if size < MIN_SIZE:
        raise ValueError(f"a record of {size} bytes cannot describe itself: at least {MIN_SIZE}")
    return random.Random("padding").randbytes(size - MIN_SIZE)


@lru_cache(maxsize=1024)
def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()
