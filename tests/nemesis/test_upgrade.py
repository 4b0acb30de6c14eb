"""Nodes that change their version: in which order, when the next one may, and what is taken back."""

from collections.abc import Sequence

import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError, ConfigError
from core.runtime import run_blocking
from nemesis.execute import heal, heal_all
from nemesis.families.restart import WHOLE_S
from nemesis.families.upgrade import unprepared
from nemesis.schedule import plan
from nemesis.types import NoEffect, NoTarget, PlannedFault
from tests.nemesis.stage import LAG_S, NAMES, START_S, Recording, stage_of
from tests.nemesis.test_restart import hit, verbs, whole


def changes(cluster: Recording) -> list[int]:
    return [nodes[0] for verb, nodes in verbs(cluster) if verb == "install"]


def configured(**settings: object) -> RunConfig:
    return run_config({"seed": 1, "kafka": "4.1.2", "upgrade": "4.4.0", "duration_s": 100, **settings})


@pytest.mark.parametrize(
    ("kind", "controllers"), [("rolling", 0), ("rolling", 3), ("whole", 3), ("controllers-last", 3)]
)
def test_every_node_changes_once_and_the_next_waits_for_it(kind: str, controllers: int) -> None:
    cluster = Recording(3, controllers=controllers, replication=3)
    down: list[set[int]] = []
    cluster.clock.then = lambda: down.append({n for n in (1, 2, 3) if not whole(cluster, n)})
    begin = cluster.clock.now_s
    injected = hit(cluster, f"upgrade:{kind}")
    order = changes(cluster)
    assert sorted(order) == list(cluster.nodes)
    verbs_of_one = ("shut_down", "install", "revive")
    changed = [call for call in verbs(cluster) if call[0] != "raise_features"]
    assert changed == [(verb, (node,)) for node in order for verb in verbs_of_one]
    assert max(len(nodes) for nodes in down) == 1, "two brokers were out of sync at once"
    assert cluster.clock.now_s - begin >= 3 * START_S
    isolated = set(order[:controllers]) if kind != "controllers-last" else set(order[3:])
    assert isolated == set(cluster.nodes) - set(cluster.brokers)
    assert injected.nodes == tuple(order)
    raised = "metadata.version 25 to 31, transaction.version 1 to 2"
    assert (verbs(cluster)[-1][0] == "raise_features") == (kind == "whole") == (raised in injected.text)
    for _ in range(2):
        run_blocking(heal(stage_of(cluster), injected))
    assert set(cluster.upgraded()) == set(cluster.nodes), "an upgrade stays"


def test_the_way_back_begins_with_the_brokers_and_takes_who_went_ahead() -> None:
    cluster = Recording(3, controllers=1, replication=3)
    cluster.later = {2, 4}
    injected = hit(cluster, "upgrade:back")
    assert changes(cluster) == [2, 4]
    assert injected.nodes == (2, 4)
    assert cluster.upgraded() == ()
    with pytest.raises(NoTarget, match="the first version is there already"):
        hit(cluster, "upgrade:back")


def test_who_has_the_later_version_is_not_stopped_again() -> None:
    cluster = Recording(3, replication=3)
    cluster.later = {1, 3}
    hit(cluster, "upgrade:rolling")
    assert changes(cluster) == [2]
    with pytest.raises(NoTarget, match="the later version is there already"):
        hit(cluster, "upgrade:rolling")
    assert changes(cluster) == [2]


def test_features_are_raised_only_when_every_node_has_the_later_version() -> None:
    cluster = Recording(3, replication=3)
    cluster.later = {1, 3}
    with pytest.raises(NoTarget, match="node 2 still has the first version"):
        hit(cluster, "upgrade:finalize")
    assert verbs(cluster) == []
    cluster.later = {1, 2, 3}
    assert "metadata.version 25 to 31" in hit(cluster, "upgrade:finalize").text
    cluster.features = {}
    with pytest.raises(NoEffect, match="what its brokers support already"):
        hit(cluster, "upgrade:finalize")


def test_no_node_is_stopped_for_the_way_back_once_features_were_raised() -> None:
    cluster = Recording(3, replication=3)
    hit(cluster, "upgrade:whole")
    before = len(verbs(cluster))
    with pytest.raises(NoTarget, match=r"nodes .* cannot go back: the features .* were raised"):
        hit(cluster, "upgrade:back")
    assert (verbs(cluster)[before:], cluster.dead) == ([], set())


