"""Disks that fail: the broker ends, and healing starts it."""

import pytest

from core.errors import ClusterError
from core.runtime import run_blocking
from nemesis.execute import heal, heal_all
from tests.nemesis.stage import Recording, stage_of
from tests.nemesis.test_restart import hit

NAME = "disk:write-errors@leader"


def test_the_broker_is_down_until_it_is_healed() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, NAME, stage=stage)
    assert cluster.dead == {*injected.nodes}
    assert injected.text.endswith("could write no file any more, and stopped")
    run_blocking(heal(stage, injected))
    assert not cluster.dead
    assert not stage.down


def test_a_broker_that_continues_without_its_disk_is_killed_and_started() -> None:
    cluster = Recording(3, replication=3)
    cluster.broken |= {("fail_writes", node) for node in cluster.nodes}
    stage = stage_of(cluster)
    with pytest.raises(ClusterError, match="fail_writes"):
        hit(cluster, NAME, stage=stage)
    verbs = [verb for verb, _ in cluster.calls]
    assert verbs.index("kill") < verbs.index("revive")
    assert not cluster.dead


def test_healing_all_starts_it() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    hit(cluster, NAME, stage=stage)
    run_blocking(heal_all(stage))
    assert not cluster.dead
