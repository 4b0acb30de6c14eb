"""Injecting and healing on a cluster that only records what is done to it."""

import dataclasses
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.capabilities import (
    Cut,
    Direction,
    DirectoryFailable,
    DiskFailable,
    DiskFillable,
    HalfOpenable,
    Killable,
    Linked,
    Partitionable,
    Pausable,
    Powered,
    Reassignable,
    Restartable,
    Throttleable,
    Toxic,
    VotersChangeable,
    Wired,
    WiredBetween,
)
from core.cluster import Cluster, Roles
from core.config import RunConfig, run_config
from core.errors import ClusterError, LogsKept
from core.internal_topics import SHARE_STATE_TOPIC
from core.load_clients import Clients
from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from nemesis.execute import heal, heal_all, inject, needs
from nemesis.families.client import POINTS
from nemesis.families.partition import ordered, unfed
from nemesis.families.wire import CAUGHT_S, KINDS, WAITING, WIRE
from nemesis.registry import NEMESES
from nemesis.schedule import plan
from nemesis.types import AimedFault, ClusterView, Environment, NoEffect, NoTarget, PlannedFault
from tests.nemesis.stage import DATA, NAMES, Recording, RecordingClients, stage_of

UNHURRIED = settings(deadline=None)  # the machine may be loaded


def step_of(name: str, seed: int = 0) -> PlannedFault:
    """A step by its full name."""
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    return PlannedFault(
        fault=0, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )


def hit(cluster: Recording, name: str, seed: int = 0, stage: Environment | None = None) -> AimedFault:
    stage = stage or stage_of(cluster)
    if name in ("upgrade:back", "upgrade:finalize"):  # what comes after an upgrade
        cluster.later.update(cluster.nodes)
    return run_blocking(inject(stage, step_of(name, seed), run_blocking(cluster.roles()), NAMES))


ALL = [
    f"{family}:{kind}" + (f"@{target}" if value.targeted else "")
    for family, nemesis in NEMESES.items()
    for kind, value in nemesis.kinds.items()
    if not value.stands_for
    for target in (nemesis.targets if value.targeted else ("",))
    if not nemesis.lacks or not nemesis.lacks(kind, target, NAMES)
]
HELD: dict[type, str] = {
    Killable: "dead",
    Powered: "dead",
    DiskFailable: "dead",
    DiskFillable: "dead",
    DirectoryFailable: "halved",
    VotersChangeable: "voteless",
    Restartable: "dead",
    Pausable: "frozen",
    Partitionable: "cuts",
    HalfOpenable: "cuts",
    Linked: "toxics",
    Wired: "rules",
    Reassignable: "moved",
    Throttleable: "slow",
}
"""What a fault that needs a capability leaves in force on the cluster until it is healed."""


def in_force(cluster: Recording, clients: RecordingClients) -> set[str]:
    held = {
        "dead": cluster.dead,
        "frozen": cluster.frozen,
        "cuts": cluster.cuts,
        "toxics": cluster.toxics,
        "rules": cluster.rules,
        "moved": cluster.moved,
        "slow": cluster.slow,
        "halved": cluster.halved,
        "voteless": cluster.voteless,
        "down": clients.down,
        "paused": clients.paused,
    }
    return {name for name, value in held.items() if value}


def expected(step: PlannedFault) -> set[str]:
    """What the family's needs say; a kind that goes from broker to broker (rolling) leaves nothing."""
    nemesis = NEMESES[step.family]
    if nemesis.kinds[step.kind].apply_each_s:
        return set()
    if Clients in nemesis.needs:
        return {"down" if step.kind in POINTS else "paused"}
    needs = (*nemesis.needs, *nemesis.kinds[step.kind].needs)
    held = {HELD[need] for need in needs if need in HELD}
    if step.kind == "cancel":  # there is nothing left to take back but the order of replicas
        return set()
    return held - {"cuts"} if step.kind in ("successor", "recovering") else held


