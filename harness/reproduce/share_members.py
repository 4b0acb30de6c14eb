"""A share group gives a member what it should not: members by hand, one request at a time.

librdkafka does not do here: Kafka 4.1 cannot read the ids of half of its members (`unread_id`).
"""

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.share_acknowledge.v1.response import ShareAcknowledgeResponse
from kio.schema.share_fetch.v1.response import ShareFetchResponse
from kio.schema.share_group_heartbeat.v1.response import ShareGroupHeartbeatResponse

from core.op import TopicPartition
from core.presets import SHARE_LIMIT
from core.runtime import run_blocking
from harness.brokers.admin.connection import AdminError, BrokerConnection, check
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import LONG_S, LOOK_S, PAUSE_S, STEP_S, PerformedWait
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.stage import FiveBrokers

ACCEPT: Final = 1
LIMIT: Final = int(SHARE_LIMIT["group.share.delivery.count.limit"])
LOCK_S: Final = 30
"""How long a member holds a record: no lock of a schedule ends in time."""
GIVEN_S: Final = 8.0
"""So long after the first record that a member is given it has all the others that the group has to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedDeliveries:
    """What a schedule left. ended: offsets of records that no member may be given any more. why: they may
    not. given: offsets of what the last member was given."""

    tp: TopicPartition
    ended: frozenset[int]
    why: str
    given: frozenset[int]


@dataclass(slots=True, kw_only=True)
class ShareMember:
    """A member and its session at the leader of one partition."""

    connection: BrokerConnection
    group: str
    tp: TopicPartition
    topic: UUID | None
    id: str = field(default_factory=lambda: urlsafe_b64encode(uuid4().bytes).decode().rstrip("="))
    epoch: int = 0
    """Of its session, in its next request."""

    def fetch(self) -> dict[int, int]:
        """What it is given now, if anything: delivery counts by offset. Raises: AdminError."""
        answer = self.connection.call(
            ShareFetchResponse,
            **self._asked([]),
            max_wait=timedelta(seconds=0.5),
            min_bytes=1,
            max_records=500,
            batch_size=500,
            forgotten_topics_data=[],
        )
        check("ShareFetch", answer.error_code, answer.error_message)
        acquired = [
            one for topic in answer.responses for part in topic.partitions for one in part.acquired_records
        ]
        return {
            offset: int(one.delivery_count)
            for one in acquired
            for offset in range(one.first_offset, one.last_offset + 1)
        }

    def given(self) -> dict[int, int]:
        """What it is given once there is something. Raises: NotYet, AdminError."""
        return until(STEP_S, 0, self.some)

    def some(self) -> dict[int, int]:
        """What it is given now. Raises: NotYet, where that is nothing; AdminError."""
        if not (records := self.fetch()):
            raise NotYet(f"the share group gives nothing of {self.tp}")
        return records

    def accept(self, offsets: Sequence[int]) -> None:
        """Raises: AdminError."""
        batches = [
            {"first_offset": one, "last_offset": one, "acknowledge_types": [ACCEPT]} for one in offsets
        ]
        answer = self.connection.call(ShareAcknowledgeResponse, **self._asked(batches))
        check("ShareAcknowledge", answer.error_code, answer.error_message)
        for topic in answer.responses:
            for part in topic.partitions:
                check("ShareAcknowledge", part.error_code, part.error_message)

    def _asked(self, batches: Sequence[Mapping[str, object]]) -> dict[str, object]:
        part = {"partition_index": self.tp.partition, "acknowledgement_batches": batches}
        self.epoch += 1
        return {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.epoch - 1,
            "topics": [{"topic_id": self.topic, "partitions": [part]}],
        }


def given_back(stage: FiveBrokers, name: str, good: bool) -> PerformedDeliveries:
    """Members are given a record, and die, as often as the limit says. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"acks": -1})
    producer.write(tp, "record")
    _make_group(stage, name)
    for number in range(LIMIT):
        with _member(stage, name, tp, stage.d) as one:
            stage.say(f"member {number} is given {one.given()}, and dies")
    producer.write(tp, "next")
    why = f"{LIMIT} members had been given it, and the limit is {LIMIT}"
    given = _given_to_last(stage, name, tp, stage.d)
    return PerformedDeliveries(tp=tp, ended=frozenset([0]), why=why, given=given)


