"""Voters of a real metadata quorum, removed and added while it works."""

import time
from pathlib import Path
from typing import cast

import pytest

from core.config import run_config
from core.runtime import run_blocking
from harness.brokers.admin import broker_views, protocol
from harness.kafka.cluster import KafkaCluster
from harness.kafka.system import kafka_cluster
from tests.docker.conftest import TOPIC, roles_when, whole
from tests.waiting import until


def voters(cluster: KafkaCluster) -> set[tuple[int, ...]]:
    """Who votes, as the brokers say."""
    answers = broker_views.ask_all(cluster.admin, protocol.quorum)
    return {tuple(sorted(int(one.replica_id) for one in it.current_voters)) for it in answers.values()}


@pytest.mark.sampled(10)
def test_the_controller_votes_no_more_and_then_again(tmp_path: Path) -> None:
    """Another one is elected; its process runs on; both requests may be repeated, also at once."""
    config = run_config({"seed": 1, "quorum": "dynamic"})
    cluster = cast("KafkaCluster", kafka_cluster(config, tmp_path / f"quorum-{time.time_ns()}"))
    try:
        run_blocking(cluster.start())
        until(lambda: voters(cluster) == {(1, 2, 3)}, "all vote", 30)
        run_blocking(cluster.create_topic(TOPIC, 3, 3, {}))
        first = whole(cluster).controller
        others = tuple(node for node in (1, 2, 3) if node != first)
        for _ in range(2):
            run_blocking(cluster.remove_voter(first, 20))
        assert cluster.removed_voters() == (first,)
        roles_when(cluster, lambda r: r.controller in others, 30, "another node is controller")
        until(lambda: voters(cluster) == {others}, "the others vote", 30)
        run_blocking(cluster.kill([first]))
        run_blocking(cluster.revive([first]))
        assert whole(cluster).controller in others
        for _ in range(2):
            run_blocking(cluster.add_voters([first], 30))
        assert cluster.removed_voters() == ()
        until(lambda: voters(cluster) == {(1, 2, 3)}, "all vote", 30)
        run_blocking(cluster.kill([others[0]]))
        roles_when(cluster, lambda r: r.controller in (first, others[1]), 30, "it counts for a majority")
        run_blocking(cluster.revive([others[0]]))
        whole(cluster)
        assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == []
    finally:
        run_blocking(cluster.stop())
