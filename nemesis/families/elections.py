"""The nemesis `elections`: leaders move on a healthy cluster, at once."""

from core.capabilities import Electable
from core.errors import ClusterError, Unanswered
from core.generator import source
from core.op import TopicPartition
from nemesis.targets import LISTED, unreplicated
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

MOVED_S = 5.0
"""Elections on a healthy cluster take a fraction of a second."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    data = tuple(sorted(view.names.data))
    if step.kind == "preferred":
        electable = [tp for tp in data if _electable(tp, view)]
        if not electable:
            raise NoTarget("no partition is known to have its preferred leader in sync")
        tps = tuple(tp for tp in electable if view.roles.leaders.get(tp) != view.roles.replicas[tp][0])
        if not tps:
            raise NoTarget("each partition whose preferred leader is in sync is led by it")
        many = f"all {len(data)}" if tps == data else f"{len(tps)} of {len(data)}"
        return AimedFault(step=step, text=f"the preferred leaders of {many} partitions were elected", tps=tps)
    rng = source(step.seed, "aim")
    moves = {}
    for tp in data:
        leader = view.roles.leaders.get(tp, -1)
        others = sorted(set(view.roles.isr.get(tp, ())) - {leader, *view.down})
        if leader >= 0 and others:
            moves[tp] = rng.choice(others)
    if not moves:
        raise NoTarget("no partition is known to have another in-sync replica than its leader")
    text = f"leaders were moved by preferred election: {', '.join(_told(view, moves))}"
    return AimedFault(
        step=step,
        nodes=tuple(sorted(set(moves.values()))),
        text=text,
        tps=tuple(moves),
        leaders=tuple(moves.values()),
    )


def _electable(tp: TopicPartition, view: ClusterView) -> bool:
    """Whether its preferred leader is in sync; a node that a fault holds down counts as out of sync."""
    first = view.roles.replicas.get(tp, ())[:1]
    return bool(set(first) & set(view.roles.isr.get(tp, ())) - set(view.down))


def _told(view: ClusterView, moves: dict[TopicPartition, int]) -> list[str]:
    """`q-1 from node 2 to 3` for the first ones, then how many more."""
    shown = [
        f"{tp} from node {view.roles.leaders[tp]} to {node}" for tp, node in list(moves.items())[:LISTED]
    ]
    more = len(moves) - len(shown)
    return [*shown, f"{more} more"] if more else shown


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoEffect, where no leader moved that was to."""
    assert isinstance(env.cluster, Electable)
    if hit.leaders:
        await move_leaders(env, hit)
    else:
        await env.cluster.elect_preferred(hit.tps)


async def move_leaders(env: Environment, hit: AimedFault) -> None:
    """`hit.leaders` are preferred and elected. Raises: NoEffect, where no leader moved; ClusterError, where
    none did because one could not be elected."""
    cluster = env.cluster
    assert isinstance(cluster, Electable)
    replicas = await cluster.replicas()
    first = dict(zip(hit.tps, hit.leaders, strict=True))
    if unknown := [tp for tp in first if tp not in replicas]:
        raise NoEffect(f"no broker tells which replicas {unknown[0]} has")
    await cluster.reorder(
        {tp: (node, *(other for other in replicas[tp] if other != node)) for tp, node in first.items()}
    )
    refused: ClusterError | None = None
    try:
        await cluster.elect_preferred(hit.tps)
    except Unanswered:
        raise
    except ClusterError as error:  # of one partition: others may have been served
        refused = error
    if why := await env.until(lambda: _unmoved(env, hit), MOVED_S):
        raise refused or NoEffect(why)


async def _unmoved(env: Environment, hit: AimedFault) -> str:
    """ "" where at least one partition has the leader that was meant for it."""
    leaders = (await env.cluster.roles()).leaders
    wished = zip(hit.tps, hit.leaders, strict=True)
    if any(leaders.get(tp, -1) == node for tp, node in wished):
        return ""
    return f"none of {len(hit.tps)} leaders moved"


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Nothing is in force: which replica is preferred makes no difference to a whole cluster."""


ELECTIONS = Nemesis(
    name="elections",
    doc="""\
Leaders move on a healthy cluster, at once, by preferred election.

An operator who balances leaders does that, and so does the controller every few minutes.
Every broker is up, and every link is whole.

What Kafka does: the controller names the first replica of each partition leader, if it is in sync;
the old leader turns into a follower and cuts its log back to where it agrees, the new one serves at
once. To move leaders where they are already the preferred ones, the replicas of a partition are put
in another order first (a reassignment to the same brokers).

What it tends to show: races at the change of leader that faults hide behind their time-outs. Records
appended by a leader that is one no more (KAFKA-13574); duplicates and reordering of producers without
idempotence, which send again what the old leader had; high watermarks and last stable offsets that
the new leader does not know yet. Nothing of that is allowed with idempotence and acks=all.""",
    colour="#56B4E9",
    needs=(Electable,),
    kinds={
        "shuffle": FaultKind(
            doc="another in-sync replica of every partition, drawn, is preferred and elected",
            targeted=False,
            hold=Hold.BRIEF,
            weight=2,
            brokers=2,
            reaches=("leader-moved", "coordinator-moved"),
        ),
        "preferred": FaultKind(
            doc="the preferred leader of every partition is elected, where another one leads",
            targeted=False,
            hold=Hold.BRIEF,
            brokers=2,
            reaches=("leader-moved", "coordinator-moved"),
        ),
    },
    effect=Effect(_aim, _apply, _undo),
    refuses=unreplicated,
)
