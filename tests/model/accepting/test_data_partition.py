"""A log of producers as the model accepts it: each rule refuses at its place, and its clean twin passes."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from model.accepting.data_partition import (
    COORDINATOR_EPOCH,
    EPOCH_BEGINS,
    KEPT,
    MARKER_EPOCH,
    NO_REPEAT,
    PLAIN_IN_TRANSACTION,
    PRODUCER_EPOCH,
    SEQUENCE,
    UNKNOWN_BEGINS,
    DataPartition,
)
from model.eras import ERAS
from model.errors import Refused
from model.log.unified_log import ABORT, COMMIT, AbortedTxn, RecordBatch, UnifiedLog

LAST = 2**31 - 1


def data(sequence: int, count: int = 1, epoch: int = 0, **fields: Any) -> RecordBatch:
    """A transactional batch of producer 7."""
    made = RecordBatch(0, 0, ("m",) * count, 7, epoch, sequence, transactional=True)
    return replace(made, **fields)


def marker(epoch: int = 0, coordinator: int = 0, control: str = COMMIT, version: int = 0) -> RecordBatch:
    return RecordBatch(
        0, 0, (), 7, epoch, control=control, coordinator_epoch=coordinator, transaction_version=version
    )


def refused(batches: list[RecordBatch], era: str = "4.3", *, numbered: bool = True) -> list[tuple[str, int]]:
    """What is refused, with its offset; each batch stands after the one before."""
    accepted, end, found = DataPartition(ERAS[era], numbered=numbered), 0, []
    for batch in batches:
        placed = replace(batch, base=end)
        end = placed.last + 1
        refusal = accepted.add(placed)
        if refusal is not None:
            assert refusal.producer_id == batch.producer_id
            found.append((refusal.rule, refusal.offset))
    return found


PLAIN = {"transactional": False}
NEAR_MISSES = {
    "a sequence is skipped": ([data(0), data(2)], SEQUENCE, [data(0), data(1)]),
    "sequences wrap": ([data(LAST), data(1)], SEQUENCE, [data(LAST), data(0)]),
    "one batch wraps": ([data(LAST - 1, 3), data(2)], SEQUENCE, [data(LAST - 1, 3), data(1)]),
    "a batch comes again": ([data(0, 2), data(0, 2)], NO_REPEAT, [data(0, 2), data(2, 2)]),
    "the fifth comes again": ([*map(data, range(5)), data(0)], NO_REPEAT, [*map(data, range(6))]),
    "the sixth comes again": ([*map(data, range(6)), data(0)], SEQUENCE, [*map(data, range(7))]),
    "a new epoch begins later": ([data(0), data(1, epoch=1)], EPOCH_BEGINS, [data(0), data(0, epoch=1)]),
    "after a fence, too": (
        [data(0), marker(1), data(1, epoch=1)],
        SEQUENCE,
        [data(0), marker(1), data(0, epoch=1)],
    ),
    "an old epoch": ([data(0, epoch=1), data(0)], PRODUCER_EPOCH, [data(0), data(0, epoch=1)]),
    "a plain batch": (
        [data(0), data(1, **PLAIN)],
        PLAIN_IN_TRANSACTION,
        [data(0), marker(), data(1, **PLAIN)],
    ),
    "a late marker": ([data(0, epoch=1), marker(0)], MARKER_EPOCH, [data(0, epoch=1), marker(1)]),
    "a marker of the transaction before": (
        [data(0), marker(0, version=2)],
        MARKER_EPOCH,
        [data(0), marker(1, version=2)],
    ),
    "a marker of an old coordinator": (
        [data(0), marker(coordinator=3), data(1), marker(coordinator=2)],
        COORDINATOR_EPOCH,
        [data(0), marker(coordinator=3), data(1), marker(coordinator=3)],
    ),
    "an unknown producer begins later": (
        [data(3, transaction_version=2)],
        UNKNOWN_BEGINS,
        [data(0, transaction_version=2)],
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_rule_refuses_the_last_batch_and_its_twin_passes(name: str) -> None:
    wrong, rule, right = NEAR_MISSES[name]
    assert refused(wrong) == [(rule, sum(batch.size for batch in wrong[:-1]))]
    assert refused(right) == []


@pytest.mark.parametrize(
    ("batches", "era"),
    [
        ([data(0), marker(0, version=2)], "4.1"),  # before KIP-1228
        ([data(3, transaction_version=2)], "4.0"),  # before KAFKA-18202
        ([data(3)], "4.3"),  # a client of version 1
        ([data(0), marker(0), marker(0, version=2)], "4.3"),  # an answer was lost: KAFKA-19999
    ],
)
def test_what_is_legal_in_that_version(batches: list[RecordBatch], era: str) -> None:
    assert refused(batches, era) == []


def test_of_a_coordinator_sequences_do_not_count() -> None:
    repeated = [data(0), marker(), data(0), marker(), data(0)]
    assert refused(repeated, numbered=False) == []
    assert refused([*repeated, data(0, epoch=-1)], numbered=False) == [(PRODUCER_EPOCH, 5)]
    assert refused(repeated) == [(NO_REPEAT, 2), (NO_REPEAT, 4)]


def test_what_is_refused_counts_from_there_on() -> None:
    assert refused([data(0), data(5), data(6), data(8)]) == [(SEQUENCE, 1), (SEQUENCE, 3)]


def test_after_a_gap_any_sequence_may_follow() -> None:
    accepted = DataPartition(ERAS["4.3"])
    accepted.add(data(0))
    assert accepted.add(data(9, base=4, transaction_version=2)) is None
    refusal = accepted.add(data(11, base=5))
    assert refusal is not None
    assert refusal.rule == SEQUENCE
    assert accepted.gaps == [4]


def test_only_the_newest_batches_are_kept_and_the_state_of_all() -> None:
    accepted = DataPartition(ERAS["4.3"])
    other = RecordBatch(0, 0, ("m",), 8, 0, 0, transactional=True)
    for at, batch in enumerate([other, *(data(n) for n in range(KEPT + 9))]):
        assert accepted.add(replace(batch, base=at)) is None
    assert len(accepted.log.batches) < KEPT
    assert accepted.log.producers[8].began == 0
    refusal = accepted.add(data(KEPT + 5, base=accepted.log.end))
    assert refusal is not None
    assert refusal.rule == NO_REPEAT


def test_a_refusal_tells_what_stands_there_and_the_state_before() -> None:
    accepted = DataPartition(ERAS["4.3"])
    for at, batch in enumerate([data(0), data(1), marker(coordinator=3)]):
        accepted.add(replace(batch, base=at))
    refusal = accepted.add(replace(marker(coordinator=2, control=ABORT), base=3))
    assert refusal is not None
    assert refusal.why == (
        "abort marker of producer 7 epoch 0 by coordinator epoch 2; "
        "the model refuses it: TRANSACTION_COORDINATOR_FENCED"
    )
    assert refusal.before == (
        "producer epoch 0, coordinator epoch 3, no transaction open, sequences 0-0 at 0, 1-1 at 1"
    )


def test_the_aborted_index_and_its_last_stable_offset() -> None:
    accepted = DataPartition(ERAS["4.3"])
    other = RecordBatch(0, 0, ("m",), 8, 0, 0, transactional=True)
    end = RecordBatch(0, 0, (), 8, 0, control=ABORT)
    for at, batch in enumerate([other, data(0), marker(control=ABORT), end, data(1), marker()]):
        accepted.add(replace(batch, base=at))
    assert accepted.log.aborted == [
        AbortedTxn(producer_id=7, first=1, last=2, last_stable=0),
        AbortedTxn(producer_id=8, first=0, last=3, last_stable=4),
    ]


def test_asked_counts_what_a_rule_could_have_refused() -> None:
    accepted = DataPartition(ERAS["4.3"])
    for at, batch in enumerate([data(0), data(1), marker(), marker(), RecordBatch(0, 0, ("m",))]):
        accepted.add(replace(batch, base=at))
    assert accepted.asked == {
        SEQUENCE: 1,
        NO_REPEAT: 1,
        PRODUCER_EPOCH: 1,
        PLAIN_IN_TRANSACTION: 1,
        MARKER_EPOCH: 2,
        COORDINATOR_EPOCH: 1,
    }


BATCH = st.builds(
    lambda producer, epoch, sequence, count, transactional: RecordBatch(
        0, 0, ("m",) * count, producer, epoch, sequence, transactional
    ),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([-1, 0, 1, 2, 3, 4, LAST - 1, LAST]),
    st.integers(1, 3),
    st.booleans(),
)
MARKER = st.builds(
    lambda producer, epoch, coordinator, control, version: RecordBatch(
        0, 0, (), producer, epoch, control=control, coordinator_epoch=coordinator, transaction_version=version
    ),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([COMMIT, ABORT]),
    st.sampled_from([0, 1, 2]),
)


@pytest.mark.sampled(5)
@settings(deadline=None)  # the machine may be loaded
@given(st.lists(BATCH | MARKER, max_size=30), st.sampled_from(["0.11", "2.4", "3.9", "4.1", "4.3"]))
def test_what_a_leader_appends_is_accepted_and_what_it_does_not_is_refused(
    batches: list[RecordBatch], era: str
) -> None:
    log, accepted = UnifiedLog(ERAS[era]), DataPartition(ERAS[era])
    for batch in batches:
        offered = replace(batch, base=log.end)
        try:
            appended = log.append(batch, 0).base == offered.base
        except Refused:
            appended = False
        if appended:
            assert accepted.add(offered) is None
        else:
            twin = DataPartition(ERAS[era])
            for known in log.batches:
                twin.add(known)
            assert twin.add(offered) is not None
    assert accepted.log.producers == log.producers
    assert accepted.log.aborted == log.aborted


def test_an_era_that_remembers_one_batch() -> None:
    era = dataclasses.replace(ERAS["4.3"], remembered_batches=1)
    accepted = DataPartition(era)
    rules = [accepted.add(data(n, base=at)) for at, n in enumerate([0, 1, 0])]
    assert [one.rule for one in rules if one] == [SEQUENCE]


def test_behind_a_gap_a_producer_of_which_only_a_marker_is_left_may_go_on_anywhere() -> None:
    accepted = DataPartition(ERAS["4.3"])
    assert accepted.add(replace(marker(), base=10)) is None
    assert accepted.add(replace(data(5), base=11)) is None
    assert accepted.gaps == [10]
    refusal = accepted.add(replace(data(8), base=12))
    assert refusal is not None
    assert refusal.rule == SEQUENCE


def test_behind_a_gap_a_new_epoch_begins_at_zero_also_after_a_marker() -> None:
    accepted = DataPartition(ERAS["4.3"])
    accepted.add(replace(marker(), base=10))
    refusal = accepted.add(replace(data(5, epoch=1), base=11))
    assert refusal is not None
    assert refusal.rule == EPOCH_BEGINS


def test_without_a_gap_the_first_batch_behind_a_marker_begins_at_zero() -> None:
    assert refused([marker(), data(5)]) == [(SEQUENCE, 1)]