@pytest.mark.parametrize("controllers", [0, 3])
@pytest.mark.parametrize("name", ALL)
def test_every_fault_takes_effect_and_healing_takes_it_back(name: str, controllers: int) -> None:
    cluster, clients = Recording(controllers=controllers), RecordingClients()
    stage = stage_of(cluster, clients)
    step = step_of(name)
    try:
        injected = hit(cluster, name, stage=stage)
    except NoTarget:
        if name.startswith("partition:metadata") and not controllers:
            return
        assert (controllers, step.target) == (3, "controller")
        assert NEMESES[step.family].kinds[step.kind].brokers_only
        return
    assert in_force(cluster, clients) == expected(step)
    if step.kind not in ("rolling", "shuffle", "ring", "halves", "bridge", "preferred"):
        hurt = cluster.dead or cluster.frozen or set(cluster.toxics) or set(injected.nodes)
        assert set(injected.nodes) == hurt
    assert set(injected.slots) == {slot for _, slots in clients.calls for slot in slots}
    assert injected.text
    assert cluster.calls or clients.calls
    for _ in range(2):
        run_blocking(heal(stage, injected))
        assert in_force(cluster, clients) == set()


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("kill:one@controller", {5}),
        ("kill:one@txn-coordinator", {1}),
        ("kill:all", {1, 2, 3, 4, 5}),
        ("pause:long@group-coordinator", {1}),
        ("pause:short@controller", {5}),
        ("partition:isolate@controller", {5}),
        ("partition:clients-requests@txn-coordinator", {1}),
        ("restart:graceful@controller", {5}),
        ("links:reset@controller", {5}),
        ("links:reset@all", {1, 2, 3, 4, 5}),
    ],
)
def test_the_role_that_was_asked_for_is_hit(name: str, nodes: set[int]) -> None:
    assert set(hit(Recording(), name).nodes) == nodes


@UNHURRIED
@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_killed_majority_is_the_smallest_one_and_has_the_target(size: int, seed: int) -> None:
    cluster = Recording(size)
    hit(cluster, "kill:majority@controller", seed)
    assert size in cluster.dead
    assert len(cluster.dead) == size // 2 + 1


def test_a_majority_of_isolated_controllers_is_one_of_controllers() -> None:
    for controllers, killed in ((1, {4}), (3, {6, 4}), (3, {6, 5})):
        for seed in range(40):
            cluster = Recording(3, controllers=controllers)
            hit(cluster, "kill:majority@controller", seed)
            if cluster.dead == killed:
                break
            assert cluster.dead <= {4, 5, 6}
        else:
            raise AssertionError(killed)
    cluster = Recording(3, controllers=3)
    hit(cluster, "kill:majority@leader")
    assert len(cluster.dead) == 2
    assert cluster.dead < {1, 2, 3}


@pytest.mark.parametrize(
    ("name", "kraft", "zookeeper"),
    [
        (
            "partition:ring",
            "; the controllers are linked to all",
            "; the nodes of ZooKeeper are linked to all",
        ),
        ("partition:halves@leader", r", with \d of 3 controllers", r", with \d of 3 nodes of ZooKeeper"),
    ],
)
def test_nodes_behind_brokers_are_called_what_they_are(name: str, kraft: str, zookeeper: str) -> None:
    settings: list[dict[str, object]] = [{"controllers": 3}, {"kafka": {"version": "2.8.2", "ensemble": 3}}]
    for set_so, says in zip(settings, (kraft, zookeeper), strict=True):
        cluster = Recording(5, controllers=3)
        stage = dataclasses.replace(stage_of(cluster), config=run_config({"seed": 1, **set_so}))
        assert re.search(says + "$", hit(cluster, name, stage=stage).text)


def test_others_of_a_majority_are_drawn() -> None:
    drawn = {hit(Recording(), "kill:majority@controller", seed).nodes for seed in range(40)}
    assert len(drawn) == 6  # pairs out of four others


def test_texts_of_kill_and_pause() -> None:
    assert hit(Recording(3), "kill:one@controller").text == (
        "node 3 (controller; leader of q-2) was killed (SIGKILL)"
    )
    assert hit(Recording(2), "kill:all").text == (
        "all nodes at once: node 1 (leader of q-0, q-2; transaction coordinator of tx-0 and 1 more; "
        "group coordinator of g), node 2 (leader of q-1, q-3; controller) were killed (SIGKILL)"
    )
    for kind in ("short", "long"):  # a file may say another length
        assert hit(Recording(3), f"pause:{kind}@controller").text == (
            "node 3 (controller; leader of q-2) is paused, for 6 s as planned"
        )
    assert hit(Recording(3), "client:pause@transactional").text.endswith(
        "is paused (SIGSTOP), for 6 s as planned"
    )


AMONG_BROKERS = [name for name in ALL if not name.startswith("partition:metadata")]


