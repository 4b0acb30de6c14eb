"""The nemesis `partition`: links between brokers, or from clients to a broker, are cut.

A *grudge* says who refuses to hear whom. Grudges are pure functions from nodes to a set of `Cut`s.
A link that is cut both ways is cut at both of its ends (each drops what the other sends), so that it
stays cut while one of them restarts. Cuts between brokers hold for all their listeners,
controller traffic included, and leave clients alone. Isolated controllers are nodes like others:
they are cut off from brokers, split into halves beside them, and stay linked to all in a ring.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from core.capabilities import Cut, Direction, Listener, Partitionable
from core.config import RunConfig
from core.generator import source
from core.systems import ExternalSection
from nemesis.targets import TARGETS, described, find, has_zookeeper, listed
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
    NoTarget,
    PlannedFault,
)

METADATA: Final = "metadata"
"""The kind that cuts a broker off from the nodes which keep the metadata."""
Grudge = frozenset[Cut]


def split(*sides: Collection[int]) -> Grudge:
    """No node hears a node of another side."""
    everyone = {node for side in sides for node in side}
    return _refuse({node: everyone.difference(side) for side in sides for node in side})


def _refuse(refused: Mapping[int, Collection[int]]) -> Grudge:
    """Each node drops all packets from the peers that it refuses."""
    return frozenset(
        Cut(node=node, direction=Direction.IN, peer=peer) for node, peers in refused.items() for peer in peers
    )


def ring(order: Sequence[int]) -> Grudge:
    """A majorities ring: each node hears a majority (itself included), no two nodes the same one.

    Of four and more nodes, each hears the ones nearest to it on both sides of the ring, and is heard
    by them. Three nodes cannot do that both ways: each hears only the next one, so that every
    connection is cut.
    """
    size = len(order)
    reach = (size // 2 + 1) // 2
    steps = (1,) if size == 3 else range(-reach, reach + 1)
    heard = {node: {node, *(order[(at + step) % size] for step in steps)} for at, node in enumerate(order)}
    return _refuse({node: set(order) - heard[node] for node in order})


def unfed(leader: int, followers: Iterable[int]) -> Grudge:
    """The followers cannot fetch from the leader (nor it from them): only the listener between
    brokers is cut, so every broker still hears the controllers and none is fenced.

    Only what comes in to the leader is dropped: when it dies, its last packets reach the followers
    and end their connections, so that they do not wait for it.
    """
    return frozenset(
        Cut(node=leader, direction=Direction.IN, peer=peer, listener=Listener.BROKER)
        for peer in followers
        if peer != leader
    )


def every_cut(nodes: Sequence[int]) -> tuple[Cut, ...]:
    """All cuts that any grudge of this module can contain: what an unconditional heal mends."""
    return ordered(
        {
            Cut(node=node, direction=direction, peer=peer)
            for node in nodes
            for direction in Direction
            for peer in (None, *nodes)
            if peer != node
        }.union(
            *(unfed(node, nodes) for node in nodes),
            (Cut(node=node, direction=Direction.IN, opening=True) for node in nodes),
        )
    )


def ordered(cuts: Iterable[Cut]) -> tuple[Cut, ...]:
    """The cuts in an order that does not depend on hashes."""
    return tuple(sorted(cuts, key=lambda c: (c.node, c.peer or 0, c.direction, c.listener or "", c.opening)))


def _sides(view: ClusterView, aimed: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """The aimed node with others up to half of its sort (brokers, isolated controllers) and half of
    the other sort; and the rest, at least as many of each sort unless the aimed one is all of its."""
    small = [aimed]
    for sort in (sorted(view.brokers), sorted(view.controllers)):
        others = [node for node in sort if node != aimed]
        small += rng.sample(others, max(0, len(sort) // 2 - (aimed in sort)))
    return sorted(small), [node for node in sorted(view.nodes) if node not in small]


Hit = tuple[list[int], str, Grudge]
"""Who is hit, the sentence about it, and the cuts."""


def _ring_hit(view: ClusterView, rng: random.Random) -> Hit:
    nodes = sorted(view.brokers)
    order = rng.sample(nodes, len(nodes))
    text = f"majorities ring {' - '.join(map(str, order))} - {order[0]}: "
    if len(nodes) == 3:
        text += "each node hears only the next one (of 3 nodes, so every connection is cut)"
    else:
        text += "each node is linked only to its neighbours there, a majority of its own"
    if view.controllers:
        text += f"; the {view.behind} are linked to all"
    return nodes, text, ring(order)


def _halves_hit(view: ClusterView, aimed: int, name: str, rng: random.Random) -> Hit:
    small, large = _sides(view, aimed, rng)
    text = f"{listed(small)} and {listed(large)} are cut off from each other: {name} is in the "
    text += "first half" if len(small) == len(large) else "minority"
    if len(small) == 1:
        text += f" (halves of {len(view.brokers)} brokers: one node alone)"
    elif len(small) == len(large) and not view.controllers:
        text += ", and neither half is a majority"
    if view.controllers:
        voters = [node for node in small if node in view.controllers]
        text += f", with {len(voters)} of {len(view.controllers)} {view.behind}"
    return small, text, split(small, large)


def _bridge_hit(view: ClusterView, aimed: int, name: str, rng: random.Random) -> Hit:
    left: list[int] = []
    for sort in (sorted(view.brokers), sorted(view.controllers)):
        others = [node for node in sort if node != aimed]
        left += sorted(rng.sample(others, len(others) // 2))
    right = [node for node in sorted(view.nodes) if node not in (aimed, *left)]
    text = f"{listed(left)} and {listed(right)} are cut off from each other; {name} joins them"
    return sorted([*left, *right]), text, split(left, right)


def _node_hit(kind: str, view: ClusterView, aimed: int, name: str) -> Hit:
    """One node, with all others or with its clients."""
    others, kept = sorted(set(view.nodes) - {aimed}), view.controllers

    def drops(direction: Direction, peers: Iterable[int | None]) -> Grudge:
        return frozenset(Cut(node=aimed, direction=direction, peer=peer) for peer in peers)

    cuts, text = {
        "isolate": (
            split([aimed], others),
            "is cut off from all other nodes" + ", not from clients" * (aimed in view.brokers),
        ),
        METADATA: (
            _refuse({aimed: kept, **{node: {aimed} for node in kept}}),
            f"is cut off from the {view.behind} alone",
        ),
        "one-way-in": (drops(Direction.IN, others), "hears no other node, and is heard by all"),
        "one-way-out": (drops(Direction.OUT, others), "is heard by no other node, and hears all"),
        "clients-requests": (
            drops(Direction.IN, [None]),
            "drops all requests of clients, and is linked to all nodes",
        ),
        "clients-responses": (
            drops(Direction.OUT, [None]),
            "drops all its responses to clients, and is linked to all nodes",
        ),
    }[kind]
    return [aimed], f"{name} {text}", cuts


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    rng = source(step.seed, "aim")
    if step.kind == METADATA and not view.controllers:
        raise NoTarget("all nodes of the cluster are brokers")
    if step.kind == "ring":
        nodes, text, cuts = _ring_hit(view, rng)
    else:
        aim = find(step.target, rng, view, brokers=PARTITION.kinds[step.kind].brokers_only)
        name = described(aim.node, view, aim.role)
        if step.kind == "halves":
            nodes, text, cuts = _halves_hit(view, aim.node, name, rng)
        elif step.kind == "bridge":
            nodes, text, cuts = _bridge_hit(view, aim.node, name, rng)
        else:
            nodes, text, cuts = _node_hit(step.kind, view, aim.node, name)
    return AimedFault(step=step, nodes=tuple(nodes), text=text, cuts=ordered(cuts))


async def cut(env: Environment, hit: AimedFault) -> None:
    """Put the cuts of a hit in force."""
    assert isinstance(env.cluster, Partitionable)
    env.cutting.append(hit.step)
    await env.cluster.cut(hit.cuts)


async def mend(env: Environment, hit: AimedFault) -> None:
    """Take the cuts of a hit back, once: another fault may have made some of them, too."""
    assert isinstance(env.cluster, Partitionable)
    if hit.step in env.cutting:
        await env.cluster.mend(hit.cuts)
        env.cutting.remove(hit.step)


DOC = """\
Links between brokers, or from clients to one broker, are cut.

