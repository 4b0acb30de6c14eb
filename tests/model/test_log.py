"""A replica's log: leader epochs, sequences, transactions, and what cutting it back does."""

import pytest

from model.eras import ERAS, Era
from model.errors import KafkaError, Refused
from model.log.unified_log import ABORT, COMMIT, RecordBatch, UnifiedLog


def log_of(*epochs: tuple[int, int], era: Era = ERAS["4.1"]) -> UnifiedLog:
    """A log with batches of one record: (epoch, how many records of it)."""
    log = UnifiedLog(era)
    for epoch, count in epochs:
        for n in range(count):
            log.append(RecordBatch(-1, -1, (f"{epoch}.{n}",)), epoch)
    return log


def sent(producer: int, epoch: int, sequence: int, *records: str, txn: bool = False) -> RecordBatch:
    return RecordBatch(-1, -1, records, producer, epoch, sequence, txn)


def marker(producer: int, epoch: int, control: str, coordinator: int = 0) -> RecordBatch:
    return RecordBatch(-1, -1, (), producer, epoch, control=control, coordinator_epoch=coordinator)


def refused(log: UnifiedLog, batch: RecordBatch) -> KafkaError:
    before = (log.end, len(log.batches))
    with pytest.raises(Refused) as raised:
        log.append(batch, 1)
    assert (log.end, len(log.batches)) == before
    return raised.value.error


def test_deleted_records_take_what_only_they_had() -> None:
    log = log_of((1, 3), (4, 2))
    log.delete_before(2)
    assert (log.start, log.end, [batch.base for batch in log.batches]) == (2, 5, [2, 3, 4])
    assert log.epochs == [(1, 2), (4, 3)]
    assert log.end_of(1) == (1, 3)
    log.delete_before(1)
    assert log.start == 2
    log.delete_before(9)
    assert (log.start, log.end, log.batches, log.epochs) == (5, 5, [], [(4, 5)])


def test_a_batch_goes_with_its_last_record() -> None:
    log = UnifiedLog(ERAS["4.3"])
    log.append(RecordBatch(-1, -1, ("a", "b", "c")), 0)
    log.delete_before(2)
    assert (log.start, len(log.batches)) == (2, 1)
    log.delete_before(3)
    assert (log.start, len(log.batches)) == (3, 0)


@pytest.mark.parametrize(("era", "within"), [("3.9", 3), ("4.3", 2)])
def test_the_last_stable_offset_is_not_before_what_is_left(era: str, within: int) -> None:
    log = UnifiedLog(ERAS[era])
    for sequence in (0, 2, 4):
        log.append(sent(7, 0, sequence, "x", "y", txn=True), 0)
    assert log.stable(6) == 0
    log.delete_before(2)
    assert log.stable(6) == 2
    log.delete_before(3)
    assert log.stable(6) == within  # KAFKA-17803
    log.append(marker(7, 0, ABORT), 0)
    assert log.stable(7) == 7
    assert [(a.first, a.last) for a in log.aborted_between(3, 7)] == [(0, 6)]


def test_a_log_that_is_cut_back_to_before_its_start_begins_there() -> None:
    log = log_of((1, 5))
    log.delete_before(4)
    log.truncate(3)
    assert (log.start, log.end, log.batches, log.epochs) == (3, 3, [], [])


@pytest.mark.parametrize(("flushed", "end"), [(3, 4), (5, 5)])
def test_a_power_loss_leaves_the_log_start(flushed: int, end: int) -> None:
    log = log_of((1, 5))
    log.flushed = flushed
    log.delete_before(4)
    log.append(RecordBatch(-1, -1, ("x",)), 1)
    log.lose_power()
    assert (log.start, log.end) == (4, end)


