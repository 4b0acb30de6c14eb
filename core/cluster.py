"""What a system under test offers: `Cluster`, and the capabilities that nemeses need.

All verbs are `async` and, in a real run, never suspend (`core.runtime.run_blocking`). A capability is a
runtime-checkable protocol: a nemesis names the ones it needs, and a system without one is refused
before the run starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from signal import Signals
from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec

from core.errors import ClusterError
from core.java_hash import java_hash
from core.op import Isolation, TopicPartition
from core.wire import Seen, WireRule

TRANSACTION_TOPIC = "__transaction_state"
GROUP_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
V = TypeVar("V")


def internal(topic: str) -> bool:
    """Whether a topic is Kafka's own."""
    return topic.startswith("__")


def unserved(said: Mapping[int, str]) -> ClusterError:
    """A request that no broker served in time. said: the last answer of each."""
    words = "; ".join(dict.fromkeys(said.values())) or "no broker was asked"
    return ClusterError(f"no broker served the request in time: {words}")


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that a partition's leader holds open (DescribeProducers).

    start: its first offset. coordinator: node that coordinates its transactional id, -1 unknown.
    transactional_id: "" where no coordinator that answered claims it, the mark of a hanging transaction.
    silent: then, the brokers that did not answer; one may coordinate it.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start: int
    coordinator: int = -1
    transactional_id: str = ""
    silent: tuple[int, ...] = ()


SENT = frozenset({Signals.SIGHUP, Signals.SIGINT, Signals.SIGKILL, Signals.SIGTERM})
"""Signals that no process sends itself when it fails."""


UNREGISTERED = "unable to register with the controller quorum"
"""What a broker says that had not registered in `initial.broker.registration.timeout.ms`, and exits."""


def is_error(line: str) -> bool:
    """Whether a line of a node's log has the level of an error."""
    return " ERROR " in line or " FATAL " in line


class NodeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a node ended that the harness had not ended: no fault killed it or shut it down. It ended *on its
    own*, or something *from outside* ended it, for which the system under test is not to blame.

    exit_code: as the engine or the system tells it. signal: number of the signal that ended it, 0 = none.
    oom_killed: its memory was used up, and the kernel killed it. disk_full: it said that no space was left.
    own_program: it ran the project's own program (a broker of the model), not Kafka. log: the last lines that
    it wrote, and before them the last errors.
    """

    node: int
    exit_code: int
    signal: int = 0
    oom_killed: bool = False
    disk_full: bool = False
    own_program: bool = False
    log: tuple[str, ...] = ()

    @property
    def outside(self) -> str:
        """What from outside ended it, in words; "" = it ended on its own."""
        if self.oom_killed:
            return "its memory was used up, and the kernel killed it"
        if self.disk_full:
            return "no space was left on its disk"
        if self.signal in SENT:
            return f"something sent it {Signals(self.signal).name}"
        return "its program, which is the project's own, failed" if self.own_program else ""

    @property
    def unregistered(self) -> bool:
        """It gave up registering with the controller quorum: Kafka ends a broker that could not in time."""
        return any(UNREGISTERED in line for line in self.log)

    @property
    def errors(self) -> list[str]:
        """The lines of `log` that are errors."""
        return [line for line in self.log if is_error(line)]

    def __str__(self) -> str:
        """The node, how it ended, and why, or its last error or line, where that may say why."""
        alone = "" if self.outside else " on its own"
        told = f"node {self.node} ended{alone} with exit code {self.exit_code}"
        told += f": {self.outside}" if self.outside else ""
        sent = self.oom_killed or self.signal in SENT
        if sent or not self.log:
            return told
        if self.unregistered:
            return f"{told}: it was {UNREGISTERED}"
        if errors := self.errors:
            return f"{told}; its last error: {errors[-1]}"
        return f"{told}; its last line: {self.log[-1]}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is reached; as text `host:port`."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class SecurityProtocol(StrEnum):
    """How a listener is secured, in Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Whether it runs over TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def authenticated(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How clients and admin calls secure their connections.

    settings: further ones by librdkafka's names (`ssl.ca.location`, `sasl.username`, …).
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client_settings(self) -> dict[str, str]:
        """All of it by librdkafka's names."""
        return {"security.protocol": self.protocol.value, **self.settings}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker process reaches the cluster."""

    args: dict[str, str]
    """Where the cluster is: settings of clients by librdkafka's names, and `CLUSTER_ID`."""
    factory: str = ""
    """`module:function`, called as `function(endpoint.args, spec) -> Session`; "" = that of the run's kind of
    clients, for which `args` is enough."""


CLUSTER_ID: Final = "cluster.id"
"""Beside the settings of librdkafka that reaching a cluster takes: the id that its brokers have to name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Which node leads what, as far as it is known.

    leaders: node that leads each partition, internal topics included; -1 where none does, or
        where no two of the nodes that answer name the same (of two brokers: the one that answers counts).
    isr: in-sync replicas as the agreed leader (else any node) reports them.
    replicas: all replicas, the preferred leader first, as the same node reports them.
    controller: leader of the metadata quorum (DescribeQuorum), with ZooKeeper the broker that most brokers
        name (`controller_id` of Metadata, which is a random live broker in KRaft); -1 unknown.
    answering: brokers that answered.
    agreed: every broker of the cluster answered, and all name the same leaders.
    strangers: by node, the id of another cluster whose broker answered at the node's address, at any time so
        far. Its answers count for nothing.
    """

    ns: int
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    isr: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    replicas: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    controller: int = -1
    answering: tuple[int, ...] = ()
    agreed: bool = False
    strangers: Mapping[int, str] = field(default_factory=dict)

    def about(self, own: Callable[[str], bool]) -> "Roles":
        """The same of the topics with these names alone."""

        def kept(found: Mapping[TopicPartition, V]) -> Mapping[TopicPartition, V]:
            return {tp: value for tp, value in found.items() if own(tp.topic)}

        return replace(
            self,
            leaders=kept(self.leaders),
            leader_epochs=kept(self.leader_epochs),
            isr=kept(self.isr),
            replicas=kept(self.replicas),
        )

    def coordinator(self, topic: str, name: str) -> int:
        """Node that coordinates a transactional id (TRANSACTION_TOPIC) or group (GROUP_TOPIC)."""
        tp = self.coordinating(topic, name)
        return self.leaders.get(tp, -1) if tp else -1

    def coordinating(self, topic: str, name: str) -> TopicPartition | None:
        """Partition of the coordinators' log that a transactional id or group belongs to; None = the topic is
        not known."""
        count = sum(tp.topic == topic for tp in self.leaders)
        return TopicPartition(topic, java_hash(name) % count) if count else None


class Cluster(Protocol):
    """A system under test. One object per run; not thread-safe unless said."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes: the brokers, 1 to N, then isolated controllers or ZooKeeper's nodes, N + 1 to N + M."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """The nodes that are brokers, 1 to N."""

    async def start(self) -> None:
        """Start all nodes; returns when they are one cluster. Raises ClusterError."""

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when every partition has a leader that all nodes agree on."""

    async def roles(self) -> Roles:
        """Best-effort, bounded (2 s), never raises. Safe to call from any thread."""

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, end) of each partition: LSO at read_committed, else HW, from its leader.

        Partitions that could not be listed are left out.
        """

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """Transactions that the leaders of these partitions hold open now. Bounded, never raises;
        what could not be asked is left out."""

    async def trouble(self) -> str:
        """Why this system can no longer be judged ("" = it can): what runs it has failed (the Docker
        engine died), for which the system itself is not to blame. Bounded (5 s), never raises."""

    async def ended(self) -> Sequence[NodeEnd]:
        """Nodes that ended since the last call and that no verb of this object had ended, also those that
        were started again since. Bounded (5 s). Safe to call from any thread.

        Raises: EndsMissed, once, where some may never be seen; another ClusterError, where they cannot be
        seen now: a later call has them.
        """

    async def collect(self, into: Path) -> None:
        """Write each node's log to `into/<node>/server.log`. Bounded, never raises; says what it missed in
        `missing.txt` there."""

    async def take_evidence(self, into: Path) -> list[str]:
        """End all nodes at once, and write what nodes left on disk into `into` (`history.evidence`): at the
        end, and at each kill, as it was before the node was started again. Bounded, never raises; what
        could not be taken, in sentences."""

    async def stop(self) -> None:
        """Leave nothing behind; idempotent; never raises."""


class ServedCluster(Cluster, Protocol):
    """A system that other processes reach: every one but a simulated one."""

    def endpoint(self) -> Endpoint:
        """How worker processes reach it; known before `start`, once the proxies are asked for."""


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

    async def shut_down(self, nodes: Sequence[int]) -> None:
        """SIGTERM; returns when all have ended, or after 30 s have been killed."""


@runtime_checkable
class Upgradable(Restartable, Protocol):
    """Nodes can change to a later version of their program, with their data, and back."""

    def upgraded(self) -> tuple[int, ...]:
        """Nodes that have the later version, from their last start or from the next one on."""

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
        start can write again. Raises ClusterError, where one still runs."""


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
        """Cancel those that have not ended; which partitions had one. Raises ClusterError."""


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


