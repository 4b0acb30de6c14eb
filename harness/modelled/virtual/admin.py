"""What administrators ask of a simulated cluster: topics, preferred elections, the order of replicas.

Requests go to one broker after another until one has served them, as the ones to a real cluster do
(`harness.brokers.admin.elections`, `survey.anywhere`). With a metadata quorum any broker forwards them to the
controller, which answers when they are done. On ZooKeeper a broker writes a znode and answers then; whether
the controller has done it is seen in the brokers' metadata.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from core import dead_letters, replica_order
from core.cluster import unserved
from core.config import RunConfig
from core.errors import ClusterError
from core.op import TopicPartition
from harness.modelled.virtual.client_runtime import Sender
from harness.modelled.virtual.scheduler import Future, Scheduler
from model.errors import KafkaError
from model.metadata.image import MetadataImage
from model.protocol.messages import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteRecords,
    DeleteRecordsResponse,
    DeleteTopics,
    ElectLeaders,
)
from model.protocol.requests import ErrorResponse, Request
from model.replication.node import Ask
from model.settings import Settings

A = TypeVar("A", bound=ErrorResponse)

READY_US: Final = 60_000_000
DEADLINE_US: Final = round(replica_order.DEADLINE_S * 1_000_000)
AGAIN_US: Final = 100_000
LOOK_US: Final = 50_000
SERVED: Final = (KafkaError.NONE, KafkaError.ELECTION_NOT_NEEDED)
RETRIABLE: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
)
"""What passes, as far as these requests meet it; everything else is refused for good."""


class Administered(ABC):
    """See the module: this part of `SimulatedCluster`."""

    config: RunConfig
    settings: Settings
    scheduler: Scheduler
    brokers: tuple[int, ...]

    @abstractmethod
    def sender(self) -> Sender:
        """How a new client's requests get to nodes."""

    @abstractmethod
    def views(self) -> Mapping[int, MetadataImage]:
        """Metadata of each broker that answers."""

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when every partition has a leader that all nodes know. It is asked for
        once, of the first broker.

        All data topics of a simulated cluster have the settings of the run's config, and where its share
        groups have a dead-letter queue any may be it. Raises: ClusterError, also where others are asked for.
        """
        known = dict(self.config.settings_of_topics())
        if self.settings.share_letters:
            known = {**dead_letters.QUEUE, **known}
        for name, value in settings.items():
            if known.get(name) != value:
                raise ClusterError(
                    f"topic {topic}: the simulated cluster cannot set {name}={value} for a single topic"
                )
        answers: list[object] = []
        request = CreateTopics(topic, partitions, replication)
        self.sender()(Ask(self.brokers[0], "create", request), answers.append)
        tps = [TopicPartition(topic, number) for number in range(partitions)]
        led = lambda: all(self._leader(tp) >= 0 for tp in tps)  # noqa: E731
        if not await self._until(led, self.scheduler.now + READY_US):
            raise ClusterError(f"topic {topic} was not created: {answers}")

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """See `Electable`. Raises: ClusterError."""
        if not tps:
            return
        deadline = self.scheduler.now + DEADLINE_US
        await self._anywhere("elect", ElectLeaders(tuple(tps)), deadline)
        if self.settings.era.zookeeper:
            led = lambda: not self._elsewhere(tps)  # noqa: E731
            if not await self._until(led, deadline):
                raise ClusterError(
                    f"the preferred replica of {self._elsewhere(tps)[0]} does not lead after "
                    f"{DEADLINE_US // 1_000_000} s"
                )

    async def reorder(self, wanted: replica_order.Order) -> None:
        """See `Electable`; returns when most brokers tell it so. Raises: ClusterError."""
        if not wanted:
            return
        replica_order.check(wanted, self._replicas())
        deadline = self.scheduler.now + DEADLINE_US
        await self._anywhere("reassign", _reassignments(wanted), deadline)
        done = lambda: replica_order.holds(wanted, self._replicas())  # noqa: E731
        if not await self._until(done, deadline):
            raise replica_order.late()

    async def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """See `Electable`: as most brokers that answer tell them."""
        return self._replicas()

    async def reassign(self, replicas: replica_order.Order, within_s: float) -> None:
        """See `Reassignable`. Raises: ClusterError."""
        deadline = self.scheduler.now + round(within_s * 1e6)
        await self._anywhere("reassign", _reassignments(replicas), deadline)

    async def cancel_reassignments(
        self, tps: Sequence[TopicPartition], within_s: float
    ) -> tuple[TopicPartition, ...]:
        """See `Reassignable`. Raises: ClusterError."""
        deadline = self.scheduler.now + round(within_s * 1e6)
        request = AlterPartitionReassignments(dict.fromkeys(tps))
        # Refused where only what was added is in sync: it is not cancelled, and another one can replace it.
        answer = await self._anywhere("reassign", request, deadline, KafkaError.INVALID_REPLICA_ASSIGNMENT)
        return tuple(tp for tp in tps if answer.parts[tp] is KafkaError.NONE)

    async def add_partitions(self, counts: Mapping[str, int], within_s: float) -> None:
        """See `Growable`. Raises: ClusterError."""
        deadline = self.scheduler.now + round(within_s * 1e6)
        for topic, count in counts.items():
            await self._anywhere("grow", CreatePartitions(topic, count), deadline)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `Deletable`."""
        asked: list[tuple[TopicPartition, Future[DeleteRecordsResponse | None]]] = []
        for tp, offset in offsets.items():
            if (leader := self._leader(tp)) >= 0:
                answered: Future[DeleteRecordsResponse | None] = Future()
                request = DeleteRecords({(tp.topic, tp.partition): offset})
                self.sender()(Ask(leader, "delete", request), answered.set)
                asked.append((tp, answered))
        found = {}
        for tp, answered in asked:
            answer = await answered
            error, start = answer.parts[tp] if answer is not None else (KafkaError.REQUEST_TIMED_OUT, -1)
            if error is KafkaError.NONE:
                found[tp] = start
        return found

    async def delete_topics(self, topics: Sequence[str], within_s: float) -> None:
        """See `Remakable`. Raises: ClusterError."""
        deadline = self.scheduler.now + round(within_s * 1e6)
        for topic in topics:
            if any(topic in view.topics for view in self.views().values()):
                await self._anywhere(
                    "delete-topic", DeleteTopics(topic), deadline, KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                )
        gone = lambda: not any({*topics} & {*view.topics} for view in self.views().values())  # noqa: E731
        if not await self._until(gone, deadline):
            raise ClusterError(f"a broker still has topics {', '.join(topics)}")

    async def make_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], within_s: float
    ) -> None:
        """See `Remakable`. Raises: ClusterError."""
        deadline = self.scheduler.now + round(within_s * 1e6)
        request = CreateTopics(topic, partitions, replication)
        await self._anywhere("create", request, deadline, KafkaError.TOPIC_ALREADY_EXISTS)

    # ---- looking

    def _replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        return replica_order.as_most_tell(
            {TopicPartition(*key): state.replicas for key, state in view.partitions.items()}
            for view in self.views().values()
        )

    def _leader(self, tp: TopicPartition) -> int:
        """In the newest epoch that a broker knows, -1 = none."""
        states = [view.partitions[tp] for view in self.views().values() if tp in view.partitions]
        return max(states, key=lambda state: state.leader_epoch).leader if states else -1

    def _elsewhere(self, tps: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Partitions that another replica than the preferred one leads, or none."""
        replicas = self._replicas()
        return [tp for tp in tps if self._leader(tp) not in replicas.get(tp, ())[:1]]

    # ---- asking

    async def _anywhere(
        self, channel: str, request: Request[A], deadline: int, done: KafkaError = KafkaError.NONE
    ) -> A:
        """Ask one broker after another until one has served it; its answer. done: an error that says that an
        earlier try was served. Raises: ClusterError."""
        scheduler, last = self.scheduler, dict[int, str]()
        while scheduler.now < deadline:
            for node in self.brokers:
                answered: Future[A | None] = Future()
                self.sender()(Ask(node, channel, request), answered.set)
                answer = await answered
                error, last[node] = _refusal(answer)
                if answer is not None and error in (KafkaError.NONE, done):
                    return answer
                if answer is not None and error not in RETRIABLE:
                    raise ClusterError(f"Kafka refused: {last[node]}")
                if scheduler.now >= deadline:
                    break
            await scheduler.sleep(AGAIN_US)
        raise unserved(last)

    async def _until(self, done: Callable[[], bool], deadline: int) -> bool:
        """Wait for a condition; whether it came in time."""
        while not done():
            if self.scheduler.now > deadline:
                return False
            await self.scheduler.sleep(LOOK_US)
        return True


def _refusal(answer: ErrorResponse | None) -> tuple[KafkaError, str]:
    """Why a request was not served, NONE = it was, and in words."""
    if answer is None:
        return KafkaError.REQUEST_TIMED_OUT, "no answer came"
    if answer.error not in SERVED:
        return answer.error, answer.error.name
    for tp, error in getattr(answer, "parts", {}).items():
        if error not in (*SERVED, KafkaError.NO_REASSIGNMENT_IN_PROGRESS):  # there was none to cancel
            return error, f"{TopicPartition(*tp)}: {error.name}"
    return KafkaError.NONE, ""


def _reassignments(wanted: replica_order.Order) -> AlterPartitionReassignments:
    return AlterPartitionReassignments({(tp.topic, tp.partition): tuple(to) for tp, to in wanted.items()})