def test_where_an_epoch_ends_is_where_the_next_one_begins() -> None:
    # KIP-101's own example: a follower whose newest epoch is 1 asks a leader with epochs that begin
    # (1, 20), (2, 80), (3, 120), and is told to cut back to 80.
    log = UnifiedLog(ERAS["4.1"])
    log.start = log.end = 20
    for epoch, until in ((1, 80), (2, 120), (3, 130)):
        while log.end < until:
            log.append(RecordBatch(-1, -1, ("x",)), epoch)
    assert log.epochs == [(1, 20), (2, 80), (3, 120)]
    assert log.end_of(1) == (1, 80)
    assert log.end_of(2) == (2, 120)
    assert log.end_of(3) == (3, 130)
    assert log.end_of(4) == (-1, -1)


@pytest.mark.parametrize(("era", "told"), [("0.11", (-1, -1)), ("2.0", (0, 20))])
def test_an_epoch_of_which_nothing_is_left_ends_where_the_log_begins(era: str, told: tuple[int, int]) -> None:
    log = UnifiedLog(ERAS[era])
    log.start = log.end = 20
    log.append(RecordBatch(-1, -1, ("x",)), 1)
    assert log.end_of(0) == told


def test_an_epoch_that_the_leader_never_saw_is_answered_with_the_largest_before_it() -> None:
    log = log_of((1, 3), (4, 2))
    assert log.end_of(3) == (1, 3)  # KIP-279: the follower goes on from there


def test_leading_without_writing_leaves_one_epoch_for_each_offset() -> None:
    log = log_of((1, 3))
    log.epochs.lead(2, log.end)
    log.epochs.lead(5, log.end)
    assert log.epochs == [(1, 0), (5, 3)]
    assert log.end_of(1) == (1, 3)


def test_a_batch_that_is_sent_again_keeps_its_place() -> None:
    log = UnifiedLog(ERAS["4.1"])
    first = log.append(sent(7, 0, 0, "a", "b"), 1)
    log.append(sent(7, 0, 2, "c"), 1)
    assert log.append(sent(7, 0, 0, "a", "b"), 1).base == first.base == 0
    assert [r for _, _, r in log.records()] == ["a", "b", "c"]


@pytest.mark.parametrize(("era", "remembered"), [("4.1", 5), ("0.11", 1)])
def test_only_so_many_batches_are_remembered(era: str, remembered: int) -> None:
    log = UnifiedLog(ERAS[era])
    for n in range(7):
        log.append(sent(7, 0, n, f"r{n}"), 1)
    for n in range(7):
        if n >= 7 - remembered:
            assert log.append(sent(7, 0, n, f"r{n}"), 1).base == n
        else:
            assert refused(log, sent(7, 0, n, f"r{n}")) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_have_no_gaps_and_epochs_do_not_go_back() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 3, 0, "a"), 1)
    assert refused(log, sent(7, 3, 2, "c")) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, sent(7, 4, 1, "b")) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, sent(7, 2, 0, "z")) is KafkaError.INVALID_PRODUCER_EPOCH
    assert log.append(sent(7, 4, 0, "b"), 1).base == 1


def test_a_producer_writes_nothing_else_while_its_transaction_is_open() -> None:
    log = log_of()
    log.append(sent(7, 0, 0, "a", txn=True), 1)
    assert refused(log, sent(7, 0, 1, "b")) is KafkaError.INVALID_TXN_STATE
    assert refused(log, sent(7, 1, 0, "b")) is KafkaError.INVALID_TXN_STATE
    assert refused(log, sent(7, 0, 5, "b")) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER  # looked at first
    log.append(sent(8, 0, 0, "c"), 1)
    log.append(marker(7, 0, "commit"), 1)
    assert log.append(sent(7, 0, 1, "b"), 1).base == 3


def test_sequences_wrap() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 0, 2**31 - 2, "a", "b"), 1)  # unknown producer: any sequence is taken
    assert log.append(sent(7, 0, 0, "c"), 1).base == 2


