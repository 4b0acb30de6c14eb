"""What brokers serve to members of share groups (KIP-932): as coordinators of groups, and as leaders.

A session is kept by the broker: a request names only the partitions that are new in it, or that it leaves.
The model's requests have all of them, which the model knows from the session's last one.

Acquire mode `record_limit` (KIP-1206) is refused: the model acquires whole batches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from harness.modelled.real.encoded.records import fetched
from harness.modelled.real.serving.api_call import Api, Call
from harness.modelled.real.serving.topic_ids import UNKNOWN_TOPIC_ID, id_of, names, with_ids
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.payloads import Message
from harness.protocol.topics import by_topic, in_topics
from model.eras import Era
from model.errors import KafkaError
from model.protocol.messages import Partition
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    DescribeShareGroupOffsets,
    DescribeShareGroupOffsetsResponse,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetch,
    ShareFetchResponse,
    ShareGroupDescribe,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResponse,
)

RECORD_LIMIT: Final = 1
"""A mode of acquiring."""
LONGEST_ID: Final = 36
"""Characters of a member's id."""
FIRST: Final = 0
"""Session epoch of the first request of a session."""
RENEWED_IN: Final = 2
"""Version of ShareFetch and of ShareAcknowledge that can renew locks (KIP-1222)."""


def _heartbeat(call: Call) -> None:
    request = call.request
    topics = tuple(map(str, request.subscribed_topic_names or ()))
    wanted = ShareGroupHeartbeat(
        str(request.group_id), str(request.member_id), int(request.member_epoch), topics
    )

    def told(answer: ShareGroupHeartbeatResponse) -> None:
        stays = answer.error == KafkaError.NONE and wanted.member_epoch >= 0
        call.respond(
            error_code=answer.error,
            member_id=wanted.member,
            member_epoch=answer.member_epoch,
            heartbeat_interval=timedelta(milliseconds=answer.heartbeat_ms),
            assignment={"topic_partitions": with_ids(call, answer.partitions)} if stays else None,
        )

    call.ask(wanted, told)


# ---- leaders


def _fetch(call: Call) -> None:
    request = call.request
    named = _NamedPartitions(call)
    if why := _refused(call, named):
        call.respond(error_code=KafkaError.INVALID_REQUEST, error_message=why)
        return
    renews = bool(getattr(request, "is_renew_ack", False))  # it brings no record
    wanted = ShareFetch(
        str(request.group_id),
        str(request.member_id),
        int(request.share_session_epoch),
        _session(call, named),
        named.said,
        0 if renews else milliseconds(request.max_wait),
        0 if renews else int(request.max_records),
    )

    def brought(answer: ShareFetchResponse) -> None:
        told = {tp: SharedPartition(KafkaError.NONE, KafkaError.NONE) for tp in named.said}
        parts = {} if answer.error else {**told, **answer.parts}
        for tp, error in {} if answer.error else named.wrong.items():
            part = parts.get(tp, SharedPartition(KafkaError.NONE, error))
            parts[tp] = part._replace(acknowledge_error=error)
        found = [(tp, _brought(call, tp, part)) for tp, part in parts.items()]
        call.respond(
            error_code=answer.error,
            acquisition_lock_timeout=timedelta(milliseconds=call.node.settings.share_lock_ms),
            responses=_by_id(call, found, [] if answer.error else named.strangers),
            node_endpoints=_leaders(call, (tp for tp, part in parts.items() if _elsewhere(part.error))),
        )

    call.ask(wanted, brought)


def _refused(call: Call, named: "_NamedPartitions") -> str:
    """Why a fetch is refused, "" = it is not."""
    request = call.request
    if why := _nameless(call):
        return why
    if request.share_session_epoch == FIRST and (named.said or named.wrong):
        return "acknowledgements in the first request of a session"
    if getattr(request, "share_acquire_mode", 0) == RECORD_LIMIT:
        return "acquire mode record_limit is not served"
    return ""


def _nameless(call: Call) -> str:
    """Why a request of a session is refused that names no group or no member (`KafkaApis.isMemberIdValid`),
    "" = it names both."""
    request = call.request
    if request.group_id is None:
        return "no group id"
    return "" if request.member_id and len(request.member_id) <= LONGEST_ID else "no valid member id"


