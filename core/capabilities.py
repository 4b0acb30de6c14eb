"""What can be done to a system under test: the capabilities that nemeses need.

A capability is a runtime-checkable protocol, and its verbs are `async` as those of `core.cluster.Cluster`: a
nemesis names the ones it needs, and a system without one is refused before the run starts.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from core.op import TopicPartition
from core.wire import Seen, WireRule


class Direction(StrEnum):
    """Which packets a node drops."""

    IN = "in"
    OUT = "out"


class Listener(StrEnum):
    """Which listener of a node a cut concerns; brokers fetch and register through their own
    connections to the *peer's* listeners, so a cut by listener concerns both ends of it."""

    CLIENT = "client"
    BROKER = "broker"
    CONTROLLER = "controller"


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """`node` drops packets from (IN) or to (OUT) `peer`; peer None = clients (client listener).

    listener: limits the cut to connections of one listener; None = all. opening: only packets that open a
    connection are dropped (`HalfOpenable`); the direction is that of the opening.
    """

    node: int
    direction: Direction
    peer: int | None = None
    listener: Listener | None = None
    opening: bool = False


@runtime_checkable
class Revivable(Protocol):
    """Nodes that are down can be started again."""

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start nodes that are down; does not wait until they are ready. No-op for running ones."""


@runtime_checkable
class Killable(Revivable, Protocol):
    """Nodes can be ended by SIGKILL and started again with their data."""

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL all of them as nearly at once as possible."""


@runtime_checkable
class Powered(Revivable, Protocol):
    """Nodes can lose their power: what was not flushed to disk is gone."""

    def flushes_each(self) -> bool:
        """Each record is flushed before it is acknowledged: a loss of power takes none."""

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        """End all of them at once, and cut off tails of their logs that were not flushed; how many batches
        they lost. seed: of what is drawn; None = all that was not flushed is gone. Raises ClusterError."""


@runtime_checkable
class Pausable(Protocol):
    """Nodes can be frozen (SIGSTOP or the freezer) and thawed."""

    async def pause(self, nodes: Sequence[int]) -> None:
        """Freeze."""

    async def resume(self, nodes: Sequence[int]) -> None:
        """Thaw. No-op for nodes that are not frozen."""


@runtime_checkable
class Partitionable(Protocol):
    """Links can be cut. The cluster holds the set of cuts in force and reapplies it when a node
    is revived."""

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts to the ones in force; one atomic change per node."""

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Remove cuts. No-op for cuts that are not in force."""


@runtime_checkable
class HalfOpenable(Partitionable, Protocol):
    """Cuts can be limited to new connections (`Cut.opening`): established ones live."""

    async def stopped(self, nodes: Sequence[int]) -> int:
        """How many attempts to open a connection these cuts of the nodes have stopped, since the cuts of the
        nodes last changed. Raises ClusterError."""


@runtime_checkable
class Restartable(Revivable, Protocol):
    """Nodes can be stopped in order (SIGTERM: they hand over and flush) and started again."""

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        """SIGTERM; returns when all have ended: nodes that had not after 30 s, and were killed, as far as the
        cluster knows."""


@runtime_checkable
class Upgradable(Restartable, Protocol):
    """Nodes can change to a later version of their program, with their data, and back."""

    def upgraded(self) -> tuple[int, ...]:
        """Nodes that have the later version, from their last start or from the next one on."""

    def features_raised(self) -> bool:
        """Whether `raise_features` was called: no node can go back since then."""

    async def install(self, nodes: Sequence[int], *, later: bool) -> None:
        """Nodes that are down have this version from their next start on: the later, or the first one.

        Raises: ClusterError, also for the first one once features were raised.
        """

    async def lagging_voters(self) -> tuple[int, ...]:
        """Members of the metadata quorum that have not caught up with its leader; every node, where no leader
        tells. Bounded, never raises."""

    async def raise_features(self) -> Mapping[str, tuple[int, int]]:
        """Raise the versions of the cluster's metadata and transactions to what all its brokers support
        (UpdateFeatures): level before and now, by feature. Raises ClusterError."""


@runtime_checkable
class DiskFailable(Killable, Protocol):
    """Disks of nodes can fail."""

    async def fail_writes(self, nodes: Sequence[int], within_s: float) -> None:
        """From now on every write of these nodes to a file fails; returns when they have ended of it. A new
        start can write again. Raises ClusterError: a node that runs then can write, and one that did not end
        in time was killed."""


