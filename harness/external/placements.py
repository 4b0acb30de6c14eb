"""Replicas of internal topics that a run moves: where they were, and putting them back.

The run's own topics are deleted. Internal ones stay, with the replicas that the last fault gave them, unless
healing or the reaper gives back what they had.
"""

from collections.abc import Iterable, Mapping

import msgspec

from core.errors import ClusterError
from core.op import TopicPartition
from harness.brokers.admin import elections, reassignments
from harness.brokers.admin.connection import Brokers
from harness.external.belongings import BACK_S, PAUSE_S
from harness.processes.waiting import NotYet, until

Placements = Mapping[TopicPartition, tuple[int, ...]]
_Row = tuple[str, int, tuple[int, ...]]
TAKEN_S = 15.0


def encoded(placements: Placements) -> str:
    """As a line for the reaper."""
    return msgspec.json.encode([(*tp, nodes) for tp, nodes in placements.items()]).decode()


def decoded(lines: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """What lines said, in their order: of one partition the first counts, for that was before all moves."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for line in lines:
        for topic, partition, nodes in msgspec.json.decode(line, type=list[_Row]):
            found.setdefault(TopicPartition(topic, partition), nodes)
    return found


def put_back(brokers: Brokers, before: Placements) -> list[str]:
    """Give partitions the replicas back that they had, where these are others now; what has others still, in
    sentences. Their order does not count: `elections` changes it for good. Never raises."""
    moved, why = before, ""
    try:
        if moved := until(TAKEN_S, PAUSE_S, lambda: _moved(brokers, before)):
            reassignments.cancel(brokers, tuple(moved), TAKEN_S)
            reassignments.reassign(brokers, moved, TAKEN_S)
            until(BACK_S, PAUSE_S, lambda: _must_be_back(brokers, moved))
    except ClusterError as error:
        why = str(error)
    return [
        f"{tp} had replicas on nodes {list(had)}, and may have others: {why}"
        for tp, had in moved.items()
        if why
    ]


def _moved(brokers: Brokers, before: Placements) -> Placements:
    """Those of these whose replicas are others than before; one that no broker names has gone. Raises:
    ClusterError, where no broker answers."""
    if not before:
        return {}
    if not (now := elections.replicas(brokers)):
        raise NotYet("no broker answers")
    return {tp: nodes for tp, nodes in before.items() if set(now.get(tp, nodes)) != set(nodes)}


def _must_be_back(brokers: Brokers, before: Placements) -> None:
    """Raises: NotYet."""
    if left := _moved(brokers, before):
        raise NotYet(f"{next(iter(left))} has not moved back")
