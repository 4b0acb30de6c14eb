"""Records that are deleted: which ones are asked for, and what is put on record of it."""

import pytest

from core.runtime import run_blocking
from nemesis.execute import heal
from nemesis.types import NoEffect, NoTarget
from tests.nemesis.stage import DATA, HIGH_WATERMARK, NAMES, Recording, stage_of
from tests.nemesis.test_restart import hit


@pytest.mark.parametrize(("kind", "first", "second"), [("half", 51, 76), ("all", HIGH_WATERMARK, 0)])
def test_what_the_target_leads_loses_its_beginning(kind: str, first: int, second: int) -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    leaders = run_blocking(cluster.roles()).leaders
    injected = hit(cluster, f"delete-records:{kind}@controller", stage=stage)
    (node,) = injected.nodes
    led = {tp for tp in DATA if leaders[tp] == node}
    assert stage.deleted == cluster.starts == dict.fromkeys(led, first)
    assert injected.text.endswith(f"deleted the records of {min(led)} below offset {first}")
    run_blocking(heal(stage, injected))
    assert cluster.starts == dict.fromkeys(led, first)
    if second:
        hit(cluster, f"delete-records:{kind}@controller", stage=stage)
        assert stage.deleted == cluster.starts == dict.fromkeys(led, second)
    else:
        with pytest.raises(NoTarget, match="no partition that is known to have committed records"):
            hit(cluster, f"delete-records:{kind}@controller", stage=stage)


def test_what_no_leader_has_confirmed_may_be_deleted_all_the_same() -> None:
    cluster = Recording(3, replication=3, broken=[("delete", tp.partition) for tp in DATA])
    stage = stage_of(cluster)
    with pytest.raises(NoEffect, match="has not said that it deleted records"):
        hit(cluster, "delete-records:all@controller", stage=stage)
    assert set(stage.deleted.values()) == {HIGH_WATERMARK}


def test_who_leads_nothing_deletes_nothing() -> None:
    cluster = Recording(5, replication=1)
    cluster.led = dict.fromkeys(DATA, 1)
    cluster.order = dict.fromkeys(DATA, (1,))
    with pytest.raises(NoTarget, match="leads no partition of the workload"):
        hit(cluster, "delete-records:all@controller")
    assert NAMES.data == DATA
