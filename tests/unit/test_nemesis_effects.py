"""Injecting and healing on a cluster that only records what is done to it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cluster import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    Cluster,
    ClusterError,
    Cut,
    Direction,
    Endpoint,
    Roles,
)
from harness.config import RunConfig
from harness.op import Isolation, TopicPartition
from harness.session import drive
from nemesis import NEMESES, Injected, Names, NoTarget, Step, heal, heal_all, inject, plan

UNHURRIED = settings(deadline=None)  # the machine may be loaded

DATA = tuple(TopicPartition("q", number) for number in range(4))
NAMES = Names(data=DATA, transactional_ids=("tx-0", "tx-1"), groups=("g",))


class Recording:
    """A cluster that holds what is in force; `broken` = (verb, node) pairs that fail.

    It is as strict as a real one: a dead node cannot be paused, and dies thawed.
    """

    def __init__(self, nodes: int = 5, broken: Sequence[tuple[str, int]] = ()) -> None:
        self.nodes = tuple(range(1, nodes + 1))
        self.dead: set[int] = set()
        self.frozen: set[int] = set()
        self.cuts: set[Cut] = set()
        self.broken = set(broken)
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def _do(self, verb: str, nodes: Sequence[int]) -> list[int]:
        """Which nodes the verb works for; raises at the end, as a real cluster does."""
        self.calls.append((verb, tuple(nodes)))
        return [node for node in nodes if (verb, node) not in self.broken]

    def _told(self, verb: str, nodes: Sequence[int]) -> None:
        failed = [node for node in nodes if (verb, node) in self.broken]
        if failed:
            raise ClusterError(f"{verb} of node {failed[0]} failed")

    async def kill(self, nodes: Sequence[int]) -> None:
        done = self._do("kill", nodes)
        self.frozen.difference_update(done)
        self.dead.update(done)
        self._told("kill", nodes)

    async def revive(self, nodes: Sequence[int]) -> None:
        self.dead.difference_update(self._do("revive", nodes))
        self._told("revive", nodes)

    async def pause(self, nodes: Sequence[int]) -> None:
        done = self._do("pause", nodes)
        if self.dead & set(done):
            raise ClusterError("a dead node cannot be paused")
        self.frozen.update(done)
        self._told("pause", nodes)

    async def resume(self, nodes: Sequence[int]) -> None:
        self.frozen.difference_update(self._do("resume", nodes))
        self._told("resume", nodes)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        nodes = [cut.node for cut in cuts]
        done = self._do("cut", sorted(set(nodes)))
        self.cuts.update(cut for cut in cuts if cut.node in done)
        self._told("cut", nodes)

    async def mend(self, cuts: Sequence[Cut]) -> None:
        nodes = [cut.node for cut in cuts]
        done = self._do("mend", sorted(set(nodes)))
        self.cuts.difference_update(cut for cut in cuts if cut.node in done)
        self._told("mend", nodes)

    async def roles(self) -> Roles:
        alive = tuple(node for node in self.nodes if node not in self.dead | self.frozen)
        leaders = {tp: alive[tp.partition % len(alive)] if alive else -1 for tp in DATA}
        for topic in (TRANSACTION_TOPIC, GROUP_TOPIC):
            leaders |= {TopicPartition(topic, n): alive[0] if alive else -1 for n in range(5)}
        controller = alive[-1] if alive else -1
        return Roles(ns=0, leaders=leaders, controller=controller, answering=alive)

    @property
    def state(self) -> tuple[set[int], set[int], set[Cut]]:
        return set(self.dead), set(self.frozen), set(self.cuts)

    # not used by nemeses
    async def start(self) -> None: ...
    async def create_topic(self, *args: object) -> None: ...
    def endpoint(self) -> Endpoint:
        raise NotImplementedError

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        raise NotImplementedError

    async def trouble(self) -> str:
        raise NotImplementedError

    async def collect(self, into: Path) -> None: ...
    async def stop(self) -> None: ...


def step_of(name: str, seed: int = 0) -> Step:
    """A step by its full name."""
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    return Step(
        fault=0, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )


def hit(cluster: Recording, name: str, seed: int = 0) -> Injected:
    return drive(inject(cluster, step_of(name, seed), drive(cluster.roles()), NAMES))


ALL = [
    f"{family}:{kind}" + (f"@{target}" if value.targeted else "")
    for family, nemesis in NEMESES.items()
    for kind, value in nemesis.kinds.items()
    if not value.stands_for
    for target in (nemesis.targets if value.targeted else ("",))
]


@pytest.mark.parametrize("name", ALL)
def test_every_fault_takes_effect_and_healing_takes_it_back(name: str) -> None:
    cluster = Recording()
    injected = hit(cluster, name)
    dead, frozen, cuts = cluster.state
    family = injected.step.family
    assert [bool(dead), bool(frozen), bool(cuts)] == [
        family == "kill", family == "pause", family == "partition",
    ]  # fmt: skip
    assert set(injected.nodes) == (dead or frozen or set(injected.nodes))
    assert injected.colour == NEMESES[family].colour
    assert injected.text
    drive(heal(cluster, injected))
    assert cluster.state == (set(), set(), set())
    drive(heal(cluster, injected))
    assert cluster.state == (set(), set(), set())


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
    for kind, length in (("short", "shorter"), ("long", "longer")):
        assert hit(Recording(3), f"pause:{kind}@controller").text == (
            f"node 3 (controller; leader of q-2) is paused, planned {length} than its session "
            "timeout (6 s)"
        )


@UNHURRIED
@given(st.sampled_from(ALL), st.sampled_from(ALL), st.integers(0, 2**32 - 1), st.booleans())
def test_two_faults_at_once_heal_in_any_order(
    one: str, other: str, seed: int, first_in_first_out: bool
) -> None:
    if one.split(":")[0] == other.split(":")[0]:
        return
    cluster = Recording()
    held = [hit(cluster, one, seed)]
    try:
        held.append(hit(cluster, other, seed))
    except NoTarget:
        assert cluster.dead | cluster.frozen
    for injected in held if first_in_first_out else reversed(held):
        drive(heal(cluster, injected))
    assert cluster.state == (set(), set(), set())


def test_a_dead_node_is_not_paused() -> None:
    cluster = Recording()
    hit(cluster, "kill:all")
    for target in NEMESES["pause"].targets:
        with pytest.raises(NoTarget):
            hit(cluster, f"pause:long@{target}")
    drive(cluster.revive([2]))
    assert hit(cluster, "pause:long@random").nodes == (2,)


def test_no_target_touches_nothing() -> None:
    cluster = Recording()
    cluster.frozen = set(cluster.nodes)
    for name in ("kill:one@leader", "partition:isolate@controller", "pause:short@random"):
        with pytest.raises(NoTarget):
            hit(cluster, name)
    assert cluster.calls == []


def test_what_is_injected_half_is_taken_back() -> None:
    for broken, name in (
        (("kill", 3), "kill:all"),
        (("pause", 5), "pause:long@controller"),
        (("cut", 3), "partition:ring"),
    ):
        cluster = Recording(broken=[broken])
        with pytest.raises(ClusterError, match=f"{broken[0]} of node {broken[1]} failed"):
            hit(cluster, name)
        assert cluster.calls[0][0] == broken[0]
        assert cluster.state == (set(), set(), set())


def test_a_fault_that_cannot_be_taken_back_is_told() -> None:
    cluster = Recording(broken=[("kill", 3), ("revive", 1)])
    with pytest.raises(ClusterError, match="kill of node 3") as error:
        hit(cluster, "kill:all")
    assert error.value.__notes__ == [
        "taking back what had been done of kill:all failed: revive of node 1 failed"
    ]
    assert cluster.dead == {1}


# ---- heal_all


def wrecked(broken: Sequence[tuple[str, int]] = ()) -> Recording:
    """A cluster with one of each in force, whoever made it."""
    cluster = Recording(broken=broken)
    cluster.dead, cluster.frozen = {1, 2, 3}, {4, 5}
    for name in ("partition:ring", "partition:clients-responses@random"):
        for seed in range(9):
            drive(cluster.cut(hit(Recording(), name, seed).undo.cuts))
    cluster.cuts.add(Cut(node=2, direction=Direction.OUT, peer=5))
    cluster.calls.clear()
    return cluster


def test_heal_all_needs_to_know_nothing() -> None:
    cluster = wrecked()
    drive(heal_all(cluster))
    assert cluster.state == (set(), set(), set())
    assert cluster.calls == [(verb, (1, 2, 3, 4, 5)) for verb in ("resume", "mend", "revive")]


def test_heal_all_of_a_whole_cluster_changes_nothing() -> None:
    cluster = Recording()
    drive(heal_all(cluster))
    assert cluster.state == (set(), set(), set())


@pytest.mark.parametrize("verb", ["resume", "mend", "revive"])
@pytest.mark.parametrize("node", [1, 4])
def test_what_fails_keeps_nothing_else_from_being_healed(verb: str, node: int) -> None:
    cluster = wrecked([(verb, node)])
    with pytest.raises(ExceptionGroup) as error:
        drive(heal_all(cluster))
    assert f"node {node}: {verb} of node {node} failed" in error.value.message
    assert len(error.value.exceptions) == 1
    assert cluster.dead == ({node} if (verb, node) == ("revive", 1) else set())
    assert cluster.frozen == ({node} if (verb, node) == ("resume", 4) else set())
    assert {cut.node for cut in cluster.cuts} == ({node} if verb == "mend" else set())


def test_heal_all_tries_each_node_where_a_verb_fails_as_a_whole() -> None:
    class AllOrNothing(Recording):
        async def revive(self, nodes: Sequence[int]) -> None:
            self._told("revive", nodes)
            await super().revive(nodes)

    cluster = AllOrNothing(broken=[("revive", 2)])
    cluster.dead = {1, 2, 3}
    with pytest.raises(ExceptionGroup, match="revive node 2"):
        drive(heal_all(cluster))
    assert cluster.dead == {2}


def test_heal_all_tells_all_that_failed() -> None:
    cluster = wrecked([("resume", 4), ("mend", 1), ("revive", 2), ("revive", 3)])
    with pytest.raises(ExceptionGroup) as error:
        drive(heal_all(cluster))
    assert len(error.value.exceptions) == 4
    for words in ("resume node 4", "mend the links of node 1", "revive node 2", "revive node 3"):
        assert words in error.value.message


def test_heal_all_uses_what_the_cluster_has() -> None:
    class Bare:
        nodes = (1,)
        calls: tuple[str, ...] = ()

        async def revive(self, nodes: Sequence[int]) -> None:
            self.calls += ("revive",)

        async def kill(self, nodes: Sequence[int]) -> None: ...

    cluster = Bare()
    drive(heal_all(cluster))  # type: ignore[arg-type]
    assert cluster.calls == ("revive",)


# ---- a whole plan


@UNHURRIED
@given(st.sampled_from(["random", "partition,kill,pause", "kill,pause:long"]), st.integers(0, 999))
def test_a_whole_plan_leaves_a_whole_cluster(text: str, seed: int) -> None:
    steps = plan(text, RunConfig(seed=seed, brokers=5, duration_s=120))
    agenda = sorted(
        [(step.at_s, 1, step) for step in steps]
        + [(step.at_s + step.hold_s, 0, step) for step in steps],
        key=lambda entry: entry[:2],
    )
    cluster = Recording()
    held: dict[int, Injected] = {}
    for _, starts, step in agenda:
        if starts:
            try:
                held[step.fault] = drive(inject(cluster, step, drive(cluster.roles()), NAMES))
            except NoTarget:
                assert cluster.dead | cluster.frozen
        elif step.fault in held:
            drive(heal(cluster, held.pop(step.fault)))
    assert held == {}
    assert cluster.state == (set(), set(), set())


def test_the_recording_cluster_is_a_cluster() -> None:
    cluster: Cluster = Recording()
    assert cluster.nodes == (1, 2, 3, 4, 5)
