"""What nodes and clients of a modelled cluster say to each other: Kafka's requests and responses.

Fields have Kafka's meaning; what the model does not need is left out. A partition is a tuple (topic,
number), so that the driver of the model can use its own type for it.

Here is what concerns data and administration; the rest stands in `coordinator_messages` and in
`controller_messages`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from model.errors import KafkaError
from model.log.unified_log import AbortedTxn, RecordBatch
from model.protocol.requests import AdminRequest, ErrorResponse, Request, Response

Partition = tuple[str, int]
"""(topic, number)."""


class PartitionState(msgspec.Struct, frozen=True):
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


class Produce(Request["ProduceResponse"], frozen=True):
    """Key 0. One batch a partition."""

    acks: int
    batches: Mapping[Partition, RecordBatch]
    transactional_id: str | None = None
    timeout_ms: int = 2000


class ProduceResponse(Response, frozen=True):
    """By partition: error, and the base offset of the batch (-1 where there is none to tell)."""

    results: Mapping[Partition, tuple[KafkaError, int]]


class FetchPartition(msgspec.Struct, frozen=True):
    """What a Fetch asks of one partition. `leader_epoch` -1: not checked (before KIP-320, or unknown).
    `start`: log start offset of a follower, -1 of a consumer. `topic_id`: of a follower (KIP-516), -1 = any;
    no other request of the model bears one."""

    offset: int
    leader_epoch: int = -1
    start: int = -1
    topic_id: int = -1


class Fetch(Request["FetchResponse"], frozen=True):
    """Key 1. `replica` -1: a consumer. `committed`: isolation read_committed. `broker_epoch`: of a
    follower, -1 before KIP-903."""

    replica: int
    parts: Mapping[Partition, FetchPartition]
    committed: bool = False
    max_wait_ms: int = 500
    most: int = 500
    broker_epoch: int = -1


class FetchedPartition(msgspec.Struct, frozen=True):
    """What a Fetch brought of one partition. `end`: of the leader's log where a follower's offset is out of
    range; in Kafka that one asks for `start` and `end` then, with ListOffsets."""

    error: KafkaError
    batches: Sequence[RecordBatch] = ()
    high_watermark: int = -1
    stable: int = -1
    start: int = 0
    aborted: Sequence[AbortedTxn] = ()
    end: int = -1


class FetchResponse(Response, frozen=True):
    """By partition."""

    parts: Mapping[Partition, FetchedPartition]


class OffsetForLeaderEpoch(Request["OffsetForLeaderEpochResponse"], frozen=True):
    """Key 23, OffsetForLeaderEpoch: (current leader epoch or -1, epoch asked for) by partition."""

    replica: int
    parts: Mapping[Partition, tuple[int, int]]


class OffsetForLeaderEpochResponse(Response, frozen=True):
    """(error, largest epoch up to the asked one, where it ends) by partition."""

    parts: Mapping[Partition, tuple[KafkaError, int, int]]


class ListOffsets(Request["ListOffsetsResponse"], frozen=True):
    """Key 2: the first offset, or the end (LSO if `committed`, else HW) of each partition."""

    parts: Sequence[Partition]
    earliest: bool = False
    committed: bool = False


class ListOffsetsResponse(Response, frozen=True):
    """(error, offset) by partition."""

    parts: Mapping[Partition, tuple[KafkaError, int]]


class DeleteRecords(Request["DeleteRecordsResponse"], frozen=True):
    """Key 21: the records below these offsets go; -1 = below the high watermark."""

    offsets: Mapping[Partition, int]
    timeout_ms: int = 2000


class DeleteRecordsResponse(Response, frozen=True):
    """(error, low watermark) by partition. The low watermark is the lowest log start offset among the
    replicas on live brokers."""

    parts: Mapping[Partition, tuple[KafkaError, int]]


class Metadata(Request["MetadataResponse"], frozen=True):
    """Key 3. What this node believes."""


class MetadataResponse(Response, frozen=True):
    """`brokers`: unfenced ones. `partitions`: state as this node knows it, with leader epoch -1 before
    version 7 (KIP-320)."""

    brokers: Sequence[int]
    partitions: Mapping[Partition, PartitionState]
    controller: int


# ---- administration


class CreateTopics(AdminRequest[ErrorResponse], frozen=True):
    """Key 19. `replicas`: assignment of each partition, where the caller chose it."""

    topic: str
    partitions: int
    replication: int
    replicas: Sequence[Sequence[int]] = ()


class CreatePartitions(AdminRequest[ErrorResponse], frozen=True):
    """Key 37. `count`: how many partitions the topic is to have in all."""

    topic: str
    count: int


class DeleteTopics(AdminRequest[ErrorResponse], frozen=True):
    """Key 20."""

    topic: str


class ElectLeaders(AdminRequest["ElectLeadersResponse"], frozen=True):
    """Key 43."""

    partitions: Sequence[Partition]
    unclean: bool = False


class ElectLeadersResponse(ErrorResponse, frozen=True):
    """`error`: of the whole request. `parts`: of each partition, ELECTION_NOT_NEEDED where it is led as was
    asked already."""

    parts: Mapping[Partition, KafkaError] = {}


class AlterPartitionReassignments(AdminRequest["AlterPartitionReassignmentsResponse"], frozen=True):
    """Key 45, AlterPartitionReassignments. `replicas`: None cancels what has not ended."""

    replicas: Mapping[Partition, Sequence[int] | None]


class AlterPartitionReassignmentsResponse(ErrorResponse, frozen=True):
    """`error`: of the whole request. `parts`: of each partition."""

    parts: Mapping[Partition, KafkaError] = {}
