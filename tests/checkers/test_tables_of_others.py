"""Tables of a recorded folder that others may have made: what no recording holds is an error, never valid."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.api import check
from core.config import run_config
from core.errors import HistoryError
from harness.compose import record
from harness.run.progress import silent
from history.reader import load
from history.run_folder import Run
from history.tables import CLUSTERED, OPEN, ORDER

BIG = 2**31 - 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Transactions, groups and copies, some of them killed."""
    settings = {
        "sut": "simulated",
        "seed": 4,
        "duration_s": 4,
        "rate": 30,
        "workload": "copier",
        "nemesis": "none",
    }
    return record(run_config(settings), results=tmp_path_factory.mktemp("made"), display=silent()).run


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    shutil.copytree(made.folder, tmp_path / "run")
    return Run(tmp_path / "run")


def file_of(run: Run, table: str) -> Path:
    """The file of a table, or of its largest unit."""
    if table not in CLUSTERED:
        return run.table(table)
    return run.table(table) / f"{load(run).names.units[0].name}.parquet"


def changed(run: Run, table: str, change: Callable[[pa.Table], pa.Table], *, statistics: bool = True) -> None:
    path = file_of(run, table)
    given = pq.read_table(path)
    pq.write_table(change(given).cast(given.schema), path, write_statistics=statistics)


def cell(column: str, value: int, row: int = 0) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value
        at = table.column_names.index(column)
        return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))

    return change


def refused(run: Run, *said: str) -> None:
    with pytest.raises(HistoryError) as caught:
        check(run, engine="process")
    assert all(word in str(caught.value) for word in said), caught.value
    assert "\n" not in str(caught.value)


CASES = [
    ("tps", "tp", 1, "is not the number of its row"),
    ("tps", "partition", -1, "partition -1 is below 0"),
    ("processes", "process", -4, "is not a row of processes"),
    ("processes", "process", 1, "is there twice"),
    ("processes", "isolation", 2, "isolation 2 is none of -1, 0, 1"),
    ("processes", "acks", -3, "acks -3 is none of"),
    ("processes", "acks", 2, "acks 2 is none of"),
    ("processes", "idempotent", 7, "idempotent 7 is none of 0, 1"),
    ("processes", "auto_commit", -1, "auto_commit -1 is none of 0, 1"),
    ("processes", "end", 3, "end 3 is none of 0, 1, 2"),
    ("processes", "group", 30_000, "is not a place in the"),
    ("processes", "txn_id", -2, "txn_id -2 is below -1"),
    ("processes", "end_ns", 0, "end_ns 0 is before its start_ns"),
    ("ops", "op", 7, "op 7 is not the number of its row"),
    ("ops", "process", 12_345, "is not a row of processes"),
    ("ops", "process", -1, "is not a row of processes"),
    ("ops", "f", 100, "is not a place in the"),
    ("ops", "error", -2, "error -2 is below -1"),
    ("ops", "outcome", 3, "outcome 3 is none of 0, 1, 2"),
    ("ops", "outcome", -1, "outcome -1 is none of"),
    ("ops", "phase", 9, "phase 9 is none of"),
    ("ops", "txn", 2, "txn 2 is none of 0, 1"),
    ("ops", "deliberate", -1, "deliberate -1 is none of 0, 1"),
    ("ops", "n_sends", -1, "n_sends -1 is below 0"),
    ("ops", "n_sends", 99, "sends in its units, where the ops say"),
    ("ops", "n_reads", 99, "reads in its units, where the ops say"),
    ("ops", "invoke_ns", -5, "invoke_ns -5 is below 0"),
    ("ops", "invoke_ns", OPEN - 1, "is before its invoke_ns"),
    ("ops", "complete_ns", OPEN, "is before that of the op before it"),
    ("commits", "kind", 4, "kind 4 is none of"),
    ("commits", "outcome", 5, "outcome 5 is none of"),
    ("commits", "tp", 900, "tp 900 is not a row of tps"),
    ("commits", "op", BIG, "is not a row of ops"),
    ("commits", "op", -2, "op -2 is not a row of ops"),
    ("commits", "process", 12_345, "is not a row of processes"),
    ("commits", "complete_ns", 0, "complete_ns 0 is before its invoke_ns"),
    ("assignments", "kind", 7, "kind 7 is none of"),
    ("assignments", "assignment", -1, "assignment -1 is below 0"),
    ("assignments", "tp", -1, "tp -1 is not a row of tps"),
    ("bounds", "isolation", -1, "isolation -1 is none of 0, 1"),
    ("bounds", "start", 10**9, "is above its end"),
    ("bounds", "end", -2, "end -2 is below -1"),
    ("bounds", "end", -1, "is not known, and the row is complete"),
    ("bounds", "read_to", 0, "is below its end, and the row is complete"),
    ("sends", "tp", 900, "tp 900 is not within 0 and"),
    ("sends", "op", BIG, "is not within 0 and"),
    ("sends", "op", -1, "op -1 is not within 0 and"),
    ("sends", "outcome", 7, "outcome 7 is not within 0 and 2"),
    ("sends", "value", -1, "value -1 is not within 0 and"),
    ("sends", "offset", -2, "offset -2 is not within -1 and"),
    ("sends", "ack_ns", -2, "ack_ns -2 is not within -1 and"),
    ("sends", "op_outcome", 7, "op_outcome 7 is not the outcome of its op"),
    ("sends", "op_outcome", 1, "op_outcome 1 is not the outcome of its op"),
    ("sends", "txn", 3, "txn 3 is not the txn of its op"),
    ("sends", "op_sends", 77, "op_sends 77 is not the n_sends of its op"),
    ("sends", "process", 12_345, "is not the process of its op"),
    ("sends", "place", 10**6, "is not its acknowledged offset"),
    ("reads", "isolation", 2, "isolation 2 is not within 0 and 1"),
    ("reads", "offset", -1, "offset -1 is not within 0 and"),
    ("reads", "value", -7, "value -7 is not within 0 and"),
    ("reads", "op_outcome", 9, "op_outcome 9 is not the outcome of its op"),
    ("reads", "phase", 100, "phase 100 is not the phase of its op"),
    ("reads", "process", 12_345, "is not the process of its op"),
    ("reads", "pos", -1, "pos"),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("table", "column", "value", "said"), CASES, ids=lambda case: str(case)[:40])
