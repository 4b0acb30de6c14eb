"""A real broker on a disk of bounded size, which becomes full, and has space again."""

import time
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer

from core.config import run_config
from core.runtime import run_blocking
from harness.containers.data import FILLER
from harness.containers.engine import leftovers
from harness.evidence.directory import read
from harness.kafka.cluster import KafkaCluster
from harness.kafka.system import kafka_cluster
from tests.docker.conftest import TOPIC, TP, roles_when, whole


def write(cluster: KafkaCluster) -> None:
    """A record to each partition, which is acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    for number in range(3):
        producer.produce(TOPIC, "written", partition=number)
    assert producer.flush(60) == 0


@pytest.mark.sampled(16)
def test_a_leader_without_space_ends_and_comes_back_with_what_it_had(tmp_path: Path) -> None:
    config = run_config({"seed": 1, "disk_mb": 96})
    cluster = cast("KafkaCluster", kafka_cluster(config, tmp_path / f"disks-{time.time_ns()}"))
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, 3, 3, {}))
        write(cluster)
        victim = whole(cluster).leaders[TP]
        run_blocking(cluster.fill_disks([victim], 30))
        assert cluster.full_disks() == (victim,)
        assert not run_blocking(cluster.ended())  # the harness had ended it
        roles_when(cluster, lambda r: r.leaders[TP] not in (victim, -1), 30, "another node leads")
        write(cluster)
        cluster.copy_data(victim, tmp_path / "full")
        assert not (tmp_path / "full" / FILLER).exists()
        assert read(tmp_path / "full", victim)["partitions"].num_rows > 3
        run_blocking(cluster.free_disks(cluster.nodes))
        assert cluster.full_disks() == ()
        run_blocking(cluster.revive([victim]))
        assert whole(cluster).isr[TP] == cluster.nodes
        write(cluster)
        assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == []
        assert sum("-disk-" in one for one in leftovers(cluster.run)) == len(cluster.brokers)
    finally:
        run_blocking(cluster.stop())
    assert leftovers(cluster.run) == []
