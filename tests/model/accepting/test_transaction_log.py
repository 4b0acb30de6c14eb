"""The transaction log as the model accepts it: each rule refuses at its place; a clean log passes."""

from typing import Any

import pytest

from model.accepting.transaction_log import Kept, broken
from model.coordinator.transaction_metadata import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionRecord,
    TransactionState,
)

TP = ("t", 0)
MOST_EPOCHS = 32_767
IN_MEMORY = Kept(last_epochs=True)


def record(state: TransactionState, epoch: int, **fields: Any) -> TransactionRecord:
    made = TransactionRecord("t", 5, 1000, epoch, state=state)
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
    (record(EMPTY, 0), record(PREPARE_COMMIT, 1, version=2)),
    (record(EMPTY, 3), record(PREPARE_ABORT, 3)),
    (record(PREPARE_COMMIT, 1), record(COMPLETE_ABORT, 1)),
    (record(PREPARE_COMMIT, 1), record(ONGOING, 1)),
    (record(ONGOING, 2), record(PREPARE_ABORT, 2, version=2)),
    (record(ONGOING, 2), record(PREPARE_ABORT, 1)),
    (record(ONGOING, 0, partitions=(TP,)), record(ONGOING, 0)),
    (record(ONGOING, 0, partitions=(TP,)), record(PREPARE_COMMIT, 0)),
    (record(COMPLETE_COMMIT, 4), record(EMPTY, 4)),
    (record(COMPLETE_COMMIT, 4), record(EMPTY, 3)),
    (record(COMPLETE_COMMIT, 4), record(EMPTY, 0, producer_id=6)),
]


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_a_legal_change(before: TransactionRecord, after: TransactionRecord) -> None:
    assert broken(before, after, IN_MEMORY) is None


@pytest.mark.parametrize(("before", "after"), ILLEGAL)
def test_an_illegal_change(before: TransactionRecord, after: TransactionRecord) -> None:
    assert broken(before, after, IN_MEMORY) is not None