@UNHURRIED
@given(
    st.sampled_from(AMONG_BROKERS), st.sampled_from(AMONG_BROKERS), st.integers(0, 2**32 - 1), st.booleans()
)
def test_two_faults_at_once_heal_in_any_order(
    one: str, other: str, seed: int, first_in_first_out: bool
) -> None:
    if one.split(":")[0] == other.split(":")[0]:
        return
    cluster, clients = Recording(), RecordingClients()
    stage = stage_of(cluster, clients)
    held = []
    for name in (one, other):
        try:
            held.append(hit(cluster, name, seed, stage))
        except (NoTarget, NoEffect):
            assert held
            assert in_force(cluster, clients) >= expected(held[0].step)
    for injected in held if first_in_first_out else reversed(held):
        try:
            run_blocking(heal(stage, injected))
        except ClusterError:  # a voter that the other fault holds down
            assert injected.step.family == "quorum"
            assert {*cluster.dead} >= cluster.voteless == {*injected.nodes}
    assert in_force(cluster, clients) <= {"voteless"}
    run_blocking(heal_all(stage))
    assert in_force(cluster, clients) == set()


DOWN = [name for name in ALL if {Killable, Powered, Restartable} & {*NEMESES[name.split(":")[0]].needs}]
"""Names of faults that hold nodes down."""


def held_down(injected: AimedFault) -> set[int]:
    return set(injected.nodes) if "dead" in expected(injected.step) else set()


@UNHURRIED
@given(
    st.sampled_from(DOWN),
    st.sampled_from(DOWN),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 3]),
    st.booleans(),
)
def test_a_node_that_two_faults_hold_down_is_started_when_both_are_healed(
    one: str, other: str, seed: int, controllers: int, first_in_first_out: bool
) -> None:
    if one.split(":")[0] == other.split(":")[0]:
        return
    cluster = Recording(controllers=controllers)
    stage = stage_of(cluster)
    held: list[AimedFault] = []
    for name in (one, other):
        before = set(cluster.dead)
        try:
            held.append(hit(cluster, name, seed, stage))
        except (NoTarget, NoEffect):
            assert cluster.dead == before
            return
        assert cluster.dead == before | held_down(held[-1])
    first, second = held if first_in_first_out else reversed(held)
    for _ in range(2):
        run_blocking(heal(stage, first))
        assert cluster.dead == held_down(second)
    run_blocking(heal(stage, second))
    assert cluster.whole


def test_a_node_that_could_not_be_started_is_left_to_the_fault_that_holds_it() -> None:
    cluster = Recording(3, broken=[("revive", 3)])
    stage = stage_of(cluster)
    restart = hit(cluster, "restart:graceful@controller", stage=stage)
    run_blocking(heal(stage, hit(cluster, "kill:all", stage=stage)))
    assert cluster.dead == {3}
    with pytest.raises(ClusterError, match="revive of 3"):
        run_blocking(heal(stage, restart))
    cluster.broken.clear()
    run_blocking(heal(stage, hit(cluster, "kill:all", stage=stage)))
    assert cluster.dead == {3}, "the restart is still in force"
    run_blocking(heal_all(stage))
    assert cluster.whole
    run_blocking(heal(stage, hit(cluster, "kill:all", stage=stage)))
    assert cluster.whole, "nothing is in force after heal_all"


def test_a_power_loss_that_takes_nothing_has_failed() -> None:
    cluster = Recording()
    stage = stage_of(cluster)
    assert hit(cluster, "power:all", stage=stage).text.endswith(": 35 batches that were not flushed are gone")
    run_blocking(heal_all(stage))
    cluster.unflushed = 0
    with pytest.raises(NoEffect, match="all that they had written was flushed"):
        hit(cluster, "power:all", stage=stage)
    assert cluster.whole


@pytest.mark.parametrize(("error", "raised"), [(LogsKept("x"), NoEffect), (ClusterError("x"), ClusterError)])
def test_a_power_loss_that_cut_no_log_for_certain_says_so(
    error: ClusterError, raised: type[Exception]
) -> None:
    class Failing(Recording):
        async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
            await self.kill(nodes)
            raise error

    cluster = Failing(3)
    with pytest.raises(raised, match="x"):
        hit(cluster, "power:all", stage=stage_of(cluster))
    assert cluster.dead == set()


def test_a_power_loss_that_can_take_nothing_is_one_all_the_same() -> None:
    cluster = Recording()
    cluster.unflushed, cluster.each_flushed = 0, True
    assert hit(cluster, "power:all", stage=stage_of(cluster)).text.endswith(
        ": each record was flushed, none is gone"
    )
    assert not cluster.whole