def test_a_patch_release_raises_nothing_and_is_a_whole_upgrade() -> None:
    cluster = Recording(3, replication=3)
    cluster.features = {}
    assert hit(cluster, "upgrade:whole").text.endswith("were raised: none rises")


def test_a_node_that_does_not_come_back_ends_the_upgrade() -> None:
    class Lost(Recording):
        async def revive(self, nodes: tuple[int, ...]) -> None:  # type: ignore[override]
            self.calls.append(("revive", tuple(nodes)))

    cluster = Lost(3, replication=3)
    begin = cluster.clock.now_s
    with pytest.raises(
        NoEffect, match=r"60 s after node \d changed its version: brokers \[\d\] do not answer"
    ):
        hit(cluster, "upgrade:whole")
    assert len(changes(cluster)) == 1
    assert "raise_features" not in [verb for verb, _ in verbs(cluster)]
    assert WHOLE_S <= cluster.clock.now_s - begin < WHOLE_S + 5


class Behind(Recording):
    """Once a node was shut down, one is behind in the metadata quorum."""

    behind = 5

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        killed = await super().shut_down(nodes)
        self.lagging = (self.behind,)
        return killed


def test_a_member_of_the_quorum_that_lags_holds_the_next_one_up() -> None:
    cluster = Behind(3, controllers=3, replication=3)
    with pytest.raises(NoEffect, match="node 5 of the metadata quorum did not catch up"):
        hit(cluster, "upgrade:rolling")
    assert len(changes(cluster)) == 1


def test_it_ends_early_and_says_so_when_the_run_stops() -> None:
    cluster = Recording(3, replication=3)

    def stopping() -> bool:
        return len(changes(cluster)) == 1

    with pytest.raises(NoEffect, match=r"after [01] of 3 nodes .* a longer phase \(duration_s\)"):
        hit(cluster, "upgrade:whole", stage=stage_of(cluster, stopping=stopping))
    assert len(changes(cluster)) == 1


def test_no_node_changes_while_another_fault_holds_one_down() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    hit(cluster, "kill:one@controller", stage=stage)
    for kind in ("whole", "mixed@leader", "back"):
        with pytest.raises(NoTarget, match="another fault holds node 3 down"):
            hit(cluster, f"upgrade:{kind}", stage=stage)
    assert changes(cluster) == []


@pytest.mark.parametrize("kind", ["whole", "mixed@leader", "back"])
@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("partition:isolate@leader", r"replicas \[.*\] of .* are not in sync"),
        ("pause:long@controller", r"brokers \[3\] do not answer"),
    ],
)
def test_no_node_changes_in_a_cluster_that_is_not_whole(kind: str, other: str, why: str) -> None:
    """A fault in force could not be healed while a node changes: the wait for a whole cluster could not
    end."""
    cluster = Recording(3, replication=3)
    if kind == "back":
        cluster.later = {1, 2, 3}
    stage = stage_of(cluster)
    injected = hit(cluster, other, stage=stage)
    cluster.clock.now_s += LAG_S + 1
    begin = cluster.clock.now_s
    with pytest.raises(NoTarget, match=f"no node changes its version before the cluster is whole: {why}"):
        hit(cluster, f"upgrade:{kind}", stage=stage)
    assert (changes(cluster), cluster.clock.now_s) == ([], begin)
    run_blocking(heal(stage, injected))
    cluster.clock.now_s += START_S + 1
    hit(cluster, f"upgrade:{kind}", stage=stage)
    assert changes(cluster)


def test_no_node_changes_while_the_quorum_catches_up() -> None:
    cluster = Recording(3, replication=3)
    cluster.lagging = (2,)
    with pytest.raises(NoTarget, match="whole: node 2 of the metadata quorum did not catch up"):
        hit(cluster, "upgrade:rolling")
    assert changes(cluster) == []


def test_a_node_of_another_version_for_a_while_goes_back() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, "upgrade:mixed@controller", stage=stage)
    assert (injected.nodes, cluster.upgraded()) == ((3,), (3,))
    for _ in range(2):
        run_blocking(heal(stage, injected))
        assert cluster.upgraded() == ()
    assert changes(cluster) == [3, 3]
    assert cluster.dead == set()


