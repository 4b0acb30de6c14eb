"""The database of a run: what each `sink` makes of a record that is processed again, or late."""

import sqlite3
from pathlib import Path
from typing import get_args

import pytest

from core.config import RunConfig
from core.errors import ClusterError
from core.op import DATABASE, TopicPartition
from harness.clients.database import IN_MEMORY, REFUSED, Database, DatabaseRow

TP = TopicPartition("sink", 0)
OTHER = TopicPartition("sink", 1)
SINKS = get_args(RunConfig.model_fields["sink"].annotation)
CURES = [sink for sink in SINKS if sink != "plain"]


def rows(*offsets: int, tp: TopicPartition = TP, key: int = 0) -> list[DatabaseRow]:
    return [DatabaseRow(tp, offset, (offset << 32) + key, 1000 + offset) for offset in offsets]


@pytest.mark.parametrize("sink", SINKS)
def test_rows_of_a_partition_are_numbered_as_they_are_written(sink: str) -> None:
    database = Database(IN_MEMORY, sink)
    assert database.write([*rows(4, 7), *rows(2, tp=OTHER)]) == [0, 1, 0]
    assert database.write(rows(8)) == [2]
    assert database.read(TopicPartition(DATABASE, 0)) == ([0, 1, 2], [1004, 1007, 1008])
    ends = {TopicPartition(DATABASE, 0): 3, TopicPartition(DATABASE, 1): 1, TopicPartition(DATABASE, 2): 0}
    assert database.ends([0, 1, 2, 1]) == ends


def test_plain_writes_again_what_is_processed_again() -> None:
    database = Database(IN_MEMORY, "plain")
    assert [database.write(rows(4)), database.write(rows(4))] == [[0], [1]]


@pytest.mark.parametrize("sink", CURES)
def test_each_cure_refuses_what_is_there_and_takes_what_is_new(sink: str) -> None:
    database = Database(IN_MEMORY, sink)
    database.write(rows(4, 5))
    assert database.write(rows(4, 5, 6)) == [REFUSED, REFUSED, 2]
    assert database.write(rows(4, tp=OTHER)) == [0]


def test_an_older_record_of_a_key_is_refused_and_one_of_another_key_is_not() -> None:
    database = Database(IN_MEMORY, "optimistic-lock")
    assert database.write([*rows(9, key=1), *rows(8, key=1), *rows(7, key=2)]) == [0, REFUSED, 1]


def test_below_the_position_in_the_database_nothing_is_written() -> None:
    database = Database(IN_MEMORY, "offset-in-transaction")
    assert database.write(rows(9, 8)) == [0, REFUSED]


@pytest.mark.parametrize("sink", SINKS)
def test_a_transaction_that_fails_leaves_nothing(sink: str) -> None:
    database = Database(IN_MEMORY, sink)
    bad = DatabaseRow(TP, 5, 5, 2**64)  # no integer of SQLite
    with pytest.raises((sqlite3.Error, OverflowError)):
        database.write([*rows(4), bad])
    assert database.write(rows(4)) == [0]


def test_rows_that_cannot_be_counted_are_an_error_of_the_cluster(tmp_path: Path) -> None:
    """The run says so, and ends in order."""
    database = Database(tmp_path / "rows.sqlite", "plain", busy_s=0.01)
    database.write(rows(4))
    holding = sqlite3.connect(tmp_path / "rows.sqlite", isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ClusterError, match=r"the rows of the database cannot be counted: .*locked"):
        database.ends([0])
    holding.close()
    assert database.ends([0]) == {TopicPartition(DATABASE, 0): 1}


def test_processes_share_one_file_and_one_that_waits_too_long_is_told(tmp_path: Path) -> None:
    one, other = (Database(tmp_path / "rows.sqlite", "unique-id", busy_s=0.01) for _ in range(2))
    one.write(rows(4))
    assert other.write(rows(4, 5)) == [REFUSED, 1]
    holding = sqlite3.connect(tmp_path / "rows.sqlite", isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        one.write(rows(6))
    holding.close()
    assert one.write(rows(6)) == [2]
