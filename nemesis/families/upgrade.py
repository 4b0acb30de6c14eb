"""The nemesis `upgrade`: nodes change to a later version of Kafka, one after the other, and back."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from core.capabilities import Electable, Upgradable
from core.config import RunConfig
from core.generator import source
from core.systems import KafkaSection
from nemesis.families.process import REVIVED, revive, revive_held
from nemesis.families.restart import ROLL_S, WHOLE_S, not_in_order, not_whole
from nemesis.targets import TARGETS, described, find, listed
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Hold,
    Nemesis,
    NoEffect,
    NoTarget,
    PlannedFault,
)

RAISE_S = 3.0
"""About what raising the features takes."""


def _refuses(config: RunConfig) -> str:
    """Why no node could change its version, and what to set."""
    if config.has(KafkaSection) and not config.section(KafkaSection).upgrade:
        return "there is no other version: set upgrade to a later one (--upgrade VERSION)"
    return ""


def unprepared(steps: Sequence[PlannedFault], nodes: int) -> str:
    """Why a step of a plan would find too few nodes with the later version, and what to name; "" = none
    would. nodes: how many there are."""
    later = 0
    for step in sorted(steps, key=lambda one: one.at_s):
        if step.family != "upgrade":
            continue
        if step.kind in ("back", "finalize") and not later:
            return f"{step.name}: no node has the later version by then; name a kind before it that stays"
        if step.kind == "finalize" and later < nodes:
            have = f"{later} of {nodes} nodes {'has' if later == 1 else 'have'}"
            return f"{step.name}: {have} the later version by then; name a kind before it that changes all"
        if step.kind == "back":
            later = 0
        elif step.kind == "one":
            later += 1
        elif step.kind not in ("mixed", "finalize"):
            later = nodes
    return ""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    """Only nodes that do not have the wanted version already: they alone change, and only what changed is
    taken back."""
    rng = source(step.seed, "aim")
    if view.down:
        raise NoTarget(f"another fault holds {listed(view.down)} down")
    if step.kind == "finalize":
        return AimedFault(step=step, nodes=view.nodes, text="the features of the cluster were raised")
    if step.kind in ("one", "mixed"):
        aim = find(step.target, rng, view, answering=True)
        _of_another_version(step.kind, (aim.node,), view)
        text = (
            f"{described(aim.node, view, aim.role)} was shut down (SIGTERM) and started on the later version"
        )
        return AimedFault(step=step, nodes=(aim.node,), text=text)
    order = _of_another_version(step.kind, _order(step.kind, rng, view), view)
    done = "started on the first version again" if step.kind == "back" else "started on the later version"
    text = (
        f"in the order {', '.join(map(str, order))}, each node was shut down (SIGTERM) and {done}, "
        "the next one when all replicas were in sync"
    )
    return AimedFault(step=step, nodes=order, text=text)


def _order(kind: str, rng: random.Random, view: ClusterView) -> tuple[int, ...]:
    """Isolated controllers first, or last; the way back is the other way round."""
    brokers, controllers = (
        rng.sample(sorted(nodes), len(nodes)) for nodes in (view.brokers, view.controllers)
    )
    last = kind in ("controllers-last", "back")
    return (*brokers, *controllers) if last else (*controllers, *brokers)


def _of_another_version(kind: str, nodes: tuple[int, ...], view: ClusterView) -> tuple[int, ...]:
    """Those of these nodes that change. Raises: NoTarget, where none does."""
    changing = tuple(node for node in nodes if (node in view.upgraded) == (kind == "back"))
    if not changing:
        version = "first" if kind == "back" else "later"
        raise NoTarget(f"{listed(nodes)}: the {version} version is there already")
    return changing


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoTarget, NoEffect, ClusterError."""
    assert isinstance(env.cluster, Upgradable)
    kind = hit.step.kind
    if kind == "finalize":
        if not (risen := await _raised(env)):
            raise NoEffect("the features of the cluster are what its brokers support already")
        return replace(hit, text=f"{hit.text}: {risen}")
    if kind == "back" and env.cluster.features_raised():
        raise NoTarget(f"{listed(hit.nodes)} cannot go back: the features of the cluster were raised")
    if kind == "mixed":
        env.mixed.update(hit.nodes)
    hit = not_in_order(hit, await _roll(env, hit, later=kind != "back"))
    told = hit.text
    if kind == "whole":
        told = f"{told}; then the features of the cluster were raised: {await _raised(env) or 'none rises'}"
    return replace(hit, text=told)


async def _roll(env: Environment, hit: AimedFault, *, later: bool) -> list[int]:
    """Who had to be killed. Raises: NoTarget, where no node was changed; NoEffect, where one is not back in
    time, or the run ends before all are."""
    cluster = env.cluster
    assert isinstance(cluster, Electable)
    if not (replicas := await cluster.replicas()):
        raise NoTarget("no broker tells which replicas there are")

    async def missing() -> str:
        return await not_whole(env, replicas) or await _lagging(env)

    # No other fault is healed while this one is made: what it keeps away would not come while this waits.
    if why := await missing():
        raise NoTarget(f"no node changes its version before the cluster is whole: {why}")
    killed: list[int] = []
    for done, node in enumerate(hit.nodes):
        ended = (
            f"the phase of faults ended after {done} of {len(hit.nodes)} nodes had changed their version and "
            "were in sync: a longer phase (duration_s) has room for all"
        )
        if env.stopping():
            raise NoEffect(ended) if done else NoTarget(ended)
        killed += await _change(env, hit, node, later=later)
        if why := await env.until(missing, WHOLE_S):
            late = f"{WHOLE_S:.0f} s after node {node} changed its version: {why}"
            raise NoEffect(ended if env.stopping() else late)
    return killed


