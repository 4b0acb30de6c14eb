"""The nemesis `reassign`: replicas of partitions move to other brokers, and back."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from core.capabilities import Reassignable
from core.config import RunConfig
from core.generator import source
from core.op import TopicPartition
from nemesis.targets import LISTED, TARGETS, described, find, unreplicated, used
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
    ReplicaMove,
)

TAKEN_S = 5.0
"""The controller takes a reassignment in a fraction of a second."""
BACK_S = 3.0
"""How long healing waits for replicas that move back. Those of a broker that is down need it to return."""
RETURN_S = 30.0
"""How long healing all waits for brokers that were just started."""


def _refuses(config: RunConfig) -> str:
    """Why no broker could get a replica, and what to set."""
    if config.brokers > config.replication_factor:
        return ""
    return (
        f"every broker has a replica of each partition: set brokers to {config.replication_factor + 1} or"
        " more, or a lower replication_factor"
    )


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    def moves_at(node: int) -> bool:
        return any(_moves(step.kind, node, view, source(step.seed, "others")))

    rng = source(step.seed, "aim")
    found = find(step.target, rng, view, answering=True, brokers=True, hits=moves_at)
    moves = tuple(_moves(step.kind, found.node, view, rng))
    who = described(found.node, view, found.role)
    if not moves:
        raise NoTarget(f"{step.target}: {who}: {step.kind} finds no partition that it could change now")
    nodes = {node for one in moves for node in {*one.before} ^ {*one.after}}
    text = f"{who}: {_done(step.kind)}: {_told(moves)}"
    tps = tuple(one.tp for one in moves)
    return AimedFault(step=step, nodes=tuple(sorted(nodes)), text=text, tps=tps, moves=moves)


def _moves(kind: str, node: int, view: ClusterView, rng: random.Random) -> Iterator[ReplicaMove]:
    """What the kind makes of each partition that the workload uses, where it can."""
    for tp in used(view):
        before = tuple(view.roles.replicas.get(tp, ()))
        others = sorted(set(view.roles.answering) - set(before))
        if tp in view.moved or not before:
            continue
        if kind == "grow":
            if node not in before:
                yield ReplicaMove(tp, before, (*before, node))
        elif node in before and kind == "shrink":
            if len(before) > 1:
                yield ReplicaMove(tp, before, tuple(n for n in before if n != node))
        elif node in before and others:
            other = rng.choice(others)
            yield ReplicaMove(tp, before, tuple(other if n == node else n for n in before))


def _done(kind: str) -> str:
    return {
        "move": "its replicas moved to other brokers",
        "shrink": "its replicas were taken away",
        "grow": "it got further replicas",
        "cancel": "its replicas were to move to other brokers, and that was cancelled",
    }[kind]


def _told(moves: Sequence[ReplicaMove]) -> str:
    """`q-1 from 1, 2, 3 to 4, 2, 3` for the first ones, then how many more."""
    shown = [f"{tp} from {_nodes(before)} to {_nodes(after)}" for tp, before, after in moves[:LISTED]]
    more = len(moves) - len(shown)
    return "; ".join([*shown, f"{more} more"] if more else shown)


def _nodes(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoEffect, where no broker tells of other replicas, or nothing was left to cancel."""
    assert isinstance(env.cluster, Reassignable)
    for one in hit.moves:
        env.moved[one.tp] = one.before
    await env.cluster.reassign({one.tp: one.after for one in hit.moves}, TAKEN_S)
    if hit.step.kind == "cancel":
        many = len(await env.cluster.cancel_reassignments(hit.tps, TAKEN_S))
        if not many:
            raise NoEffect("all replicas had moved before that could be cancelled")
        return replace(hit, text=f"{hit.text} ({many} of {len(hit.tps)} partitions had not moved yet)")
    if why := await env.until(partial(_untold, env, hit), TAKEN_S):
        raise NoEffect(why)
    return hit


async def _untold(env: Environment, hit: AimedFault) -> str:
    """ "" where the brokers tell of other replicas: the move has begun, and may have ended."""
    replicas = (await env.cluster.roles()).replicas
    if any(replicas.get(one.tp, one.before) != one.before for one in hit.moves):
        return ""
    return f"no broker tells of other replicas of {hit.tps[0]}"


async def _undo(env: Environment, hit: AimedFault) -> None:
    await _put_back(env, hit.tps, TAKEN_S)
    if not await env.until(partial(_away, env, hit.tps), BACK_S):
        for tp in hit.tps:
            env.moved.pop(tp, None)


async def _put_back(env: Environment, tps: Collection[TopicPartition], within_s: float) -> None:
    """Cancel what has not ended, and ask for the replicas that partitions had; no-op for those that have
    them."""
    assert isinstance(env.cluster, Reassignable)
    back = {tp: env.moved[tp] for tp in tps if tp in env.moved}
    if back:
        await env.cluster.cancel_reassignments(tuple(back), within_s)
        await env.cluster.reassign(back, within_s)


async def _away(env: Environment, tps: Collection[TopicPartition]) -> str:
    """ "" where all have their replicas back, and in sync."""
    roles = await env.cluster.roles()
    for tp in tps:
        had = env.moved.get(tp, ())
        if roles.replicas.get(tp, ()) != had or not set(had) <= set(roles.isr.get(tp, ())):
            return f"{tp} has not got its replicas {_nodes(had)} back"
    return ""


def _all_back(env: Environment) -> Act:
    tps = list(env.moved)

    async def act(numbers: Sequence[int]) -> None:
        await _put_back(env, [tps[number] for number in numbers], RETURN_S)

    return act


BACK = Healing(
    at=HealingStage.METADATA,
    needs=Reassignable,
    what="move back the replicas of",
    of="moved partition",
    everyone=lambda env: range(len(env.moved)),
    act=_all_back,
)

REASSIGN = Nemesis(
    name="reassign",
    healings=(BACK,),
    doc="""\
Replicas move from broker to broker, under load; later they move back.

An operator who adds or empties a broker does that (`kafka-reassign-partitions`). What the target has of the
workload's partitions, and of those by which its transactional ids and groups are coordinated, is given other
brokers by one AlterPartitionReassignments. The fault is in force once the controller has taken it, so that
other faults hit brokers in the middle of it. Healing cancels what has not ended and asks for the replicas
of before.

What Kafka does (KIP-455): the new replicas are added to the old ones and fetch from the begin; once all of
them are in sync, the old ones leave and delete their logs, and the leader epoch rises. A leader that leaves
is followed by the first of the new replicas that is in sync. A cancelled reassignment takes back what it
added.

What it tends to show: records that only a replica which left had; logs of a replica that came, went and came
again; coordinators that load while their partition moves; fetches that an old leader answers. Nothing of
that is allowed.""",
    colour="#999933",
    needs=(Reassignable,),
    kinds={
        "move": FaultKind(
            doc="other brokers get the target's replicas in its place",
            brokers=2,
            weight=2,
            refuses=_refuses,
            brokers_only=True,
        ),
        "shrink": FaultKind(
            doc="the target's replicas are taken away; healing gives them back",
            brokers=2,
            refuses=unreplicated,
            brokers_only=True,
        ),
        "grow": FaultKind(
            doc="the target gets a replica of each partition that it has none of; healing takes them away",
            brokers=2,
            refuses=_refuses,
            brokers_only=True,
        ),
        "cancel": FaultKind(
            doc="the target's replicas are to move to other brokers; that is cancelled at once",
            hold=Hold.BRIEF,
            brokers=2,
            refuses=_refuses,
            brokers_only=True,
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
