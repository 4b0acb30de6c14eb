"""Offsets of a group without members are gone after `offsets.retention.minutes`, which a run may not set."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from core.config import run_config
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from tests.docker.test_java_tools import committed, of_group
from tests.waiting import until

TP = TopicPartition("kept", 0)
RETENTION_S = 60.0
LATE_S = 30.0
ONE = {"seed": 1, "brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
SETTINGS = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ContainerCluster]:
    """One broker that keeps offsets for a minute."""
    folder = tmp_path / f"expire-{time.time_ns()}"
    cluster = kafka_cluster(run_config({**ONE, "broker_settings": SETTINGS}), folder)
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TP.topic, 1, 1, {}))
        yield cluster
    finally:
        run_blocking(cluster.stop())


def member(cluster: ContainerCluster, group: str) -> Consumer:
    """A member that owns the partition and has committed offset 7."""
    made = Consumer(of_group(cluster, group))
    made.subscribe([TP.topic])

    def owns() -> bool:
        made.poll(0.1)
        return bool(made.assignment())

    until(owns, "the member owns the partition", 60)
    made.commit(offsets=[ClientPartition(TP.topic, TP.partition, 7)], asynchronous=False)
    return made


@pytest.mark.sampled(20)
def test_offsets_of_a_group_without_members_expire_and_those_of_a_living_one_do_not(
    alone: ContainerCluster,
) -> None:
    def has(group: str) -> str:
        return committed(alone, group, [TP])[TP]

    living = member(alone, "living")
    try:
        leaving = member(alone, "left")
        left = time.monotonic()
        leaving.close()
        assert (has("living"), has("left")) == ("7", "7")
        until(lambda: has("left") == "-", "the offset expired", RETENTION_S + LATE_S)
        assert time.monotonic() - left >= RETENTION_S
        assert has("living") == "7"
    finally:
        living.close()
