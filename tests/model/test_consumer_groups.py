"""Consumer groups of KIP-848: epochs, targets, who has what, commits, and what a new coordinator knows.

Each test names the rule of Kafka that it is about, by the method that has it or the test that shows it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.coordinator.consumer_group import ConsumerGroup
from model.coordinator.consumer_group_records import (
    EXPRESSION,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupTombstone,
    MemberState,
)
from model.coordinator.partition_assignors import ranges, uniform
from model.eras import ERAS
from model.errors import KafkaError
from model.protocol.consumer_group_messages import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
)
from model.protocol.coordinator_messages import (
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    TxnOffsetCommit,
)
from model.protocol.messages import Partition
from tests.model.one_broker import OneBroker

NONE, STALE, FENCED = KafkaError.NONE, KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH
UNKNOWN = KafkaError.UNKNOWN_MEMBER_ID
P0, P1, P2 = ("data", 0), ("data", 1), ("data", 2)
TP = (GROUP_TOPIC, java_hash("g") % 3)
SESSION, REBALANCE, APART = 6000, 3000, 1000
FIRST, SECOND, THIRD = 2, 3, 4
"""The first epochs of a group, from that of the first member on (4.3)."""


def join(
    world: OneBroker, name: str, topics: Sequence[str] = ("data",), *, instance: str = "", assignor: str = ""
) -> Any:
    request = ConsumerGroupHeartbeat("g", name, 0, instance, REBALANCE, topics, (), assignor)
    return world.ask(request)


def beat(
    world: OneBroker,
    name: str,
    epoch: int,
    owned: Sequence[Partition] | None = None,
    *,
    topics: Sequence[str] | None = None,
    instance: str = "",
) -> Any:
    return world.ask(ConsumerGroupHeartbeat("g", name, epoch, instance, topics=topics, owned=owned))


def commit(world: OneBroker, name: str, epoch: int, tp: Partition = P0, offset: int = 5) -> KafkaError:
    error: KafkaError = world.ask(OffsetCommit("g", epoch, name, {tp: offset}, newer=True)).error
    return error


def fetch(world: OneBroker, name: str = "", epoch: int = -1, *, stable: bool = True) -> Any:
    return world.ask(OffsetFetch("g", (P0,), stable, name, epoch))


def group(world: OneBroker) -> ConsumerGroup:
    return world.broker.coordinators.group_log.loaded[TP[1]].consumer_groups["g"]


def written(world: OneBroker) -> list[object]:
    return [record for _, _, record in world.broker.node.replicas[TP].log.records()]


def told(answer: ConsumerGroupHeartbeatResponse) -> Any:
    """Epoch and assignment, or the error."""
    return (answer.member_epoch, answer.assignment) if answer.error is NONE else answer.error


def apart(world: OneBroker) -> None:
    """Time for the next assignment."""
    world.run(APART)


def loaded(world: OneBroker) -> None:
    """The coordinator has read its log."""
    world.until(lambda: world.finds("g", group=True) and TP[1] in world.part(group=True).loaded)


def shared(world: OneBroker) -> None:
    """A has P0 and P1, B has P2, both with the second epoch."""
    assert told(join(world, "A")) == (FIRST, (P0, P1, P2))
    apart(world)
    assert told(join(world, "B")) == (SECOND, ())
    assert told(beat(world, "A", FIRST, (P0, P1, P2))) == (FIRST, (P0, P1))
    assert told(beat(world, "A", FIRST, (P0, P1))) == (SECOND, None)
    assert told(beat(world, "B", SECOND, ())) == (SECOND, (P2,))
    assert group(world).state == "Stable"


# ---- membership


@pytest.mark.parametrize(("era", "first"), [("4.2", 1), ("4.3", 2)])
def test_a_group_begins_in_epoch_one_since_4_3(era: str, first: int) -> None:
    """ModernGroup, TargetAssignmentMetadata.INITIAL."""
    world = OneBroker(era=ERAS[era])
    assert told(join(world, "A")) == (first, (P0, P1, P2))
    assert (group(world).epoch, group(world).assignment_epoch) == (first, first)
    world.restart()
    loaded(world)
    assert group(world).epoch == first


def test_a_new_owner_waits_until_the_old_one_has_given_the_partition_up() -> None:
    """GroupMetadataManagerTest.testReconciliationProcess; CurrentAssignmentBuilder."""
    world = OneBroker()
    assert told(join(world, "A")) == (FIRST, (P0, P1, P2))
    apart(world)
    assert told(join(world, "B")) == (SECOND, ())  # P2 is to be B's
    assert group(world).members["B"].state is MemberState.UNRELEASED_PARTITIONS
    assert told(beat(world, "B", SECOND, ())) == (SECOND, None)
    assert told(beat(world, "A", FIRST)) == (FIRST, (P0, P1))  # it does not say what it has
    assert group(world).members["A"].state is MemberState.UNREVOKED_PARTITIONS
    assert told(beat(world, "B", SECOND, ())) == (SECOND, None)
    assert told(beat(world, "A", FIRST, (P0, P1, P2))) == (FIRST, None)
    assert told(beat(world, "B", SECOND, ())) == (SECOND, None)  # A has P2 still
    assert group(world).state == "Reconciling"
    assert told(beat(world, "A", FIRST, (P0, P1))) == (SECOND, None)
    assert told(beat(world, "B", SECOND, ())) == (SECOND, (P2,))
    assert group(world).state == "Stable"


def test_a_member_of_another_epoch_is_fenced() -> None:
    """throwIfConsumerGroupMemberEpochIsInvalid: the epoch before is accepted of a member that has nothing
    beyond its assignment, for the answer with the new one may be lost."""
    world = OneBroker()
    shared(world)
    assert told(beat(world, "A", THIRD, (P0, P1))) is FENCED
    assert told(beat(world, "A", FIRST, (P0, P1, P2))) is FENCED
    assert told(beat(world, "A", FIRST)) is FENCED
    assert told(beat(world, "A", FIRST, (P0,)))[0] == SECOND
    assert told(beat(world, "C", FIRST, ())) is UNKNOWN
    assert told(join(world, "A")) == (SECOND, (P0, P1))  # who was fenced joins again


@pytest.mark.parametrize(("era", "accepted"), [("4.1", False), ("4.2", True)])
def test_a_member_that_is_there_joins_again_since_4_2(era: str, accepted: bool) -> None:
    """throwIfConsumerGroupMemberEpochIsInvalid: before, epoch 0 counts as any other epoch."""
    world = OneBroker(era=ERAS[era])
    assert told(join(world, "A")) == (1, (P0, P1, P2))
    assert beat(world, "A", 0, ()).error is KafkaError.INVALID_REQUEST  # it does not say all
    assert told(join(world, "A")) == (1, (P0, P1, P2))  # the answer to its first request may be lost
    join(world, "B")
    beat(world, "A", 1, (P0, P1))
    beat(world, "A", 1, (P0, P1))
    assert group(world).members["A"].epoch == 2
    assert told(join(world, "A")) == ((2, (P0, P1)) if accepted else FENCED)


def test_a_request_without_what_it_needs_is_refused() -> None:
    """throwIfConsumerGroupHeartbeatRequestIsInvalid."""
    world = OneBroker()
    whole = ConsumerGroupHeartbeat("g", "A", 0, "", REBALANCE, ("data",), ())
    for wrong in (
        ConsumerGroupHeartbeat("g", "A", 0, "", -1, ("data",), ()),
        ConsumerGroupHeartbeat("g", "A", 0, "", REBALANCE, None, ()),
        ConsumerGroupHeartbeat("g", "A", 0, "", REBALANCE, ("data",), None),
        ConsumerGroupHeartbeat("g", "A", 0, "", REBALANCE, ("data",), (P0,)),
        ConsumerGroupHeartbeat("g", "", 0, "", REBALANCE, ("data",), ()),
        ConsumerGroupHeartbeat("", "A", 0, "", REBALANCE, ("data",), ()),
        ConsumerGroupHeartbeat("g", "A", -2),
        ConsumerGroupHeartbeat("g", "A", -3, "i"),
    ):
        assert world.ask(wrong).error is KafkaError.INVALID_REQUEST
    assert join(world, "A", assignor="x").error is KafkaError.UNSUPPORTED_ASSIGNOR
    assert beat(world, "A", FIRST, ()).error is KafkaError.GROUP_ID_NOT_FOUND
    assert beat(world, "A", -1).error is KafkaError.GROUP_ID_NOT_FOUND
    assert world.ask(whole).error is NONE


def test_what_a_member_leaves_the_others_get() -> None:
    """consumerGroupLeave, consumerGroupFenceMembers."""
    world = OneBroker()
    shared(world)
    apart(world)
    assert told(beat(world, "A", -1)) == (-1, None)
    assert told(beat(world, "B", SECOND, (P2,))) == (THIRD, (P0, P1, P2))
    assert told(beat(world, "A", SECOND, (P0, P1))) is UNKNOWN
    assert commit(world, "A", SECOND) is UNKNOWN


def test_a_silent_member_is_removed_after_its_session() -> None:
    """scheduleConsumerGroupSessionTimeout."""
    world = OneBroker()
    shared(world)
    for _ in range(SESSION // 1000):
        world.run(1000)
        beat(world, "B", SECOND, (P2,))
        assert "A" in group(world).members
    world.run(300)
    assert list(group(world).members) == ["B"]
    assert told(beat(world, "B", SECOND, (P2,))) == (THIRD, (P0, P1, P2))


def test_who_does_not_give_up_in_time_is_removed() -> None:
    """scheduleConsumerGroupRebalanceTimeout: heartbeats without it do not suffice."""
    world = OneBroker()
    join(world, "A")
    apart(world)
    join(world, "B")
    beat(world, "A", FIRST, (P0, P1, P2))
    for _ in range(28):
        world.run(100)
        assert told(beat(world, "A", FIRST, (P0, P1, P2))) == (FIRST, None)
    world.run(300)
    assert list(group(world).members) == ["B"]
    assert told(beat(world, "A", FIRST, (P0, P1, P2))) is UNKNOWN


def test_who_gives_up_in_time_is_not_removed() -> None:
    """cancelGroupRebalanceTimeout."""
    world = OneBroker()
    join(world, "A")
    apart(world)
    join(world, "B")
    beat(world, "A", FIRST, (P0, P1, P2))
    world.run(REBALANCE - 500)
    assert told(beat(world, "A", FIRST, (P0, P1))) == (SECOND, None)
    world.run(1000)
    assert list(group(world).members) == ["A", "B"]


def test_a_static_member_comes_back_to_what_it_had() -> None:
    """consumerGroupStaticMemberGroupLeave, replaceMember: no epoch rises, and no partition moves."""
    world = OneBroker()
    assert told(join(world, "A", instance="i")) == (FIRST, (P0, P1, P2))
    apart(world)
    assert join(world, "A2", instance="i").error is KafkaError.UNRELEASED_INSTANCE_ID
    assert beat(world, "B", FIRST, (), instance="i").error is KafkaError.FENCED_INSTANCE_ID
    assert beat(world, "B", -2, instance="i").error is KafkaError.FENCED_INSTANCE_ID
    assert beat(world, "A", FIRST, (), instance="j").error is UNKNOWN
    assert told(beat(world, "A", -2, instance="i")) == (-2, None)
    assert told(join(world, "A2", instance="i")) == (FIRST, (P0, P1, P2))
    assert list(group(world).members) == ["A2"]
    assert group(world).epoch == FIRST
    assert beat(world, "A", FIRST, (), instance="i").error is KafkaError.FENCED_INSTANCE_ID
    assert commit(world, "A", FIRST) is UNKNOWN
    assert commit(world, "A2", FIRST) is NONE


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    """consumerGroupStaticMemberGroupLeave: its session goes on."""
    world = OneBroker()
    join(world, "A", instance="i")
    beat(world, "A", -2, instance="i")
    world.run(SESSION - 500)
    assert list(group(world).members) == ["A"]
    world.run(1000)
    assert group(world).members == {}


def test_a_changed_subscription_is_a_new_epoch() -> None:
    """hasMemberSubscriptionChanged, updateSubscriptionMetadata."""
    world = OneBroker()
    world.create("more", 1)
    shared(world)
    apart(world)
    assert told(beat(world, "A", SECOND, (P0, P1), topics=("data",))) == (SECOND, None)  # it is the same
    assert beat(world, "A", SECOND, (P0, P1), topics=("more", "data")).error is NONE
    assert (group(world).epoch, group(world).assignment_epoch) == (THIRD, THIRD)
    assert ("more", 0) in group(world).targets["A"]
    assert dict(group(world).metadata) == {"data": 3, "more": 1}


def test_new_partitions_are_assigned() -> None:
    """ModernGroup.computeMetadataHash."""
    world = OneBroker()
    assert told(join(world, "A", ("late",))) == (FIRST, ())
    world.create("late", 2)
    apart(world)
    assert told(beat(world, "A", FIRST, ())) == (SECOND, (("late", 0), ("late", 1)))


def test_targets_are_computed_with_a_distance() -> None:
    """canComputeNextTargetAssignment (4.3); before, with every new epoch."""
    for spaced in (False, True):
        world = OneBroker(era=replace(ERAS["4.3"], assignments_spaced=spaced))
        join(world, "A")
        join(world, "B")
        assert (group(world).assignment_epoch == SECOND) is not spaced
        world.run(APART)
        beat(world, "A", FIRST, (P0, P1, P2))
        assert group(world).assignment_epoch == SECOND


# ---- offsets


def test_commits_are_of_members_in_their_epoch() -> None:
    """ConsumerGroup.validateOffsetCommit."""
    world = OneBroker(era=replace(ERAS["4.3"], committed_by_assignment=False))
    assert commit(world, "A", FIRST) is KafkaError.GROUP_ID_NOT_FOUND
    shared(world)
    assert commit(world, "A", SECOND) is NONE
    assert commit(world, "A", FIRST) is STALE
    assert commit(world, "A", THIRD) is STALE
    assert commit(world, "C", SECOND) is UNKNOWN
    assert commit(world, "", -1) is UNKNOWN  # the group has members
    old = OffsetCommit("g", SECOND, "A", {P0: 6})
    assert world.ask(old).error is KafkaError.UNSUPPORTED_VERSION
    assert fetch(world).offsets == {P0: 5}
    beat(world, "A", -1)
    beat(world, "B", -1)
    assert commit(world, "", -1, offset=7) is NONE


def test_commits_of_an_earlier_epoch_count_of_partitions_that_a_member_has_kept() -> None:
    """KIP-1251: ConsumerGroup.createAssignmentEpochValidator."""
    world = OneBroker()
    shared(world)
    assert commit(world, "A", FIRST, P0) is NONE
    assert commit(world, "A", FIRST, P2) is STALE  # it has given that up
    assert commit(world, "B", FIRST, P2) is STALE  # it has had that since the second epoch
    assert commit(world, "B", SECOND, P2) is NONE
    assert commit(world, "A", THIRD, P0) is STALE


def test_commits_in_transactions_are_of_members_in_their_epoch() -> None:
    """OffsetMetadataManager.validateTransactionalOffsetCommit: ILLEGAL_GENERATION says it."""
    world = OneBroker()
    shared(world)
    producer = world.init("t")

    def ask(generation: int, member: str) -> KafkaError:
        request = TxnOffsetCommit(
            "t", "g", producer.producer_id, producer.producer_epoch, {P2: 5}, generation, member
        )
        error: KafkaError = world.ask(request).error
        return error

    assert ask(FIRST, "B") is KafkaError.ILLEGAL_GENERATION
    assert ask(SECOND, "C") is UNKNOWN
    assert ask(SECOND, "B") is NONE
    assert ask(-1, "") is NONE  # who does not say is not asked


def test_offsets_are_fetched_by_members_in_their_epoch() -> None:
    """ConsumerGroup.validateOffsetFetch."""
    world = OneBroker()
    assert fetch(world, "A", FIRST).offsets == {P0: -1}  # no group, no offset
    shared(world)
    assert fetch(world, "A", SECOND).error is NONE
    assert fetch(world, "A", FIRST).error is STALE
    assert fetch(world, "C", SECOND).error is UNKNOWN
    assert fetch(world).error is NONE


# ---- the log


def test_a_new_coordinator_knows_members_targets_and_what_each_has() -> None:
    """The replay of the group's records; GroupMetadataManager.onLoaded."""
    world = OneBroker()
    shared(world)
    apart(world)
    join(world, "C")
    beat(world, "A", SECOND, (P0, P1))
    before = group(world)
    assert before.members["A"].state is MemberState.UNREVOKED_PARTITIONS
    world.restart()
    loaded(world)
    after = group(world)
    assert after is not before
    for what in ("epoch", "metadata", "assignment_epoch", "members", "targets"):
        assert getattr(after, what) == getattr(before, what)
    assert told(beat(world, "C", THIRD, ())) == (THIRD, None)
    assert told(beat(world, "A", SECOND, tuple(after.members["A"].assigned))) == (THIRD, None)
    assert told(beat(world, "C", THIRD, ()))[1] is not None


