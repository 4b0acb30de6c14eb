"""Known weaknesses of Kafka, recognised by their mechanism: what only looks like them is none.

KAFKA-20734                    A coordinator left a marker out, because the partition had no leader.
uncommitted-transaction-state  A coordinator acted upon a record of its log that was not committed, and that
                               was lost afterwards (docs/findings/uncommitted-transaction-state.md).
share-start-falls              A share coordinator took the start offset of a write that came late for the
                               newest one (apache/kafka#23074).

A break of an invariant that comes from one of them is counted and reported, and no failure of the run. Where
the era does not have the weakness, nothing is put down to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from model.coordinator.transaction_metadata import ONGOING, PREPARED, TransactionRecord
from model.eras import Era
from model.log.unified_log import UnifiedLog
from model.protocol.messages import Partition
from model.replication.node import LogLine, MarkersLeftOut

LEFT_OUT: Final = "KAFKA-20734"
UNCOMMITTED: Final = "uncommitted-transaction-state"
START_FELL: Final = "share-start-falls"

Marker = tuple[int, int, Partition]
"""Producer id, epoch, partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """A known weakness that did harm. time_us: virtual time. name: see the module. `text`: the invariant that
    did not hold. tps: partitions of the transaction, the ones in which it ended otherwise among them; with a
    transactional_id "" the partition of a share group."""

    time_us: int
    name: str
    text: str
    transactional_id: str
    tps: frozenset[Partition]


class UncommittedRead(NamedTuple):
    """A record that a coordinator has loaded and that was not committed then. tp, base, epoch: where."""

    tp: Partition
    base: int
    epoch: int
    record: TransactionRecord


@dataclass(slots=True)
class Mechanisms:
    """What the coordinators of a cluster did. left_out: markers. `read`: by producer id. committed: of each
    partition of the transaction log, leader epoch by offset, in the order of offsets. ids: transactional id
    by producer id."""

    era: Era
    left_out: set[Marker] = field(default_factory=set)
    read: dict[int, list[UncommittedRead]] = field(default_factory=dict)
    committed: dict[Partition, dict[int, int]] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)

    def log_lines(self, lines: Iterable[LogLine]) -> None:
        """New lines of the log of a node."""
        if not self.era.leaderless_deleted:
            return
        for one in lines:
            if not isinstance(one, MarkersLeftOut):
                continue
            self.ids[one.producer_id] = one.transactional_id
            self.left_out.update((one.producer_id, one.producer_epoch, tp) for tp in one.partitions)

    def loaded(self, tp: Partition, log: UnifiedLog, high_watermark: int) -> None:
        """A coordinator has loaded this log, and acts upon it from now on."""
        if self.era.acts_when_committed:
            return
        for batch in reversed(log.batches):
            if batch.last < high_watermark:
                break
            for record in batch.records:
                if isinstance(record, TransactionRecord):
                    found = UncommittedRead(tp, batch.base, batch.epoch, record)
                    self.ids[record.producer_id] = record.transactional_id
                    self.read.setdefault(record.producer_id, []).append(found)

    def unmarked(self, tp: Partition, producer_id: int, epoch: int) -> str:
        """Why the transaction of this producer epoch got no marker of its own there, "" = unknown."""
        if (producer_id, epoch + 1, tp) in self.left_out:
            return LEFT_OUT
        lost = (one.record for one in self.read.get(producer_id, ()) if self._lost(one))
        joined = any(r.state is ONGOING and r.epoch == epoch and tp in r.partitions for r in lost)
        return UNCOMMITTED if joined else ""

    def ended_twice(self, producer_id: int, epoch: int) -> str:
        """Why the transaction of this producer epoch was committed and aborted, "" = unknown."""
        lost = (one.record for one in self.read.get(producer_id, ()) if self._lost(one))
        decided = any(r.state in PREPARED and r.epoch == epoch + 1 for r in lost)
        return UNCOMMITTED if decided else ""

    def _lost(self, one: UncommittedRead) -> bool:
        """What is committed at this offset is another record, or will be: a later leader epoch began before
        it."""
        epochs = self.committed.get(one.tp, {})
        last = next(reversed(epochs), -1)
        if last < one.base:
            return epochs.get(last, -1) > one.epoch
        return epochs.get(one.base, one.epoch) != one.epoch