def read_again(stage: FiveBrokers, name: str, good: bool) -> PerformedDeliveries:
    """A member is given a batch of ten records; it accepts the first five and two in the middle. The
    preferred leader is elected, and reads what is stored. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"acks": -1, "linger.ms": 10_000}, says=False)
    producer.send(tp, *map(str, range(10)))
    producer.wait()
    _make_group(stage, name)
    stage.reorder(tp, (stage.e, stage.d, stage.c))
    accepted = (0, 1, 2, 3, 4, 7, 8)
    with _member(stage, name, tp, stage.d) as first:
        stage.say(f"a member is given {first.given()}")
        first.accept(accepted)
        run_blocking(stage.cluster.elect_preferred([tp]))
        stage.leads(stage.e, tp)
        stage.say(f"it has accepted {accepted}; broker {stage.e} leads")
    given = _given_to_last(stage, name, tp, stage.e)
    why = "another one has accepted them"
    return PerformedDeliveries(tp=tp, ended=frozenset(accepted), why=why, given=given)


def unread_id(stage: FiveBrokers, name: str, good: bool) -> PerformedWait:
    """A member whose id has a slash, as ids that are base64 have, asks for a record again and again. Both
    sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    PlainProducer(stage, {"acks": -1}).write(tp, "record")
    _make_group(stage, name)
    with _member(stage, name, tp, stage.d, first="/") as one:

        def given() -> dict[int, int]:
            try:
                return one.some()
            except AdminError as error:
                one.epoch = 0  # there is no session to continue
                raise NotYet(str(error)) from error

        began = time.monotonic()
        try:
            stage.say(f"member {one.id} is given {until(LONG_S, PAUSE_S, given)}")
        except NotYet as error:
            stage.say(f"member {one.id} is given nothing: {error}")
        return PerformedWait(who=f"the member {one.id}", waited_s=time.monotonic() - began)


def _make_group(stage: FiveBrokers, name: str) -> None:
    """A share group that reads from the beginning. name: of the group."""
    settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": f"{LOCK_S * 1000}"}
    run_blocking(stage.cluster.configure_groups({name: settings}))


@contextmanager
def _member(
    stage: FiveBrokers, group: str, tp: TopicPartition, leader: int, first: str = ""
) -> Iterator[ShareMember]:
    """A member that has joined the group. first: how its id begins. At the end of the block its connection
    closes, as where its process dies. Raises: NotYet, AdminError."""
    with stage.cluster.admin.connect(leader, 2 * STEP_S) as connection:
        topics = connection.call(MetadataResponse, topics=None, allow_auto_topic_creation=False).topics
        topic = next(one.topic_id for one in topics if one.name == tp.topic)
        member = ShareMember(connection=connection, group=group, tp=tp, topic=topic)
        member.id = f"{first}{member.id[len(first) :]}"
        _join(stage, member)
        yield member


def _join(stage: FiveBrokers, member: ShareMember) -> None:
    """Until the coordinator has assigned the partition. Raises: NotYet, AdminError."""
    epoch = 0

    def assigned() -> None:
        nonlocal epoch
        with stage.cluster.admin.connect(stage.d, LOOK_S) as connection:
            found = connection.call(FindCoordinatorResponse, key=member.group, key_type=0)
        if found.error_code != ErrorCode.none:
            raise NotYet(f"FindCoordinator({member.group}): {found.error_code.name.upper()}")
        with stage.cluster.admin.connect(found.node_id, LOOK_S) as connection:
            answer = connection.call(
                ShareGroupHeartbeatResponse,
                group_id=member.group,
                member_id=member.id,
                member_epoch=epoch,
                subscribed_topic_names=[member.tp.topic],
            )
        if answer.error_code != ErrorCode.none:
            raise NotYet(f"ShareGroupHeartbeat: {answer.error_code.name.upper()}")
        epoch = answer.member_epoch
        if answer.assignment is None or not answer.assignment.topic_partitions:
            raise NotYet(f"{member.tp} is not assigned")

    until(STEP_S, PAUSE_S, assigned)


def _given_to_last(stage: FiveBrokers, name: str, tp: TopicPartition, leader: int) -> frozenset[int]:
    """Offsets of what the next member is given."""
    with _member(stage, name, tp, leader) as last:
        found = last.given()
        ends = time.monotonic() + GIVEN_S
        while time.monotonic() < ends:
            found |= last.fetch()
    stage.say(f"the last member is given {found}")
    return frozenset(found)
