"""What nodes and clients of a modelled cluster say to each other: Kafka's requests and responses.

Fields have Kafka's meaning; what the model does not need is left out. A partition is a tuple (topic,
number), so that whoever drives the model can use its own type for it.

Not here: who handles what (`broker`, `controller`, `quorum`, `transactions`, `groups`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from model.errors import KafkaError
from model.log import Aborted, Batch

Partition = tuple[str, int]
"""(topic, number)."""


class PartitionState(NamedTuple):
    """What the controller decided of a partition. `leader` -1 = none. `elr`: eligible leader replicas,
    `last_elr`: the last known one (KIP-966). `adding`, `removing`: of a reassignment (KIP-455)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


# ---- data


class Produce(NamedTuple):
    """Key 0. One batch a partition."""

    acks: int
    batches: Mapping[Partition, Batch]
    transactional_id: str | None = None
    timeout_ms: int = 2000


class ProduceAnswer(NamedTuple):
    """By partition: error, and the base offset of the batch (-1 where there is none to tell)."""

    results: Mapping[Partition, tuple[KafkaError, int]]


class FetchFrom(NamedTuple):
    """What a Fetch asks of one partition. `leader_epoch` -1: not checked (before KIP-320, or unknown)."""

    offset: int
    leader_epoch: int = -1


class Fetch(NamedTuple):
    """Key 1. `replica` -1: a consumer. `committed`: isolation read_committed."""

    replica: int
    parts: Mapping[Partition, FetchFrom]
    committed: bool = False
    max_wait_ms: int = 500
    most: int = 500


class Fetched(NamedTuple):
    """What a Fetch brought of one partition."""

    error: KafkaError
    batches: Sequence[Batch] = ()
    high_watermark: int = -1
    stable: int = -1
    start: int = 0
    aborted: Sequence[Aborted] = ()


class FetchAnswer(NamedTuple):
    """By partition."""

    parts: Mapping[Partition, Fetched]


class EpochEnds(NamedTuple):
    """Key 23, OffsetForLeaderEpoch: (current leader epoch or -1, epoch asked for) by partition."""

    replica: int
    parts: Mapping[Partition, tuple[int, int]]


class EpochEndsAnswer(NamedTuple):
    """(error, largest epoch up to the asked one, where it ends) by partition."""

    parts: Mapping[Partition, tuple[KafkaError, int, int]]


class ListOffsets(NamedTuple):
    """Key 2: the first offset, or the end (LSO if `committed`, else HW) of each partition."""

    parts: Sequence[Partition]
    earliest: bool = False
    committed: bool = False


class ListOffsetsAnswer(NamedTuple):
    """(error, offset) by partition."""

    parts: Mapping[Partition, tuple[KafkaError, int]]


class Metadata(NamedTuple):
    """Key 3. What this node believes."""


class MetadataAnswer(NamedTuple):
    """`brokers`: unfenced ones. `partitions`: state as this node knows it."""

    brokers: Sequence[int]
    partitions: Mapping[Partition, PartitionState]
    controller: int


# ---- administration


class CreateTopic(NamedTuple):
    """Key 19. `replicas`: assignment of each partition, where the caller chose it."""

    topic: str
    partitions: int
    replication: int
    replicas: Sequence[Sequence[int]] = ()


class ElectLeaders(NamedTuple):
    """Key 43."""

    partitions: Sequence[Partition]
    unclean: bool = False


class ElectAnswer(NamedTuple):
    """`error`: of the whole request. `parts`: of each partition, ELECTION_NOT_NEEDED where it is led as was
    asked already."""

    error: KafkaError
    parts: Mapping[Partition, KafkaError] = {}


class Reassign(NamedTuple):
    """Key 45, AlterPartitionReassignments."""

    replicas: Mapping[Partition, Sequence[int]]


class DeleteRecords(NamedTuple):
    """Key 21."""

    before: Mapping[Partition, int]


class Answer(NamedTuple):
    """A response that is nothing but an error code."""

    error: KafkaError


# ---- transactions and groups


class FindCoordinator(NamedTuple):
    """Key 10. `group`: of a consumer group, else of a transactional id."""

    key: str
    group: bool


class CoordinatorAnswer(NamedTuple):
    """The node, -1 with an error."""

    error: KafkaError
    node: int = -1


class InitProducerId(NamedTuple):
    """Key 22. `producer_id` -1: a new client; else it asks for a bump of its own epoch (KIP-360)."""

    transactional_id: str | None
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


class ProducerIdAnswer(NamedTuple):
    """Also of EndTxn, which hands out a bumped epoch (KIP-890)."""

    error: KafkaError
    producer_id: int = -1
    producer_epoch: int = -1


class AddPartitions(NamedTuple):
    """Key 24. `verify`: a leader only asks whether they belong to the open transaction (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    verify: bool = False


class AddPartitionsAnswer(NamedTuple):
    """`error`: of the whole request. `parts`: of each partition, where a leader only asked."""

    error: KafkaError
    parts: Mapping[Partition, KafkaError] = {}


class AddOffsets(NamedTuple):
    """Key 25."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group: str


class EndTxn(NamedTuple):
    """Key 26."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool


class Marker(NamedTuple):
    """One of WriteTxnMarkers."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: Sequence[Partition]