def test_a_half_open_link_that_stops_no_connection_has_failed() -> None:
    cluster, clients = Recording(), RecordingClients()
    stage = stage_of(cluster, clients)
    done = hit(cluster, "half-open:clients@leader", stage=stage)
    assert [verb for verb, _ in clients.calls] == ["crash", "restart"]
    assert clients.whole
    assert all(cut.opening and cut.peer is None for cut in cluster.cuts)
    assert done.text.endswith("waits; established ones live")
    run_blocking(heal_all(stage))
    cluster.silent = True
    with pytest.raises(NoEffect, match="no client tried to connect within 10 s"):
        hit(cluster, "half-open:clients@leader", stage=stage)
    assert cluster.whole
    assert clients.whole


def test_a_half_open_link_leaves_a_client_down_that_another_fault_holds() -> None:
    cluster, clients = Recording(), RecordingClients()
    stage = stage_of(cluster, clients)
    slots = {client.slot for client in clients.slots}
    clients.down = set(slots)
    with pytest.raises(NoTarget, match="was not started again: it is not running"):
        hit(cluster, "half-open:clients@leader", stage=stage)
    assert clients.down == slots
    assert cluster.whole


def test_a_dead_node_is_not_paused() -> None:
    cluster = Recording()
    hit(cluster, "kill:all")
    for target in NEMESES["pause"].targets:
        with pytest.raises(NoTarget):
            hit(cluster, f"pause:long@{target}")
    run_blocking(cluster.revive([2]))
    assert hit(cluster, "pause:long@random").nodes == (2,)


def test_no_connection_is_asked_of_a_client_that_another_fault_holds() -> None:
    cluster, clients = Recording(), RecordingClients()
    stage = stage_of(cluster, clients)
    loading = {client.slot for client in clients.slots if client.produces}
    (paused,) = hit(cluster, "client:pause@transactional", stage=stage).slots
    asked = {hit(cluster, "half-open:clients@leader", seed, stage).slots for seed in range(20)}
    assert asked == {(slot,) for slot in loading - {paused}}
    stage.clients_held.update(client.slot for client in clients.slots)
    with pytest.raises(NoTarget, match="other faults hold all clients"):
        hit(cluster, "half-open:clients@leader", stage=stage)
    run_blocking(heal_all(stage))
    assert stage.clients_held == set()


def test_a_majority_is_made_of_nodes_that_run() -> None:
    cluster = Recording(controllers=3)
    stage = stage_of(cluster)
    (first,) = hit(cluster, "restart:graceful@leader", stage=stage).nodes
    majority = hit(cluster, "kill:majority@leader", stage=stage).nodes
    (last,) = hit(cluster, "power:majority@leader", stage=stage).nodes
    assert (len(majority), {first, *majority, last}) == (3, {*cluster.brokers})


def test_no_target_touches_nothing() -> None:
    cluster = Recording()
    cluster.frozen = set(cluster.nodes)
    for name in ("kill:one@leader", "partition:isolate@controller", "pause:short@random"):
        with pytest.raises(NoTarget):
            hit(cluster, name)
    assert cluster.calls == []


@pytest.mark.parametrize(
    ("verb", "node", "name"),
    [
        ("kill", 3, "kill:all"),
        ("pause", 5, "pause:long@controller"),
        ("cut", 3, "partition:ring"),
        ("shut_down", 5, "restart:graceful@controller"),
        ("shut_down", 3, "restart:rolling"),
        ("poison", 3, "links:latency@all"),
        ("kill", 1, "unclean:lagging@leader"),
    ],
)
def test_what_is_injected_half_is_taken_back(verb: str, node: int, name: str) -> None:
    cluster = Recording(broken=[(verb, node)])
    if name == "unclean:lagging@leader":
        cluster.led = dict.fromkeys(DATA, node)
    with pytest.raises(ClusterError, match=f"{verb} of {node} failed"):
        hit(cluster, name)
    assert verb in [verb for verb, _ in cluster.calls]
    assert cluster.whole


def test_clients_that_are_half_crashed_or_paused_are_taken_back() -> None:
    for verb, name in (("crash", "client:crash@random"), ("pause", "client:pause@random")):
        cluster = Recording()
        clients = RecordingClients(broken=[(verb, slot) for slot in range(4)])
        with pytest.raises(ClusterError, match=f"{verb} of . failed"):
            hit(cluster, name, stage=stage_of(cluster, clients))
        undone = {"crash": "restart", "pause": "resume"}[verb]
        assert [verb for verb, _ in clients.calls] == [verb, undone]
        assert clients.whole


