"""Messages between nodes over real sockets, and links that are cut."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from core.capabilities import Cut, Direction, Listener
from harness.modelled.real.node import NodeAddress
from harness.modelled.real.serving import peers
from harness.modelled.real.serving.cut_links import Gates
from harness.protocol.frames import frame
from model.errors import KafkaError
from model.protocol.controller_messages import BeginQuorumEpoch
from model.protocol.requests import Answered, AnyRequest, ErrorResponse

WAIT_S = 10.0
REQUEST = BeginQuorumEpoch(3, 1)
ANSWER = ErrorResponse(KafkaError.NONE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


CLUSTER = "-a-cluster-"


class Pair:
    """Node 1 asks node 2, which answers everything. clusters: of node 1, and of node 2."""

    def __init__(self, *clusters: str) -> None:
        self.mine, self.theirs = clusters or (CLUSTER, CLUSTER)
        self.first, self.second = Gates(1), Gates(2)
        self.requests: list[AnyRequest] = []
        self.answers: list[Any] = []
        self.notes: list[str] = []
        self.port = free_port()
        addresses = {2: NodeAddress(host="127.0.0.1", nodes=self.port)}
        self.peers = peers.Peers(self.mine, 1, addresses, self.first)

    def submit(self, request: AnyRequest, answered: Answered) -> None:
        self.requests.append(request)
        answered(ANSWER)

    def ask(self, channel: str = "begin", wait_ms: int = 10_000) -> None:
        self.peers.carry(2, channel, Listener.CONTROLLER, REQUEST, wait_ms, self.answers.append)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not true():
                await asyncio.sleep(0.005)

    async def __aenter__(self) -> "Pair":
        self.server = await peers.listen(
            self.theirs, self.second, self.submit, self.notes.append, dict, "127.0.0.1", self.port
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for dialled in list(self.peers._dialled.values()):
            dialled.give_up()
        await self.server.wait_closed()


def cut(node: int, peer: int, *ways: Direction, listener: Listener | None = None) -> Sequence[Cut]:
    return [Cut(node=node, direction=way, peer=peer, listener=listener) for way in ways]


IN, OUT = Direction.IN, Direction.OUT


def test_a_request_is_answered() -> None:
    async def run() -> None:
        async with Pair() as pair:
            pair.ask()
            pair.ask()
            await pair.until(lambda: len(pair.answers) == 2)
            assert pair.requests == [REQUEST, REQUEST]
            assert pair.answers == [ANSWER, ANSWER]

    asyncio.run(run())


def test_a_node_of_another_cluster_is_not_answered() -> None:
    async def run() -> None:
        async with Pair("-b", CLUSTER) as pair:
            pair.ask()
            await pair.until(lambda: len(pair.answers) == 1)
            assert pair.answers == [None]
            assert pair.requests == []
            assert pair.notes == ["a connection of a node is closed: its node is one of cluster -b"]

    asyncio.run(run())


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize(
    ("where", "arrives"),
    [
        (cut(1, 2, OUT), False),
        (cut(1, 2, IN), True),
        (cut(2, 1, IN), False),
        (cut(2, 1, OUT), True),
        (cut(2, 1, IN, listener=Listener.CONTROLLER), False),
    ],
)
def test_what_a_cut_link_holds_comes_when_it_is_mended(
    where: Sequence[Cut], arrives: bool, known: bool
) -> None:
    async def run() -> None:
        async with Pair() as pair:
            if known:
                pair.ask()
                await pair.until(lambda: len(pair.answers) == 1)
            before = len(pair.answers)
            for gates in (pair.first, pair.second):
                gates.set(where)
            pair.ask()
            if arrives:
                await pair.until(lambda: len(pair.requests) == before + 1)
            await asyncio.sleep(0.1)  # nothing is to happen
            assert len(pair.requests) == before + arrives
            assert len(pair.answers) == before
            for gates in (pair.first, pair.second):
                gates.set(())
            await pair.until(lambda: len(pair.answers) == before + 1)

    asyncio.run(run())


def test_a_cut_of_another_listener_or_node_concerns_nothing() -> None:
    async def run() -> None:
        async with Pair() as pair:
            pair.second.set([*cut(2, 1, IN, listener=Listener.BROKER), *cut(2, 3, IN), *cut(3, 1, IN)])
            pair.ask()
            await pair.until(lambda: len(pair.answers) == 1)

    asyncio.run(run())


def test_no_answer_in_time_and_no_listener_are_none() -> None:
    async def run() -> None:
        async with Pair() as pair:
            pair.second.set(cut(2, 1, IN))
            pair.ask(wait_ms=20)
            await pair.until(lambda: pair.answers == [None])
            pair.second.set(())
            pair.ask()
            await pair.until(lambda: pair.answers == [None, ANSWER])
        pair.ask("other")
        await pair.until(lambda: pair.answers == [None, ANSWER, None])

    asyncio.run(run())


@pytest.mark.parametrize("data", [frame(b"\xc1"), frame(b"\x01"), b"\xff" * 8])
def test_other_bytes_close_the_connection(data: bytes) -> None:
    async def run() -> None:
        async with Pair() as pair:
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
            writer.write(data)
            async with asyncio.timeout(WAIT_S):
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            writer.close()
            assert len(pair.notes) == 1

    asyncio.run(run())
