"""What brokers and the controller say to each other, and the voters of the metadata quorum (KRaft)."""

from collections.abc import Mapping, Sequence
from typing import Final

from model.errors import KafkaError
from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import ControllerRequest, ErrorResponse, Request, Response

PRODUCER_ID_BLOCK_SIZE: Final = 1000
"""Producer ids that a broker takes at a time (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""

# ---- brokers and controller (KRaft)


class BrokerRegistration(ControllerRequest["BrokerRegistrationResponse"], frozen=True):
    """Key 62. `clean_epoch`: broker epoch of the clean shutdown that this start follows, -1 = unclean."""

    broker: int
    incarnation: int
    clean_epoch: int = -1


class BrokerRegistrationResponse(ErrorResponse, frozen=True):
    """The broker epoch."""

    broker_epoch: int = -1


class BrokerHeartbeat(ControllerRequest["BrokerHeartbeatResponse"], frozen=True):
    """Key 63. `offset`: metadata that it has applied."""

    broker: int
    broker_epoch: int
    offset: int
    shut_down: bool = False


class BrokerHeartbeatResponse(ErrorResponse, frozen=True):
    """`may_end`: a broker that asked to shut down leads nothing any more."""

    fenced: bool = True
    may_end: bool = False


class AlterPartition(ControllerRequest["AlterPartitionResponse"], frozen=True):
    """Key 56. By partition: leader epoch, partition epoch, wanted in-sync set with broker epochs."""

    broker: int
    broker_epoch: int
    parts: Mapping[Partition, tuple[int, int, tuple[int, ...], tuple[int, ...]]]


class AlterPartitionResponse(ErrorResponse, frozen=True):
    """(error, state as it is now) by partition."""

    parts: Mapping[Partition, tuple[KafkaError, PartitionState | None]] = {}


class AllocateProducerIds(ControllerRequest["AllocateProducerIdsResponse"], frozen=True):
    """Key 67: a block of producer ids."""

    broker: int


class AllocateProducerIdsResponse(ErrorResponse, frozen=True):
    """First id, and how many."""

    first: int = -1
    size: int = 0


# ---- the metadata quorum (KIP-595)


class Vote(Request["VoteResponse"], frozen=True):
    """Key 52. pre: whether it would be granted (KIP-996); `epoch` is then the one that the asker is in."""

    epoch: int
    candidate: int
    last_epoch: int
    end: int
    pre: bool = False


class VoteResponse(Response, frozen=True):
    """`epoch`, `leader`: what the voter knows."""

    granted: bool
    epoch: int
    leader: int = -1


class BeginQuorumEpoch(Request[ErrorResponse], frozen=True):
    """Key 53."""

    epoch: int
    leader: int


class QuorumFetch(Request["QuorumFetchResponse"], frozen=True):
    """Fetch of the metadata log, by voters and observers (brokers)."""

    replica: int
    epoch: int
    end: int
    last_epoch: int


class QuorumFetchResponse(Response, frozen=True):
    """`cut`: where the follower has to cut its log back to, -1 = nowhere. `entries`: (epoch, record), from
    offset `base` on, which is the end that the follower asked with."""

    epoch: int
    leader: int
    base: int = 0
    high_watermark: int = -1
    entries: Sequence[tuple[int, object]] = ()
    cut: int = -1