def test_a_fault_that_cannot_be_taken_back_is_told() -> None:
    cluster = Recording(broken=[("kill", 3), ("revive", 1)])
    with pytest.raises(ClusterError, match="kill of 3") as error:
        hit(cluster, "kill:all")
    assert error.value.__notes__ == ["taking back what had been done of kill:all failed: revive of 1 failed"]
    assert cluster.dead == {1}


# ---- heal_all


def wrecked(broken: Sequence[tuple[str, int]] = ()) -> Recording:
    """A cluster with one of each in force, whoever made it."""
    cluster = Recording(broken=broken)
    cluster.dead, cluster.frozen = {1, 2, 3}, {4, 5}
    for name in ("partition:ring", "partition:clients-responses@random"):
        for seed in range(9):
            run_blocking(cluster.cut(hit(Recording(), name, seed).cuts))
    cluster.cuts.add(Cut(node=2, direction=Direction.OUT, peer=5))
    run_blocking(cluster.cut(ordered(unfed(3, cluster.nodes))))
    run_blocking(cluster.poison(cluster.nodes, [Toxic(type="latency", attributes={"latency": 200})]))
    cluster.calls.clear()
    return cluster


def test_heal_all_needs_to_know_nothing() -> None:
    cluster, clients = wrecked(), RecordingClients()
    clients.down, clients.paused = {1, 3}, {0}
    run_blocking(heal_all(stage_of(cluster, clients)))
    assert cluster.whole
    assert clients.whole
    everyone = (1, 2, 3, 4, 5)
    healed = [(verb, everyone) for verb in ("resume", "mend", "cure", "revive")]
    assert cluster.calls == [*healed[:3], ("lift", ()), healed[3]]
    assert clients.calls == [("resume", (0, 1, 2, 3)), ("restart", (0, 1, 2, 3))]


def test_heal_all_of_a_whole_cluster_changes_nothing() -> None:
    cluster = Recording(3, controllers=3)
    run_blocking(heal_all(stage_of(cluster)))
    assert cluster.whole
    assert dict(cluster.calls)["revive"] == (1, 2, 3, 4, 5, 6)
    assert dict(cluster.calls)["cure"] == (1, 2, 3)


@pytest.mark.parametrize("verb", ["resume", "mend", "cure", "revive"])
@pytest.mark.parametrize("node", [1, 4])
def test_what_fails_keeps_nothing_else_from_being_healed(verb: str, node: int) -> None:
    cluster, clients = wrecked([(verb, node)]), RecordingClients()
    clients.down = {2}
    with pytest.raises(ExceptionGroup) as error:
        run_blocking(heal_all(stage_of(cluster, clients)))
    assert f"node {node}: {verb} of {node} failed" in error.value.message
    assert len(error.value.exceptions) == 1
    assert cluster.dead == ({node} if (verb, node) == ("revive", 1) else set())
    assert cluster.frozen == ({node} if (verb, node) == ("resume", 4) else set())
    assert {cut.node for cut in cluster.cuts} == ({node} if verb == "mend" else set())
    assert set(cluster.toxics) == ({node} if verb == "cure" else set())
    assert clients.whole


@pytest.mark.parametrize("verb", ["resume", "restart"])
def test_a_client_that_cannot_be_healed_keeps_no_other_from_it(verb: str) -> None:
    cluster, clients = wrecked(), RecordingClients(broken=[(verb, 1)])
    clients.down, clients.paused = {1, 3}, {0, 1}
    with pytest.raises(ExceptionGroup) as error:
        run_blocking(heal_all(stage_of(cluster, clients)))
    assert error.value.message == f"{verb} client 1: {verb} of 1 failed"
    assert clients.down == ({1} if verb == "restart" else set())
    assert clients.paused == ({1} if verb == "resume" else set())
    assert cluster.whole


def test_heal_all_tries_each_node_where_a_verb_fails_as_a_whole() -> None:
    class AllOrNothing(Recording):
        async def revive(self, nodes: Sequence[int]) -> None:
            self.told("revive", nodes)
            await super().revive(nodes)

    cluster = AllOrNothing(broken=[("revive", 2)])
    cluster.dead = {1, 2, 3}
    with pytest.raises(ExceptionGroup, match="revive node 2"):
        run_blocking(heal_all(stage_of(cluster)))
    assert cluster.dead == {2}


