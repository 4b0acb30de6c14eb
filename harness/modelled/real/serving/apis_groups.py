"""What coordinators of consumer groups serve.

Members choose among the assignors that all of them name; what each says to its assignor stays the bytes that
it sent. An assignment is kept as partitions, and its user data are not."""

from collections.abc import Mapping
from typing import Final

from core.consumer_protocol import assigned, assignment, subscribed, subscription
from harness.modelled.real.serving.api_call import Api, Call
from harness.modelled.real.serving.apis_transactions import committed, respond_committed
from harness.modelled.shared.coordinator_records import CONSUMER
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.topics import in_topics, numbers_of_topics
from model.coordinator.classic_group import EMPTY
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)

INCONSISTENT_PROTOCOL: Final = 23
INVALID_REQUEST: Final = 42
"""Errors of Kafka that the model does not have."""
GROUP_KEY: Final = 0
SHARE: Final = "share"
"""The type of share groups."""
KNOWS_MEMBER_EPOCHS: Final = 9
"""Version of OffsetCommit."""


def _find(call: Call) -> None:
    request = call.request
    key = str(request.key)

    def found(answer: FindCoordinatorResponse) -> None:
        its = call.addresses.get(answer.node)
        error = answer.error
        if its is None and not error:
            error = KafkaError.COORDINATOR_NOT_AVAILABLE
        host, port = (its.host, its.port) if its is not None and not error else ("", -1)
        call.respond(error_code=error, node_id=-1 if error else answer.node, host=host, port=port)

    call.ask(FindCoordinator(key, int(getattr(request, "key_type", GROUP_KEY)) == GROUP_KEY), found)


def _join(call: Call) -> None:
    request = call.request
    protocols = tuple((str(one.name), bytes(one.metadata)) for one in request.protocols)
    if request.protocol_type != CONSUMER or not protocols:
        call.respond(error_code=INCONSISTENT_PROTOCOL, protocol_name="", leader="", member_id="")
        return
    try:
        topics = subscribed(protocols[0][1])
    except ValueError:
        call.respond(error_code=INVALID_REQUEST, protocol_name="", leader="", member_id="")
        return
    session = milliseconds(request.session_timeout)
    rebalance = milliseconds(getattr(request, "rebalance_timeout", request.session_timeout))
    wanted = JoinGroup(str(request.group_id), str(request.member_id), session, rebalance, topics, protocols)

    def joined(answer: JoinGroupResponse) -> None:
        members = [{"member_id": name, "metadata": metadata} for name, metadata in answer.metadata.items()]
        call.respond(
            error_code=answer.error,
            generation_id=answer.generation,
            protocol_name=answer.protocol,
            leader=answer.leader,
            member_id=answer.member,
            members=members,
        )

    call.ask(wanted, joined)


def _sync(call: Call) -> None:
    request = call.request
    try:
        given = {str(one.member_id): assigned(bytes(one.assignment)) for one in request.assignments}
    except ValueError:
        call.respond(error_code=INVALID_REQUEST, assignment=b"")
        return

    def synced(answer: SyncGroupResponse) -> None:
        call.respond(
            error_code=answer.error, assignment=b"" if answer.error else assignment(answer.partitions)
        )

    group, generation, member = str(request.group_id), int(request.generation_id), str(request.member_id)
    call.ask(SyncGroup(group, generation, member, given), synced)


def _heartbeat(call: Call) -> None:
    request = call.request
    wanted = Heartbeat(str(request.group_id), int(request.generation_id), str(request.member_id))
    call.ask(wanted, lambda answer: call.respond(error_code=answer.error))


def _leave(call: Call) -> None:
    wanted = LeaveGroup(str(call.request.group_id), str(call.request.member_id))
    call.ask(wanted, lambda answer: call.respond(error_code=answer.error))


def _describe(call: Call) -> None:
    groups = [str(group) for group in call.request.groups]

    def told(answers: list[DescribeGroupResponse]) -> None:
        call.respond(groups=[_described(*one) for one in zip(groups, answers, strict=True)])

    call.ask_all([DescribeGroup(group) for group in groups], told)


