"""Replicas and their partition as requests show them: what each broker has, and what the controller decided.

A fetch as a copy on another disk of a broker makes it is answered by every replica, to the end of its log
(FetchParams.fetchOnlyLeader, FetchIsolation.of). Such a fetch from far behind the end of its newest epoch
brings where that epoch ends in the replica's own cache (Partition.readRecords): OffsetForLeaderEpoch asks
leaders alone. What the controller decided tells a witness: a broker without replicas, whose metadata nothing
holds up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse
from kio.schema.elect_leaders.v1.response import ElectLeadersResponse
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, check
from harness.brokers.admin.protocol import quorum, view
from harness.processes.waiting import NotYet
from harness.protocol.topics import in_topics, numbers_in_topics
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import Fetch, FetchedPartition, FetchPartition, Partition, PartitionState

FUTURE: Final = -3
"""FetchRequest.FUTURE_LOCAL_REPLICA_ID: the copy of a replica on another disk of its broker."""
PREFERRED, UNCLEAN = 0, 1
BEYOND: Final = 2**62
"""An offset that no epoch reaches."""
EpochEnd = Callable[[int], tuple[int, int] | None]
"""Epoch -> the largest one up to it that a replica knows, and where that ends; None where its newest one is
before the epoch (LeaderEpochFileCache.endOffsetFor)."""


@dataclass(frozen=True, slots=True)
class SeenLog:
    """A replica's log. start: its first offset. end: the offset after its last record."""

    batches: Sequence[RecordBatch]
    end: int
    start: int = 0

    def records(self) -> Iterator[tuple[int, int, object]]:
        """Offset, leader epoch and record."""
        for batch in self.batches:
            for number, record in enumerate(batch.records):
                yield batch.base + number, batch.epoch, record


@dataclass(frozen=True, slots=True)
class SeenReplica:
    """What a broker tells of its replica, and of its partition. Of the state only leader and epoch count."""

    number: int
    log: SeenLog
    high_watermark: int
    state: PartitionState

    @property
    def leads(self) -> bool:
        """Whether it believes so."""
        return self.state.leader == self.number


def whole_log() -> FetchPartition:
    """A fetch from the begin on."""
    return FetchPartition(0)


def of_replica(tp: Partition) -> Fetch:
    """The question for all that a replica has."""
    return Fetch(FUTURE, {tp: whole_log()}, max_wait_ms=0)


def seen_log(part: FetchedPartition) -> SeenLog | None:
    """The log that a replica answered with; None where there is no replica."""
    if part.error is not KafkaError.NONE:
        return None
    last = part.batches[-1] if part.batches else None
    start = max(part.start, 0)
    return SeenLog(part.batches, last.base + len(last.records) if last else start, start)


def epoch_begins(start: int, newest: int, end: EpochEnd) -> list[tuple[int, int]]:
    """The epochs that a replica has noted, each with where it begins: where the one before ends. The first
    one begins with the log. start: of the log. newest: an epoch that is not before any of them."""
    told: list[tuple[int, int, int]] = []
    for epoch in range(newest + 1):
        if (found := end(epoch)) is None:
            break
        told.append((epoch, *found))
    begins, begin = [], start
    for epoch, known, ends in told:
        # before the first epoch, too, a replica names the epoch that it is asked for: that one is empty
        if known == epoch and (ends > begin or epoch == told[-1][0]):
            begins.append((epoch, begin))
            begin = ends
    return begins


class Known(NamedTuple):
    """What one broker knows of the cluster and a partition."""

    alive: frozenset[int]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


def known_to(connection: BrokerConnection, tp: TopicPartition) -> Known | None:
    """By a broker's metadata; None where it does not know the partition. Raises: AdminError."""
    seen = view(connection)
    one = seen.partitions.get(tp)
    if one is None:
        return None
    isr, replicas = tuple(map(int, one.isr_nodes)), tuple(map(int, one.replica_nodes))
    return Known(seen.brokers, int(one.leader_id), int(one.leader_epoch), isr, replicas)


def described(connection: BrokerConnection, topic: str) -> PartitionState:
    """Partition 0 of a topic, without its epoch. Raises: AdminError; NotYet, where it is not known."""
    answer = connection.call(DescribeTopicPartitionsResponse, topics=[{"name": topic}])
    if not (found := answer.topics[0].partitions):
        raise NotYet(f"no broker describes {topic}")
    one, (adding, removing) = found[0], _reassigning(connection, topic)
    return PartitionState(
        tuple(map(int, one.replica_nodes)),
        tuple(map(int, one.isr_nodes)),
        int(one.leader_id),
        int(one.leader_epoch),
        elr=tuple(map(int, one.eligible_leader_replicas or ())),
        last_elr=tuple(map(int, one.last_known_elr or ())),
        adding=adding,
        removing=removing,
    )


def _reassigning(connection: BrokerConnection, topic: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Replicas that are being added to partition 0 of a topic, and removed from it. Raises: AdminError."""
    asked = numbers_in_topics({(topic, 0): None}, "partition_indexes")
    answer = connection.call(ListPartitionReassignmentsResponse, topics=asked, timeout=broker_views.TIMEOUT)
    check("ListPartitionReassignments", answer.error_code, answer.error_message)
    for one in (one for of_topic in answer.topics for one in of_topic.partitions):
        return tuple(map(int, one.adding_replicas)), tuple(map(int, one.removing_replicas))
    return (), ()


def must_be_current(connection: BrokerConnection, node: int) -> None:
    """Raises: NotYet, where a broker does not have all of the metadata log; AdminError."""
    seen = quorum(connection)
    ends = {int(one.replica_id): int(one.log_end_offset) for one in (*seen.current_voters, *seen.observers)}
    if ends.get(node, -1) < ends[int(seen.leader_id)]:
        raise NotYet(f"broker {node} does not have all of the metadata log")


def epoch_end(connection: BrokerConnection, tp: TopicPartition, epoch: int) -> tuple[int, int] | None:
    """See `EpochEnd`, by the replica of any broker. Raises: AdminError."""
    asked = {
        "partition": tp.partition,
        "fetch_offset": BEYOND,
        "last_fetched_epoch": epoch,
        "partition_max_bytes": 1,
    }
    answer = connection.call(
        FetchResponse,
        replica_id=FUTURE,
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1,
        topics=in_topics({tp: asked}.items(), name="topic"),
    )
    one = answer.responses[0].partitions[0]
    if int(one.error_code) == KafkaError.OFFSET_OUT_OF_RANGE:
        return None
    check(str(tp), one.error_code)
    return int(one.diverging_epoch.epoch), int(one.diverging_epoch.end_offset)


def create_placed(
    connection: BrokerConnection, topic: str, replicas: Sequence[int], settings: Mapping[str, str]
) -> None:
    """A topic of one partition with its replicas on these brokers. Raises: AdminError."""
    wanted = {
        "name": topic,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": replicas}],
        "configs": [{"name": name, "value": value} for name, value in settings.items()],
    }
    answer = connection.call(CreateTopicsResponse, topics=[wanted], timeout=broker_views.TIMEOUT)
    check(topic, answer.topics[0].error_code, answer.topics[0].error_message)


def elect(connection: BrokerConnection, tp: TopicPartition, *, unclean: bool) -> None:
    """Ask for an election; its outcome stands in the state. Raises: AdminError."""
    connection.call(
        ElectLeadersResponse,
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=numbers_in_topics({tp: None}, name="topic"),
        timeout=broker_views.TIMEOUT,
    )
