"""Messages of Kafka's logs read by their definitions: bytes → the JSON that Kafka itself would print.

A message is read as Kafka's generated code does (KIP-482): in a flexible version lengths are unsigned
variable-length numbers plus one (0 = null), and each structure ends with its tagged fields. Values have the
forms of Kafka's JSON converters: names in camel case, ids as base64url, bytes as base64. Unlike those, tagged
fields that are not there are given with their defaults. Tagged fields that no definition knows are passed
over, as brokers do (KIP-915).
"""

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.definitions import Definition, Field, definitions, includes

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Message: TypeAlias = dict[str, "Value"]
Read: TypeAlias = Callable[[Cursor], Value]

SIZES: Final = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4}
UUID_SIZE: Final = 16
NO_UUID: Final = "A" * 22
"""The id of 16 zeros, which Kafka uses for none."""


class UnknownMessage(LookupError):
    """No definition reads this message in this version: a newer Kafka wrote it."""


def decode(name: str, version: int, cursor: Cursor) -> Message:
    """The message of this name from the cursor's place to its end.

    Raises: UnknownMessage; Malformed, also where bytes are left after it.
    """
    message = _message(name, version)(cursor)
    if cursor.left:
        raise Malformed(cursor.at, f"{cursor.left} bytes are left after a {name}")
    return message


@cache
def _message(name: str, version: int) -> Callable[[Cursor], Message]:
    definition = definitions().get(name)
    if definition is None or not includes(definition.valid_versions, version):
        raise UnknownMessage(f"{name} version {version}")
    return _structure(definition, definition.fields, version)


def _structure(message: Definition, fields: tuple[Field, ...], version: int) -> Callable[[Cursor], Message]:
    flexible = includes(message.flexible_versions, version)
    ordered: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    defaults: Message = {}
    for field in fields:
        name = name_of(field)
        if field.tag is not None and includes(field.tagged_versions, version):
            tagged[field.tag] = name, _field(message, field, version, tagged=True)
            defaults[name] = _default(field)
        elif includes(field.versions, version):
            ordered.append((name, _field(message, field, version)))

    def read(cursor: Cursor) -> Message:
        values = {name: one(cursor) for name, one in ordered}
        if flexible:
            values |= defaults
            _tagged_fields(cursor, tagged, values)
        return values

    return read


def _tagged_fields(cursor: Cursor, known: dict[int, tuple[str, Read]], values: Message) -> None:
    for _ in range(cursor.unsigned_varint()):
        tag, size = cursor.unsigned_varint(), cursor.unsigned_varint()
        begin = cursor.at
        if size > cursor.left:
            raise Malformed(begin, f"tagged field {tag} has {size} bytes and {cursor.left} are left")
        if tag not in known:
            cursor.take(size)
            continue
        name, read = known[tag]
        values[name] = read(cursor)
        if cursor.at != begin + size:
            raise Malformed(begin, f"tagged field {name} announces {size} bytes and has {cursor.at - begin}")


def _field(message: Definition, field: Field, version: int, *, tagged: bool = False) -> Read:
    flexible = includes(message.flexible_versions, version)
    nullable = includes(field.nullable_versions, version)
    if field.type.startswith("[]"):
        return _array(_element(message, field, field.type.removeprefix("[]"), version), flexible, nullable)
    if field.type in ("string", "bytes"):
        return _text(flexible, nullable) if field.type == "string" else _bytes(flexible, nullable)
    one = _element(message, field, field.type, version)
    if not nullable:
        return one
    if tagged:  # where Kafka's generator differs: 0 = null here, -1 in an ordinary field
        return lambda cursor: one(cursor) if cursor.unsigned_varint() else None
    return lambda cursor: one(cursor) if cursor.integer(1) >= 0 else None


def _element(message: Definition, field: Field, kind: str, version: int) -> Read:
    """One value of a type that is not an array, and not null."""
    flexible = includes(message.flexible_versions, version)
    if kind in SIZES:
        size, signed = SIZES[kind], not kind.startswith("u")
        return lambda cursor: cursor.integer(size, signed=signed)
    if kind == "bool":
        return lambda cursor: cursor.integer(1) != 0
    if kind == "float64":
        return lambda cursor: float(struct.unpack(">d", cursor.take(8))[0])
    if kind == "uuid":
        return lambda cursor: base64.urlsafe_b64encode(cursor.take(UUID_SIZE)).decode().rstrip("=")
    if kind == "string":
        return _text(flexible, False)
    if kind == "bytes":
        return _bytes(flexible, False)
    shared = {one.name: one.fields for one in message.common_structs}
    return _structure(message, field.fields or shared[kind], version)


def _length(cursor: Cursor, flexible: bool, size: int) -> int:
    """Length of text, bytes or an array, -1 = null; `size`: of its number where it is fixed."""
    length = cursor.unsigned_varint() - 1 if flexible else cursor.integer(size)
    if not -1 <= length <= cursor.left:  # an element has at least one byte
        raise Malformed(cursor.at, f"a length of {length} is announced and {cursor.left} bytes are left")
    return length


def _array(element: Read, flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> Value:
        length = _length(cursor, flexible, 4)
        if length < 0:
            return _null(cursor, nullable)
        return [element(cursor) for _ in range(length)]

    return read


def _text(flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> Value:
        length = _length(cursor, flexible, 2)
        if length < 0:
            return _null(cursor, nullable)
        begin = cursor.at
        try:
            return cursor.take(length).decode()
        except UnicodeDecodeError:
            raise Malformed(begin, "text is not UTF-8") from None

    return read


def _bytes(flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> Value:
        length = _length(cursor, flexible, 4)
        return _null(cursor, nullable) if length < 0 else base64.b64encode(cursor.take(length)).decode()

    return read


def _null(cursor: Cursor, allowed: bool) -> Value:
    if not allowed:
        raise Malformed(cursor.at, "null in place of a value that must be there")
    return None


def _default(field: Field) -> Value:
    """The default of a field, from its definition; Kafka's generator takes JSON's null for none."""
    given = "" if field.default is None else field.default
    if given == "null":
        return None
    if field.type in SIZES:
        return int(given or 0)
    if field.type == "bool":
        return given in (True, "true")
    if field.type == "float64":
        return float(given or 0)
    if field.type.startswith("[]"):
        return []
    if field.fields:
        return {name_of(one): _default(one) for one in field.fields}
    return NO_UUID if field.type == "uuid" else given


def name_of(field: Field) -> str:
    """A field's name in Kafka's JSON."""
    return field.name[0].lower() + field.name[1:]
