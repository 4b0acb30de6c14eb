"""What coordinators of consumer groups serve to members that speak the protocol of KIP-848."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from harness.modelled.real.serving.api_call import Api, Call
from harness.modelled.real.serving.topic_ids import names, with_ids
from harness.protocol.encoding import Values, milliseconds
from model.errors import KafkaError
from model.protocol.consumer_group_messages import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
)
from model.protocol.messages import Partition

UNKNOWN_TOPIC: Final = ""
"""Name of a topic of an unknown id: no topic has it."""
CONSUMER_MEMBER: Final = 1


def _heartbeat(call: Call) -> None:
    request = call.request
    topics = request.subscribed_topic_names
    wanted = ConsumerGroupHeartbeat(
        str(request.group_id),
        str(request.member_id),
        int(request.member_epoch),
        request.instance_id or "",
        milliseconds(request.rebalance_timeout),
        None if topics is None else [str(topic) for topic in topics],
        _owned(call),
        request.server_assignor or "",
        getattr(request, "subscribed_topic_regex", None),
    )

    def told(answer: ConsumerGroupHeartbeatResponse) -> None:
        given = answer.assignment
        call.respond(
            error_code=answer.error,
            member_id=answer.member or None,
            member_epoch=answer.member_epoch,
            heartbeat_interval=timedelta(milliseconds=answer.heartbeat_ms),
            assignment=None if given is None else {"topic_partitions": with_ids(call, given)},
        )

    call.ask(wanted, told)


def _owned(call: Call) -> list[Partition] | None:
    topics = call.request.topic_partitions
    if topics is None:
        return None
    known = names(call)
    return [(known.get(one.topic_id, UNKNOWN_TOPIC), int(n)) for one in topics for n in one.partitions]


def _describe(call: Call) -> None:
    groups = [str(group) for group in call.request.group_ids]

    def told(answers: list[ConsumerGroupDescribeResponse]) -> None:
        call.respond(groups=[_described(call, *one) for one in zip(groups, answers, strict=True)])

    call.ask_all([ConsumerGroupDescribe(group) for group in groups], told)


def _described(call: Call, group: str, answer: ConsumerGroupDescribeResponse) -> Values:
    members = [
        {
            "member_id": name,
            "instance_id": one.instance or None,
            "member_epoch": one.epoch,
            "client_id": "",
            "client_host": "",
            "subscribed_topic_names": one.topics,
            "subscribed_topic_regex": one.regex or None,
            "assignment": {"topic_partitions": with_ids(call, one.assigned)},
            "target_assignment": {"topic_partitions": with_ids(call, one.target)},
            "member_type": CONSUMER_MEMBER,
        }
        for name, one in answer.members.items()
    ]
    return {
        "error_code": answer.error,
        "group_id": group,
        "group_state": answer.state or ("Dead" if answer.error is KafkaError.GROUP_ID_NOT_FOUND else ""),
        "group_epoch": answer.epoch,
        "assignment_epoch": answer.assignment_epoch,
        "assignor_name": answer.assignor,
        "members": members,
    }


OF_CONSUMER_GROUPS: Final[Mapping[str, Api]] = {
    "consumer_group_heartbeat": Api(0, 1, _heartbeat),
    "consumer_group_describe": Api(0, 1, _describe),
}
"""By name."""
