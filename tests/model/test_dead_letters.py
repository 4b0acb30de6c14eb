"""Dead-letter queues of share groups on one broker: what gets a letter, when, and what comes of it."""

from typing import Any

import pytest

from model.errors import KafkaError
from model.protocol.messages import DeleteTopics, Produce, ProduceResponse
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    ShareAcknowledge,
    WriteShareGroupState,
)
from model.share.dead_letter_queue import ATTEMPTS, BACKOFF_MS, LetterRecord
from model.share.record_states import RecordState
from tests.model.one_broker import OneBroker
from tests.model.test_share_groups import ACCEPT, P0, RELEASE, acquired, breaks, fetch, fill, share, world

REJECT = AcknowledgeType.REJECT
QUEUE = "dlq"
ARCHIVING, ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED


def lettered(partitions: int = 1, **settings: Any) -> OneBroker:
    """Records come twice at most, and what the group gives up goes to its queue."""
    made = world(**({"share_letters": QUEUE, "share_deliveries": 2} | settings))
    made.create(QUEUE, partitions)
    made.run(200)
    return made


def letters(made: OneBroker, number: int = 0) -> list[LetterRecord]:
    found = [record for _, _, record in made.replica((QUEUE, number)).log.records()]
    assert all(isinstance(one, LetterRecord) for one in found)
    return found  # type: ignore[return-value]


def letter(offset: int, times: int, copy: object) -> LetterRecord:
    return LetterRecord("g", P0, offset, times, copy)


def says(made: OneBroker, epoch: int, kind: AcknowledgeType, *offsets: int) -> int:
    """What member m says of offsets; the number of its request."""
    batches = tuple(AcknowledgementBatch(at, at, kind) for at in offsets)
    return made.send(ShareAcknowledge("g", "m", epoch, {P0: batches}))


def stored(made: OneBroker) -> list[tuple[int, int, int]]:
    batches = made.broker.share_groups.state.at("g", P0)[1].batches
    return [(one.first, one.state, one.times) for one in batches]


def test_a_rejected_record_gets_a_letter_with_a_copy_and_an_accepted_one_none() -> None:
    made = lettered()
    fill(made, "a", "b", "c")
    acquired(made, "m", 0)
    says(made, 1, REJECT, 1)
    says(made, 2, ACCEPT, 0, 2)
    assert letters(made) == [letter(1, 1, "b")]
    assert share(made).start == 3


def test_a_record_that_comes_back_at_the_limit_gets_a_letter_and_before_it_none() -> None:
    made = lettered()
    fill(made, "a")
    acquired(made, "m", 0)
    says(made, 1, RELEASE, 0)
    assert letters(made) == []
    assert acquired(made, "m", 2) == [AcquiredRecords(0, 0, 2)]
    says(made, 3, RELEASE, 0)
    assert letters(made) == [letter(0, 2, "a")]


