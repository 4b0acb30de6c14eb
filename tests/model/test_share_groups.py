"""Share groups on one broker: sessions, locks, what is stored, who is fenced."""

from collections import Counter
from typing import Any

import pytest

from core.internal_topics import SHARE_STATE_TOPIC
from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import Partition, Produce
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    DescribedShareMember,
    DescribeShareGroupOffsets,
    ReadShareGroupState,
    ReadShareGroupStateSummary,
    ShareAcknowledge,
    ShareFetch,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    StateBatch,
    WriteShareGroupState,
)
from model.share.record_states import RecordState, StoredState, combined, gathered, spread
from model.share.share_coordinator import key_of
from model.share.share_partition import SharePartition
from tests.model.one_broker import CLIENT, OneBroker

NONE = KafkaError.NONE
P0, P1 = ("data", 0), ("data", 1)
OTHER, THIRD, FOURTH = (CLIENT + n for n in (1, 2, 3))
"""More connections of clients."""
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def world(**settings: Any) -> OneBroker:
    made = OneBroker(**({"share_lock_ms": 2000} | settings))
    made.broker.share_groups.state.coordinator("")  # creates the topic
    made.until(lambda: made.ask(ReadShareGroupState("g", P1, 0)).error is NONE)
    return made


def fill(made: OneBroker, *records: str, tp: Partition = P0) -> None:
    assert made.ask(Produce(-1, {tp: RecordBatch(-1, -1, records)})).results[tp][0] is NONE


def fetch(made: OneBroker, member: str, epoch: int, *tps: Partition) -> Any:
    """What a member gets; its time runs out where there is nothing."""
    number = made.send(ShareFetch("g", member, epoch, tps or (P0,), max_wait_ms=300))
    made.until(lambda: number in made.replies)
    return made.replies.pop(number)


def acquired(made: OneBroker, member: str, epoch: int) -> list[AcquiredRecords]:
    answer = fetch(made, member, epoch)
    assert answer.error is NONE
    return [*answer.parts[P0].acquired] if P0 in answer.parts else []


def say(made: OneBroker, member: str, epoch: int, kind: AcknowledgeType, first: int, last: int) -> Any:
    said = {P0: (AcknowledgementBatch(first, last, kind),)}
    return made.ask(ShareAcknowledge("g", member, epoch, said))


def share(made: OneBroker) -> SharePartition:
    return made.broker.share_groups.leader.led["g", P0].share


def test_requests_of_a_session_are_numbered() -> None:
    made = world()
    fill(made, "a")
    assert fetch(made, "m", 1).error is KafkaError.SHARE_SESSION_NOT_FOUND
    assert say(made, "m", 0, ACCEPT, 0, 0).error is KafkaError.INVALID_SHARE_SESSION_EPOCH
    assert acquired(made, "m", 0) == [AcquiredRecords(0, 0, 1)]
    assert say(made, "m", 3, ACCEPT, 0, 0).error is KafkaError.INVALID_SHARE_SESSION_EPOCH
    assert say(made, "m", 1, ACCEPT, 0, 0).parts == {P0: NONE}


def test_the_last_request_of_a_session_gives_back_what_it_does_not_acknowledge() -> None:
    made = world()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    assert say(made, "m", -1, ACCEPT, 0, 0).parts == {P0: NONE}
    assert acquired(made, "n", 0) == [AcquiredRecords(1, 1, 2)]
    assert say(made, "m", 1, ACCEPT, 1, 1).error is KafkaError.SHARE_SESSION_NOT_FOUND


def begins_over(made: OneBroker, connection: int, member: str, *tps: Partition) -> None:
    """A member begins a session over another connection; it is given what there is of these partitions."""
    made.broker.receive(made.now, connection, -1, ShareFetch("g", member, 0, tps or (P0,), max_wait_ms=300))
    made.run(400)


def breaks(made: OneBroker, connection: int = CLIENT) -> None:
    made.broker.disconnected(made.now, connection)
    made._pump()


