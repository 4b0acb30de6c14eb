"""Which cluster a scenario needs, and where those about replicas are not played."""

from pathlib import Path
from typing import Any

import pytest

from harness.contract import cluster
from harness.contract.cluster import compare
from harness.contract.versions import version_of
from scenarios.framework import SEVERAL_BROKERS


def needs(name: str) -> cluster.Needs:
    return cluster._needs(name, version_of("4.4.0"), apart=False)


def test_a_scenario_about_replicas_has_a_witness_beside_its_brokers() -> None:
    two, three, four = map(needs, ("fetch-after-produce", "isr-expansion", "caught-up-outside-isr"))
    assert two == three
    assert (three.replicas, four.replicas) == (4, 5)
    assert needs("reassignment").replicas == 5
    assert needs("sequences").replicas == 0


def test_scenarios_share_a_cluster_where_its_times_are_theirs() -> None:
    shorter, usual = dict(needs("min-isr").settings), dict(needs("isr-expansion").settings)
    assert {key for key in usual if shorter[key] != usual[key]} == {"replica.lag.time.max.ms"}


def started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka: str, *, model: bool = False
) -> tuple[list[str], dict[str, str]]:
    """Names of scenarios that would be played, with no broker at all, and why others cannot be."""
    played: list[str] = []

    class NoCluster:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def no_broker(*_: Any) -> Any:
        return NoCluster()

    monkeypatch.setattr(cluster, "kafka_broker", no_broker)
    monkeypatch.setattr(cluster, "kafka_replicas", no_broker)
    monkeypatch.setattr(cluster, "play_all", lambda names, *_: played.extend(names))
    start: Any = (lambda *_: NoCluster()) if model else no_broker
    names = ("sequences", "fetch-after-produce")
    found = compare(kafka, requests=0, seed=1, folder=tmp_path, say=lambda _: None, names=names, start=start)
    assert found.scenarios.skipped == []
    return played, found.scenarios.unplayable


@pytest.mark.parametrize("kafka", ["3.9.0", "4.4.0"])
def test_real_brokers_play_scenarios_about_replicas(
    kafka: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert started(monkeypatch, tmp_path, kafka) == (["sequences", "fetch-after-produce"], {})


def test_before_3_9_and_with_a_broker_of_the_model_they_are_not_played(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unplayable = {"fetch-after-produce": cluster.TOO_OLD}
    assert started(monkeypatch, tmp_path, "3.8.1") == (["sequences"], unplayable)
    unplayable = {"fetch-after-produce": SEVERAL_BROKERS}
    assert started(monkeypatch, tmp_path, "4.4.0", model=True) == (["sequences"], unplayable)
