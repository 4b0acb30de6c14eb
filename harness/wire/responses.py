"""Responses that the proxy reads, makes or changes: error codes, refusals, addresses of brokers.

Clients learn where brokers are from Metadata, FindCoordinator and DescribeCluster, and from the new leaders
that Produce and Fetch name (KIP-951). Where a proxy stands before a cluster that advertises other addresses,
it has to replace them all, or clients would go round it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from core.cluster import Address
from harness.protocol.encoding import Values, response_frame
from harness.protocol.frames import FrameError, RequestHeader
from harness.protocol.payloads import (
    API_KEYS,
    Message,
    decode_request,
    decode_response,
    request_type,
    response_type,
)
from harness.protocol.schemas import plain

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
        return response_frame(kind, self._replaced(plain(response)), header.correlation_id)

    def _replaced(self, value: Any) -> Any:
        """The same plain value with every host and port replaced, at any depth."""
        if isinstance(value, list):
            return [self._replaced(one) for one in value]
        if not isinstance(value, dict):
            return value
        changed = {name: self._replaced(one) for name, one in value.items()}
        if {"host", "port"} <= changed.keys():
            there = self._addresses.get(Address(changed["host"], changed["port"]))
            if there is not None:
                changed |= {"host": there.host, "port": there.port}
        return changed


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


def _codes(value: object) -> Iterator[int]:
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
    return response_frame(answered, make(decode_request(frame, asked), error), header.correlation_id)


def _plain(request: object, error: int) -> Values:
    return {"error_code": error}


def _produce(request: Message, error: int) -> Values:
    topics = [
        {
            **{name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)},
            "partition_responses": [
                {"index": part.index, "error_code": error} for part in topic.partition_data
            ],
        }
        for topic in request.topic_data
    ]
    return {"responses": topics}


REFUSED: Final = {
    API_KEYS["produce"]: _produce,
    API_KEYS["end_txn"]: _plain,
    API_KEYS["add_offsets_to_txn"]: _plain,
    API_KEYS["init_producer_id"]: _plain,
}
"""APIs whose requests can be refused, and what makes the values of the response."""
