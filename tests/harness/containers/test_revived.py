"""Nodes that are started again: a start that failed half-way is brought to its end by the next try."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from core.capabilities import Cut, Direction
from core.cluster import NodeEnd
from core.config import run_config
from core.errors import ClusterError
from core.runtime import run_blocking
from harness.brokers.node_ends import NodeEnds
from harness.containers.nodes import NodeContainer
from harness.kafka.cluster import KafkaCluster
from harness.kafka.kraft import KRaft
from history.evidence_tables import KILLED, LOST_POWER

if TYPE_CHECKING:
    from docker.models.containers import Container

ISOLATED = (Cut(node=1, direction=Direction.IN, peer=2), Cut(node=2, direction=Direction.IN, peer=1))


class Ended(NodeContainer):
    """A node that runs or does not, in no engine's container."""

    def __init__(self, number: int, exit_code: int = 137) -> None:
        self.number = number
        self.starts = 0
        self._exit_code = exit_code

    def start(self) -> "Ended":
        if not self.is_up():  # a running one is left alone
            self.starts += 1
        return self

    def is_up(self) -> bool:
        return self.starts > 0

    def exit_code(self) -> int:
        return 0 if self.is_up() else self._exit_code  # the engine says 0 of one that runs

    def host_pid(self) -> int:
        return 0

    def signal(self, number: int) -> None:
        if self.is_up():
            self.starts, self._exit_code = 0, 128 + number

    @property
    def own(self) -> "Container":
        return cast("Container", SimpleNamespace(wait=lambda: None))


class Planted(KafkaCluster):
    """A cluster whose tables and proxies fail as often as they are told to."""

    def plant(self, nodes: Sequence[Ended], tables: int, proxies: int) -> None:
        self._containers = {node.number: node for node in nodes}
        self.addresses.update({node.number: f"10.0.0.{node.number}" for node in nodes})
        self.failing = {"table": tables, "proxy": proxies}
        self.done: list[tuple[str, int]] = []

    def _did(self, what: str, node: int) -> None:
        if self.failing[what] > 0:
            self.failing[what] -= 1
            raise ClusterError(f"the {what} of node {node} failed")
        self.done.append((what, node))

    def _set_table(self, node: int, table: str) -> None:
        if self._containers[node].is_up():
            self._did("table", node)

    def _stand_between(self, made: NodeContainer) -> None:
        self._did("proxy", made.number)


class Evidence(KRaft):
    """Remembers of whom it took what lies on disk, and who of them had lost power."""

    def before_start(self, nodes: Sequence[NodeContainer], powerless: Collection[int] = ()) -> None:
        taken.append(([node.number for node in nodes], sorted(powerless)))

    def at_end(self, nodes: Sequence[NodeContainer], ended: Mapping[int, str] = MappingProxyType({})) -> None:
        assert not any(node.is_up() for node in nodes)
        at_end.append(dict(ended))


taken: list[tuple[list[int], list[int]]] = []
at_end: list[dict[int, str]] = []


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    config = run_config({"seed": 1})
    taken.clear()
    at_end.clear()
    cluster = Planted(config, tmp_path, Evidence(config, tmp_path))
    yield cluster
    run_blocking(cluster.stop())  # it has reserved ports


@pytest.mark.parametrize(("tables", "proxies"), [(1, 0), (0, 1), (1, 1), (0, 0)])
def test_a_node_that_was_started_without_its_cuts_or_its_proxy_gets_them_at_the_next_try(
    planted: Planted, tables: int, proxies: int
) -> None:
    nodes = [Ended(1), Ended(2)]
    planted.plant(nodes, tables, proxies)
    run_blocking(planted.cut(ISOLATED))
    planted._powerless.add(1)
    for _ in range(tables + proxies):
        with pytest.raises(ClusterError, match="node 1 failed"):
            run_blocking(planted.revive([1]))
    for _ in range(2):
        run_blocking(planted.revive([1]))
    assert [node.starts for node in nodes] == [1, 0]
    assert planted.done[-2:] == [("table", 1), ("proxy", 1)]
    assert planted.done.count(("proxy", 1)) == 1, "a whole node was changed"
    assert [one for one in taken if one[0]] == [([1], [1])]
    assert planted._powerless == set()


def test_a_node_that_no_kill_reached_ends_before_it_is_started_and_its_next_end_is_seen(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal of a kill that failed may still be on its way."""
    asked, healthy = nodes = [Ended(1), Ended(2)]
    planted.plant(nodes, 0, 0)
    planted._ends = NodeEnds(
        lambda: {node.number: "" for node in nodes if not node.is_up()},
        lambda number: NodeEnd(node=number, exit_code=1),
    )
    run_blocking(planted.revive([1, 2]))
    run_blocking(planted.ended())
    with monkeypatch.context() as engine:
        engine.setattr(Ended, "signal", raising)
        with pytest.raises(ClusterError, match="no answer"):
            run_blocking(planted.kill([1]))
    taken.clear()
    run_blocking(planted.revive([1, 2]))
    assert taken == [([1], [])], "a node that was to run on was ended, too"
    assert run_blocking(planted.ended()) == []
    asked.signal(6)
    assert [end.node for end in run_blocking(planted.ended())] == [1]
    assert (asked.is_up(), healthy.is_up()) == (False, True)


def raising(_: NodeContainer, _signal: int) -> None:
    raise ClusterError("no answer")


def test_at_the_end_it_is_known_who_was_down_before_and_how_those_had_ended(
    planted: Planted, tmp_path: Path
) -> None:
    ran, killed, powerless, in_order = nodes = [Ended(1), Ended(2), Ended(3), Ended(4, exit_code=143)]
    planted._nodes = (1, 2, 3, 4)
    planted.plant(nodes, 0, 0)
    ran.start()
    planted._powerless = {powerless.number, in_order.number}
    run_blocking(planted.take_evidence(tmp_path / "evidence"))
    assert at_end == [{killed.number: KILLED, powerless.number: LOST_POWER}]
