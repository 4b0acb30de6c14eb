"""Recorded runs as tables of Spark: words, seconds, nulls; every run once; the documented queries run."""

import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers import check
from checkers.engine.spark import spark
from checkers.run_source import RunSource, folders, tables
from checkers.run_tables import SCHEMAS, read
from core.errors import ExitCode, UsageError
from core.op import Outcome
from history import storage
from history.reader import load
from history.run_folder import FORMAT, Run
from history.tables import GONE
from history.verdict import ResultWord
from tests.histories.folders import write_run
from tests.histories.planted import random_history
from tests.history.test_parts import unsealed

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parents[2] / "docs" / "library.md"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark("local[2]") as made:
        yield made


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two judged runs, a link to one of them, one that nothing has judged, and a folder that is no run."""
    folder = tmp_path_factory.mktemp("tables") / "results"
    for name, workload in (("a", "groups"), ("b", "copier")):
        run = unsealed(folder / "making" / name, workload, nemesis="kill")
        check(run, engine="process").write(run)
        shutil.move(run.folder, folder / name)
    shutil.move(unsealed(folder / "making" / "c", "groups").folder, folder / "c")
    shutil.rmtree(folder / "making")
    (folder / "latest").symlink_to(folder / "b")
    (folder / "nights").mkdir()
    return folder


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [row for table in read(name, Run(run)) for row in table.to_pylist()]


def test_each_run_is_read_once(results: Path) -> None:
    assert [Path(one).name for one in folders(f"{results}/*")] == ["a", "b", "c"]
    assert [Path(one).name for one in folders(f"{results}/latest")] == ["latest"]
    assert folders(f"{results}/nothing*") == []
    assert folders(str(results)) == folders(f"{results}/*"), "a results folder is all runs in it"
    assert folders(str(results / "nights")) == []


@pytest.mark.parametrize("where", ["results/*", "{}/results/*", "results/[ab]", "{}/results/a", "results/a"])
def test_letters_of_patterns_in_the_name_of_a_folder_that_is_there_are_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    home = tmp_path / "kafka[3.9]*?"
    for name in ("a", "b"):
        (home / "results" / name).mkdir(parents=True)
        (home / "results" / name / "config.json").touch()
    monkeypatch.chdir(home)
    found = folders(where.format(home))
    assert [Path(one).name for one in found] == (["a"] if where.endswith("a") else ["a", "b"])
    assert folders(storage.shared(Path(where.format(home)))) == found


def test_what_happened_outside_of_any_op_has_none_and_a_deleted_log_starts_nowhere(tmp_path: Path) -> None:
    every = (random_history(seed)[0].tables() for seed in range(200))
    made = next(tables for tables in every if tables["commits"].num_rows > 1 and tables["tps"].num_rows > 1)
    ops = [-1, *made["commits"].column("op").to_pylist()[1:]]
    deleted = {"start": GONE, "end": -1, "read_to": -1, "complete": False}
    bounds = [row | (deleted if row["tp"] == 0 else {}) for row in made["bounds"].to_pylist()]
    made["commits"] = made["commits"].set_column(2, "op", pa.array(ops, pa.int32()))
    made["bounds"] = pa.Table.from_pylist(bounds, made["bounds"].schema)
    write_run(tmp_path / "run", made)
    assert [row["op"] for row in rows(tmp_path / "run", "commits")] == [None, *ops[1:]]
    starts = [None if row["start"] in (GONE, -1) else row["start"] for row in bounds]
    assert [row["start"] for row in rows(tmp_path / "run", "bounds")] == starts
    assert starts[0] is None
    assert any(start is not None for start in starts)


@pytest.mark.sampled(8)
def test_rows_say_what_the_history_says_in_words(results: Path) -> None:
    history = load(Run(results / "a"))
    ops = history.tables["ops"].to_pylist()
    for row, op in zip(rows(results / "a", "ops"), ops, strict=True):
        assert row["outcome"] == Outcome(op["outcome"]).name.lower()
        assert row["f"] == history.names.f[op["f"]]
        assert row["error"] == (history.names.error[op["error"]] if op["error"] >= 0 else None)
        began = (op["invoke_ns"] - history.names.start_ns) / 1e9
        assert row["invoke_s"] == pytest.approx(began)
        if op["outcome"] == Outcome.OK:
            assert row["latency_s"] == pytest.approx((op["complete_ns"] - op["invoke_ns"]) / 1e9)
    sends = rows(results / "a", "sends")
    assert len(sends) == sum(unit.sends for unit in history.names.units) > 0
    assert {row["value"] for row in sends} == set(history.whole("sends").column("value").to_pylist())
    assert {(row["offset"] is None) for row in sends if row["outcome"] == "ok"} == {False}
    assert {row["acks"] for row in rows(results / "a", "processes")} == {"all", None}


@pytest.mark.sampled(48)
def test_spark_has_the_rows_of_all_runs_and_their_types(session: Any, results: Path) -> None:
    found = tables(session, f"{results}/*")
    for name, schema in SCHEMAS.items():
        frame = found[name]
        assert frame.columns == schema.names
        each = [row for run in ("a", "b", "c") for row in rows(results / run, name)]
        assert frame.count() == len(each), name
    there = found.faults.toArrow().to_pylist()
    here = [row for run in ("a", "b", "c") for row in rows(results / run, "faults")]
    assert sorted(there, key=str) == sorted(here, key=str)
    assert {row.run: row.valid for row in found.runs.collect()}["c"] is None
    assert "ops" in dir(found)


@pytest.mark.sampled(16)
def test_a_history_that_cannot_be_read_is_left_out_and_a_warning_names_it(
    session: Any, results: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        shutil.copytree(results / name, tmp_path / name)
    names = Run(tmp_path / "b").names
    names.write_text(names.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT - 1}'))
    said: list[str] = []
    found = tables(session, f"{tmp_path}/*", said.append)
    (line,) = said
    assert line.startswith(f"the history of b is left out: {names}: format {FORMAT - 1} is older")
    assert {row.run for row in found.ops.select("run").distinct().collect()} == {"a"}
    assert {row.run for row in found.runs.collect()} == {"a", "b"}  # the verdict can be read
    with pytest.warns(UserWarning, match="the history of b is left out"):
        tables(session, f"{tmp_path}/*")
    shutil.rmtree(tmp_path / "a" / "history")  # a run that has none says nothing of the others
    unnamed = session.read.format("inquest").option("table", "ops")
    of_readers = (tables(session, f"{tmp_path}/{which}", said.append).ops for which in "*b")
    for alone in (*of_readers, unnamed.load(f"{tmp_path}/*")):
        with pytest.raises(Exception, match=f"format {FORMAT - 1} is older"):
            alone.count()
    assert len(said) == 1


@pytest.mark.sampled(24)
def test_the_data_source_says_which_tables_there_are(session: Any, results: Path) -> None:
    session.dataSource.register(RunSource)
    frame = session.read.format("inquest").option("table", "runs").load(f"{results}/*")
    assert frame.count() == 3
    with pytest.raises(Exception, match="there is no such table"):
        session.read.format("inquest").option("table", "nothing").load(f"{results}/*")
    with pytest.raises(UsageError, match="no run folder"):
        tables(session, f"{results}/nothing*")
    with pytest.raises(AttributeError, match="no such table"):
        _ = tables(session, f"{results}/*").nothing


@pytest.mark.sampled(8)
def test_the_queries_of_the_documentation_run(session: Any, results: Path) -> None:
    tables(session, f"{results}/*").views()
    queries = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(queries) == 6
    answers = [session.sql(query).toArrow() for query in queries]
    latency, unavailable, _, _, _, longest = (answer.to_pylist() for answer in answers)
    assert {"none"} < {row["fault"] for row in latency}
    assert all(row["latency_s"][0] <= row["latency_s"][1] for row in latency)
    assert sum(row["runs"] for row in unavailable) == 3
    assert len(longest) == 10
    from pyspark.sql.functions import lit

    unhealed = session.table("faults").withColumn("end_s", lit(None).cast("double"))
    unhealed.createOrReplaceTempView("faults")
    without = {row["fault"]: row["records"] for row in session.sql(queries[0]).toArrow().to_pylist()}["none"]
    first = {
        run: min((row["begin_s"] for row in rows(results / run, "faults")), default=math.inf) for run in "abc"
    }
    sent = [row for run in "abc" for row in rows(results / run, "sends") if row["outcome"] == "ok"]
    assert without == sum(row["invoke_s"] < first[row["run"]] for row in sent)

    nothing = lit(None).cast("double")
    untimed = session.table("sends").withColumn("invoke_s", nothing).withColumn("latency_s", nothing)
    untimed.createOrReplaceTempView("sends")
    assert session.sql(queries[0]).toArrow().num_rows == 0


@pytest.mark.sampled(8)
def test_the_queries_of_the_other_pages_are_answered(session: Any, results: Path) -> None:
    tables(session, f"{results}/*").views()
    pages = (DOCS.parents[1] / "README.md", *DOCS.parent.glob("*.md"))
    pattern = re.compile(r'inquest sql "(select [^"]*)"', re.IGNORECASE)
    asked = [query for page in pages for query in pattern.findall(page.read_text())]
    assert "select workload, nemesis, result from runs" in asked
    for query in dict.fromkeys(asked):
        session.sql(query).toArrow()
    words = {row["result"] for row in session.sql("select result from runs").toArrow().to_pylist()}
    assert None in words  # of the run that nothing has judged
    assert words - {None} <= set(ResultWord)


@pytest.mark.sampled(8)
def test_a_query_with_a_typing_error_is_refused_in_one_line(results: Path) -> None:
    words = ["sql", "select * from nope", "--results", str(results)]
    command = [sys.executable, "-m", "harness.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == ExitCode.USAGE
    assert "TABLE_OR_VIEW_NOT_FOUND" in done.stderr
    assert "Java" not in done.stderr
    assert '"logger"' not in done.stderr


@pytest.mark.sampled(48)
def test_frames_of_a_result_are_those_of_pandas(results: Path) -> None:
    result = check(results / "a", engine="process")
    assert list(result.findings_frame().columns) == result.findings.column_names
    assert set(result.checks_frame()["check"]) == set(result.verdict.checks)
    assert len(result.faults_frame()) == len(result.verdict.faults) > 0
    assert isinstance(result.findings, pa.Table)
