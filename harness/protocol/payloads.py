"""What frames hold, by Kafka's own schemas: requests and responses as objects of kio's classes.

Only what has to be understood is decoded. A frame of an API or a version that neither
kio nor `newer` nor `older` nor `controllers` knows stays opaque.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.protocol import Entity, Payload, RequestPayload, ResponsePayload

from harness.protocol import controllers, newer, older
from harness.protocol.bounds import check
from harness.protocol.frames import SIZE, FrameError
from harness.protocol.schemas import schema

E = TypeVar("E", bound=Entity)
P = TypeVar("P", bound=Payload)

_REQUESTS: Final = newer.REQUESTS | older.REQUESTS
_RESPONSES: Final = newer.RESPONSES | older.RESPONSES
_UNREADABLE: Final = (SerialError, ValueError, LookupError, OverflowError)
"""What kio raises for bytes that no schema describes."""

Message = Any
"""A request, a response or a part of one as kio has it, of any version: that decides which fields it has."""
_NAMES: Final[Mapping[int, str]] = {**api_key_map, **controllers.NAMES}
API_KEYS: Final = {name: key for key, name in _NAMES.items()}
"""Kafka's APIs by name: `end_txn` -> 26."""


def api_name(api_key: int) -> str:
    """The name of an API; its number where it is not known."""
    return _NAMES.get(api_key, f"api {api_key}")


@cache
def request_type(api_key: int, version: int) -> type[RequestPayload] | None:
    """The schema of a request; None = opaque."""
    try:
        return load_request_schema(api_key, version)
    except KioIndexError:
        return _REQUESTS.get((api_key, version)) or controllers.request_type(api_key, version)


@cache
def response_type(api_key: int, version: int) -> type[ResponsePayload] | None:
    """The schema of a response; None = opaque."""
    try:
        return load_response_schema(api_key, version)
    except KioIndexError:
        return _RESPONSES.get((api_key, version)) or controllers.response_type(api_key, version)


def decode_request(data: bytes, kind: type[RequestPayload]) -> RequestPayload:
    """A request. data: its frame, with the size. Raises: FrameError."""
    return _decode(data, kind)


def decode_response(data: bytes, kind: type[P]) -> P:
    """A response. data: its frame, with the size. Raises: FrameError."""
    return _decode(data, kind)


def _decode(data: bytes, kind: type[P]) -> P:
    header: type[Entity] = kind.__header_schema__  # type: ignore[assignment] # a property to mypy, a class here
    begin = check(header, data, SIZE)
    check(kind, data, begin)
    try:
        return entity_reader(kind)(data, begin)[0]
    except _UNREADABLE as error:
        raise FrameError(f"{kind.__name__}: {error}") from error


def in_version(kind: type[E], found: Any) -> E:
    """What was read in an earlier version of a schema as one of a later version (kind): fields that the
    earlier one lacks have the values that the later one gives to absent ones."""
    if type(found) is kind:
        return found
    values = {}
    for field in schema(kind):
        if not hasattr(found, field.name):
            values[field.name] = None if field.optional else () if field.array else field.zero
            continue
        value = getattr(found, field.name)
        if not isinstance(field.kind, str) and value is not None:
            inner = field.kind
            value = (
                tuple(in_version(inner, one) for one in value) if field.array else in_version(inner, value)
            )
        values[field.name] = value
    return kind(**values)