def _described(group: str, answer: DescribeGroupResponse) -> Values:
    members = [
        {
            "member_id": name,
            "client_id": "",
            "client_host": "",
            "member_metadata": subscription(one.topics),
            "member_assignment": assignment(one.assigned),
        }
        for name, one in answer.members.items()
    ]
    return {
        "error_code": answer.error,
        "group_id": group,
        "group_state": answer.state,
        "protocol_type": CONSUMER if answer.members else "",
        "protocol_data": "",
        "members": members,
    }


def _list(call: Call) -> None:
    """What this broker coordinates: groups with members, those that have only offsets, and share groups."""
    wanted = set(map(str, getattr(call.request, "states_filter", ())))
    found = []
    for loaded in call.node.broker.coordinators.group_log.loaded.values():
        states: dict[str, str] = dict.fromkeys((group for group, _ in loaded.offsets.committed), EMPTY)
        states |= {name: group.state for name, group in loaded.groups.items()}
        states |= {name: group.state for name, group in loaded.committed.items()}
        for name, state in sorted(states.items()):
            if not wanted or state in wanted:
                its = CONSUMER if name in loaded.groups or name in loaded.committed else ""
                found.append({"group_id": name, "protocol_type": its, "group_state": str(state)})
    for name, state in call.node.broker.share_groups.members.states().items():
        if not wanted or state in wanted:
            found.append({"group_id": name, "protocol_type": SHARE, "group_state": state})
    call.respond(groups=found)


def _commit(call: Call) -> None:
    request = call.request
    offsets, epochs = committed(request)
    generation = getattr(request, "generation_id_or_member_epoch", getattr(request, "generation_id", -1))
    names = str(request.group_id), int(generation), str(request.member_id)
    wanted = OffsetCommit(*names, offsets, epochs, newer=call.version >= KNOWS_MEMBER_EPOCHS)
    call.ask(wanted, lambda answer: respond_committed(call, answer))


def _fetch_offsets(call: Call) -> None:
    """Of one group up to version 7, later of several. Without topics: all that the group has committed."""
    request = call.request
    stable = bool(getattr(request, "require_stable", False))
    several = hasattr(request, "groups")
    wanted = []
    for one in request.groups if several else (request,):
        group = str(one.group_id)
        tps = (
            _all_of(call, group) if one.topics is None else numbers_of_topics(one.topics, "partition_indexes")
        )
        member, epoch = getattr(one, "member_id", None) or "", int(getattr(one, "member_epoch", -1))
        wanted.append(OffsetFetch(group, tps, stable, str(member), epoch))

    def told(answers: list[OffsetFetchResponse]) -> None:
        found = [_offsets(asked, answer) for asked, answer in zip(wanted, answers, strict=True)]
        if several:
            call.respond(groups=found)
        else:
            call.respond(**found[0])

    call.ask_all(wanted, told)


def _all_of(call: Call, group: str) -> list[tuple[str, int]]:
    log = call.node.broker.coordinators.group_log
    loaded = log.loaded.get(log.number(group))
    return [tp for its, tp in loaded.offsets.committed if its == group] if loaded is not None else []


def _offsets(asked: OffsetFetch, answer: OffsetFetchResponse) -> Values:
    """An error is the group's, but for an unstable offset, which Kafka says of each partition."""
    unstable = answer.error is KafkaError.UNSTABLE_OFFSET_COMMIT
    parts = (
        (
            tp,
            {
                "partition_index": tp[1],
                "committed_offset": answer.offsets.get(tp, -1),
                "committed_leader_epoch": answer.epochs.get(tp, -1),
                "metadata": "",
                "error_code": answer.error,
            },
        )
        for tp in asked.partitions
    )
    error = 0 if unstable else answer.error
    return {"group_id": asked.group, "topics": in_topics(parts), "error_code": error}


OF_GROUPS: Final[Mapping[str, Api]] = {
    "find_coordinator": Api(0, 3, _find),
    "join_group": Api(0, 3, _join),
    "sync_group": Api(0, 2, _sync),
    "heartbeat": Api(0, 2, _heartbeat),
    "leave_group": Api(0, 2, _leave),
    "describe_groups": Api(0, 5, _describe),
    "list_groups": Api(0, 4, _list),
    "offset_commit": Api(2, KNOWS_MEMBER_EPOCHS, _commit),
    "offset_fetch": Api(1, 9, _fetch_offsets),
}
"""By name. JoinGroup from version 4 on wants member ids before the first join, which the model does not."""
