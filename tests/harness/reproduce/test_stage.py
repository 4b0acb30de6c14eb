"""How the stage of the schedules takes a partition from its coordinator."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.cluster import Roles
from core.errors import ConfigError
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from harness.reproduce.cluster import StagedCluster
from harness.reproduce.stage import Deaths, FiveBrokers


@pytest.mark.parametrize(
    ("deaths", "wanted"),
    [
        (Deaths.KILL, ["kill 1"]),
        (Deaths.SHUTDOWN, ["shut_down [1]"]),
        (Deaths.ELECTION, ["reorder (2, 1, 3)", "elect_preferred"]),
    ],
)
def test_only_an_election_leaves_every_broker_running(deaths: Deaths, wanted: list[str]) -> None:
    done: list[str] = []

    def noted(said: str) -> Callable[[object], Awaitable[None]]:
        async def act(given: object) -> None:
            done.append(said.format(given))

        return act

    cluster = SimpleNamespace(shut_down=noted("shut_down {}"), elect_preferred=noted("elect_preferred"))
    stage = SimpleNamespace(
        cluster=cluster,
        deaths=deaths,
        a=1,
        b=2,
        c=3,
        log=TopicPartition("log", 0),
        kill=lambda node: done.append(f"kill {node}"),
        reorder=lambda tp, nodes: done.append(f"reorder {nodes}"),
        leads=lambda node, tp: done.append(f"broker {node} leads"),
    )
    FiveBrokers.hand_over(cast(FiveBrokers, stage), 1, 2)
    assert done == [*wanted, "broker 2 leads"]


def test_what_an_attempt_left_in_force_is_lifted_before_the_cluster_is_healed() -> None:
    done: list[str] = []

    async def lift() -> None:
        done.append("lift")

    async def roles() -> Roles:
        return Roles(ns=0, agreed=True)

    cluster = SimpleNamespace(lift=lift, roles=roles)
    stage = SimpleNamespace(cluster=cluster, heal=lambda: done.append("heal"))
    StagedCluster.restore(cast(StagedCluster, stage))
    assert done == ["lift", "heal"]


@pytest.mark.parametrize(
    ("version", "controllers", "sixth"), [("4.3.1", 1, "controller-6"), ("2.8.2", 0, "zookeeper-6")]
)
def test_the_sixth_node_is_what_the_version_has(
    version: str, controllers: int, sixth: str, tmp_path: Path
) -> None:
    """Where a controller is asked for, a node of ZooKeeper is taken for it, and its disk for that of a
    broker."""
    cluster = FiveBrokers(version, tmp_path / "a-run", print).cluster
    try:
        assert cluster._config.controllers == controllers
        brokers = {node: f"broker-{node}" for node in range(1, 6)}
        assert cluster.deployment.names == {**brokers, 6: sixth}
    finally:
        cluster._plan.release()


def test_a_stage_that_its_deployment_cannot_have_is_refused(tmp_path: Path) -> None:
    config = {"kafka": "2.8.2", "controllers": 1}
    with pytest.raises(ConfigError, match="have no isolated controllers"):
        StagedCluster(config, tmp_path / "a-run", print, wire=False, between=False)


def test_the_log_of_transactions_is_named_with_the_first_transactional_producer(tmp_path: Path) -> None:
    said: list[str] = []
    stage = FiveBrokers("4.4.0", tmp_path / "a-run", said.append)
    try:
        stage._logs = 1
        for name in ("one", "two"):
            assert stage.producer(name, 4).transactional_id == f"{name}-0"
    finally:
        stage.cluster._plan.release()
    assert [line for line in said if TRANSACTION_TOPIC in line] == [
        f"A, B and C have {TRANSACTION_TOPIC}-0, the log of its transactions; A leads it"
    ]
