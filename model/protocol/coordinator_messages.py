"""What is said to coordinators of transactions and groups, and by them to leaders."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.errors import KafkaError
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, R, Request, Response


class FindCoordinator(Request["FindCoordinatorResponse"], frozen=True):
    """Key 10. `group`: of a consumer group, else of a transactional id."""

    key: str
    group: bool


class FindCoordinatorResponse(ErrorResponse, frozen=True):
    """The node, -1 with an error."""

    node: int = -1


class InitProducerId(Request["ProducerIdResponse"], frozen=True):
    """Key 22. `producer_id` -1: a new client; else it asks for a bump of its own epoch (KIP-360)."""

    transactional_id: str | None
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


class ProducerIdResponse(ErrorResponse, frozen=True):
    """Also of EndTxn, which hands out a bumped epoch (KIP-890)."""

    producer_id: int = -1
    producer_epoch: int = -1


class TransactionRequest(Request[R], frozen=True):
    """Of the owner of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class AddPartitionsToTxn(TransactionRequest["AddPartitionsToTxnResponse"], frozen=True):
    """Key 24. `verify`: a leader only asks whether they belong to the open transaction (KIP-890)."""

    partitions: Sequence[Partition]
    verify: bool = False


class AddPartitionsToTxnResponse(ErrorResponse, frozen=True):
    """`error`: of the whole request. `parts`: of each partition, where a leader only asked."""

    parts: Mapping[Partition, KafkaError] = {}


class AddOffsetsToTxn(TransactionRequest[ErrorResponse], frozen=True):
    """Key 25."""

    group: str


class EndTxn(TransactionRequest["ProducerIdResponse"], frozen=True):
    """Key 26."""

    commit: bool


class TxnMarker(NamedTuple):
    """One of WriteTxnMarkers. transaction_version: by which the transaction ends (KIP-1228)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: Sequence[Partition]
    transaction_version: int


class WriteTxnMarkers(Request["WriteTxnMarkersResponse"], frozen=True):
    """Key 27."""

    markers: Sequence[TxnMarker]


class WriteTxnMarkersResponse(Response, frozen=True):
    """Error by (producer id, partition)."""

    results: Mapping[tuple[int, Partition], KafkaError]


class TxnOffsetCommit(Request[ErrorResponse], frozen=True):
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


class JoinGroup(Request["JoinGroupResponse"], frozen=True):
    """Key 11. `protocols`: names of assignors, the preferred one first, and what the member says to each,
    which the coordinator does not read; none = there is one assignor, and nothing is said to it."""

    group: str
    member: str
    session_ms: int
    rebalance_ms: int
    topics: Sequence[str]
    protocols: Sequence[tuple[str, bytes]] = ()


class JoinGroupResponse(ErrorResponse, frozen=True):
    """`members`: topics by member, sent to the group leader only. `protocol`: the assignor of the generation,
    "" = it was not named; `metadata`: what each member said to it."""

    generation: int = -1
    member: str = ""
    leader: str = ""
    members: Mapping[str, Sequence[str]] = {}
    protocol: str = ""
    metadata: Mapping[str, bytes] = {}


class MemberRequest(Request[R], frozen=True):
    """Of a member of a group."""

    group: str
    generation: int
    member: str


class SyncGroup(MemberRequest["SyncGroupResponse"], frozen=True):
    """Key 14. `assignments` by member: from the group leader only."""

    assignments: Mapping[str, Sequence[Partition]]


class SyncGroupResponse(ErrorResponse, frozen=True):
    """Partitions of this member."""

    partitions: Sequence[Partition] = ()


class Heartbeat(MemberRequest[ErrorResponse], frozen=True):
    """Key 12."""


class LeaveGroup(Request[ErrorResponse], frozen=True):
    """Key 13."""

    group: str
    member: str


class DescribeGroup(Request["DescribeGroupResponse"], frozen=True):
    """Key 15, of one group."""

    group: str


class DescribedMember(NamedTuple):
    """What a coordinator says of a member of a stable group; of another group nothing."""

    topics: tuple[str, ...] = ()
    assigned: tuple[Partition, ...] = ()


class DescribeGroupResponse(ErrorResponse, frozen=True):
    """state: Kafka's name, "Dead" where the group does not exist. `members` by id."""

    state: str = ""
    members: Mapping[str, DescribedMember] = {}


class OffsetCommit(MemberRequest[ErrorResponse], frozen=True):
    """Key 8. `generation`: of a member of a consumer group (KIP-848) its epoch. `epochs`: as with
    `TxnOffsetCommit`. `newer`: version 9 or later, which knows such members."""

    offsets: Mapping[Partition, int]
    epochs: Mapping[Partition, int] = {}
    newer: bool = False


class OffsetFetch(Request["OffsetFetchResponse"], frozen=True):
    """Key 9. `stable`: none that is about to change, in a transaction or not (KIP-447). `member`,
    `member_epoch`: of a member of a consumer group (KIP-848), "" and -1 = it does not say."""

    group: str
    partitions: Sequence[Partition]
    stable: bool = True
    member: str = ""
    member_epoch: int = -1


class OffsetFetchResponse(ErrorResponse, frozen=True):
    """Committed offset, -1 = none, by partition; `epochs`: leader epochs that were committed with them."""

    offsets: Mapping[Partition, int] = {}
    epochs: Mapping[Partition, int] = {}


class DescribeProducers(Request["DescribeProducersResponse"], frozen=True):
    """Key 61."""

    partitions: Sequence[Partition]


class ProducerState(NamedTuple):
    """What a leader's log knows of a producer. began: first offset of its open transaction, -1 = none.
    last_sequence, coordinator_epoch: -1 = not known."""

    producer_id: int
    epoch: int
    last_sequence: int
    coordinator_epoch: int
    began: int


class DescribeProducersResponse(Response, frozen=True):
    """By partition, each producer once."""

    parts: Mapping[Partition, Sequence[ProducerState]]


class DescribeTransactions(Request["DescribeTransactionsResponse"], frozen=True):
    """Key 65."""

    transactional_ids: Sequence[str]


class DescribedTransaction(NamedTuple):
    """What a coordinator says of a transactional id. state: Kafka's name, "" with an error."""

    error: KafkaError
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    partitions: tuple[Partition, ...] = ()


class DescribeTransactionsResponse(Response, frozen=True):
    """By transactional id."""

    transactions: Mapping[str, DescribedTransaction]
