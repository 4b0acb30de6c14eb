"""Proxies in front of brokers: toxiproxy, and the ones that know frames, for clients and between brokers.

Clients dial the first proxy at the advertised port. Where both stand, the wire's comes first. Each has one
listener a broker: a client that names the node which it means to reach (KIP-1242) reaches that one.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from core.capabilities import Toxic
from core.cluster import Address
from core.errors import ClusterError
from core.wire import Seen, WireRule
from harness.brokers import toxiproxy
from harness.brokers.addresses import LOOPBACK, Plan
from harness.brokers.peer_proxies import Between
from harness.wire.proxy import WireProxy
from harness.wire.proxy_main import ProxyRoute


class ProxiedBrokers:
    """`Linked`, `Wired`."""

    def __init__(
        self, ports: Plan, brokers: tuple[int, ...], elsewhere: Mapping[int, Address] | None = None
    ) -> None:
        """No proxy is asked for yet. elsewhere: where brokers listen that advertise no port of the plan."""
        self._ports = ports
        self._elsewhere = elsewhere or {}
        self.brokers = brokers
        self._toxiproxy = ""
        self._proxies: toxiproxy.ToxiproxyServer | None = None
        self._wired = False
        self._wire: WireProxy | None = None
        self._between: Between | None = None

    @property
    def wired(self) -> bool:
        """Whether the proxy that knows frames is asked for."""
        return self._wired

    def dialled(self, node: int) -> int:
        """Port of the proxy that clients dial before a broker: by its place among the brokers, for a cluster
        that the harness did not start may number them as it likes."""
        return self._ports.advertised(self.brokers.index(node) + 1)

    def behind_proxies(self, node: int) -> int:
        """Port of a broker's client listener: the advertised one, where no proxy is asked for."""
        proxied = self._toxiproxy or self._wired
        return self._ports.behind(node) if proxied else self._ports.advertised(node)

    def start_proxies(self) -> None:
        """Start those that were asked for. Raises: ClusterError."""
        if self._toxiproxy:
            self._proxies = self._start_toxiproxy()
        if self._wired:
            self._wire = self._start_wire()

    def stop_proxies(self) -> None:
        """End them; idempotent."""
        with ExitStack() as steps:
            if self._proxies is not None:
                steps.callback(self._proxies.stop)
                self._proxies = None
            if self._wire is not None:
                steps.callback(self._wire.stop)
                self._wire = None
            if self._between is not None:
                steps.callback(self._between.stop_all)

    def trouble_of_proxies(self) -> str:
        """Why one no longer works; "" = they do."""
        every = (self._proxies, self._wire, self._between)
        return next(filter(None, (one.trouble() for one in every if one)), "")

    async def use_proxies(self) -> None:
        """Find (or build, 20 s) toxiproxy; it is started with the cluster. Raises: ClusterError."""
        self._toxiproxy = toxiproxy.ensure()

    async def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics. Raises: ClusterError, where there are no proxies, or one refuses."""
        if self._proxies is None:
            raise ClusterError("the cluster was started without proxies")
        self._proxies.poison(nodes, toxics)

    async def cure(self, nodes: Sequence[int]) -> None:
        """Remove toxics. Raises: ClusterError, where one may still be in force."""
        if self._proxies is not None:
            self._proxies.cure(nodes)

    @property
    def wire(self) -> WireProxy:
        """The proxy that knows frames, between clients and all brokers. Raises: ClusterError, where there is
        none."""
        if self._wire is None:
            raise ClusterError("the cluster was started without a proxy of the wire")
        return self._wire

    async def use_wire(self) -> None:
        """Ask for the proxy that knows frames; before `start`."""
        self._wired = True

    async def rule(self, rules: Sequence[WireRule]) -> None:
        """Put rules in force. Raises: ClusterError."""
        for one in rules:
            if not one.between:
                self.wire.add(one)
            else:
                self.between.add(one)

    async def seen(self, number: int | None = None) -> tuple[Seen, ...]:
        """What rules did so far, one of them or all."""
        found = [] if self._wire is None else self._wire.seen(number)
        return tuple(found if self._between is None else [*found, *self._between.seen(number)])

    async def lift(self, numbers: Sequence[int] = ()) -> None:
        """Take rules back, and let go what they hold. Raises: ClusterError."""
        if self._wire is not None:
            for number in numbers or self._wire.numbers:
                self._wire.remove(number)
        if self._between is not None:
            self._between.lift(numbers)

    @property
    def between(self) -> Between:
        """The proxies between brokers. Raises: ClusterError, where there are none."""
        if self._between is None:
            raise ClusterError("the cluster was started without proxies between brokers")
        return self._between

    def _start_wire(self) -> WireProxy:
        behind = self._ports.between if self._toxiproxy else self._ports.behind

        def route(node: int, listen: int) -> ProxyRoute:
            if (broker := self._elsewhere.get(node)) is None:
                return ProxyRoute(node=node, listen=listen, host=LOOPBACK, port=behind(node))
            told = str(broker)
            return ProxyRoute(node=node, listen=listen, host=broker.host, port=broker.port, advertised=told)

        return WireProxy([route(node, self.dialled(node)) for node in self.brokers])

    def _start_toxiproxy(self) -> toxiproxy.ToxiproxyServer:
        dialled = self._ports.between if self._wired else self._ports.advertised
        routes = {node: toxiproxy.Route(dialled(node), self._ports.behind(node)) for node in self.brokers}
        return toxiproxy.ToxiproxyServer(self._toxiproxy, self._ports.toxiproxy, routes)