def _session(call: Call, named: "_NamedPartitions") -> tuple[Partition, ...]:
    """All partitions of a member's session, after this request."""
    request, known = call.request, call.node.broker.share_groups.leader.sessions
    session = known.get((str(request.group_id), str(request.member_id)))
    before = session.partitions if session is not None and request.share_session_epoch != FIRST else ()
    left = {
        (named.topics.get(one.topic_id), int(number))
        for one in request.forgotten_topics_data
        for number in one.partitions
    }
    return tuple(tp for tp in dict.fromkeys([*before, *named.partitions]) if tp not in left)


def _brought(call: Call, tp: Partition, part: SharedPartition) -> Values:
    node = call.node
    era, wall_ms = node.settings.era, node.given.wall_ms
    acquired = [
        {"first_offset": one.first, "last_offset": one.last, "delivery_count": one.times}
        for one in part.acquired
    ]
    return {
        "partition_index": tp[1],
        "error_code": part.error,
        "acknowledge_error_code": part.acknowledge_error,
        "current_leader": _leader(call, tp, part.error),
        "records": b"".join(fetched(batch, era, wall_ms) for batch in part.batches),
        "acquired_records": acquired,
    }


def _acknowledge(call: Call) -> None:
    request = call.request
    named = _NamedPartitions(call)
    if why := _nameless(call):
        call.respond(error_code=KafkaError.INVALID_REQUEST, error_message=why)
        return
    epoch = int(request.share_session_epoch)
    wanted = ShareAcknowledge(str(request.group_id), str(request.member_id), epoch, named.said)

    def done(answer: ShareAcknowledgeResponse) -> None:
        parts = {} if answer.error else {**answer.parts, **named.wrong}
        found = [
            (tp, {"partition_index": tp[1], "error_code": error, "current_leader": _leader(call, tp, error)})
            for tp, error in parts.items()
        ]
        call.respond(
            error_code=answer.error,
            acquisition_lock_timeout=timedelta(milliseconds=call.node.settings.share_lock_ms),
            responses=_by_id(call, found, [] if answer.error else named.strangers),
            node_endpoints=_leaders(call, (tp for tp, error in parts.items() if _elsewhere(error))),
        )

    call.ask(wanted, done)


class _NamedPartitions:
    """What a request says of partitions. `topics`: names of all, by id. `partitions` that it names. `said` of
    their records; `wrong`: what is not an acknowledgement, by partition. `strangers`: of topics that this
    broker does not know."""

    def __init__(self, call: Call) -> None:
        request = call.request
        self.topics = names(call)
        self.partitions: list[Partition] = []
        self.said: dict[Partition, Sequence[AcknowledgementBatch]] = {}
        self.wrong: dict[Partition, KafkaError] = {}
        self.strangers: list[tuple[UUID | None, int]] = []
        for topic in request.topics:
            for one in topic.partitions:
                if topic.topic_id not in self.topics:
                    self.strangers.append((topic.topic_id, int(one.partition_index)))
                    continue
                tp = self.topics[topic.topic_id], int(one.partition_index)
                self.partitions.append(tp)
                self._hear(call, tp, one.acknowledgement_batches)

    def _hear(self, call: Call, tp: Partition, batches: Sequence[Message]) -> None:
        """As `KafkaApis.validateAcknowledgementBatches`."""
        most = AcknowledgeType.REJECT
        if getattr(call.request, "is_renew_ack", False):
            most = AcknowledgeType.RENEW
        said: list[AcknowledgementBatch] = []
        end = -1
        for batch in batches:
            first, last, types = int(batch.first_offset), int(batch.last_offset), batch.acknowledge_types
            whole = 0 <= first <= last and end <= first and len(types) in (1, last - first + 1)
            if not whole or not all(AcknowledgeType.GAP <= kind <= most for kind in types):
                self.wrong[tp] = KafkaError.INVALID_REQUEST
                return
            said += _runs(first, last, types)
            end = last
        if said:
            self.said[tp] = said


def _runs(first: int, last: int, types: Sequence[int]) -> Iterator[AcknowledgementBatch]:
    """A batch has one type for all of its offsets, or one for each."""
    if len(types) == 1:
        yield AcknowledgementBatch(first, last, AcknowledgeType(types[0]))
        return
    for offset, kind in enumerate(types, first):
        yield AcknowledgementBatch(offset, offset, AcknowledgeType(kind))


