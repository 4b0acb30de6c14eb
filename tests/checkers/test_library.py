"""`check` as a library: each form of a history gives the same result; its documentation runs."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import inquest
from checkers import check
from checkers.api import FINDINGS, Result
from checkers.caller_tables import run_of
from checkers.engine.spark import spark
from checkers.recordings.formats import record_lines
from core.config import run_config
from core.errors import HistoryError, UsageError
from history.events import EvidenceTaken, Recorder
from history.run_folder import Run
from tests.histories.folders import NAMES, RECOVERED, STARTED, check_run, write_run
from tests.histories.planted import random_history

DOCS = Path(__file__).parents[2] / "docs"
DAMAGED = 10
"""Seed of a recorded history with several findings."""
CONFIG = run_config({"seed": 7})
GIVEN: dict[str, Any] = {"config": CONFIG, "events": (STARTED, RECOVERED), "names": NAMES}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return write_run(tmp_path / "results" / "latest", random_history(DAMAGED)[0].tables())


def tables() -> dict[str, pa.Table]:
    return random_history(DAMAGED)[0].tables()


def column(table: pa.Table, name: str, value: int | None) -> pa.Table:
    """The table with this value in every row of a column."""
    values = pa.array([value] * table.num_rows, pa.int64())
    return table.set_column(table.column_names.index(name), name, values)


def said(result: Result) -> tuple[object, ...]:
    """What a result says, whatever the form of its history."""
    verdict = result.verdict
    return (
        verdict.valid, verdict.exit_code, verdict.unknown, verdict.anomalies, result.counts, result.forbidden,
        result.witnesses, result.findings.to_pylist(),
    )  # fmt: skip


def test_a_folder_is_judged_without_a_word_and_without_a_new_file(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.folder.rglob("*"))
    result = check(str(run.folder), engine="process")
    assert result.valid is False
    assert result.forbidden
    assert result.findings.column_names == list(FINDINGS)
    assert sum(result.counts.values()) == result.findings.num_rows
    assert all(result.witnesses[name] for name in result.counts)
    assert sorted(run.folder.rglob("*")) == before
    assert capfd.readouterr() == ("", "")
    result.write(run)
    assert json.loads(run.verdict.read_text())["summary"] == result.verdict.summary


@pytest.mark.sampled(5)
def test_tables_say_what_their_folder_says(run: Run) -> None:
    given = {}
    for name, table in tables().items():
        rows = range(table.num_rows)
        turned = table.take(pa.array(rows[::-1] if name in ("ops", "sends", "reads") else rows, pa.int64()))
        wide = pa.schema([f.with_type(pa.int64()) if f.type == pa.int16() else f for f in table.schema])
        given[name] = turned.cast(wide).append_column("more", pa.nulls(table.num_rows))
    assert said(check(given, **GIVEN, engine="process")) == said(check(run, engine="process"))


@pytest.mark.sampled(34)
@pytest.mark.spark
def test_data_frames_say_what_their_folder_says(run: Run) -> None:
    with spark("local[2]") as session:
        frames = {name: session.createDataFrame(table) for name, table in tables().items() if table.num_rows}
        result = check(frames, **GIVEN)
        assert not session.sparkContext._jsc.sc().isStopped()
    assert result.verdict.engine.startswith("Spark ")
    assert said(result) == said(check(run, engine="process"))


def test_what_tables_leave_out_is_unknown() -> None:
    history = tables()
    history.pop("bounds")
    unread = check(history, config=CONFIG, engine="process").verdict
    assert any("final reads did not reach the end" in why for why in unread.unknown)
    assert unread.checks["recovery"].status == "unknown"  # no event says that the cluster recovered


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.pop("ops"), "the table ops is missing"),
        (lambda t: t.update(ops=t["ops"].drop(["f"])), r"the table ops lacks the column f \(int8\)"),
        (lambda t: t.update(more=t["ops"]), "unknown table 'more'"),
        (lambda t: t.update(tps=column(t["tps"], "tp", None)), "the table tps has nulls in the column tp"),
        (lambda t: t.update(ops=column(t["ops"], "f", 300)), "the table ops: .*300"),
        (lambda t: t.update(ops=t["ops"].slice(1)), "must number its ops 0, 1, 2"),
    ],
)
def test_tables_that_cannot_be_judged_are_refused_by_name(change: Any, why: str) -> None:
    history = tables()
    change(history)
    with pytest.raises(HistoryError, match=why):
        check(history, engine="process")


def row_with(table: str, name: str, value: int, row: int = 0) -> Any:
    """A change: this value in one row of a column."""

    def change(history: dict[str, pa.Table]) -> None:
        given = history[table]
        values = given.column(name).to_pylist()
        values[row] = value
        at = given.column_names.index(name)
        history[table] = given.set_column(
            at, given.schema.field(at), pa.array(values, given.schema.field(at).type)
        )

    return change


@pytest.mark.parametrize(
    ("table", "name", "value", "why"),
    [
        ("processes", "acks", 2, "acks 2 is none of"),
        ("processes", "acks", -3, "acks -3 is none of"),
        ("processes", "acks", -2, "it does not produce"),
        ("processes", "isolation", 2, "isolation 2 is none of"),
        ("processes", "end", 9, "end 9 is none of"),
        ("processes", "idempotent", 2, "idempotent 2"),
        ("processes", "process", 77, "is not a row of processes"),
        ("processes", "group", 9999, "is not a place in the"),
        ("ops", "outcome", 3, "outcome 3 is none of"),
        ("ops", "phase", 12, "phase 12 is none of"),
        ("ops", "f", 99, "is not a place in the"),
        ("ops", "n_reads", 9, "is not its number of rows of reads"),
        ("ops", "invoke_ns", 2**62, "complete_ns"),
        ("sends", "outcome", 7, "outcome 7 is none of"),
        ("sends", "op_outcome", 7, "is not the outcome of its op"),
        ("sends", "op", 10**6, "is not a row of ops"),
        ("sends", "tp", 10**6, "is not a row of tps"),
        ("sends", "value", -5, "value -5 is below 0"),
        ("sends", "offset", -7, "offset -7 is below -1"),
        ("reads", "phase", 5, "is not the phase of its op"),
        ("reads", "isolation", 5, "isolation 5 is none of"),
        ("reads", "process", 10**6, "is not the process of its op"),
        ("commits", "op", 10**6, "is not a row of ops"),
        ("processes", "start_ns", 2**62, "end_ns .* is before its start_ns"),
        ("reads", "value", -1, "value -1 is below 0"),
        ("reads", "offset", -1, "offset -1 is below 0"),
        ("bounds", "start", 10**9, "is above its end"),
        ("bounds", "isolation", -1, "isolation -1 is none of"),
        ("tps", "tp", 3, "is not the number of its row"),
        ("tps", "partition", -1, "partition -1 is below 0"),
    ],
)
def test_values_that_cannot_be_are_refused_by_row(table: str, name: str, value: int, why: str) -> None:
    history = tables()
    row_with(table, name, value)(history)
    with pytest.raises(HistoryError, match=rf"^the table \w+, row \d+: .*{why}"):
        check(history, **GIVEN, engine="process")


def test_a_read_at_another_level_than_that_of_its_process_is_refused() -> None:
    history = tables()
    level = history["reads"].column("isolation")[0].as_py()
    row_with("reads", "isolation", 1 - level)(history)
    with pytest.raises(HistoryError, match="is not the isolation of its process"):
        check(history, **GIVEN, engine="process")


@pytest.mark.parametrize("seed", range(20))
def test_values_of_sealed_histories_are_taken(seed: int) -> None:
    built, _, _ = random_history(seed)
    with run_of(built.tables(), names=NAMES):
        pass


def test_arguments_that_say_nothing_are_refused(run: Run) -> None:
    unknown: Any = "proces"
    for source in (run, tables()):
        with pytest.raises(UsageError, match="engine 'proces': spark or process"):
            check(source, engine=unknown)
        with pytest.raises(UsageError, match="--master 'foo': local"):
            check(source, master="foo")
    with pytest.raises(UsageError, match="require belongs to a run folder"):
        check(tables(), **GIVEN, require="exercised", engine="process")


def test_what_is_no_table_by_its_schema_is_refused() -> None:
    ops = tables()["ops"]
    doubled = ops.append_column("op", ops.column("op"))
    no_table: Any = ops.to_pydict()
    for given, why in (
        (doubled, "the table ops has more than one column op"),
        (no_table, "the table ops is a dict: an Arrow table"),
    ):
        with pytest.raises(HistoryError, match=why):
            check(tables() | {"ops": given}, **GIVEN, engine="process")


def test_events_of_a_run_with_evidence_ask_for_none_of_a_caller() -> None:
    taken = EvidenceTaken(ns=RECOVERED.ns, tables=("ends", "takes"))
    more = GIVEN | {"events": (STARTED, RECOVERED, taken)}
    assert said(check(tables(), **more, engine="process")) == said(check(tables(), **GIVEN, engine="process"))


def test_a_folder_that_cannot_be_judged_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        check(tmp_path)
    with pytest.raises(UsageError, match="a run folder has its own"):
        check(run, events=[RECOVERED])
    recorder = Recorder(run.events)
    with pytest.raises(UsageError, match="still being recorded"):
        check(run.folder)
    recorder.close()


def test_the_package_for_other_programs_has_the_same_function() -> None:
    assert inquest.check is check
    assert inquest.record_lines is record_lines


@pytest.mark.sampled(10)
@pytest.mark.spark
def test_the_examples_of_the_page_run_and_agree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.folder.parents[1])
    results = []
    with spark("local[2]"):
        for code in re.findall(r"```python\n(.*?)```", (DOCS / "library.md").read_text(), re.DOTALL):
            space: dict[str, Any] = {"Path": Path}
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, space)
            if "result" in space:  # of a check; others ask tables
                results.append(space["result"])
    *results, of_lines = results
    assert of_lines.forbidden == {"lost-write": 1}
    assert len(results) == 3
    assert [result.counts for result in results] == [results[0].counts] * 3
    assert results[0].counts


def cells() -> list[dict[str, Any]]:
    book = json.loads((DOCS / "notebooks" / "failing-run.ipynb").read_text())
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


@pytest.mark.sampled(48)
@pytest.mark.spark
def test_the_cells_of_the_notebook_run_on_any_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    check_run(run)
    monkeypatch.chdir(run.folder.parents[1])
    monkeypatch.setenv("MPLBACKEND", "agg")
    space: dict[str, Any] = {}
    said = io.StringIO()
    with spark("local[2]"), contextlib.redirect_stdout(said):
        for cell in cells():
            exec("".join(cell["source"]), space)
    assert "lost-write: " in said.getvalue()
    rows = space["rows"]
    assert space["result"].forbidden["lost-write"] == rows["lost"].sum() > 0
    assert len(space["figure"].axes[0].collections) == 2


def test_the_notebook_is_stored_with_what_a_real_run_showed() -> None:
    assert all(cell["execution_count"] for cell in cells())
    shown = [one for cell in cells() for one in cell["outputs"]]
    text = "".join(line for one in shown for line in one.get("text", []))
    assert "valid: False" in text
    assert "lost-write: Record " in text
    assert any("image/png" in one.get("data", {}) for one in shown)
    assert not any(one["output_type"] == "error" for one in shown)


def test_the_notebook_needs_no_repository() -> None:
    found = [line for cell in cells() for line in cell["source"] if re.match("(from|import) ", line)]
    modules = {line.split()[1].partition(".")[0] for line in found}
    assert modules == {"os", "sys", "inquest", "matplotlib", "pyspark"}
