"""Settings of a modelled cluster, by the meaning of Kafka's own. Times in milliseconds."""

from dataclasses import dataclass, replace
from typing import Self

from model.eras import ERAS, Era


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`min_isr`: min.insync.replicas. `unclean`: unclean.leader.election.enable. `flush_every`: records after
    which a log is flushed, 0 = never (log.flush.interval.messages). `bugs`: planted bugs in force."""

    era: Era = ERAS["4.3"]
    bugs: frozenset[str] = frozenset()
    min_isr: int = 2
    unclean: bool = False
    flush_every: int = 0
    replica_lag_ms: int = 3000
    fetch_wait_ms: int = 500
    fetch_records: int = 500
    """Records after which a follower's fetch brings no further batch (in bytes: replica.fetch.max.bytes)."""
    fetch_backoff_ms: int = 200
    """Delay of a partition of a follower after an error (replica.fetch.backoff.ms; Kafka's default is 1000,
    brokers of runs have 200)."""
    session_ms: int = 3000
    heartbeat_ms: int = 500
    request_timeout_ms: int = 2000
    quorum_fetch_timeout_ms: int = 2000
    quorum_election_ms: int = 1000
    transaction_partitions: int = 3
    offsets_partitions: int = 3
    internal_replication: int = 3
    transaction_scan_ms: int = 1000
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    producer_epoch_max: int = 32_767
    """The largest producer epoch, which no client is given: a short in Kafka."""
    group_session_min_ms: int = 1000
    compaction_ms: int = 0
    """Distance between compactions (log.cleaner.backoff.ms); 0 = none."""
    compacted: bool = False
    """Topics of applications are compacted, too (cleanup.policy)."""
    roll_ms: int = 0
    cleanable_ratio: float = 0.0
    tombstones_ms: int = 86_400_000
    """See `model.log.log_cleaner.Cleaning`."""
    consumer_heartbeat_ms: int = 1000
    consumer_session_ms: int = 6000
    consumer_assignment_ms: int = 1000
    """Distance between two assignments of a consumer group (group.consumer.assignment.interval.ms)."""
    share_state_partitions: int = 3
    share_heartbeat_ms: int = 1000
    share_session_ms: int = 6000
    share_lock_ms: int = 30_000
    """How long a member may hold a record (group.share.record.lock.duration.ms)."""
    share_deliveries: int = 5
    """How often a record is delivered at most (group.share.delivery.count.limit)."""
    share_in_flight: int = 2000
    """Offsets between the start and the end of a share partition at most
    (group.share.partition.max.record.locks)."""
    share_updates: int = 500
    """Updates of a share partition between two snapshots
    (share.coordinator.snapshot.update.records.per.snapshot)."""
    share_committed: bool = True
    """All share groups read at read_committed, else read_uncommitted (share.isolation.level)."""
    share_letters: str = ""
    """Dead-letter queue of all share groups, a topic; "" = they have none
    (errors.deadletterqueue.topic.name)."""
    preferred_check_ms: int = 0
    """Distance between checks for leaders that are not the preferred ones; 0 = none."""

    def effective_min_isr(self, replicas: int) -> int:
        """The minimum of a partition with this number of replicas (Partition.effectiveMinIsr,
        ReplicationControlManager.getTopicEffectiveMinIsr)."""
        return min(self.min_isr, replicas) if self.era.committed_by_minimum else self.min_isr

    def of_decisions(self) -> Self:
        """Those of the topics `__transaction_state` and `__share_group_state`, which the brokers create with
        a minimum of their own (transaction.state.log.min.isr, share.coordinator.state.topic.min.isr, 2) and
        without unclean elections, whatever is set for others
        (TransactionStateManager.transactionTopicConfigs,
        ShareCoordinatorService.shareGroupStateTopicConfigs)."""
        return replace(self, min_isr=min(2, self.internal_replication), unclean=False)
