"""The nemesis `restart`: brokers are shut down in order and started again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.capabilities import Electable, Restartable
from core.generator import source
from core.op import TopicPartition
from nemesis.families.process import REPLICAS, REVIVED, aim_down, revive, revive_held
from nemesis.targets import TARGETS, described, find, listed
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Hold,
    Nemesis,
    NoEffect,
    NoTarget,
    PlannedFault,
)

WHOLE_S = 60.0
"""A restarted broker has this long to be in sync with all that it holds."""
SHUT_S = 3.0
"""About what a shutdown in order takes."""
ROLL_S = 10.0
"""About what one broker takes of a rolling restart: 3 s down, 6 s up, 1 s to catch up."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    rng = source(step.seed, "aim")
    if step.kind == "rolling":
        if view.down:
            raise NoTarget(f"another fault holds {listed(view.down)} down")
        order = tuple(rng.sample(sorted(view.brokers), len(view.brokers)))
        text = (
            f"rolling restart in the order {', '.join(map(str, order))}: each broker was shut down "
            "(SIGTERM) and started again, the next one when all replicas were in sync"
        )
        return AimedFault(step=step, nodes=order, text=text)
    if step.kind == "replicas":
        return aim_down(step, view, ("was shut down in order (SIGTERM)", "were shut down in order (SIGTERM)"))
    aim = find(step.target, rng, view, answering=True)
    name = described(aim.node, view, aim.role)
    return AimedFault(step=step, nodes=(aim.node,), text=f"{name} was shut down in order (SIGTERM)")


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoTarget, NoEffect."""
    assert isinstance(env.cluster, Restartable)
    if hit.step.kind == "rolling":
        return not_in_order(hit, await _roll(env, hit))
    env.hold_down(hit)
    done = not_in_order(hit, await env.cluster.shut_down(hit.nodes))
    env.down[env.down.index(hit)] = done
    return done


def not_in_order(hit: AimedFault, killed: Sequence[int]) -> AimedFault:
    """The hit, whose sentence says which nodes did not shut down in time."""
    if not killed:
        return hit
    were = "was" if len(killed) == 1 else "were"
    return replace(
        hit, text=f"{hit.text}; {listed(killed)} had not ended after 30 s, and {were} killed (SIGKILL)"
    )


async def _roll(env: Environment, hit: AimedFault) -> list[int]:
    """Who had to be killed."""
    cluster = env.cluster
    assert isinstance(cluster, Restartable)
    assert isinstance(cluster, Electable)
    if not (replicas := await cluster.replicas()):
        raise NoTarget("no broker tells which replicas there are")
    # No other fault is healed while this one is made: what it keeps away would not come while this waits.
    if why := await not_whole(env, replicas):
        raise NoTarget(f"no broker is restarted before the cluster is whole: {why}")
    killed: list[int] = []
    for done, node in enumerate(hit.nodes):
        ended = (
            f"the phase of faults ended after {done} of {len(hit.nodes)} brokers had been restarted and "
            "were in sync: a longer phase (duration_s) has room for all"
        )
        if env.stopping():
            raise NoEffect(ended) if done else NoTarget(ended)
        env.hold_down(down := replace(hit, nodes=(node,)))
        killed += await cluster.shut_down([node])
        await revive(env, down)
        if why := await env.until(lambda: not_whole(env, replicas), WHOLE_S):
            late = f"{WHOLE_S:.0f} s after the restart of node {node}: {why}"
            raise NoEffect(ended if env.stopping() else late)
    return killed


async def _undo(env: Environment, hit: AimedFault) -> None:
    """A rolling restart starts what it has shut down itself: other nodes may have ended on their own."""
    await (revive_held if hit.step.kind == "rolling" else revive)(env, hit)


async def not_whole(env: Environment, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """What is missing after a restart; "" = all brokers answer, all replicas are in sync."""
    roles = await env.cluster.roles()
    if silent := sorted(set(env.cluster.brokers) - set(roles.answering)):
        return f"brokers {silent} do not answer"
    for tp, nodes in sorted(replicas.items()):
        if lagging := sorted(set(nodes) - set(roles.isr.get(tp, ()))):
            return f"replicas {lagging} of {tp} are not in sync"
    return ""


RESTART = Nemesis(
    name="restart",
    healings=(REVIVED,),
    doc="""\
Brokers are shut down in order (SIGTERM), and started again later.

So does every upgrade. They hand their partitions over, flush their logs and say good-bye to the
controller. One that has not ended after 30 s (it may not reach the controller) is killed.

What Kafka does: a controlled shutdown moves the leaders before the broker ends, within some 3 s;
clients see NOT_LEADER_OR_FOLLOWER and continue with the new ones, without a gap of a session timeout.
The started broker finds a clean log, needs no recovery and catches up in seconds. Coordinators of
groups and transactions move as well: the state of each is loaded from its partition by the next
one. A rolling restart does that to every broker in turn, once all brokers answer and all replicas are in
sync, and waits for that before the next: at every moment a majority is up and nothing may be lost.

What it tends to show: errors in handing over that a crash never meets. Requests that the old
leader accepted and no broker answers; groups that rebalance once for each broker; transactions
that are ended by two coordinators; the first writes after each move, where producers without
idempotence duplicate and reorder.""",
    colour="#8C6D31",
    needs=(Restartable,),
    kinds={
        "graceful": FaultKind(
            doc="the target is shut down and stays down for a while", weight=2, apply_s=SHUT_S
        ),
        "replicas": replace(REPLICAS, apply_s=SHUT_S),
        "rolling": FaultKind(
            doc="every broker in turn, in a drawn order: shut down, started, waited for until all "
            "replicas are in sync",
            targeted=False,
            hold=Hold.BRIEF,
            brokers=2,
            apply_each_s=ROLL_S,
            needs=(Electable,),
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
)
