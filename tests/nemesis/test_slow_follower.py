"""A follower that is throttled: what is asked for, that it comes about, and that it is taken back."""

import pytest

from core.config import run_config
from core.errors import ClusterError, ConfigError
from core.runtime import run_blocking
from nemesis.execute import heal, heal_all
from nemesis.families.slow_follower import LEFT_S
from nemesis.schedule import plan
from nemesis.types import NoEffect, NoTarget
from tests.nemesis.stage import DATA, NAMES, Recording, stage_of
from tests.nemesis.test_restart import hit

NAME = "slow-follower:new-leader@controller"


def test_what_a_broker_follows_is_throttled_and_gets_new_leaders() -> None:
    cluster = Recording(3, replication=3)
    before = run_blocking(cluster.roles())
    stage = stage_of(cluster)
    injected = hit(cluster, NAME, stage=stage)
    (node,) = injected.nodes
    assert node == before.controller
    assert injected.tps[:3] == tuple(tp for tp in DATA if before.leaders[tp] != node)
    assert set(cluster.slow) == set(injected.tps) == stage.throttled
    assert {slow for slow, _ in cluster.slow.values()} == {node}
    after = run_blocking(cluster.roles())
    for tp in injected.tps:
        assert after.leaders[tp] not in (node, before.leaders[tp])
        assert node not in after.isr[tp]
    assert injected.text.startswith(f"node {node} (controller; leader of ")
    run_blocking(heal(stage, injected))
    assert cluster.whole
    assert stage.throttled == set()


def test_coordinators_get_new_leaders_with_what_they_coordinate() -> None:
    topics = {tp.topic for tp in hit(Recording(3, replication=3), NAME).tps}
    assert topics == {"q", "__transaction_state", "__consumer_offsets"}


def test_a_follower_that_stays_in_sync_is_no_effect_and_nothing_stays_throttled() -> None:
    cluster = Recording(3, replication=3)
    cluster.lag_s = LEFT_S + 5
    with pytest.raises(NoEffect, match="is in sync with all of"):
        hit(cluster, NAME)
    assert cluster.whole


def test_what_could_not_be_lifted_is_lifted_when_all_is_healed() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, NAME, stage=stage)
    late = injected.tps[0].partition
    cluster.broken.add(("unthrottle", late))
    with pytest.raises(ClusterError, match=f"unthrottle of {late}"):
        run_blocking(heal(stage, injected))
    assert stage.throttled
    with pytest.raises(ExceptionGroup, match="lift the throttle of throttled partition"):
        run_blocking(heal_all(stage))
    cluster.broken.clear()
    run_blocking(heal_all(stage))
    assert cluster.whole


def test_where_nobody_else_is_in_sync_no_leader_can_move() -> None:
    cluster = Recording(3, replication=3)
    cluster.dead.add(1)
    with pytest.raises(NoTarget, match="follows no partition that another follower could lead"):
        hit(cluster, NAME)
    config = run_config({"seed": 1, "brokers": 3, "replication_factor": 2})
    with pytest.raises(ConfigError, match="set replication_factor to 3 or more"):
        plan("slow-follower", config, NAMES)


def test_a_follower_that_is_still_in_sync_leads() -> None:
    cluster = Recording(3, replication=3)
    injected = hit(cluster, "slow-follower:leads@controller")
    (node,) = injected.nodes
    assert {run_blocking(cluster.roles()).leaders[tp] for tp in injected.tps} == {node}
    assert injected.text.endswith("which got new leaders; then it led them itself")
    cluster = Recording(3, replication=3)
    cluster.lag_s = 0.1
    with pytest.raises(NoEffect, match="left the in-sync sets before it could lead"):
        hit(cluster, "slow-follower:leads@controller")
    assert cluster.whole
