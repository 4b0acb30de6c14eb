"""Whether a payload can be decoded safely: every length in it fits into the bytes that are there.

kio reserves memory for as many elements as an array claims to have before it reads one, and the process ends
where that fails: a frame of thirty bytes can ask for 16 GB. So the lengths are walked first, by the same
schemas; an element has at least one byte, so what kio reserves is in proportion to the frame. Each schema is
compiled once; fields of a fixed size that follow each other are one step.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from kio.static.protocol import Entity

from harness.protocol.frames import FrameError
from harness.protocol.schemas import SchemaField, schema

Data = bytes | memoryview
Walk = Callable[[Data, int], int]
"""From the place of a value to the place after it. Raises: FrameError, struct.error, IndexError."""
Size = int | Walk
"""What a value takes: as many bytes as all of its kind, or what its lengths say."""

_FIXED: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float64": 8,
    "bool": 1,
    "uuid": 16,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
_LONGEST_VARINT: Final = 5


def check(kind: type[Entity], data: Data, at: int) -> int:
    """The place after a value of this schema that begins at `at`.

    Raises: FrameError, where a length does not fit into the data.
    """
    try:
        return _walk(_size_of(kind))(data, at)
    except (struct.error, IndexError) as error:
        raise FrameError(f"{kind.__name__} does not end within {len(data)} bytes") from error


@cache
def _size_of(kind: type[Entity]) -> Size:
    """The size of a schema."""
    steps: list[Size] = []
    tagged: dict[int, Walk] = {}
    for field in schema(kind):
        value = _field(field)
        if field.tag is not None:
            tagged[field.tag] = _walk(value)
        elif steps and isinstance(value, int) and isinstance(last := steps[-1], int):
            steps[-1] = last + value
        else:
            steps.append(value)
    if kind.__flexible__:
        steps.append(_tags(tagged))
    if len(steps) == 1:
        return steps[0]
    walks = [_walk(step) for step in steps]

    def walk(data: Data, at: int) -> int:
        for one in walks:
            at = one(data, at)
        return at

    return walk


@cache
def _walk(size: Size) -> Walk:
    if not isinstance(size, int):
        return size

    def fixed(data: Data, at: int) -> int:
        return _within(data, at + size)

    return fixed


def _field(field: SchemaField) -> Size:
    kind, compact = field.kind, field.compact
    value = _primitive(kind, compact=compact) if isinstance(kind, str) else _size_of(kind)
    if field.array:
        return _array(value, compact=compact)
    return _nullable(_walk(value)) if field.optional and not isinstance(kind, str) else value


def _primitive(name: str, *, compact: bool) -> Size:
    if (size := _FIXED.get(name)) is not None:
        return size
    read = _COMPACT if compact else _STRING if name == "string" else _BYTES

    def sized(data: Data, at: int) -> int:
        length, at = read(data, at)
        end = at + length if length > 0 else at
        if end > len(data):
            raise FrameError(f"{end} bytes are needed, {len(data)} are there")
        return end

    return sized


def _array(element: Size, *, compact: bool) -> Walk:
    read = _COMPACT if compact else _BYTES
    size, walk = element if isinstance(element, int) else 0, _walk(element)

    def array(data: Data, at: int) -> int:
        count, at = read(data, at)
        if count > len(data) - at:
            raise FrameError(f"an array of {count} elements in {len(data) - at} bytes")
        if size:
            return _within(data, at + max(count, 0) * size)
        for _ in range(count):
            at = walk(data, at)
        return at

    return array


def _nullable(walk: Walk) -> Walk:
    """A struct that may be absent: KIP-893."""

    def nullable(data: Data, at: int) -> int:
        return walk(data, at + 1) if data[at] == 1 else at + 1

    return nullable


def _tags(known: dict[int, Walk]) -> Walk:
    def tags(data: Data, at: int) -> int:
        count, at = _varint(data, at)
        for _ in range(count):
            tag, at = _varint(data, at)
            size, at = _varint(data, at)
            end = _within(data, at + size)
            if tag in known:
                known[tag](data[:end], at)
            at = end
        return at

    return tags


def _number(code: str) -> Callable[[Data, int], tuple[int, int]]:
    """What reads a number, and the place after it."""
    form = struct.Struct(f">{code}")
    unpack, width = form.unpack_from, form.size

    def number(data: Data, at: int) -> tuple[int, int]:
        return unpack(data, at)[0], at + width

    return number


def _length(data: Data, at: int) -> tuple[int, int]:
    """A length of the compact form: one more than it is, 0 = null."""
    number = data[at]
    if number < 0x80:
        return number - 1, at + 1
    number, at = _varint(data, at)
    return number - 1, at


def _varint(data: Data, at: int) -> tuple[int, int]:
    number = data[at]
    if number < 0x80:
        return number, at + 1
    number &= 0x7F
    for place in range(1, _LONGEST_VARINT):
        byte = data[at + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at + place + 1
    raise FrameError(f"a variable-length number without end at byte {at}")


def _within(data: Data, end: int) -> int:
    if end > len(data):
        raise FrameError(f"{end} bytes are needed, {len(data)} are there")
    return end


_STRING: Final = _number("h")
_BYTES: Final = _number("i")
_COMPACT: Final = _length
"""What reads the length of a value: of strings, of bytes and arrays, and of the compact form of both."""
