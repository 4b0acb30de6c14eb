"""Requests to coordinators of groups, as Kafka has them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from core.consumer_protocol import assigned, assignment, subscribed, subscription
from harness.contract.dialect import IdPairs, Translation, common_error, error_alone, error_of, first_error
from harness.protocol.encoding import Values
from harness.protocol.payloads import Message
from harness.protocol.topics import in_topics, numbers_in_topics, of_topics
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
NEWER_COMMIT: Final = 9
"""Version of OffsetCommit by which members of consumer groups (KIP-848) commit."""


def _join(request: JoinGroup, names: IdPairs) -> Values:
    return {
        "group_id": request.group,
        "session_timeout": timedelta(milliseconds=request.session_ms),
        "rebalance_timeout": timedelta(milliseconds=request.rebalance_ms),
        "member_id": names.to_real(request.member),
        "protocol_type": "consumer",
        "protocols": [{"name": ASSIGNOR, "metadata": subscription(request.topics)}],
    }


def _joined(answer: Message, names: IdPairs) -> Response:
    return JoinGroupResponse(
        error_of(answer.error_code),
        int(answer.generation_id),
        names.member(str(answer.member_id)),
        names.member(str(answer.leader)),
        {names.member(str(one.member_id)): subscribed(bytes(one.metadata)) for one in answer.members},
    )


def _sync(request: SyncGroup, names: IdPairs) -> Values:
    assignments = [
        {"member_id": names.to_real(member), "assignment": assignment(partitions)}
        for member, partitions in request.assignments.items()
    ]
    return {**_heartbeat(request, names), "assignments": assignments}


def _synced(answer: Message, names: IdPairs) -> Response:
    return SyncGroupResponse(error_of(answer.error_code), assigned(bytes(answer.assignment)))


def _heartbeat(request: Heartbeat | SyncGroup, names: IdPairs) -> Values:
    return {
        "group_id": request.group,
        "generation_id": request.generation,
        "member_id": names.to_real(request.member),
    }


def _leave(request: LeaveGroup, names: IdPairs) -> Values:
    return {"group_id": request.group, "member_id": names.to_real(request.member)}


def _describe_group(request: DescribeGroup, names: IdPairs) -> Values:
    return {"groups": [request.group]}


def _described_group(answer: Message, names: IdPairs) -> Response:
    (group,) = answer.groups
    members = {
        names.member(str(one.member_id)): DescribedMember(
            subscribed(bytes(one.member_metadata)), assigned(bytes(one.member_assignment))
        )
        for one in group.members
    }
    return DescribeGroupResponse(error_of(group.error_code), str(group.group_state), members)


# ---- offsets


def _offset_commit(request: OffsetCommit | TxnOffsetCommit, names: IdPairs) -> Values:
    topics = in_topics(
        (
            tp,
            {
                "partition_index": tp[1],
                "committed_offset": offset,
                "committed_leader_epoch": request.epochs.get(tp, -1),
                "committed_metadata": "",
            },
        )
        for tp, offset in request.offsets.items()
    )
    return {
        "group_id": request.group,
        "generation_id_or_member_epoch": request.generation,
        "member_id": names.to_real(request.member),
        "topics": topics,
    }


def _txn_offset_commit(request: TxnOffsetCommit, names: IdPairs) -> Values:
    return {
        **_offset_commit(request, names),
        "transactional_id": request.transactional_id,
        "producer_id": names.to_real(request.producer_id),
        "producer_epoch": request.producer_epoch,
        "generation_id": request.generation,
    }


def _offsets_committed(answer: Message, names: IdPairs) -> Response:
    return ErrorResponse(common_error(one.error_code for topic in answer.topics for one in topic.partitions))


def _offset_fetch(request: OffsetFetch, names: IdPairs) -> Values:
    topics = numbers_in_topics(request.partitions, "partition_indexes")
    return {"groups": [{"group_id": request.group, "topics": topics}], "require_stable": request.stable}


def _offsets_fetched(answer: Message, names: IdPairs) -> Response:
    (group,) = answer.groups
    found = dict(of_topics(group.topics))
    error = first_error((group.error_code, *(one.error_code for one in found.values())))
    epochs = {tp: int(one.committed_leader_epoch) for tp, one in found.items()}
    return OffsetFetchResponse(
        error,
        {tp: int(one.committed_offset) for tp, one in found.items()},
        {tp: epoch for tp, epoch in epochs.items() if epoch >= 0},
    )


OF_GROUPS: Final[Mapping[type[AnyRequest], Translation]] = {
    JoinGroup: Translation("join_group", 3, _join, _joined),
    SyncGroup: Translation("sync_group", 2, _sync, _synced),
    Heartbeat: Translation("heartbeat", 2, _heartbeat, error_alone),
    LeaveGroup: Translation("leave_group", 2, _leave, error_alone),
    DescribeGroup: Translation("describe_groups", 5, _describe_group, _described_group),
    OffsetCommit: Translation("offset_commit", 8, _offset_commit, _offsets_committed),
    OffsetFetch: Translation("offset_fetch", 9, _offset_fetch, _offsets_fetched),
    TxnOffsetCommit: Translation("txn_offset_commit", 3, _txn_offset_commit, _offsets_committed),
}
"""By kind of request."""
