"""Proxies between nodes in containers: one in the network of each broker, at the port that others dial, and
before controllers where that is asked for.

It runs in a sidecar container: the user need not be root. Addresses and firewall rules stay as they
are, since a proxy dials only its own broker, on the loopback of that network. What a broker sends to itself
passes by all rules. A container that is started again has a new network, and gets a new proxy: what the old
one held is lost, as its connections are; rules that take every request (`times` 0) are in force there, too.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from core.capabilities import Listener
from core.errors import ClusterError
from core.wire import Seen, WireRule
from harness.brokers.addresses import BEHIND, PORTS
from harness.processes.child import Program
from harness.wire.proxy import WireProxy
from harness.wire.proxy_main import ProxyRoute
from harness.wire.proxy_main import __name__ as PROGRAM


class Beside(Program, Protocol):
    """A program in the network of a broker."""

    def remove(self) -> None:
        """Remove what it runs in, which ends it; idempotent. Raises: ClusterError."""


class Between:
    """The proxies of one cluster. listeners: those that other nodes reach through them."""

    def __init__(self, listeners: frozenset[Listener] = frozenset({Listener.BROKER})) -> None:
        self.listeners = listeners
        self._lasting: dict[int, WireRule] = {}
        self._standing: dict[int, WireProxy] = {}
        self._sidecars: dict[int, Beside] = {}
        self._stopped: list[WireProxy] = []

    def stand(
        self, node: int, start: Callable[[str], Beside], address: str, listeners: Collection[Listener]
    ) -> None:
        """Start the proxy of a node that was started, before these listeners of its. start: a module in the
        node's network. address: of the node in it. Raises: ClusterError."""
        self.stop(node)
        routes = [
            ProxyRoute(
                node=node,
                bind=address,
                listen=PORTS[listener],
                host="127.0.0.1",
                port=BEHIND[listener],
                exempt=address,
            )
            for listener in sorted(listeners)
        ]
        self._sidecars[node] = sidecar = start(PROGRAM)
        self._standing[node] = WireProxy(routes, sidecar)
        for rule in self._lasting.values():
            if node in rule.nodes:
                self._standing[node].add(rule)

    def stop(self, node: int) -> None:
        """End the proxy of a broker, and remove its container. No-op where none stands. Raises: ClusterError,
        where the engine does not do it."""
        if (proxy := self._standing.pop(node, None)) is not None:
            proxy.stop()
            self._stopped.append(proxy)
        if (sidecar := self._sidecars.pop(node, None)) is not None:
            sidecar.remove()

    def stop_all(self) -> None:
        """End all of them; idempotent. Their containers are removed with the run's others."""
        self._stopped += self._standing.values()
        for proxy in self._standing.values():
            proxy.stop()
        self._standing.clear()

    def add(self, rule: WireRule) -> None:
        """Put a rule in force before the brokers that it names. Raises: ClusterError."""
        if not rule.times:
            self._lasting[rule.number] = rule
        for node in rule.nodes or tuple(self._standing):
            if node not in self._standing:
                raise ClusterError(f"no proxy stands between node {node} and other brokers")
            self._standing[node].add(rule)

    def seen(self, number: int | None) -> list[Seen]:
        """What rules did so far, one of them or all, the oldest first."""
        proxies = (*self._stopped, *self._standing.values())
        return sorted((one for proxy in proxies for one in proxy.seen(number)), key=lambda one: one.ns)

    def release(self, number: int) -> None:
        """Let go what a rule holds, which stays in force. Raises: ClusterError."""
        for proxy in self._with(number):
            proxy.release(number)

    def lose(self, number: int) -> None:
        """What a rule holds never arrives; the rule stays in force. Raises: ClusterError."""
        for proxy in self._with(number):
            proxy.lose(number)

    def _with(self, number: int) -> list[WireProxy]:
        """The proxies that have a rule."""
        return [proxy for proxy in self._standing.values() if number in proxy.numbers]

    def lift(self, numbers: Sequence[int]) -> None:
        """Take rules back (none given: all), and let go what they hold. Raises: ClusterError."""
        for number in numbers or tuple(self._lasting):
            self._lasting.pop(number, None)
        for proxy in self._standing.values():
            for number in proxy.numbers:
                if not numbers or number in numbers:
                    proxy.remove(number)

    def trouble(self) -> str:
        """Why one no longer works; "" = they do."""
        return next(filter(None, (proxy.trouble() for proxy in self._standing.values())), "")
