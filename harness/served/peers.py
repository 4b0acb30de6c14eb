"""Messages between nodes: packed values of the model, on a listener that only nodes dial.

A frame is four bytes of size and a packed tuple. The first one of a connection says who dials and which
listener of Kafka the connection stands for; then come requests as (number, request), and back (number,
answer). Brokers of the model speak to each other only; Kafka's own protocol is for clients.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from core.cluster import Listener
from harness.served.gates import Gates, Link
from harness.served.node import Answered, NodeAddress
from harness.served.packing import pack, unpack
from harness.wire.frames import SIZE, FrameError, Splitter, frame
from model.protocol.requests import AnyRequest, Request, Response

Submit = Callable[[AnyRequest, Answered], None]
CONNECT_S: Final = 2.0


class _Dialled(asyncio.Protocol):
    """The dialling side of a connection: requests of one channel."""

    def __init__(self, gates: Gates, me: int, peer: int, listener: Listener) -> None:
        self._gates = gates
        self._hello = (me, listener.value)
        self._place = (peer, listener)
        self._splitter = Splitter()
        self._link: Link | None = None
        self._unsent: list[bytes] = []
        self._waiting: dict[int, tuple[Answered, asyncio.TimerHandle]] = {}
        self._number = 0
        self.ended = False

    def ask(self, request: AnyRequest, wait_ms: int, answered: Answered) -> None:
        """Send a request, or give it up with the connection when no answer came in time."""
        self._number += 1
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.give_up)
        self._waiting[self._number] = (answered, timer)
        data = frame(pack((self._number, request)))
        if self._link is None:
            self._unsent.append(data)
        else:
            self._link.write(data)

    def give_up(self) -> None:
        """Close the connection; no request on it is answered any more."""
        self.ended = True
        if self._link is not None:
            self._link.close()
        waiting, self._waiting = self._waiting, {}
        for answered, timer in waiting.values():
            timer.cancel()
            answered(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._link = Link(transport, *self._place)
        self._gates.add(self._link)
        self._link.write(frame(pack(self._hello)))
        for data in self._unsent:
            self._link.write(data)
        self._unsent.clear()
        if self.ended:
            self._link.close()

    def data_received(self, data: bytes) -> None:
        for one in self._splitter.feed(data):
            number, answer = unpack(one[SIZE:])
            answered, timer = self._waiting.pop(number, (None, None))
            if answered is not None and timer is not None:
                timer.cancel()
                answered(answer)

    def connection_lost(self, error: Exception | None) -> None:
        assert self._link is not None
        self._gates.remove(self._link)
        self.give_up()


class Peers:
    """Connections of node `me` to all others, one for each channel."""

    def __init__(self, me: int, addresses: "dict[int, NodeAddress]", gates: Gates) -> None:
        self._me = me
        self._addresses = addresses
        self._gates = gates
        self._dialled: dict[tuple[int, str], _Dialled] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def carry(
        self,
        node: int,
        channel: str,
        listener: Listener,
        request: AnyRequest,
        wait_ms: int,
        answered: Answered,
    ) -> None:
        """See `harness.served.node.Carry`."""
        kind = channel.split("-")[0]
        known = self._dialled.get((node, kind))
        if known is None or known.ended:
            known = self._dialled[node, kind] = _Dialled(self._gates, self._me, node, listener)
            task = asyncio.get_running_loop().create_task(self._dial(node, listener, known))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        known.ask(request, wait_ms, answered)

    async def _dial(self, node: int, listener: Listener, made: _Dialled) -> None:
        host, port = self._addresses[node].host, self._addresses[node].port(listener)
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.get_running_loop().create_connection(lambda: made, host, port)
        except (OSError, TimeoutError):
            made.give_up()


class _Accepted(asyncio.Protocol):
    """The side of a connection that was dialled."""

    def __init__(self, gates: Gates, submit: Submit, note: Callable[[str], None]) -> None:
        self._gates = gates
        self._submit = submit
        self._note = note
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._link: Link | None = None
        self._requests: deque[tuple[int, AnyRequest]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            requests = [self._read(unpack(one[SIZE:])) for one in self._splitter.feed(data)]
        except (FrameError, ValueError, TypeError) as error:
            self._note(f"a connection of a node is closed: {error}")
            self._transport.abort()
            return
        self._requests.extend(filter(None, requests))
        self._serve()

    def _serve(self) -> None:
        """Hand over what came; not what came with the first frame over a link that is cut."""
        while self._requests and self._link is not None and not self._link.deaf:
            number, request = self._requests.popleft()
            self._submit(request, partial(self._answer, number))

    def _read(self, value: Any) -> tuple[int, AnyRequest] | None:
        """A request and its number; None = the first frame. Raises: ValueError, TypeError."""
        first, second = value
        if self._link is None:
            assert self._transport is not None
            self._link = Link(self._transport, int(first), Listener(second), self._serve)
            self._gates.add(self._link)
            return None
        if not isinstance(second, Request):
            raise ValueError(f"{type(second).__name__} is not a request")
        return first, second

    def _answer(self, number: int, answer: Response) -> None:
        assert self._link is not None
        if not self._link.transport.is_closing():
            self._link.write(frame(pack((number, answer))))

    def connection_lost(self, error: Exception | None) -> None:
        if self._link is not None:
            self._gates.remove(self._link)


async def listen(
    gates: Gates, submit: Submit, note: Callable[[str], None], host: str, port: int
) -> asyncio.Server:
    """Listen for other nodes. note: writes a line into the node's log. Raises: OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Accepted(gates, submit, note), host, port)
