"""A broker as coordinator of transactions and groups: what the broker has to hand to these parts."""

from collections.abc import Callable
from functools import partial

from model.coordinator.consumer_group_coordinator import ConsumerGroupCoordinator
from model.coordinator.group_coordinator import GroupCoordinator
from model.coordinator.group_metadata_manager import GroupMetadataManager
from model.coordinator.log_cleaner import LogCleaner
from model.coordinator.offset_metadata_manager import OffsetMetadataManager
from model.coordinator.transaction_coordinator import TransactionCoordinator
from model.coordinator.transaction_marker_channel_manager import write_markers
from model.protocol.coordinator_messages import FindCoordinator, FindCoordinatorResponse, WriteTxnMarkers
from model.protocol.messages import Partition
from model.protocol.requests import Handlers
from model.replication.node import NodeState
from model.replication.replica_manager import ReplicaManager


class Coordinators:
    """See the module. controller(): the node that is it, -1 unknown."""

    def __init__(
        self, node: NodeState, replica_manager: ReplicaManager, controller: Callable[[], int]
    ) -> None:
        self.node = node
        self.replica_manager = replica_manager
        self.transactions = TransactionCoordinator(node, replica_manager, controller)
        self.group_log = GroupMetadataManager(node, replica_manager, controller)
        self.groups = GroupCoordinator(self.group_log)
        self.consumer_groups = ConsumerGroupCoordinator(self.group_log)
        self.commits = OffsetMetadataManager(self.group_log, replica_manager)
        self.cleaner = LogCleaner(node)

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests that these parts answer."""
        handlers.at_once(FindCoordinator, self._find)
        handlers.on(WriteTxnMarkers, partial(write_markers, self.node, self.replica_manager, self.group_log))
        self.transactions.register(handlers)
        self.groups.register(handlers)
        if self.node.settings.era.consumer_groups:
            self.consumer_groups.register(handlers)
        self.commits.register(handlers)

    def _find(self, request: FindCoordinator) -> FindCoordinatorResponse:
        """Key 10."""
        part = self.group_log if request.group else self.transactions.log
        return FindCoordinatorResponse(*part.coordinator(request.key))

    def became(self, tp: Partition) -> None:
        """The state of a partition changed: this broker may coordinate it now, or no more."""
        for part in (self.transactions.log, self.group_log):
            if part.topic == tp[0]:
                part.became(tp[1])

    def deleted(self, topic: str) -> None:
        """A topic was deleted: groups have no offsets in it any more."""
        self.commits.deleted(topic)

    def tick(self) -> None:
        """Every 100 ms."""
        self.transactions.tick()
        self.group_log.tick()
        self.groups.tick()
        self.consumer_groups.tick()
        self.cleaner.tick()