class WriteMarkers(NamedTuple):
    """Key 27."""

    markers: Sequence[Marker]


class MarkersAnswer(NamedTuple):
    """Error by (producer id, partition)."""

    results: Mapping[tuple[int, Partition], KafkaError]


class TxnOffsetCommit(NamedTuple):
    """Key 28. `offsets`: next offset to read, by partition. `generation` -1: not checked. `epochs`: leader
    epoch of the last record that was read, by partition (KIP-320)."""

    transactional_id: str
    group: str
    producer_id: int
    producer_epoch: int
    offsets: Mapping[Partition, int]
    generation: int = -1
    member: str = ""
    epochs: Mapping[Partition, int] = {}


class JoinGroup(NamedTuple):
    """Key 11."""

    group: str
    member: str
    session_ms: int
    rebalance_ms: int
    topics: Sequence[str]


class JoinAnswer(NamedTuple):
    """`members`: topics by member, told to the group leader only."""

    error: KafkaError
    generation: int = -1
    member: str = ""
    leader: str = ""
    members: Mapping[str, Sequence[str]] = {}


class SyncGroup(NamedTuple):
    """Key 14. `assignments` by member: from the group leader only."""

    group: str
    generation: int
    member: str
    assignments: Mapping[str, Sequence[Partition]]


class SyncAnswer(NamedTuple):
    """Partitions of this member."""

    error: KafkaError
    partitions: Sequence[Partition] = ()


class Heartbeat(NamedTuple):
    """Key 12."""

    group: str
    generation: int
    member: str


class LeaveGroup(NamedTuple):
    """Key 13."""

    group: str
    member: str


class OffsetCommit(NamedTuple):
    """Key 8. `epochs`: as with `TxnOffsetCommit`."""

    group: str
    generation: int
    member: str
    offsets: Mapping[Partition, int]
    epochs: Mapping[Partition, int] = {}


class OffsetFetch(NamedTuple):
    """Key 9. `stable`: refuse while a transaction holds offsets of these partitions (KIP-447)."""

    group: str
    partitions: Sequence[Partition]
    stable: bool = True


class OffsetFetchAnswer(NamedTuple):
    """Committed offset, -1 = none, by partition; `epochs`: leader epochs that were committed with them."""

    error: KafkaError
    offsets: Mapping[Partition, int] = {}
    epochs: Mapping[Partition, int] = {}


class DescribeProducers(NamedTuple):
    """Key 61."""

    partitions: Sequence[Partition]


class ProducersAnswer(NamedTuple):
    """(producer id, epoch, first offset of its open transaction or -1) by partition."""

    parts: Mapping[Partition, Sequence[tuple[int, int, int]]]


# ---- brokers and controller (KRaft)


class Register(NamedTuple):
    """Key 62. `clean_epoch`: broker epoch of the clean shutdown that this start follows, -1 = unclean."""

    broker: int
    incarnation: int
    clean_epoch: int = -1


class RegisterAnswer(NamedTuple):
    """The broker epoch."""

    error: KafkaError
    broker_epoch: int = -1


class BrokerHeartbeat(NamedTuple):
    """Key 63. `offset`: metadata that it has applied."""

    broker: int
    broker_epoch: int
    offset: int
    shut_down: bool = False


class HeartbeatAnswer(NamedTuple):
    """`may_end`: a broker that asked to shut down leads nothing any more."""

    error: KafkaError
    fenced: bool = True
    may_end: bool = False


class AlterPartition(NamedTuple):
    """Key 56. By partition: leader epoch, partition epoch, wanted in-sync set with broker epochs."""

    broker: int
    broker_epoch: int
    parts: Mapping[Partition, tuple[int, int, tuple[int, ...], tuple[int, ...]]]


class AlterAnswer(NamedTuple):
    """(error, state as it is now) by partition."""

    error: KafkaError
    parts: Mapping[Partition, tuple[KafkaError, PartitionState | None]] = {}


class AllocateIds(NamedTuple):
    """Key 67: a block of producer ids."""

    broker: int


class IdsAnswer(NamedTuple):
    """First id, and how many."""

    error: KafkaError
    first: int = -1
    size: int = 0


# ---- the metadata quorum (KIP-595)


class Vote(NamedTuple):
    """Key 52."""

    epoch: int
    candidate: int
    last_epoch: int
    end: int


class VoteAnswer(NamedTuple):
    """`epoch`, `leader`: what the voter knows."""

    granted: bool
    epoch: int
    leader: int = -1


class BeginEpoch(NamedTuple):
    """Key 53."""

    epoch: int
    leader: int


class QuorumFetch(NamedTuple):
    """Fetch of the metadata log, by voters and observers (brokers)."""

    replica: int
    epoch: int
    end: int
    last_epoch: int


class QuorumAnswer(NamedTuple):
    """`cut`: where the follower has to cut its log back to, -1 = nowhere. `entries`: (epoch, record), from
    offset `base` on, which is the end that the follower asked with."""

    epoch: int
    leader: int
    base: int = 0
    high_watermark: int = -1
    entries: Sequence[tuple[int, Any]] = ()
    cut: int = -1
