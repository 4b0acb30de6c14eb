"""Run folders that cannot be checked: one clear error each, and no verdict."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.api import check_portable
from checkers.engine import memory
from core.errors import HistoryError, InquestError
from history.reader import load
from history.run_folder import FORMAT, Run
from history.tables import TABLES
from tests.histories.folders import check_run, scribble, write_run
from tests.histories.planted import random_history

Damage = Callable[[Run], object]


def names(run: Run, **changes: object) -> None:
    run.names.write_text(json.dumps({**json.loads(run.names.read_text()), **changes}))


def a_file(run: Run, table: str) -> Path:
    return next(run.table(table).glob("*.parquet"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def drop_rows(path: Path) -> None:
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)


def other_columns(path: Path) -> None:
    pq.write_table(pa.table({"tp": [1]}), path)


OURS = f"the one that this version of Inquest reads ({FORMAT})"

DAMAGE: dict[str, tuple[Damage, str]] = {
    "no names": (lambda run: run.names.unlink(), "names.json: No such file"),
    "broken names": (lambda run: run.names.write_text("{"), "names.json"),
    "names without format": (lambda run: run.names.write_text("{}"), "no format number"),
    "newer format": (lambda run: names(run, format=99), f"format 99 is newer than {OURS}"),
    "older format": (lambda run: names(run, format=1), f"format 1 is older than {OURS}"),
    "names of wrong type": (lambda run: names(run, units=3), "names.json"),
    "no config": (lambda run: run.config.unlink(), "config.json: No such file"),
    "unknown setting": (
        lambda run: run.config.write_text('{"seed": 1, "colour": "red"}'),
        "config.json: unknown setting 'colour'",
    ),
    "config of wrong type": (lambda run: run.config.write_text("[]"), "not an object"),
    "no events": (lambda run: run.events.unlink(), "events.jsonl: No such file"),
    "broken events": (
        lambda run: run.events.write_bytes(b"{\n" + run.events.read_bytes()),
        "/events.jsonl line 1",
    ),
    "missing table": (lambda run: run.table("ops").unlink(), "ops.parquet"),
    "cut table": (lambda run: cut(run.table("bounds")), "bounds.parquet"),
    "other columns": (lambda run: other_columns(run.table("tps")), "tps.parquet: its columns"),
    "missing unit": (lambda run: a_file(run, "reads").unlink(), "reads/"),
    "cut unit": (lambda run: cut(a_file(run, "sends")), "sends/"),
    "other columns in a unit": (lambda run: other_columns(a_file(run, "reads")), "reads/"),
    "rows missing in a unit": (lambda run: drop_rows(a_file(run, "sends")), "rows where names"),
    "scribbled unit": (lambda run: scribble(a_file(run, "reads")), "reads/"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_folder_is_refused_with_one_line_that_names_the_file(tmp_path: Path, kind: str) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    assert check_run(run)
    run.verdict.unlink()
    damage, message = DAMAGE[kind]
    damage(run)
    with pytest.raises(HistoryError, match=re.escape(message)) as raised:
        check_run(run)
    assert "\n" not in str(raised.value)
    assert not run.verdict.exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such run folder"):
        check_run(Run(tmp_path / "nothing"))


@pytest.mark.sampled(5)
def test_every_table_is_verified(tmp_path: Path) -> None:
    for table in TABLES:
        run = write_run(tmp_path / table, random_history(1)[0].tables())
        path = run.table(table)
        cut(path if path.is_file() else a_file(run, table))
        with pytest.raises(HistoryError, match=table):
            check_run(run)


def test_a_file_that_is_no_portable_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"name": "a", "history": [{"type": "nonsense"}]}]')
    with pytest.raises(HistoryError, match="history"):
        check_portable(path)
    with pytest.raises(HistoryError, match=r"none\.json: No such file"):
        check_portable(tmp_path / "none.json")


def test_a_unit_that_cannot_fit_in_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    rows = max(unit.sends + unit.reads for unit in load(run).names.units)
    needed = rows * memory.BYTES_A_ROW
    monkeypatch.setattr(memory, "CGROUP", limit := tmp_path / "memory.max")
    limit.write_text(f"{needed}\n")
    assert check_run(run)
    limit.write_text("max\n")
    assert check_run(run)
    run.verdict.unlink()
    limit.write_text(f"{needed - 1}\n")
    monkeypatch.setattr("checkers.engine.pipeline.read_columns", None)
    with pytest.raises(InquestError, match=r"largest unit .* million rows: its check needs about") as raised:
        check_run(run)
    assert "\n" not in str(raised.value)
    assert not run.verdict.exists()
