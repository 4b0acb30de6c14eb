"""Connections between nodes, on a listener that only nodes dial: what they carry is in `peer_frames`."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from core.capabilities import Listener
from harness.modelled.real.node import NodeAddress
from harness.modelled.real.serving.cut_links import Gates, PeerConnection
from harness.modelled.real.serving.peer_frames import answer_frame, read_answer, read_request, request_frame
from harness.modelled.real.serving.peer_share_state import Topics
from harness.protocol.frames import Splitter, correlation_id
from model.protocol.requests import Answered, AnyRequest, Response

Submit = Callable[[AnyRequest, Answered], None]
CONNECT_S: Final = 2.0


class _Dialled(asyncio.Protocol):
    """The dialling side of a connection: requests of one channel."""

    def __init__(self, gates: Gates, cluster: str, me: int, peer: int, listener: Listener) -> None:
        self._gates = gates
        self._client_id = f"node-{me}-{listener.value}-{cluster}"
        self._place = (peer, listener)
        self._splitter = Splitter()
        self._link: PeerConnection | None = None
        self._unsent: list[bytes] = []
        self._waiting: dict[int, tuple[AnyRequest, Answered, asyncio.TimerHandle]] = {}
        self._number = 0
        self.ended = False

    def ask(self, request: AnyRequest, wait_ms: int, answered: Answered) -> None:
        """Send a request, or give it up with the connection when no answer came in time."""
        self._number += 1
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.give_up)
        self._waiting[self._number] = (request, answered, timer)
        data = request_frame(request, self._number, self._client_id)
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
        for _, answered, timer in waiting.values():
            timer.cancel()
            answered(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._link = PeerConnection(transport, *self._place)
        self._gates.add(self._link)
        for data in self._unsent:
            self._link.write(data)
        self._unsent.clear()
        if self.ended:
            self._link.close()

    def data_received(self, data: bytes) -> None:
        done = []
        try:
            for one in self._splitter.feed(data):
                number = correlation_id(one)
                if number in self._waiting:
                    request, answered, timer = self._waiting[number]
                    done.append((answered, read_answer(one, request)))
                    del self._waiting[number]
                    timer.cancel()
        except (ValueError, TypeError):  # no node sends that
            self.give_up()
        for answered, answer in done:
            answered(answer)

    def connection_lost(self, error: Exception | None) -> None:
        assert self._link is not None
        self._gates.remove(self._link)
        self.give_up()


class Peers:
    """Connections of node `me` of a cluster to all others, one for each channel."""

    def __init__(self, cluster: str, me: int, addresses: "dict[int, NodeAddress]", gates: Gates) -> None:
        self._cluster = cluster
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
        """See `harness.modelled.real.node.Carry`."""
        kind = channel.split("-")[0]
        known = self._dialled.get((node, kind))
        if known is None or known.ended:
            known = self._dialled[node, kind] = _Dialled(self._gates, self._cluster, self._me, node, listener)
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
    """The side of a connection that was dialled. It takes no request of another cluster."""

    def __init__(
        self, cluster: str, gates: Gates, submit: Submit, note: Callable[[str], None], topics: Topics
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._gates = gates
        self._submit = submit
        self._note = note
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._link: PeerConnection | None = None
        self._requests: deque[tuple[int, AnyRequest]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            for one in self._splitter.feed(data):
                request, number, client_id = read_request(one, self._topics)
                if self._link is None:
                    _, peer, listener, cluster = client_id.split("-", 3)
                    if cluster != self._cluster:
                        raise ValueError(f"its node is one of cluster {cluster}")
                    self._link = PeerConnection(self._transport, int(peer), Listener(listener), self._serve)
                    self._gates.add(self._link)
                self._requests.append((number, request))
        except (ValueError, TypeError) as error:
            self._note(f"a connection of a node is closed: {error}")
            self._transport.abort()
            return
        self._serve()

    def _serve(self) -> None:
        """Hand over what came; not what came over a link that is cut."""
        while self._requests and self._link is not None and not self._link.deaf:
            number, request = self._requests.popleft()
            self._submit(request, partial(self._answer, request, number))

    def _answer(self, request: AnyRequest, number: int, answer: Response) -> None:
        assert self._link is not None
        if not self._link.transport.is_closing():
            self._link.write(answer_frame(request, answer, number))

    def connection_lost(self, error: Exception | None) -> None:
        if self._link is not None:
            self._gates.remove(self._link)


async def listen(
    cluster: str,
    gates: Gates,
    submit: Submit,
    note: Callable[[str], None],
    topics: Topics,
    host: str,
    port: int,
) -> asyncio.Server:
    """Listen for other nodes of the cluster. note: writes a line into the node's log. topics: that this node
    knows. Raises: OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Accepted(cluster, gates, submit, note, topics), host, port)