def test_a_value_that_no_recording_holds_is_refused(
    run: Run, table: str, column: str, value: int, said: str
) -> None:
    row = -1 if (column, value) == ("pos", -1) else 0
    changed(run, table, cell(column, value, row))
    refused(run, said, table)


def test_a_send_that_leaves_its_transaction_is_refused(run: Run) -> None:
    txn = pq.read_table(file_of(run, "sends"))["txn"][0].as_py()
    changed(run, "sends", cell("txn", 1 - txn))
    refused(run, "is not the txn of its op")


def test_a_read_at_another_level_than_that_of_its_process_is_refused(run: Run) -> None:
    level = pq.read_table(file_of(run, "reads"))["isolation"][0].as_py()
    changed(run, "reads", cell("isolation", 1 - level))
    refused(run, "is not the isolation of its process")


@pytest.mark.parametrize("table", CLUSTERED)
def test_rows_in_another_order_are_refused(run: Run, table: str) -> None:
    changed(run, table, lambda rows: rows.take(pa.array([*range(1, rows.num_rows), 0])))
    refused(run, table, ", ".join(ORDER[table][1:]))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("table", CLUSTERED)
def test_a_footer_without_statistics_hides_nothing(run: Run, table: str) -> None:
    changed(run, table, lambda rows: rows, statistics=False)
    assert check(run, engine="process").verdict.valid is True
    changed(run, table, cell("value", -1), statistics=False)
    refused(run, "value -1 is not within 0 and")


@pytest.mark.parametrize("table", CLUSTERED)
def test_a_row_that_is_gone_with_its_count_is_refused(run: Run, table: str) -> None:
    """A unit with a row less, and names that say so."""
    changed(run, table, lambda rows: rows.slice(1))
    names = msgspec.json.decode(run.names.read_bytes())
    names["units"][0][table] -= 1
    run.names.write_bytes(msgspec.json.encode(names))
    refused(run, "names.json", f"{table} in its units, where the ops say that there are")


def test_a_unit_that_is_gone_with_its_name_is_refused(run: Run) -> None:
    names = msgspec.json.decode(run.names.read_bytes())
    names["units"] = []
    run.names.write_bytes(msgspec.json.encode(names))
    refused(run, "names.json", "where the ops say that there are")


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("commits", "op", -1),  # as the client was closed
        ("commits", "generation", -1),
        ("commits", "offset", 10**9),
        ("reads", "leader_epoch", -1),
        ("processes", "retries", -1),
        ("bounds", "read_to", 10**9),  # the log went on
    ],
)
def test_what_a_recording_may_hold_is_judged(run: Run, table: str, column: str, value: int) -> None:
    changed(run, table, cell(column, value))
    assert check(run, engine="process").verdict.valid is not None


@pytest.mark.sampled(6)
def test_the_undamaged_run_is_valid(made: Run) -> None:
    assert check(made, engine="process").verdict.valid is True
