"""Replicas that move: what is asked for, and that they come back, whatever happens meanwhile."""

import pytest

from core.config import run_config
from core.errors import ClusterError, ConfigError
from core.runtime import run_blocking
from nemesis.execute import heal, heal_all
from nemesis.schedule import plan
from nemesis.types import NoEffect, NoTarget
from tests.nemesis.stage import DATA, NAMES, Recording, stage_of
from tests.nemesis.test_restart import hit


def small(**how: object) -> Recording:
    return Recording(4, replication=3, **how)  # type: ignore[arg-type]


def test_a_broker_is_emptied_and_filled_again() -> None:
    cluster = small()
    stage, before = stage_of(cluster), dict(cluster.order)
    injected = hit(cluster, "reassign:move@controller", stage=stage)
    assert set(injected.tps) == set(stage.moved)
    (node,) = {n for nodes in before.values() for n in nodes} - {
        n for nodes in cluster.order.values() for n in nodes
    }
    assert node == 4
    assert all(len(set(nodes)) == 3 for nodes in cluster.order.values())
    assert node in injected.nodes
    assert f"node {node} (controller" in injected.text
    run_blocking(heal(stage, injected))
    assert {tp: cluster.order[tp] for tp in DATA} == before
    assert stage.moved == {}


@pytest.mark.parametrize(("kind", "sizes"), [("shrink", {2, 3}), ("grow", {3, 4})])
def test_the_replication_factor_falls_and_rises(kind: str, sizes: set[int]) -> None:
    cluster = small()
    stage, before = stage_of(cluster), dict(cluster.order)
    injected = hit(cluster, f"reassign:{kind}@controller", stage=stage)
    assert {len(cluster.order[tp]) for tp in DATA} == sizes
    assert {4 in cluster.order[tp] for tp in DATA} == {kind == "grow"}
    run_blocking(heal(stage, injected))
    assert {tp: cluster.order[tp] for tp in DATA} == before


def test_a_cancelled_move_moves_nothing_and_one_that_has_ended_has_failed() -> None:
    cluster = small()
    before = dict(cluster.order)
    injected = hit(cluster, "reassign:cancel@controller")
    assert {tp: cluster.order[tp] for tp in DATA} == before
    assert injected.text.endswith("partitions had not moved yet)")
    cluster.quick = True
    with pytest.raises(NoEffect, match="all replicas had moved before"):
        hit(cluster, "reassign:cancel@controller")
    assert {tp: cluster.order[tp] for tp in DATA} == before, "it is taken back all the same"


def test_what_failed_half_way_is_taken_back() -> None:
    cluster = small(broken=[("reassign", 2)])
    stage, before = stage_of(cluster), dict(cluster.order)
    with pytest.raises(ClusterError, match="reassign of 2 failed") as error:
        hit(cluster, "reassign:move@controller", stage=stage)
    assert "taking back" in "".join(error.value.__notes__)
    cluster.broken.clear()
    run_blocking(heal_all(stage))
    assert {tp: cluster.order[tp] for tp in DATA} == before


def test_replicas_that_another_fault_has_moved_are_left_alone() -> None:
    cluster = small()
    stage = stage_of(cluster)
    first = hit(cluster, "reassign:shrink@controller", stage=stage)
    with pytest.raises(NoTarget, match="shrink finds no partition that it could change now"):
        hit(cluster, "reassign:shrink@controller", stage=stage)
    cluster.broken.add(("cancel", 1))
    with pytest.raises(ClusterError, match="cancel of 1"):
        run_blocking(heal(stage, first))
    assert set(first.tps) == set(stage.moved), "they are still to be moved back"


def test_coordinators_move_with_what_they_coordinate() -> None:
    cluster = small()
    topics = {tp.topic for tp in hit(cluster, "reassign:move@txn-coordinator").tps}
    assert topics == {"q", "__transaction_state", "__consumer_offsets"}


def test_where_no_broker_could_get_a_replica_it_is_refused() -> None:
    config = run_config({"seed": 1, "brokers": 3, "replication_factor": 3})
    for kind in ("move", "grow", "cancel"):
        with pytest.raises(ConfigError, match="set brokers to 4 or more"):
            plan(f"reassign:{kind}", config, NAMES)
    assert {step.kind for step in plan("reassign", config, NAMES)} == {"shrink"}
