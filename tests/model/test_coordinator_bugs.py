"""Each bug planted in the coordinators does its harm where it is in force, and nothing where it is not."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from model.eras import ERAS
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    JoinGroup,
    OffsetCommit,
    OffsetFetch,
    ProducerIdResponse,
    SyncGroup,
    TxnMarker,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from tests.model.one_broker import ME, OneBroker, produce

NONE = KafkaError.NONE
P0 = ("data", 0)
LOG = (TRANSACTION_TOPIC, java_hash("t") % 3)
OFFSETS = (GROUP_TOPIC, java_hash("g") % 3)

Scenario = Callable[[OneBroker], bool]
"""Whether the anomaly is there."""


def offset(world: OneBroker, *, stable: bool = True) -> KafkaError | int:
    answer = world.ask(OffsetFetch("g", (P0,), stable))
    error: KafkaError = answer.error
    found: int = answer.offsets.get(P0, -1)
    return error or found


def hold_offset(world: OneBroker) -> ProducerIdResponse:
    """A transaction that moves the group's offset from 3 to 9."""
    assert world.ask(OffsetCommit("g", -1, "", {P0: 3})).error is NONE
    producer = world.init()
    request = TxnOffsetCommit("t", "g", producer.producer_id, producer.producer_epoch, {P0: 9})
    assert world.ask(request).error is NONE
    held: ProducerIdResponse = producer
    return held


def lose_unreplicated(world: OneBroker, tp: tuple[str, int]) -> None:
    """The broker crashes, and what its follower had not fetched is gone."""
    replica = world.replica(tp)
    replica.log.truncate(replica.high_watermark)
    world.restart()


# ---- transactions


def answered_before_it_is_logged(world: OneBroker) -> bool:
    producer = world.init(ms=2000)
    world.write(producer, 0, 0, "a")
    world.write(producer, 1, 0, "b")
    world.lag(LOG)
    number = world.send(EndTxn("t", producer.producer_id, producer.producer_epoch, True))
    committed = number in world.replies
    lose_unreplicated(world, LOG)
    world.run(4000)
    return committed and world.transaction().state == "CompleteAbort"


def a_partition_stays_open(world: OneBroker) -> bool:
    producer = world.init()
    world.write(producer, 0, 0, "a")
    world.write(producer, 1, 0, "b")
    world.end(producer, commit=True)
    return (world.read(0), world.read(1)) == (["a"], [])


def one_failure_and_no_marker(world: OneBroker) -> bool:
    producer = world.init()
    world.write(producer, 0, 0, "a")
    replica = world.replica(P0)
    replica.state = replace(replica.state, isr=())
    world.end(producer, commit=True)
    replica.state = replace(replica.state, isr=(ME,))
    world.run(500)
    return world.read(0) == []


def committed_is_gone(world: OneBroker) -> bool:
    producer = world.init()
    world.write(producer, 0, 0, "a")
    world.end(producer, commit=True)
    return world.read(0) == []


def aborted_is_read(world: OneBroker) -> bool:
    producer = world.init()
    world.write(producer, 0, 0, "a")
    world.end(producer, commit=False)
    return world.read(0) == ["a"]


def open_is_read(world: OneBroker) -> bool:
    producer = world.init()
    world.write(producer, 0, 0, "a")
    return world.read(0) == ["a"]


def zombie_writes(world: OneBroker) -> bool:
    zombie = world.init()
    world.init()
    return world.write(zombie, 0, 0, "zombie") is NONE


def zombie_ends(world: OneBroker) -> bool:
    zombie = world.init()
    successor = world.init()
    world.write(successor, 0, 0, "a")
    return world.end(zombie, commit=True).error is NONE and world.read(0) == ["a"]


def half_is_lost(world: OneBroker) -> bool:
    # KAFKA-6119, with transaction version 1: the timed-out producer goes on.
    producer = world.init(ms=2000)
    world.add(producer, 0)
    world.write(producer, 0, 0, "first half")
    world.run(4000)
    world.add(producer, 1)
    world.write(producer, 1, 0, "second half")
    done = world.end(producer, commit=True).error is NONE
    return done and (world.read(0), world.read(1)) == ([], ["second half"])


def open_is_forgotten(world: OneBroker) -> bool:
    world.write(world.init(ms=2000), 0, 0, "a")
    world.restart()
    world.run(4000)
    replica = world.replica(P0)
    return replica.log.stable(replica.high_watermark) == 0  # nobody aborts it


def end_is_undone(world: OneBroker) -> bool:
    producer = world.init(ms=2000)
    world.write(producer, 0, 0, "a")
    world.hold = lambda request: isinstance(request, WriteTxnMarkers)
    committed = world.end(producer, commit=True).error is NONE
    world.hold = lambda _: False
    world.restart()
    world.run(4000)
    return committed and world.read(0) == []


def late_record_hangs(world: OneBroker) -> bool:
    producer = world.init()
    request = AddPartitionsToTxn("t", producer.producer_id, producer.producer_epoch, (P0,))
    world.ask(request)
    world.end(producer, commit=False)
    late = msgspec.structs.replace(producer, producer_epoch=world.transaction().record.epoch)
    return world.written(world.send(produce(late, 0, 0, "late"))) is NONE


def old_coordinator_ends_it(world: OneBroker) -> bool:
    producer = world.init(ms=60_000)
    world.write(producer, 0, 0, "a")
    world.restart()
    producer = world.end(producer, commit=True)
    world.write(producer, 0, 0, "b")
    marker = TxnMarker(producer.producer_id, producer.producer_epoch + 1, 0, True, (P0,), 2)
    world.ask(WriteTxnMarkers((marker,)))
    return world.read(0) == ["a", "b"]


