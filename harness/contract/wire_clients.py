"""More of `wire`: what consumers, members of groups and clients in general ask.

Subscriptions and assignments of members are those of Kafka's consumers, version 0: ConsumerProtocol*.json.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.schema.heartbeat.v2 import request as heartbeat
from kio.schema.join_group.v3 import request as join_group
from kio.schema.leave_group.v2 import request as leave_group
from kio.schema.metadata.v9 import request as metadata
from kio.schema.sync_group.v2 import request as sync_group
from kio.schema.types import GroupId
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload

from harness.contract.wire import Dialect, Names, Translation, by_topic, error_of, milliseconds
from harness.evidence.cursor import Cursor
from model.protocol.coordinator_messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.messages import Metadata, MetadataResponse, Partition, PartitionState
from model.protocol.requests import AnyRequest, ErrorResponse, Response

ASSIGNOR: Final = "range"
NO_USER_DATA: Final = struct.pack(">i", -1)


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _read_text(cursor: Cursor) -> str:
    return bytes(cursor.take(cursor.integer(2))).decode()


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + NO_USER_DATA


def subscribed(data: bytes) -> tuple[str, ...]:
    """Topics of a subscription. Raises: Malformed."""
    cursor = Cursor(data)
    cursor.integer(2)
    return tuple(_read_text(cursor) for _ in range(cursor.integer(4)))


def assignment(partitions: Sequence[Partition]) -> bytes:
    """ConsumerProtocolAssignment."""
    topics = by_topic(partitions)
    parts = [
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    ]
    return struct.pack(">hi", 0, len(topics)) + b"".join(parts) + NO_USER_DATA


def assigned(data: bytes) -> tuple[Partition, ...]:
    """Partitions of an assignment, none of an empty one. Raises: Malformed."""
    if not data:
        return ()
    cursor = Cursor(data)
    cursor.integer(2)
    found = []
    for _ in range(cursor.integer(4)):
        topic = _read_text(cursor)
        found += [(topic, cursor.integer(4)) for _ in range(cursor.integer(4))]
    return tuple(found)


def _metadata(request: Metadata, dialect: Dialect, names: Names) -> RequestPayload:
    return metadata.MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _described_cluster(answer: Any, request: Metadata, names: Names) -> Response:
    parts = {
        (str(topic.name), int(one.partition_index)): PartitionState(
            tuple(map(int, one.replica_nodes)),
            tuple(map(int, one.isr_nodes)),
            int(one.leader_id),
            int(one.leader_epoch),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    brokers = tuple(sorted(int(broker.node_id) for broker in answer.brokers))
    return MetadataResponse(brokers, parts, int(answer.controller_id))


def _join(request: JoinGroup, dialect: Dialect, names: Names) -> RequestPayload:
    protocol = join_group.JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription(request.topics))
    return join_group.JoinGroupRequest(
        group_id=GroupId(request.group),
        session_timeout=milliseconds(request.session_ms),
        rebalance_timeout=milliseconds(request.rebalance_ms),
        member_id=request.member,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def _joined(answer: Any, request: JoinGroup, names: Names) -> Response:
    return JoinGroupResponse(
        error_of(answer.error_code),
        int(answer.generation_id),
        str(answer.member_id),
        str(answer.leader),
        {str(one.member_id): subscribed(bytes(one.metadata)) for one in answer.members},
    )


def _sync(request: SyncGroup, dialect: Dialect, names: Names) -> RequestPayload:
    given = tuple(
        sync_group.SyncGroupRequestAssignment(member_id=member, assignment=assignment(partitions))
        for member, partitions in request.assignments.items()
    )
    return sync_group.SyncGroupRequest(
        group_id=GroupId(request.group),
        generation_id=i32(request.generation),
        member_id=request.member,
        assignments=given,
    )


def _synced(answer: Any, request: SyncGroup, names: Names) -> Response:
    return SyncGroupResponse(error_of(answer.error_code), assigned(bytes(answer.assignment)))


def _heartbeat(request: Heartbeat, dialect: Dialect, names: Names) -> RequestPayload:
    return heartbeat.HeartbeatRequest(
        group_id=GroupId(request.group), generation_id=i32(request.generation), member_id=request.member
    )


def _leave(request: LeaveGroup, dialect: Dialect, names: Names) -> RequestPayload:
    return leave_group.LeaveGroupRequest(group_id=GroupId(request.group), member_id=request.member)


def _error(answer: Any, request: AnyRequest, names: Names) -> Response:
    return ErrorResponse(error_of(answer.error_code))


OF_CLIENTS: Final[Mapping[type[AnyRequest], Translation]] = {
    Metadata: Translation("MetadataResponse", _metadata, _described_cluster),
    JoinGroup: Translation("JoinGroupResponse", _join, _joined),
    SyncGroup: Translation("SyncGroupResponse", _sync, _synced),
    Heartbeat: Translation("HeartbeatResponse", _heartbeat, _error),
    LeaveGroup: Translation("LeaveGroupResponse", _leave, _error),
}
"""By kind of request."""
