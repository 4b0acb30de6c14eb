"""Topics that get further partitions: what is asked for, and who is told."""

import pytest

from core.errors import ClusterError
from core.op import TopicPartition
from core.runtime import run_blocking
from nemesis.execute import heal
from nemesis.types import NoEffect
from tests.nemesis.stage import DATA, Recording, RecordingClients, stage_of
from tests.nemesis.test_restart import hit

NAME = "add-partitions:all"


def test_each_topic_gets_partitions_and_then_clients_are_told() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    stage = stage_of(cluster, clients)
    injected = hit(cluster, NAME, stage=stage)
    assert injected.tps == tuple(TopicPartition("q", len(DATA) + n) for n in range(len(injected.tps)))
    assert set(injected.tps) <= set(cluster.order)
    assert tuple(clients.grown) == injected.tps
    assert injected.text == f"topics got {4 + len(injected.tps)} partitions: q (it had 4)"
    run_blocking(heal(stage, injected))
    assert set(injected.tps) <= set(cluster.order)


def test_clients_are_told_nothing_where_nobody_leads_the_new_partitions() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    cluster.unled = True
    with pytest.raises(NoEffect, match="no node leads q-4"):
        hit(cluster, NAME, stage=stage_of(cluster, clients))
    assert clients.grown == []


def test_what_the_controller_refuses_is_told() -> None:
    cluster = Recording(3, replication=3)
    cluster.broken |= {("add_partitions", 5), ("add_partitions", 6)}
    with pytest.raises(ClusterError):
        hit(cluster, NAME)
