"""A node of the model, in this process, whose clean shutdown has ended."""

import asyncio
from pathlib import Path
from typing import Any

from harness.modelled.real.node import Node, NodeAddress, NodeSettings
from model.protocol.messages import CreateTopics, Produce
from model.settings import Settings

WAIT_S = 30.0


def refuse(*_: object) -> None:
    raise AssertionError("the only node asks another one")


async def ended(folder: Path) -> Node:
    """It has a topic, and its disk is closed."""
    over, made = asyncio.Event(), asyncio.Event()
    given = NodeSettings(
        me=1,
        brokers=(1,),
        voters=(1,),
        addresses={1: NodeAddress(host="127.0.0.1", nodes=1)},
        cluster="c",
        folder=str(folder),
        era="4.3-tv1",
        model=NodeSettings.values(Settings(min_isr=1, internal_replication=1)),
    )
    node = Node(given, refuse, over.set, lambda line: None)
    node.start()
    async with asyncio.timeout(WAIT_S):
        while not node.broker.metadata.ready or node.broker.fenced:
            await asyncio.sleep(0.01)
        node.submit(CreateTopics("t", 1, 1), lambda answer: made.set())
        await made.wait()
        node.shut_down()
        await over.wait()
    node.disk.close()
    return node


def test_nothing_happens_to_a_node_that_has_shut_down(tmp_path: Path) -> None:
    async def late() -> list[Any]:
        node = await ended(tmp_path)
        answers: list[Any] = []
        events: list[str] = []
        for name in ("receive", "disconnected", "tick"):
            setattr(node.broker, name, lambda *_, name=name: events.append(name))
        node.submit(Produce(-1, {}), answers.append)
        node.disconnected(node.connected())
        await asyncio.sleep(0.3)  # some ticks
        return answers + events

    assert asyncio.run(late()) == []
