"""Requests and responses from plain values, straight to bytes, by Kafka's own schemas.

    response_frame(ProduceResponse, {"responses": [{"name": …, "partition_responses": […]}]}, 7)

Each value goes into the field of that name; names that a schema does not have are left out, and fields that
are not given have the schema's default, else they are empty, 0 ms, or -1. So one function serves all versions
of an API.

kio checks each value and makes an object of each struct before it writes one byte. That took a third of a
broker's time, so each schema is compiled once here, from kio's fields, into what writes plain values; the
bytes are those that kio writes. Fields of a fixed size that follow each other are written by one call.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.static.protocol import Entity, RequestPayload, ResponsePayload

from harness.protocol.frames import SIZE
from harness.protocol.schemas import EPOCH, SchemaField, schema

Values = Mapping[str, Any]
Write = Callable[[bytearray, Any], None]
"""Appends a value to the bytes of a frame."""

_SIZE: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_ABSENT: Final = object()


class _Fixed(NamedTuple):
    """A type of a fixed size. code: of `struct`. empty: its value where none is given. convert: to what
    `struct` takes."""

    code: str
    empty: Any = -1
    convert: Callable[[Any], Any] | None = None


def milliseconds(duration: timedelta) -> int:
    """A duration as fields have it."""
    return round(duration.total_seconds() * 1000)


def _time(time: datetime | None) -> int:
    return -1 if time is None else round(time.timestamp() * 1000)


def _uuid(uuid: UUID | None) -> bytes:
    return bytes(16) if uuid is None else uuid.bytes


_FIXED: Final = {
    "int8": _Fixed("b"),
    "int16": _Fixed("h"),
    "int32": _Fixed("i"),
    "int64": _Fixed("q"),
    "uint8": _Fixed("B", 0),
    "uint16": _Fixed("H", 0),
    "uint32": _Fixed("I", 0),
    "uint64": _Fixed("Q", 0),
    "float64": _Fixed("d"),
    "bool": _Fixed("?", False),
    "uuid": _Fixed("16s", None, _uuid),
    "error_code": _Fixed("h", 0, int),
    "timedelta_i32": _Fixed("i", 0, lambda value: milliseconds(value) if value else 0),
    "timedelta_i64": _Fixed("q", 0, lambda value: milliseconds(value) if value else 0),
    "datetime_i64": _Fixed("q", EPOCH, _time),
}


def response_frame(kind: type[ResponsePayload], values: Values, correlation_id: int) -> bytes:
    """The frame of a response. Raises: struct.error, for a number that its field cannot hold."""
    return _frame(kind, values, {"correlation_id": correlation_id})


def request_frame(kind: type[RequestPayload], values: Values, correlation_id: int, client_id: str) -> bytes:
    """The frame of a request. Raises: struct.error, for a number that its field cannot hold."""
    header = {
        "request_api_key": kind.__api_key__,
        "request_api_version": kind.__version__,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return _frame(kind, values, header)


def _frame(kind: Any, values: Values, header: Values) -> bytes:
    out = bytearray(SIZE)
    _writer(kind.__header_schema__)(out, header)
    _writer(kind)(out, values)
    _SIZE.pack_into(out, 0, len(out) - SIZE)
    return bytes(out)


@cache
def _writer(kind: type[Entity]) -> Write:
    """What writes the values of a schema."""
    plain = [field for field in schema(kind) if field.tag is None]
    parts: list[Write] = []
    for fixed, group in groupby(plain, _fixed_size):
        if fixed:
            parts.append(_together(group))
        else:
            parts.extend(map(_part, group))
    if kind.__flexible__:
        parts.append(_tags(kind))
    if len(parts) == 1:
        return parts[0]

    def write(out: bytearray, values: Values) -> None:
        for part in parts:
            part(out, values)

    return write


def _fixed_size(field: SchemaField) -> bool:
    return not field.array and field.kind in _FIXED


def _together(group: Iterable[SchemaField]) -> Write:
    """What writes fields of fixed sizes."""
    codes, wanted, converts = ">", [], []
    for field in group:
        assert isinstance(field.kind, str)
        code, empty, convert = _FIXED[field.kind]
        if convert is _time and field.optional:
            empty = None
        codes += code
        wanted.append((field.name, empty if field.default is MISSING else field.default))
        converts.append(convert)
    pack = struct.Struct(codes).pack
    if not any(converts):

        def write(out: bytearray, values: Values) -> None:
            get = values.get
            out += pack(*[get(name, empty) for name, empty in wanted])

        return write
    changed = [(*one, convert or _same) for one, convert in zip(wanted, converts, strict=True)]

    def write_converted(out: bytearray, values: Values) -> None:
        get = values.get
        out += pack(*[convert(get(name, empty)) for name, empty, convert in changed])

    return write_converted


def _same(value: object) -> object:
    return value


def _part(field: SchemaField) -> Write:
    """What writes one field, from the values of all."""
    name, write = field.name, _value(field)
    absent = bytearray()
    if field.default is not MISSING:
        write(absent, field.default)
    elif field.array or isinstance(field.kind, str):
        write(absent, None if field.optional else ())
    else:
        write(absent, None if field.optional else {})

    def part(out: bytearray, values: Values) -> None:
        value = values.get(name, _ABSENT)
        if value is _ABSENT:
            out += absent
        else:
            write(out, value)

    return part


def _value(field: SchemaField) -> Write:
    """What writes a value of a field."""
    kind, compact = field.kind, field.compact
    value = _primitive(kind, compact=compact) if isinstance(kind, str) else _writer(kind)
    if field.array:
        return _array(value, compact=compact)
    return _nullable(value) if field.optional and not isinstance(kind, str) else value


def _primitive(name: str, *, compact: bool) -> Write:
    if name in _FIXED:
        code, _, convert = _FIXED[name]
        pack = struct.Struct(f">{code}").pack

        def fixed(out: bytearray, value: object) -> None:
            out += pack(value if convert is None else convert(value))

        return fixed
    length = _SHORT.pack if name == "string" else _SIZE.pack

    def sized(out: bytearray, value: str | bytes | None) -> None:
        if value is None:
            out += b"\0" if compact else length(-1)
            return
        data = value.encode() if isinstance(value, str) else bytes(value)
        if compact:
            _varint(out, len(data) + 1)
        else:
            out += length(len(data))
        out += data

    return sized


def _array(element: Write, *, compact: bool) -> Write:
    def array(out: bytearray, values: Any) -> None:
        if values is None:
            out += b"\0" if compact else _SIZE.pack(-1)
            return
        if compact:
            _varint(out, len(values) + 1)
        else:
            out += _SIZE.pack(len(values))
        for value in values:
            element(out, value)

    return array


def _nullable(write: Write) -> Write:
    """A struct that may be absent: KIP-893."""

    def nullable(out: bytearray, values: Values | None) -> None:
        if values is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, values)

    return nullable


def _tags(kind: type[Entity]) -> Write:
    """What writes the tagged fields of a struct; those with their default are left out (KIP-482)."""
    tagged = []
    by_tag = {field.tag: field for field in schema(kind) if field.tag is not None}
    for tag, field in sorted(by_tag.items()):
        write, known = _value(field), bytearray()
        if field.zero is not None:
            write(known, field.zero)
        tagged.append((tag, field.name, write, None if field.zero is None else known))

    def tags(out: bytearray, values: Values) -> None:
        found = []
        for tag, name, write, default in tagged:
            if values.get(name) is not None:
                data = bytearray()
                write(data, values[name])
                if default is None or data != default:
                    found.append((tag, data))
        _varint(out, len(found))
        for tag, data in found:
            _varint(out, tag)
            _varint(out, len(data))
            out += data

    return tags if tagged else lambda out, _: out.append(0)


def _varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
