"""A modelled member of a group of KIP-848: what it says, gives up and takes, step by step."""

from typing import Any

import pytest

from model.client.client_metadata import BACKOFF_MS, ClientMetadata
from model.client.consumer_membership_manager import ConsumerMembershipManager
from model.client.group_member import ASSIGNED, COMMITTED, LOST, REVOKED
from model.errors import KafkaError
from model.protocol.consumer_group_messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from model.protocol.coordinator_messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
)
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse
from tests.model.one_client import P0, P1, OneClient, metadata

NONE = KafkaError.NONE
EVERY = 500


class World(OneClient):
    """A member whose coordinator is the test."""

    def __init__(self, *bugs: str) -> None:
        self.cluster = ClientMetadata([1, 2])
        self.cluster.answered("metadata", metadata([1, 2]), 0)
        self.member = ConsumerMembershipManager(
            "g", ["t"], self.cluster, "m", 6000, stable=True, bugs=frozenset(bugs)
        )
        super().__init__(self.member)
        self.wait(0)
        self.answer(FindCoordinator, FindCoordinatorResponse(NONE, 1))

    def beat(self) -> ConsumerGroupHeartbeat:
        """What it says: the one heartbeat that is under way."""
        (ask,) = self.of(ConsumerGroupHeartbeat)
        assert isinstance(ask.request, ConsumerGroupHeartbeat)
        return ask.request

    def told(self, epoch: int, *partitions: Partition, assigned: bool = True) -> None:
        assignment = partitions if assigned else None
        self.answer(
            ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse(NONE, "m", epoch, EVERY, assignment)
        )

    def refused(self, error: KafkaError) -> None:
        self.answer(ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse(error))

    def placed(self, **offsets: int) -> None:
        found = {("t", int(name[1:])): at for name, at in offsets.items()}
        self.answer(OffsetFetch, OffsetFetchResponse(NONE, found))

    def news(self) -> list[Any]:
        """Kinds and partitions."""
        return [(news.kind, *news.partitions) for news in self.member.take_news()]


def settled() -> World:
    """A member with both partitions, in epoch 3; no request is under way."""
    world = World()
    world.told(3, P0, P1)
    world.told(3, assigned=False)
    world.placed(p0=5, p1=7)
    assert world.news() == [(ASSIGNED, P0, P1), (COMMITTED, P0, P1)]
    assert world.asked == []
    return world


def test_it_joins_and_says_everything_once() -> None:
    world = World()
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", 0, "", 6000, ("t",), ())
    world.told(3, P0)
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", 3, owned=(P0,))  # at once: it has it now
    (asked,) = world.of(OffsetFetch)
    assert asked.request == OffsetFetch("g", (P0,), True, "m", 3)
    assert world.news() == [(ASSIGNED, P0)]
    world.placed(p0=5)
    assert world.news() == [(COMMITTED, P0)]
    world.told(3, assigned=False)
    assert world.of(ConsumerGroupHeartbeat) == []
    world.wait(EVERY)
    assert world.beat().owned == (P0,)


def test_it_has_partitions_until_the_application_gives_them_up() -> None:
    world = settled()
    world.wait(EVERY)
    world.told(3, P0)
    world.wait(EVERY)
    assert world.beat().owned == (P0, P1)
    assert world.news() == [(REVOKED, P1)]
    world.told(3, assigned=False)
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", 3, owned=(P0,))  # at once
    world.told(4, assigned=False)
    assert world.member.generation == 4
    assert world.news() == []  # P0 is as it was


def test_what_it_is_to_have_again_it_gives_up_first() -> None:
    """Its positions in what it was to give up are gone with its poll: it asks anew."""
    world = settled()
    world.wait(EVERY)
    world.told(3, P0)
    world.wait(EVERY)
    world.told(3, P0, P1)
    assert world.news() == [(REVOKED, P1)]
    assert world.of(OffsetFetch)[0].request.partitions == (P1,)  # type: ignore[attr-defined]
    assert world.news() == [(ASSIGNED, P1)]
    world.placed(p1=9)
    assert world.news() == [(COMMITTED, P1)]


@pytest.mark.parametrize("error", [KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID])
def test_who_is_fenced_gives_everything_up_and_joins_again(error: KafkaError) -> None:
    world = settled()
    world.wait(EVERY)
    world.refused(error)
    world.wait(EVERY)
    assert world.asked == []  # until the application knows
    assert world.news() == [(LOST, P0, P1)]
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", 0, "", 6000, ("t",), ())


def test_with_the_planted_bug_who_is_fenced_gives_nothing_up() -> None:
    world = World("fenced-member-keeps-partitions")
    world.told(3, P0)
    world.news()
    world.placed(p0=5)
    world.news()
    world.wait(EVERY)
    world.refused(KafkaError.UNKNOWN_MEMBER_ID)
    world.wait(BACKOFF_MS)
    assert world.news() == [(LOST,)]
    world.wait(0)
    assert world.beat().member_epoch == 0


def test_an_answer_to_what_it_said_before_it_joined_again_is_nothing_to_it() -> None:
    world = World()
    world.told(3, P0)
    world.news()
    world.answer(OffsetFetch, OffsetFetchResponse(KafkaError.UNKNOWN_MEMBER_ID))
    assert world.news() == [(LOST, P0)]
    world.wait(BACKOFF_MS)
    old, new = world.of(ConsumerGroupHeartbeat)
    assert (old.request.member_epoch, new.request.member_epoch) == (3, 0)  # type: ignore[attr-defined]
    world.answer(old, ConsumerGroupHeartbeatResponse(NONE, "m", 3, EVERY, None))
    world.answer(new, ConsumerGroupHeartbeatResponse(NONE, "m", 4, EVERY, (P0,)))
    assert (world.member.generation, world.news()) == (4, [(ASSIGNED, P0)])


def test_after_a_heartbeat_without_an_answer_it_says_everything() -> None:
    """The answer that is missing may have had a new epoch and another assignment."""
    world = settled()
    world.wait(EVERY)
    world.answer(ConsumerGroupHeartbeat, None)
    world.wait(BACKOFF_MS)
    world.answer(FindCoordinator, FindCoordinatorResponse(NONE, 2))
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", 3, "", 6000, ("t",), (P0, P1))


def test_an_older_answer_about_offsets_tells_of_other_partitions() -> None:
    world = World()
    world.told(3, P0)
    old = world.of(OffsetFetch)[0]
    world.told(4, P0, P1)
    (new,) = [ask for ask in world.of(OffsetFetch) if ask is not old]
    world.answer(old, OffsetFetchResponse(NONE, {P0: 5}))
    assert world.news() == [(ASSIGNED, P0), (ASSIGNED, P1)]
    world.answer(new, OffsetFetchResponse(NONE, {P0: 5, P1: 6}))
    assert world.news() == [(COMMITTED, P0, P1)]


def test_commits_are_of_its_epoch() -> None:
    world = settled()
    number = world.member.commit({P0: 6})
    (ask,) = world.of(OffsetCommit)
    assert ask.request == OffsetCommit("g", 3, "m", {P0: 6}, newer=True)
    world.answer(ask, ErrorResponse(KafkaError.STALE_MEMBER_EPOCH))
    assert world.member.commits == {number: "STALE_MEMBER_EPOCH"}


def test_who_leaves_says_so_once() -> None:
    world = settled()
    world.member.leave()
    assert world.beat() == ConsumerGroupHeartbeat("g", "m", -1)
    world.wait(EVERY * 3)
    assert len(world.asked) == 1
