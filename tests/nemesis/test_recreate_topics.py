"""Topics that are deleted and made again: in which order, what is left where that fails, and its healing."""

import dataclasses

import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError
from core.runtime import run_blocking
from nemesis.execute import heal, heal_all
from nemesis.families.recreate_topics import LED_S
from nemesis.registry import NEMESES
from nemesis.types import NoEffect, NoTarget
from tests.nemesis.stage import DATA, Recording, RecordingClients, stage_of
from tests.nemesis.test_restart import hit

ALL = "recreate-topics:all"
AWAY = "recreate-topics:away@leader"


def test_clients_rest_between_the_deletion_and_the_new_topic() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    cluster.order |= dict.fromkeys(DATA, (1, 2, 3))
    stage = stage_of(cluster, clients)
    clients.looks = lambda: sorted(tp for tp in cluster.order if tp in DATA)
    injected = hit(cluster, ALL, stage=stage)
    assert clients.rested == [("rest", []), ("work", list(DATA))]
    assert clients.remade == 1
    assert injected.nodes == ()
    assert injected.tps == DATA
    assert injected.text == "topics were deleted, and made again: q"
    assert not stage.remaking.begun
    run_blocking(heal(stage, injected))
    assert clients.remade == 1
    hit(cluster, ALL, stage=stage)
    assert clients.remade == 2


def test_a_broker_that_is_away_comes_back_when_it_is_healed() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, AWAY, stage=stage)
    assert cluster.dead == {*injected.nodes}
    assert "was killed; then topics were deleted" in injected.text
    run_blocking(heal(stage, injected))
    assert not cluster.dead


def test_what_could_not_be_made_again_is_made_by_healing() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    cluster.broken.add(("make_topic", len(DATA)))
    ended: list[bool] = []
    stage = stage_of(cluster, clients, lambda: bool(ended))
    with pytest.raises(ClusterError, match="make_topic"):
        hit(cluster, ALL, stage=stage)
    assert [verb for verb, _ in clients.rested] == ["rest", "rest"]  # it was tried twice
    assert stage.remaking.unmade == {"q": len(DATA)}
    cluster.broken.clear()
    ended.append(True)  # it always has, before everything is healed
    run_blocking(heal_all(stage))
    assert not stage.remaking.begun
    assert [verb for verb, _ in clients.rested] == ["rest", "rest", "rest", "work"]
    assert clients.remade == 1


def test_a_topic_whose_deletion_was_late_is_made_by_healing() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    cluster.still_there.add("q")
    ended: list[bool] = []
    stage = stage_of(cluster, clients, lambda: bool(ended))
    with pytest.raises(NoEffect, match="no node leads all partitions of q"):
        hit(cluster, ALL, stage=stage)
    assert stage.remaking.unmade == {"q": len(DATA)}
    assert "work" not in [verb for verb, _ in clients.rested]
    ended.append(True)  # it always has, before everything is healed
    begin_s = cluster.clock.now_s
    with pytest.raises(ExceptionGroup, match="no node leads all partitions of q"):
        run_blocking(heal_all(stage))
    assert cluster.clock.now_s - begin_s >= LED_S
    cluster.clock.then = cluster.still_there.clear  # it is gone a moment later
    run_blocking(heal_all(stage))
    assert {*DATA} <= {*cluster.order}
    assert not stage.remaking.begun
    assert clients.remade == 1


def with_zookeeper(deployment: str) -> RunConfig:
    return run_config({"seed": 1, "kafka": "3.9.1", "metadata": deployment})


@pytest.mark.parametrize(("deployment", "waits"), [("zookeeper", True), ("kraft", False)])
def test_no_topic_is_deleted_with_zookeeper_while_a_broker_is_down(deployment: str, waits: bool) -> None:
    config = with_zookeeper(deployment)
    assert bool(NEMESES["recreate-topics"].kinds["away"].refuses(config)) == waits
    assert NEMESES["recreate-topics"].kinds["all"].refuses(config) == ""
    cluster = Recording(3, replication=3)
    cluster.order |= dict.fromkeys(DATA, (1, 2, 3))
    stage = dataclasses.replace(stage_of(cluster), config=config)
    killed = hit(cluster, "kill:one@controller", stage=stage)
    if waits:
        with pytest.raises(NoTarget, match="another fault holds node 3 down, and brokers with ZooKeeper"):
            hit(cluster, ALL, stage=stage)
        assert [verb for verb, _ in cluster.calls] == ["kill"]
        run_blocking(heal(stage, killed))
    hit(cluster, ALL, stage=stage)
    assert stage.remaking.times == 1


def test_nothing_is_made_while_a_client_still_works() -> None:
    cluster, clients = Recording(3, replication=3), RecordingClients()
    clients.busy = (2,)
    stage = stage_of(cluster, clients)
    with pytest.raises(NoEffect, match="clients 2 do not end"):
        hit(cluster, ALL, stage=stage)
    assert stage.remaking.unmade == {"q": len(DATA)}
    assert not any(verb == "make_topic" for verb, _ in cluster.calls)


@pytest.mark.parametrize("workload", ["sink", "share", "fresh-topic"])
def test_workloads_whose_effects_outlive_the_topic_are_refused(workload: str) -> None:
    refused = NEMESES["recreate-topics"].refuses(run_config({"seed": 1, "workload": workload}))
    assert refused.startswith(f"not with the workload {workload}: ")
    assert NEMESES["recreate-topics"].refuses(run_config({"seed": 1, "workload": "groups"})) == ""


@pytest.mark.parametrize(("value", "refused"), [("false", True), ("False", True), ("true", False)])
def test_brokers_that_delete_no_topic_are_refused(value: str, refused: bool) -> None:
    config = run_config({"seed": 1, "broker_settings": {"delete.topic.enable": value}})
    assert ("delete.topic.enable" in NEMESES["recreate-topics"].refuses(config)) == refused


def test_compacted_topics_are_refused() -> None:
    config = run_config({"seed": 1, "topic_settings": {"cleanup.policy": "compact"}})
    assert "compaction" in NEMESES["recreate-topics"].refuses(config)
