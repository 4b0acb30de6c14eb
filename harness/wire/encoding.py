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
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.serial._implicit_defaults import get_tagged_field_default
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
from kio.serial._serialize import get_field_writer
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

from harness.wire.frames import SIZE

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


def _milliseconds(duration: timedelta) -> int:
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
    "timedelta_i32": _Fixed("i", 0, lambda value: _milliseconds(value) if value else 0),
    "timedelta_i64": _Fixed("q", 0, lambda value: _milliseconds(value) if value else 0),
    "datetime_i64": _Fixed("q", datetime.fromtimestamp(0, UTC), _time),
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
    plain = [field for field in fields(kind) if get_field_tag(field) is None]
    parts: list[Write] = []
    for fixed, group in groupby(plain, _fixed_size):
        if fixed:
            parts.append(_together(group))
        else:
            parts.extend(_part(kind, field) for field in group)
    if kind.__flexible__:
        parts.append(_tags(kind))
    if len(parts) == 1:
        return parts[0]

    def write(out: bytearray, values: Values) -> None:
        for part in parts:
            part(out, values)

    return write


def _fixed_size(field: Any) -> bool:
    return isinstance(classify_field(field), PrimitiveField) and get_schema_field_type(field) in _FIXED


def _together(group: Iterable[Any]) -> Write:
    """What writes fields of fixed sizes."""
    codes, wanted, converts = ">", [], []
    for field in group:
        code, empty, convert = _FIXED[get_schema_field_type(field)]
        if convert is _time and is_optional(field):
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


def _same(value: Any) -> Any:
    return value


def _part(kind: type[Entity], field: Any) -> Write:
    """What writes one field, from the values of all."""
    name, write = field.name, _value(kind, field, optional=is_optional(field))
    absent = bytearray()
    if field.default is not MISSING:
        absent += _by_kio(kind, field, field.default)
    elif isinstance(classify_field(field), EntityField):
        write(absent, None if is_optional(field) else {})
    else:
        write(absent, None if is_optional(field) else ())

    def part(out: bytearray, values: Values) -> None:
        value = values.get(name, _ABSENT)
        if value is _ABSENT:
            out += absent
        else:
            write(out, value)

    return part


def _by_kio(kind: type[Entity], field: Any, default: Any) -> bytes:
    """The default of a field, which is a value of kio."""
    written = BytesIO()
    tagged = get_field_tag(field) is not None
    write = get_field_writer(field, kind.__flexible__, kind.__name__ == "RequestHeader", tagged)
    write(written, default)
    return written.getvalue()


def _value(kind: type[Entity], field: Any, *, optional: bool) -> Write:
    """What writes a value of a field."""
    flexible = kind.__flexible__
    match classify_field(field):
        case PrimitiveField():
            # The client id of a request keeps its old form in newer headers (KIP-482).
            old = not flexible or (kind.__name__ == "RequestHeader" and field.name == "client_id")
            return _primitive(get_schema_field_type(field), flexible=not old)
        case PrimitiveTupleField():
            return _array(_primitive(get_schema_field_type(field), flexible=flexible), flexible=flexible)
        case EntityField(type_=nested):
            return _nullable(_writer(nested)) if optional else _writer(nested)
        case EntityTupleField(type_=nested):
            return _array(_writer(nested), flexible=flexible)
    raise AssertionError(field)


def _primitive(name: str, *, flexible: bool) -> Write:
    if name in _FIXED:
        code, _, convert = _FIXED[name]
        pack = struct.Struct(f">{code}").pack

        def fixed(out: bytearray, value: Any) -> None:
            out += pack(value if convert is None else convert(value))

        return fixed
    length = _SHORT.pack if name == "string" else _SIZE.pack

    def sized(out: bytearray, value: str | bytes | None) -> None:
        if value is None:
            out += b"\0" if flexible else length(-1)
            return
        data = value.encode() if isinstance(value, str) else bytes(value)
        if flexible:
            _varint(out, len(data) + 1)
        else:
            out += length(len(data))
        out += data

    return sized


def _array(element: Write, *, flexible: bool) -> Write:
    def array(out: bytearray, values: Any) -> None:
        if values is None:
            out += b"\0" if flexible else _SIZE.pack(-1)
            return
        if flexible:
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
    for field in fields(kind):
        tag = get_field_tag(field)
        if tag is not None:
            default = get_tagged_field_default(field) if field.default is MISSING else field.default
            known = None if default is None else _by_kio(kind, field, default)
            tagged.append((int(tag), field.name, _value(kind, field, optional=False), known))
    tagged.sort(key=itemgetter(0))

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
