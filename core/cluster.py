"""What a system under test offers: `Cluster`. What can be done to it: `core.capabilities`.

All verbs are `async` and, in a real run, never suspend (`core.runtime.run_blocking`).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from signal import Signals
from typing import Final, Protocol, TypeVar

import msgspec

from core.errors import ClusterError
from core.java_hash import java_hash
from core.op import Isolation, TopicPartition

V = TypeVar("V")


def unserved(said: Mapping[int, str]) -> ClusterError:
    """A request that no broker served in time. said: the last answer of each."""
    words = "; ".join(dict.fromkeys(said.values())) or "no broker was asked"
    return ClusterError(f"no broker served the request in time: {words}")


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that a partition's leader holds open (DescribeProducers).

    start: its first offset. coordinator: node that coordinates its transactional id, -1 unknown.
    transactional_id: "" where no coordinator that answered claims it, the mark of a hanging transaction.
    silent: then, the brokers that did not answer; one may coordinate it. timeout_s: after that time its
    coordinator aborts it, 0 = not known.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start: int
    coordinator: int = -1
    transactional_id: str = ""
    silent: tuple[int, ...] = ()
    timeout_s: float = 0


SENT = frozenset({Signals.SIGHUP, Signals.SIGINT, Signals.SIGKILL, Signals.SIGTERM})
"""Signals that no process sends itself when it fails."""
PROGRAM_LOST: Final = frozenset({os.EX_UNAVAILABLE, os.EX_CONFIG})
"""Exit statuses of a load client whose own program, the user's, is lost, or can no longer be started."""


UNREGISTERED = "unable to register with the controller quorum"
"""What a broker says that had not registered in `initial.broker.registration.timeout.ms`, and exits."""


NOT_STARTED: Final = "Fatal error during KafkaServer startup"
"""What a broker on ZooKeeper says that fails while it starts, and exits. The exception follows."""
SESSION_EXPIRED: Final = "org.apache.zookeeper.KeeperException$SessionExpiredException"


def is_error(line: str) -> bool:
    """Whether a line of a node's log has the level of an error."""
    return " ERROR " in line or " FATAL " in line


def failed_start(lines: Sequence[str]) -> list[int]:
    """Which lines of a log say that a broker on ZooKeeper did not start, and then why; none = no line does.

    The reason is the first exception behind: lines of other threads may stand in between.
    """
    said = next((at for at, line in enumerate(lines) if NOT_STARTED in line), len(lines))
    why = (at for at in range(said + 1, len(lines)) if _exception(lines[at]))
    return [*range(said, len(lines))[:1], *islice(why, 1)]


def _exception(line: str) -> str:
    """The exception that a line begins with, "" = it begins with none."""
    name = line.partition(":")[0]
    return name if name.endswith(("Exception", "Error")) and " " not in name else ""


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
    def session_expired(self) -> bool:
        """It did not start, since its session with ZooKeeper expired meanwhile."""
        return [_exception(self.log[at]) for at in failed_start(self.log)[1:]] == [SESSION_EXPIRED]

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
        if self.session_expired:
            return f"{told}: its session with ZooKeeper expired while it started"
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
