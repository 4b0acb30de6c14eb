"""Where proxies listen before brokers that the harness did not start."""

from typing import Any

import pytest

from core.cluster import Address
from core.runtime import run_blocking
from harness.brokers import proxies
from harness.brokers.addresses import LOOPBACK, reserve
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
