"""What is said to coordinators of transactions and groups, and by them to leaders."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.errors import KafkaError
from model.protocol.messages import Partition


class FindCoordinator(NamedTuple):
    """Key 10. `group`: of a consumer group, else of a transactional id."""

    key: str
    group: bool


class FindCoordinatorResponse(NamedTuple):
    """The node, -1 with an error."""

    error: KafkaError
    node: int = -1


class InitProducerId(NamedTuple):
    """Key 22. `producer_id` -1: a new client; else it asks for a bump of its own epoch (KIP-360)."""

    transactional_id: str | None
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


class ProducerIdResponse(NamedTuple):
    """Also of EndTxn, which hands out a bumped epoch (KIP-890)."""

    error: KafkaError
    producer_id: int = -1
    producer_epoch: int = -1


class AddPartitionsToTxn(NamedTuple):
    """Key 24. `verify`: a leader only asks whether they belong to the open transaction (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    verify: bool = False


class AddPartitionsToTxnResponse(NamedTuple):
    """`error`: of the whole request. `parts`: of each partition, where a leader only asked."""

    error: KafkaError
    parts: Mapping[Partition, KafkaError] = {}


class AddOffsetsToTxn(NamedTuple):
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


class TxnMarker(NamedTuple):
    """One of WriteTxnMarkers."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: Sequence[Partition]


class WriteTxnMarkers(NamedTuple):
    """Key 27."""

    markers: Sequence[TxnMarker]


class WriteTxnMarkersResponse(NamedTuple):
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


class JoinGroupResponse(NamedTuple):
    """`members`: topics by member, sent to the group leader only."""

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


class SyncGroupResponse(NamedTuple):
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


class OffsetFetchResponse(NamedTuple):
    """Committed offset, -1 = none, by partition; `epochs`: leader epochs that were committed with them."""

    error: KafkaError
    offsets: Mapping[Partition, int] = {}
    epochs: Mapping[Partition, int] = {}


class DescribeProducers(NamedTuple):
    """Key 61."""

    partitions: Sequence[Partition]


class DescribeProducersResponse(NamedTuple):
    """(producer id, epoch, first offset of its open transaction or -1) by partition."""

    parts: Mapping[Partition, Sequence[tuple[int, int, int]]]
