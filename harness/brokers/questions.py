"""What the harness asks brokers over a listener of its own: the part of a cluster that is the same wherever
its brokers run."""

from collections.abc import Callable, Mapping, Sequence

from core.capabilities import DeadLetter, ShareOffsets
from core.cluster import OpenTransaction, Roles
from core.op import Isolation, TopicPartition
from harness.brokers import dead_letters
from harness.brokers.admin import (
    broker_views,
    deletions,
    elections,
    open_transactions,
    partitions,
    reassignments,
    share_groups,
    throttles,
)
from harness.brokers.admin.connection import BrokerConnection, Brokers
from harness.brokers.admin.protocol import ControllerView, quorum_leader

TOPIC_DEADLINE_S = 30.0
GROUPS_DEADLINE_S = 20.0


class AskedBrokers:
    """`Electable`, `Reassignable`, `Growable`, `Deletable`, `Remakable`, `Throttleable`, and what `Cluster`
    says of topics, roles and offsets. admin: the brokers as the harness asks them, each at a listener that
    only the harness uses. Safe from any thread."""

    admin: Brokers
    controller: Callable[[BrokerConnection], ControllerView] = staticmethod(quorum_leader)
    """Asks one broker which node is controller."""

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when every partition has a leader that all brokers agree on.

        Raises: ClusterError.
        """
        broker_views.create_topic(self.admin, topic, partitions, replication, settings, TOPIC_DEADLINE_S)

    async def roles(self) -> Roles:
        """Agreed from the answers of all brokers; within 2 s, whatever they do."""
        return broker_views.roles(self.admin, self.controller)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, LSO or HW) from each partition's agreed leader, in the agreed epoch."""
        return broker_views.offsets(self.admin, broker_views.roles(self.admin), tps, isolation)

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """As the agreed leaders and all coordinators report them; within 4 s."""
        return open_transactions.open_transactions(self.admin, tps)

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """Make preferred replicas leaders. Raises: ClusterError."""
        elections.elect_preferred(self.admin, tps)

    async def reorder(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Change the preferred leaders; returns when most brokers know. Raises: ClusterError."""
        elections.reorder(self.admin, replicas)

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Replicas of each partition in their order; empty where no broker answers."""
        return elections.replicas(self.admin)

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], within_s: float) -> None:
        """See `Reassignable`. Raises: ClusterError."""
        reassignments.reassign(self.admin, replicas, within_s)

    async def cancel_reassignments(
        self, tps: Sequence[TopicPartition], within_s: float
    ) -> tuple[TopicPartition, ...]:
        """See `Reassignable`. Raises: ClusterError."""
        return reassignments.cancel(self.admin, tps, within_s)

    async def add_partitions(self, counts: Mapping[str, int], within_s: float) -> None:
        """See `Growable`. Raises: ClusterError."""
        partitions.add(self.admin, counts, within_s)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `Deletable`."""
        return deletions.delete(self.admin, offsets)

    async def delete_topics(self, topics: Sequence[str], within_s: float) -> None:
        """See `Remakable`. Raises: ClusterError."""
        deletions.delete_topics(self.admin, topics, within_s)

    async def make_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], within_s: float
    ) -> None:
        """See `Remakable`. Raises: ClusterError."""
        broker_views.request_topics(self.admin, (topic,), partitions, replication, settings, within_s)

    async def configure_groups(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See `SharesGroups`. Raises: ClusterError, ConfigError."""
        share_groups.configure(self.admin, settings, GROUPS_DEADLINE_S)

    async def share_offsets(self, groups: Sequence[str], tps: Sequence[TopicPartition]) -> ShareOffsets:
        """See `SharesGroups`; within 6 s a group."""
        return share_groups.offsets(self.admin, groups, tps)

    async def dead_letters(self, topic: str) -> Sequence[DeadLetter]:
        """See `SharesGroups`; within a minute. Raises: ClusterError."""
        servers = ",".join(map(str, self.admin.addresses.values()))
        return dead_letters.read({"bootstrap.servers": servers}, topic)

    async def throttle(self, node: int, tps: Sequence[TopicPartition], rate: int) -> None:
        """See `Throttleable`. Raises: ClusterError."""
        throttles.throttle(self.admin, node, tps, rate)

    async def unthrottle(self, tps: Sequence[TopicPartition]) -> None:
        """See `Throttleable`. Raises: ClusterError."""
        throttles.unthrottle(self.admin, tps)
