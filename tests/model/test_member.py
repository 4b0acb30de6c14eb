"""A modelled member of a group: what it goes on saying while it waits for something."""

import pytest

from model.client.client_metadata import ClientMetadata
from model.client.consumer_coordinator import HEARTBEAT_MS, ConsumerCoordinator
from model.client.group_member import ASSIGNED, COMMITTED, LOST, REVOKED
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    FindCoordinatorResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse
from tests.model.one_client import P0, P1, OneClient, metadata

NONE = KafkaError.NONE


class World(OneClient):
    """A member whose coordinator is the test."""

    def __init__(self) -> None:
        self.cluster = ClientMetadata([1, 2])
        self.cluster.answered("metadata", metadata([1, 2]), 0)
        self.member = ConsumerCoordinator("g", ["t"], self.cluster, 6000, stable=True)
        super().__init__(self.member)
        self.wait(0)
        self.member.answered("find group g", FindCoordinatorResponse(NONE, 1), self.now)

    def joins(self, generation: int, *partitions: Partition) -> None:
        self.answer(JoinGroup, JoinGroupResponse(NONE, generation, "m", "other"))
        self.answer(SyncGroup, SyncGroupResponse(NONE, partitions))

    def news(self) -> list[str]:
        return [news.kind for news in self.member.take_news()]


def test_heartbeats_go_on_while_committed_offsets_are_asked_for() -> None:
    world = World()
    world.joins(1, P0)
    beats = 0
    for _ in range(4):
        (beat,) = world.of(Heartbeat)
        assert beat.request == Heartbeat("g", 1, "m")
        world.answer(Heartbeat, ErrorResponse(NONE))
        beats += 1
        # A transaction holds the offsets: the member asks again and again.
        world.answer(OffsetFetch, OffsetFetchResponse(KafkaError.UNSTABLE_OFFSET_COMMIT))
        assert world.of(Heartbeat) == []
        world.wait(HEARTBEAT_MS)
    assert beats == 4
    assert world.news() == [ASSIGNED]


@pytest.mark.parametrize(
    ("error", "kind", "member"),
    [
        (KafkaError.REBALANCE_IN_PROGRESS, REVOKED, "m"),
        (KafkaError.ILLEGAL_GENERATION, LOST, "m"),
        (KafkaError.UNKNOWN_MEMBER_ID, LOST, ""),
    ],
)
def test_a_heartbeat_ends_the_question_for_offsets(error: KafkaError, kind: str, member: str) -> None:
    world = World()
    world.joins(1, P0)
    world.answer(Heartbeat, ErrorResponse(error))
    world.answer(OffsetFetch, OffsetFetchResponse(NONE, {P0: 7}))
    assert world.news() == [ASSIGNED, kind]
    assert world.member.partitions == ()
    (join,) = world.of(JoinGroup)
    assert isinstance(join.request, JoinGroup)
    assert join.request.member == member


def test_an_answer_about_the_assignment_before_is_not_taken() -> None:
    world = World()
    world.joins(1, P0)
    (old,) = world.of(OffsetFetch)
    world.answer(Heartbeat, ErrorResponse(KafkaError.REBALANCE_IN_PROGRESS))
    world.news()
    world.joins(2, P1)
    _, new = world.of(OffsetFetch)
    assert isinstance(new.request, OffsetFetch)
    assert new.request.partitions == (P1,)
    assert new.channel.split(" ")[0] == old.channel.split(" ")[0], "the same connection"
    world.answer(OffsetFetch, OffsetFetchResponse(NONE, {P0: 7}))
    assert world.news() == [ASSIGNED]
    world.answer(OffsetFetch, OffsetFetchResponse(NONE, {P1: 3}))
    (committed,) = world.member.take_news()
    assert (committed.kind, committed.offsets) == (COMMITTED, {P1: 3})


def test_leader_epochs_come_with_the_offsets() -> None:
    world = World()
    world.joins(1, P0)
    world.answer(OffsetFetch, OffsetFetchResponse(NONE, {P0: 7}, {P0: 3}))
    assert world.news() == [ASSIGNED, COMMITTED]
    assert world.cluster.leaders[P0] == (-1, 3)
    assert world.cluster.leaders[P1] == (1, 0)