Packets are dropped silently, by pair of nodes and by direction. Connections are not reset, so
only time-outs reveal the cut.

What Kafka does: a broker that the controller does not hear for the session timeout (3 s here) is
fenced and its partitions get new leaders from the in-sync replicas; a cut-off controller is replaced
by an election among the rest. The cut-off node notices neither: it still serves clients from what
it knows, can no longer commit records written with acks=all, and cuts its log back to the new
leader's when the partition heals. One direction is enough for all of that.

A broker that is cut off only from where the metadata are (`metadata`) loses its session there, and still
replicates and serves: a former leader, or a former controller with ZooKeeper, that all others reach.

What it tends to show: records lost that were acknowledged with acks=1 by a leader that was cut off;
with cut responses, duplicates and reordering of producers without idempotence, because what was
written looks unanswered and is sent again; indefinite commits of transactions whose coordinator
moves; stale reads of consumers that follow the old leader. Nothing of that is allowed with acks=all,
idempotence and min.insync.replicas above 1."""


def _lone(config: RunConfig) -> str:
    """Why no node but brokers keeps the metadata of a run, and what to set."""
    if config.controllers or (has_zookeeper(config) and not config.has(ExternalSection)):
        return ""
    return "brokers keep the metadata themselves here: set controllers=1 or 3, or take brokers with ZooKeeper"


def _mend_all(env: Environment) -> Act:
    cluster = env.cluster
    assert isinstance(cluster, Partitionable)
    mend, whole = cluster.mend, every_cut(env.cluster.nodes)
    return lambda nodes: mend([cut for cut in whole if cut.node in nodes])


MENDED = Healing(
    at=HealingStage.LINKS,
    needs=Partitionable,
    what="mend the links of",
    of="node",
    everyone=lambda env: env.cluster.nodes,
    act=_mend_all,
)
PARTITION = Nemesis(
    name="partition",
    healings=(MENDED,),
    doc=DOC,
    colour="#0072B2",
    needs=(Partitionable,),
    kinds={
        "isolate": FaultKind(
            doc="the target and all other nodes do not hear each other; clients still reach it",
            weight=2,
            brokers=2,
        ),
        "halves": FaultKind(
            doc="the cluster splits in two, the target is in the smaller half; "
            "needs 5 brokers to differ from isolate",
            brokers=2,
            drawn_from=4,
        ),
        "ring": FaultKind(
            doc="each broker is linked to a majority, no two to the same one; "
            "needs 5 brokers (with 3 every connection is cut); isolated controllers stay linked",
            targeted=False,
            brokers=3,
            drawn_from=4,
        ),
        "bridge": FaultKind(doc="two sides that do not hear each other, joined by the target", brokers=3),
        METADATA: FaultKind(
            doc="the target does not reach the isolated controllers, or the nodes of ZooKeeper; other "
            "brokers and clients reach it",
            weight=0,
            brokers_only=True,
            refuses=_lone,
        ),
        "one-way": FaultKind(
            doc="one-way-in or one-way-out", weight=2, brokers=2, stands_for=("one-way-in", "one-way-out")
        ),
        "one-way-in": FaultKind(doc="the target hears no other node, but is heard", weight=0, brokers=2),
        "one-way-out": FaultKind(
            doc="the target is heard by no other node, but hears them", weight=0, brokers=2
        ),
        "clients": FaultKind(
            doc="clients-requests or clients-responses",
            weight=2,
            brokers_only=True,
            stands_for=("clients-requests", "clients-responses"),
        ),
        "clients-requests": FaultKind(
            doc="requests of clients do not reach the target", weight=0, brokers_only=True
        ),
        "clients-responses": FaultKind(
            doc="requests of clients reach the target, its responses do not reach them",
            weight=0,
            brokers_only=True,
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, cut, mend),
)