def test_heal_all_tells_all_that_failed() -> None:
    cluster = wrecked([("resume", 4), ("mend", 1), ("revive", 2), ("revive", 3), ("cure", 5)])
    clients = RecordingClients(broken=[("restart", 2)])
    with pytest.raises(ExceptionGroup) as error:
        run_blocking(heal_all(stage_of(cluster, clients)))
    assert len(error.value.exceptions) == 6
    for words in (
        "resume node 4",
        "mend the links of node 1",
        "cure the links of node 5",
        "revive node 2",
        "revive node 3",
        "restart client 2",
    ):
        assert words in error.value.message


def test_heal_all_uses_what_the_cluster_has() -> None:
    class Bare:
        nodes = (1,)
        calls: tuple[str, ...] = ()

        async def revive(self, nodes: Sequence[int]) -> None:
            self.calls += ("revive",)

        async def kill(self, nodes: Sequence[int]) -> None: ...

    cluster = Bare()
    clock = Recording().clock
    clients = RecordingClients(slots=())
    stage = Environment(
        cluster=cluster,  # type: ignore[arg-type]
        clients=clients,
        clock=clock,
        stopping=bool,
        healing_clock=clock,
    )
    run_blocking(heal_all(stage))
    assert cluster.calls == ("revive",)
    assert clients.calls == []


# ---- a whole plan


@pytest.mark.sampled(10)
@UNHURRIED
@given(
    st.sampled_from(
        [
            "random",
            "partition,kill,pause",
            "kill,pause:long",
            "restart,client",
            "links,elections",
            "unclean,client",
            "client:pause,pause",
        ]
    ),
    st.integers(0, 999),
    st.sampled_from([0, 1, 3]),
)
def test_a_whole_plan_leaves_a_whole_cluster(text: str, seed: int, controllers: int) -> None:
    config = RunConfig(
        seed=seed,
        brokers=5,
        duration_s=120,
        controllers=controllers,  # type: ignore[arg-type]
        unclean_leader_election=True,
    )
    steps = plan(text, config, NAMES)
    agenda = sorted(
        [(step.at_s, 1, step) for step in steps] + [(step.at_s + step.hold_s, 0, step) for step in steps],
        key=lambda entry: entry[:2],
    )
    cluster, clients = Recording(controllers=controllers), RecordingClients()
    stage = stage_of(cluster, clients)
    held: dict[int, AimedFault] = {}
    for at_s, starts, step in agenda:
        cluster.clock.now_s = max(cluster.clock.now_s, 100 + at_s)
        if starts:
            try:
                held[step.fault] = run_blocking(inject(stage, step, run_blocking(cluster.roles()), NAMES))
            except (NoTarget, NoEffect):
                assert in_force(cluster, clients) or cluster.starting or step.kind == "preferred"
        elif step.fault in held:
            run_blocking(heal(stage, held.pop(step.fault)))
    assert held == {}
    assert in_force(cluster, clients) == set()


def test_the_recording_stage_is_one() -> None:
    cluster: Cluster = Recording()
    clients: Clients = RecordingClients()
    assert cluster.nodes == (1, 2, 3, 4, 5)
    assert clients.slots
    assert {type_ for nemesis in NEMESES.values() for type_ in nemesis.needs} >= {Restartable, Linked}
    for nemesis in NEMESES.values():
        for need in nemesis.needs:
            assert isinstance(cluster, need) or (need is Clients and isinstance(clients, need))


def test_a_rule_of_the_wire_that_takes_no_request_is_a_failed_fault_and_is_taken_back() -> None:
    cluster = Recording()
    cluster.silent = True
    with pytest.raises(NoTarget, match=r"EndTxn .*: no such request came within 2 s"):
        hit(cluster, "wire:endtxn")
    assert cluster.whole


def test_a_fault_of_the_wire_says_which_request_it_took_and_where() -> None:
    injected = hit(Recording(), "wire:endtxn")
    assert injected.nodes == (2,)
    assert injected.text.startswith("EndTxn of tx-0 to node 2 ")
    assert all(0 < rule.skip_s < CAUGHT_S for rule in injected.rules)


def test_a_fault_of_the_wire_says_where_it_took_an_earlier_request_than_drawn() -> None:
    found = [hit(Recording(), "wire:endtxn", seed) for seed in range(40)]  # none was skipped before it
    assert {one.rules[0].skip for one in found} == {0, 1, 2, 3, 4}
    for one in found:
        skip = one.rules[0].skip
        assert (f"(after 0 others, not {skip}: only those came in 0.5 s)" in one.text) is (skip > 0)


