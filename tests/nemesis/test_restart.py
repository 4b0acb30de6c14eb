"""Rolling restarts, lagging leaders and elections: effects that take several steps."""

import re
from collections.abc import Sequence

import pytest

from core.capabilities import Cut, Listener
from core.cluster import Roles
from core.config import RunConfig
from core.errors import ClusterError, ConfigError
from core.op import TopicPartition
from core.runtime import run_blocking
from nemesis.execute import aim, heal, inject
from nemesis.families.restart import WHOLE_S
from nemesis.families.unclean import ALONE_S, SHRINK_S
from nemesis.schedule import plan
from nemesis.types import AimedFault, Environment, NoEffect, NoTarget, PlannedFault
from tests.nemesis.stage import DATA, LAG_S, NAMES, START_S, Recording, stage_of


def step(name: str, seed: int = 0) -> PlannedFault:
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    return PlannedFault(
        fault=0, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )


def hit(cluster: Recording, name: str, seed: int = 0, stage: Environment | None = None) -> AimedFault:
    roles = run_blocking(cluster.roles())
    return run_blocking(inject(stage or stage_of(cluster), step(name, seed), roles, NAMES))


def verbs(cluster: Recording) -> list[tuple[str, tuple[int, ...]]]:
    return cluster.calls


# ---- restart


def test_a_rolling_restart_that_finds_no_target_starts_nothing() -> None:
    cluster = Recording(3)
    run_blocking(cluster.kill([2]))  # it has ended on its own
    with pytest.raises(NoTarget, match=r"before the cluster is whole: brokers \[2\] do not answer"):
        hit(cluster, "restart:rolling")
    assert (verbs(cluster), cluster.dead) == ([("kill", (2,))], {2})


def test_a_rolling_restart_that_fails_starts_what_it_shut_down() -> None:
    class Failing(Recording):
        async def revive(self, nodes: Sequence[int]) -> None:
            if [verb for verb, _ in self.calls].count("revive") == 1:
                self.dead.add(min({*self.brokers} - {*nodes}))  # another one ends on its own
                self.calls.append(("revive", ()))
                raise ClusterError("not started")
            await super().revive(nodes)

    cluster = Failing(3)
    stage = stage_of(cluster)
    with pytest.raises(ClusterError, match="not started"):
        hit(cluster, "restart:rolling", stage=stage)
    shut = [nodes for verb, nodes in verbs(cluster) if verb == "shut_down"]
    assert len(shut) == 2
    assert verbs(cluster)[-1] == ("revive", shut[1])
    assert len(cluster.dead) == 1
    assert stage.down == []


def test_a_graceful_restart_leaves_the_broker_down_until_it_is_healed() -> None:
    cluster = Recording(3)
    injected = hit(cluster, "restart:graceful@leader")
    (node,) = injected.nodes
    assert verbs(cluster) == [("shut_down", (node,))]
    assert injected.text.startswith(f"node {node} (leader of q-")
    assert injected.text.endswith("was shut down in order (SIGTERM)")
    run_blocking(heal(stage_of(cluster), injected))
    assert verbs(cluster)[1:] == [("revive", (node,))]


@pytest.mark.parametrize("name", ["restart:graceful@leader", "restart:rolling", "restart:replicas"])
def test_a_broker_that_was_killed_did_not_shut_down_in_order(name: str) -> None:
    cluster = Recording(5, replication=3)
    stage = stage_of(cluster)
    cluster.stubborn = {1, 2, 3, 4, 5}
    injected = hit(cluster, name, stage=stage)
    (who,) = re.findall(
        r"; nodes? (.*) had not ended after 30 s, and (?:was|were) killed \(SIGKILL\)$", injected.text
    )
    assert sorted(map(int, re.findall(r"\d", who))) == sorted(injected.nodes)
    assert {node for held in stage.down for node in held.nodes} == cluster.dead
    run_blocking(heal(stage, injected))
    assert (stage.down, cluster.dead) == ([], set())
    cluster.stubborn = set()
    assert "killed" not in hit(Recording(5, replication=3), name).text


def test_a_dead_broker_is_not_shut_down() -> None:
    cluster = Recording(3)
    run_blocking(cluster.kill([1, 2, 3]))
    with pytest.raises(NoTarget):
        hit(cluster, "restart:graceful@random")


