"""The process of the proxy: `python -m harness.wire.proxy_main`.

Standard input brings one command a line: first `Routes`, then any number of the others. Standard output has
lines about what rules do. The process ends with its standard input: a harness that dies leaves no proxy
behind. It listens on the loopback, or on a container's address in its network.
"""

import asyncio
import contextlib

import msgspec

from core.cluster import Address
from core.wire import Seen, WireRule
from harness.processes.child import ChildLine
from harness.processes.clocks import ELSEWHERE, boot
from harness.processes.parent import commands, ignore_ctrl_c, tell
from harness.wire.link import Desk, Link
from harness.wire.responses import Rewrite

LOOPBACK = "127.0.0.1"
CONNECT_S = 5.0


class ProxyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Before one broker: the port that clients dial, and where the broker listens. advertised: the address
    that it tells clients, where that is not the proxy's own ("" = it is). bind: address to listen on. exempt:
    address from which requests pass by all rules ("" = none): the broker's own."""

    node: int
    listen: int
    host: str
    port: int
    advertised: str = ""
    bind: str = LOOPBACK
    exempt: str = ""


class Routes(msgspec.Struct, frozen=True, tag="routes"):
    """Where to listen. The first command. boot: of the machine whose clock the times are of."""

    routes: tuple[ProxyRoute, ...]
    boot: str


class Add(msgspec.Struct, frozen=True, tag="add"):
    """Put a rule in force."""

    rule: WireRule


class Release(msgspec.Struct, frozen=True, tag="release"):
    """Let go what a rule holds."""

    rule: int


class Lose(msgspec.Struct, frozen=True, tag="lose"):
    """What a rule holds never arrives."""

    rule: int


class Remove(msgspec.Struct, frozen=True, tag="remove"):
    """Take a rule back, and let go what it holds."""

    rule: int


Command = Routes | Add | Release | Lose | Remove


class ProxyLine(ChildLine, frozen=True, kw_only=True):
    """One line of standard output."""

    seen: Seen | None = None
    """What a rule did."""


async def accept(desk: Desk, route: ProxyRoute) -> None:
    """Listen for one broker. Raises: OSError, where the port is taken."""
    loop = asyncio.get_running_loop()
    links: set[asyncio.Task[None]] = set()

    async def lead_on(link: Link) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: link.broker, route.host, route.port)
        except (OSError, TimeoutError):
            link.abandon()
        else:
            link.begin()

    def accepted() -> asyncio.Protocol:
        link = Link(desk, route.node, lambda: task(link), route.exempt)
        return link.client

    def task(link: Link) -> None:
        made = loop.create_task(lead_on(link))
        links.add(made)
        made.add_done_callback(links.discard)

    await loop.create_server(accepted, route.bind, route.listen)


def perform(desk: Desk, command: Command) -> None:
    """Carry out a command that is not the first."""
    match command:
        case Add(rule):
            desk.book.add(rule)
        case Release(number):
            desk.release(number)
        case Lose(number):
            desk.lose(number)
        case Remove(number):
            desk.book.remove(number)
            desk.release(number)


async def serve() -> None:
    """Until standard input ends."""
    lines = await commands()
    decode = msgspec.json.Decoder(Command).decode
    first = decode(await lines.readline())
    assert isinstance(first, Routes)
    listening = {Address(route.bind, route.listen): route for route in first.routes}
    rewrite = Rewrite(
        {_address(route.advertised): own for own, route in listening.items() if route.advertised}
    )
    desk = Desk(lambda seen: tell(ProxyLine(seen=seen)), rewrite)
    if first.boot != boot():
        tell(ProxyLine(error=f"the proxy of the wire: {ELSEWHERE}"))
        return
    try:
        for route in first.routes:
            await accept(desk, route)
    except OSError as error:
        tell(ProxyLine(error=str(error)))
        return
    done = 1
    tell(ProxyLine(done=done))
    while line := await lines.readline():
        perform(desk, decode(line))
        done += 1
        tell(ProxyLine(done=done))


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def main() -> None:
    """See the module."""
    ignore_ctrl_c()
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
