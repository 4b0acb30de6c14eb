"""Targets: from a symbolic name (`leader`, `controller`, …) to a node, with the roles of now.

Pure: what is drawn is drawn from the random source that is passed in.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from core.config import RunConfig
from core.first_few import first_few
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import TopicPartition
from core.systems import ExternalSection, KafkaSection
from nemesis.types import ClusterView, NoTarget, WorkloadNames

TARGETS = {
    "random": "any node, drawn among the ones that answer",
    "leader": "the leader of one of the workload's partitions, drawn",
    "controller": "the active controller: the leader of the metadata quorum, on ZooKeeper a broker",
    "txn-coordinator": "the coordinator of one of the workload's transactional ids, drawn",
    "group-coordinator": "the coordinator of one of the workload's consumer groups, drawn",
}
"""Every target and what it means."""

LISTED = 3
"""Most partitions that a sentence names for one node."""
SHOWN = {"leader": LISTED, "controller": 1, "txn-coordinator": 1, "group-coordinator": 1}
"""How many of a node's roles of each sort a sentence names."""


class Aim(NamedTuple):
    """A node, and the role it was chosen for ("" = by chance)."""

    node: int
    role: str = ""


def unnamed(target: str, names: WorkloadNames) -> str:
    """What the workload lacks for this target ever to be found; "" where it lacks nothing."""
    lacking = {
        "leader": ("partitions", names.data),
        "txn-coordinator": ("transactional ids", names.transactional_ids),
        "group-coordinator": ("consumer groups", names.groups),
    }
    what, values = lacking.get(target, ("", ("nothing to name",)))
    return "" if values else what


def unreplicated(config: RunConfig) -> str:
    """Why no other replica could lead a partition with this config; "" where one could."""
    if config.replication_factor > 1:
        return ""
    return "every partition has one replica only: set replication_factor to 2 or more"


def find(
    target: str,
    rng: random.Random,
    view: ClusterView,
    *,
    answering: bool = False,
    brokers: bool = False,
    hits: Callable[[int], object] = lambda node: True,
) -> Aim:
    """The node that `target` stands for now, none that another fault holds down.

    answering: only a node that answers will do (pausing one that is already down has no effect).
    Isolated controllers are not asked for an answer: they count as answering where any broker does.
    brokers: only a broker will do.
    hits: whether the fault would find anything at a node; one where it does comes first.

    Raises: NoTarget.
    """
    sort = view.brokers if brokers else view.nodes
    eligible = sorted(set(sort) - set(view.down))
    alive = sorted(set(view.roles.answering) & set(eligible))
    if alive and not brokers:
        alive += sorted(set(view.controllers) & set(eligible))
    if target == "random":
        if answering and not alive:
            raise NoTarget("no node answers")
        if not eligible:
            raise NoTarget(f"other faults hold {listed(sort)} down")
        nodes = alive or eligible
        return Aim(rng.choice([node for node in nodes if hits(node)] or nodes))
    found = _holders(target, view)
    usable = [aim for aim in found if aim.node in (alive if answering else eligible)]
    if usable:
        return rng.choice([aim for aim in usable if hits(aim.node)] or usable)
    if held := [aim for aim in found if aim.node in view.down]:
        raise NoTarget(f"{target}: {_listed(held)}, which another fault holds down")
    if any(aim.node in eligible for aim in found):
        raise NoTarget(f"{target}: {_listed(found)}, which does not answer")
    if any(aim.node in view.nodes for aim in found):
        raise NoTarget(f"{target}: {_listed(found)}, which is not a broker")
    raise NoTarget(f"{target}: {_absent(target, view)}")


def replicas(rng: random.Random, view: ClusterView) -> tuple[TopicPartition, list[int]]:
    """One of the workload's partitions, and its replicas, in sync or not; drawn among those that leave a
    coordinator of the workload (or, without coordinators, a broker) alive.

    Raises: NoTarget.
    """
    holders = [aim for target in ("txn-coordinator", "group-coordinator") for aim in _holders(target, view)]
    outside = {aim.node for aim in holders if aim.node in view.brokers} or set(view.brokers)
    known = [(tp, sorted(view.roles.replicas.get(tp, ()))) for tp in sorted(view.names.data)]
    found = [(tp, nodes) for tp, nodes in known if nodes and outside - set(nodes)]
    if not found:
        raise NoTarget("no partition has all its replicas beside a coordinator that would live on")
    return rng.choice(found)


def used(view: ClusterView) -> list[TopicPartition]:
    """The workload's partitions, then those by which its transactional ids and groups are coordinated."""
    names, roles = view.names, view.roles
    found = [roles.coordinating(TRANSACTION_TOPIC, name) for name in names.transactional_ids]
    found += [roles.coordinating(GROUP_TOPIC, name) for name in names.groups]
    return [*sorted(names.data), *sorted({tp for tp in found if tp is not None})]


def _holders(target: str, view: ClusterView) -> list[Aim]:
    """Every holder of the role, in a fixed order; node -1 where it is not known."""
    roles, names = view.roles, view.names
    match target:
        case "leader":
            return [Aim(roles.leaders.get(tp, -1), f"leader of {tp}") for tp in sorted(names.data)]
        case "controller":
            return [Aim(roles.controller, "controller")]
        case "txn-coordinator":
            topic, role, ids = TRANSACTION_TOPIC, "transaction coordinator", names.transactional_ids
        case "group-coordinator":
            topic, role, ids = GROUP_TOPIC, "group coordinator", names.groups
        case _:
            raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    return [Aim(roles.coordinator(topic, name), f"{role} of {name}") for name in sorted(ids)]


def _absent(target: str, view: ClusterView) -> str:
    lacking = unnamed(target, view.names)
    return f"the workload has no {lacking}" if lacking else "no node is known to have this role now"


def _listed(found: Sequence[Aim]) -> str:
    nodes = sorted({aim.node for aim in found if aim.node != -1})
    return " or ".join(f"node {node}" for node in nodes)


def described(node: int, view: ClusterView, first: str = "") -> str:
    """`node 2 (leader of q-1, q-4; controller)`; `first` is the role that comes first."""
    told = []
    for target, most in SHOWN.items():
        held = [aim.role for aim in _holders(target, view) if aim.node == node]
        if held:
            held.sort(key=lambda role: role != first)
            named = [held[0], *(role.partition(" of ")[2] for role in held[1:])]
            told.append(first_few(named, most))
    told.sort(key=lambda text: not (first and text.startswith(first)))
    return f"node {node} ({'; '.join(told)})" if told else f"node {node}"


def has_zookeeper(config: RunConfig) -> bool:
    """Whether brokers of Kafka have their metadata in ZooKeeper."""
    if config.has(ExternalSection):
        return config.section(ExternalSection).zookeeper
    return config.has(KafkaSection) and config.section(KafkaSection).deployment == "zookeeper"


def unfed_by_zookeeper(config: RunConfig) -> str:
    """Why no leader can be cut off from its followers alone; "" = it can."""
    if not has_zookeeper(config):
        return ""
    return (
        "with ZooKeeper the controller reaches brokers by the links that feed followers, so a leader without "
        "these stays outside of each election: set metadata to kraft"
    )


def listed(nodes: Sequence[int]) -> str:
    """`node 1`, `nodes 1, 2 and 3`."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
