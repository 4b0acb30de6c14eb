"""Values of the model as bytes, and back: for messages between nodes, and for a node's disk.

    unpack(pack(value)) == value      # for what stands in messages and logs of the model

MessagePack, without code in it: a composite value is an array whose first element names its kind. Only kinds
of the model are made from bytes.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from harness.modelled.real.encoded.records import WireRecords
from model import __name__ as model
from model import __path__ as places

ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes})
TUPLE, LIST, MAP, SET, RECORDS = "", "[", "{", "(", "!"
"""First elements of values that are of no class of the model."""
LEFT_OUT: Final = tuple(f"{model}.{name}" for name in ("mutants", "accepting", "client"))
"""What no message and no log holds."""


def pack(value: object) -> bytes:
    """A value as bytes. Raises: TypeError, for one of a kind that the model does not have."""
    return msgspec.msgpack.encode(_plain(value))


def unpack(data: bytes) -> Any:
    """The value. Raises: ValueError, for bytes that `pack` does not make."""
    try:
        return _value(msgspec.msgpack.decode(data))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"no packed value: {error}") from error


@cache
def kinds() -> Mapping[str, type]:
    """Classes of the model by name: messages, records, enumerations."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(places, f"{model}."):
        if module.name.startswith(LEFT_OUT):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name and _packable(value):
                assert found.setdefault(value.__name__, value) is value, f"two classes {value.__name__}"
    return found


def _packable(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct | Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _plain(value: object) -> object:
    kind: type = type(value)
    if kind in ATOMS:
        return value
    writer = _WRITERS.get(kind)
    if writer is None:
        writer = _WRITERS[kind] = _writer(kind)
    return writer(value)


def _parts(values: Sequence[object]) -> list[object]:
    """The plain forms of several values; most are atoms, for which a call would be the most of the work."""
    return [one if type(one) in ATOMS else _plain(one) for one in values]


_WRITERS: Final[dict[type, Callable[[object], list[object]]]] = {}


def _writer(kind: type[Any]) -> Callable[[Any], list[Any]]:
    """What writes values of a class."""
    name = kind.__name__
    if kind is tuple:
        return lambda value: [TUPLE, *_parts(value)]
    if kind is WireRecords:
        return lambda value: [RECORDS, value.raw]
    if issubclass(kind, Mapping):
        return lambda value: [MAP, *(_plain(part) for pair in value.items() for part in pair)]
    if kind in (set, frozenset):
        return lambda value: [SET, *map(_plain, value)]
    if kinds().get(name) is kind:
        if issubclass(kind, Enum):
            return lambda value: [name, value.value]
        if issubclass(kind, msgspec.Struct):
            return lambda value: [name, *_parts(astuple(value))]
        return lambda value: [name, *_parts(value)]
    if issubclass(kind, list):
        return lambda value: [LIST, *_parts(value)]
    raise TypeError(f"{kind.__module__}.{name} has no packed form")


def _value(plain: object) -> object:
    if type(plain) is not list:
        return plain
    name = plain[0]
    if name == TUPLE:
        return tuple([_value(one) for one in plain[1:]])
    if name == MAP:
        parts = [_value(one) for one in plain[1:]]
        return dict(zip(parts[::2], parts[1::2], strict=True))
    if name == LIST:
        return [_value(one) for one in plain[1:]]
    if name == RECORDS:
        return WireRecords(plain[1])
    if name == SET:
        return frozenset(_value(one) for one in plain[1:])
    return kinds()[name](*[_value(one) for one in plain[1:]])