def test_a_new_coordinator_removes_who_does_not_give_up() -> None:
    """GroupMetadataManager.onLoaded: scheduleConsumerGroupRebalanceTimeout."""
    world = OneBroker()
    join(world, "A")
    apart(world)
    join(world, "B")
    beat(world, "A", FIRST, (P0, P1, P2))
    world.restart()
    loaded(world)
    for _ in range(REBALANCE // 100 + 3):
        world.run(100)
        beat(world, "A", FIRST, (P0, P1, P2))
    assert list(group(world).members) == ["B"]


def test_what_the_log_refuses_has_not_happened() -> None:
    """CoordinatorRuntime: the state goes back to what is written."""
    world = OneBroker(min_isr=2)
    world.lag(TP)
    world.become(TP, isr=(1,))
    assert join(world, "A").error is KafkaError.COORDINATOR_NOT_AVAILABLE
    assert "g" not in world.broker.coordinators.group_log.loaded[TP[1]].consumer_groups
    assert written(world) == []


def test_a_heartbeat_is_answered_when_its_records_are_replicated() -> None:
    """CoordinatorRuntime: so is one without records that comes behind such a one."""
    world = OneBroker()
    join(world, "A")
    world.lag(TP)
    waiting = world.send(ConsumerGroupHeartbeat("g", "B", 0, "", REBALANCE, ("data",), ()))
    behind = world.send(ConsumerGroupHeartbeat("g", "A", FIRST, owned=(P0, P1, P2)))
    assert waiting not in world.replies
    assert behind not in world.replies
    assert fetch(world, "B", 0, stable=False).error is UNKNOWN  # of what is committed
    assert fetch(world, "B", 0).error is STALE  # of what is written
    world.catch_up(TP)
    world.run(100)
    assert (world.replies.pop(waiting).error, world.replies.pop(behind).error) == (NONE, NONE)


def test_what_was_not_replicated_in_time_is_not_told_before_it_is() -> None:
    """DeferredEventQueue keeps an event whose time is over: a heartbeat without records waits for it."""
    world = OneBroker()
    world.ask(ConsumerGroupHeartbeat("g", "A", 0, "", 2 * SESSION, ("data",), ()))
    world.lag(TP)
    again = ConsumerGroupHeartbeat("g", "A", FIRST, owned=(P0, P1, P2))
    too_late, late = (
        world.broker.coordinators.group_log.timeout_ms + 100,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    )
    for request in (ConsumerGroupHeartbeat("g", "B", 0, "", REBALANCE, ("data",), ()), again):
        waiting = world.send(request)
        world.run(too_late)
        assert world.replies.pop(waiting).error is late
    assert world.ask(again).error is late
    world.catch_up(TP)
    world.run(100)
    assert world.ask(again).error is NONE


def test_describe_says_what_is_committed() -> None:
    """ConsumerGroup.asDescribedGroup."""
    world = OneBroker()
    assert world.ask(ConsumerGroupDescribe("g")).error is KafkaError.GROUP_ID_NOT_FOUND
    shared(world)
    answer = world.ask(ConsumerGroupDescribe("g"))
    assert (answer.state, answer.epoch, answer.assignment_epoch, answer.assignor) == (
        "Stable",
        SECOND,
        SECOND,
        "uniform",
    )
    mine = answer.members["A"]
    assert (mine.epoch, mine.topics, mine.assigned, mine.target) == (SECOND, ("data",), (P0, P1), (P0, P1))


@pytest.mark.parametrize(("era", "held"), [("4.2", (P0, P1)), ("4.3", (P0, P1, P2))])
def test_describe_counts_what_is_to_be_given_up_since_4_3(era: str, held: tuple[Partition, ...]) -> None:
    """ConsumerGroupMember.asConsumerGroupDescribeMember."""
    world = OneBroker(era=ERAS[era])
    first = join(world, "A").member_epoch
    apart(world)
    join(world, "B")
    beat(world, "A", first, (P0, P1, P2))
    assert world.ask(ConsumerGroupDescribe("g")).members["A"].assigned == held


# ---- two protocols


def test_a_name_is_of_one_protocol_at_a_time() -> None:
    """maybeDeleteEmptyClassicGroup, maybeDeleteEmptyConsumerGroup."""
    world = OneBroker()
    classic = JoinGroup("g", "", 3000, 5000, ("data",))
    joined = world.ask(classic)
    assert join(world, "A").error is KafkaError.GROUP_ID_NOT_FOUND  # members of the other one are there
    world.ask(LeaveGroup("g", joined.member))
    assert told(join(world, "A")) == (FIRST, (P0, P1, P2))
    assert GroupTombstone("GroupMetadata", "g") in written(world)
    assert world.ask(classic).error is KafkaError.INCONSISTENT_GROUP_PROTOCOL
    beat(world, "A", -1)
    assert world.ask(classic).generation == 1
    world.restart()
    loaded(world)
    assert world.broker.coordinators.group_log.loaded[TP[1]].consumer_groups == {}


def test_eras_before_4_0_have_no_such_groups() -> None:
    world = OneBroker(era=ERAS["3.9"])
    with pytest.raises(AssertionError, match="unknown request"):
        join(world, "A")


# ---- assignors


def test_uniform_is_even_and_moves_as_little_as_it_may() -> None:
    """UniformHomogeneousAssignmentBuilderTest."""
    tps = [("data", n) for n in range(7)]
    one = uniform({"A": tps}, {})
    assert one == {"A": tuple(tps)}
    two = uniform({"A": tps, "B": tps}, one)
    assert two == {"A": tuple(tps[:4]), "B": tuple(tps[4:])}
    three = uniform({"A": tps, "B": tps, "C": tps}, two)
    assert sorted(map(len, three.values())) == [2, 2, 3]
    assert set(three["A"]) <= set(two["A"])
    assert set(three["B"]) <= set(two["B"])
    assert sorted(tp for its in three.values() for tp in its) == tps
    left = uniform({"B": tps, "C": tps}, three)
    assert set(left["B"]) >= set(three["B"])
    assert set(left["C"]) >= set(three["C"])


def test_uniform_of_members_that_want_different_topics() -> None:
    """UniformHeterogeneousAssignmentBuilderTest: each partition has a member that wants it."""
    x, y = [("x", n) for n in range(4)], [("y", n) for n in range(2)]
    given = uniform({"A": x, "B": x + y, "C": y}, {})
    assert sorted(tp for its in given.values() for tp in its) == x + y
    assert set(given["A"]) <= set(x)
    assert set(given["C"]) <= set(y)
    assert sorted(map(len, given.values())) == [2, 2, 2]
    assert uniform({"A": x, "B": x + y, "C": y}, given) == given


def test_ranges_are_neighbours() -> None:
    """RangeAssignor."""
    tps = [("data", n) for n in range(5)]
    assert ranges({"B": tps, "A": tps}, {}) == {"A": tuple(tps[:3]), "B": tuple(tps[3:])}


def test_members_choose_the_assignor() -> None:
    """ConsumerGroup.computePreferredServerAssignor."""
    world = OneBroker()
    join(world, "A", assignor="range")
    assert world.ask(ConsumerGroupDescribe("g")).assignor == "range"


def test_records_are_those_of_the_group() -> None:
    """GroupCoordinatorRecordHelpers: of a join, in Kafka's order."""
    world = OneBroker()
    join(world, "A")
    first, second, *_ = written(world)
    assert first == ConsumerGroupMemberMetadata("g", "A", ("data",), REBALANCE)
    assert second == ConsumerGroupMetadata("g", FIRST, (("data", 3),))
    kinds = [type(record).__name__.removeprefix("ConsumerGroup") for record in written(world)]
    assert kinds[2:] == ["TargetAssignmentMember", "TargetAssignmentMetadata", "CurrentMemberAssignment"]


# ---- expressions


def subscribe(world: OneBroker, name: str, regex: str, epoch: int = 0, topics: Sequence[str] = ()) -> Any:
    owned = () if epoch == 0 else None
    return world.ask(ConsumerGroupHeartbeat("g", name, epoch, "", REBALANCE, topics, owned, regex=regex))


def resolved(world: OneBroker) -> dict[str, tuple[str, ...]]:
    return {regex: found.topics for regex, found in group(world).resolved.items()}


def test_an_expression_is_resolved_behind_the_heartbeat() -> None:
    """maybeUpdateRegularExpressions, handleRegularExpressionsResult: with topics it is a new epoch."""
    world = OneBroker()
    assert told(subscribe(world, "A", "da.a")) == (1, ())
    assert (resolved(world), group(world).state) == ({}, "Stable")
    world.run(100)
    assert resolved(world) == {"da.a": ("data",)}
    assert (group(world).state, group(world).epoch) == ("Assigning", 2)
    assert told(beat(world, "A", 1, ())) == (2, (P0, P1, P2))
    assert world.ask(ConsumerGroupDescribe("g")).members["A"].regex == "da.a"


def test_an_expression_of_no_topic_is_no_new_epoch() -> None:
    world = OneBroker()
    subscribe(world, "A", "dat")  # the whole name has to match
    world.run(100)
    assert resolved(world) == {"dat": ()}
    assert (group(world).state, group(world).epoch) == ("Stable", 1)


def test_before_4_3_the_first_member_is_an_epoch_whatever_it_wants() -> None:
    """consumerGroupHeartbeat (4.2): bumpGroupEpoch = group.groupEpoch() == 0."""
    world = OneBroker(era=ERAS["4.2"])
    assert told(subscribe(world, "A", "dat")) == (1, ())
    assert (group(world).epoch, group(world).assignment_epoch) == (1, 1)


def test_new_topics_are_found_after_ten_seconds() -> None:
    """REGEX_BATCH_REFRESH_MIN_INTERVAL_MS."""
    world = OneBroker()
    subscribe(world, "A", "d.*")
    world.run(200)
    beat(world, "A", 1, ())
    world.create("dot", 1)
    for _ in range(9):
        world.run(1000)
        beat(world, "A", 2, (P0, P1, P2))
        assert resolved(world) == {"d.*": ("data",)}
    world.run(1000)
    beat(world, "A", 2, (P0, P1, P2))
    world.run(100)
    assert resolved(world) == {"d.*": ("data", "dot")}
    assert told(beat(world, "A", 2, (P0, P1, P2))) == (3, (P0, P1, P2, ("dot", 0)))
    records = [one for one in written(world) if isinstance(one, ConsumerGroupRegularExpression)]
    world.run(11_000 // 2)
    beat(world, "A", 3, None)
    world.run(11_000 // 2)
    beat(world, "A", 3, None)
    world.run(100)
    assert records == [one for one in written(world) if isinstance(one, ConsumerGroupRegularExpression)]


def test_an_expression_that_is_known_is_a_new_epoch_at_once() -> None:
    """REGEX_UPDATED_AND_RESOLVED."""
    world = OneBroker()
    subscribe(world, "A", "d.*")
    world.run(100)
    beat(world, "A", 1, ())
    apart(world)
    assert told(subscribe(world, "B", "d.*")) == (3, ())
    assert len(group(world).targets["B"]) == 1


@pytest.mark.parametrize("era", ["4.2", "4.3", "4.4"])
def test_an_expression_that_is_taken_back_is_no_new_epoch(era: str) -> None:
    """ModernGroup.hasMetadataExpired: no topic has changed. The resolver makes the epoch."""
    world = OneBroker(era=ERAS[era])
    subscribe(world, "A", "da.*")
    world.run(200)
    beat(world, "A", 1, ())
    apart(world)
    assert told(beat(world, "A", 2)) == (2, None)
    assert told(subscribe(world, "A", "dat.+", 2)) == (2, ())
    assert told(beat(world, "A", 2, ())) == (2, None)
    assert (group(world).epoch, group(world).assignment_epoch, group(world).state) == (2, 2, "Stable")
    assert group(world).targets["A"] == (P0, P1, P2)
    world.run(100)
    assert (resolved(world), group(world).epoch) == ({"dat.+": ("data",)}, 3)
    apart(world)
    assert told(beat(world, "A", 2, ())) == (3, (P0, P1, P2))


def test_a_topic_that_changes_is_a_new_epoch_once() -> None:
    """onMetadataUpdate, requestMetadataRefresh."""
    world = OneBroker()
    join(world, "A", ("data", "more"))
    world.create("other", 1)
    beat(world, "A", 2)
    assert group(world).epoch == 2
    world.create("more", 1)
    beat(world, "A", 2)
    beat(world, "A", 2)
    assert group(world).epoch == 3


def test_a_new_coordinator_asks_for_topics_once_more() -> None:
    world = OneBroker()
    join(world, "A", ("data", "more"))
    world.create("more", 1)
    world.restart()
    loaded(world)
    beat(world, "A", 2)
    assert group(world).epoch == 3


@pytest.mark.parametrize(
    ("era", "first", "second", "epoch"),
    [
        ("4.3", "uniform", "range", 2),
        ("4.4", "uniform", "range", 3),
        ("4.4", "", "range", 3),
        ("4.4", "", "uniform", 2),
        ("4.4", "range", "", 2),  # "" leaves it as it is
    ],
)
def test_another_assignor_is_a_new_epoch_from_4_4_on(era: str, first: str, second: str, epoch: int) -> None:
    """hasPreferredServerAssignorChanged."""
    world = OneBroker(era=ERAS[era])
    join(world, "A", assignor=first)
    apart(world)
    assert world.ask(ConsumerGroupHeartbeat("g", "A", 2, assignor=second)).member_epoch == epoch
    assert (group(world).epoch, group(world).assignment_epoch) == (epoch, epoch)


def test_who_changes_to_a_name_has_no_expression() -> None:
    world = OneBroker()
    world.create("more", 1)
    subscribe(world, "A", ".o.*|data")
    world.run(200)
    assert told(beat(world, "A", 1, ())) == (2, (P0, P1, P2, ("more", 0)))
    apart(world)
    assert told(subscribe(world, "A", "", 2, ("more",)))[1] == (("more", 0),)
    assert resolved(world) == {}
    assert (group(world).members["A"].regex, group(world).epoch) == ("", 3)


def test_the_last_member_takes_its_expression_along() -> None:
    """maybeDeleteResolvedRegularExpressions."""
    world = OneBroker()
    subscribe(world, "A", "d.*")
    world.run(100)
    subscribe(world, "B", "d.*")
    beat(world, "A", -1)
    assert resolved(world) == {"d.*": ("data",)}
    beat(world, "B", -1)
    assert resolved(world) == {}
    assert GroupTombstone(EXPRESSION, "g", regex="d.*") in written(world)


def test_a_new_coordinator_knows_expressions() -> None:
    world = OneBroker()
    subscribe(world, "A", "d.*")
    world.run(200)
    beat(world, "A", 1, ())
    before = group(world)
    world.restart()
    loaded(world)
    assert group(world) is not before
    assert (group(world).resolved, group(world).members) == (before.resolved, before.members)


@pytest.mark.parametrize("regex", ["(", "a**", "(?=a)", "(?<!a)b", r"(a)\1", "a++", "[[:alpha:]]", "(?>a)"])
def test_what_re2_refuses_is_refused(regex: str) -> None:
    """throwIfRegularExpressionIsInvalid."""
    world = OneBroker()
    assert subscribe(world, "A", regex).error is KafkaError.INVALID_REGULAR_EXPRESSION
    assert TP[1] not in world.broker.coordinators.group_log.loaded or written(world) == []


def test_what_only_looks_like_it_is_not() -> None:
    assert told(subscribe(OneBroker(), "A", r"(?:a+?)[*+]+|x\.\+|[(?=]|\\1")) == (1, ())
