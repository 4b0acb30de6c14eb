"""Requests to coordinators of groups, as Kafka has them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.describe_groups.v5 import request as describe_groups
from kio.schema.heartbeat.v2 import request as heartbeat
from kio.schema.join_group.v3 import request as join_group
from kio.schema.leave_group.v2 import request as leave_group
from kio.schema.sync_group.v2 import request as sync_group
from kio.schema.types import GroupId
from kio.static.primitive import i16, i32, i64
from kio.static.protocol import RequestPayload

from harness.contract.dialect import (
    Dialect,
    IdPairs,
    Translation,
    by_topic,
    error_alone,
    error_of,
    first_error,
    milliseconds,
    partitions_of,
)
from harness.modelled.real.encoded.assignments import assigned, assignment, subscribed, subscription
from model.protocol.coordinator_messages import (
    DescribedMember,
    DescribeGroup,
    DescribeGroupResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
    TxnOffsetCommit,
)
from model.protocol.requests import AnyRequest, ErrorResponse, Response

ASSIGNOR: Final = "range"


def _join(request: JoinGroup, dialect: Dialect, names: IdPairs) -> RequestPayload:
    protocol = join_group.JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription(request.topics))
    return join_group.JoinGroupRequest(
        group_id=GroupId(request.group),
        session_timeout=milliseconds(request.session_ms),
        rebalance_timeout=milliseconds(request.rebalance_ms),
        member_id=names.to_real(request.member),
        protocol_type="consumer",
        protocols=(protocol,),
    )


def _joined(answer: Any, request: JoinGroup, names: IdPairs) -> Response:
    return JoinGroupResponse(
        error_of(answer.error_code),
        int(answer.generation_id),
        names.member(str(answer.member_id)),
        names.member(str(answer.leader)),
        {names.member(str(one.member_id)): subscribed(bytes(one.metadata)) for one in answer.members},
    )


def _sync(request: SyncGroup, dialect: Dialect, names: IdPairs) -> RequestPayload:
    given = tuple(
        sync_group.SyncGroupRequestAssignment(
            member_id=names.to_real(member), assignment=assignment(partitions)
        )
        for member, partitions in request.assignments.items()
    )
    return sync_group.SyncGroupRequest(
        group_id=GroupId(request.group),
        generation_id=i32(request.generation),
        member_id=names.to_real(request.member),
        assignments=given,
    )


def _synced(answer: Any, request: SyncGroup, names: IdPairs) -> Response:
    return SyncGroupResponse(error_of(answer.error_code), assigned(bytes(answer.assignment)))


def _heartbeat(request: Heartbeat, dialect: Dialect, names: IdPairs) -> RequestPayload:
    return heartbeat.HeartbeatRequest(
        group_id=GroupId(request.group),
        generation_id=i32(request.generation),
        member_id=names.to_real(request.member),
    )


def _leave(request: LeaveGroup, dialect: Dialect, names: IdPairs) -> RequestPayload:
    return leave_group.LeaveGroupRequest(
        group_id=GroupId(request.group), member_id=names.to_real(request.member)
    )


def _describe_group(request: DescribeGroup, dialect: Dialect, names: IdPairs) -> RequestPayload:
    return describe_groups.DescribeGroupsRequest(
        groups=(GroupId(request.group),), include_authorized_operations=False
    )


def _described_group(answer: Any, request: DescribeGroup, names: IdPairs) -> Response:
    (group,) = answer.groups
    members = {
        names.member(str(one.member_id)): DescribedMember(
            subscribed(bytes(one.member_metadata)), assigned(bytes(one.member_assignment))
        )
        for one in group.members
    }
    return DescribeGroupResponse(error_of(group.error_code), str(group.group_state), members)


# ---- offsets


def _committed(
    request: TxnOffsetCommit | OffsetCommit,
    topic_of: Callable[..., object],
    partition_of: Callable[..., object],
) -> tuple[object, ...]:
    """The offsets to commit, by topic. topic_of, partition_of: classes of the request's schema."""
    return tuple(
        topic_of(
            name=topic,
            partitions=tuple(
                partition_of(
                    partition_index=i32(number),
                    committed_offset=i64(request.offsets[topic, number]),
                    committed_leader_epoch=i32(request.epochs.get((topic, number), -1)),
                    committed_metadata="",
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(request.offsets).items()
    )


def _txn_offset_commit(request: TxnOffsetCommit, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("txn_offset_commit", "request")
    topics = _committed(request, kafka.TxnOffsetCommitRequestTopic, kafka.TxnOffsetCommitRequestPartition)
    made: RequestPayload = kafka.TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        generation_id=i32(request.generation),
        member_id=names.to_real(request.member),
        topics=topics,
    )
    return made


def _offset_commit(request: OffsetCommit, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("offset_commit", "request")
    topics = _committed(request, kafka.OffsetCommitRequestTopic, kafka.OffsetCommitRequestPartition)
    made: RequestPayload = kafka.OffsetCommitRequest(
        group_id=request.group,
        generation_id_or_member_epoch=i32(request.generation),
        member_id=names.to_real(request.member),
        group_instance_id=None,
        topics=topics,
    )
    return made


def _offsets_committed(answer: Any, request: AnyRequest, names: IdPairs) -> Response:
    return ErrorResponse(first_error(one.error_code for topic in answer.topics for one in topic.partitions))


def _offset_fetch(request: OffsetFetch, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("offset_fetch", "request")
    topics = tuple(
        kafka.OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(map(i32, numbers)))
        for topic, numbers in by_topic(request.partitions).items()
    )
    group = kafka.OffsetFetchRequestGroup(group_id=request.group, topics=topics)
    made: RequestPayload = kafka.OffsetFetchRequest(groups=(group,), require_stable=request.stable)
    return made


def _offsets_fetched(answer: Any, request: OffsetFetch, names: IdPairs) -> Response:
    (group,) = answer.groups
    found = partitions_of(group, "topics", "partitions", "partition_index")
    error = first_error((group.error_code, *(one.error_code for one in found.values())))
    epochs = {tp: int(one.committed_leader_epoch) for tp, one in found.items()}
    return OffsetFetchResponse(
        error,
        {tp: int(one.committed_offset) for tp, one in found.items()},
        {tp: epoch for tp, epoch in epochs.items() if epoch >= 0},
    )


OF_GROUPS: Final[Mapping[type[AnyRequest], Translation]] = {
    JoinGroup: Translation("JoinGroupResponse", _join, _joined),
    SyncGroup: Translation("SyncGroupResponse", _sync, _synced),
    Heartbeat: Translation("HeartbeatResponse", _heartbeat, error_alone),
    LeaveGroup: Translation("LeaveGroupResponse", _leave, error_alone),
    DescribeGroup: Translation("DescribeGroupsResponse", _describe_group, _described_group),
    OffsetCommit: Translation("OffsetCommitResponse", _offset_commit, _offsets_committed),
    OffsetFetch: Translation("OffsetFetchResponse", _offset_fetch, _offsets_fetched),
    TxnOffsetCommit: Translation("TxnOffsetCommitResponse", _txn_offset_commit, _offsets_committed),
}
"""By kind of request."""