def test_the_end_of_a_connection_ends_its_sessions() -> None:
    made = world()
    fill(made, "a")
    begins_over(made, OTHER, "other")
    breaks(made, OTHER)
    assert acquired(made, "n", 0) == [AcquiredRecords(0, 0, 2)]
    begins_over(made, OTHER, "other")
    breaks(made)
    assert say(made, "n", 1, ACCEPT, 0, 0).error is KafkaError.SHARE_SESSION_NOT_FOUND


def test_a_session_gives_back_what_its_newest_fetch_was_for() -> None:
    """SharePartitionManager.cachedTopicIdPartitionsInShareSession."""
    made = world()
    fill(made, "a")
    begins_over(made, OTHER, "other", P0, P1)
    fill(made, "b")
    fill(made, "c", tp=P1)
    fetch(made, "m", 0, P0, P1)
    assert fetch(made, "m", 1, P0).parts == {}
    breaks(made)
    led = made.broker.share_groups.leader.led
    assert [one.member for one in led["g", P0].share.records.values()] == ["other", ""]
    assert [one.member for one in led["g", P1].share.records.values()] == ["m"]


def test_the_fetch_of_a_member_that_died_acquires_for_nobody() -> None:
    """DelayedShareFetch knows of no session and no connection: it waits as long as it would have."""
    made = world()
    begins_over(made, OTHER, "other")
    fetch(made, "m", 0)
    waiting = made.send(ShareFetch("g", "m", 1, (P0,), max_wait_ms=1000))
    breaks(made)
    fill(made, "a")
    made.run(100)
    assert made.replies.pop(waiting).parts[P0].acquired == (AcquiredRecords(0, 0, 1),)  # to nobody
    assert acquired(made, "n", 0) == []
    made.run(1700)
    assert acquired(made, "n", 1) == [AcquiredRecords(0, 0, 2)]  # its lock has ended


def test_the_fetch_of_a_member_that_died_acquires_nothing_once_its_time_has_run_out() -> None:
    made = world()
    begins_over(made, OTHER, "other")
    fetch(made, "m", 0)
    made.send(ShareFetch("g", "m", 1, (P0,), max_wait_ms=300))
    breaks(made)
    made.run(400)
    fill(made, "a")
    assert acquired(made, "n", 0) == [AcquiredRecords(0, 0, 1)]


def test_a_group_that_is_forgotten_has_no_fetches() -> None:
    made = world()
    fetch(made, "m", 0)
    made.send(ShareFetch("g", "m", 1, (P0,), max_wait_ms=60_000))
    breaks(made)
    fill(made, "a")
    assert not made.broker.share_groups.leader.led
    assert acquired(made, "n", 0) == [AcquiredRecords(0, 0, 1)]


def test_a_fetch_whose_group_was_forgotten_while_it_acknowledged_begins_nothing() -> None:
    made = world()
    fill(made, "a")
    acquired(made, "m", 0)
    made.hold = lambda request: isinstance(request, WriteShareGroupState)
    made.send(ShareFetch("g", "m", 1, (P0,), {P0: (AcknowledgementBatch(0, 0, ACCEPT),)}))
    breaks(made)
    made.release()
    made.run(1000)
    assert not made.broker.share_groups.leader.led
    fill(made, "b")
    assert acquired(made, "n", 0) == [AcquiredRecords(1, 1, 1)]


def test_a_leader_forgets_a_group_whose_last_session_with_it_has_ended() -> None:
    """SharePartitionManager.ShareGroupListenerImpl.onGroupEmpty, ShareSessionCache.onDisconnect: for every
    connection over which a session began."""
    made = world()
    fill(made, "a", "b")
    begins_over(made, OTHER, "m")
    led = made.broker.share_groups.leader.led
    begins_over(made, THIRD, "other")
    breaks(made, OTHER)
    assert led  # the other one has a session
    acquired(made, "m", 0)
    breaks(made, THIRD)
    assert led
    assert say(made, "m", -1, ACCEPT, 0, 0).parts == {P0: NONE}
    breaks(made, FOURTH)
    assert led  # the last request alone does not do it, nor a connection without a session
    breaks(made)
    assert not led
    assert acquired(made, "n", 0) == [AcquiredRecords(1, 1, 3)]  # as it is stored
    assert share(made).start == 1


