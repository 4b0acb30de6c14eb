"""Markers that came late by a request that their coordinator had given up (KAFKA-19446).

A network cuts a coordinator off from a broker that it has sent markers to. When the request times out, the
coordinator's log says so (`history.broker_logs.MarkersCancelled`), and it sends the markers again on another
connection. When the network heals, TCP may deliver the bytes of the old connection, too.

What the logs of the end have to show: the decision was there when the request was made, and was completed
after the request was cancelled, so that the request may hold its markers; the partition has the marker of
that time, and the same one again, in a later transaction that did not ask for it; the leader that appended it
is the broker that the request went to, and the coordinator epoch in it is that of the node that sent it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from checkers.logs.elections import Elections, elections, survivor
from checkers.logs.replicas import replicas
from checkers.logs.transactions import Decision, Transaction, transaction_logs
from core.op import TopicPartition
from history.broker_logs import CancelledMarkersLine
from history.evidence import Evidence
from history.tables import TableRow


class LateMarker(NamedTuple):
    """A marker of an earlier transaction. tp, offset, ms: where and when it was appended. commit: its result.
    version: the transaction protocol of its client. began_ms: when the transaction began that it ended there.
    """

    tp: TopicPartition
    offset: int
    ms: int
    commit: bool
    version: int
    began_ms: int


def late_markers(
    evidence: Evidence, cancelled: Sequence[CancelledMarkersLine], transactional_id: str
) -> list[LateMarker]:
    """Those of an id. None where its part of the coordinators' log may lack a decision."""
    logs = evidence.once(transaction_logs)
    every = [one for some in logs.of.values() for one in some if one.transactional_id == transactional_id]
    every.sort(key=lambda one: one.began_ms)
    if not every or logs.doubt(every[0].log):
        return []
    found: list[LateMarker] = []
    for one in every:
        if held := [request for request in cancelled if _may_hold(request, one)]:
            for tp in one.decisions[-1].partitions:
                found += _again(evidence, every, one, tp, held)
    return found


def _may_hold(request: CancelledMarkersLine, one: Transaction) -> bool:
    """Whether a request may hold the markers of a transaction, and these had to be sent again."""
    if not one.decisions or one.completed < 0:
        return False
    return one.decisions[-1].ms <= request.made_ms and request.cancelled_ms <= one.completed_ms


def _again(
    evidence: Evidence,
    every: Sequence[Transaction],
    before: Transaction,
    tp: TopicPartition,
    held: Sequence[CancelledMarkersLine],
) -> list[LateMarker]:
    """Markers of a transaction in a partition that came once more by one of these requests."""
    decision = before.decisions[-1]
    markers = list(_markers(evidence, before, decision, tp))
    if not any(decision.ms <= row["timestamp"] <= before.completed_ms for row in markers):
        return []
    leaders, coordinators = elections(evidence, tp), elections(evidence, before.log)
    found: list[LateMarker] = []
    carriers: set[CancelledMarkersLine] = set()
    for row in markers:
        hit = _under_way(every, row["timestamp"])
        if hit is None or not _undeserved(before, hit, decision.commit, row["timestamp"]):
            continue
        way = _leader(coordinators, row["coordinator_epoch"]), _leader(leaders, row["leader_epoch"])
        if by := [request for request in held if (request.node, request.to) == way]:
            carriers.update(by)
            place = tp, row["offset"], row["timestamp"]
            found.append(LateMarker(*place, decision.commit, before.version, hit.began_ms))
    # a request holds the marker once
    return found if len(found) <= len(carriers) else []


def _markers(
    evidence: Evidence, before: Transaction, decision: Decision, tp: TopicPartition
) -> Iterator[TableRow]:
    """Markers like that of a transaction in the log that a partition has at the end."""
    log = survivor(replicas(evidence, tp), elections(evidence, tp))
    if log is None:
        return
    rows = evidence.of("control", tp)
    wanted = {
        "take": log.take,
        "node": log.node,
        "producer_id": before.producer_id,
        "producer_epoch": decision.epoch,
        "name": "COMMIT" if decision.commit else "ABORT",
    }
    for name, value in wanted.items():
        rows = rows.filter(pc.equal(rows[name], value))
    yield from rows.to_pylist()


def _under_way(every: Sequence[Transaction], ms: int) -> Transaction | None:
    """The transaction that was under way; None = none was."""
    last = next((one for one in reversed(every) if one.began_ms <= ms), None)
    return None if last is None or 0 <= last.completed_ms < ms else last


def _undeserved(before: Transaction, hit: Transaction, commit: bool, ms: int) -> bool:
    """A marker of the transaction before may end this one, which was not decided so by then: the broker
    compares producer id and epoch."""
    return (
        hit.producer_id == before.producer_id
        and hit.epoch == before.decisions[-1].epoch
        and before.completed_ms <= hit.began_ms
        and not any(each.commit == commit and each.ms <= ms for each in hit.decisions)
    )


def _leader(lineage: Elections, epoch: int | None) -> int:
    """The leader of an epoch, -1 = unknown."""
    return next((one.leader for one in lineage.found if one.epoch == epoch), -1)
