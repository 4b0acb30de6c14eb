"""All requests and responses of the model, and the table by which a node finds who handles a request."""

from collections.abc import Callable
from typing import Any, TypeVar

from model.protocol.controller_messages import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterPartition,
    AlterPartitionResponse,
    BeginQuorumEpoch,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    BrokerRegistration,
    BrokerRegistrationResponse,
    QuorumFetch,
    QuorumFetchResponse,
    Vote,
    VoteResponse,
)
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribeProducers,
    DescribeProducersResponse,
    EndTxn,
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    InitProducerId,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    ProducerIdResponse,
    SyncGroup,
    SyncGroupResponse,
    TxnOffsetCommit,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    CreateTopics,
    ElectLeaders,
    ElectLeadersResponse,
    ErrorResponse,
    Fetch,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    Metadata,
    MetadataResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Produce,
    ProduceResponse,
)
from model.protocol.zookeeper_messages import (
    ControlledShutdown,
    ControlledShutdownResponse,
    ControlRequest,
    ZkCloseSession,
    ZkConnect,
    ZkConnectResponse,
    ZkOps,
    ZkPoll,
    ZkResponse,
)

AdminRequest = CreateTopics | ElectLeaders | AlterPartitionReassignments
ControllerRequest = BrokerRegistration | BrokerHeartbeat | AlterPartition | AllocateProducerIds | AdminRequest
"""What the active controller of a KRaft cluster decides."""
ControllerResponse = (
    BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | ElectLeadersResponse
    | ErrorResponse
)
"""What it answers; the first field of each is an error."""
QuorumRequest = Vote | BeginQuorumEpoch | QuorumFetch
CoordinatorRequest = (
    FindCoordinator
    | InitProducerId
    | AddPartitionsToTxn
    | AddOffsetsToTxn
    | EndTxn
    | WriteTxnMarkers
    | TxnOffsetCommit
    | JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
)
ZkRequest = ZkConnect | ZkOps | ZkPoll | ZkCloseSession
Request = (
    Produce
    | Fetch
    | OffsetForLeaderEpoch
    | ListOffsets
    | Metadata
    | DescribeProducers
    | ControllerRequest
    | QuorumRequest
    | CoordinatorRequest
    | ControlRequest
    | ControlledShutdown
    | ZkRequest
)
Response = (
    ControllerResponse
    | ProduceResponse
    | FetchResponse
    | OffsetForLeaderEpochResponse
    | ListOffsetsResponse
    | MetadataResponse
    | DescribeProducersResponse
    | VoteResponse
    | QuorumFetchResponse
    | FindCoordinatorResponse
    | ProducerIdResponse
    | AddPartitionsToTxnResponse
    | WriteTxnMarkersResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | OffsetFetchResponse
    | ControlledShutdownResponse
    | ZkConnectResponse
    | ZkResponse
)

Q = TypeVar("Q")
Handler = Callable[[int, int, Q], None]
"""Handles a request: (connection, correlation, request)."""


class Handlers:
    """Kind of request -> its handler. `on` pairs them, so that a type checker compares the two."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Handler[Any]] = {}

    def on(self, kind: type[Q], handler: Handler[Q]) -> None:
        """This handler gets the requests of this kind."""
        assert kind not in self._by_kind, f"two handlers for {kind.__name__}"
        self._by_kind[kind] = handler

    def handle(self, connection: int, correlation: int, request: Request) -> None:
        """Pass a request to its handler."""
        handler = self._by_kind.get(type(request))
        if handler is None:
            raise AssertionError(f"unknown request {request!r}")
        handler(connection, correlation, request)