def test_what_a_forgotten_group_has_to_store_is_stored() -> None:
    made = world()
    fill(made, "a", "b", "c")
    acquired(made, "m", 0)
    made.hold = lambda request: isinstance(request, WriteShareGroupState)
    made.send(ShareAcknowledge("g", "m", 1, {P0: (AcknowledgementBatch(1, 1, ACCEPT),)}))
    breaks(made)
    assert not made.broker.share_groups.leader.led
    made.give_up()
    made.release()
    made.run(1000)
    state = made.broker.share_groups.state.at("g", P0)[1]
    assert [(one.first, one.state) for one in state.batches] == [
        (0, RecordState.AVAILABLE),
        (1, RecordState.ACKNOWLEDGED),
        (2, RecordState.AVAILABLE),
    ]
    assert acquired(made, "n", 0) == [AcquiredRecords(0, 0, 2), AcquiredRecords(2, 2, 2)]


def test_a_fetch_says_what_came_of_the_records_before() -> None:
    made = world()
    fill(made, "a")
    acquired(made, "m", 0)
    fill(made, "b")
    said = {P0: (AcknowledgementBatch(0, 0, ACCEPT),)}
    answer = made.ask(ShareFetch("g", "m", 1, (P0,), said))
    assert answer.parts[P0].acknowledge_error is NONE
    assert answer.parts[P0].acquired == (AcquiredRecords(1, 1, 1),)
    assert share(made).start == 1
    answer = made.ask(ShareFetch("g", "m", 2, (P0,), {P0: (AcknowledgementBatch(9, 9, ACCEPT),)}))
    assert answer.parts[P0].acknowledge_error is KafkaError.INVALID_REQUEST


def test_behind_what_was_acquired_nothing_can_be_said() -> None:
    """SharePartition.fetchSubMapForAcknowledgementBatch."""
    made = world()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    assert say(made, "m", 1, ACCEPT, 0, 2).parts == {P0: KafkaError.INVALID_REQUEST}
    assert say(made, "m", 2, ACCEPT, 0, 1).parts == {P0: NONE}
    assert say(made, "m", 3, ACCEPT, 0, 1).parts == {P0: NONE}
    # Nothing is in flight any more.
    assert say(made, "m", 4, ACCEPT, 0, 2).parts == {P0: KafkaError.INVALID_RECORD_STATE}


def test_who_does_not_lead_knows_no_share_partition() -> None:
    """SharePartitionManager.acknowledge."""
    made = world()
    fill(made, "a")
    acquired(made, "m", 0)
    said = {("data", 7): (AcknowledgementBatch(0, 0, ACCEPT),), P0: (AcknowledgementBatch(0, 0, ACCEPT),)}
    answer = made.ask(ShareAcknowledge("g", "m", 1, said))
    assert answer.parts == {("data", 7): KafkaError.UNKNOWN_TOPIC_OR_PARTITION, P0: NONE}


def test_one_refused_offset_refuses_all_of_a_partition() -> None:
    made = world()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    assert say(made, "m", 1, RELEASE, 1, 1).parts == {P0: NONE}
    assert say(made, "m", 2, ACCEPT, 0, 1).parts == {P0: KafkaError.INVALID_RECORD_STATE}
    assert [one.state for one in share(made).records.values()] == [
        RecordState.ACQUIRED,
        RecordState.AVAILABLE,
    ]


def test_a_renewal_begins_a_lock_and_does_not_count() -> None:
    made = world()
    fill(made, "a")
    acquired(made, "m", 0)
    until = share(made).records[0].until
    made.run(500)
    assert say(made, "m", 1, RENEW, 0, 0).parts == {P0: NONE}
    assert share(made).records[0].until == until + 500
    assert share(made).records[0].count == 1