@pytest.mark.parametrize("raised", [False, True])
def test_a_node_that_had_the_later_version_before_is_left_alone(raised: bool) -> None:
    cluster = Recording(3, replication=3)
    cluster.later, cluster.raised = {1, 2, 3}, raised
    with pytest.raises(NoTarget, match="node 3: the later version is there already"):
        hit(cluster, "upgrade:mixed@controller")
    assert (verbs(cluster), cluster.upgraded(), cluster.dead) == ([], (1, 2, 3), set())


def test_what_changed_and_was_not_whole_in_time_goes_back() -> None:
    cluster = Behind(3, replication=3)
    cluster.behind = 1
    with pytest.raises(NoEffect, match="node 1 of the metadata quorum did not catch up"):
        hit(cluster, "upgrade:mixed@controller")
    assert (changes(cluster), cluster.upgraded(), cluster.dead) == ([3, 3], (), set())


def test_what_could_not_go_back_does_when_all_is_healed_or_that_fails_too() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, "upgrade:mixed@controller", stage=stage)
    cluster.broken.add(("install", 3))
    with pytest.raises(ClusterError, match="install of 3 failed"):
        run_blocking(heal(stage, injected))
    with pytest.raises(ExceptionGroup, match="give the first version again to node 3: install of 3 failed"):
        run_blocking(heal_all(stage))
    assert (cluster.dead, cluster.upgraded()) == (set(), (3,))
    cluster.broken.clear()
    run_blocking(heal_all(stage))
    assert (cluster.dead, cluster.upgraded(), stage.mixed) == (set(), (), set())


@pytest.mark.parametrize("name", ["upgrade:whole", "upgrade:one@controller"])
def test_a_node_that_was_killed_did_not_shut_down_in_order(name: str) -> None:
    cluster = Recording(3, replication=3)
    cluster.stubborn = {3}
    assert "; node 3 had not ended after 30 s, and was killed (SIGKILL)" in hit(cluster, name).text


def test_one_node_keeps_the_later_version() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, "upgrade:one@controller", stage=stage)
    assert (injected.nodes, cluster.upgraded()) == ((3,), (3,))
    run_blocking(heal(stage, injected))
    run_blocking(heal_all(stage))
    assert cluster.upgraded() == (3,)
    with pytest.raises(NoTarget, match="node 3: the later version is there already"):
        hit(cluster, "upgrade:one@controller", stage=stage)


def test_a_node_that_goes_back_stays_down_where_another_fault_holds_it() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, "upgrade:mixed@controller", stage=stage)
    hit(cluster, "kill:one@controller", stage=stage)
    assert cluster.dead == {3}
    run_blocking(heal(stage, injected))
    assert (cluster.dead, cluster.upgraded()) == ({3}, ())
    run_blocking(heal_all(stage))
    assert cluster.dead == set()


def test_a_node_whose_change_failed_runs_again_at_the_latest_after_healing() -> None:
    cluster = Recording(3, replication=3, broken=[("install", 3)])
    stage = stage_of(cluster)
    with pytest.raises(ClusterError, match="install of 3 failed"):
        hit(cluster, "upgrade:whole", stage=stage)
    assert (cluster.dead, 3 in cluster.upgraded(), stage.down) == (set(), False, [])
    cluster.clock.now_s += START_S
    cluster.broken.add(("revive", 3))
    with pytest.raises(ClusterError, match="3 failed") as raised:
        hit(cluster, "upgrade:whole", stage=stage)
    assert raised.value.__notes__ == [
        "taking back what had been done of upgrade:whole failed: revive of 3 failed"
    ]
    assert cluster.dead == {3}
    with pytest.raises(NoTarget, match="another fault holds node 3 down"):
        hit(cluster, "upgrade:whole", stage=stage)
    cluster.broken.clear()
    run_blocking(heal_all(stage))
    assert (cluster.dead, stage.down) == (set(), [])


@pytest.mark.parametrize("kind", ["whole", "one@leader", "mixed@leader", "back"])
def test_a_node_whose_shutdown_was_not_answered_in_time_runs_again(kind: str) -> None:
    class Slow(Recording):
        async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
            await super().shut_down(nodes)
            raise ClusterError("the engine is slow")

    cluster = Slow(3, replication=3)
    if kind == "back":
        cluster.later = {1, 2, 3}
    stage = stage_of(cluster)
    with pytest.raises(ClusterError, match="the engine is slow") as raised:
        hit(cluster, f"upgrade:{kind}", stage=stage)
    assert (cluster.dead, stage.down) == (set(), [])
    assert not hasattr(raised.value, "__notes__")


