"""Brokers on ZooKeeper: the controller is elected there, and ZooKeeper's node is one that faults can hit."""

import time
from pathlib import Path

import pytest

from checkers.logs.orders import orders_of
from core.config import run_config
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.containers import engine
from harness.kafka.system import kafka_cluster
from history.evidence import Evidence
from history.evidence_tables import LEADER_AND_ISR
from history.run_folder import Run
from tests.docker.conftest import roles_when, whole

TP = TopicPartition("t", 0)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("version", ["0.11.0.3", "2.8.2"])
def test_a_controller_that_dies_is_followed_and_zookeeper_may_die_too(tmp_path: Path, version: str) -> None:
    run = Run(tmp_path / f"docker-tests-{time.time_ns()}")
    cluster = kafka_cluster(run_config({"seed": 1, "kafka": version, "capture": True}), run.folder)
    try:
        run_blocking(cluster.start())
        assert (cluster.nodes, cluster.brokers) == ((1, 2, 3, 4), (1, 2, 3))
        run_blocking(cluster.create_topic("t", 6, 3, {}))
        before = whole(cluster, "t")
        first = before.controller
        led = {tp for tp, leader in before.leaders.items() if tp.topic == "t" and leader == first}
        run_blocking(cluster.kill([first]))
        later = roles_when(cluster, lambda now: now.controller not in (-1, first), 30, "another controller")
        assert later.controller in cluster.brokers
        run_blocking(cluster.revive([first]))
        whole(cluster, "t")

        run_blocking(cluster.kill([4]))
        assert run_blocking(cluster.offsets([TP], Isolation.READ_COMMITTED)) == {TP: (0, 0)}  # brokers serve
        run_blocking(cluster.revive([4]))
        run_blocking(cluster.shut_down([later.controller]))
        roles_when(cluster, lambda now: now.controller not in (-1, later.controller), 30, "sessions live on")
        assert run_blocking(cluster.take_evidence(run.evidence)) == []
        run_blocking(cluster.collect(run.cluster))
        assert "ZooKeeper" in (run.cluster / "4" / "server.log").read_text()
    finally:
        run_blocking(cluster.stop())
    assert engine.leftovers(cluster.run) == []
    found = Evidence.load(run.evidence)
    assert len(led) == 2
    others = {1, 2, 3} - {first, later.controller}
    assert told_of_successors(found, led, first) == dict.fromkeys(others, led)
    takes = found.table("takes").to_pylist()
    assert [(row["take"], row["node"]) for row in takes][-3:] == [(1, 1), (1, 2), (1, 3)]


def told_of_successors(
    found: Evidence, led: set[TopicPartition], dead: int
) -> dict[int, set[TopicPartition]]:
    """Of which partitions that a dead broker led the first LeaderAndIsr with another leader speaks, by the
    broker that it is for."""
    told: dict[int, set[TopicPartition]] = {}
    for order in orders_of(found):
        named = {its.tp for its in order.states if its.leader not in (dead, -1, None)} & led
        if order.api == LEADER_AND_ISR and order.broker != dead and named:
            told.setdefault(order.broker, named)
    return told
