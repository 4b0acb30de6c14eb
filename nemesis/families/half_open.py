"""The nemesis `half-open`: established connections live, and no new one can be made."""

from dataclasses import replace

from core.capabilities import Cut, Direction, HalfOpenable
from core.generator import source
from core.load_clients import ClientSlot
from nemesis.families.client import start_again, startable
from nemesis.families.partition import MENDED, cut, mend
from nemesis.targets import TARGETS, described, find
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Hold,
    Nemesis,
    NoEffect,
    PlannedFault,
)

CAUGHT_S = 10.0
"""How long a fault waits for a connection that it stops."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    rng = source(step.seed, "aim")
    aim = find(step.target, rng, view, answering=True, brokers=True)
    slot = startable(view, rng, _connecting)
    return AimedFault(
        step=step,
        nodes=(aim.node,),
        slots=(slot,),
        cuts=(Cut(node=aim.node, direction=Direction.IN, opening=True),),
        text=f"{described(aim.node, view, aim.role)} got no new connection of clients",
    )


def _connecting(free: list[ClientSlot]) -> list[ClientSlot]:
    """Those that produce, where there are any."""
    return [client for client in free if client.produces] or free


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoEffect, where no client tried to connect; NoTarget, where another fault holds the client
    down, and will start it again."""
    cluster = env.cluster
    assert isinstance(cluster, HalfOpenable)
    await cut(env, hit)
    await start_again(env, hit)

    async def missing() -> str:
        return "" if await cluster.stopped(hit.nodes) else f"no client tried to connect within {CAUGHT_S:g} s"

    if why := await env.until(missing, CAUGHT_S):
        raise NoEffect(f"{hit.text}: {why}")
    text = f"{hit.text}: client {hit.slots[0]}, started again, waits; established ones live"
    return replace(hit, text=text)


HALF_OPEN = Nemesis(
    name="half-open",
    healings=(MENDED,),
    doc="""\
Clients cannot open connections to a broker, and the connections that they have live on.

A firewall or a balancer that lost its way does that: packets that open a connection are dropped, all others
pass. One client is killed and started again, so that something has to connect. A fault that stops no
connection has failed.

What Kafka does: nothing; its brokers reach each other. What clients do: those that are connected notice
nothing; a new one learns from other brokers who leads and waits for a connection to it. It sends again what
it had queued once the fault is healed, or gives it up.

What it tends to show: clients that take one broken connection for a broken cluster; members of a group that
cannot reach its coordinator, whose partitions other members get; indefinite ends of transactions.""",
    colour="#AA3377",
    needs=(HalfOpenable,),
    kinds={
        "clients": FaultKind(
            doc="no new connection of clients to the target; one client is started again",
            hold=Hold.MEAN,
            brokers_only=True,
            apply_s=1.0,
        )
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, mend),
    in_random=False,
)