def id_is_given_twice(world: OneBroker) -> bool:
    first = world.init("one")
    world.restart()
    return bool(world.init("two").producer_id == first.producer_id)


# ---- groups


def two_members(world: OneBroker) -> tuple[str, int]:
    """(the member of generation 1, who is no member now; the newest generation)."""
    first = world.ask(JoinGroup("g", "", 1000, 1000, ("data",)))
    world.ask(SyncGroup("g", first.generation, first.member, {first.member: (P0,)}))
    waiting = world.send(JoinGroup("g", "", 30_000, 1000, ("data",)))
    world.until(lambda: waiting in world.replies)
    other = world.replies[waiting]
    assert first.member not in other.members
    world.ask(SyncGroup("g", other.generation, other.member, {other.member: (P0,)}))
    return first.member, other.generation


def old_member_commits(world: OneBroker) -> bool:
    member, _ = two_members(world)
    return world.ask(OffsetCommit("g", 1, member, {P0: 5})).error is NONE


def generation_stays(world: OneBroker) -> bool:
    return two_members(world)[1] != 2


def visible_before_commit(world: OneBroker) -> bool:
    producer = hold_offset(world)
    seen = offset(world)
    world.end(producer, commit=False)
    return seen == 9 and offset(world) == 9


def aborted_counts(world: OneBroker) -> bool:
    world.end(hold_offset(world), commit=False)
    return offset(world) == 9


def committed_does_not_count(world: OneBroker) -> bool:
    world.end(hold_offset(world), commit=True)
    world.run(200)
    return offset(world) == 3


def unstable_is_answered(world: OneBroker) -> bool:
    hold_offset(world)
    return offset(world) == 3


def effective_too_late(world: OneBroker) -> bool:
    world.end(hold_offset(world), commit=True)
    ended = world.transaction().state == "CompleteCommit"
    before = offset(world)
    world.run(200)
    return ended and (before, offset(world)) == (3, 9)


def refusal_drops_pending(world: OneBroker) -> bool:
    assert world.ask(OffsetCommit("g", -1, "", {P0: 3})).error is NONE
    old, producer = world.init(), world.init()
    world.ask(AddOffsetsToTxn("t", producer.producer_id, producer.producer_epoch, "g"))
    told = [
        world.ask(TxnOffsetCommit("t", "g", one.producer_id, one.producer_epoch, {P0: at})).error
        for one, at in ((producer, 9), (old, 5))
    ]
    world.end(producer, commit=True)
    before = offset(world)
    world.restart()
    return told == [NONE, KafkaError.INVALID_PRODUCER_EPOCH] and (before, offset(world)) == (3, 9)


def acknowledged_offset_is_lost(world: OneBroker) -> bool:
    world.lag(OFFSETS)
    number = world.send(OffsetCommit("g", -1, "", {P0: 5}))
    acknowledged = number in world.replies
    lose_unreplicated(world, OFFSETS)
    return acknowledged and offset(world) == -1


def offsets_are_forgotten(world: OneBroker) -> bool:
    world.ask(OffsetCommit("g", -1, "", {P0: 5}))
    world.restart()
    return offset(world) == -1


BUGS: dict[str, tuple[Scenario, str]] = {
    "commit-before-prepare-logged": (answered_before_it_is_logged, "4.2"),
    "marker-skips-a-partition": (a_partition_stays_open, "4.2"),
    "markers-not-retried": (one_failure_and_no_marker, "4.2"),
    "commit-writes-abort": (committed_is_gone, "4.2"),
    "abort-answers-commit": (aborted_is_read, "4.2"),
    "lso-ignores-open": (open_is_read, "4.2"),
    "zombie-not-fenced": (zombie_writes, "4.2"),
    "end-txn-ignores-epoch": (zombie_ends, "4.2"),
    "timeout-does-not-bump-epoch": (half_is_lost, "3.6"),  # later its marker is refused (KIP-1228)
    "coordinator-forgets-on-load": (open_is_forgotten, "4.2"),
    "prepared-becomes-ongoing-on-load": (end_is_undone, "4.2"),
    "verification-skipped": (late_record_hangs, "4.2-tv1"),
    "marker-by-old-coordinator-accepted": (old_coordinator_ends_it, "4.2"),
    "producer-id-reused": (id_is_given_twice, "4.2"),
    "generation-not-checked": (old_member_commits, "4.2"),
    "generation-not-bumped": (generation_stays, "4.2"),
    "offsets-visible-before-commit": (visible_before_commit, "4.2"),
    "offsets-of-aborted-txn": (aborted_counts, "4.2"),
    "offsets-of-committed-txn-dropped": (committed_does_not_count, "4.2"),
    "refused-commit-drops-pending-offsets": (refusal_drops_pending, "3.9"),
    "unstable-offsets-answered": (unstable_is_answered, "4.2"),
    "offsets-applied-late": (effective_too_late, "4.2"),
    "offset-commit-not-replicated": (acknowledged_offset_is_lost, "4.2"),
    "groups-forget-on-load": (offsets_are_forgotten, "4.2"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_does_its_harm(bug: str) -> None:
    scenario, era = BUGS[bug]
    assert scenario(OneBroker(era=ERAS[era], bugs=frozenset({bug})))


@pytest.mark.parametrize("bug", BUGS)
def test_without_the_bug_there_is_no_harm(bug: str) -> None:
    scenario, era = BUGS[bug]
    assert not scenario(OneBroker(era=ERAS[era]))