def test_a_lock_that_ends_at_the_limit_gets_a_letter() -> None:
    made = lettered(share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    made.run(1900)
    assert letters(made) == []
    made.run(200)
    assert letters(made) == [letter(0, 1, "a")]
    assert share(made).start == 1


def test_a_member_that_ends_leaves_letters_of_what_has_come_to_the_limit() -> None:
    made = lettered(share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    breaks(made)
    assert letters(made) == [letter(0, 1, "a")]


def test_without_a_queue_nothing_is_archiving() -> None:
    made = world(share_deliveries=1)
    fill(made, "a", "b")
    acquired(made, "m", 0)
    made.hold = lambda request: isinstance(request, WriteShareGroupState)
    says(made, 1, REJECT, 0)
    assert share(made).records[0].state is ARCHIVED


def test_letters_go_to_the_partition_of_the_queue_by_the_number_of_the_records() -> None:
    made = lettered(partitions=2)
    for number, kind in ((2, REJECT), (1, REJECT), (0, ACCEPT)):
        tp = "data", number
        fill(made, f"of {number}", tp=tp)
        member = f"m{number}"
        fetch(made, member, 0, tp)
        made.ask(ShareAcknowledge("g", member, 1, {tp: (AcknowledgementBatch(0, 0, kind),)}))
    assert [[one.copy for one in letters(made, number)] for number in (0, 1)] == [["of 2"], ["of 1"]]


def held(made: OneBroker, kind: type) -> None:
    made.hold = lambda request: isinstance(request, kind)


def test_a_letter_waits_until_archiving_is_stored_and_the_start_until_the_letter_is_written() -> None:
    made = lettered()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    held(made, WriteShareGroupState)
    number = says(made, 1, REJECT, 0)
    assert (letters(made), made.replies, share(made).records[0].state) == ([], {}, ARCHIVING)
    made.hold = lambda request: isinstance(request, Produce)
    (write,) = made.held
    made.held = []
    made._deliver(write)
    made._pump()
    assert made.replies[number].parts == {P0: KafkaError.NONE}
    assert (share(made).start, stored(made), letters(made)) == (0, [(0, ARCHIVING, 1)], [])
    made.release()
    assert (share(made).start, letters(made)) == (1, [letter(0, 1, "a")])
    assert stored(made) == [(0, ARCHIVED, 1)]  # the start goes with the next write


@pytest.mark.parametrize("kind", [REJECT, RELEASE])
def test_what_could_not_be_stored_has_no_letter_and_its_member_holds_it(kind: AcknowledgeType) -> None:
    made = lettered(share_deliveries=1, share_lock_ms=60_000)
    fill(made, "a")
    acquired(made, "m", 0)
    held(made, WriteShareGroupState)
    number = says(made, 1, kind, 0)
    for _ in range(5):  # as often as it is tried
        made.give_up()
        made.held = []
        made.run(4000)
    made.hold = lambda _: False
    assert made.replies.pop(number).parts == {P0: KafkaError.REQUEST_TIMED_OUT}
    assert letters(made) == []
    says(made, 2, ACCEPT, 0)
    made.run(1000)
    assert (letters(made), share(made).start) == ([], 1)


def test_a_lock_that_ended_at_the_limit_is_stored_before_its_letter_however_long_that_takes() -> None:
    made = lettered(share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    held(made, WriteShareGroupState)
    made.run(2100)
    for _ in range(5):
        made.give_up()
        made.held = []
        made.run(4000)
    assert letters(made) == []
    number = says(made, 1, ACCEPT, 0)
    assert made.replies.pop(number).parts == {P0: KafkaError.INVALID_RECORD_STATE}
    made.release()
    made.run(200)
    assert (letters(made), share(made).start) == ([letter(0, 1, "a")], 1)


def test_a_leader_of_the_next_epoch_writes_the_letter_of_what_is_archiving_again() -> None:
    made = lettered()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    held(made, Produce)
    says(made, 1, REJECT, 0)
    made.next_epoch(P0)
    assert letters(made) == []
    fetch(made, "n", 0)
    assert len(made.held) == 2  # of both leaders
    made.release()
    assert letters(made) == [letter(0, 1, "a")] * 2
    assert share(made).start == 1


def test_a_leader_that_leads_no_more_writes_no_letter() -> None:
    made = lettered(share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    made.become(P0, leader=7, leader_epoch=made.replica(P0).state.leader_epoch + 1)
    made.run(3000)
    assert letters(made) == []


def test_the_planted_one_writes_it() -> None:
    made = lettered(share_deliveries=1, bugs=frozenset({"letters-by-former-leader"}))
    fill(made, "a")
    acquired(made, "m", 0)
    made.become(P0, leader=7, leader_epoch=made.replica(P0).state.leader_epoch + 1)
    made.run(3000)
    assert letters(made) == [letter(0, 1, None)]  # it copies what it leads


def test_a_group_that_is_forgotten_has_one_letter() -> None:
    """Its share partition is read again when that one is written, and archived."""
    made = lettered()
    fill(made, "a", "b")
    acquired(made, "m", 0)
    held(made, Produce)
    says(made, 1, REJECT, 0)
    breaks(made)
    assert not made.broker.share_groups.leader.led
    assert fetch(made, "n", 0).parts == {}
    made.release()
    made.run(200)
    assert letters(made) == [letter(0, 1, "a")]
    assert acquired(made, "n", 1) == [AcquiredRecords(1, 1, 2)]


@pytest.mark.parametrize(("changes", "written"), [({}, 1), ({"leader": 7}, 0), ({"leader_epoch": 9}, 0)])
def test_what_a_forgotten_group_was_storing_gets_its_letter_from_who_leads(
    changes: dict[str, int], written: int
) -> None:
    """Who leads no more cannot read the record, nor see that it is a marker."""
    made = lettered(share_deliveries=1)
    fill(made, "a")
    acquired(made, "m", 0)
    held(made, WriteShareGroupState)
    breaks(made)
    made.become(P0, **changes)
    made.release()
    made.run(200)
    assert len(letters(made)) == written


def test_markers_get_no_letter() -> None:
    """A record of an aborted transaction gets none either: it is archived when it is acquired."""
    made = lettered(share_deliveries=1)
    producer = made.init()
    made.add(producer, 0)
    made.write(producer, 0, 0, "a")
    made.end(producer, commit=False)
    made.run(200)
    fill(made, "b")
    assert acquired(made, "m", 0) == [AcquiredRecords(1, 2, 1)]
    breaks(made)
    assert letters(made) == [letter(2, 1, "b")]
    assert acquired(made, "n", 0) == []
    assert share(made).start == 3


def times_sent(made: OneBroker) -> int:
    """How often a letter is sent that is never answered."""
    held(made, Produce)
    sent = 0
    for _ in range(100):
        sent += len(made.held)
        made.give_up()
        made.held = []
        made.run(500)
    return sent


def test_a_letter_without_an_answer_is_sent_five_times_and_then_the_record_is_archived() -> None:
    made = lettered()
    fill(made, "a")
    acquired(made, "m", 0)
    held(made, Produce)
    says(made, 1, REJECT, 0)
    assert times_sent(made) == ATTEMPTS
    assert (letters(made), share(made).start) == ([], 1)


def test_attempts_are_further_and_further_apart() -> None:
    made = lettered()
    fill(made, "a")
    acquired(made, "m", 0)
    held(made, Produce)
    says(made, 1, REJECT, 0)
    for attempt in range(ATTEMPTS - 1):
        made.give_up()
        made.held = []
        made.run(BACKOFF_MS * 2**attempt - 100)
        assert made.held == []
        made.run(100)
        assert len(made.held) == 1


@pytest.mark.parametrize(
    ("error", "written"), [(KafkaError.NOT_LEADER_OR_FOLLOWER, 1), (KafkaError.NOT_ENOUGH_REPLICAS, 0)]
)
def test_only_who_does_not_lead_is_asked_again(error: KafkaError, written: int) -> None:
    made = lettered()
    fill(made, "a")
    acquired(made, "m", 0)
    made.hold = lambda request: isinstance(request, Produce)
    says(made, 1, REJECT, 0)
    (ask,) = made.held
    made.held, made.hold = [], lambda _: False
    made.broker.answered(made.now, ask, ProduceResponse({(QUEUE, 0): (error, -1)}))
    made._pump()
    made.run(BACKOFF_MS + 100)
    assert len(letters(made)) == written
    assert share(made).start == 1


def test_a_queue_that_was_deleted_holds_nothing_up() -> None:
    made = lettered()
    fill(made, "a")
    acquired(made, "m", 0)
    assert made.ask(DeleteTopics(QUEUE)).error is KafkaError.NONE
    says(made, 1, REJECT, 0)
    made.run(20_000)
    assert share(made).start == 1
