"""What the comparison with real brokers (harness/contract) showed to be otherwise than the model had it."""

from dataclasses import replace
from typing import Any

import pytest

from model.eras import ERAS, Era
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import (
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    OffsetCommit,
    TxnMarker,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from model.protocol.messages import Fetch, FetchPartition, Produce
from tests.model.one_broker import OneBroker, produce

TP = ("data", 0)
NEWER, OLDER = ERAS["4.3-tv1"], ERAS["3.9"]


def broker(era: Era = NEWER) -> OneBroker:
    return OneBroker(era=era)


def wrote(b: OneBroker, producer: Any, sequence: int, *, transactional: bool = True, epoch: int = 0) -> Any:
    """The error of a batch; epoch: added to the producer's."""
    identity = producer.producer_id, producer.producer_epoch + epoch
    batch = RecordBatch(-1, -1, ("m",), *identity, sequence, transactional=transactional)
    answer = b.ask(Produce(-1, {TP: batch}, "t" if transactional else None))
    return answer.results[TP][0]


def marked(b: OneBroker, producer: Any, epoch: int, coordinator_epoch: int = 5) -> None:
    """A marker that no coordinator of today sent."""
    marker = TxnMarker(producer.producer_id, epoch, coordinator_epoch, False, (TP,), 1)
    b.ask(WriteTxnMarkers((marker,)))


def committed(b: OneBroker, producer: Any, generation: int = -1, member: str = "") -> Any:
    identity = producer.producer_id, producer.producer_epoch
    return b.ask(TxnOffsetCommit("t", "g", *identity, {TP: 1}, generation, member)).error


def test_a_sequence_that_waits_for_its_verification_holds_up_all_batches_of_the_producer() -> None:
    b = broker()
    producer = b.init()
    assert wrote(b, producer, 0) is KafkaError.INVALID_TXN_STATE  # nothing was added
    assert wrote(b, producer, 3, transactional=False) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wrote(b, producer, 0, transactional=False) is KafkaError.NONE


@pytest.mark.parametrize("era", ["4.3", "3.9"])
def test_a_batch_that_is_in_the_log_already_leaves_its_verification(era: str) -> None:
    b = OneBroker(era=ERAS[era])
    producer = b.init()
    assert wrote(b, producer, 0, transactional=False) is KafkaError.NONE
    if era == "3.9":
        b.add(producer, 0)
    assert wrote(b, producer, 0) is KafkaError.NONE  # verified, recognised, not appended
    assert wrote(b, producer, 1) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_an_older_epoch_does_not_reach_the_coordinator() -> None:
    b = OneBroker(era=ERAS["4.3"])
    producer = b.init()
    marked(b, producer, producer.producer_epoch + 1)
    assert wrote(b, producer, 0) is KafkaError.INVALID_PRODUCER_EPOCH
    assert b.transaction().state.value == "Empty"  # the leader did not add the partition


@pytest.mark.parametrize(
    ("era", "error"), [(NEWER, "INVALID_PRODUCER_EPOCH"), (OLDER, "OUT_OF_ORDER_SEQUENCE_NUMBER")]
)
def test_until_3_9_an_open_transaction_of_another_epoch_was_enough(era: Era, error: str) -> None:
    b = broker(era)
    producer = b.init()
    b.add(producer, 0)
    assert wrote(b, producer, 0) is KafkaError.NONE
    assert wrote(b, producer, 1, epoch=2).name == error


def test_a_transaction_is_verified_before_the_membership() -> None:
    b = broker()
    producer = b.init()
    assert committed(b, producer, 1, "nobody") is KafkaError.INVALID_TXN_STATE


def test_a_commit_for_a_transaction_that_is_ending_says_so() -> None:
    b = broker()
    producer = b.init()
    b.add(producer, 0)
    marked(b, producer, producer.producer_epoch)
    b.end(producer, commit=True)  # its marker is refused: another coordinator wrote later
    assert committed(b, producer) is KafkaError.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(("era", "error"), [(NEWER, "ILLEGAL_GENERATION"), (OLDER, "UNKNOWN_MEMBER_ID")])
def test_until_3_9_a_refused_commit_made_a_group(era: Era, error: str) -> None:
    b = broker(era)
    assert committed(b, b.init()) is KafkaError.INVALID_TXN_STATE
    assert b.ask(OffsetCommit("g", 1, "nobody", {TP: 1})).error.name == error


def test_a_commit_without_members_makes_a_group() -> None:
    b = broker()
    assert b.ask(OffsetCommit("g", 1, "nobody", {TP: 1})).error is KafkaError.ILLEGAL_GENERATION
    assert b.ask(OffsetCommit("g", -1, "", {TP: 1})).error is KafkaError.NONE
    assert b.ask(OffsetCommit("g", 1, "nobody", {TP: 1})).error is KafkaError.UNKNOWN_MEMBER_ID


def test_a_partition_with_its_marker_is_not_described_any_more() -> None:
    b = broker()
    producer = b.init()
    b.add(producer, 0, 1)
    marked(b, producer, producer.producer_epoch)
    b.end(producer, commit=True)
    described = b.ask(DescribeTransactions(("t", "none"))).transactions
    assert described["t"].state == "PrepareCommit"
    assert described["t"].partitions == (TP,)
    assert described["none"].error is KafkaError.TRANSACTIONAL_ID_NOT_FOUND


def test_a_fetch_brings_the_last_stable_offset_at_each_isolation() -> None:
    b = broker()
    producer = b.init()
    b.add(producer, 0)
    assert wrote(b, producer, 0) is KafkaError.NONE
    found = b.ask(Fetch(-1, {TP: FetchPartition(0)}, committed=False, max_wait_ms=0)).parts[TP]
    assert (found.high_watermark, found.stable) == (1, 0)


def test_a_fetch_lists_aborted_transactions_to_the_end_of_a_short_log() -> None:
    """LocalLog.addAbortedTransactions: the offset index has no entry that would end the search earlier."""
    b = broker()
    b.ask(Produce(-1, {TP: RecordBatch(-1, -1, ("m",))}))
    waiting, aborting = b.init("waiting"), b.init("aborting")
    for producer, tid in ((waiting, "waiting"), (aborting, "aborting")):
        b.add(producer, 0, tid=tid)
        assert b.written(b.send(produce(producer, 0, 0, "x", tid=tid))) is KafkaError.NONE
    b.end(aborting, commit=False, tid="aborting")
    b.until(lambda: bool(b.controls(0)))
    found = b.ask(Fetch(-1, {TP: FetchPartition(0)}, committed=True, max_wait_ms=0)).parts[TP]
    assert found.stable == 1
    assert [batch.base for batch in found.batches] == [0]
    assert [(one.producer_id, one.first) for one in found.aborted] == [(aborting.producer_id, 2)]


def test_producers_are_described_with_sequence_and_coordinator() -> None:
    b = broker(replace(NEWER, begins_at_zero=False))
    producer = b.init()
    b.add(producer, 0)
    assert wrote(b, producer, 0) is KafkaError.NONE
    (state,) = b.ask(DescribeProducers((TP,))).parts[TP]
    assert (state.last_sequence, state.coordinator_epoch, state.began) == (0, -1, 0)
    b.ask(EndTxn("t", producer.producer_id, producer.producer_epoch, True))
    (state,) = b.ask(DescribeProducers((TP,))).parts[TP]
    assert state.coordinator_epoch >= 0
    assert state.began == -1
