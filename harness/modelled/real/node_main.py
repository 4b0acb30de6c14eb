"""The process of a node: `python -m harness.modelled.real.node_main [settings]`.

In a container its settings are a file, `NodeSettings` as JSON, and the firewall makes the cuts. As a process
of the harness:

Standard input brings its settings (`NodeSettings`), one line of JSON, and then a line of `Cuts` whenever the
cuts in force change. Standard output has a line when other nodes are listened to, and later one when clients
are. The process ends with its standard input: a harness that dies leaves no node behind. SIGTERM is a clean
shutdown. What happens to it stands in its log, standard error.

A broker listens for clients as soon as it has caught up with the cluster's metadata and is not fenced any
more, as Kafka does (BrokerServer.startup). An error in the model itself ends the process with `FAILED`, which
is not a death that a test may judge.
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.capabilities import Cut, Listener
from core.cluster import Address
from harness.modelled.real.node import Node, NodeSettings
from harness.modelled.real.serving import clients, peers
from harness.modelled.real.serving.cut_links import Gates
from harness.modelled.real.serving.topic_ids import names_at
from harness.processes import parent
from harness.processes.child import ChildLine

FAILED: Final = 70
READY_POLL_S: Final = 0.02


class Cuts(msgspec.Struct, frozen=True, kw_only=True):
    """The cuts in force, and no others."""

    cuts: tuple[Cut, ...]


class NodeLine(ChildLine, frozen=True, kw_only=True):
    """One line of standard output."""

    serves: bool = False
    """Clients are listened to."""


def note(text: str) -> None:
    """Write a line into the node's log."""
    sys.stderr.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} INFO {text}\n")
    sys.stderr.flush()


def tell(line: NodeLine) -> None:
    """Write one line to the harness; in a container none listens."""
    if len(sys.argv) == 1:
        parent.tell(line)


def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """An error that nothing caught is one of the model, or of this program."""
    error = context.get("exception")
    note(f"FAILED: {context.get('message')}")
    if isinstance(error, BaseException):
        note("".join(traceback.format_exception(error)))
    os._exit(FAILED)


async def serve() -> None:
    """Until standard input ends, or a clean shutdown has."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(fail)
    commands: asyncio.StreamReader | None = None
    if len(sys.argv) > 1:
        line = Path(sys.argv[1]).read_bytes()
    else:
        commands = await parent.commands()
        line = await commands.readline()
    given = msgspec.json.decode(line, type=NodeSettings)
    own, gates = given.addresses[given.me], Gates(given.me)
    gates.set(given.cuts)
    connections = peers.Peers(given.cluster, given.me, dict(given.addresses), gates)
    ended = asyncio.Event()
    try:
        node = Node(given, connections.carry, ended.set, note)
        for port in {own.nodes, own.port(Listener.CONTROLLER)}:
            topics = partial(names_at, node)
            await peers.listen(given.cluster, gates, node.submit, note, topics, given.bind, port)
    except (OSError, ValueError) as error:
        tell(NodeLine(error=str(error)))
        note(str(error))
        sys.exit(FAILED)
    loop.add_signal_handler(signal.SIGTERM, node.shut_down)
    node.start()
    gc.freeze()  # what was imported stays: no collection looks at it again
    note(f"node {given.me} started: era {given.era}" + (f", mutant {given.mutant}" if given.mutant else ""))
    tell(NodeLine(done=1))
    tasks = [loop.create_task(_open(node, gates))]
    if commands is not None:
        tasks.append(loop.create_task(_command(commands, gates, ended)))
    await ended.wait()
    for task in tasks:
        task.cancel()
    node.disk.close()
    note(f"node {given.me} ended")


async def _command(commands: asyncio.StreamReader, gates: Gates, ended: asyncio.Event) -> None:
    decode, done = msgspec.json.Decoder(Cuts).decode, 1
    while line := await commands.readline():
        gates.set(decode(line).cuts)
        done += 1
        tell(NodeLine(done=done))
    ended.set()


async def _open(node: Node, gates: Gates) -> None:
    """Listen for clients and for the harness, once the broker is ready."""
    given = node.given
    if given.me not in given.brokers:
        return
    while not node.broker.metadata.ready or node.broker.fenced:
        await asyncio.sleep(READY_POLL_S)
    own = given.addresses[given.me]
    of_the_harness = Gates(given.me)  # no cut concerns it
    try:
        for name, port, links in (("clients", own.clients, gates), ("harness", own.harness, of_the_harness)):
            told = {
                number: Address(*its.advertised[name])
                for number, its in given.addresses.items()
                if name in its.advertised
            }
            await clients.listen(node, links, told, note, port)
    except OSError as error:
        tell(NodeLine(error=str(error)))
        note(str(error))
        os._exit(FAILED)
    note(f"node {given.me} listens for clients")
    tell(NodeLine(serves=True))


def main() -> None:
    """See the module."""
    parent.ignore_ctrl_c()
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
