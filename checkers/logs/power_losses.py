"""Losses of power by the metadata log: since when a replica was out, and until when.

The unit of time is the offset in the metadata log, which each node has, and which a loss of power leaves
whole: a node had heard of what its disk has.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from history.evidence import Evidence
from history.evidence_tables import LOST_POWER
from model.protocol.messages import PartitionState

States = Sequence[tuple[int, int, PartitionState]]
"""The states of a partition: each with the offset and the time (ms) of its metadata record."""
Heard = Mapping[tuple[int, int], tuple[int, int]]
"""(take, node) -> offset and time (ms) of the last metadata record that its disk had; time -1 = unknown."""
NEVER: Final = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """A replica is out from the last metadata record that its disk had when it was looked at (`since`, -1 =
    none), until one names it in sync again after it registered again, and was not in sync meanwhile (`until`;
    `until_ms`: its time; NEVER)."""

    take: int
    node: int
    since: int = -1
    until: float = NEVER
    until_ms: float = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Nodes that were out at one time, and until when the last of them was (as of PowerLoss)."""

    nodes: frozenset[int]
    until: float
    until_ms: float


def power_losses(evidence: Evidence) -> list[PowerLoss]:
    """All, as if no node had come back."""
    rows = [row for row in evidence.table("takes").to_pylist() if row["why"] == LOST_POWER]
    rows += evidence.table("unread_losses").to_pylist()
    return [PowerLoss(take=row["take"], node=row["node"]) for row in rows]


def losses_of(evidence: Evidence, log: pa.Table, states: States) -> list[PowerLoss]:
    """Those that a partition may have lost records by: of nodes that had a replica of it at some time, and
    had heard that it was created. log: the metadata log."""
    replicas = {node for _, _, one in states for node in (*one.replicas, *one.isr, one.leader)}
    heard = evidence.once(heard_of)
    found = []
    for loss in power_losses(evidence):
        if loss.node not in replicas:
            continue
        since, _ = heard.get((loss.take, loss.node), (-1, -1))
        if since < 0:
            found.append(loss)
        elif since >= states[0][0]:
            until, until_ms = _back(log, states, loss.node, since)
            found.append(
                PowerLoss(take=loss.take, node=loss.node, since=since, until=until, until_ms=until_ms)
            )
    return found


def outages(losses: Collection[PowerLoss], before_take: float = inf) -> list[Outage]:
    """For each loss those that were out then, the greatest number first. before_take: only of looks before
    this one."""
    counted = [loss for loss in losses if loss.take < before_take]
    found = []
    for one in counted:
        out = [loss for loss in counted if loss.since <= one.since < loss.until]
        until, until_ms = max(loss.until for loss in out), max(loss.until_ms for loss in out)
        nodes = frozenset(loss.node for loss in out)
        found.append(Outage(nodes=nodes, until=until, until_ms=until_ms))
    return sorted(found, key=lambda outage: -len(outage.nodes))


def heard_of(evidence: Evidence) -> Heard:
    """How far each disk had the metadata log, by its records and by its snapshots."""
    every = evidence.table("metadata").select(["take", "node", "snapshot", "offset", "timestamp"])
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row in every.group_by(["take", "node"]).aggregate([("snapshot", "max")]).to_pylist():
        found[row["take"], row["node"]] = max(row["snapshot_max"] - 1, -1), -1
    records = every.filter(pc.equal(every["snapshot"], -1)).group_by(["take", "node"])
    for row in records.aggregate([("offset", "max"), ("timestamp", "max")]).to_pylist():
        place = row["take"], row["node"]
        if row["offset_max"] >= found[place][0]:
            found[place] = row["offset_max"], row["timestamp_max"]
    return found


def registered_again(log: pa.Table, node: int, since: int) -> float:
    """Offset of a node's first registration behind `since`. log: the metadata log."""
    mine = pc.and_(pc.equal(log["name"], "RegisterBrokerRecord"), pc.equal(log["broker"], node))
    registered = log.filter(mine)["offset"].to_pylist()
    return min((offset for offset in registered if offset > since), default=NEVER)


def _back(log: pa.Table, states: States, node: int, since: int) -> tuple[float, float]:
    """Offset and time of the metadata record by which a node was in sync again.

    The first registration after `since` counts: a node is in sync only once it has heard of its own, so that
    one which a process wrote before it lost power, unheard, puts nothing in sync.
    """
    again = registered_again(log, node, since)
    before = [one for offset, _, one in states if offset <= again]
    out = bool(before) and node not in before[-1].isr
    for offset, ms, one in states:
        if offset > again:
            if out and node in one.isr:
                return offset, ms
            out = out or node not in one.isr
    return NEVER, NEVER
