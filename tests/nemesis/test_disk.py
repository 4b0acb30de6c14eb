"""Disks that fail: the broker ends, or loses one of two, and healing makes it whole."""

import pytest

from core.config import run_config
from core.errors import ClusterError, ConfigError
from core.runtime import run_blocking
from harness.compose import plan
from nemesis.execute import heal, heal_all
from nemesis.types import NoEffect
from tests.nemesis.stage import Recording, stage_of
from tests.nemesis.test_restart import hit

NAME = "disk:write-errors@leader"
FULL = "disk:full@leader"
ONE = "disk:one-dir@leader"


def test_the_broker_is_down_until_it_is_healed() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, NAME, stage=stage)
    assert cluster.dead == {*injected.nodes}
    assert injected.text.endswith("could write no file any more, and stopped")
    run_blocking(heal(stage, injected))
    assert not cluster.dead
    assert not stage.down


def test_a_broker_whose_writes_could_not_be_made_to_fail_is_left_alone() -> None:
    cluster = Recording(3, replication=3)
    cluster.broken |= {("fail_writes", node) for node in cluster.nodes}
    stage = stage_of(cluster)
    with pytest.raises(ClusterError, match="fail_writes"):
        hit(cluster, NAME, stage=stage)
    assert [verb for verb, _ in cluster.calls] == ["fail_writes", "revive"]
    assert not cluster.dead
    assert not stage.down


@pytest.mark.parametrize("name", [NAME, FULL])
def test_healing_all_starts_it(name: str) -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    hit(cluster, name, stage=stage)
    run_blocking(heal_all(stage))
    assert cluster.whole


def test_a_full_disk_has_space_before_its_broker_starts() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, FULL, stage=stage)
    assert cluster.dead == cluster.full == {*injected.nodes}
    assert injected.text.endswith("had no space left on its disk, and stopped")
    run_blocking(heal(stage, injected))
    assert cluster.whole
    assert not stage.down


def test_a_broker_that_continues_on_a_full_disk_is_killed_and_started() -> None:
    cluster = Recording(3, replication=3)
    cluster.broken |= {("fill_disks", node) for node in cluster.nodes}
    with pytest.raises(ClusterError, match="fill_disks"):
        hit(cluster, FULL)
    assert "kill" in [verb for verb, _ in cluster.calls]
    assert cluster.whole


def test_a_broker_that_loses_one_directory_runs_and_is_restarted_to_have_it_back() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, ONE, stage=stage)
    (node,) = injected.nodes
    assert cluster.halved == {node}
    assert not cluster.dead
    assert not stage.down
    assert injected.text.endswith(
        "lost a log directory with its replicas of q-1, q-2, and continued with the other one"
    )
    run_blocking(heal(stage, injected))
    assert cluster.whole
    done = [verb for verb, _ in cluster.calls]
    assert done == ["fail_directory", "shut_down", "mend_directories", "revive"]
    run_blocking(heal(stage, injected))
    assert [verb for verb, _ in cluster.calls].count("shut_down") == 1


def test_a_directory_without_a_replica_is_nothing_to_lose() -> None:
    cluster = Recording(3, replication=3)
    cluster.second = ()
    with pytest.raises(NoEffect, match="in which it had no replica"):
        hit(cluster, ONE)
    assert cluster.whole


def test_healing_all_gives_every_directory_back() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    hit(cluster, ONE, stage=stage)
    hit(cluster, "kill:one@leader", stage=stage)
    run_blocking(heal_all(stage))
    assert cluster.whole


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "each broker has one log directory only: set log_dirs to 2"),
        ({"log_dirs": 2, "kafka": "3.6.2"}, "a broker of Kafka 3.6.2 ends where one of two fails"),
        ({"sut": "model"}, "DirectoryFailable"),
        ({"sut": "simulated"}, "DirectoryFailable"),
    ],
)
def test_who_has_no_second_directory_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(run_config({"seed": 1, "nemesis": ONE, **settings}))


@pytest.mark.parametrize(("settings", "why"), [({}, "set disk_mb"), ({"sut": "model"}, "DiskFillable")])
def test_who_has_no_disk_of_a_size_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(run_config({"seed": 1, "nemesis": FULL, **settings}))
