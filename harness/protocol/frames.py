"""Frames of Kafka's protocol: where one ends in a stream of bytes, and what its header says.

A frame is four bytes of size and as many bytes of content. Content begins with a header: of a request, API
key, API version, correlation id and client id; of a response, the correlation id. Nothing else is read here:
a frame is passed on as the bytes that it came as.

Source: Kafka's protocol guide, "Common Request and Response Structure"; KIP-482 for newer headers.
"""

import struct
from typing import Final, NamedTuple

SIZE: Final = 4
"""Bytes of the size in front of each frame; the size does not count them."""
LIMIT: Final = 128 << 20
"""Most bytes of content. A broker takes requests of up to 100 MiB (socket.request.max.bytes), and answers a
fetch with little more than fetch.max.bytes."""

FLEXIBLE_FETCH: Final = 12
"""The first version of Fetch whose header ends with tagged fields (KIP-482)."""

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhi")
_RESPONSE: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">h")
_CONTROLLED_SHUTDOWN: Final = (7, 0)
"""API key and version of the one request whose header has no client id."""


class FrameError(ValueError):
    """Bytes are not a frame of Kafka's protocol; the rest of their stream cannot be read."""


class RequestHeader(NamedTuple):
    """What every version of a request's header says. client_id: None where the client sent none."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


def frame(content: bytes) -> bytes:
    """Content with its size in front."""
    return _SIZE.pack(len(content)) + content


def request_header(frame: bytes) -> RequestHeader:
    """The header of a request. frame: with its size. Raises: FrameError."""
    try:
        _, api_key, version, correlation_id = _REQUEST.unpack_from(frame)
        if (api_key, version) == _CONTROLLED_SHUTDOWN:
            return RequestHeader(api_key, version, correlation_id, None)
        (length,) = _LENGTH.unpack_from(frame, _REQUEST.size)
    except struct.error as error:
        raise FrameError(f"a request of {len(frame) - SIZE} bytes is shorter than its header") from error
    begin = _REQUEST.size + _LENGTH.size
    if length < -1 or begin + length > len(frame):
        raise FrameError(f"a client id of {length} bytes in a request of {len(frame) - SIZE} bytes")
    if length == -1:
        return RequestHeader(api_key, version, correlation_id, None)
    client_id = frame[begin : begin + length].decode(errors="replace")
    return RequestHeader(api_key, version, correlation_id, client_id)


def correlation_id(frame: bytes) -> int:
    """The correlation id of a response. frame: with its size. Raises: FrameError."""
    if len(frame) < _RESPONSE.size:
        raise FrameError(f"a response of {len(frame) - SIZE} bytes is shorter than its header")
    return int(_RESPONSE.unpack_from(frame)[1])


class Splitter:
    """Cuts a stream of bytes into frames. It holds at most one frame that is not whole, of at most `limit`
    bytes of content."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()

    @property
    def held(self) -> int:
        """Bytes of the frame that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames, with their sizes, that these bytes complete.

        Raises: FrameError, for a size below 0 or above the limit, before anything of that size is held.
        """
        held, at, found = self._held, 0, []
        held += data
        while len(held) - at >= SIZE:
            (size,) = _SIZE.unpack_from(held, at)
            if not 0 <= size <= self._limit:
                raise FrameError(f"a frame of {size} bytes; 0 to {self._limit} are allowed")
            if len(held) - at < SIZE + size:
                break
            found.append(bytes(memoryview(held)[at : at + SIZE + size]))
            at += SIZE + size
        if at:
            del held[:at]
        return found


def fetching_replica(frame: bytes, header: RequestHeader) -> int:
    """The broker that sent a Fetch before version 15, whose first field names it; -1 = a consumer.

    Raises: FrameError.
    """
    begin = _REQUEST.size + _LENGTH.size + len((header.client_id or "").encode())
    begin += header.version >= FLEXIBLE_FETCH
    try:
        return int(_SIZE.unpack_from(frame, begin)[0])
    except struct.error as error:
        raise FrameError(f"a Fetch of {len(frame) - SIZE} bytes names no replica") from error
