"""The replicas that a broker holds: made, changed and given up as the metadata say."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from model.coordinator.coordinators import Coordinators
from model.log.unified_log import UnifiedLog
from model.protocol.messages import Partition, PartitionState
from model.replication.node import LeaderStarts, LogLine, NodeState, settings_of
from model.replication.replica import Replica
from model.replication.replica_fetcher_manager import ReplicaFetcherManager
from model.replication.replica_manager import ReplicaManager
from model.share.share_groups import ShareGroups

TICK_MS: Final = 100
"""Time between two ticks of a node."""


@dataclass(slots=True)
class Durable:
    """What a node finds again after a crash. `topic_ids`: of its logs (`partition.metadata`, KIP-516).
    `clean_epoch`: its broker epoch at a clean shutdown.

    quorum_epoch, voted, entries, clean_epoch: of the metadata quorum only.
    """

    logs: dict[Partition, UnifiedLog] = field(default_factory=dict)
    topic_ids: dict[Partition, int] = field(default_factory=dict)
    checkpoint: dict[Partition, int] = field(default_factory=dict)
    server_log: list[LogLine] = field(default_factory=list)
    quorum_epoch: int = 0
    voted: int = -1
    entries: list[tuple[int, object]] = field(default_factory=list)
    clean_epoch: int = -1


@dataclass(slots=True)
class BrokerMetadataPublisher:
    """See the module. `durable`: shares its logs and its checkpoint with `node`."""

    node: NodeState
    durable: Durable
    replica_manager: ReplicaManager
    replica_fetchers: ReplicaFetcherManager
    coordinators: Coordinators
    share_groups: ShareGroups

    def start(self) -> None:
        """Open the logs that outlived the process; their roles are not known yet."""
        node = self.node
        for tp, log in self.durable.logs.items():
            replica = Replica(node.me, settings_of(node.settings, tp[0]), log, node.image)
            replica.topic_id = self.durable.topic_ids[tp]
            replica.high_watermark = max(min(self.durable.checkpoint.get(tp, 0), log.end), log.start)
            node.replicas[tp] = replica
            if "producers-lost-on-restart" in node.settings.bugs:
                log.producers.clear()

    def checkpoint(self) -> None:
        """Write the high watermarks down (replication-offset-checkpoint)."""
        beyond = 1000 if "high-watermark-noted-too-high" in self.node.settings.bugs else 0
        for tp, replica in self.node.replicas.items():
            self.durable.checkpoint[tp] = replica.high_watermark + beyond

    def expire_producers(self) -> None:
        """Forget producers that wrote nothing for `producer.id.expiration.ms`."""
        before = self.node.now - self.node.settings.producer_id_expiration_ms
        for replica in self.node.replicas.values():
            replica.log.expire_producers(before)

    def flush(self) -> None:
        """Everything is on disk."""
        for replica in self.node.replicas.values():
            replica.log.flush()
        self.checkpoint()

    def became(self, states: Iterable[tuple[Partition, PartitionState]]) -> None:
        """Take over newer states of partitions, and pass them to coordinators and fetchers."""
        changed = False
        for tp, state in states:
            changed = True
            self._become(tp, state)
            self.coordinators.became(tp)
            self.share_groups.became(tp)
        if changed:
            self.replica_fetchers.pump()

    def deleted(self, topics: Iterable[str]) -> None:
        """Give up the logs of deleted topics, those of topics with the same name that there are by now
        aside."""
        keeps = "deleted-topic-keeps-logs" in self.node.settings.bugs
        for topic in topics:
            now = self.node.image.topic_ids.get(topic, -1)
            for tp, replica in list(self.node.replicas.items()):
                if tp[0] == topic and replica.topic_id != now and not keeps:
                    self._give_up(tp)
            self.coordinators.deleted(topic)

    def _give_up(self, tp: Partition) -> None:
        del self.node.replicas[tp]
        for kept in (self.durable.logs, self.durable.checkpoint, self.durable.topic_ids):
            kept.pop(tp, None)
        self.replica_manager.moved(tp)

    def _become(self, tp: Partition, state: PartitionState) -> None:
        node = self.node
        replica = node.replicas.get(tp)
        if node.me not in state.replicas:
            if replica is not None:
                self._give_up(tp)
            return
        if replica is None:
            replica = Replica(node.me, settings_of(node.settings, tp[0]), image=node.image)
            if not node.settings.era.zookeeper:
                replica.topic_id = node.image.topic_ids[tp[0]]
            node.replicas[tp] = replica
            self.durable.logs[tp] = replica.log
            self.durable.topic_ids[tp] = replica.topic_id
        epoch = replica.state.leader_epoch
        replica.become(state, node.now)
        if replica.leads and state.leader_epoch != epoch:
            starts = LeaderStarts(node.now, node.me, tp, state, replica.log.end, replica.high_watermark)
            node.server_log.append(starts)
        replica.advance(node.now)
        self.replica_manager.moved(tp)
