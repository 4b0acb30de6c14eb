"""The reader of a sealed run folder: names for codes, and the few records that are asked for.

Not here: folders that cannot be read (`tests/checkers/test_sealed.py`).
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.op import End, Isolation, Outcome, value_of
from history import reader, units
from history.columns import held, positions
from history.reader import load
from history.tables import CLUSTERED, TABLES
from history.unit_files import EVERYWHERE, read_columns
from tests.histories.built import Built, Op, Process, Read, Send
from tests.histories.folders import write_run
from tests.histories.planted import random_history


def small() -> Built:
    built = Built(tps=["x", "y"])
    built.processes[1] = Process(slot=4, txn_id=2, isolation=Isolation.READ_COMMITTED)
    done = Op(process=1, f="txn", invoke=100, complete=200, txn=True)
    done.mops = [Send(tp=1, value=value_of(1, 0), offset=3), Read(tp=0, offset=9, value=5)]
    never = Op(process=1, f="send", invoke=300, complete=None, outcome=Outcome.INFO)
    never.mops = [Send(tp=1, value=value_of(1, 1))]
    built.ops = [done, never]
    return built


def test_ops_and_processes_have_names_for_codes(tmp_path: Path) -> None:
    history = load(write_run(tmp_path / "run", small().tables()))
    done, never = history.op(0), history.op(1)
    assert (done.f, done.txn, done.outcome, done.n_sends, done.n_reads) == ("txn", True, 0, 1, 1)
    assert (done.completed, done.ended_ns) == (True, 200)
    assert (never.completed, never.ended_ns, never.outcome) == (False, 300, Outcome.INFO)
    assert history.ops_of(1).tolist() == [0, 1]
    assert history.ops_of(2).tolist() == []
    process = history.processes[1]
    assert (process.level, process.end) == ("read_committed", End.CLOSED)
    assert history.client(1) == "process 1 (client 4, txn-2)"
    assert history.client(77) == "process 77"
    assert (history.tp(1), history.tp(9), history.group(1)) == ("y-0", "9", "group-1")
    assert history.seconds(2_000_000_000) == 2.0


def test_identities_are_in_order_of_time(tmp_path: Path) -> None:
    tables = small().tables()
    row = {"process": 1, "producer_id": 77, "producer_epoch": 3, "epoch_cnt": 1, "ns": 9}
    rows = [row, row | {"ns": 4, "epoch_cnt": 0}]
    tables["producers"] = pa.Table.from_pylist(rows, schema=TABLES["producers"])
    history = load(write_run(tmp_path / "run", tables))
    assert [one.epoch_cnt for one in history.identities(1)] == [0, 1]
    assert history.identities(2) == ()


def expected(table: pa.Table, kept: Callable[[dict[str, int]], bool]) -> set[str]:
    return {str(tuple(row.values())) for row in table.to_pylist() if kept(row)}


def told(rows: list[reader.SendRow] | list[reader.ReadRow]) -> set[str]:
    return {str(tuple(row)) for row in rows}


@pytest.mark.parametrize("seed", range(3))
def test_few_records_are_read_by_any_condition(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("history.units.UNIT_ROWS", 4)
    tables = random_history(seed)[0].tables()
    history = load(write_run(tmp_path / "run", tables))
    assert len(history.names.units) > 1
    everything = {EVERYWHERE: {"tp": history.tps}}
    sends, reads = history.sends(everything), history.reads(everything)
    assert told(sends) == expected(tables["sends"], lambda _: True)
    assert told(reads) == expected(tables["reads"], lambda _: True)
    values = {sends[0].value, sends[-1].value}
    assert told(history.reads({EVERYWHERE: {"value": values}})) == expected(
        tables["reads"], lambda row: row["value"] in values
    )
    tp = reads[-1].tp
    assert told(history.reads({tp: {"offset": range(1, 4), "value": ()}})) == expected(
        tables["reads"], lambda row: row["tp"] == tp and 1 <= row["offset"] <= 3
    )
    assert history.sends({}) == []


def test_columns_of_a_unit_are_those_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "ROW_GROUP", 8)
    tables = random_history(1)[0].tables()
    history = load(write_run(tmp_path / "run", tables))
    (unit,) = history.names.units
    for table in CLUSTERED:
        assert history.whole(table).equals(tables[table])
        for name in TABLES[table].names:
            given = tables[table].column(name).to_numpy()
            found = read_columns(history.run, table, unit.name, (name,))[name]
            assert (found.dtype, found.tolist()) == (given.dtype, given.tolist()), name


def test_the_files_of_units_are_the_rows_of_the_tables(tmp_path: Path) -> None:
    tables = random_history(1)[0].tables()
    run = write_run(tmp_path / "run", tables)
    for table in CLUSTERED:
        (file,) = run.table(table).glob("*.parquet")
        assert pq.read_table(file).equals(tables[table])


@pytest.mark.parametrize("some", [(), (0,), (-3, 2, 40), (5, 2**40), (-(2**63), 7), (2**30,), (1, 9_000_000)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_found_among_some(some: tuple[int, ...], dtype: type[np.signedinteger]) -> None:
    kind = np.iinfo(dtype)
    near = [one + n for one in (*some, 0) for n in (-1, 0, 1)]
    column = np.array([one for one in (*near, kind.min, kind.max) if kind.min <= one <= kind.max], dtype)
    there = held(column, np.array(some, np.int64))
    assert there.tolist() == [one in some for one in column.tolist()]
    where = positions(column[there], np.array(some, np.int64))
    assert [some[n] for n in where.tolist()] == column[there].tolist()