def test_rules_of_the_wire_follow_from_the_seed_and_cover_what_a_network_does() -> None:
    rules = [hit(Recording(), "wire:random", seed).rules for seed in range(300)]
    assert rules == [hit(Recording(), "wire:random", seed).rules for seed in range(300)]
    drawn = {rule.action for (rule,) in rules}
    assert drawn == set(Action) - {Action.REFUSE}
    of_clients = {api for kind in KINDS.values() if not (kind.between or kind.at_start) for api in kind.apis}
    # A workload with transactional ids commits offsets in transactions.
    assert {rule.api for (rule,) in rules} == of_clients - {"offset_commit"}
    assert all(not rule.until_api or rule.action in WAITING for (rule,) in rules)
    assert not any(rule.between for (rule,) in rules)


def test_markers_are_taken_between_brokers_on_their_way_to_a_leader_of_data() -> None:
    rules = [hit(Recording(brokers=3, replication=2), "wire:markers", seed).rules for seed in range(60)]
    assert {(rule.api, rule.between) for (rule,) in rules} == {("write_txn_markers", True)}
    assert {rule.nodes for (rule,) in rules} == {(1,), (2,), (3,)}
    assert {rule.action for (rule,) in rules} == set(Action) - {Action.REFUSE, Action.DROP_RESPONSE}
    cluster = Recording(brokers=3)
    cluster.dead.update(cluster.brokers)
    with pytest.raises(NoTarget, match="no leader of a partition"):
        hit(cluster, "wire:markers")


def test_writes_of_share_state_are_taken_on_their_way_to_a_leader_of_its_log() -> None:
    state = {TopicPartition(SHARE_STATE_TOPIC, number): 2 + number for number in range(2)}
    roles = Roles(ns=0, leaders={**dict.fromkeys(DATA, 1), **state})
    view = ClusterView(nodes=(1, 2, 3), brokers=(1, 2, 3), roles=roles, names=NAMES)
    assert WIRE.effect is not None
    rules = [WIRE.effect.aim(step_of("wire:share-state", seed), view).rules for seed in range(20)]
    assert {(rule.api, rule.between) for (rule,) in rules} == {("write_share_group_state", True)}
    assert {rule.nodes for (rule,) in rules} == {(2,), (3,)}


LED = Roles(
    ns=0,
    leaders={tp: 1 + number % 2 for number, tp in enumerate(DATA)},
    isr=dict.fromkeys(DATA, (1, 2, 3)),
    controller=3,
)
"""Brokers 1 and 2 lead, 3 is the controller, and all are in sync."""
FETCHES = {(1, "broker-2-fetcher-0"), (1, "broker-3-fetcher-0"), (2, "broker-1-fetcher-0")}
FETCHES |= {(2, "broker-3-fetcher-0")}


def within(kind: str, roles: Roles = LED, down: tuple[int, ...] = ()) -> list[tuple[WireRule, ...]]:
    """Rules of a kind with many seeds."""
    view = ClusterView(nodes=(1, 2, 3), brokers=(1, 2, 3), roles=roles, names=NAMES, down=down)
    assert WIRE.effect is not None
    return [WIRE.effect.aim(step_of(f"wire:{kind}", seed), view).rules for seed in range(60)]


def paths(rules: Sequence[WireRule]) -> set[tuple[int | str, ...]]:
    return {(*rule.nodes, rule.client_id) for rule in rules}


@pytest.mark.parametrize(
    ("kind", "api", "taken"),
    [
        ("fetch-between", "fetch", FETCHES),
        ("fetch-metadata", "fetch", {(3, "raft-client-1"), (3, "raft-client-2")}),
        ("alter-partition", "alter_partition", {(3, "")}),
        ("heartbeat-controller", "broker_heartbeat", {(3, "")}),
    ],
)
def test_what_keeps_a_cluster_together_is_taken_where_it_goes(
    kind: str, api: str, taken: set[tuple[int | str, ...]]
) -> None:
    rules = [one for one, *_ in within(kind)]
    assert paths(rules) == taken
    assert {(rule.api, rule.between) for rule in rules} == {(api, True)}
    assert {rule.action for rule in rules} == set(Action) - {Action.REFUSE, Action.DROP_RESPONSE}
    assert not any(rule.until_api for rule in rules)