def _by_id(
    call: Call, found: Iterable[tuple[Partition, Values]], strangers: Iterable[tuple[UUID | None, int]]
) -> list[Values]:
    """Answers of partitions in topics with their ids."""
    topics: list[Values] = [
        {"topic_id": id_of(call, topic), "partitions": parts} for topic, parts in by_topic(found).items()
    ]
    for topic_id, number in strangers:
        part = {"partition_index": number, "error_code": UNKNOWN_TOPIC_ID, "acknowledge_error_code": 0}
        topics.append({"topic_id": topic_id, "partitions": [part]})
    return topics


def _elsewhere(error: KafkaError) -> bool:
    return error is KafkaError.NOT_LEADER_OR_FOLLOWER


def _leader(call: Call, tp: Partition, error: KafkaError) -> Values:
    """Who leads a partition that this broker does not lead."""
    state = call.node.broker.node.image.partitions.get(tp) if _elsewhere(error) else None
    return {} if state is None else {"leader_id": state.leader, "leader_epoch": state.leader_epoch}


def _leaders(call: Call, tps: Iterable[Partition]) -> list[Values]:
    """Where the leaders of partitions are reached."""
    partitions = call.node.broker.node.image.partitions
    leaders = {partitions[tp].leader for tp in tps if tp in partitions}
    return [
        {"node_id": node, "host": address.host, "port": address.port}
        for node, address in sorted(call.addresses.items())
        if node in leaders
    ]


# ---- administrators


def _describe(call: Call) -> None:
    groups = [str(group) for group in call.request.group_ids]

    def told(answers: list[ShareGroupDescribeResponse]) -> None:
        call.respond(groups=[_described(call, *one) for one in zip(groups, answers, strict=True)])

    call.ask_all([ShareGroupDescribe(group) for group in groups], told)


def _described(call: Call, group: str, answer: ShareGroupDescribeResponse) -> Values:
    members = [
        {
            "member_id": name,
            "member_epoch": one.epoch,
            "client_id": "",
            "client_host": "",
            "subscribed_topic_names": one.topics,
            "assignment": {"topic_partitions": with_ids(call, one.assigned)},
        }
        for name, one in answer.members.items()
    ]
    return {
        "error_code": answer.error,
        "group_id": group,
        "group_state": answer.state or ("Dead" if answer.error is KafkaError.GROUP_ID_NOT_FOUND else ""),
        "group_epoch": answer.epoch,
        "assignment_epoch": answer.epoch,
        "assignor_name": "simple",
        "members": members,
    }


def _offsets(call: Call) -> None:
    groups = call.request.groups
    wanted = [
        DescribeShareGroupOffsets(
            str(group.group_id),
            [(str(t.topic_name), int(n)) for t in group.topics or () for n in t.partitions],
        )
        for group in groups
    ]

    def told(answers: list[DescribeShareGroupOffsetsResponse]) -> None:
        call.respond(
            groups=[
                {"group_id": one.group, "error_code": answer.error, "topics": _stands(call, answer)}
                for one, answer in zip(wanted, answers, strict=True)
            ]
        )

    call.ask_all(wanted, told)


def _stands(call: Call, answer: DescribeShareGroupOffsetsResponse) -> list[Values]:
    found = (
        (tp, {"partition_index": tp[1], "start_offset": start, "leader_epoch": -1, "error_code": error})
        for tp, (error, start) in answer.parts.items()
    )
    return [
        {**topic, "topic_id": id_of(call, str(topic["topic_name"]))}
        for topic in in_topics(found, name="topic_name")
    ]


_ALL: Final[Mapping[str, Api]] = {
    "share_group_heartbeat": Api(1, 1, _heartbeat),
    "share_group_describe": Api(1, 1, _describe),
    "share_fetch": Api(1, 2, _fetch),
    "share_acknowledge": Api(1, 2, _acknowledge),
    "describe_share_group_offsets": Api(0, 0, _offsets),
}


def of_share_groups(era: Era) -> Mapping[str, Api]:
    """By name; none in an era without share groups."""
    if not era.share_groups:
        return {}
    if era.share_locks_renewed:
        return _ALL
    return {name: api._replace(last=min(api.last, RENEWED_IN - 1)) for name, api in _ALL.items()}
