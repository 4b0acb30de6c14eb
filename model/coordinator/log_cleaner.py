"""Which logs of a broker are compacted, and when: those of the coordinators, and the topics of applications
where they are set to be (Kafka's LogCleanerManager).

What a coordinator reads when it loads such a log is the same before and after; its tombstones stay. Every
replica is compacted on its own (`model.log.log_cleaner`).
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from model.coordinator.classic_group import GroupRecord
from model.coordinator.consumer_group_records import CLASSIC, GroupTombstone, OfConsumerGroup
from model.coordinator.group_metadata_manager import OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord, TransactionTombstone
from model.log.log_cleaner import Cleaning, compact, record_key
from model.replication.node import NodeState


def group_key(record: object) -> Hashable:
    """Of a record of `__consumer_offsets`."""
    if isinstance(record, OffsetRecord):
        return (record.group, record.partition)
    if isinstance(record, GroupTombstone):
        return record.group if record.what == CLASSIC else (record.what, record.group, record.member)
    if isinstance(record, OfConsumerGroup):
        return (type(record).__name__, record.group, getattr(record, "member", ""))
    assert isinstance(record, GroupRecord)
    return record.group


def transaction_key(record: object) -> Hashable:
    """Of a record of `__transaction_state`, a tombstone too."""
    assert isinstance(record, TransactionRecord | TransactionTombstone)
    return record.transactional_id


@dataclass(slots=True)
class LogCleaner:
    """Compacts the replicas of one broker, every `Settings.compaction_ms`."""

    node: NodeState
    due: int = 0

    def tick(self) -> None:
        """Every 100 ms."""
        settings, now = self.node.settings, self.node.now
        if not settings.compaction_ms or now < self.due:
            return
        self.due = now + settings.compaction_ms
        own = Cleaning(roll_ms=settings.roll_ms, ratio=settings.cleanable_ratio)
        keyed = replace(own, tombstones_ms=settings.tombstones_ms, bugs=settings.bugs)
        for (topic, _), replica in self.node.replicas.items():
            if topic == GROUP_TOPIC:
                compact(replica.log, replica.high_watermark, group_key, own, now)
            elif topic == TRANSACTION_TOPIC:
                compact(replica.log, replica.high_watermark, transaction_key, own, now)
            elif settings.compacted:
                compact(replica.log, replica.high_watermark, record_key, keyed, now)
