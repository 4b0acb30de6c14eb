"""Responses that the proxy reads, makes or changes: error codes, refusals, addresses of brokers.

Clients learn where brokers are from Metadata, FindCoordinator and DescribeCluster, and from the new leaders
that Produce and Fetch name (KIP-951). Where a proxy stands before a cluster that advertises other addresses,
it has to replace them all, or clients would go round it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i32Timedelta
from kio.static.protocol import ResponsePayload

from core.cluster import Address
from harness.protocol.frames import FrameError, RequestHeader
from harness.protocol.payloads import (
    API_KEYS,
    decode_request,
    decode_response,
    encode_response,
    request_type,
    response_type,
)

TELL_ADDRESSES: Final = {
    API_KEYS["metadata"]: 0,
    API_KEYS["find_coordinator"]: 0,
    API_KEYS["describe_cluster"]: 0,
    API_KEYS["produce"]: 10,
    API_KEYS["fetch"]: 16,
    API_KEYS["share_fetch"]: 0,
    API_KEYS["share_acknowledge"]: 0,
}
"""APIs whose responses hold addresses of brokers, and the first version that does."""


class Rewrite:
    """Replaces addresses of brokers in responses. Called with a frame and the header of its request.

    addresses: what a broker advertises -> where the proxy listens for it; empty: nothing is replaced.
    """

    def __init__(self, addresses: Mapping[Address, Address]) -> None:
        self._addresses = addresses

    def __call__(self, frame: bytes, header: RequestHeader) -> bytes:
        """The response with addresses replaced; as it is, where it holds none. A response that cannot be read
        is passed on."""
        first = TELL_ADDRESSES.get(header.api_key)
        if not self._addresses or first is None or header.version < first:
            return frame
        kind = response_type(header.api_key, header.version)
        if kind is None:
            return frame
        try:
            response = decode_response(frame, kind)
        except FrameError:
            return frame
        return encode_response(self._replaced(response), header.correlation_id)

    def _replaced(self, value: Any) -> Any:
        """The same with every host and port replaced, at any depth."""
        if isinstance(value, tuple):
            return tuple(map(self._replaced, value))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        names = {field.name for field in fields(value)}
        changed = {
            name: self._replaced(getattr(value, name)) for name in names if _nested(getattr(value, name))
        }
        if {"host", "port"} <= names:
            here: Any = value
            if (there := self._addresses.get(Address(here.host, here.port))) is not None:
                changed |= {"host": there.host, "port": i32(there.port)}
        return replace(value, **changed)


def _nested(value: object) -> bool:
    return isinstance(value, tuple) or is_dataclass(value)


def error_of(frame: bytes, header: RequestHeader) -> int | None:
    """The first error code in a response that is not 0, else 0; None where it has none or cannot be read."""
    kind = response_type(header.api_key, header.version)
    if kind is None:
        return None
    try:
        codes = list(_codes(decode_response(frame, kind)))
    except FrameError:
        return None
    return next((code for code in codes if code), 0) if codes else None


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, tuple):
        for one in value:
            yield from _codes(one)
    elif isinstance(value, ErrorCode):
        yield int(value)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _codes(getattr(value, field.name))


def refusal(frame: bytes, header: RequestHeader, error: int) -> bytes:
    """The response by which a broker refuses a request with this error.

    Raises: FrameError, for a request that cannot be read, or an API that is not in `REFUSED`.
    """
    asked, answered = (
        request_type(header.api_key, header.version),
        response_type(header.api_key, header.version),
    )
    make = REFUSED.get(header.api_key)
    if asked is None or answered is None or make is None:
        raise FrameError(f"requests of API {header.api_key}, version {header.version}, cannot be refused")
    response = make(decode_request(frame, asked), answered, ErrorCode(error))
    return encode_response(response, header.correlation_id)


def _plain(request: Any, kind: type[ResponsePayload], error: ErrorCode) -> Any:
    return _blank(kind, error_code=error)


def _produce(request: Any, kind: type[ResponsePayload], error: ErrorCode) -> Any:
    topics = _elements(kind, "responses")
    partitions = _elements(topics, "partition_responses")
    answers = tuple(
        _blank(
            topics,
            **{name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)},
            partition_responses=tuple(
                _blank(partitions, index=part.index, error_code=error) for part in topic.partition_data
            ),
        )
        for topic in request.topic_data
    )
    return _blank(kind, responses=answers)


def _blank(kind: Any, **given: Any) -> Any:
    """A value of a schema: fields that are not given and have no default are empty, 0 ms, or -1."""
    for field in fields(kind):
        if field.name not in given and field.default is MISSING:
            if get_origin(field.type) is tuple:
                given[field.name] = ()
            else:
                given[field.name] = timedelta(0) if field.type is i32Timedelta else -1
    return kind(**given)


def _elements(kind: Any, name: str) -> Any:
    """The schema of the elements of an array."""
    return next(get_args(field.type)[0] for field in fields(kind) if field.name == name)


REFUSED: Final = {
    API_KEYS["produce"]: _produce,
    API_KEYS["end_txn"]: _plain,
    API_KEYS["add_offsets_to_txn"]: _plain,
    API_KEYS["init_producer_id"]: _plain,
}
"""APIs whose requests can be refused, and what makes the response."""
