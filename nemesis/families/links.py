"""The nemesis `links`: what lies between clients and brokers is slow, narrow or breaks."""

import random
from collections.abc import Callable

from core.cluster import Linked, Toxic
from core.generator import source
from nemesis.targets import TARGETS, described, find
from nemesis.types import AimedFault, ClusterView, Effect, Environment, Kind, Nemesis, PlannedFault

Poison = tuple[tuple[Toxic, ...], str]
"""Toxics, and what they do in words: "… of the links between clients and node 2"."""


def _latency(rng: random.Random) -> Poison:
    toxic = Toxic(type="latency", attributes={"latency": 200, "jitter": 50})
    return (toxic,), "200 ms (± 50 ms) are added to all responses"


def _bandwidth(rng: random.Random) -> Poison:
    return _both("bandwidth", {"rate": 20}), "20 KB/s pass each way, on each connection"


def _timeout(rng: random.Random) -> Poison:
    downstream = rng.random() < 0.5
    close_ms = rng.choice((0, 1000))
    toxic = Toxic(type="timeout", attributes={"timeout": close_ms}, downstream=downstream)
    text = "responses do not come through" if downstream else "requests do not come through"
    return (toxic,), text + (", connections are closed after 1 s" if close_ms else "")


def _reset(rng: random.Random) -> Poison:
    return _both("reset_peer", {"timeout": 0}), "connections are reset"


def _limit(rng: random.Random) -> Poison:
    toxic = Toxic(type="limit_data", attributes={"bytes": 500})
    return (toxic,), "connections are closed after 500 bytes of responses"


def _slicer(rng: random.Random) -> Poison:
    attributes = {"average_size": 64, "size_variation": 32, "delay": 1000}
    return _both("slicer", attributes), "data come in pieces of some 64 bytes, 1 ms apart"


def _both(type_: str, attributes: dict[str, int]) -> tuple[Toxic, ...]:
    return tuple(
        Toxic(type=type_, attributes=attributes, downstream=downstream) for downstream in (False, True)
    )


POISONS: dict[str, Callable[[random.Random], Poison]] = {
    "latency": _latency,
    "bandwidth": _bandwidth,
    "timeout": _timeout,
    "reset": _reset,
    "limit": _limit,
    "slicer": _slicer,
}
"""Kind -> its toxics, drawn where there is a choice."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    """Raises: NoTarget."""
    rng = source(step.seed, "aim")
    if step.target == "all":
        nodes, name = tuple(sorted(view.brokers)), "all brokers"
    else:
        aim = find(step.target, rng, view, brokers=True)
        nodes, name = (aim.node,), described(aim.node, view, aim.role)
    toxics, text = POISONS[step.kind](rng)
    return AimedFault(nodes=nodes, text=f"links between clients and {name}: {text}", toxics=toxics)


async def _poison(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Linked)
    await env.cluster.poison(hit.nodes, hit.toxics)


async def _cure(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Linked)
    await env.cluster.cure(hit.nodes)


LINKS = Nemesis(
    name="links",
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
        "latency": Kind(doc="200 ms, plus or minus 50, on every response", brokers_only=True),
        "bandwidth": Kind(doc="20 KB/s each way on each connection", brokers_only=True),
        "timeout": Kind(
            doc="requests or responses do not come through; connections stay open, or are closed after 1 s",
            brokers_only=True,
        ),
        "reset": Kind(doc="connections are reset as soon as they are used", brokers_only=True),
        "limit": Kind(doc="connections are closed after 500 bytes of responses", brokers_only=True),
        "slicer": Kind(doc="data come in pieces of some 64 bytes, 1 ms apart", brokers_only=True),
    },
    targets={
        **TARGETS,
        "random": "any broker, drawn among the ones that answer",
        "all": "all brokers at once",
    },
    effect=Effect(_aim, _poison, _cure),
    in_random=False,
)
