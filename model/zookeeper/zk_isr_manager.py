"""In-sync sets of the ZooKeeper era: leaders write them themselves, and tell the controller afterwards.

A leader writes the partition's state with the version that it knows (`Partition.updateIsr`). Until it is sure
of the outcome both sets count for its high watermark: a write that was not answered may have been done.
Where the version is another one and the data are not its own, a controller decided meanwhile, and the
leader waits for the controller's word (Kafka keeps trying with the old version: "Cached zkVersion … not
equal", KAFKA-2729).

The controller passes the change to other brokers. The leader notifies it by a znode under
/isr_change_notification, and not for each change: every 2.5 s the leader looks, and tells what gathered if
the last change is 5 s old or the last notification 60 s (`ReplicaManager.maybePropagateIsrChanges`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from model.protocol.messages import Partition
from model.protocol.zookeeper_messages import Create, GetData, SetData, ZkError
from model.replication.replica import Replica
from model.server.broker_metadata_publisher import BrokerMetadataPublisher
from model.zookeeper.kafka_zk_client import KafkaZkClient, SessionExpired, Steps
from model.zookeeper.zk_data import ISR_CHANGES, LeaderIsrAndControllerEpoch, state_path

LOOK_MS: Final = 2500
BLACK_OUT_MS: Final = 5000
INTERVAL_MS: Final = 60_000


@dataclass(slots=True)
class ZkIsrManager:
    """controller_epoch(): the newest that this broker heard of. `changed`: not reported yet. `changed_ms`,
    `told_ms`: of the last change and the last notification (at first: when the process came up)."""

    publisher: BrokerMetadataPublisher
    client: KafkaZkClient
    controller_epoch: Callable[[], int]
    changed: dict[Partition, None] = field(default_factory=dict)
    changed_ms: int = 0
    told_ms: int = 0
    _look_ms: int = 0
    _again: dict[Partition, None] = field(default_factory=dict)
    """Writes with unknown outcome: the session ended first."""

    def start(self) -> None:
        """The process comes up."""
        self.changed_ms = self.told_ms = self.publisher.node.now
        self._look_ms = self.publisher.node.now + LOOK_MS

    def lead_on(self) -> None:
        """Shrink in-sync sets where a replica lags; notify the controller when it is time."""
        again, self._again = self._again, {}
        for tp, replica in list(self.publisher.node.replicas.items()):
            if not replica.leads:
                continue
            if tp in again:
                self.client.run(self._write(tp, replica))
            elif (wanted := replica.shrunk_isr(self.publisher.node.now)) is not None:
                self._want(tp, replica, wanted)
        if self.publisher.node.now >= self._look_ms:
            self._look_ms = self.publisher.node.now + LOOK_MS
            self._propagate()

    def fetched(self, tp: Partition, follower: int) -> None:
        """A follower has fetched: it joins, if it may. Its liveness is not checked before KIP-841."""
        replica = self.publisher.node.replicas[tp]
        wanted = replica.grown_isr(follower)
        if wanted is not None:
            self._want(tp, replica, wanted)

    def _want(self, tp: Partition, replica: Replica, wanted: tuple[int, ...]) -> None:
        if self.client.session >= 0:
            replica.proposed = wanted
            self.client.run(self._write(tp, replica))

    def _write(self, tp: Partition, replica: Replica) -> Steps[None]:
        wanted, state = replica.proposed, replica.state
        if wanted is None:
            return
        data = LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, wanted, self.controller_epoch())

        def stale() -> bool:
            """The replica no longer leads in the epoch of the write: its outcome does not matter."""
            now = self.publisher.node.replicas.get(tp)
            return now is not replica or replica.proposed != wanted or replica.state != state

        try:
            (done,) = yield [SetData(state_path(tp), data, state.partition_epoch)]
            if done.error is not ZkError.OK and not stale():
                (done,) = yield [GetData(state_path(tp))]  # of its own write, which was not answered?
        except SessionExpired:
            if not stale():
                self._again[tp] = None
            return
        if done.data == data and not stale():
            self._altered(tp, replica, done.version)

    def _altered(self, tp: Partition, replica: Replica, version: int) -> None:
        node = self.publisher.node
        assert replica.proposed is not None
        state = replace(replica.state, isr=replica.proposed, partition_epoch=version)
        replica.become(state, node.now)
        self.changed[tp] = None
        self.changed_ms = node.now
        replica.advance(node.now)
        self.publisher.replica_manager.moved(tp)

    def _propagate(self) -> None:
        now = self.publisher.node.now
        quiet = self.changed_ms + BLACK_OUT_MS < now
        if not self.changed or not (quiet or self.told_ms + INTERVAL_MS < now):
            return
        if self.client.session < 0:
            return
        self.told_ms = now
        self.client.run(self._notify())

    def _notify(self) -> Steps[None]:
        told, self.changed = self.changed, {}
        try:
            yield [Create(f"{ISR_CHANGES}/isr_change_", tuple(told), sequential=True)]
        except SessionExpired:
            self.changed = told | self.changed
