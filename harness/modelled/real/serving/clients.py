"""Connections of clients: frames of Kafka's protocol in, responses out, one request after the other.

As in Kafka, the next request of a connection is looked at when the one before is answered. What is not
Kafka's protocol, or of a version that is not served, closes its connection and gets a line in the node's log:
bytes from outside never end the process."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from core.capabilities import Listener
from core.cluster import Address
from harness.modelled.real.node import Node
from harness.modelled.real.serving.api_call import Call
from harness.modelled.real.serving.apis_cluster import apis, versions
from harness.modelled.real.serving.cut_links import CLIENTS, Gates, PeerConnection
from harness.protocol.encoding import response_frame
from harness.protocol.frames import FrameError, RequestHeader, Splitter, request_header
from harness.protocol.payloads import API_KEYS, api_name, decode_request, request_type, response_type
from model.errors import KafkaError

QUEUED: Final = 16
"""Requests of one connection that may wait; more are not read."""


class _Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(
        self, node: Node, gates: Gates, addresses: Mapping[int, Address], note: Callable[[str], None]
    ) -> None:
        self._node = node
        self._gates = gates
        self._addresses = addresses
        self._note = note
        self._apis = apis(node.settings.era)
        self._splitter = Splitter()
        self._queue: deque[bytes] = deque()
        self._busy = self._inside = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._link = PeerConnection(transport, CLIENTS, Listener.CLIENT)
        self._gates.add(self._link)
        self._number = self._node.connected()

    def connection_lost(self, error: Exception | None) -> None:
        self._gates.remove(self._link)
        self._queue.clear()
        self._node.disconnected(self._number)

    def data_received(self, data: bytes) -> None:
        try:
            self._queue.extend(self._splitter.feed(data))
        except FrameError as error:
            self._refuse(error)
            return
        self._serve()
        if len(self._queue) > QUEUED:
            self._link.mute(muted=True)

    def _serve(self) -> None:
        """Serve requests until one is not answered at once."""
        if self._inside:
            return
        self._inside = True
        try:
            while self._queue and not self._busy:
                self._busy = True
                self._take(self._queue.popleft())
        except FrameError as error:
            self._refuse(error)
        finally:
            self._inside = False

    def _refuse(self, error: FrameError) -> None:
        self._note(f"a connection of a client is closed: {error}")
        self._queue.clear()
        self._link.transport.abort()

    def _take(self, data: bytes) -> None:
        """Raises: FrameError."""
        header = request_header(data)
        name = api_name(header.api_key)
        api = self._apis.get(name)
        if api is not None and header.api_key == API_KEYS["api_versions"] and header.version > api.last:
            self._respond_versions(header)
            return
        if api is None or not api.first <= header.version <= api.last:
            raise FrameError(f"{name}, version {header.version}, is not served")
        asked, kind = (
            request_type(header.api_key, header.version),
            response_type(header.api_key, header.version),
        )
        assert asked is not None
        assert kind is not None
        call = Call(
            self._node,
            self._addresses,
            decode_request(data, asked),
            header.version,
            header.client_id or "",
            partial(self._respond, kind, header.correlation_id),
            self._done,
            self._number,
        )
        api.serve(call)

    def _respond_versions(self, header: RequestHeader) -> None:
        """In version 0, which says what is served (KIP-511)."""
        kind = response_type(header.api_key, 0)
        assert kind is not None
        found = versions(self._node.settings.era) | {"error_code": KafkaError.UNSUPPORTED_VERSION}
        self._respond(kind, header.correlation_id, **found)

    def _respond(self, kind: type, correlation_id: int, **values: object) -> None:
        if not self._link.transport.is_closing():
            self._link.write(response_frame(kind, values, correlation_id))
        self._done()

    def _done(self) -> None:
        self._busy = False
        if not self._inside:
            self._serve()
        if len(self._queue) <= QUEUED:
            self._link.mute(muted=False)


async def listen(
    node: Node, gates: Gates, addresses: Mapping[int, Address], note: Callable[[str], None], port: int
) -> asyncio.Server:
    """Listen for clients. addresses: what they learn of brokers. gates: of the links that cuts concern.
    Raises: OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(node, gates, addresses, note), node.given.bind, port)