@runtime_checkable
class SharesGroups(Protocol):
    """It has share groups (KIP-932). No fault needs it: a workload does."""

    async def configure_groups(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Set what share groups have settings for; returns when all brokers know them. Raises ClusterError;
        ConfigError, where the cluster has no share groups."""

    async def share_offsets(self, groups: Sequence[str], tps: Sequence[TopicPartition]) -> ShareOffsets:
        """What the coordinators of share groups say. Bounded, never raises; what could not be asked is left
        out."""


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
)
"""Every capability that a cluster may have."""


def capabilities_of(cluster: object) -> frozenset[type]:
    """The capabilities of a cluster, or of all clusters of a type: those whose verbs it has. A cluster whose
    configuration takes some away says itself which are left (`capabilities`)."""
    said: frozenset[type] | None = getattr(cluster, "capabilities", None)
    kind = cluster if isinstance(cluster, type) else type(cluster)
    return frozenset(one for one in CAPABILITIES if issubclass(kind, one)) if said is None else said


class CrashPoint(StrEnum):
    """Where in its work a client dies."""

    ANYWHERE = "anywhere"
    IN_TRANSACTION = "in-transaction"
    """After the records of a transaction were sent, before it ends."""
    BEFORE_COMMIT = "before-commit"
    """After records were polled (and copied), right before their offsets are committed."""
    AFTER_COMMIT = "after-commit"
    """After offsets were committed (not in a transaction), before the op continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSlot:
    """One load client, as a nemesis aims at it. fed: it reads partitions of its own choice, and producers
    write what it is to be given."""

    slot: int
    transactional_id: str = ""
    group: str = ""
    produces: bool = False
    fed: bool = False


@runtime_checkable
class Clients(Protocol):
    """The load clients of a run: operating-system processes that can die and be paused.

    Not part of the system under test; nemeses reach them beside it."""

    @property
    def slots(self) -> tuple[ClientSlot, ...]:
        """All load clients."""

    def acked_ns(self, slot: int) -> int:
        """When the client last learned that a broker acknowledged a record of its; 0 = never."""

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        """SIGKILL each when it gets to the point; after 2 s wherever it is then."""

    async def restart(self, slots: Sequence[int]) -> None:
        """Start clients that are down: new processes of the same slots. No-op for running ones."""

    async def pause(self, slots: Sequence[int]) -> None:
        """SIGSTOP. They resume when the harness dies, whatever happens."""

    async def resume(self, slots: Sequence[int]) -> None:
        """SIGCONT. No-op for running ones."""

    async def grow(self, tps: Sequence[TopicPartition]) -> None:
        """These partitions are new: all clients but those that leave it to their group what they read end
        their process, and the next one works on these partitions as well."""

    async def rest(self, within_s: float) -> tuple[int, ...]:
        """All end their process in order, and begin none until `work`, those that are started meanwhile too.
        Which have not ended theirs in time."""

    async def work(self, remade: int) -> None:
        """Those that rest begin processes again. remade: how often the topics of the run were deleted and
        made again by now."""
