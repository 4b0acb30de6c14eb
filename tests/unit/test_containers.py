from typing import Any, cast

import pytest
from docker.errors import APIError

from harness.cluster.containers import Containers


class Api:
    """The engine as far as `Containers` signals and inspects; each node ends by what is in `ends`."""

    def __init__(self, ends: dict[str, str]) -> None:
        self.ends = ends
        self.up = set(ends)
        self.frozen: set[str] = set()
        self.signals: list[tuple[str, str]] = []

    def kill(self, node: str, signal: str) -> None:
        if node not in self.up:
            raise APIError(f"container {node} is not running")
        if node in self.frozen:
            raise APIError(f"container {node} is paused")
        self.signals.append((node, signal))
        if signal in (self.ends[node], "SIGKILL"):
            self.up.remove(node)

    def unpause(self, node: str) -> None:
        self.frozen.remove(node)

    def wait(self, node: str) -> None:
        assert node not in self.up

    def inspect_container(self, node: str) -> dict[str, Any]:
        return {"State": {"Running": node in self.up}}


def made(api: Api) -> Containers:
    class Client:
        pass

    client: Any = Client()
    client.api = api
    containers = Containers(cast(Any, client), "run")
    containers._ids = {int(node): node for node in api.ends}
    return containers


def test_who_ends_in_order_is_not_killed() -> None:
    api = Api({"1": "SIGTERM", "2": "SIGTERM"})
    made(api).shut_down([1, 2])
    assert sorted(api.signals) == [("1", "SIGTERM"), ("2", "SIGTERM")]


@pytest.mark.parametrize("allowed_s", [0.0, 0.3])
def test_who_does_not_end_is_killed_after_its_time(allowed_s: float) -> None:
    api = Api({"1": "SIGKILL"})
    made(api).shut_down([1], allowed_s)
    assert api.signals[-1] == ("1", "SIGKILL")
    assert ("1", "SIGTERM") in api.signals or allowed_s == 0
    assert not api.up


def test_a_frozen_one_is_thawed_and_an_ended_one_left_alone() -> None:
    api = Api({"1": "SIGTERM", "2": "SIGTERM"})
    api.frozen = {"1"}
    api.up = {"1"}
    made(api).shut_down([1, 2])
    assert api.signals == [("1", "SIGTERM")]
