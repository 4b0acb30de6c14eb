"""Compaction of the logs of the coordinators: of each key only the newest record stays (Kafka's LogCleaner).

What a coordinator reads when it loads such a log is the same before and after. A record that goes leaves its
offset behind (`REMOVED`), so that offsets, batches, epochs and what is known of producers stay as they were.
Every replica does this for itself, below its last stable offset: what is open or not committed stays,
records of aborted transactions go. Markers and tombstones stay.

Not modelled: topics of applications, segments, delete.retention.ms.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from model.coordinator.classic_group import GroupRecord
from model.coordinator.group_metadata_manager import OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord, TransactionTombstone
from model.log.unified_log import REMOVED, RecordBatch, UnifiedLog
from model.replication.node import GROUP_TOPIC, TRANSACTION_TOPIC, NodeState

Key = Callable[[object], Hashable]


def group_key(record: object) -> Hashable:
    """Of a record of `__consumer_offsets`."""
    if isinstance(record, OffsetRecord):
        return (record.group, record.partition)
    assert isinstance(record, GroupRecord)
    return record.group


def transaction_key(record: object) -> Hashable:
    """Of a record of `__transaction_state`, a tombstone too."""
    assert isinstance(record, TransactionRecord | TransactionTombstone)
    return record.transactional_id


def compact(log: UnifiedLog, high_watermark: int, key: Key) -> int:
    """Remove what is superseded or aborted below the last stable offset; how many records went."""
    end = log.stable(high_watermark)
    newest: dict[Hashable, int] = {}
    for batch in _counting(log, end):
        for n, record in enumerate(batch.records):
            if record is not REMOVED:
                newest[key(record)] = batch.base + n
    stay = set(newest.values())
    removed = 0
    for at, batch in enumerate(log.batches):
        if batch.control or batch.base >= end:
            continue
        left = tuple(record if batch.base + n in stay else REMOVED for n, record in enumerate(batch.records))
        removed += sum(new is not old for new, old in zip(left, batch.records, strict=True))
        log.batches[at] = replace(batch, records=left)
    return removed


def _counting(log: UnifiedLog, end: int) -> Iterator[RecordBatch]:
    """Batches below `end` that are not of an aborted transaction."""
    for batch in log.batches:
        if batch.control or batch.base >= end:
            continue
        gone = batch.transactional and any(
            a.producer_id == batch.producer_id and a.first <= batch.base <= a.last for a in log.aborted
        )
        if not gone:
            yield batch


@dataclass(slots=True)
class LogCleaner:
    """Compacts the replicas of one broker, every `Settings.compaction_ms`."""

    node: NodeState
    due: int = 0

    def tick(self) -> None:
        """Every 100 ms."""
        every = self.node.settings.compaction_ms
        if not every or self.node.now < self.due:
            return
        self.due = self.node.now + every
        for (topic, _), replica in self.node.replicas.items():
            if topic == GROUP_TOPIC:
                compact(replica.log, replica.high_watermark, group_key)
            elif topic == TRANSACTION_TOPIC:
                compact(replica.log, replica.high_watermark, transaction_key)
