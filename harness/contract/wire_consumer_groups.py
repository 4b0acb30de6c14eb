"""Requests to coordinators of consumer groups (KIP-848), as Kafka has them: topics by their ids."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from harness.contract.dialect import IdPairs, Translation, error_of
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.payloads import Message
from harness.protocol.topics import numbers_by_topic
from model.errors import KafkaError
from model.protocol.consumer_group_messages import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
)
from model.protocol.messages import Partition
from model.protocol.requests import AnyRequest, Response


def _heartbeat(request: ConsumerGroupHeartbeat, names: IdPairs) -> Values:
    return {
        "group_id": request.group,
        "member_id": request.member,
        "member_epoch": request.member_epoch,
        "instance_id": request.instance or None,
        "rebalance_timeout": timedelta(milliseconds=request.rebalance_ms),
        "subscribed_topic_names": request.topics,
        "subscribed_topic_regex": request.regex,
        "server_assignor": request.assignor or None,
        "topic_partitions": None if request.owned is None else _with_ids(request.owned, names),
    }


def _with_ids(partitions: Iterable[Partition], names: IdPairs) -> list[Values]:
    return [
        {"topic_id": names.topics[topic], "partitions": numbers}
        for topic, numbers in numbers_by_topic(partitions).items()
    ]


def with_names(topics: Iterable[Message], names: IdPairs) -> tuple[Partition, ...]:
    """Partitions of topics that an answer names by their ids, in order."""
    return tuple(sorted((names.topic(one.topic_id), int(n)) for one in topics for n in one.partitions))


def _told(answer: Message, names: IdPairs) -> Response:
    if error := error_of(answer.error_code):
        return ConsumerGroupHeartbeatResponse(error)
    given: Sequence[Partition] | None = None
    if answer.assignment is not None:
        given = with_names(answer.assignment.topic_partitions, names)
    every = milliseconds(answer.heartbeat_interval)
    return ConsumerGroupHeartbeatResponse(
        KafkaError.NONE, str(answer.member_id), int(answer.member_epoch), every, given
    )


def _describe(request: ConsumerGroupDescribe, names: IdPairs) -> Values:
    return {"group_ids": [request.group]}


def _described(answer: Message, names: IdPairs) -> Response:
    (group,) = answer.groups
    members = {
        str(one.member_id): DescribedConsumer(
            int(one.member_epoch),
            one.instance_id or "",
            tuple(sorted(map(str, one.subscribed_topic_names))),
            with_names(one.assignment.topic_partitions, names),
            with_names(one.target_assignment.topic_partitions, names),
            one.subscribed_topic_regex or "",
        )
        for one in group.members
    }
    return ConsumerGroupDescribeResponse(
        error_of(group.error_code),
        str(group.group_state),
        int(group.group_epoch),
        int(group.assignment_epoch),
        str(group.assignor_name),
        members,
    )


OF_CONSUMER_GROUPS: Final[Mapping[type[AnyRequest], Translation]] = {
    ConsumerGroupHeartbeat: Translation("consumer_group_heartbeat", 1, _heartbeat, _told),
    ConsumerGroupDescribe: Translation("consumer_group_describe", 0, _describe, _described),
}
"""By kind of request."""
