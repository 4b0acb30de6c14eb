"""The nemesis `links`: what lies between clients and brokers is slow, narrow or breaks."""

import random

from core.capabilities import Linked, Toxic
from core.generator import source
from nemesis.targets import TARGETS, described, find
from nemesis.types import (
    Act,
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Nemesis,
    PlannedFault,
)

Poison = tuple[tuple[Toxic, ...], str]
"""Toxics, and what they do in words: "… of the links between clients and node 2"."""


def _responses(type_: str, **attributes: int) -> tuple[Toxic, ...]:
    return (Toxic(type=type_, attributes=attributes),)


def _both(type_: str, **attributes: int) -> tuple[Toxic, ...]:
    return tuple(Toxic(type=type_, attributes=attributes, downstream=way) for way in (False, True))


def _timeout(rng: random.Random) -> Poison:
    downstream = rng.random() < 0.5
    close_ms = rng.choice((0, 1000))
    toxic = Toxic(type="timeout", attributes={"timeout": close_ms}, downstream=downstream)
    text = f"{'responses' if downstream else 'requests'} do not come through"
    return (toxic,), text + (", connections are closed after 1 s" if close_ms else "")


POISONS: dict[str, Poison] = {
    "latency": (_responses("latency", latency=200, jitter=50), "200 ms (± 50 ms) are added to all responses"),
    "bandwidth": (_both("bandwidth", rate=20), "20 KB/s pass each way, on each connection"),
    "reset": (_both("reset_peer", timeout=0), "connections are reset"),
    "limit": (_responses("limit_data", bytes=500), "connections are closed after 500 bytes of responses"),
    "slicer": (
        _both("slicer", average_size=64, size_variation=32, delay=1000),
        "data come in pieces of some 64 bytes, 1 ms apart",
    ),
}
"""Of each kind but `timeout`, which draws its own."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    rng = source(step.seed, "aim")
    if step.target == "all":
        nodes, name = tuple(sorted(view.brokers)), "all brokers"
    else:
        aim = find(step.target, rng, view, brokers=True)
        nodes, name = (aim.node,), described(aim.node, view, aim.role)
    toxics, text = _timeout(rng) if step.kind == "timeout" else POISONS[step.kind]
    return AimedFault(step=step, nodes=nodes, text=f"links between clients and {name}: {text}", toxics=toxics)


async def _poison(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Linked)
    await env.cluster.poison(hit.nodes, hit.toxics)


async def _cure(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Linked)
    await env.cluster.cure(hit.nodes)


def _cure_all(env: Environment) -> Act:
    assert isinstance(env.cluster, Linked)
    return env.cluster.cure


CURED = Healing(
    at=HealingStage.LINKS,
    needs=Linked,
    what="cure the links of",
    of="node",
    everyone=lambda env: env.cluster.brokers,
    act=_cure_all,
)
LINKS = Nemesis(
    name="links",
    healings=(CURED,),
    doc="""\
Links between clients and brokers are slow, narrow, or break: toxiproxy stands in front of brokers.

Brokers reach each other as before, so nothing is wrong with the cluster; only its clients suffer.
In simulated runs the same is done to whole messages, by their estimated sizes.

What Kafka does: nothing. What clients do: requests that are not answered in time are sent again on a
new connection, idempotent ones with the same sequence numbers, so that the broker knows them;
transactions run into their time-outs; consumers whose heartbeats are late lose their partitions.
When the links are whole again, work continues within a second or two.

What it tends to show: duplicates and reordering of producers without idempotence, whose requests
arrived though the answer did not; indefinite ends of transactions; groups that rebalance without
need; faults of clients in what they do about half an answer.""",
    colour="#117733",
    needs=(Linked,),
    kinds={
        kind: FaultKind(doc=doc, brokers_only=True)
        for kind, doc in {
            "latency": "200 ms, plus or minus 50, on every response",
            "bandwidth": "20 KB/s each way on each connection",
            "timeout": "requests or responses do not come through; "
            "connections stay open, or are closed after 1 s",
            "reset": "connections are reset as soon as they are used",
            "limit": "connections are closed after 500 bytes of responses",
            "slicer": "data come in pieces of some 64 bytes, 1 ms apart",
        }.items()
    },
    targets={
        **TARGETS,
        "random": "any broker, drawn among the ones that answer",
        "all": "all brokers at once",
    },
    effect=Effect(_aim, _poison, _cure),
    in_random=False,
)
