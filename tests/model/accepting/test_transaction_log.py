"""The transaction log as the model accepts it: each rule refuses at its place; a clean log passes."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.java_hash import java_hash
from model.accepting.transaction_log import (
    EPOCH,
    FOLLOWING,
    OWNER,
    PARTITIONS,
    PLACE,
    PRODUCER_ID,
    STATE,
    TIMES,
    UNKNOWN_EPOCH,
    Kept,
    TransactionLog,
    broken,
    following,
)
from model.coordinator.transaction_metadata import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)
from model.log.unified_log import NO_EPOCH

TP = ("t", 0)
MOST_EPOCHS = 32_767
IN_MEMORY = Kept()


def record(state: TransactionState, epoch: int, **fields: Any) -> TransactionRecord:
    """Without the epoch before: Kafka does not write it."""
    made = TransactionRecord("t", 5, 1000, epoch, UNKNOWN_EPOCH, state=state)
    return made._replace(**fields)


LEGAL = [
    (record(EMPTY, 0), record(ONGOING, 0, partitions=(TP,))),
    (record(ONGOING, 0, partitions=(TP,)), record(PREPARE_COMMIT, 0, partitions=(TP,))),
    (record(ONGOING, 0), record(PREPARE_ABORT, 1, version=2)),
    (record(EMPTY, 3), record(PREPARE_ABORT, 4, version=2)),
    (record(PREPARE_COMMIT, 1), record(COMPLETE_COMMIT, 1)),
    (record(COMPLETE_ABORT, 1), record(EMPTY, 2)),
    (record(EMPTY, 2, last_epoch=1), record(EMPTY, 2, last_epoch=1)),
    (record(COMPLETE_COMMIT, MOST_EPOCHS - 1), record(EMPTY, 0, producer_id=6)),
    (record(PREPARE_COMMIT, MOST_EPOCHS, next_id=8), record(COMPLETE_COMMIT, 0, producer_id=8)),
]
ILLEGAL = [
    (STATE, record(EMPTY, 0), record(PREPARE_COMMIT, 1, version=2)),
    (STATE, record(EMPTY, 3), record(PREPARE_ABORT, 3)),
    (STATE, record(PREPARE_COMMIT, 1), record(COMPLETE_ABORT, 1)),
    (STATE, record(PREPARE_COMMIT, 1), record(ONGOING, 1)),
    (STATE, record(ONGOING, 1), record(COMPLETE_COMMIT, 1)),
    (STATE, record(EMPTY, NO_EPOCH), record(ONGOING, 0)),
    (EPOCH, record(ONGOING, 2), record(PREPARE_ABORT, 2, version=2)),
    (EPOCH, record(ONGOING, 2), record(PREPARE_ABORT, 1)),
    (EPOCH, record(ONGOING, 2), record(PREPARE_ABORT, 4)),
    (EPOCH, record(ONGOING, 2), record(PREPARE_COMMIT, 3)),
    (EPOCH, record(COMPLETE_COMMIT, 4, last_epoch=NO_EPOCH), record(EMPTY, 4)),
    (EPOCH, record(COMPLETE_COMMIT, 4), record(EMPTY, 3)),
    (EPOCH, record(COMPLETE_COMMIT, 4), record(ONGOING, 5)),
    (EPOCH, record(COMPLETE_COMMIT, MOST_EPOCHS - 1), record(EMPTY, 1, producer_id=6)),
    (PARTITIONS, record(ONGOING, 0, partitions=(TP,)), record(ONGOING, 0)),
    (PARTITIONS, record(ONGOING, 0, partitions=(TP,)), record(PREPARE_COMMIT, 0)),
    (PARTITIONS, record(PREPARE_COMMIT, 0, partitions=(TP,)), record(COMPLETE_COMMIT, 0, partitions=(TP,))),
    (PRODUCER_ID, record(COMPLETE_COMMIT, 4), record(EMPTY, 0, producer_id=6)),
    (PRODUCER_ID, record(EMPTY, 4), record(ONGOING, 4, previous_id=6)),
    (PRODUCER_ID, record(PREPARE_COMMIT, MOST_EPOCHS, next_id=8), record(COMPLETE_COMMIT, 0, producer_id=9)),
    (TIMES, record(EMPTY, 0), record(ONGOING, 0, started=3, updated=4)),
    (TIMES, record(ONGOING, 0, started=3), record(PREPARE_COMMIT, 0, started=4)),
    (TIMES, record(PREPARE_COMMIT, 0, started=3), record(COMPLETE_COMMIT, 0, started=-1)),
    (TIMES, record(ONGOING, 0), record(ONGOING, 0, timeout_ms=2000)),
    (TIMES, record(COMPLETE_COMMIT, 0, started=3), record(EMPTY, 1, started=3)),
]


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_a_legal_change(before: TransactionRecord, after: TransactionRecord) -> None:
    (made,) = {one._replace(last_epoch=UNKNOWN_EPOCH) for one in following(before, after, IN_MEMORY)}
    assert made == after._replace(previous_id=before.producer_id, last_epoch=UNKNOWN_EPOCH)


@pytest.mark.parametrize(("rule", "before", "after"), ILLEGAL)
def test_an_illegal_change(rule: str, before: TransactionRecord, after: TransactionRecord) -> None:
    assert not following(before, after, IN_MEMORY)
    assert broken(before, after, IN_MEMORY)[0] == rule


STATES = st.builds(
    record,
    st.sampled_from([state for state in TransactionState if state not in (PREPARE_EPOCH_FENCE, DEAD)]),
    st.sampled_from([-7, -1, 0, 1, 2, 8, 9, 40_000]),
    last_epoch=st.sampled_from([UNKNOWN_EPOCH, NO_EPOCH, 0, 1, 8]),
    producer_id=st.integers(5, 6),
    previous_id=st.sampled_from([-1, 5]),
    next_id=st.sampled_from([-1, 6]),
    partitions=st.sampled_from([(), (TP,)]),
    started=st.integers(-1, 1),
    version=st.integers(0, 2),
)


@given(STATES, STATES, st.booleans())
@example(record(EMPTY, 9), record(EMPTY, 0), True)
@example(record(PREPARE_COMMIT, 2, next_id=5), record(COMPLETE_COMMIT, 0), True)
def test_any_two_records_get_an_answer(
    before: TransactionRecord, after: TransactionRecord, ids_logged: bool
) -> None:
    """A damaged log may have any of them."""
    kept = Kept(most=9, ids_logged=ids_logged)
    if not following(before, after, kept):
        assert broken(before, after, kept)[0] in FOLLOWING


# ---- whole logs


def refused(
    *appended: tuple[int, TransactionRecord | TransactionTombstone], **made: Any
) -> list[tuple[str, int]]:
    """Rules and offsets. appended: leader epochs and records."""
    log = TransactionLog(**made)
    return [
        (refusal.rule, refusal.offset)
        for offset, (epoch, record) in enumerate(appended)
        for refusal in log.add(offset, epoch, record)
    ]


def test_a_transaction_from_its_begin_to_its_end() -> None:
    states = (EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, ONGOING, PREPARE_ABORT, COMPLETE_ABORT)
    assert refused(*((0, record(state, 0)) for state in states)) == []


def test_a_record_may_follow_what_its_coordinator_still_has_in_memory() -> None:
    """The outcome of an append was unknown: not to the coordinator that has loaded the log."""
    begun = ((0, record(EMPTY, 0)), (0, record(ONGOING, 0)), (0, record(PREPARE_COMMIT, 0)))
    assert refused(*begun, (0, record(PREPARE_ABORT, 1)), (1, record(COMPLETE_ABORT, 1))) == []
    assert refused(*begun, (1, record(PREPARE_ABORT, 1))) == [(STATE, 3)]


def test_with_zookeeper_a_leader_that_remains_one_loads_nothing() -> None:
    """Its epoch rises with the in-sync set that the controller writes. A first append was not heard to be
    committed; the next one, in the new epoch, begins again or follows it: the leader may be another one."""
    remains = {"kept": Kept(over_epochs=True)}
    one, two, three = (record(ONGOING, 0, partitions=(TP,), started=at, updated=at) for at in (10, 20, 30))
    begun = [(5, record(EMPTY, 0)), (5, one)]
    for again in (two, record(PREPARE_COMMIT, 0, partitions=(TP,), started=10, updated=30)):
        assert refused(*begun, (6, again), **remains) == []
    assert refused(*begun, (6, two)) == [(TIMES, 2)]
    assert refused(*begun, (6, two), (7, three), **remains) == [], "and once more"
    more = record(ONGOING, 0, partitions=(TP, ("t", 1)), started=10, updated=20)
    ends = record(PREPARE_COMMIT, 0, partitions=(TP,), started=10, updated=30)
    assert refused(*begun, (5, more), (6, ends), **remains) == []
    assert refused(*begun, (5, more), (6, ends)) == [(PARTITIONS, 3)]
    heard = (5, record(PREPARE_COMMIT, 0, partitions=(TP,), started=10, updated=20))
    aborts = record(PREPARE_ABORT, 0, partitions=(TP,), started=10, updated=30)
    assert refused(*begun, heard, (6, aborts), **remains) == [], "the one before may be all that it knows"
    assert refused(*begun, heard, (6, aborts)) == [(STATE, 3)]
    assert refused(*begun, heard, (6, two), **remains) == [(STATE, 3)]
    done = (5, record(COMPLETE_COMMIT, 0, started=10, updated=20))
    assert refused(*begun, heard, done, (6, record(PREPARE_ABORT, 1)), **remains) == [(STATE, 4)]
    gone = TransactionTombstone("t")
    assert refused(*begun, (6, gone), **remains) == []
    assert refused(*begun, (6, gone)) == [(STATE, 2)]
    assert refused(*begun, (5, ends), (6, gone), **remains) == [(STATE, 3)]


def test_an_id_begins_with_empty_where_the_log_is_whole() -> None:
    assert refused((0, record(ONGOING, 0))) == [(STATE, 0)]
    assert refused((0, record(ONGOING, 0)), whole=False) == []
    log = TransactionLog()
    log.forget()
    assert [*log.add(9, 0, record(COMPLETE_COMMIT, 3))] == []


def test_behind_missing_records_a_coordinator_may_have_in_memory_what_is_gone() -> None:
    """Its first append that is left was not heard to be committed: it begins again, and so once more."""
    begins = [record(ONGOING, 3, partitions=(TP,), started=at, updated=at) for at in (10, 20, 30)]
    again = [(0, begun) for begun in begins]
    assert refused(*again, whole=False) == []
    assert refused(*again[:1], (1, begins[1]), whole=False) == [(TIMES, 1)], "a new coordinator has the log"
    ends = record(PREPARE_COMMIT, 3, partitions=(TP,), started=10, updated=15)
    moved = record(COMPLETE_COMMIT, 3, started=20, updated=20)
    assert refused(again[0], (0, ends), (0, moved), whole=False) == [(TIMES, 2)], "memory is known from here"
    gone = TransactionTombstone("t")
    assert refused(again[0], (0, gone), whole=False) == []
    assert refused(again[0], (1, gone), whole=False) == [(STATE, 1)]


def test_an_id_is_forgotten_between_transactions_only() -> None:
    gone = TransactionTombstone("t")
    assert refused((0, record(EMPTY, 0)), (0, gone), (0, record(EMPTY, 0, producer_id=9))) == []
    assert refused((0, record(EMPTY, 0)), (0, record(ONGOING, 0)), (1, gone)) == [(STATE, 2)]


def ended(*rest: tuple[int, TransactionRecord | TransactionTombstone]) -> list[Any]:
    """A transaction of leader epoch 1, and what comes behind it."""
    return [(1, record(EMPTY, 0)), *[(1, one) for one in whole(0)], *rest]


def rules(*appended: tuple[int, TransactionRecord | TransactionTombstone], **made: Any) -> list[str]:
    return [rule for rule, _ in refused(*appended, **made)]


def whole(epoch: int) -> list[TransactionRecord]:
    states = (ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT)
    return [record(state, epoch, partitions=(TP,) * (state is not COMPLETE_COMMIT)) for state in states]


@pytest.mark.parametrize(
    ("rest", "wrong"),
    [
        ([(1, one) for one in whole(0)], []),  # its coordinator did not hear that it is forgotten
        ([(1, record(EMPTY, 1))], []),
        ([(1, TransactionTombstone("t")), (1, record(EMPTY, 1))], []),  # it tried again
        ([(1, record(EMPTY, 0, producer_id=6))], []),  # it heard of it
        ([(1, record(EMPTY, 0, producer_id=6)), (1, record(EMPTY, 1))], [PRODUCER_ID]),
        ([(1, record(EMPTY, 2))], [EPOCH]),
        ([(1, record(PREPARE_COMMIT, 0, partitions=(TP,)))], [STATE]),
        ([(2, record(ONGOING, 0, partitions=(TP,)))], [STATE]),  # the next one loads the tombstone
        ([(2, record(EMPTY, 1))], [EPOCH]),
        ([(2, record(EMPTY, 0, producer_id=6))], []),
    ],
)
def test_a_coordinator_may_still_know_the_id_that_its_log_forgets(rest: list[Any], wrong: list[str]) -> None:
    assert rules(*ended((1, TransactionTombstone("t")), *rest)) == wrong


def test_behind_a_tombstone_no_transaction_is_open() -> None:
    """Its coordinator did not hear of the begin, so that it forgot the id: nothing follows that begin."""
    begun, gone = (1, record(ONGOING, 0, partitions=(TP,))), (1, TransactionTombstone("t"))
    assert rules(*ended(begun, gone, begun)) == []
    assert rules(*ended(begun, gone, (1, record(PREPARE_COMMIT, 0, partitions=(TP,))))) == [STATE]


def test_with_zookeeper_a_leader_that_remains_one_may_still_know_the_id() -> None:
    rest: list[Any] = [(1, TransactionTombstone("t")), (2, record(EMPTY, 1))]
    assert rules(*ended(*rest)) == [EPOCH]
    assert rules(*ended(*rest), kept=Kept(over_epochs=True)) == []


def test_behind_missing_records_a_tombstone_is_known() -> None:
    """The coordinator of its leader epoch may have anything in memory, the next one has nothing of the id."""
    gone = TransactionTombstone("t")
    assert rules((1, gone), (1, record(EMPTY, 7)), whole=False) == []
    assert rules((1, gone), (2, record(EMPTY, 7)), whole=False) == [EPOCH]
    assert rules((1, gone), (2, record(EMPTY, 0)), whole=False) == []


def test_a_repeated_init_raises_no_epoch() -> None:
    """Its coordinator knows the epoch before; a log does not say it, and the first epoch has none before."""
    first, second, third = record(EMPTY, 0), record(EMPTY, 1), record(EMPTY, 2)
    assert refused((0, first), (0, second), (0, second)) == []
    assert refused((0, first), (0, second), (1, second)) == [(EPOCH, 2)]
    assert refused((0, first), (1, first)) == [(EPOCH, 1)]
    assert refused((0, first), (0, second), (1, third), (1, third)) == []


def test_a_repeated_first_init_of_an_unknown_outcome() -> None:
    assert refused((0, record(EMPTY, 0)), (0, record(EMPTY, 0))) == []


def test_an_id_stands_in_the_partition_of_its_hash() -> None:
    belongs = java_hash("t") % 5
    assert refused((0, record(EMPTY, 0)), number=belongs, count=5) == []
    assert refused((0, record(EMPTY, 0)), number=(belongs + 1) % 5, count=5) == [(PLACE, 0)]


def test_a_producer_id_has_one_owner() -> None:
    other = record(EMPTY, 0)._replace(transactional_id="u")
    assert refused((0, record(EMPTY, 0)), (0, other)) == [(OWNER, 1)]
    assert refused((0, record(EMPTY, 0)), (0, other._replace(producer_id=6))) == []


def test_before_4_3_the_log_does_not_say_which_id_follows() -> None:
    """KAFKA-20310."""
    used_up = record(PREPARE_COMMIT, MOST_EPOCHS, version=2)
    after = record(COMPLETE_COMMIT, 0, producer_id=8, version=2)
    assert following(used_up, after, Kept(ids_logged=False))
    assert not following(used_up, after, Kept())
    assert not following(used_up._replace(epoch=5), after, Kept(ids_logged=False))


def test_a_refusal_tells_the_record_and_the_one_before() -> None:
    log = TransactionLog()
    for offset, state in enumerate([EMPTY, ONGOING]):
        assert [*log.add(offset, 0, record(state, 0, partitions=(TP,) if offset else ()))] == []
    (refusal,) = log.add(2, 0, record(COMPLETE_COMMIT, 0))
    assert refusal.why == (
        "t: CompleteCommit of producer 5 epoch 0, partitions []; the model's coordinator does not write it: "
        "CompleteCommit does not follow Ongoing"
    )
    assert refusal.before == "t: Ongoing of producer 5 epoch 0, partitions [t-0]"


def test_before_2_6_a_fence_that_was_not_written_raised_the_epoch_again() -> None:
    """KAFKA-9666."""
    before, after = record(ONGOING, 2), record(PREPARE_ABORT, 9)
    assert following(before, after, Kept(fenced_again=True))
    assert not following(before, after, Kept())
    assert not following(before, record(PREPARE_COMMIT, 9), Kept(fenced_again=True))
    assert not following(before, record(PREPARE_ABORT, 1), Kept(fenced_again=True))