@runtime_checkable
class DiskFillable(Killable, Protocol):
    """Disks of brokers can be full."""

    async def fill_disks(self, nodes: Sequence[int], within_s: float) -> None:
        """No space is left on the disks of these brokers; returns when they have ended of it. Raises
        ClusterError, where one still runs."""

    def full_disks(self) -> tuple[int, ...]:
        """Brokers whose disks may be full."""

    async def free_disks(self, nodes: Sequence[int]) -> None:
        """Their disks have space again. No-op for disks that are not full. Raises ClusterError."""


@runtime_checkable
class DirectoryFailable(Restartable, Protocol):
    """Brokers have two log directories, and the second one can fail (KIP-112, KIP-858)."""

    async def fail_directory(self, node: int, within_s: float) -> tuple[TopicPartition, ...]:
        """The second log directory of a broker is gone, with all that is in it. Returns when the broker has
        taken it offline: the replicas that it had there. Raises ClusterError, where the broker has not."""

    def failed_directories(self) -> tuple[int, ...]:
        """Brokers whose second log directory is gone."""

    async def mend_directories(self, nodes: Sequence[int]) -> None:
        """Brokers that are down have their second log directory back, with all that was in it. No-op for
        whole ones. Raises ClusterError, where a broker without its directory runs: only a start reads it."""


@runtime_checkable
class VotersChangeable(Protocol):
    """Members of the metadata quorum can be removed and added (KIP-853)."""

    async def remove_voter(self, node: int, within_s: float) -> None:
        """RemoveRaftVoter: the node votes no more, and follows as an observer. Returns when the quorum has
        decided that. No-op for a node that does not vote. Raises ClusterError."""

    def removed_voters(self) -> tuple[int, ...]:
        """Nodes that may have been removed, and were not added again."""

    async def add_voters(self, nodes: Sequence[int], within_s: float) -> None:
        """AddRaftVoter, one node after the other: it votes again. Returns when the quorum has decided that,
        for which a node has to have caught up. No-op for nodes that vote. Raises ClusterError."""


