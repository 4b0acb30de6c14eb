"""Where scenarios about replicas are played, and the real cluster among such places.

Its last broker is the witness. Each scenario has a topic of its own; the next one deletes it.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin import reassignments
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.deletions import delete_topics
from harness.brokers.admin.protocol import view
from harness.containers.cluster import ContainerCluster
from harness.contract import replicas
from harness.contract.lanes import Lane
from harness.contract.replica_settings import PACE
from harness.contract.replicas import Known
from harness.contract.stage import CALL_S, READY_S, Asked, Place
from model.protocol.messages import PartitionState
from scenarios.drivers.partition import TP

T = TypeVar("T")


class ReplicaPlace(Asked, Protocol):
    """Where a scenario about replicas is played: a cluster, and what can be asked of it."""

    @property
    def brokers(self) -> Sequence[int]:
        """Those with replicas, and the witness."""

    @property
    def witness(self) -> int:
        """See the module."""

    @property
    def delays_again(self) -> bool:
        """Followers that met an error in an epoch are delayed once more where they cut their log back."""

    def known(self, node: int) -> Known | None:
        """What a broker knows of the partition; None = nothing. Raises: AdminError."""

    def epoch_end(self, node: int, epoch: int) -> tuple[int, int] | None:
        """See `replicas.EpochEnd`, by a broker's replica. Raises: AdminError."""

    def alive(self, node: int) -> frozenset[int]:
        """Brokers that a broker does not take for fenced. Raises: AdminError."""

    def state(self) -> PartitionState:
        """The partition by the word of the witness. Raises: AdminError, NotYet."""

    def must_be_current(self) -> None:
        """Raises: NotYet, where the witness does not have all of the metadata log; AdminError."""

    def begin(self) -> None:
        """All nodes run, nothing is held, no topic of an earlier scenario is left. Raises: ClusterError."""

    def create(self, places: Sequence[int], settings: Mapping[str, str]) -> None:
        """The topic. Raises: AdminError."""

    def elect(self, *, unclean: bool) -> None:
        """Ask for an election. Raises: AdminError."""

    def reassign(self, places: Sequence[int]) -> None:
        """Ask for other replicas. Raises: ClusterError."""

    def kill(self, node: int) -> None:
        """SIGKILL. Raises: ClusterError."""

    def revive(self, node: int) -> None:
        """Start a broker that is down. Raises: ClusterError."""

    def wait(self, milliseconds: int) -> None:
        """This time of the story passes."""

    def clock_ns(self) -> int:
        """Time by the clock of what lanes have seen."""

    def lane(self, api: str, client_id: str, *, to: int = 0, answers: bool) -> Lane:
        """A new one to a broker, or to the controller. Raises: ClusterError."""


@dataclass(frozen=True, slots=True)
class KafkaReplicas(Place):
    """See the module. numbers: of rules. left: topics of earlier scenarios. delays_again: see
    `ReplicaPlace`."""

    numbers: Iterator[int] = field(default_factory=itertools.count)
    left: list[str] = field(default_factory=list)
    delays_again: bool = False

    @property
    def kafka(self) -> ContainerCluster:
        """Its cluster, which has proxies between nodes."""
        assert isinstance(self.cluster, ContainerCluster)
        return self.cluster

    @property
    def brokers(self) -> Sequence[int]:
        """See `ReplicaPlace`."""
        return self.kafka.brokers

    @property
    def witness(self) -> int:
        """See the module."""
        return self.kafka.brokers[-1]

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.inward(TP[0]), TP[1])

    def known(self, node: int) -> Known | None:
        """See `ReplicaPlace`. Raises: AdminError."""
        return self._told_by(node, lambda c: replicas.known_to(c, self.tp))

    def epoch_end(self, node: int, epoch: int) -> tuple[int, int] | None:
        """See `ReplicaPlace`. Raises: AdminError."""
        return self._told_by(node, lambda c: replicas.epoch_end(c, self.tp, epoch))

    def alive(self, node: int) -> frozenset[int]:
        """See `ReplicaPlace`. Raises: AdminError."""
        return self._told_by(node, view).brokers

    def state(self) -> PartitionState:
        """See `ReplicaPlace`. Raises: AdminError, NotYet."""
        return self._told_by(self.witness, lambda c: replicas.described(c, self.tp.topic))

    def must_be_current(self) -> None:
        """See `ReplicaPlace`. Raises: AdminError, NotYet."""
        self._told_by(self.witness, lambda c: replicas.must_be_current(c, self.witness))

    def begin(self) -> None:
        """See `ReplicaPlace`. Raises: ClusterError."""
        run_blocking(self.kafka.lift())
        run_blocking(self.kafka.revive(self.kafka.nodes))
        delete_topics(self.cluster.admin, self.left, READY_S)
        self.left[:] = [self.tp.topic]

    def create(self, places: Sequence[int], settings: Mapping[str, str]) -> None:
        """See `ReplicaPlace`. Raises: AdminError."""
        topic = self.tp.topic
        self._told_by(self.witness, lambda c: replicas.create_placed(c, topic, places, settings))

    def elect(self, *, unclean: bool) -> None:
        """See `ReplicaPlace`. Raises: AdminError."""
        self._told_by(self.witness, lambda c: replicas.elect(c, self.tp, unclean=unclean))

    def reassign(self, places: Sequence[int]) -> None:
        """See `ReplicaPlace`. Raises: ClusterError."""
        reassignments.reassign(self.cluster.admin, {self.tp: places}, READY_S)

    def kill(self, node: int) -> None:
        """See `ReplicaPlace`. Raises: ClusterError."""
        run_blocking(self.kafka.kill([node]))

    def revive(self, node: int) -> None:
        """See `ReplicaPlace`. Raises: ClusterError."""
        run_blocking(self.kafka.revive([node]))

    def wait(self, milliseconds: int) -> None:
        """See `ReplicaPlace`."""
        time.sleep(milliseconds * PACE / 1000)

    def clock_ns(self) -> int:
        """See `ReplicaPlace`."""
        return time.monotonic_ns()

    def lane(self, api: str, client_id: str, *, to: int = 0, answers: bool) -> Lane:
        """See `ReplicaPlace`. Raises: ClusterError."""
        node = to or self.kafka.nodes[-1]  # the controller, the only one
        return Lane(self.kafka.between, next(self.numbers), api, node, client_id, answers=answers)

    def _told_by(self, node: int, question: Callable[[BrokerConnection], T]) -> T:
        with self.cluster.admin.connect(node, CALL_S) as connection:
            return question(connection)
