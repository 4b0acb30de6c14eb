"""The internal topic in which a coordinator keeps its state: who coordinates what, loading, appending.

Each partition of the topic is coordinated by its leader, and the leader epoch is the coordinator's epoch. A
new leader reads the whole log in the background (here: with its next tick) and answers
COORDINATOR_LOAD_IN_PROGRESS until that has ended. It reads to the log's end, what is not committed yet
included (TransactionStateManager.loadTransactionMetadata, CoordinatorLoaderImpl): if it dies before that is
replicated, the next coordinator knows nothing of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import RecordBatch
from model.protocol.messages import CreateTopics, Partition
from model.protocol.requests import ErrorResponse
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager

SEEN_BY_CLIENTS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_OR_FOLLOWER: KafkaError.NOT_COORDINATOR,
}
"""Error of an append to the log -> error in the response to the client of the coordinator."""


class CoordinatorRuntime(ABC):
    """See the module. `epochs`: coordinator epoch of each partition (by number) that is loaded."""

    def __init__(
        self,
        node: NodeState,
        replica_manager: ReplicaManager,
        topic: str,
        count: int,
        controller: Callable[[], int],
    ) -> None:
        self.node = node
        self.bugs = node.settings.bugs
        self.replica_manager = replica_manager
        self.topic = topic
        self.count = count
        self.controller = controller
        self.epochs: dict[int, int] = {}
        self.loading: dict[int, int] = {}
        """Epoch of each partition that is read next."""
        self._creating = False

    def number(self, key: str) -> int:
        """The partition that a transactional id or a group belongs to."""
        if "group-in-another-partition" in self.bugs and self.topic == GROUP_TOPIC:
            return (java_hash(key) + 1) % self.count
        return java_hash(key) % self.count

    def coordinator(self, key: str) -> tuple[KafkaError, int]:
        """Where the coordinator of `key` is, as far as this broker knows. A topic that does not exist is
        created."""
        state = self.node.image.partitions.get((self.topic, self.number(key)))
        if state is None:
            self._create()
        if state is None or state.leader < 0:
            return KafkaError.COORDINATOR_NOT_AVAILABLE, -1
        return NO_ERROR, state.leader

    def _create(self) -> None:
        if self._creating or self.controller() < 0:
            return
        self._creating = True
        request = CreateTopics(self.topic, self.count, self.node.settings.internal_replication)
        self.node.ask(self.controller(), f"create {self.topic}", request, self._created)

    def _created(self, _: ErrorResponse | None) -> None:
        self._creating = False

    # ---- leadership

    def partition(self, number: int) -> Partition:
        """Topic and number."""
        return (self.topic, number)

    def became(self, number: int) -> None:
        """Look at the leadership of a partition; where it changed, what was loaded is forgotten."""
        replica = self.node.leader_of(self.partition(number))
        epoch = replica.state.leader_epoch if replica is not None else -1
        if epoch == self.epochs.get(number, self.loading.get(number, -1)):
            return
        self.epochs.pop(number, None)
        self.loading.pop(number, None)
        if replica is not None:
            self.loading[number] = epoch
        self._forget(number)

    def load(self) -> None:
        """Read the logs of partitions that are led here since the last time."""
        for number, epoch in list(self.loading.items()):
            replica = self.node.leader_of(self.partition(number))
            if replica is not None and self._may_load(replica):
                del self.loading[number]
                self.epochs[number] = epoch
                self._replay(number, replica)

    def _may_load(self, replica: Replica) -> bool:
        """Whether the coordinator may act upon this log now."""
        return True

    @abstractmethod
    def _replay(self, number: int, replica: Replica) -> None:
        """The state of a partition, from its log."""

    @abstractmethod
    def _forget(self, number: int) -> None:
        """This broker coordinates the partition no more, or again."""

    def check(self, number: int) -> int:
        """Coordinator epoch of a partition that is loaded here.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        if number in self.loading:
            raise Refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        if number not in self.epochs:
            raise Refused(KafkaError.NOT_COORDINATOR)
        return self.epochs[number]

    def coordinates(self, number: int) -> bool:
        """Whether a partition is loaded here."""
        return number in self.epochs and number not in self.loading

    # ---- writing

    def append(
        self,
        number: int,
        records: tuple[object, ...],
        timeout_ms: int,
        done: Callable[[KafkaError], None],
        *,
        acks: int = -1,
    ) -> None:
        """Append to the log; `done` when all in-sync replicas have it, or with the error for the client."""
        tp = self.partition(number)

        def appended(results: dict[Partition, tuple[KafkaError, int]]) -> None:
            error = results[tp][0]
            done(SEEN_BY_CLIENTS.get(error, error))

        self.replica_manager.append({tp: RecordBatch(-1, -1, records)}, acks, timeout_ms, appended)