def test_healing_an_upgrade_starts_no_node_that_ended_later() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, "upgrade:rolling", stage=stage)
    cluster.dead.add(2)
    run_blocking(heal(stage, injected))
    assert cluster.dead == {2}


@pytest.mark.parametrize("kind", ["one@controller", "rolling"])
def test_nodes_that_still_have_the_first_version_are_named(kind: str) -> None:
    cluster = Recording(3, replication=3)
    cluster.later = {3} if kind == "rolling" else {1, 2}
    late = "nodes 1 and 2 still have" if kind == "rolling" else "node 3 still has"
    with pytest.raises(NoTarget, match=f"{late} the first version"):
        hit(cluster, "upgrade:finalize")


# ---- plans


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ("finalize", "upgrade:finalize: no node has the later version by then"),
        ("back", "upgrade:back: no node has the later version by then"),
        ("back rolling", "upgrade:back: no node"),
        ("mixed finalize", "upgrade:finalize: no node"),
        ("rolling back finalize", "upgrade:finalize: no node"),
        ("rolling finalize", ""),
        ("one finalize", "upgrade:finalize: 1 of 3 nodes has the later version by then"),
        ("one one finalize", "upgrade:finalize: 2 of 3 nodes have"),
        ("one back", ""),
        ("one one one finalize", ""),
        ("one rolling finalize", ""),
        ("rolling mixed finalize", ""),
        ("controllers-last finalize", ""),
        ("rolling back one finalize", "upgrade:finalize: 1 of 3 nodes has"),
        ("rolling back rolling finalize", ""),
        ("mixed", ""),
        ("", ""),
    ],
)
def test_what_finds_no_node_of_the_later_version_is_known_from_the_plan(kinds: str, why: str) -> None:
    steps = [
        PlannedFault(
            fault=n, name=f"upgrade:{kind}", family="upgrade", kind=kind, target="", at_s=n, hold_s=1, seed=1
        )
        for n, kind in enumerate(kinds.split())
    ]
    kill = PlannedFault(
        fault=9, name="kill:all", family="kill", kind="all", target="", at_s=9, hold_s=1, seed=1
    )
    said = unprepared([kill, *reversed(steps)], nodes=3)
    assert said.startswith(why)
    assert bool(said) is bool(why)


def test_one_change_is_enough_for_a_cluster_of_one_node() -> None:
    steps = plan("upgrade:one,upgrade:finalize", configured(duration_s=300), NAMES)
    assert unprepared(steps, nodes=2)
    assert not unprepared(steps, nodes=1)


def test_an_upgrade_is_planned_whole_and_once() -> None:
    (step,) = plan("upgrade", configured(duration_s=300), NAMES)
    assert step.name == "upgrade:whole"


def test_kinds_happen_in_the_order_of_their_names() -> None:
    text = "upgrade:rolling,upgrade:back,upgrade:rolling,upgrade:finalize"
    steps = plan(text, configured(duration_s=300), NAMES)
    assert [step.name for step in steps] == text.split(",")


def test_nodes_of_the_later_version_come_and_go_beside_other_faults() -> None:
    steps = plan("upgrade:mixed,kill", configured(), NAMES)
    assert {step.family for step in steps} == {"upgrade", "kill"}
    assert sum(step.kind == "mixed" for step in steps) > 1


@pytest.mark.parametrize(
    ("text", "settings", "why"),
    [
        ("upgrade", {"upgrade": ""}, "there is no other version: set upgrade to a later one"),
        ("upgrade:controllers-last", {}, "no isolated controllers: set controllers to 1 or 3"),
        ("upgrade", {"duration_s": 20}, r"lasts at least 34 s \(33 s until it is in force"),
        ("upgrade", {"duration_s": 60, "controllers": 3}, "lasts at least 64 s"),
        ("upgrade@leader", {}, "none of its kinds can be drawn here"),
        ("upgrade:whole@leader", {}, "hits the whole cluster and takes no target"),
    ],
)
def test_what_cannot_be_is_refused(text: str, settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(text, configured(**settings), NAMES)