@pytest.mark.parametrize("controllers", [0, 3])
def test_a_rolling_restart_takes_every_broker_once_and_waits_for_each(controllers: int) -> None:
    cluster = Recording(5, controllers=controllers, replication=5)
    down: list[set[int]] = []
    cluster.clock.then = lambda: down.append({n for n in (1, 2, 3, 4, 5) if not whole(cluster, n)})
    begin = cluster.clock.now_s
    injected = hit(cluster, "restart:rolling")
    order = [nodes[0] for verb, nodes in verbs(cluster) if verb == "shut_down"]
    assert sorted(order) == [1, 2, 3, 4, 5]
    assert verbs(cluster) == [(verb, (node,)) for node in order for verb in ("shut_down", "revive")]
    assert max(len(nodes) for nodes in down) == 1, "two brokers were out of sync at once"
    assert cluster.clock.now_s - begin >= 5 * START_S
    assert f"in the order {', '.join(map(str, order))}" in injected.text
    assert injected.nodes == tuple(order)


@pytest.mark.parametrize("other", ["partition:isolate@leader", "pause:long@controller"])
def test_no_rolling_restart_begins_in_a_cluster_that_is_not_whole(other: str) -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    injected = hit(cluster, other, stage=stage)
    cluster.clock.now_s += LAG_S + 1
    begin = cluster.clock.now_s
    with pytest.raises(NoTarget, match="no broker is restarted before the cluster is whole: "):
        hit(cluster, "restart:rolling", stage=stage)
    assert cluster.clock.now_s == begin
    assert "shut_down" not in [verb for verb, _ in verbs(cluster)]
    run_blocking(heal(stage, injected))
    cluster.clock.now_s += START_S + 1
    assert len(hit(cluster, "restart:rolling", stage=stage).nodes) == 3


def whole(cluster: Recording, node: int) -> bool:
    roles: Roles = run_blocking(cluster.roles())
    return node in roles.answering and all(node in roles.isr[tp] for tp in DATA)


@pytest.mark.sampled(5)
def test_the_order_of_a_rolling_restart_is_drawn() -> None:
    assert len({hit(Recording(3), "restart:rolling", seed).nodes for seed in range(40)}) == 6


def test_a_rolling_restart_does_not_go_on_before_all_is_in_sync() -> None:
    class Slow(Recording):
        async def roles(self) -> Roles:
            roles = await super().roles()
            if not self.calls:
                return roles
            isr = {tp: tuple(n for n in nodes if n != 2) for tp, nodes in roles.isr.items()}
            return Roles(ns=0, leaders=roles.leaders, isr=isr, answering=roles.answering)

    cluster = Slow(3)
    begin = cluster.clock.now_s
    late = r"60 s after the restart of node \d: replicas \[2\] of __consumer_offsets-0"
    with pytest.raises(NoEffect, match=late):
        hit(cluster, "restart:rolling")
    assert [verb for verb, _ in verbs(cluster)].count("shut_down") == 1
    assert cluster.whole
    assert WHOLE_S <= cluster.clock.now_s - begin < WHOLE_S + 5


def test_no_rolling_restart_begins_while_another_fault_holds_a_node_down() -> None:
    cluster = Recording(3)
    stage = stage_of(cluster)
    killed = hit(cluster, "kill:one@controller", stage=stage)
    begin = cluster.clock.now_s
    with pytest.raises(NoTarget, match="another fault holds node 3 down"):
        hit(cluster, "restart:rolling", stage=stage)
    assert cluster.dead == {3}
    assert cluster.clock.now_s == begin
    run_blocking(heal(stage, killed))
    cluster.clock.now_s += START_S
    hit(cluster, "restart:rolling", stage=stage)
    assert cluster.whole


def test_a_rolling_restart_ends_early_and_says_so_when_the_run_stops() -> None:
    cluster = Recording(3)
    done = False

    def stop() -> None:
        nonlocal done
        done = cluster.clock.now_s > 100 + START_S + 1

    cluster.clock.then = stop
    with pytest.raises(NoEffect, match=r"after 1 of 3 brokers .* a longer phase \(duration_s\)"):
        hit(cluster, "restart:rolling", stage=stage_of(cluster, stopping=lambda: done))
    assert [verb for verb, _ in verbs(cluster)].count("shut_down") == 2
    assert cluster.whole


def test_a_rolling_restart_that_ends_with_the_phase_is_a_whole_one() -> None:
    cluster = Recording(3)

    def restarted() -> bool:
        return not cluster.starting and [verb for verb, _ in verbs(cluster)].count("revive") == 3

    assert len(hit(cluster, "restart:rolling", stage=stage_of(cluster, stopping=restarted)).nodes) == 3


def test_a_rolling_restart_needs_to_know_the_replicas() -> None:
    class Silent(Recording):
        async def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
            return {}

    cluster = Silent(3)
    with pytest.raises(NoTarget, match="no broker tells"):
        hit(cluster, "restart:rolling")
    assert [verb for verb, _ in verbs(cluster)].count("shut_down") == 0


# ---- unclean