def test_a_producer_that_is_not_known_may_begin_anywhere_but_in_old_eras() -> None:
    # KAFKA-15591: the batch with sequence 0 was refused elsewhere, this one is taken for the first.
    assert UnifiedLog(ERAS["4.1"]).append(sent(7, 0, 1, "b"), 1).base == 0
    assert refused(UnifiedLog(ERAS["2.4"]), sent(7, 0, 1, "b")) is KafkaError.UNKNOWN_PRODUCER_ID


def test_readers_stop_before_the_first_transaction_that_is_open_or_not_replicated() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 0, 0, "a", txn=True), 1)
    log.append(sent(8, 0, 0, "b", txn=True), 1)
    assert log.stable(2) == 0
    log.append(marker(7, 0, COMMIT), 1)
    assert log.stable(2) == 0  # the marker is not replicated yet
    assert log.stable(3) == 1
    log.append(marker(8, 0, ABORT), 1)
    assert log.stable(4) == 4
    assert [(a.first, a.last) for a in log.aborted_between(0, 4)] == [(1, 3)]
    assert log.aborted_between(0, 1) == []


def test_a_marker_of_an_old_epoch_or_coordinator_is_refused() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 2, 0, "a", txn=True), 1)
    assert refused(log, marker(7, 1, COMMIT)) is KafkaError.INVALID_PRODUCER_EPOCH
    log.append(marker(7, 2, COMMIT, coordinator=5), 1)
    assert refused(log, marker(7, 2, ABORT, coordinator=4)) is (KafkaError.TRANSACTION_COORDINATOR_FENCED)
    log.append(marker(7, 3, ABORT, coordinator=6), 1)  # fences epoch 2
    assert refused(log, sent(7, 2, 1, "b", txn=True)) is KafkaError.INVALID_PRODUCER_EPOCH


def test_a_producer_that_wrote_nothing_for_long_is_forgotten_unless_its_transaction_is_open() -> None:
    log = UnifiedLog(ERAS["4.2"])
    for producer_id, transactional, at in ((1, False, 10), (2, True, 10), (3, False, 20)):
        log.append(RecordBatch(-1, -1, ("x",), producer_id, 0, 0, transactional, appended_ms=at), 1)
    log.expire_producers(9)
    assert set(log.producers) == {1, 2, 3}
    log.expire_producers(10)
    assert set(log.producers) == {2, 3}


def test_cutting_back_takes_epochs_producers_and_transactions_with_it() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 0, 0, "a", txn=True), 1)
    log.append(marker(7, 0, ABORT), 1)
    log.append(sent(7, 0, 1, "b", txn=True), 2)
    log.truncate(1)
    assert (log.end, log.epochs, log.aborted) == (1, [(1, 0)], [])
    assert log.producers[7].began == 0
    assert log.append(sent(7, 0, 1, "c", txn=True), 3).base == 1


def test_cutting_in_the_middle_of_a_batch_takes_the_whole_batch() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 0, 0, "a"), 1)
    log.append(sent(7, 0, 1, "b", "c", "d"), 1)
    log.truncate(3)
    assert log.end == 1


def test_a_power_loss_takes_what_was_not_flushed() -> None:
    log = log_of((1, 3))
    log.flush()
    log.append(RecordBatch(-1, -1, ("x",)), 1)
    log.lose_power()
    assert [r for _, _, r in log.records()] == ["1.0", "1.1", "1.2"]


def test_reading_returns_whole_batches_below_a_bound() -> None:
    log = UnifiedLog(ERAS["4.1"])
    log.append(sent(7, 0, 0, "a", "b", "c"), 1)
    log.append(sent(7, 0, 3, "d"), 1)
    assert [b.base for b in log.read(1, 4, 100)] == [0, 3]
    assert [b.base for b in log.read(1, 4, 1)] == [0]
    assert [b.base for b in log.read(0, 2, 100)] == []
    assert [b.base for b in log.read(3, 4, 100)] == [3]
