"""What administrators ask of a simulated cluster: topics, preferred elections, the order of replicas.

Requests go to one broker after another until one has served them, as the ones to a real cluster do
(`harness.kafka.admin.elections`, `survey.anywhere`). With a metadata quorum any broker forwards them to the
controller, which answers when they are done. On ZooKeeper a broker writes a znode and answers then; whether
the controller has done it is seen in the brokers' metadata.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from core import replica_order
from core.cluster import unserved
from core.errors import ClusterError
from core.op import TopicPartition
from harness.simulation.client_runtime import Sender
from harness.simulation.scheduler import Future, Scheduler
from model.errors import KafkaError
from model.metadata.image import MetadataImage
from model.protocol.messages import AlterPartitionReassignments, CreateTopics, ElectLeaders
from model.replication.node import Ask

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


class Administration:
    """See the module. connect(): a new client's way to nodes. views(): metadata of each broker that answers.
    zookeeper: requests end in znodes."""

    def __init__(
        self,
        scheduler: Scheduler,
        brokers: Sequence[int],
        connect: Callable[[], Sender],
        views: Callable[[], Mapping[int, MetadataImage]],
        *,
        zookeeper: bool,
    ) -> None:
        self._scheduler = scheduler
        self._brokers = brokers
        self._connect = connect
        self._views = views
        self._zookeeper = zookeeper

    async def create_topic(self, topic: str, partitions: int, replication: int) -> None:
        """See `Cluster`. It is asked for once, of the first broker. Raises: ClusterError."""
        answers: list[Any] = []
        request = CreateTopics(topic, partitions, replication)
        self._connect()(Ask(self._brokers[0], "create", request), answers.append)
        tps = [TopicPartition(topic, number) for number in range(partitions)]
        led = lambda: all(self._leader(tp) >= 0 for tp in tps)  # noqa: E731
        if not await self._until(led, self._scheduler.now + READY_US):
            raise ClusterError(f"topic {topic} was not created: {answers}")

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """See `Electable`. Raises: ClusterError."""
        if not tps:
            return
        deadline = self._scheduler.now + DEADLINE_US
        await self._anywhere("elect", ElectLeaders(tuple(tps)), deadline)
        if self._zookeeper:
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
        replica_order.check(wanted, self.replicas())
        deadline = self._scheduler.now + DEADLINE_US
        request = AlterPartitionReassignments(
            {(tp.topic, tp.partition): tuple(to) for tp, to in wanted.items()}
        )
        await self._anywhere("reassign", request, deadline)
        done = lambda: replica_order.holds(wanted, self.replicas())  # noqa: E731
        if not await self._until(done, deadline):
            raise replica_order.late()

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """See `Electable`: as most brokers that answer tell them."""
        return replica_order.as_most_tell(
            {TopicPartition(*key): state.replicas for key, state in view.partitions.items()}
            for view in self._views().values()
        )

    # ---- looking

    def _leader(self, tp: TopicPartition) -> int:
        """In the newest epoch that a broker knows, -1 = none."""
        states = [view.partitions[tp] for view in self._views().values() if tp in view.partitions]
        return max(states, key=lambda state: state.leader_epoch).leader if states else -1

    def _elsewhere(self, tps: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Partitions that another replica than the preferred one leads, or none."""
        replicas = self.replicas()
        return [tp for tp in tps if self._leader(tp) not in replicas.get(tp, ())[:1]]

    # ---- asking

    async def _anywhere(self, channel: str, request: Any, deadline: int) -> None:
        """Ask one broker after another until one has served it. Raises: ClusterError."""
        scheduler, last = self._scheduler, dict[int, str]()
        while scheduler.now < deadline:
            for node in self._brokers:
                answer = await self._ask(node, channel, request)
                error, last[node] = _refusal(answer)
                if error is KafkaError.NONE:
                    return
                if answer is not None and error not in RETRIABLE:
                    raise ClusterError(f"Kafka refused: {last[node]}")
                if scheduler.now >= deadline:
                    break
            await scheduler.sleep(AGAIN_US)
        raise unserved(last)

    async def _ask(self, node: int, channel: str, request: Any) -> Any:
        answered: Future[Any] = Future()
        self._connect()(Ask(node, channel, request), answered.set)
        return await answered

    async def _until(self, done: Callable[[], bool], deadline: int) -> bool:
        """Wait for a condition; whether it came in time."""
        while not done():
            if self._scheduler.now > deadline:
                return False
            await self._scheduler.sleep(LOOK_US)
        return True


def _refusal(answer: Any) -> tuple[KafkaError, str]:
    """Why a request was not served, NONE = it was, and in words."""
    if answer is None:
        return KafkaError.REQUEST_TIMED_OUT, "no answer came"
    if answer.error not in SERVED:
        return answer.error, answer.error.name
    for tp, error in getattr(answer, "parts", {}).items():
        if error not in SERVED:
            return error, f"{TopicPartition(*tp)}: {error.name}"
    return KafkaError.NONE, ""
