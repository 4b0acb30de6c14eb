"""What members of share groups say to coordinators and leaders, and leaders to the coordinators of share
state (KIP-932)."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, Request


class AcknowledgeType(IntEnum):
    """What a member says of a record; GAP: its offset has none that the member could be given. RENEW: it
    needs more time (KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(NamedTuple):
    """Offsets from first to last, and what is said of all of them."""

    first: int
    last: int
    kind: AcknowledgeType


Acknowledgements = Mapping[Partition, Sequence[AcknowledgementBatch]]
NONE_SAID: Acknowledgements = {}


class AcquiredRecords(NamedTuple):
    """Offsets from first to last that a member holds now. times: how often they were delivered."""

    first: int
    last: int
    times: int


class ShareGroupHeartbeat(Request["ShareGroupHeartbeatResponse"], frozen=True):
    """Key 76. `member_epoch` 0: joins; -1: leaves; else it is a member of that epoch. `topics` (): as
    before."""

    group: str
    member: str
    member_epoch: int
    topics: Sequence[str] = ()


class ShareGroupHeartbeatResponse(ErrorResponse, frozen=True):
    """`partitions` that the member may fetch."""

    member_epoch: int = -1
    heartbeat_ms: int = 0
    partitions: Sequence[Partition] = ()


class ShareFetch(Request["ShareFetchResponse"], frozen=True):
    """Key 78. `session_epoch` 0: a new session of the member with this broker, -1: its end; else the next
    request of it. `said`: of records that were acquired before, of the same partitions."""

    group: str
    member: str
    session_epoch: int
    partitions: Sequence[Partition] = ()
    said: Acknowledgements = NONE_SAID
    max_wait_ms: int = 500
    most: int = 500


class SharedPartition(NamedTuple):
    """What a ShareFetch brought of one partition. `batches` may have more records than were acquired."""

    error: KafkaError
    acknowledge_error: KafkaError
    batches: Sequence[RecordBatch] = ()
    acquired: Sequence[AcquiredRecords] = ()


class ShareFetchResponse(ErrorResponse, frozen=True):
    """By partition; with an error there is none."""

    parts: Mapping[Partition, SharedPartition] = {}


class ShareAcknowledge(Request["ShareAcknowledgeResponse"], frozen=True):
    """Key 79. `session_epoch`: as with `ShareFetch`, but for 0; -1 ends the session."""

    group: str
    member: str
    session_epoch: int
    said: Acknowledgements = NONE_SAID


class ShareAcknowledgeResponse(ErrorResponse, frozen=True):
    """By partition; with an error there is none."""

    parts: Mapping[Partition, KafkaError] = {}


class StateBatch(NamedTuple):
    """Offsets from first to last, the delivery state of all (`RecordState`), and how often they were
    delivered."""

    first: int
    last: int
    state: int
    times: int


class ReadShareGroupState(Request["ReadShareGroupStateResponse"], frozen=True):
    """Key 84, of one share partition: from now on leaders of older epochs are refused."""

    group: str
    partition: Partition
    leader_epoch: int


class ReadShareGroupStateResponse(ErrorResponse, frozen=True):
    """`start` -1: nothing was stored yet."""

    state_epoch: int = -1
    start: int = -1
    batches: Sequence[StateBatch] = ()


class WriteShareGroupState(Request[ErrorResponse], frozen=True):
    """Key 85, of one share partition."""

    group: str
    partition: Partition
    state_epoch: int
    leader_epoch: int
    start: int
    batches: Sequence[StateBatch]


class ReadShareGroupStateSummary(Request["ReadShareGroupStateSummaryResponse"], frozen=True):
    """Key 87, of one share partition."""

    group: str
    partition: Partition


class ReadShareGroupStateSummaryResponse(ErrorResponse, frozen=True):
    """`start` as it is stored, -1: nothing is."""

    start: int = -1


class DescribeShareGroupOffsets(Request["DescribeShareGroupOffsetsResponse"], frozen=True):
    """Key 90, of one group: asked of its coordinator, which asks those of share state."""

    group: str
    partitions: Sequence[Partition]


class DescribeShareGroupOffsetsResponse(ErrorResponse, frozen=True):
    """(error, start offset as it is stored) by partition; with an error there is none."""

    parts: Mapping[Partition, tuple[KafkaError, int]] = {}


class ShareGroupDescribe(Request["ShareGroupDescribeResponse"], frozen=True):
    """Key 77, of one group."""

    group: str


class DescribedShareMember(NamedTuple):
    """What a coordinator says of a member."""

    epoch: int
    topics: tuple[str, ...]
    assigned: Sequence[Partition]


class ShareGroupDescribeResponse(ErrorResponse, frozen=True):
    """state: Kafka's name. `members` by id."""

    state: str = ""
    epoch: int = 0
    members: Mapping[str, DescribedShareMember] = {}