@pytest.mark.parametrize(
    ("said", "error", "renewed"),
    [
        ([(0, 1, RENEW)], KafkaError.INVALID_RECORD_STATE, True),
        ([(0, 0, RENEW), (1, 1, ACCEPT)], KafkaError.INVALID_RECORD_STATE, True),
        ([(0, 0, RENEW), (9, 9, ACCEPT)], KafkaError.INVALID_REQUEST, True),
        ([(1, 1, ACCEPT), (0, 0, RENEW)], KafkaError.INVALID_RECORD_STATE, False),
        ([(0, 9, RENEW)], KafkaError.INVALID_REQUEST, False),
    ],
)
def test_what_is_renewed_before_something_is_refused_stays_renewed(
    said: list[tuple[int, int, AcknowledgeType]], error: KafkaError, renewed: bool
) -> None:
    """SharePartition.acknowledgePerOffsetBatchRecords; what is rolled back are changes of states."""
    made = world()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    until = share(made).records[0].until
    made.run(500)
    assert say(made, "m", 1, RELEASE, 1, 1).parts == {P0: NONE}
    batches = tuple(AcknowledgementBatch(*batch) for batch in said)
    assert made.ask(ShareAcknowledge("g", "m", 2, {P0: batches})).parts == {P0: error}
    assert share(made).records[0].until == until + 500 * renewed
    assert share(made).records[0].state is RecordState.ACQUIRED


@pytest.mark.parametrize(("era", "again"), [("4.1", [AcquiredRecords(0, 0, 2)]), ("4.2", [])])
def test_at_the_limit_the_end_of_a_member_counts_from_4_2_on(era: str, again: list[AcquiredRecords]) -> None:
    """KAFKA-19972; InFlightState.tryUpdateState of 4.1: DeliveryCountOps.DECREASE archives nothing."""
    made = world(era=ERAS[era], share_deliveries=2)
    fill(made, "a")
    acquired(made, "m", 0)
    say(made, "m", 1, RELEASE, 0, 0)
    assert acquired(made, "m", 2) == [AcquiredRecords(0, 0, 2)]
    made.broker.disconnected(made.now, CLIENT)
    made._pump()
    assert acquired(made, "n", 0) == again


