"""Nodes of brokers on ZooKeeper, and of ZooKeeper: numbers, names, settings."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from core.capabilities import (
    Deletable,
    Electable,
    Growable,
    Listener,
    Reassignable,
    Remakable,
    Throttleable,
    WiredWithin,
    capabilities_of,
)
from core.config import run_config
from core.errors import ClusterError
from core.systems import KafkaSection
from harness.brokers.addresses import Plan, cluster_id
from harness.containers.cluster import ContainerCluster
from harness.containers.deployment import NodeAddresses
from harness.containers.images import RECIPES
from harness.kafka import zookeeper
from harness.kafka.images import image_tag
from harness.kafka.kraft import KRaft
from harness.kafka.nodes import PROPERTIES
from harness.kafka.system import KAFKA, kafka_cluster
from harness.kafka.zookeeper import ZooKeeperNodes
from history.evidence import Evidence
from nemesis.registry import NEMESES
from nemesis.schedule import Times

if TYPE_CHECKING:
    from harness.containers.nodes import NodeContainer


def nodes(run: Path, **config: Any) -> ZooKeeperNodes:
    return ZooKeeperNodes(run_config({"seed": 1, "kafka": "2.8.2", **config}), run)


def settings(of: ZooKeeperNodes, node: int, *, proxied: frozenset[Listener] = frozenset()) -> dict[str, str]:
    ports = Plan.__new__(Plan)
    ports._base = 20_000
    (text,) = of.files(node, NodeAddresses(addresses={}, ports=ports, proxied=proxied)).values()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_zookeeper_is_a_node_after_the_brokers(tmp_path: Path) -> None:
    of = nodes(tmp_path / "a-run")
    assert of.names == {1: "broker-1", 2: "broker-2", 3: "broker-3", 4: "zookeeper-4"}
    assert of.environment(4) == {"ROLE": "zookeeper", "HEAP": "64m", "ZOOKEEPER_ID": "4"}
    found = settings(of, 4)
    assert (found["dataDir"], found["clientPort"]) == ("/data", "2181")
    assert not [name for name in found if name.startswith("server.")]  # it has no peers


def test_an_ensemble_knows_its_nodes_and_brokers_know_the_ensemble(tmp_path: Path) -> None:
    of = nodes(tmp_path / "a-run", ensemble=3, brokers=5)
    assert list(of.names) == list(range(1, 9))
    found = settings(of, 7)
    peers = {name: value for name, value in found.items() if name.startswith("server.")}
    assert peers == {f"server.{node}": f"zookeeper-{node}:2888:3888" for node in (6, 7, 8)}
    connect = "zookeeper-6:2181,zookeeper-7:2181,zookeeper-8:2181"
    assert settings(of, 1)["zookeeper.connect"] == of.environment(1)["ZOOKEEPER"] == connect


def test_a_broker_writes_the_id_of_the_runs_cluster(tmp_path: Path) -> None:
    of = nodes(tmp_path / "a-run")
    assert of.environment(2)["CLUSTER_ID"] == cluster_id("a-run")
    found = settings(of, 2)
    assert found["broker.id"] == "2"
    assert found["listeners"] == "BROKER://:9092,CLIENT://:9094,HARNESS://:9095"
    assert found["advertised.listeners"].startswith("BROKER://broker-2:9092,CLIENT://127.0.0.1:20002,")
    assert found["replica.lag.time.max.ms"] == "1000"  # tight, as elsewhere
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & found.keys()
    assert settings(of, 2, proxied=frozenset({Listener.BROKER}))["listeners"].startswith("BROKER://:9096,")
    own = nodes(tmp_path / "a-run", broker_settings={"num.io.threads": "3"})
    assert settings(own, 1)["num.io.threads"] == "3"
    assert "num.io.threads" not in settings(own, 4)


@pytest.mark.parametrize(
    ("given", "deployed"),
    [
        ({"kafka": "2.8.2"}, ZooKeeperNodes),
        ({"kafka": "3.9.1"}, KRaft),
        ({"kafka": "3.9.1", "metadata": "zookeeper"}, ZooKeeperNodes),
        ({}, KRaft),
    ],
)
def test_a_version_is_deployed_as_usual_or_as_asked(
    given: dict[str, str], deployed: type, tmp_path: Path
) -> None:
    cluster = kafka_cluster(run_config({"seed": 1, **given}), tmp_path / "a-run")
    try:
        assert type(cluster.deployment) is deployed
        assert cluster.nodes == ((1, 2, 3, 4) if deployed is ZooKeeperNodes else (1, 2, 3))
    finally:
        cluster._plan.release()


def test_every_version_deletes_the_topics_that_it_is_to_delete(tmp_path: Path) -> None:
    assert settings(nodes(tmp_path, kafka="0.11.0.3"), 1)["delete.topic.enable"] == "true"


def test_titles_and_images_tell_deployments_apart() -> None:
    config = run_config({"seed": 1, "kafka": "3.9.1", "metadata": "zookeeper"})
    assert config.title == "Kafka 3.9.1, ZooKeeper"
    assert run_config({"seed": 1, "kafka": "3.9.1"}).title == "Kafka 3.9.1"
    assert config.section(KafkaSection).deployment == "zookeeper"
    assert image_tag("3.9.1", "zookeeper").startswith("inquest-zookeeper:3.9.1-")
    assert image_tag("3.9.1").startswith("inquest-kafka:3.9.1-")
    assert image_tag("2.8.2").startswith("inquest-zookeeper:2.8.2-")
    assert (RECIPES / "zookeeper" / "start.sh").exists()
    assert PROPERTIES in (RECIPES / "zookeeper" / "start.sh").read_text()


def test_a_deployment_with_an_ensemble_may_have_three_nodes_of_it() -> None:
    assert KAFKA.refusal(run_config({"seed": 1, "kafka": "2.8.2", "ensemble": 3})) == ""


def test_a_broker_waits_for_zookeeper_longer_than_any_fault_lasts(tmp_path: Path) -> None:
    """One that starts ends where it does not get a connection in time: no rule excuses that."""
    longest = run_config({"seed": 1, "fault_s": 3600, "duration_s": 7200})
    held = Times.of(longest).hold(NEMESES["partition"].kinds["isolate"])
    waits_ms = int(settings(nodes(tmp_path / "a-run"), 1)["zookeeper.connection.timeout.ms"])
    assert held[1] * 1000 < waits_ms < 2**31


def test_a_session_in_zookeeper_is_as_long_as_plans_take_it_for(tmp_path: Path) -> None:
    """Pauses lie on their side of it. ZooKeeper has sessions of 2 to 20 ticks."""
    for ms, fits in (
        (3000, True),
        (1000, True),
        (10_000, True),
        (999, False),
        (10_001, False),
        ("soon", False),
    ):
        given = {"kafka": "2.8.2", "broker_settings": {"broker.session.timeout.ms": f"{ms}"}}
        why = KAFKA.refusal(run_config({"seed": 1, **given}))
        assert (why == "") is fits
        assert fits or "lasts 1000 to 10000 ms" in why
        assert KAFKA.refusal(run_config({"seed": 1, **given, "kafka": "4.3.1"})) == ""
        found = settings(nodes(tmp_path / f"run-{ms}", **given), 1)
        assert found["zookeeper.session.timeout.ms"] == f"{ms}"
    usual = settings(nodes(tmp_path / "usual"), 1)["zookeeper.session.timeout.ms"]
    assert int(usual) == Times.of(run_config({"seed": 1})).session * 1000


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("0.10.2.2", {Deletable, Remakable, Growable, Throttleable, Electable, Reassignable, WiredWithin}),
        ("0.11.0.3", {Growable, Throttleable, Electable, Reassignable, WiredWithin}),
        ("1.1.1", {Throttleable, Electable, Reassignable, WiredWithin}),
        ("2.4.1", {WiredWithin}),
    ],
)
def test_old_brokers_lack_the_requests_of_some_capabilities(version: str, lacks: set[type]) -> None:
    config = run_config({"seed": 1, "kafka": version, "idempotent": False})
    assert capabilities_of(ContainerCluster) - {*KAFKA.capabilities(config)} == lacks


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kafka": "0.10.2.2"}, "no idempotent producers; 0.11.0 and later have; set idempotent=false"),
        ({"kafka": "0.10.2.2", "workload": "copier"}, "workload copier: Kafka 0.10.2.2 has no transactions"),
        ({"kafka": "0.10.2.2", "idempotent": False}, ""),
        ({"kafka": "0.11.0.3", "workload": "transactions"}, ""),
    ],
)
def test_before_0_11_there_is_neither_idempotence_nor_a_transaction(
    settings: dict[str, object], said: str
) -> None:
    found = KAFKA.refusal(run_config({"seed": 1, **settings}))
    assert said in found
    assert bool(found) is bool(said)


def test_a_damaged_log_of_zookeeper_is_evidence_that_it_may_lack_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(container: object, into: Path, limit: object) -> None:
        (into / "version-2").mkdir(parents=True)
        (into / "version-2" / "log.1").write_bytes(b"ZKLG" + bytes(12) + bytes(11) + b"\x40" + b"cut")

    monkeypatch.setattr(zookeeper, "copy_data", copied)
    of = nodes(tmp_path / "a-run")
    of.at_end([cast("NodeContainer", SimpleNamespace(number=4, own=None))])
    assert of._takes.write(tmp_path / "evidence") == [
        "the log of zookeeper-4: version-2/log.1, byte 16: a transaction of ZooKeeper is cut or damaged"
    ]
    (row,) = Evidence.opened(tmp_path / "evidence").table("damage").to_pylist()
    assert (row["node"], row["file"], row["position"]) == (4, "version-2/log.1", 16)


def test_a_log_of_zookeeper_that_cannot_be_copied_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an ensemble, what the others have may not be all."""

    def copied(container: object, into: Path, limit: object) -> None:
        raise ClusterError("too large")

    monkeypatch.setattr(zookeeper, "copy_data", copied)
    of = nodes(tmp_path / "a-run")
    of.at_end([cast("NodeContainer", SimpleNamespace(number=4, own=None))])
    assert of._takes.write(tmp_path / "evidence") == ["the log of zookeeper-4: too large"]
    (row,) = Evidence.opened(tmp_path / "evidence").table("damage").to_pylist()
    assert (row["node"], row["file"], row["why"]) == (4, "version-2", "too large")