def test_a_leader_dies_alone_in_sync_after_it_went_on_for_a_moment() -> None:
    cluster = Recording(3)
    stage, begin = stage_of(cluster), cluster.clock.now_s
    injected = hit(cluster, "unclean:lagging@leader", stage=stage)
    (node,) = injected.nodes
    assert [verb for verb, _ in verbs(cluster)] == ["cut", "kill"]
    assert cluster.dead == {node}
    assert cluster.cuts == {
        Cut(node=node, direction=cut.direction, peer=peer, listener=Listener.BROKER)
        for cut in cluster.cuts
        for peer in {1, 2, 3} - {node}
    }
    assert LAG_S + ALONE_S <= cluster.clock.now_s - begin < SHRINK_S
    run_blocking(heal(stage, injected))
    assert [verb for verb, _ in verbs(cluster)][2:] == ["mend", "revive"]
    assert cluster.whole


def test_a_leader_that_is_never_alone_in_sync_is_not_killed() -> None:
    cluster = Recording(3)
    cluster.lag_s = 1e9
    with pytest.raises(NoEffect, match=r"node \d is not alone in sync: q-\d \["):
        hit(cluster, "unclean:lagging@leader")
    assert [verb for verb, _ in verbs(cluster)] == ["cut", "mend", "revive"]
    assert cluster.whole
    assert cluster.clock.now_s - 100 >= SHRINK_S


def test_a_leader_that_lost_its_partitions_is_not_killed() -> None:
    cluster = Recording(3)

    def move() -> None:
        (node,) = {cut.node for cut in cluster.cuts} or {0}
        cluster.led = dict.fromkeys(DATA, node % 3 + 1)

    cluster.lag_s = 1e9
    cluster.clock.then = move
    with pytest.raises(NoEffect, match="not known to lead any of"):
        hit(cluster, "unclean:lagging@leader")
    assert cluster.whole


def test_nobody_is_killed_when_the_run_stops_meanwhile() -> None:
    for at_s in (1.0, LAG_S + 0.5):
        cluster = Recording(3)
        with pytest.raises(NoEffect):
            hit(
                cluster,
                "unclean:lagging@leader",
                stage=stage_of(
                    cluster,
                    stopping=lambda c=cluster, at_s=at_s: c.clock.now_s > 100 + at_s,  # type: ignore[misc]
                ),
            )
        assert "kill" not in [verb for verb, _ in verbs(cluster)]
        assert cluster.whole


def test_a_lone_broker_has_no_followers_to_lag() -> None:
    with pytest.raises(NoTarget, match="only broker"):
        hit(Recording(1), "unclean:lagging@leader")


