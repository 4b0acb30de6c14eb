"""A leader asks the controller for another in-sync set (AlterPartition, KIP-497).

Until the answer is there both sets count for the high watermark (`Replica.maximal_isr`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from model.errors import NO_ERROR, KafkaError
from model.protocol.controller_messages import AlterPartition, AlterPartitionResponse
from model.protocol.messages import Partition
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager


@dataclass(slots=True)
class AlterPartitionManager:
    """controller(): the node to ask, -1 = it is not known. `asked`: what was asked for last. `under_way`:
    partitions about which a request is, also of an epoch of before: meanwhile a leader asks for no other
    (AlterPartitionManager.unsentIsrUpdates)."""

    node: NodeState
    replica_manager: ReplicaManager
    controller: Callable[[], int]
    asked: dict[Partition, AlterPartition] = field(default_factory=dict)
    under_way: set[Partition] = field(default_factory=set)
    _again: set[Partition] = field(default_factory=set)

    def lead_on(self) -> None:
        """Shrink in-sync sets where a replica lags; ask again where an answer did not come."""
        for tp, replica in self.node.replicas.items():
            if replica.state.leader != replica.me:
                continue
            if tp in self._again and self.controller() >= 0:
                self._again.discard(tp)
                if replica.proposed is not None:
                    self._send(tp)
            elif (wanted := replica.shrunk_isr(self.node.now)) is not None:
                self._ask(tp, replica, wanted)

    def fetched(self, tp: Partition, follower: int) -> None:
        """A follower has fetched from a partition that is led here: ask for it to join, if it may."""
        replica = self.node.replicas[tp]
        wanted = replica.grown_isr(follower)
        if wanted is not None and self.node.image.may_join(follower, replica.remotes[follower].broker_epoch):
            self._ask(tp, replica, wanted)

    def _ask(self, tp: Partition, replica: Replica, wanted: tuple[int, ...]) -> None:
        node, state = self.node, replica.state
        if self.controller() < 0 or node.broker_epoch < 0 or tp in self.under_way:
            return
        replica.proposed = wanted
        remotes = replica.remotes
        epochs = tuple(
            node.broker_epoch if n == node.me else remotes[n].broker_epoch if n in remotes else -1
            for n in wanted
        )
        self.asked[tp] = AlterPartition(
            node.me, node.broker_epoch, {tp: (state.leader_epoch, state.partition_epoch, wanted, epochs)}
        )
        self._send(tp)

    def _send(self, tp: Partition) -> None:
        self.under_way.add(tp)
        self.node.ask(
            self.controller(), f"alter {tp[0]} {tp[1]}", self.asked[tp], partial(self._answered, tp)
        )

    def _answered(self, tp: Partition, answer: AlterPartitionResponse | None) -> None:
        """The controller's answer; the new state itself comes with the metadata. One that did not come
        or was refused leaves the old set in force, and the leader asks again when it looks next."""
        self.under_way.discard(tp)
        replica = self.node.replicas.get(tp)
        if replica is None or replica.proposed is None:
            return
        error, state = (
            answer.parts.get(tp, (answer.error, None))
            if answer is not None
            else (KafkaError.REQUEST_TIMED_OUT, None)
        )
        if state is not None and error is NO_ERROR:
            if state.leader_epoch == replica.state.leader_epoch:
                if state.partition_epoch > replica.state.partition_epoch:
                    replica.become(state, self.node.now)
                replica.proposed = None
                if replica.advance(self.node.now):
                    self.replica_manager.moved(tp)
            # Else the change began another leader epoch: the leader waits for the metadata to bring it
            # (Partition.handleAlterPartitionUpdate).
        elif error is KafkaError.INELIGIBLE_REPLICA:
            # It will not happen: the high watermark waits for one member less from now on. But only the
            # next write, or a fetch that shows more, moves it (Partition.handleAlterPartitionError).
            replica.proposed = None
        elif error not in (KafkaError.INVALID_UPDATE_VERSION, KafkaError.FENCED_LEADER_EPOCH):
            self._again.add(tp)
        # Else newer metadata are on their way: until they come, both sets count (KIP-497).
