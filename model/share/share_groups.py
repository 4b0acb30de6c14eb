"""A broker's part in share groups: what it has to be handed."""

from collections.abc import Callable

from model.coordinator.group_metadata_manager import GroupMetadataManager
from model.protocol.messages import Partition
from model.protocol.requests import Handlers
from model.replication.node import NodeState
from model.replication.replica_manager import ReplicaManager
from model.share.share_coordinator import ShareCoordinator
from model.share.share_group_coordinator import ShareGroupCoordinator
from model.share.share_partition_manager import SharePartitionManager


class ShareGroups:
    """See the module. controller(): the node that is it, -1 unknown."""

    def __init__(
        self,
        node: NodeState,
        replica_manager: ReplicaManager,
        group_log: GroupMetadataManager,
        controller: Callable[[], int],
    ) -> None:
        self.state = ShareCoordinator(node, replica_manager, controller)
        self.members = ShareGroupCoordinator(group_log, self.state)
        self.leader = SharePartitionManager(node, self.state)

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests that these parts answer."""
        self.state.register(handlers)
        self.members.register(handlers)
        self.leader.register(handlers)

    def became(self, tp: Partition) -> None:
        """The state of a partition changed."""
        if tp[0] == self.state.topic:
            self.state.became(tp[1])
        else:
            self.leader.became(tp)

    def disconnected(self, connection: int) -> None:
        """A connection of a client is closed."""
        self.leader.disconnected(connection)

    def tick(self) -> None:
        """Every 100 ms."""
        self.state.tick()
        self.members.tick()
        self.leader.tick()
