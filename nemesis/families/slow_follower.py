"""The nemesis `slow-follower`: a follower is throttled, and falls behind when it gets a new leader."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from core.capabilities import Electable, Throttleable
from core.config import RunConfig
from core.first_few import first_few
from core.generator import source
from core.op import TopicPartition
from nemesis.families.elections import move_leaders
from nemesis.targets import LISTED, TARGETS, described, find, used
from nemesis.types import (
    Act,
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

RATE: Final = 1
"""Bytes in a second: less than any load brings."""
SPENT_S = 1.0
"""How long the follower is given to fetch more than its rate, before the leaders move."""
BEHIND_S = 0.3
"""How long records come that the follower does not fetch, before it is to lead."""
LEFT_S = 15.0
"""A follower that fetches nothing leaves the in-sync set after 1 to 5 s (replica.lag.time.max.ms: 1000 on
real brokers, 3000 in the model)."""
APPLY_S = 5.0
REPLICAS = 3
LEADS: Final = "leads"


def _refuses(config: RunConfig) -> str:
    if config.replication_factor >= REPLICAS:
        return ""
    return (
        "a partition needs a leader, one that takes its place, and a follower that is slow: set"
        f" replication_factor to {REPLICAS} or more"
    )


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    def moves_at(node: int) -> dict[TopicPartition, int]:
        return dict(_moves(node, view, step.seed))

    rng = source(step.seed, "aim")
    found = find(step.target, rng, view, answering=True, brokers=True, hits=moves_at)
    moves = moves_at(found.node)
    who = described(found.node, view, found.role)
    if not moves:
        raise NoTarget(f"{step.target}: {who} follows no partition that another follower could lead")
    shown = first_few([*moves], LISTED)
    then = "; then it led them itself" if step.kind == LEADS else ""
    text = f"{who} fetches at most {RATE} byte in a second of {shown}, which got new leaders{then}"
    return AimedFault(
        step=step, nodes=(found.node,), text=text, tps=tuple(moves), leaders=tuple(moves.values())
    )


def _moves(node: int, view: ClusterView, seed: int) -> Iterator[tuple[TopicPartition, int]]:
    """Partitions that the node follows, and is in sync with, and who is to lead them instead."""
    rng = source(seed, "leaders")
    for tp in used(view):
        leader, isr = view.roles.leaders.get(tp, -1), set(view.roles.isr.get(tp, ()))
        others = sorted(isr - {leader, node} - {*view.down})
        if leader != node and node in isr and others:
            yield tp, rng.choice(others)


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoEffect, where the follower is in sync with all partitions, or is to lead and does not."""
    assert isinstance(env.cluster, Throttleable)
    (node,) = hit.nodes
    env.throttled.update(hit.tps)
    await env.cluster.throttle(node, hit.tps, RATE)
    await env.clock.sleep(SPENT_S)
    await move_leaders(env, hit)
    if hit.step.kind == LEADS:
        await _lead(env, hit)
    elif why := await env.until(partial(_in_sync, env, hit), LEFT_S):
        raise NoEffect(why)


async def _lead(env: Environment, hit: AimedFault) -> None:
    """The follower takes over what it is still in sync with. Raises: NoEffect."""
    (node,) = hit.nodes
    await env.clock.sleep(BEHIND_S)
    isr = (await env.cluster.roles()).isr
    tps = tuple(tp for tp in hit.tps if node in isr.get(tp, ()))
    if not tps:
        raise NoEffect(f"node {node} left the in-sync sets before it could lead")
    await move_leaders(env, replace(hit, tps=tps, leaders=(node,) * len(tps)))


async def _in_sync(env: Environment, hit: AimedFault) -> str:
    """ "" where the follower has left the in-sync set of a partition."""
    (node,) = hit.nodes
    isr = (await env.cluster.roles()).isr
    if any(node not in isr.get(tp, (node,)) for tp in hit.tps):
        return ""
    return f"node {node} is in sync with all of {len(hit.tps)} partitions"


async def _undo(env: Environment, hit: AimedFault) -> None:
    await _lift(env, hit.tps)


async def _lift(env: Environment, tps: Sequence[TopicPartition]) -> None:
    assert isinstance(env.cluster, Throttleable)
    if left := [tp for tp in tps if tp in env.throttled]:
        await env.cluster.unthrottle(left)
        env.throttled.difference_update(left)


def _all_lifted(env: Environment) -> Act:
    tps = sorted(env.throttled)
    return lambda numbers: _lift(env, [tps[number] for number in numbers])


UNTHROTTLED = Healing(
    at=HealingStage.METADATA,
    needs=Throttleable,
    what="lift the throttle of",
    of="throttled partition",
    everyone=lambda env: range(len(env.throttled)),
    act=_all_lifted,
)

SLOW_FOLLOWER = Nemesis(
    name="slow-follower",
    healings=(UNTHROTTLED,),
    doc="""\
A follower fetches next to nothing, by Kafka's own throttles (KIP-73), and falls behind.

Operators throttle replication when data move. Here one broker that follows is throttled to one byte in a
second, by `leader.` and `follower.replication.throttled.rate`, and `….throttled.replicas` of the topics. That
alone slows no follower that is in sync: neither side throttles one. But a follower that has just got a new
leader is not known to be in sync until its first fetch, and its rate is spent. So the leaders of the
partitions move to other in-sync replicas. For `replica.lag.time.max.ms` the slow one is in sync and fetches
nothing; then it leaves the in-sync set, and the throttle of the leaders keeps it out. Or it is elected in
that time (`leads`). Healing lifts the throttles.

What Kafka does: acknowledgements with acks=all wait until the follower has left, up to that time; then fewer
replicas than before have each record. A follower leaves by time, and not by the number of records that it is
behind (KIP-16).

What it tends to show: an in-sync replica without the newest records becomes leader; high watermarks that
stand still; coordinators whose decisions wait. Nothing of that is allowed to lose an acknowledged record.""",
    colour="#44AA99",
    needs=(Throttleable, Electable),
    kinds={
        "new-leader": FaultKind(
            doc="the target is throttled, and what it follows gets new leaders",
            brokers=REPLICAS,
            refuses=_refuses,
            brokers_only=True,
            apply_s=APPLY_S,
            reaches=("leader-moved", "coordinator-moved"),
        ),
        LEADS: FaultKind(
            doc="the same, and while the target is still in sync, it leads in their place",
            hold=Hold.BRIEF,
            brokers=REPLICAS,
            refuses=_refuses,
            brokers_only=True,
            apply_s=APPLY_S,
            reaches=("leader-moved", "coordinator-moved"),
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