async def _change(env: Environment, hit: AimedFault, node: int, *, later: bool) -> Sequence[int]:
    """The node, if it had to be killed. Until it has been started again, this hit holds it down; `_undo`
    starts what is left."""
    cluster = env.cluster
    assert isinstance(cluster, Upgradable)
    env.hold_down(down := replace(hit, nodes=(node,)))
    killed = await cluster.shut_down([node])
    try:
        await cluster.install([node], later=later)
    finally:
        await revive(env, down)
    return killed


async def _lagging(env: Environment) -> str:
    assert isinstance(env.cluster, Upgradable)
    lagging = await env.cluster.lagging_voters()
    return f"{listed(lagging)} of the metadata quorum did not catch up" if lagging else ""


async def _raised(env: Environment) -> str:
    """What rose, "" = nothing. Raises: NoTarget, where a node has the first version; ClusterError."""
    assert isinstance(env.cluster, Upgradable)
    if first := sorted(set(env.cluster.nodes) - set(env.cluster.upgraded())):
        have = "has" if len(first) == 1 else "have"
        raise NoTarget(f"{listed(first)} still {have} the first version: features are raised when none has")
    risen = await env.cluster.raise_features()
    return ", ".join(f"{feature} {before} to {level}" for feature, (before, level) in risen.items())


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Nodes that a change left down run again, and one that has the later version for a while has the first
    one again; nothing else is taken back."""
    assert isinstance(env.cluster, Upgradable)
    await revive_held(env, hit)
    if hit.step.kind == "mixed":
        for node in hit.nodes:
            if node in env.cluster.upgraded():
                await _change(env, hit, node, later=False)
            env.mixed.discard(node)


async def _change_back(env: Environment, nodes: Sequence[int]) -> None:
    """Nodes that a fault was to give the first version again, and could not."""
    assert isinstance(env.cluster, Upgradable)
    for node in nodes:
        if node in env.cluster.upgraded():
            await env.cluster.shut_down([node])
            try:
                await env.cluster.install([node], later=False)
            finally:
                await env.cluster.revive([node])
        env.mixed.discard(node)


UNMIXED = Healing(
    at=HealingStage.METADATA,
    needs=Upgradable,
    what="give the first version again to",
    of="node",
    everyone=lambda env: sorted(env.mixed),
    act=lambda env: partial(_change_back, env),
)


def _unisolated(config: RunConfig) -> str:
    return "" if config.controllers else "there are no isolated controllers: set controllers to 1 or 3"


EVERY_NODE = FaultKind(
    doc="every node in turn, isolated controllers first, gets the later version",
    targeted=False,
    hold=Hold.BRIEF,
    weight=0,
    apply_each_s=ROLL_S,
    every_node=True,
    once=True,
)
UPGRADE = Nemesis(
    name="upgrade",
    healings=(REVIVED, UNMIXED),
    doc="""\
Nodes change to a later version of Kafka (`--upgrade VERSION`), one after the other, under load.

So does every cluster in production, some time. Each node is shut down in order (SIGTERM) and started on the
other version, with its data; the next one when all brokers answer, all replicas are in sync, and the metadata
quorum is whole. Meanwhile brokers of two versions replicate, coordinate and forward to each other. At the end
`metadata.version` and `transaction.version` are raised to what the later version supports
(UpdateFeatures): from then on brokers write other formats, and no node can go back. An upgrade is not healed:
nodes stay as they are.

    inquest run --kafka 4.1.2 --upgrade 4.4.0 --workload transactions --nemesis upgrade

Kinds that are named happen in the order of their names, each once, `mixed` as often as it fits:
`--nemesis upgrade:rolling,upgrade:back,upgrade:rolling,upgrade:finalize`. Beside other families a kind has
to be named (`upgrade:whole,kill`); while a node changes its version no other fault begins or ends, and none
changes it before all brokers answer and all replicas are in sync.

What Kafka does: what `restart:rolling` tells. Requests between brokers have the newest version that both
speak; logs keep the format of the features that are in force, so that the way back is open until these are
raised.

What it tends to show: requests between brokers that one side does not understand (KAFKA-20322: transactions
hang between 4.1 and 4.2.0 until all brokers have one version, so that `upgrade:one` shows it best); state
that the older version cannot load; what changes when features rise under load. None of that is allowed.""",
    colour="#1B7837",
    needs=(Upgradable, Electable),
    kinds={
        "whole": replace(
            EVERY_NODE,
            doc="every node in turn, isolated controllers first, gets the later version; then the features "
            "are raised",
            weight=1,
            apply_s=RAISE_S,
        ),
        "rolling": EVERY_NODE,
        "controllers-last": replace(
            EVERY_NODE, doc="as rolling, isolated controllers after the brokers", refuses=_unisolated
        ),
        "back": replace(
            EVERY_NODE,
            doc="every node with the later version gets the first one again, in turn, isolated controllers "
            "last; only before the features are raised",
        ),
        "one": FaultKind(
            doc="the target gets the later version and keeps it: the run ends on a mixed cluster",
            hold=Hold.BRIEF,
            weight=0,
            apply_s=ROLL_S,
            once=True,
        ),
        "finalize": FaultKind(
            doc="the features are raised; only when every node has the later version",
            targeted=False,
            hold=Hold.BRIEF,
            weight=0,
            apply_s=RAISE_S,
            once=True,
        ),
        "mixed": FaultKind(
            doc="the target has the later version for a while, and then the first one again",
            weight=0,
            apply_s=ROLL_S,
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    refuses=_refuses,
    in_random=False,
)
