"""Open transactions: what their units show of them, from few rows, is what all rows show."""

from pathlib import Path

import numpy as np
import pytest

from checkers.engine import open_transactions
from checkers.engine.kernel_input import READS, SENDS, kernel_input, on_record
from checkers.engine.partition_view import KernelView
from checkers.engine.pipeline import partitions
from history import units
from history.columns import columns
from history.reader import History, load
from tests.histories.folders import write_run
from tests.histories.planted import random_history


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[History]:
    """Random histories in row groups of three rows, so that statistics leave some of them out."""
    monkeypatch.setattr(units, "ROW_GROUP", 3)
    made = [(seed, random_history(seed)) for seed in range(7)]
    return [load(write_run(tmp_path / str(n), of[0].tables())) for n, of in made if of[1]]


def shown_by_views(history: History) -> set[int]:
    """The same from whole partitions, joined as the kernels see them."""
    known = kernel_input(history.tables, record=on_record(history.config))
    sends, reads = (columns(history.whole(name), of) for name, of in (("sends", SENDS), ("reads", READS)))
    found = set()
    for tp, sent, read in partitions(sends, reads):
        view = KernelView(tp, sent, read, known)
        found |= set(sent["op"][view.open_txn & view.seen].tolist())
    return found


@pytest.mark.sampled(11)
@pytest.mark.parametrize("repeats", [False, True])
def test_a_few_rows_show_what_all_rows_show(
    sealed: list[History], monkeypatch: pytest.MonkeyPatch, repeats: bool
) -> None:
    monkeypatch.setattr("history.unit_files.BLOCK_ROWS", 7)
    expected = [shown_by_views(history) for history in sealed]
    assert sum(map(bool, expected)) > 0
    for history, ops in zip(sealed, expected, strict=True):
        parts = [
            each
            for unit in history.names.units
            for each in open_transactions.shown_in_unit(history.run, unit.name, repeats=repeats)
        ]
        assert set(np.concatenate([np.zeros(0), *parts]).tolist()) == ops


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([7, 8, 9, 6], ""),
        ([], ""),
        ([9, 8, 5, 8], "1 values of {where} are sent twice, the first one by ops 11 and 13;"),
        ([9, 8, 9, 8], "2 values of {where} are sent twice, the first one by ops 11 and 13;"),
    ],
)
def test_which_ops_sent_one_value(values: list[int], told: str) -> None:
    sends = {"value": np.array(values, np.int64), "op": np.arange(10, 10 + len(values))}
    text = open_transactions.sent_twice(sends)
    assert text.startswith(told)
    assert bool(text) is bool(told)


@pytest.mark.sampled(11)
def test_values_that_are_sent_twice_prove_nothing(
    sealed: list[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = next(each for each in sealed if shown_by_views(each))
    monkeypatch.setattr(open_transactions, "sent_twice", lambda _: "some are")
    for unit in history.names.units:
        assert not list(open_transactions.shown_in_unit(history.run, unit.name, repeats=True))
