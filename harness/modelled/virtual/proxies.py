"""What stands between clients and the brokers' client listeners, when their links are bad: the proxies.

    proxies = Proxies(network, scheduler, rng)
    proxies.poison(nodes, toxics)         # new connections and those that exist
    proxies.cure(nodes)                   # held messages continue at once

A proxy holds a message until its toxics let it through, and then gives it to the network; each direction
keeps its order. When a toxic closes a connection the client learns of it soon after; what the proxy has taken
until then still arrives, so that a broker may carry out a request whose answer never arrives. Messages
between nodes, and the harness's own looks, do not go through proxies. Without toxics nothing is held or
drawn.
"""

import random
from collections import deque
from collections.abc import Sequence

from core.capabilities import Listener, Toxic
from core.errors import ClusterError
from harness.modelled.virtual.network import CLIENTS, DELAY_US, Message, Network, VirtualConnection
from harness.modelled.virtual.scheduler import Scheduler
from harness.modelled.virtual.toxics import STAGES, Pipe, size_of


class Proxies:
    """See the module."""

    def __init__(self, network: Network, scheduler: Scheduler, rng: random.Random) -> None:
        self._network = network
        self._scheduler = scheduler
        self._rng = rng
        self._toxics: dict[int, list[Toxic]] = {}
        self._pipes: dict[VirtualConnection, dict[bool, Pipe]] = {}

    # ---- what nemeses do

    def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics to all connections of clients to these nodes.

        Raises: ClusterError, where there is no such type; nothing is added then.
        """
        unknown = [toxic.type for toxic in toxics if toxic.type not in STAGES]
        if unknown:
            raise ClusterError(f"no toxic is called {unknown[0]}")
        for node in nodes:
            for connection in self._network.to(node):
                if _proxied(connection):
                    pipes = self._pipes_of(connection)  # with the toxics so far
                    self._add(connection, pipes, toxics)
            self._toxics.setdefault(node, []).extend(toxics)
        if self._takes not in self._network.proxies:
            self._network.proxies.append(self._takes)

    def cure(self, nodes: Sequence[int]) -> None:
        """Take all toxics of these nodes back. Held messages continue; connections that have lost something
        are closed."""
        for node in nodes:
            self._toxics.pop(node, None)
        for connection in [c for c in self._pipes if c.server in nodes]:
            pipes = self._pipes.pop(connection)
            for pipe in pipes.values():
                held, pipe.held = pipe.held, deque()
                for message in held:
                    self._network.carry(message)
            if any(pipe.closes_when_cured for pipe in pipes.values()):
                self._sever(connection, 0)
        if not (self._toxics or self._pipes) and self._takes in self._network.proxies:
            self._network.proxies.remove(self._takes)

    # ---- messages

    def _takes(self, message: Message) -> bool:
        """See `Network`."""
        connection = message.connection
        if not _proxied(connection):
            return False
        if connection.server not in self._toxics and connection not in self._pipes:
            return False
        pipe = self._pipes_of(connection)[message.request is None]
        comes = pipe.take(self._scheduler.now, size_of(message.content))
        if comes is not None:
            pipe.held.append(message)
            self._scheduler.at(comes, self._come, pipe, message)
        self._watch(connection, pipe)
        return True

    def _come(self, pipe: Pipe, message: Message) -> None:
        if pipe.held and pipe.held[0] is message:  # else it continued when the link was cured
            pipe.held.popleft()
            self._network.carry(message)

    def _pipes_of(self, connection: VirtualConnection) -> dict[bool, Pipe]:
        pipes = self._pipes.get(connection)
        if pipes is None:
            pipes = {there: Pipe(self._rng) for there in (True, False)}
            self._pipes[connection] = pipes
            self._add(connection, pipes, self._toxics.get(connection.server, ()))
        return pipes

    def _add(self, connection: VirtualConnection, pipes: dict[bool, Pipe], toxics: Sequence[Toxic]) -> None:
        for toxic in toxics:
            pipe = pipes[not toxic.downstream]
            pipe.add(toxic, self._scheduler.now)
            self._watch(connection, pipe)

    # ---- ends

    def _watch(self, connection: VirtualConnection, pipe: Pipe) -> None:
        if pipe.closes is not None:
            self._scheduler.at(pipe.closes, self._look, connection, pipe)

    def _look(self, connection: VirtualConnection, pipe: Pipe) -> None:
        """Whether a toxic closes the connection now."""
        pipes = self._pipes.get(connection)
        if pipes is None or pipe.closes is None or pipe.closes > self._scheduler.now:
            return
        # The server's end was closed: what it had answered comes first.
        comes_first = pipes[False].last if pipe is pipes[True] else 0
        self._sever(connection, max(0, comes_first - self._scheduler.now))

    def _sever(self, connection: VirtualConnection, wait: int) -> None:
        if not (connection.severed or connection.ended):
            self._network.sever(connection, wait + self._rng.randint(*DELAY_US))


def _proxied(connection: VirtualConnection) -> bool:
    return connection.client == CLIENTS and connection.listener is Listener.CLIENT and connection.process >= 0
