"""The group coordinator: rebalances, generations, committed offsets, offsets in transactions."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.coordinator.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from model.eras import ERAS
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
    TxnMarker,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from model.protocol.messages import Partition
from model.replication.node import ignore
from tests.model.one_broker import OneBroker

NONE = KafkaError.NONE
P0, P1, P2 = ("data", 0), ("data", 1), ("data", 2)
TP = (GROUP_TOPIC, java_hash("g") % 3)


def join(member: str = "", session: int = 3000, rebalance: int = 5000) -> JoinGroup:
    return JoinGroup("g", member, session, rebalance, ("data",))


def sync(joined: Any, assignments: Mapping[str, Sequence[Partition]] | None = None) -> SyncGroup:
    return SyncGroup("g", joined.generation, joined.member, assignments or {})


def beat(world: OneBroker, joined: Any) -> KafkaError:
    error: KafkaError = world.ask(Heartbeat("g", joined.generation, joined.member)).error
    return error


def commit(world: OneBroker, joined: Any, **offsets: int) -> KafkaError:
    generation, member = (joined.generation, joined.member) if joined is not None else (-1, "")
    parts = {("data", int(name[1:])): offset for name, offset in offsets.items()}
    error: KafkaError = world.ask(OffsetCommit("g", generation, member, parts)).error
    return error


def commit_in_transaction(
    world: OneBroker, producer: Any, joined: Any, offsets: Mapping[Partition, int]
) -> KafkaError:
    generation, member = (joined.generation, joined.member) if joined is not None else (-1, "")
    pid, epoch = producer.producer_id, producer.producer_epoch
    if world.settings.era.client_transaction_version < 2:
        assert world.ask(AddOffsetsToTxn("t", pid, epoch, "g")).error is NONE
    request = TxnOffsetCommit("t", "g", pid, epoch, offsets, generation, member)
    error: KafkaError = world.ask(request).error
    return error


def fetched(world: OneBroker, *partitions: Partition, stable: bool = True) -> Any:
    answer = world.ask(OffsetFetch("g", partitions, stable))
    return answer.error if answer.error is not NONE else list(answer.offsets.values())


def alone(world: OneBroker) -> Any:
    """One member, in a stable group, with all partitions."""
    joined = world.ask(join())
    answer = world.ask(sync(joined, {joined.member: (P0, P1, P2)}))
    assert (answer.error, answer.partitions) == (NONE, (P0, P1, P2))
    return joined


def joined_by_another(world: OneBroker, first: Any) -> tuple[Any, Any, int]:
    """A second member comes; both join the next generation, and its SyncGroup waits."""
    waiting = world.send(join())
    assert waiting not in world.replies
    assert beat(world, first) is KafkaError.REBALANCE_IN_PROGRESS
    joined = world.ask(join(first.member))
    other = world.replies.pop(waiting)
    follower = world.send(sync(other))
    assert follower not in world.replies  # it waits for the leader's assignment
    return joined, other, follower


def two(world: OneBroker, first: Any) -> tuple[Any, Any]:
    """A second member comes, and both have their parts."""
    joined, other, follower = joined_by_another(world, first)
    mine = world.ask(sync(joined, {joined.member: (P0, P1), other.member: (P2,)}))
    assert (mine.partitions, world.replies.pop(follower).partitions) == ((P0, P1), (P2,))
    return joined, other


# ---- membership


def test_two_members_share_the_partitions() -> None:
    world = OneBroker()
    first = alone(world)
    assert (first.error, first.generation, first.leader) == (NONE, 1, first.member)
    joined, other = two(world, first)
    assert (joined.generation, other.generation) == (2, 2)
    assert set(joined.members) == {first.member, other.member}
    assert other.members == {}  # only the leader is told of the others
    assert other.leader == first.member
    assert (beat(world, joined), beat(world, other)) == (NONE, NONE)
    assert beat(world, first) is KafkaError.ILLEGAL_GENERATION
    # A request that is sent again is answered with the same.
    assert world.ask(sync(other)).partitions == (P2,)
    assert world.ask(join(other.member)).generation == 2


def test_a_silent_member_is_thrown_out_and_the_rest_goes_on() -> None:
    world = OneBroker()
    joined, other = two(world, alone(world))
    for _ in range(31):
        world.run(100)
        error = beat(world, joined)
    assert error is KafkaError.REBALANCE_IN_PROGRESS
    again = world.ask(join(joined.member))
    assert (again.generation, list(again.members)) == (3, [joined.member])
    assert beat(world, other) is KafkaError.UNKNOWN_MEMBER_ID
    assert commit(world, other, p2=7) is KafkaError.UNKNOWN_MEMBER_ID
    assert world.ask(join(other.member)).error is KafkaError.UNKNOWN_MEMBER_ID
    assert world.ask(sync(other)).error is KafkaError.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_members_no_longer_than_their_rebalance_timeout() -> None:
    world = OneBroker()
    first = alone(world)
    waiting = world.send(join(session=3000))  # it is not silent: it waits
    for _ in range(48):
        world.run(100)
        assert beat(world, first) is KafkaError.REBALANCE_IN_PROGRESS  # alive, but does not join
    assert waiting not in world.replies
    world.run(300)
    answer = world.replies.pop(waiting)
    assert (answer.generation, list(answer.members)) == (2, [answer.member])


def test_who_does_not_bring_or_fetch_an_assignment_is_thrown_out() -> None:
    world = OneBroker()
    first = alone(world)
    waiting = world.send(join(session=30_000))
    world.ask(join(first.member, session=30_000))  # the leader, who then stops
    other = world.replies.pop(waiting)
    follower = world.send(sync(other))
    world.run(5200)
    assert world.replies.pop(follower).error is KafkaError.REBALANCE_IN_PROGRESS
    again = world.ask(join(other.member))
    assert (again.generation, again.leader) == (3, other.member)


def test_a_member_that_leaves_does_not_keep_others_waiting() -> None:
    world = OneBroker()
    joined, other = two(world, alone(world))
    assert world.ask(LeaveGroup("g", joined.member)).error is NONE
    assert beat(world, other) is KafkaError.REBALANCE_IN_PROGRESS
    again = world.ask(join(other.member))
    assert (again.generation, again.leader) == (3, other.member)
    assert world.ask(LeaveGroup("g", joined.member)).error is KafkaError.UNKNOWN_MEMBER_ID
    assert world.ask(LeaveGroup("g", other.member)).error is NONE
    number = TP[1]
    group = world.broker.coordinators.group_log.loaded[number].groups["g"]
    assert (group.state, group.generation) == (ClassicGroupState.EMPTY, 4)
    world.restart()
    assert world.ask(join()).generation == 5  # also of an empty group: an old member never fits


def test_a_member_that_leaves_while_it_waits_for_its_assignment_is_not_answered() -> None:
    """GroupCoordinator.removeMemberAndUpdateGroup, GroupMetadataManager.removeMemberAndUpdateClassicGroup."""
    world = OneBroker()
    first = alone(world)
    joined, other, follower = joined_by_another(world, first)
    assert world.ask(LeaveGroup("g", other.member)).error is NONE
    assert beat(world, joined) is KafkaError.REBALANCE_IN_PROGRESS
    assert world.ask(join(joined.member)).generation == 3
    assert follower not in world.replies


def test_a_newcomer_in_the_middle_of_a_rebalance_begins_another() -> None:
    world = OneBroker()
    first = alone(world)
    joined, other, follower = joined_by_another(world, first)
    third = world.send(join())
    assert world.replies.pop(follower).error is KafkaError.REBALANCE_IN_PROGRESS
    assert world.ask(sync(joined)).error is KafkaError.REBALANCE_IN_PROGRESS
    one, two_ = world.send(join(first.member)), world.send(join(other.member))
    assert [world.replies[n].generation for n in (one, two_, third)] == [3, 3, 3]


def test_an_assignment_that_was_overtaken_by_a_rebalance_is_not_answered() -> None:
    world = OneBroker()
    joined = world.ask(join())
    world.lag(TP)
    leader = world.send(sync(joined, {joined.member: (P0,)}))
    waiting = world.send(join())
    assert world.replies.pop(leader).error is KafkaError.REBALANCE_IN_PROGRESS
    world.catch_up(TP)
    assert beat(world, joined) is KafkaError.REBALANCE_IN_PROGRESS
    assert waiting not in world.replies


def test_commits_are_signs_of_life() -> None:
    world = OneBroker()
    joined = alone(world)
    for n in range(8):
        world.run(1000)
        assert commit(world, joined, p0=n) is NONE


@pytest.mark.parametrize("era", ["3.9", "4.4"])
def test_a_commit_in_a_transaction_is_none(era: str) -> None:
    """Nor is one that is refused."""
    world = OneBroker(era=ERAS[era])
    joined, producer = alone(world), world.init()
    world.run(2000)
    assert commit_in_transaction(world, producer, joined, {P0: 9}) is NONE
    assert commit(world, joined, p0=1) is NONE
    world.run(2000)
    assert commit_in_transaction(world, producer, joined, {P0: 9}) is NONE
    world.run(1200)
    assert beat(world, joined) is KafkaError.UNKNOWN_MEMBER_ID  # 3 s after its last commit outside
    world = OneBroker(era=ERAS[era])
    _, other, _ = joined_by_another(world, alone(world))
    world.run(2000)
    assert commit(world, other, p0=1) is KafkaError.REBALANCE_IN_PROGRESS
    world.run(1200)
    assert commit(world, other, p0=1) is KafkaError.UNKNOWN_MEMBER_ID


def test_sessions_have_a_least_length() -> None:
    answer = OneBroker().ask(join(session=999))
    assert answer.error is KafkaError.INVALID_SESSION_TIMEOUT


def test_an_assignment_is_answered_once_it_is_replicated() -> None:
    world = OneBroker()
    joined = world.ask(join())
    world.lag(TP)
    number = world.send(sync(joined, {joined.member: (P0,)}))
    assert number not in world.replies
    world.catch_up(TP)
    assert world.replies[number].partitions == (P0,)


# ---- offsets


def test_the_newest_offset_of_a_partition_counts() -> None:
    world = OneBroker()
    joined = alone(world)
    assert fetched(world, P0, P1) == [-1, -1]
    assert commit(world, joined, p0=5, p1=1) is NONE
    assert commit(world, joined, p0=8) is NONE
    assert fetched(world, P0, P1) == [8, 1]
    world.restart()
    assert fetched(world, P0, P1) == [8, 1]


def test_only_the_present_generation_commits() -> None:
    world = OneBroker()
    first = alone(world)
    joined, other = two(world, first)
    assert commit(world, first, p0=3) is KafkaError.ILLEGAL_GENERATION
    assert commit(world, joined, p0=4) is NONE
    assert commit(world, None, p0=9) is KafkaError.UNKNOWN_MEMBER_ID
    assert fetched(world, P0) == [4]
    third = world.send(join())
    assert commit(world, other, p2=6) is NONE  # while others join, it commits what it has done
    one, more = world.send(join(joined.member)), world.send(join(other.member))
    late = world.replies[one]
    assert commit(world, late, p0=7) is KafkaError.REBALANCE_IN_PROGRESS
    assert {third, more} <= set(world.replies)
    assert fetched(world, P0, P2) == [4, 6]


def test_offsets_can_be_kept_without_members() -> None:
    world = OneBroker()
    assert commit(world, None, p0=3) is NONE
    assert fetched(world, P0) == [3]
    joined = world.ask(join())
    world.ask(LeaveGroup("g", joined.member))
    assert commit(world, joined, p0=4) is KafkaError.UNKNOWN_MEMBER_ID
    stranger = OffsetCommit("other", 3, "m", {P0: 1})
    assert world.ask(stranger).error is KafkaError.ILLEGAL_GENERATION


def test_an_offset_counts_once_it_is_replicated() -> None:
    world = OneBroker()
    joined = alone(world)
    commit(world, joined, p0=3)
    world.lag(TP)
    number = world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 7}))
    assert number not in world.replies
    assert fetched(world, P0, stable=False) == [3]
    stable = world.send(OffsetFetch("g", (P0, P1), True))
    assert stable not in world.replies  # one of them is about to change
    world.catch_up(TP)
    assert world.replies[number].error is NONE
    assert world.replies[stable].offsets == {P0: 7, P1: -1}
    assert fetched(world, P0) == [7]


def test_before_4_0_an_offset_that_is_about_to_change_is_not_answered() -> None:
    world = OneBroker(era=ERAS["3.9"])
    joined = alone(world)
    commit(world, joined, p0=3)
    world.lag(TP)
    world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 7}))
    assert fetched(world, P0, stable=False) == [3]
    assert fetched(world, P0) is KafkaError.UNSTABLE_OFFSET_COMMIT
    assert fetched(world, P1) == [-1]
    world.catch_up(TP)
    assert fetched(world, P0) == [7]


def test_a_stable_fetch_waits_for_what_was_written_before_it_and_no_longer() -> None:
    """GroupCoordinatorService.fetchOffsets (4.0): a write without records."""
    world = OneBroker()
    joined = alone(world)
    commit(world, joined, p0=3)
    world.lag(TP)
    world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 5}))
    first = world.send(OffsetFetch("g", (P0,), True))
    replica = world.replica(TP)
    end = replica.log.end
    world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 7}))
    second = world.send(OffsetFetch("g", (P0,), True))
    replica.fetched_by(2, end, world.now)
    world.broker.replica_manager.moved(TP)
    world.run(100)
    assert world.replies.pop(first).offsets == {P0: 5}
    assert second not in world.replies
    assert fetched(world, P0, stable=False) == [5]
    world.become(TP, leader=2, leader_epoch=9)
    assert world.replies.pop(second).error is KafkaError.NOT_COORDINATOR


def test_a_stable_fetch_that_waits_too_long_is_refused() -> None:
    world = OneBroker()
    joined = alone(world)
    world.lag(TP)
    world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 5}))
    number = world.send(OffsetFetch("g", (P0,), True))
    world.run(world.settings.request_timeout_ms - 100)
    assert number not in world.replies
    world.run(200)
    assert world.replies.pop(number).error is KafkaError.NOT_COORDINATOR


def test_members_and_generation_survive_their_coordinator() -> None:
    world = OneBroker()
    joined, other = two(world, alone(world))
    world.restart()
    assert (beat(world, joined), beat(world, other)) == (NONE, NONE)
    assert world.ask(sync(other)).partitions == (P2,)
    waiting = world.send(join())
    assert beat(world, joined) is KafkaError.REBALANCE_IN_PROGRESS
    numbers = [world.send(join(m.member)) for m in (joined, other)]
    third = world.replies[waiting]
    assert {third.generation, *(world.replies[n].generation for n in numbers)} == {3}
    assert third.member not in (joined.member, other.member)  # names are never given twice


def test_a_new_coordinator_knows_what_is_written_and_tells_what_is_committed() -> None:
    world = OneBroker()
    first = alone(world)
    assert commit(world, first, p0=3, p1=1) is NONE
    waiting = world.send(join())
    joined = world.ask(join(first.member))
    assert world.replies.pop(waiting).generation == 2
    world.lag(TP)
    world.send(sync(joined, {joined.member: (P0,)}))  # generation 2 is not replicated
    world.next_epoch(TP)
    assert beat(world, joined) is KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    world.run(100)
    assert beat(world, joined) is NONE
    assert beat(world, first) is KafkaError.ILLEGAL_GENERATION
    world.catch_up(TP)
    world.send(OffsetCommit("g", 2, joined.member, {P0: 7}))
    world.next_epoch(TP)
    world.run(100)
    assert fetched(world, P0, P1, stable=False) == [3, 1]
    number = world.send(OffsetFetch("g", (P0,), True))
    assert number not in world.replies
    world.catch_up(TP)
    assert world.replies.pop(number).offsets == {P0: 7}
    assert fetched(world, P0, P1) == [7, 1]


def test_who_waits_learns_that_the_coordinator_is_another() -> None:
    world = OneBroker()
    first = alone(world)
    waiting = world.send(join())
    world.become(TP, leader=2, leader_epoch=9)
    assert world.replies[waiting].error is KafkaError.NOT_COORDINATOR
    assert beat(world, first) is KafkaError.NOT_COORDINATOR
    assert commit(world, first, p0=1) is KafkaError.NOT_COORDINATOR
    assert fetched(world, P0) is KafkaError.NOT_COORDINATOR


# ---- offsets in transactions


@pytest.mark.parametrize("era", ["3.6", "4.2-tv1", "4.2"])
@pytest.mark.parametrize("effective", [True, False])
def test_offsets_of_a_transaction_count_once_it_is_committed(era: str, effective: bool) -> None:
    world = OneBroker(era=ERAS[era])
    joined = alone(world)
    commit(world, joined, p0=3)
    producer = world.init()
    assert commit_in_transaction(world, producer, joined, {P0: 9}) is NONE
    assert fetched(world, P0) is KafkaError.UNSTABLE_OFFSET_COMMIT
    assert fetched(world, P0, stable=False) == [3]
    assert fetched(world, P1) == [-1]
    assert world.end(producer, commit=effective).error is NONE
    assert fetched(world, P0) == [9 if effective else 3]
    world.restart()
    assert fetched(world, P0) == [9 if effective else 3]


@pytest.mark.parametrize("era", ["4.2-tv1", "4.2"])
def test_a_producer_commits_offsets_again_and_again(era: str) -> None:
    world = OneBroker(era=ERAS[era])
    joined = alone(world)
    producer = world.init()
    for n in range(3):
        assert commit_in_transaction(world, producer, joined, {P0: 2 * n}) is NONE
        assert commit_in_transaction(world, producer, joined, {P0: 2 * n + 1}) is NONE
        ended = world.end(producer, commit=True)
        producer = ended if era == "4.2" else producer
        assert fetched(world, P0) == [2 * n + 1]


def test_offsets_are_pending_across_a_change_of_the_coordinator() -> None:
    world = OneBroker()
    joined = alone(world)
    producer = world.init(ms=60_000)
    assert commit_in_transaction(world, producer, joined, {P0: 9}) is NONE
    world.restart()
    assert fetched(world, P0) is KafkaError.UNSTABLE_OFFSET_COMMIT
    assert world.end(producer, commit=True).error is NONE
    assert fetched(world, P0) == [9]


@pytest.mark.parametrize(
    ("era", "stable", "answered"),
    [
        ("2.4", False, [5]),
        ("3.9", False, [5]),
        ("3.9", True, [5]),
        ("4.0", False, [3]),
        ("4.0", True, None),
        ("4.3", False, [3]),
    ],
)
def test_what_a_coordinator_has_read_and_is_not_committed(era: str, stable: bool, answered: Any) -> None:
    world = OneBroker(era=ERAS[era])
    joined = alone(world)
    commit(world, joined, p0=3)
    world.lag(TP)
    number = world.send(OffsetCommit("g", joined.generation, joined.member, {P0: 5}))
    assert fetched(world, P0, stable=False) == [3]
    world.next_epoch(TP)
    world.run(200)
    assert number not in world.replies
    answer = world.send(OffsetFetch("g", (P0,), stable))
    found = world.replies.get(answer)
    assert (found and [*found.offsets.values()]) == answered  # None: it waits
    world.catch_up(TP)
    assert fetched(world, P0) == [5]
    assert [*world.replies[answer].offsets.values()] == (answered or [5])
    assert world.replies.pop(number).error is NONE


def test_an_offset_that_was_committed_later_stays() -> None:
    world = OneBroker()
    joined = alone(world)
    producer = world.init()
    commit_in_transaction(world, producer, joined, {P0: 9})
    commit(world, joined, p0=4)
    world.end(producer, commit=True)
    assert fetched(world, P0) == [4]  # the record of the transaction's offset is the older one


def test_a_member_of_an_old_generation_cannot_commit_in_a_transaction() -> None:
    world = OneBroker()
    first = alone(world)
    two(world, first)
    producer = world.init()
    error = commit_in_transaction(world, producer, first, {P0: 9})
    assert error is KafkaError.ILLEGAL_GENERATION
    stranger = msgspec.structs.replace(first, member="nobody")
    error = commit_in_transaction(world, producer, stranger, {P0: 9})
    assert error is KafkaError.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(world, producer, None, {P0: 9}) is NONE  # an older client


@pytest.mark.parametrize("era", ["0.11", "2.4"])
def test_before_kip_447_whoever_has_a_producer_commits_in_a_transaction(era: str) -> None:
    world = OneBroker(era=ERAS[era])
    first = alone(world)
    joined, _ = two(world, first)
    commit(world, joined, p0=3)
    producer = world.init()
    for n, sender in enumerate([first, msgspec.structs.replace(first, member="nobody"), joined, None]):
        assert commit_in_transaction(world, producer, sender, {P0: n}) is NONE
        assert world.end(producer, commit=True).error is NONE
        assert fetched(world, P0) == [n]
    assert commit(world, first, p0=9) is KafkaError.ILLEGAL_GENERATION  # by itself it is refused


@pytest.mark.parametrize("era", ["0.11", "2.4"])
@pytest.mark.parametrize("effective", [True, False])
def test_before_kip_447_offsets_are_answered_while_a_transaction_holds_them(
    era: str, effective: bool
) -> None:
    world = OneBroker(era=ERAS[era])
    joined = alone(world)
    commit(world, joined, p0=3)
    producer = world.init()
    assert commit_in_transaction(world, producer, joined, {P0: 9}) is NONE
    assert fetched(world, P0) == [3]
    world.hold = lambda request: isinstance(request, WriteTxnMarkers)
    assert world.end(producer, commit=effective).error is NONE
    assert fetched(world, P0) == [3]  # its client was told that this is done
    world.release()
    assert fetched(world, P0) == [9 if effective else 3]


def test_membership_counts_when_the_offset_is_written_not_when_it_is_verified() -> None:
    world = OneBroker()
    first = alone(world)
    producer = world.init()
    world.hold = lambda request: isinstance(request, AddPartitionsToTxn)
    request = TxnOffsetCommit(
        "t", "g", producer.producer_id, producer.producer_epoch, {P0: 9}, first.generation, first.member
    )
    number = world.send(request)
    two(world, first)
    world.release()
    assert world.replies[number].error is KafkaError.ILLEGAL_GENERATION
    assert fetched(world, P0) == [-1]


def test_a_fenced_producer_cannot_commit_offsets() -> None:
    world = OneBroker()
    joined = alone(world)
    zombie = world.init()
    world.init()
    error = commit_in_transaction(world, zombie, joined, {P0: 9})
    assert error is KafkaError.INVALID_PRODUCER_EPOCH
    assert fetched(world, P0) == [-1]


def test_markers_are_answered_when_their_offsets_are_effective() -> None:
    world = OneBroker()
    joined = alone(world)
    producer = world.init()
    commit_in_transaction(world, producer, joined, {P0: 9})
    world.hold = lambda request: isinstance(request, WriteTxnMarkers)
    world.end(producer, commit=True)
    assert fetched(world, P0) is KafkaError.UNSTABLE_OFFSET_COMMIT
    world.lag(TP)
    world.release()
    assert world.transaction().state == "PrepareCommit"
    number = world.send(OffsetFetch("g", (P0,), True))
    assert number not in world.replies
    world.catch_up(TP)
    assert world.transaction().state == "CompleteCommit"
    assert world.replies.pop(number).offsets == {P0: 9}
    assert fetched(world, P0) == [9]


@pytest.mark.parametrize(("era", "waits"), [("3.9", False), ("4.0", True), ("4.4", True)])
def test_a_marker_waits_for_the_coordinator_that_loads(*, era: str, waits: bool) -> None:
    """From 4.0 on the group coordinator writes the markers of its partitions (`completeTransaction`). That of
    the transaction sends it again."""
    world = OneBroker(era=ERAS[era])
    joined, producer = alone(world), world.init()
    commit_in_transaction(world, producer, joined, {P0: 9})
    world.next_epoch(TP)
    markers = WriteTxnMarkers((TxnMarker(producer.producer_id, producer.producer_epoch, 0, True, (TP,), 1),))
    end = world.replica(TP).log.end
    answer = world.ask(markers)
    refused = {(producer.producer_id, TP): KafkaError.NOT_LEADER_OR_FOLLOWER}
    assert (answer.results == refused) == waits
    assert (world.replica(TP).log.end == end) == waits
    world.run(100)
    assert world.ask(markers).results != refused
    assert fetched(world, P0) == [9]


@pytest.mark.parametrize(
    ("state", "member", "topics", "answered"),
    [
        (ClassicGroupState.COMPLETING, "a", ("t",), True),
        (ClassicGroupState.COMPLETING, "b", ("t",), True),
        (ClassicGroupState.STABLE, "b", ("t",), True),
        (ClassicGroupState.STABLE, "a", ("t",), False),  # the leader joins again: it wants a rebalance
        (ClassicGroupState.STABLE, "b", ("t", "u"), False),
        (ClassicGroupState.PREPARING, "b", ("t",), False),
    ],
)
def test_only_a_join_that_changes_nothing_is_answered_at_once(
    state: ClassicGroupState, member: str, topics: tuple[str, ...], answered: bool
) -> None:
    members = {name: ClassicGroupMember(name, 3000, 5000, ("t",), 0) for name in ("a", "b")}
    group = ClassicGroup("g", state, 1, "a", members)
    request = JoinGroup("g", member, 3000, 5000, topics)
    assert group.join(member, request, ignore, now=42) is answered
    assert members[member].heard == 42
    assert members[member].joining == (None if answered else ignore)