def test_what_cannot_be_mended_is_revived_all_the_same() -> None:
    cluster = Recording(3)
    stage = stage_of(cluster)
    injected = hit(cluster, "unclean:lagging@leader", stage=stage)
    cluster.broken.add(("mend", injected.nodes[0]))
    with pytest.raises(ClusterError, match="mend"):
        run_blocking(heal(stage, injected))
    assert cluster.dead == set()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "set unclean_leader_election to true"),
        (
            {"topic_settings": {"unclean.leader.election.enable": "false"}, "unclean_leader_election": True},
            "set unclean_leader_election to true",
        ),
        (
            {"unclean_leader_election": True, "replication_factor": 1, "min_insync_replicas": 1},
            "set replication_factor to 2 or more",
        ),
        (
            {"unclean_leader_election": True, "duration_s": 5},
            r"least 10 s \(6 s until it is in force, a session",
        ),
    ],
)
def test_unclean_is_refused_where_no_such_election_can_be(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan("unclean", RunConfig(seed=1, **settings), NAMES)  # type: ignore[arg-type]


def test_unclean_is_planned_where_the_topic_says_so() -> None:
    given = {"unclean.leader.election.enable": "true"}
    steps = plan("unclean", RunConfig(seed=1, topic_settings=given, duration_s=20), NAMES)
    assert {step.name for step in steps} == {"unclean:lagging@leader"}


# ---- elections


def leaders(cluster: Recording) -> dict[TopicPartition, int]:
    known = run_blocking(cluster.roles()).leaders
    return {tp: known[tp] for tp in DATA}


def test_shuffle_moves_every_leader_to_another_in_sync_replica() -> None:
    for seed in range(20):
        cluster = Recording(3)
        before = leaders(cluster)
        injected = hit(cluster, "elections:shuffle", seed)
        after = leaders(cluster)
        assert all(before[tp] != after[tp] for tp in DATA)
        assert all(cluster.order[tp][0] == after[tp] for tp in DATA)
        assert all(sorted(nodes) == [1, 2, 3] for nodes in cluster.order.values())
        assert f"q-0 from node {before[DATA[0]]} to {after[DATA[0]]}" in injected.text
        assert cluster.whole


def test_shuffle_is_drawn_and_keeps_to_replicas_in_sync() -> None:
    drawn = set()
    for seed in range(40):
        cluster = Recording(3)
        cluster.dead = {3}
        hit(cluster, "elections:shuffle", seed)
        drawn.add(tuple(leaders(cluster).values()))
        assert 3 not in leaders(cluster).values()
    assert len(drawn) == 1  # of two replicas in sync the other one
    assert len({tuple(hit(Recording(5), "elections:shuffle", s).leaders) for s in range(40)}) > 9


def test_shuffle_without_another_replica_in_sync_is_no_target() -> None:
    cluster = Recording(3)
    cluster.dead = {2, 3}
    with pytest.raises(NoTarget, match="another in-sync replica"):
        hit(cluster, "elections:shuffle")
    assert verbs(cluster) == []


def test_preferred_brings_leaders_home() -> None:
    cluster = Recording(3)
    cluster.led = dict.fromkeys(DATA, 2)
    hit(cluster, "elections:preferred")
    assert leaders(cluster) == {tp: cluster.order[tp][0] for tp in DATA}
    assert [verb for verb, _ in verbs(cluster)] == ["elect"]


def test_preferred_leaves_out_those_that_are_not_in_sync() -> None:
    cluster = Recording(3)
    gone = cluster.order[DATA[0]][0]
    cluster.led = {tp: next(node for node in cluster.order[tp][1:] if node != gone) for tp in DATA}
    cluster.dead = {gone}
    injected = hit(cluster, "elections:preferred")
    assert set(injected.tps) == {tp for tp in DATA if cluster.order[tp][0] != gone} != set(DATA)
    assert f"{len(injected.tps)} of {len(DATA)} partitions" in injected.text
    cluster = Recording(3)
    cluster.order = dict.fromkeys(DATA, (1, 2, 3))
    cluster.dead = {1}
    with pytest.raises(NoTarget, match="preferred leader in sync"):
        hit(cluster, "elections:preferred")
    assert verbs(cluster) == []


def test_preferred_leaders_that_lead_are_no_target() -> None:
    cluster = Recording(3)
    cluster.led = {DATA[0]: 3, **{tp: cluster.order[tp][0] for tp in DATA[1:]}}
    assert cluster.order[DATA[0]][0] != 3
    injected = hit(cluster, "elections:preferred")
    assert injected.tps == DATA[:1]
    assert injected.text == f"the preferred leaders of 1 of {len(DATA)} partitions were elected"
    with pytest.raises(NoTarget, match="each partition whose preferred leader is in sync is led by it"):
        hit(cluster, "elections:preferred")
    assert [verb for verb, _ in verbs(cluster)] == ["elect"]


def test_shuffle_names_no_broker_that_a_fault_holds_down() -> None:
    """It is in sync until it is fenced."""
    for seed in range(10):
        cluster = Recording(3)
        stage = stage_of(cluster)
        roles = run_blocking(cluster.roles())
        (down,) = hit(cluster, "kill:one@random", stage=stage).nodes
        aimed = aim(stage, step("elections:shuffle", seed), roles, NAMES)
        assert aimed.leaders
        assert down not in aimed.leaders


def test_an_election_that_fails_for_one_partition_has_moved_others() -> None:
    cluster = Recording(3, broken=[("elect", 2)])
    injected = hit(cluster, "elections:shuffle")
    assert sum(leaders(cluster)[tp] == node for tp, node in zip(DATA, injected.leaders, strict=True)) == 3


def test_an_election_that_moves_nobody_has_no_effect() -> None:
    class Stubborn(Recording):
        async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
            self.works("elect", [tp.partition for tp in tps])

    with pytest.raises(NoEffect, match="none of 4 leaders moved"):
        hit(Stubborn(3), "elections:shuffle")


def test_an_election_that_fails_is_told() -> None:
    cluster = Recording(3, broken=[("elect", 2)])
    cluster.led = {tp: cluster.order[tp][1] for tp in DATA}
    with pytest.raises(ClusterError, match="elect of 2 failed"):
        hit(cluster, "elections:preferred")
    with pytest.raises(ClusterError, match="elect of 0 failed"):
        hit(Recording(3, broken=[("elect", number) for number in range(4)]), "elections:shuffle")
    with pytest.raises(ClusterError, match="reorder of 2 failed"):
        hit(Recording(3, broken=[("reorder", 2)]), "elections:shuffle")


def test_elections_are_refused_without_replicas() -> None:
    config = RunConfig(seed=1, replication_factor=1, min_insync_replicas=1)
    with pytest.raises(ConfigError, match="set replication_factor"):
        plan("elections", config, NAMES)
    assert "elections" not in {step.family for step in plan("random", config, NAMES)}
