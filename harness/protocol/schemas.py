"""Kafka's schemas, field by field, as kio's generated classes have them.

`bounds` walks over values by them, `encoding` writes values by them. Only what kio's classes show is read:
they are dataclasses, and the metadata of a field names its type in Kafka and its tag.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from kio.static.protocol import Entity

EPOCH: Final = datetime.fromtimestamp(0, UTC)
_ZERO: Final = {"string": "", "bytes": b"", "records": b"", "uuid": None, "datetime_i64": EPOCH}


class SchemaField(NamedTuple):
    """A field of a schema."""

    name: str
    kind: str | type[Entity]
    """Kafka's name of a plain type; or the schema of a struct. Of an array: of its elements."""
    array: bool
    optional: bool
    """It may be null. A tagged field never is: it is left out (KIP-482)."""
    compact: bool
    """Its lengths are numbers of variable length, and one more than they are."""
    tag: int | None
    default: Any
    """As a plain value; MISSING = it has none."""

    @property
    def zero(self) -> Any:
        """The value of a tagged field that is left out, as a plain value."""
        if self.default is not MISSING:
            return self.default
        if isinstance(self.kind, str):
            return _ZERO.get(self.kind, 0)
        return {field.name: field.zero for field in schema(self.kind)}


@cache
def schema(kind: type[Entity]) -> tuple[SchemaField, ...]:
    """The fields of a schema, in order."""
    return tuple(_field(kind, field) for field in fields(kind))


def _field(kind: type[Entity], field: Any) -> SchemaField:
    inner, optional = _without_none(field.type)
    array = get_origin(inner) is tuple
    if array:
        inner, _ = _without_none(get_args(inner)[0])
    tag, of_structs = field.metadata.get("tag"), is_dataclass(inner)
    # The client id of a request keeps its old form in newer headers (KIP-482).
    old = not kind.__flexible__ or (kind.__name__ == "RequestHeader" and field.name == "client_id")
    return SchemaField(
        name=field.name,
        kind=inner if of_structs else field.metadata["kafka_type"],
        array=array,
        optional=optional and tag is None,
        compact=not old,
        tag=tag,
        default=plain(field.default),
    )


def _without_none(given: Any) -> tuple[Any, bool]:
    """A type without None, and whether it had it."""
    if get_origin(given) is not UnionType:
        return given, False
    (inner,) = (one for one in get_args(given) if one is not NoneType)
    return inner, True


def plain(value: Any) -> Any:
    """A value of kio with names and values in place of its structs."""
    if value is not MISSING and is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def unknown_names(kind: type[Entity], values: Mapping[str, Any]) -> set[str]:
    """Names among plain values, at any depth, that a schema does not have."""
    known = {field.name: field for field in schema(kind)}
    found = values.keys() - known
    for name in values.keys() - found:
        inner, value = known[name].kind, values[name]
        if not isinstance(inner, str) and value is not None:
            for one in value if known[name].array else (value,):
                found |= unknown_names(inner, one)
    return found