@pytest.mark.parametrize("era", ["4.1", "4.2"])
def test_at_the_limit_the_end_of_a_lock_archives(era: str) -> None:
    made = world(era=ERAS[era], share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    made.run(2500)
    assert acquired(made, "n", 0) == []
    assert share(made).start == 1


def test_no_more_is_given_out_than_may_be_in_flight() -> None:
    made = world(share_in_flight=3)
    fill(made, "a", "b")
    fill(made, "c", "d")
    fill(made, "e")
    assert acquired(made, "m", 0) == [AcquiredRecords(0, 3, 1)]  # whole batches
    assert acquired(made, "m", 1) == []
    say(made, "m", 2, ACCEPT, 0, 1)
    assert acquired(made, "m", 3) == [AcquiredRecords(4, 4, 1)]


def test_deleted_records_are_over() -> None:
    made = world()
    fill(made, "a")
    fill(made, "b")
    acquired(made, "m", 0)
    made.replica(P0).delete_before(1)
    made.run(2500)
    assert acquired(made, "n", 0) == [AcquiredRecords(1, 1, 2)]
    assert share(made).start == 1


def test_a_change_that_is_not_stored_leaves_the_record_as_it_was() -> None:
    made = world(share_lock_ms=60_000)
    fill(made, "a")
    acquired(made, "m", 0)
    made.hold = lambda request: isinstance(request, WriteShareGroupState)
    number = made.send(ShareAcknowledge("g", "m", 1, {P0: (AcknowledgementBatch(0, 0, ACCEPT),)}))
    assert say(made, "m", 2, RELEASE, 0, 0).parts == {P0: KafkaError.INVALID_RECORD_STATE}  # it is changing

    def undone() -> bool:
        made.give_up()
        return number in made.replies

    made.until(undone)
    assert made.replies.pop(number).parts == {P0: KafkaError.REQUEST_TIMED_OUT}
    made.release()
    assert say(made, "m", 3, ACCEPT, 0, 0).parts == {P0: NONE}


def test_a_new_leader_reads_what_is_stored_and_fences_the_one_before() -> None:
    made = world()
    fill(made, "a", "b", "c")
    acquired(made, "m", 0)
    say(made, "m", 1, ACCEPT, 1, 1)
    epoch = share(made).leader_epoch
    made.next_epoch(P0)
    assert say(made, "m", 2, ACCEPT, 0, 0).parts == {P0: KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
    assert acquired(made, "m", 0) == [AcquiredRecords(0, 0, 1), AcquiredRecords(2, 2, 1)]
    late = WriteShareGroupState("g", P0, 0, epoch, 0, (StateBatch(0, 0, RecordState.ACKNOWLEDGED, 1),))
    assert made.ask(late).error is KafkaError.FENCED_LEADER_EPOCH
    assert made.ask(ReadShareGroupState("g", P0, epoch)).error is KafkaError.FENCED_LEADER_EPOCH


def test_a_coordinator_that_loads_knows_what_was_stored() -> None:
    made = world(share_updates=2)
    fill(made, *"abcdef")
    acquired(made, "m", 0)
    for at in range(1, 6):
        assert say(made, "m", at, ACCEPT, at, at).parts == {P0: NONE}
    state = made.broker.share_groups.state
    number = state.number(key_of("g", P0))
    before = state.at("g", P0)[1]
    kinds = [type(one).__name__[5:9] for _, _, one in made.replica((SHARE_STATE_TOPIC, number)).log.records()]
    assert kinds == ["Snap", "Upda", "Upda", "Snap", "Upda", "Upda"]
    made.next_epoch((SHARE_STATE_TOPIC, number))
    made.run(100)
    assert state.at("g", P0)[1] == before
    assert before.batches == (StateBatch(1, 5, RecordState.ACKNOWLEDGED, 1),)


def test_members_share_partitions_out() -> None:
    made = world()

    def beat(member: str, epoch: int) -> Any:
        return made.ask(ShareGroupHeartbeat("g", member, epoch, ("data",)))

    assert len(beat("a", 0).partitions) == 3
    assert beat("b", 0).member_epoch == 2
    both = [set(beat(member, 2).partitions) for member in "ab"]
    assert set.union(*both) == {("data", n) for n in range(3)}
    assert all(both)
    for member in "cde":
        beat(member, 0)
    assert all(beat(member, 5).partitions for member in "abcde")
    assert beat("a", 6).error is KafkaError.FENCED_MEMBER_EPOCH
    assert beat("a", -1).error is NONE
    assert beat("a", 5).error is KafkaError.UNKNOWN_MEMBER_ID
    made.run(7000)
    assert beat("b", 5).error is KafkaError.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("era", ["4.1", "4.2"])
@pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 6, 7, 9])
def test_partitions_have_equally_many_members_from_4_2_on(members: int, era: str) -> None:
    """SimpleHomogeneousAssignmentBuilder: members by partitions, rounded up, for each of three; members
    differ by one partition at most."""
    made = world(era=ERAS[era])
    for number in range(members):
        made.ask(ShareGroupHeartbeat("g", f"m{number}", 0, ("data",)))
    given = [
        made.ask(ShareGroupHeartbeat("g", f"m{number}", members, ("data",))).partitions
        for number in range(members)
    ]
    assert all(len(set(each)) == len(each) > 0 for each in given)
    assert max(map(len, given)) - min(map(len, given)) <= 1 if members > 1 else len(given[0]) == 3
    counts = Counter(tp for each in given for tp in each)
    assert len(counts) == 3
    wanted = -(-members // 3)
    assert min(counts.values()) >= 1
    if era == "4.2":
        assert set(counts.values()) == {wanted}
    else:
        assert sum(counts.values()) == max(members, 3)


def test_of_two_states_the_further_one_counts() -> None:
    free, done = StoredState(RecordState.AVAILABLE, 2), StoredState(RecordState.ACKNOWLEDGED, 1)
    assert combined({1: free}, {1: done, 2: done}) == {1: free, 2: done}
    assert combined({1: done}, {1: StoredState(RecordState.AVAILABLE, 1)}) == {1: done}


@pytest.mark.parametrize("states", [{}, {4: 1}, {4: 1, 5: 1, 6: 2, 8: 2}])
def test_runs_say_what_single_states_do(states: dict[int, int]) -> None:
    known = {at: StoredState(RecordState.ARCHIVED, times) for at, times in states.items()}
    assert spread(gathered(known)) == known


def test_a_member_that_subscribes_to_another_topic_is_assigned_its_partitions() -> None:
    made = world()
    assert {tp[0] for tp in made.ask(ShareGroupHeartbeat("g", "a", 0, ("data",))).partitions} == {"data"}
    assert made.ask(ShareGroupHeartbeat("g", "a", 1)).member_epoch == 1
    assert made.ask(ShareGroupHeartbeat("g", "a", 1, ("data",))).member_epoch == 1
    other = made.ask(ShareGroupHeartbeat("g", "a", 1, (SHARE_STATE_TOPIC,)))
    assert other.member_epoch == 2
    assert {tp[0] for tp in other.partitions} == {SHARE_STATE_TOPIC}


def test_a_fetch_of_no_record_acquires_none() -> None:
    made = world()
    fill(made, "a")
    number = made.send(ShareFetch("g", "m", 0, (P0,), max_wait_ms=300, most=0))
    made.until(lambda: number in made.replies)
    assert made.replies.pop(number).parts == {}
    assert acquired(made, "m", 1) == [AcquiredRecords(0, 0, 1)]


def test_a_coordinator_describes_a_group_and_its_members() -> None:
    made = world()
    assert made.ask(ShareGroupDescribe("g")).error is KafkaError.GROUP_ID_NOT_FOUND
    assert made.ask(ShareGroupHeartbeat("g", "a", 0, ("data",))).member_epoch == 1
    joined = made.ask(ShareGroupHeartbeat("g", "b", 0, ("data",)))
    told = made.ask(ShareGroupDescribe("g"))
    assert (told.error, told.state, told.epoch) == (NONE, "Stable", 2)
    assert told.members["b"] == DescribedShareMember(2, ("data",), joined.partitions)
    assert told.members["a"].epoch == 1  # it has not been heard since
    for member in "ab":
        made.ask(ShareGroupHeartbeat("g", member, -1))
    assert made.ask(ShareGroupDescribe("g")).state == "Empty"


def test_the_coordinator_of_a_group_asks_those_of_its_state_where_it_stands() -> None:
    made = world()
    fill(made, "a", "b")
    assert acquired(made, "m", 0) == [AcquiredRecords(0, 1, 1)]
    say(made, "m", 1, ACCEPT, 0, 0)
    say(made, "m", 2, ACCEPT, 1, 1)
    made.hold = lambda request: isinstance(request, ReadShareGroupStateSummary)
    asked = DescribeShareGroupOffsets("g", (P0, P1, P1))
    number, late = made.send(asked), made.send(asked)
    assert made.replies == {}
    made.release()
    assert made.replies.pop(number).parts == {P0: (NONE, 1), P1: (NONE, -1)}  # 2 goes with the next write
    assert made.replies.pop(late).error is NONE
    made.hold = lambda request: isinstance(request, ReadShareGroupStateSummary)
    number = made.send(asked)
    made.give_up()
    assert {error for error, _ in made.replies[number].parts.values()} == {KafkaError.REQUEST_TIMED_OUT}
    assert made.ask(DescribeShareGroupOffsets("g", ())).parts == {}


@pytest.mark.parametrize(
    "beat",
    [("", "a", 0, ("data",)), ("g", "", 0, ("data",)), ("g", "a", 0, ()), ("g", "a", -2, ("data",))],
    ids=str,
)
def test_a_heartbeat_names_group_and_member_and_the_first_one_topics(beat: Any) -> None:
    assert world().ask(ShareGroupHeartbeat(*beat)).error is KafkaError.INVALID_REQUEST
