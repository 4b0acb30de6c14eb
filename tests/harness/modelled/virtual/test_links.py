"""Bad links of clients in simulated runs: they bite, no check takes them for a fault of the cluster, and
where there are none they change nothing."""

import random
from typing import Any

import pytest

from core.config import RunConfig, run_config
from harness.explore.profile import BASE
from harness.explore.trial import judged
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.network import Network, VirtualConnection
from harness.modelled.virtual.run import Simulated, simulate
from history.events import FaultHealed, FaultStarted
from history.journal_rows import rows_of
from nemesis.families.links import LINKS

SLOWER = {"latency": 150.0, "bandwidth": 10.0, "slicer": 2.0, "timeout": 500.0, "reset": 500.0}
"""So many milliseconds are added at least to the op that sends, at the lower quartile. Under `limit` most ops
are as fast as ever: only every few answers break the connection."""
BREAKING = ("timeout", "reset", "limit")


def config(workload: str, nemesis: str, seed: int) -> RunConfig:
    return run_config({**BASE, "workload": workload, "nemesis": nemesis, "seed": seed})


def op_ms(done: Simulated) -> tuple[float, float]:
    """Lower quartile of ops that sent, in milliseconds: invoked under a fault, and at other times."""
    starts = {e.fault: e.ns for e in done.events if isinstance(e, FaultStarted)}
    ends = {e.fault: e.begin_ns for e in done.events if isinstance(e, FaultHealed)}
    hurt: list[int] = []
    calm: list[int] = []
    for op in rows_of(done.journals).tables()["ops"].to_pylist():
        if op["n_sends"]:
            began = op["invoke_ns"]
            under = any(starts[fault] <= began < ends[fault] for fault in starts)
            (hurt if under else calm).append(op["complete_ns"] - began)
    return sorted(hurt)[len(hurt) // 4] / 1e6, sorted(calm)[len(calm) // 4] / 1e6


@pytest.fixture
def severed(monkeypatch: pytest.MonkeyPatch) -> list[VirtualConnection]:
    """Connections that proxies closed."""
    found: list[VirtualConnection] = []
    sever = Network.sever

    def noting(network: Network, connection: VirtualConnection, wait: int) -> None:
        found.append(connection)
        sever(network, connection, wait)

    monkeypatch.setattr(Network, "sever", noting)
    return found


@pytest.mark.sampled(14)
@pytest.mark.parametrize("workload", ["queue", "transactions"])
@pytest.mark.parametrize("kind", LINKS.kinds)
def test_clients_suffer_and_nothing_is_wrong(
    severed: list[VirtualConnection], workload: str, kind: str
) -> None:
    done = simulate(config(workload, f"links:{kind}@all", 5))
    assert judged(done).failures == []
    hurt, calm = op_ms(done)
    if kind in SLOWER:
        assert hurt > calm + SLOWER[kind]
    if kind in BREAKING:
        assert len(severed) > 10
    else:
        assert not severed


@pytest.mark.sampled(16)
def test_the_same_config_is_the_same_run() -> None:
    made = config("transactions", "links", 4)
    first, second = simulate(made), simulate(made)
    assert first.journals == second.journals
    assert first.calls == second.calls


@pytest.mark.sampled(13)
def test_without_toxics_a_run_is_as_if_there_were_no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    made = config("transactions", "partition,kill", 5)
    done = simulate(made)
    draws = done.cluster._proxies._rng
    assert draws.getstate() == random.Random("5/toxics").getstate()

    begin = SimulatedCluster.__init__

    def bare(cluster: SimulatedCluster, *given: Any) -> None:
        begin(cluster, *given)
        cluster.network.proxies.clear()

    monkeypatch.setattr(SimulatedCluster, "__init__", bare)
    without = simulate(made)
    assert without.journals == done.journals
    assert without.events == done.events
    assert without.calls == done.calls
