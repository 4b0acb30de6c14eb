"""In-sync sets of the ZooKeeper era: leaders write them themselves, and tell the controller afterwards.

A leader writes the partition's state with the version that it knows (`Partition.updateIsr`). Until it is sure
of the outcome both sets count for its high watermark: a write that was not answered may have been done.
Where the version is another one and the data are not its own, somebody else decided meanwhile, and the
leader waits for the controller's word (Kafka goes on trying with the old version: "Cached zkVersion … not
equal", KAFKA-2729).

That other brokers learn of it is the controller's affair. It is told by a znode under
/isr_change_notification, and not for each change: every 2.5 s the leader looks, and tells what gathered if
the last change is 5 s old or the last notification 60 s (`ReplicaManager.maybePropagateIsrChanges`).

Not here: which set is wanted (`replica`), AlterPartition (`altering`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from model.hosting import Hosting
from model.messages import Partition
from model.replica import Replica
from model.zk_client import ZkClient
from model.zk_paths import ISR_CHANGES, PartitionData, state_path
from model.zookeeper import Create, GetData, Result, SetData, ZkError

LOOK_MS: Final = 2500
BLACK_OUT_MS: Final = 5000
INTERVAL_MS: Final = 60_000


@dataclass(slots=True)
class IsrChanges:
    """controller_epoch(): the newest that this broker heard of. `changed`: not told yet. `changed_ms`,
    `told_ms`: of the last change and the last notification (at first: when the process came up)."""

    hosting: Hosting
    client: ZkClient
    controller_epoch: Callable[[], int]
    changed: dict[Partition, None] = field(default_factory=dict)
    changed_ms: int = 0
    told_ms: int = 0
    _look_ms: int = 0
    _again: dict[Partition, None] = field(default_factory=dict)
    """Writes whose outcome nobody knows: the session ended first."""

    def start(self) -> None:
        """The process comes up."""
        self.changed_ms = self.told_ms = self.hosting.node.now
        self._look_ms = self.hosting.node.now + LOOK_MS

    def lead_on(self) -> None:
        """Look whether somebody has to leave an in-sync set, and whether it is time to tell."""
        again, self._again = self._again, {}
        for tp, replica in list(self.hosting.node.replicas.items()):
            if not replica.leads:
                continue
            if tp in again:
                self._write(tp, replica)
            elif (wanted := replica.shrunk_isr(self.hosting.node.now)) is not None:
                self._want(tp, replica, wanted)
        if self.hosting.node.now >= self._look_ms:
            self._look_ms = self.hosting.node.now + LOOK_MS
            self._propagate()

    def fetched(self, tp: Partition, follower: int) -> None:
        """A follower has fetched: it joins, if it may. Whether it lives nobody asks before KIP-841."""
        replica = self.hosting.node.replicas[tp]
        wanted = replica.grown_isr(follower)
        if wanted is not None:
            self._want(tp, replica, wanted)

    def _want(self, tp: Partition, replica: Replica, wanted: tuple[int, ...]) -> None:
        if self.client.session >= 0:
            replica.proposed = wanted
            self._write(tp, replica)

    def _write(self, tp: Partition, replica: Replica) -> None:
        wanted, state = replica.proposed, replica.state
        if wanted is None:
            return
        data = PartitionData(state.leader, state.leader_epoch, wanted, self.controller_epoch())

        def stale() -> bool:
            """Whoever wrote leads no more, or in another epoch: whatever came of it, it is over."""
            now = self.hosting.node.replicas.get(tp)
            return now is not replica or replica.proposed != wanted or replica.state != state

        def written(results: Sequence[Result] | None) -> None:
            if stale():
                return
            if results is None:
                self._again[tp] = None
            elif results[0].error is ZkError.OK:
                self._altered(tp, replica, results[0].version)
            else:
                self.client.send([GetData(state_path(tp))], read)

        def read(results: Sequence[Result] | None) -> None:
            if stale():
                return
            if results is None:
                self._again[tp] = None
            elif results[0].data == data:  # it was this broker's own write, which was not answered
                self._altered(tp, replica, results[0].version)

        self.client.send([SetData(state_path(tp), data, state.partition_epoch)], written)

    def _altered(self, tp: Partition, replica: Replica, version: int) -> None:
        node = self.hosting.node
        assert replica.proposed is not None
        state = replica.state._replace(isr=replica.proposed, partition_epoch=version)
        replica.become(state, node.now)
        self.changed[tp] = None
        self.changed_ms = node.now
        replica.advance(node.now)
        self.hosting.serving.moved(tp)

    def _propagate(self) -> None:
        now = self.hosting.node.now
        quiet = self.changed_ms + BLACK_OUT_MS < now
        if not self.changed or not (quiet or self.told_ms + INTERVAL_MS < now):
            return
        if self.client.session < 0:
            return
        told, self.changed = self.changed, {}
        self.told_ms = now

        def done(results: Sequence[Result] | None) -> None:
            if results is None:
                self.changed = told | self.changed

        node = Create(f"{ISR_CHANGES}/isr_change_", tuple(told), sequential=True)
        self.client.send([node], done)