def test_a_follower_lags_until_its_leader_asks_for_another_in_sync_set() -> None:
    helpers = [helper for _, helper in within("alter-partition")]
    assert paths(helpers) == FETCHES
    assert {(one.api, one.action, one.times, one.between) for one in helpers} == {
        ("fetch", Action.HOLD, 0, True)
    }
    by_second = within("alter-partition", dataclasses.replace(LED, controller=2))  # it asks itself unseen
    assert {helper.nodes for _, helper in by_second} == {(1,)}
    cluster = Recording(brokers=3)
    done = hit(cluster, "wire:alter-partition")
    assert {*cluster.rules} == {done.rules[0].number}  # the follower is back as soon as one was taken
    assert done.nodes == ()
    assert done.text.startswith("AlterPartition of tx-0 to node 2 ")


@pytest.mark.parametrize("kind", ["fetch-metadata", "alter-partition", "heartbeat-controller"])
def test_where_no_controller_is_known_nothing_that_it_is_asked_is_taken(kind: str) -> None:
    with pytest.raises(NoTarget, match="no active controller is known"):
        within(kind, dataclasses.replace(LED, controller=-1))
    with pytest.raises(NoTarget, match="no active controller is known"):
        within(kind, down=(3,))


def test_a_follower_or_leader_that_is_down_asks_nothing() -> None:
    assert {rules[0].client_id for rules in within("fetch-between", down=(2,))} == {"broker-3-fetcher-0"}
    with pytest.raises(NoTarget, match="no leader of a partition"):
        within("fetch-between", down=(1, 2))


def test_the_producer_id_of_a_client_that_is_started_again_is_taken() -> None:
    asked: set[int] = set()
    found: list[WireRule] = []
    for seed in range(60):
        clients = RecordingClients()
        done = hit(Recording(), "wire:init-producer-id", seed, stage_of(Recording(), clients))
        assert [verb for verb, _ in clients.calls] == ["crash", "restart"]
        assert {slot for _, slots in clients.calls for slot in slots} == set(done.slots)
        assert done.text.endswith(f"; client {done.slots[0]} was killed and started again")
        asked |= set(done.slots)
        found += done.rules
    assert asked == {client.slot for client in NAMES.clients if client.transactional_id}
    assert {(rule.api, rule.skip) for rule in found} == {("init_producer_id", 0)}
    assert {rule.action for rule in found} == set(Action) - {Action.REFUSE}
    assert {rule.until_api for rule in found if rule.action in WAITING} == {"", "end_txn", "produce"}
    plain = tuple(client for client in NAMES.clients if not client.transactional_id)
    done = hit(Recording(), "wire:init-producer-id", 0, stage_of(Recording(), RecordingClients(plain)))
    assert done.slots == (0,)


@pytest.mark.parametrize("name", ["wire:init-producer-id", "half-open:clients@leader"])
def test_the_next_process_of_a_client_that_is_started_again_begins_after_the_fault(name: str) -> None:
    """One that begins with the fault would have been there before it, and the end of the one before would be
    unexplained."""
    cluster, begun = Recording(), list[float]()

    class Noting(RecordingClients):
        async def restart(self, slots: Sequence[int]) -> None:
            begun.append(cluster.clock.now_s)
            await super().restart(slots)

    before = cluster.clock.now_s
    hit(cluster, name, stage=stage_of(cluster, Noting()))
    assert begun[0] > before


def test_an_init_producer_id_that_does_not_come_is_a_failed_fault() -> None:
    cluster, clients = Recording(), RecordingClients()
    cluster.silent = True
    with pytest.raises(NoEffect, match=r"no such request came within 10 s, of client \d either"):
        hit(cluster, "wire:init-producer-id", stage=stage_of(cluster, clients))
    assert cluster.whole
    assert clients.whole


def test_no_producer_id_is_asked_for_by_a_client_that_another_fault_holds() -> None:
    cluster, clients = Recording(), RecordingClients()
    stage = stage_of(cluster, clients)
    clients.down = {client.slot for client in clients.slots}
    with pytest.raises(NoTarget, match="was not started again: it is not running"):
        hit(cluster, "wire:init-producer-id", stage=stage)
    assert cluster.whole
    stage.clients_held.update(client.slot for client in clients.slots)
    with pytest.raises(NoTarget, match="other faults hold all clients"):
        hit(cluster, "wire:init-producer-id", stage=stage)


def test_only_faults_between_brokers_need_proxies_there() -> None:
    assert WiredBetween in needs([step_of("wire:markers")])
    assert WiredBetween not in needs([step_of("wire:endtxn")])


def test_healing_everything_lifts_rules_that_no_fault_is_known_to_hold() -> None:
    cluster = Recording()
    hit(cluster, "wire:produce")
    run_blocking(heal_all(stage_of(cluster)))
    assert cluster.whole
