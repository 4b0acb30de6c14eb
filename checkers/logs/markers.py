"""Markers of transactions in partitions, and which transaction each batch of a producer can be of, by epochs
and times.

How these find each other: `checkers.logs.decisions`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from checkers.logs.replicas import ReplicaLog
from checkers.logs.transactions import NEVER, Transaction
from core.op import TopicPartition
from history.columns import Array
from history.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A marker in a partition. epoch: producer epoch."""

    tp: TopicPartition
    offset: int
    ms: int
    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int

    @property
    def text(self) -> str:
        """In words."""
        what = "COMMIT" if self.commit else "ABORT"
        return f"the {what} marker {self.producer_id}/{self.epoch} at offset {self.offset} of {self.tp}"


@dataclass(slots=True, kw_only=True)
class Ended:
    """How a transaction ended in one partition. first, last: offsets of its first and last batch there,
    -1 = it has none. own: its own markers. closed: markers that ended its records, own or not. open: first
    offset of those that no marker ended, -1 = there are none."""

    first: int = -1
    last: int = -1
    own: list[Marker]
    closed: list[Marker]
    open: int = -1


def markers_of(evidence: Evidence, tp: TopicPartition, log: ReplicaLog) -> Iterable[Marker]:
    """The markers of a log, in order."""
    rows = evidence.of("control", tp)
    mine = pc.and_(pc.equal(rows["take"], log.take), pc.equal(rows["node"], log.node))
    wanted = ["name", "offset", "timestamp", "producer_id", "producer_epoch", "coordinator_epoch"]
    for row in rows.filter(mine).select(wanted).to_pylist():
        if row["name"] in ("COMMIT", "ABORT"):
            yield Marker(
                tp=tp,
                offset=row["offset"],
                ms=row["timestamp"],
                producer_id=row["producer_id"],
                epoch=row["producer_epoch"],
                commit=row["name"] == "COMMIT",
                coordinator_epoch=-1 if row["coordinator_epoch"] is None else row["coordinator_epoch"],
            )


def earliest(
    every: Sequence[Transaction], batches: dict[str, Array], stamped: Array, *, timed: bool = True
) -> tuple[Array, Array]:
    """Of each batch: index of the earliest transaction that it can be of, -1 = none; and of the one after,
    where it may be of that one, too, else -1. stamped: whether a broker gave the batch its time.
    timed: times can be compared, else none is too late for the last transaction."""
    owner, tie = (np.full(len(batches["base"]), -1, np.int64) for _ in range(2))
    for epoch in np.unique(batches["producer_epoch"]).tolist():
        numbers = [number for number, one in enumerate(every) if one.epoch == epoch]
        # One without a decision that others follow has no records: its coordinator did not hear that its
        # beginning was committed, answered with an error, and began again.
        group = np.array([n for n in numbers if every[n].decisions or n == numbers[-1]], np.int64)
        if not group.size:
            continue
        mine = [every[number] for number in group.tolist()]
        decided = np.array([one.decided_ms for one in mine], np.int64)
        completed = np.array([one.completed_ms for one in mine], np.int64)
        completed[-1] = completed[-1] if mine[-1].completed >= 0 else NEVER
        aborts = any(not one.commit or one.epoch != epoch for one in mine[-1].decisions)
        for stamp, until in ((False, decided), (True, np.maximum(decided, completed))):
            rows = np.flatnonzero((batches["producer_epoch"] == epoch) & (stamped == stamp))
            times = batches["base_timestamp"][rows]
            at = np.searchsorted(until, times, "left")
            if aborts or not timed:
                # a coordinator aborts while a client writes; of version 2, no later one has this epoch
                at = np.minimum(at, len(group) - 1)
            inside = np.minimum(at, len(group) - 1)
            after = np.minimum(inside + 1, len(group) - 1)
            owner[rows] = np.where(at < len(group), group[inside], -1)
            tie[rows] = np.where((decided[inside] <= times) & (after > inside), group[after], -1)
    return owner, tie
