"""Targets: from a symbolic name (`leader`, `controller`, …) to a node, with the roles of now.

Pure: what is drawn is drawn from the random source that is passed in.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC, Roles
from core.config import RunConfig
from core.op import TopicPartition
from nemesis.types import ClusterView, NoTarget, WorkloadNames

TARGETS = {
    "random": "any node, drawn among the ones that answer",
    "leader": "the leader of one of the workload's partitions, drawn",
    "controller": "the active controller: the leader of the metadata quorum",
    "txn-coordinator": "the coordinator of one of the workload's transactional ids, drawn",
    "group-coordinator": "the coordinator of one of the workload's consumer groups, drawn",
}
"""Every target and what it means."""

LISTED = 3
"""Most partitions that a sentence names for one node."""


@dataclass(frozen=True, slots=True)
class Aim:
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
    target: str, rng: random.Random, view: ClusterView, *, answering: bool = False, brokers: bool = False
) -> Aim:
    """The node that `target` stands for now.

    answering: only a node that answers will do (pausing one that is already down has no effect).
    Isolated controllers are not asked for an answer: they count as answering where any broker does.
    brokers: only a broker will do.

    Raises: NoTarget.
    """
    eligible = view.brokers if brokers else view.nodes
    alive = sorted(set(view.roles.answering) & set(eligible))
    if alive and not brokers:
        alive += sorted(view.controllers)
    if target == "random":
        if answering and not alive:
            raise NoTarget("no node answers")
        return Aim(rng.choice(alive or sorted(eligible)))
    found = _holders(target, view)
    usable = [aim for aim in found if aim.node in (alive if answering else eligible)]
    if usable:
        return rng.choice(usable)
    if any(aim.node in eligible for aim in found):
        raise NoTarget(f"{target}: {_listed(found)}, which does not answer")
    if any(aim.node in view.nodes for aim in found):
        raise NoTarget(f"{target}: {_listed(found)}, which is not a broker")
    raise NoTarget(f"{target}: {_absent(target, view)}")


def replicas(rng: random.Random, view: ClusterView) -> tuple[TopicPartition, list[int]]:
    """One of the workload's partitions, and its in-sync replicas; drawn among those that a coordinator of the
    workload (or, without coordinators, a broker) is not one of.

    Raises: NoTarget.
    """
    holders = [aim for target in ("txn-coordinator", "group-coordinator") for aim in _holders(target, view)]
    outside = {aim.node for aim in holders if aim.node in view.brokers} or set(view.brokers)
    known = [(tp, sorted(view.roles.isr.get(tp, ()))) for tp in sorted(view.names.data)]
    found = [(tp, isr) for tp, isr in known if isr and outside - set(isr)]
    if not found:
        raise NoTarget("no partition has all its replicas beside a coordinator that would live on")
    return rng.choice(found)


def _holders(target: str, view: ClusterView) -> list[Aim]:
    """Every holder of the role, in a fixed order; node -1 where it is not known."""
    roles, names = view.roles, view.names
    if target == "leader":
        return [Aim(roles.leaders.get(tp, -1), f"leader of {tp}") for tp in sorted(names.data)]
    if target == "controller":
        return [Aim(roles.controller, "controller")]
    if target == "txn-coordinator":
        return [
            Aim(roles.coordinator(TRANSACTION_TOPIC, name), f"transaction coordinator of {name}")
            for name in sorted(names.transactional_ids)
        ]
    if target == "group-coordinator":
        return [
            Aim(roles.coordinator(GROUP_TOPIC, name), f"group coordinator of {name}")
            for name in sorted(names.groups)
        ]
    raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")


def _absent(target: str, view: ClusterView) -> str:
    lacking = unnamed(target, view.names)
    return f"the workload has no {lacking}" if lacking else "no node is known to have this role now"


def _listed(found: Sequence[Aim]) -> str:
    nodes = sorted({aim.node for aim in found if aim.node != -1})
    return " or ".join(f"node {node}" for node in nodes)


def described(node: int, view: ClusterView, first: str = "") -> str:
    """`node 2 (leader of q-1, q-4; controller)`; `first` is the role that comes first."""
    held = _held(node, view.roles, view.names, first)
    return f"node {node} ({'; '.join(held)})" if held else f"node {node}"


def _held(node: int, roles: Roles, names: WorkloadNames, first: str) -> list[str]:
    led = [str(tp) for tp in sorted(names.data) if roles.leaders.get(tp, -1) == node]
    if first.startswith("leader of "):
        led.sort(key=lambda tp: tp != first.removeprefix("leader of "))
    held = []
    if led:
        more = len(led) - LISTED
        held.append("leader of " + ", ".join(led[:LISTED]) + (f" and {more} more" * (more > 0)))
    if roles.controller == node:
        held.append("controller")
    for role, topic, ids in (
        ("transaction coordinator", TRANSACTION_TOPIC, names.transactional_ids),
        ("group coordinator", GROUP_TOPIC, names.groups),
    ):
        mine = [name for name in sorted(ids) if roles.coordinator(topic, name) == node]
        if first.startswith(f"{role} of "):
            mine.sort(key=lambda name: f"{role} of {name}" != first)
        if mine:
            more = len(mine) - 1
            held.append(f"{role} of {mine[0]}" + (f" and {more} more" * (more > 0)))
    held.sort(key=lambda text: not (first and text.startswith(first)))
    return held


def listed(nodes: Sequence[int]) -> str:
    """`node 1`, `nodes 1, 2 and 3`."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