@runtime_checkable
class Electable(Protocol):
    """Leaders can be moved on a healthy cluster."""

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """ElectLeaders, type preferred. Raises ClusterError; "not needed" is not an error."""

    async def reorder(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """AlterPartitionReassignments to the same replicas in another order: the first one becomes
        the preferred leader. Raises ClusterError."""

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Replicas of each partition, the preferred leader first."""


@runtime_checkable
class Reassignable(Protocol):
    """Replicas of partitions can be moved to other brokers, while clients work (KIP-455)."""

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], within_s: float) -> None:
        """AlterPartitionReassignments: what the replicas of partitions are to be. Returns when the controller
        has taken it; the data follow. Raises ClusterError."""

    async def cancel_reassignments(
        self, tps: Sequence[TopicPartition], within_s: float
    ) -> tuple[TopicPartition, ...]:
        """Cancel those that have not ended; which partitions had one that could be cancelled. Raises
        ClusterError."""


@runtime_checkable
class Growable(Protocol):
    """Topics can get further partitions, while clients work (KIP-195)."""

    async def add_partitions(self, counts: Mapping[str, int], within_s: float) -> None:
        """CreatePartitions: how many partitions each topic is to have in all. Returns when the controller has
        made them. No-op for topics that have as many. Raises ClusterError."""


@runtime_checkable
class Deletable(Protocol):
    """Records can be deleted from the beginnings of logs (KIP-107)."""

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """DeleteRecords below these offsets, asked of the leaders. Where logs begin then, of the partitions
        whose leaders have said so in 5 s; others may have deleted as well. Never raises."""


@runtime_checkable
class Remakable(Protocol):
    """Whole topics can be deleted while clients work, and made again under their names."""

    async def delete_topics(self, topics: Sequence[str], within_s: float) -> None:
        """DeleteTopics; returns when no broker that answers has them any more. No-op for those that are not
        there. Raises ClusterError."""

    async def make_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], within_s: float
    ) -> None:
        """CreateTopics; returns when the controller has made it. No-op where it is there. Raises
        ClusterError."""


ShareOffsets = Mapping[tuple[str, TopicPartition], int]
"""By share group and partition: the offset below which the group is done with every record (KIP-932: the
share-partition start offset)."""


class DeadLetter(NamedTuple):
    """A record of a dead-letter queue (KIP-1191): `group` archived the record at `offset` of `tp` after
    `times` deliveries, as its headers say. payload: of that record, None = it was not copied. place: where
    the letter stands. ms: when a broker made it, by its clock."""

    group: str
    tp: TopicPartition
    offset: int
    times: int
    payload: bytes | None
    place: tuple[TopicPartition, int]
    ms: int


@runtime_checkable
class SharesGroups(Protocol):
    """It has share groups (KIP-932). No fault needs it: a workload does."""

    async def configure_groups(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Set what share groups have settings for; returns when all brokers know them. Where a group has a
        dead-letter queue, the cluster is made to have some. Raises ClusterError; ConfigError, where the
        cluster has no share groups, or no such queues."""

    async def share_offsets(self, groups: Sequence[str], tps: Sequence[TopicPartition]) -> ShareOffsets:
        """What the coordinators of share groups say. Bounded, never raises; what could not be asked is left
        out."""

    async def dead_letters(self, topic: str) -> Sequence[DeadLetter]:
        """What is in a dead-letter queue, in the order of its partitions and offsets. Raises ClusterError,
        where it could not be read to its end."""


@runtime_checkable
class Throttleable(Protocol):
    """Replication can be throttled (KIP-73)."""

    async def throttle(self, node: int, tps: Sequence[TopicPartition], rate: int) -> None:
        """While `node` is not in sync, it fetches and is served at most `rate` bytes of these partitions in a
        second, counted with what other followers are served. Takes the place of what was throttled before.
        Raises ClusterError."""

    async def unthrottle(self, tps: Sequence[TopicPartition]) -> None:
        """Lift the throttles of these partitions. No-op where there are none. Raises ClusterError."""


class Toxic(msgspec.Struct, frozen=True, kw_only=True):
    """One toxic of toxiproxy: `type` as toxiproxy names it (latency, bandwidth, timeout, reset_peer,
    limit_data, slicer), with its attributes; `downstream` = what the broker answers, else requests."""

    type: str
    attributes: dict[str, int]
    downstream: bool = True


@runtime_checkable
class Linked(Protocol):
    """Client links can be degraded: a proxy stands in front of each broker's client listener."""

    async def use_proxies(self) -> None:
        """Ask for the proxies; before `start`. Raises ClusterError, where there is no toxiproxy."""

    async def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics to the links between all clients and these brokers."""

    async def cure(self, nodes: Sequence[int]) -> None:
        """Remove all toxics of these brokers. No-op where there are none, or no proxies."""


@runtime_checkable
class Wired(Protocol):
    """Single requests of clients can be held back, lost, or answered late: a proxy that knows Kafka's frames
    stands in front of each broker's client listener."""

    async def use_wire(self) -> None:
        """Ask for the proxy; before `start`."""

    async def rule(self, rules: Sequence[WireRule]) -> None:
        """Put rules in force. Raises ClusterError."""

    async def seen(self, number: int | None = None) -> tuple[Seen, ...]:
        """What rules did so far, one of them or all, the oldest first; nothing, where there is no
        proxy."""

    async def lift(self, numbers: Sequence[int] = ()) -> None:
        """Take rules back (none given: all of them), and let go what they hold. No-op where there are none,
        or no proxy."""


@runtime_checkable
class WiredBetween(Protocol):
    """As `Wired`, for requests that brokers send to other brokers (`Rule.between`)."""

    async def use_wire_between(self) -> None:
        """Ask for the proxies; before `start`. Raises ClusterError, where they cannot stand here."""


@runtime_checkable
class WiredWithin(Protocol):
    """As `WiredBetween`, for what keeps a cluster with a metadata quorum together: fetches of followers, and
    what brokers ask controllers."""

    async def use_wire_within(self) -> None:
        """Ask for the proxies, before controllers, too; before `start`."""


CAPABILITIES: Final[tuple[type, ...]] = (
    Revivable,
    Killable,
    Powered,
    DiskFailable,
    DiskFillable,
    DirectoryFailable,
    VotersChangeable,
    Pausable,
    Partitionable,
    HalfOpenable,
    Restartable,
    Upgradable,
    Electable,
    Reassignable,
    Growable,
    Deletable,
    Remakable,
    Throttleable,
    Linked,
    Wired,
    WiredBetween,
    WiredWithin,
)
"""Every capability that a cluster may have."""


def capabilities_of(cluster: object) -> frozenset[type]:
    """The capabilities of a cluster, or of all clusters of a type: those whose verbs it has. A cluster whose
    configuration takes some away says itself which are left (`capabilities`)."""
    said: frozenset[type] | None = getattr(cluster, "capabilities", None)
    kind = cluster if isinstance(cluster, type) else type(cluster)
    return frozenset(one for one in CAPABILITIES if issubclass(kind, one)) if said is None else said
