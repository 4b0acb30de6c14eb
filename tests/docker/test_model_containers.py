"""Brokers of the model in containers: faults of Kafka's containers hit them, and what they leave is read."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from core.capabilities import Cut, Direction
from core.config import run_config
from core.internal_topics import TRANSACTION_TOPIC
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from core.wire import Action, Seen, WireRule
from harness.clients.librdkafka.settings import of_librdkafka
from harness.containers.cluster import ContainerCluster
from harness.modelled.real.deployment import model_containers
from history import evidence_tables
from tests.waiting import until

TP = TopicPartition("kept", 0)
MARKED = [TopicPartition("marked", number) for number in range(3)]
WAIT_S = 60.0
RECORDS = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ContainerCluster]:
    folder = tmp_path / f"model-containers-{time.time_ns()}"
    made = model_containers(run_config({"sut": "model", "seed": 1, "containers": True}), folder)
    try:
        run_blocking(made.use_wire_between())
        run_blocking(made.start())
        run_blocking(made.create_topic(TP.topic, 1, 3, {}))
        run_blocking(made.create_topic(MARKED[0].topic, len(MARKED), 3, {}))
        yield made
    finally:
        run_blocking(made.stop())


def leader(cluster: ContainerCluster) -> int:
    return run_blocking(cluster.roles()).leaders.get(TP, -1)


def whole(cluster: ContainerCluster) -> bool:
    roles = run_blocking(cluster.roles())
    return roles.agreed and set(roles.isr.get(TP, ())) == {1, 2, 3}


def send(cluster: ContainerCluster) -> int:
    """Send records; how many were acknowledged."""
    made = Producer({**of_librdkafka(cluster.endpoint().args), "enable.idempotence": True, "linger.ms": 0})
    acked: list[object] = []
    for number in range(RECORDS):
        made.produce(TP.topic, f"{number}", partition=0, on_delivery=lambda error, _: acked.append(error))
    made.flush(WAIT_S)
    return acked.count(None)


def end(cluster: ContainerCluster) -> int:
    return run_blocking(cluster.offsets([TP], Isolation.READ_COMMITTED)).get(TP, (-1, -1))[1]


def replaces_leaders(cluster: ContainerCluster) -> None:
    """A leader is replaced where it is cut off or paused; a kill of all brokers loses nothing."""
    assert send(cluster) == RECORDS
    alone = leader(cluster)
    others = [node for node in cluster.nodes if node != alone]
    cuts = [Cut(node=alone, direction=way, peer=peer) for peer in others for way in Direction]
    run_blocking(cluster.cut(cuts))
    until(lambda: leader(cluster) not in (-1, alone), "another leader after the cut", WAIT_S)
    run_blocking(cluster.mend(cuts))
    until(lambda: whole(cluster), "all replicas in sync", WAIT_S)
    paused = leader(cluster)
    run_blocking(cluster.pause([paused]))
    until(lambda: leader(cluster) not in (-1, paused), "another leader after the pause", WAIT_S)
    run_blocking(cluster.resume([paused]))
    run_blocking(cluster.kill(cluster.nodes))
    run_blocking(cluster.revive(cluster.nodes))
    until(lambda: whole(cluster), "all replicas in sync", WAIT_S)
    assert end(cluster) == RECORDS


def loses_what_was_not_flushed(cluster: ContainerCluster) -> None:
    """Where all brokers lose power."""
    assert send(cluster) == RECORDS
    before = end(cluster)
    assert run_blocking(cluster.lose_power(cluster.nodes))
    run_blocking(cluster.revive(cluster.nodes))
    until(lambda: whole(cluster), "all replicas in sync", WAIT_S)
    assert end(cluster) < before


def delays_markers(cluster: ContainerCluster) -> None:
    """Markers that a rule holds between brokers: their partitions are unstable until it lets them go."""
    tid = "held"
    made = Producer({**of_librdkafka(cluster.endpoint().args), "transactional.id": tid, "log_level": "0"})
    made.init_transactions(WAIT_S)
    roles = run_blocking(cluster.roles())
    coordinator = roles.coordinator(TRANSACTION_TOPIC, tid)
    away = {tp for tp in MARKED if roles.leaders[tp] != coordinator}
    assert away
    run_blocking(
        cluster.rule([WireRule(number=1, api="write_txn_markers", action=Action.HOLD, times=0, between=True)])
    )
    made.begin_transaction()
    for tp in MARKED:
        made.produce(tp.topic, b"x", partition=tp.partition)
    made.commit_transaction(WAIT_S)

    def unstable() -> set[TopicPartition]:
        committed = run_blocking(cluster.offsets(MARKED, Isolation.READ_COMMITTED))
        return {tp for tp in MARKED if committed.get(tp, (0, 0))[1] < 2}  # the record and its marker

    def seen(what: str) -> list[Seen]:
        return [one for one in run_blocking(cluster.seen(1)) if one.what == what]

    def named() -> set[str]:
        return {name for one in seen("caught") for name in one.named.split(", ")}

    until(lambda: named() >= {str(tp) for tp in away}, "all markers are held", WAIT_S)
    assert any(name.startswith("producer ") for name in named())
    assert unstable() >= away
    run_blocking(cluster.lift([1]))
    until(lambda: not unstable(), "all markers are written", WAIT_S)
    until(lambda: len(seen("answered")) == len(seen("caught")), "the leaders answer", WAIT_S)
    assert {one.error for one in seen("answered")} == {0}


@pytest.mark.sampled(10)
def test_faults_of_containers_hit_the_models_brokers_and_evidence_shows_it(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    delays_markers(cluster)
    replaces_leaders(cluster)
    loses_what_was_not_flushed(cluster)
    assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == []
    takes = pq.read_table(tmp_path / "evidence" / "takes.parquet").to_pylist()
    assert {one["why"] for one in takes} == {
        evidence_tables.KILLED,
        evidence_tables.LOST_POWER,
        evidence_tables.END,
    }
    batches = pq.read_table(tmp_path / "evidence" / "batches.parquet").to_pylist()
    assert any(one["topic"] == TP.topic for one in batches)
