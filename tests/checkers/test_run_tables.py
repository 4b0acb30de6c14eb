"""Tables of a run of another version, or with a file that cannot be read: the others are no worse for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.run_tables import SCHEMAS, read
from core.config import run_config
from core.errors import HistoryError
from history.run_folder import Run
from history.verdict import ResultWord
from tests.histories.folders import check_run, write_run
from tests.histories.planted import random_history


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A judged run."""
    built, *_ = random_history(1)
    made = write_run(tmp_path / "run", built.tables(), settings={"brokers": 5})
    check_run(made)
    return made


def rows(run: Run, name: str) -> list[dict[str, Any]]:
    return [row for table in read(name, run) for row in table.to_pylist()]


def changed(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_settings_that_this_version_does_not_know_keep_no_run_out(run: Run) -> None:
    before = {name: rows(run, name) for name in SCHEMAS}
    (row,) = before["runs"]
    assert (row["system"], row["version"], row["brokers"], row["seed"]) == ("kafka", "4.4.0", 5, 7)
    assert row["valid"] is not None
    assert row["result"] in set(ResultWord)
    changed(run.config, colour="blue", workload="one that is gone")
    (after,) = rows(run, "runs")
    assert after == {**row, "workload": "one that is gone"}
    assert {name: rows(run, name) for name in SCHEMAS if name != "runs"} == {
        name: some for name, some in before.items() if name != "runs"
    }


@pytest.mark.parametrize("sut", ["simulated", "model"])
def test_of_a_model_the_era_is_the_version(run: Run, sut: str) -> None:
    settings = {"seed": 1, "sut": sut, "era": "0.10", "idempotent": False}
    for mutant in ("", "truncate-to-hw"):
        run.config.write_text(run_config(settings | {"mutant": mutant}).model_dump_json())
        (row,) = rows(run, "runs")
        assert (row["system"], row["version"], row["mutant"]) == (sut, "0.10", mutant or None)


@pytest.mark.parametrize("text", ["{", '{"seed": "seven"}', "[1]", "\x00", "[" * 5000])
def test_a_config_that_cannot_be_read_leaves_nulls_and_a_warning(run: Run, text: str) -> None:
    (row,) = rows(run, "runs")
    run.config.write_text(text)
    with pytest.warns(UserWarning, match="not read: .*config.json: "):
        (after,) = rows(run, "runs")
    unknown = dict.fromkeys(
        ("system", "version", "workload", "nemesis", "preset", "seed", "brokers", "duration_s")
    )
    assert after == row | unknown


@pytest.mark.parametrize("text", ["{", "{}", '{"valid": 7}', "\x00"])
def test_a_verdict_that_cannot_be_read_leaves_nulls_and_a_warning(run: Run, text: str) -> None:
    run.verdict.write_text(text)
    for name, expected in (("runs", 1), ("anomalies", 0), ("faults", 0)):
        with pytest.warns(UserWarning, match="not read: .*verdict.json: "):
            found = rows(run, name)
        assert len(found) == expected
        assert [row.get("valid") for row in found] == [None] * expected


def test_a_table_that_cannot_be_read_is_named(run: Run) -> None:
    (run.history / "ops.parquet").write_bytes(b"")
    with pytest.raises(HistoryError, match=r"ops\.parquet"):
        rows(run, "ops")
