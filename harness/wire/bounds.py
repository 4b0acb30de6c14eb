"""Whether a payload can be decoded safely: every length in it fits into the bytes that are there.

kio reserves memory for as many elements as an array claims to have before it reads one, and the process ends
where that fails: a frame of thirty bytes can ask for 16 GB. So the lengths are walked first, by the same
schemas; an element has at least one byte, so what kio reserves is in proportion to the frame.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, Final

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.static.protocol import Entity

from harness.wire.frames import FrameError

Data = bytes | memoryview
Walk = Callable[[Data, int], int]
"""From the place of a value to the place after it. Raises: FrameError."""

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
    return walk_of(kind)(data, at)


@cache
def walk_of(kind: type[Entity]) -> Walk:
    """The walk over a schema."""
    plain, tagged = [], {}
    for field in fields(kind):
        tag = get_field_tag(field)
        value = _field(kind, field, optional=tag is None and is_optional(field))
        if tag is None:
            plain.append(value)
        else:
            tagged[int(tag)] = value

    def walk(data: Data, at: int) -> int:
        for one in plain:
            at = one(data, at)
        return _tags(tagged, data, at) if kind.__flexible__ else at

    return walk


def _field(kind: type[Entity], field: Any, *, optional: bool) -> Walk:
    flexible = kind.__flexible__
    match classify_field(field):
        case PrimitiveField():
            # The client id of a request keeps its old form in newer headers (KIP-482).
            old = not flexible or (kind.__name__ == "RequestHeader" and field.name == "client_id")
            return _primitive(get_schema_field_type(field), flexible=not old)
        case PrimitiveTupleField():
            return _array(_primitive(get_schema_field_type(field), flexible=flexible), flexible=flexible)
        case EntityField(type_=nested):
            return _nullable(walk_of(nested)) if optional else walk_of(nested)
        case EntityTupleField(type_=nested):
            return _array(walk_of(nested), flexible=flexible)
    raise AssertionError(field)


def _primitive(name: str, *, flexible: bool) -> Walk:
    if (size := _FIXED.get(name)) is not None:

        def fixed(data: Data, at: int) -> int:
            return _within(data, at + size)

        return fixed
    width = 2 if name == "string" else 4

    def sized(data: Data, at: int) -> int:
        length, at = _length(data, at) if flexible else _number(data, at, width)
        return _within(data, at + max(length, 0))

    return sized


def _array(element: Walk, *, flexible: bool) -> Walk:
    def array(data: Data, at: int) -> int:
        count, at = _length(data, at) if flexible else _number(data, at, 4)
        if count > len(data) - at:
            raise FrameError(f"an array of {count} elements in {len(data) - at} bytes")
        for _ in range(count):
            at = element(data, at)
        return at

    return array


def _nullable(walk: Walk) -> Walk:
    """A struct that may be absent: KIP-893."""

    def nullable(data: Data, at: int) -> int:
        there, at = _number(data, at, 1)
        return walk(data, at) if there == 1 else at

    return nullable


def _tags(known: dict[int, Walk], data: Data, at: int) -> int:
    count, at = _varint(data, at)
    for _ in range(count):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        end = _within(data, at + size)
        if tag in known:
            known[tag](data[:end], at)
        at = end
    return at


def _number(data: Data, at: int, width: int) -> tuple[int, int]:
    end = _within(data, at + width)
    return int.from_bytes(data[at:end], signed=True), end


def _length(data: Data, at: int) -> tuple[int, int]:
    """A length of the compact form: one more than it is, 0 = null."""
    number, at = _varint(data, at)
    return number - 1, at


def _varint(data: Data, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in _septets(data, at):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at + place + 1
    raise FrameError(f"a variable-length number without end at byte {at}")


def _septets(data: Data, at: int) -> Iterator[tuple[int, int]]:
    return enumerate(data[at : at + _LONGEST_VARINT])


def _within(data: Data, end: int) -> int:
    if end > len(data):
        raise FrameError(f"{end} bytes are needed, {len(data)} are there")
    return end
