"""Where proxies listen before brokers that the harness did not start; what proxies between brokers keep."""

from typing import Any

import pytest

from core.capabilities import Listener
from core.cluster import Address
from core.errors import ClusterError
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.brokers import peer_proxies, proxies
from harness.brokers.addresses import LOOPBACK, reserve
from harness.brokers.peer_proxies import Between
from harness.brokers.proxies import ProxiedBrokers
from harness.wire.proxy_main import ProxyRoute


@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 1, 2), (0, 101, 2_000_000)])
def test_each_broker_has_a_proxy_of_its_own_whatever_its_number(
    numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ProxyRoute] = []

    def proxy(routes: list[ProxyRoute]) -> Any:
        started.extend(routes)

    monkeypatch.setattr(proxies, "WireProxy", proxy)
    listeners = {node: Address("broker.example.net", 9092 + place) for place, node in enumerate(numbers)}
    plan = reserve()
    try:
        brokers = ProxiedBrokers(plan, numbers, listeners)
        run_blocking(brokers.use_wire())
        brokers.start_proxies()
        assert [route.node for route in started] == list(numbers)
        assert [route.listen for route in started] == [plan.advertised(place) for place in (1, 2, 3)]
        assert [brokers.dialled(node) for node in numbers] == [route.listen for route in started]
        assert {route.advertised for route in started} == set(map(str, listeners.values()))
        assert {(route.host, route.bind) for route in started} == {("broker.example.net", LOOPBACK)}
    finally:
        plan.release()


class StandingProxy:
    """Of one node; `did` has what was asked of it."""

    def __init__(self, routes: list[ProxyRoute], _: object) -> None:
        (self.route,) = routes
        self.did: list[tuple[str, int]] = []

    @property
    def numbers(self) -> list[int]:
        return [number for what, number in self.did if what == "add"]

    def add(self, rule: WireRule) -> None:
        self.did.append(("add", rule.number))

    def release(self, number: int) -> None:
        self.did.append(("release", number))

    def lose(self, number: int) -> None:
        self.did.append(("lose", number))

    def remove(self, number: int) -> None:
        self.did.append(("remove", number))

    def stop(self) -> None: ...


class NoProgram:
    def remove(self) -> None: ...


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> list[StandingProxy]:
    """All that were started, the oldest first."""
    made: list[StandingProxy] = []

    def proxy(routes: list[ProxyRoute], program: object) -> Any:
        made.append(StandingProxy(routes, program))
        return made[-1]

    monkeypatch.setattr(peer_proxies, "WireProxy", proxy)
    return made


def held(number: int, *nodes: int, times: int = 0) -> WireRule:
    return WireRule(number=number, api="fetch", action=Action.HOLD, nodes=nodes, times=times, between=True)


def test_a_node_that_starts_again_gets_the_rules_that_take_every_request(
    standing: list[StandingProxy],
) -> None:
    between = Between(frozenset({Listener.BROKER, Listener.CONTROLLER}))
    program: Any = lambda _: NoProgram()  # noqa: E731
    between.stand(1, program, "10.0.0.1", [Listener.BROKER])
    between.stand(4, program, "10.0.0.4", [Listener.CONTROLLER])
    assert [(one.route.listen, one.route.port) for one in standing] == [(9092, 9096), (9093, 9097)]
    for rule in (held(7, 1), held(8, 4), held(9, 1, times=3), held(10, 1)):
        between.add(rule)
    between.lift([10])
    between.stand(1, program, "10.0.0.1", [Listener.BROKER])
    assert standing[2].did == [("add", 7)]
    between.release(7)
    between.lose(8)
    assert standing[2].did == [("add", 7), ("release", 7)]
    assert standing[1].did == [("add", 8), ("lose", 8)]
    with pytest.raises(ClusterError, match="between node 2"):
        between.add(held(11, 2))
