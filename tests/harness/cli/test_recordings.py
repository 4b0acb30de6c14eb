"""`inquest recording import`, `check` and `export` together, and what remains after an error: nothing."""

import json
from pathlib import Path

import pytest

from core.errors import HistoryError, UsageError
from harness.cli.main import app
from history.reader import load
from history.run_folder import Run
from history.seal import sealed
from tests.checkers.recordings.fuzz import RECORDINGS
from tests.history.test_parts import files


def inquest(*words: str | Path) -> int:
    """The exit code of a command."""
    ended = app([str(word) for word in words], standalone_mode=False)
    return ended if isinstance(ended, int) else 0


@pytest.mark.sampled(6)
def test_a_recording_is_imported_judged_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    assert inquest("recording", "import", "jepsen", RECORDINGS / "jepsen.edn", "--results", results) == 0
    latest = results / "latest"
    assert inquest("check", latest, "--engine", "process") == 0
    said = capsys.readouterr().out
    assert "imported: 4 ops of 2 processes" in said
    assert "VALID: no forbidden anomaly in 4 ops" in said
    assert f"repeat: inquest recording import jepsen {RECORDINGS / 'jepsen.edn'}\n" in said
    assert "faults: not on record\n" in said
    for to in ("portable", "jepsen"):
        assert inquest("recording", "export", latest, "--to", to, "--output", tmp_path / to) == 0
    assert inquest("check", "--history", tmp_path / "portable") == 0
    assert inquest("recording", "import", "jepsen", tmp_path / "jepsen", "--results", results) == 0
    assert (latest / "config.json").exists()


@pytest.mark.sampled(48)
@pytest.mark.spark
def test_spark_imports_the_same_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for name, options in (("here", ["--engine", "process"]), ("spark", ["--master", "local[2]"])):
        results = tmp_path / name
        assert (
            inquest(
                "recording", "import", "jsonl", RECORDINGS / "lines.jsonl", "--results", results, *options
            )
            == 0
        )
        said = capsys.readouterr()
        assert said.err == ""
        found.append((said.out.splitlines()[0], files(Run(results / "latest"))))
    (here, by_process), (spark, by_spark) = found
    assert spark == here
    assert by_spark.keys() == by_process.keys()
    assert all(by_spark[name] == by_process[name] for name in by_spark if name != "names.json")


@pytest.mark.sampled(5)
def test_damage_ends_with_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "damaged.edn"
    damaged.write_bytes((RECORDINGS / "jepsen.edn").read_bytes() + b"{:index\n")
    assert inquest("recording", "import", "jepsen", damaged, "--results", tmp_path / "results") == 2
    assert f"not read: {damaged}: line 10" in capsys.readouterr().err
    assert inquest("check", tmp_path / "results" / "latest", "--engine", "process") == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("jepsen", "missing.edn"), HistoryError),
        (("jepsen", "empty.edn"), HistoryError),
        (("jepsen", "empty.edn", "empty.edn"), UsageError),
        (("parquet", "empty.edn"), UsageError),
        (("jsonl", "empty.edn", "--from-start"), UsageError),
        (("jepsen", "empty.edn", "--set", "sut=kafka"), UsageError),
        (("jepsen", "empty.edn", "--set", "acks=9"), UsageError),
    ],
)
def test_an_error_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: type[Exception]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.edn").write_text("")
    with pytest.raises(error):
        inquest("recording", "import", *words)
    assert not list(tmp_path.glob("results/*"))


def test_latest_leads_to_an_import_once_it_is_whole_and_stays_where_one_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert inquest("recording", "import", "jsonl", RECORDINGS / "lines.jsonl", "--results", results) == 0
    earlier = (results / "latest").readlink()
    assert (results / earlier).is_dir()
    (tmp_path / "empty.jsonl").write_text("")
    for name in ("none.jsonl", "empty.jsonl"):
        with pytest.raises(HistoryError):
            inquest("recording", "import", "jsonl", tmp_path / name, "--results", results)
        assert (results / "latest").readlink() == earlier
    assert sorted(path.name for path in results.iterdir()) == [earlier.name, "latest"]


def test_a_run_begins_with_its_first_op_whatever_the_clock_of_the_recording_says(tmp_path: Path) -> None:
    lines = [
        {"line": "recording", "format": 1, "on_record": []},
        {"line": "process", "process": 0, "acks": -1},
        {"line": "op", "process": 0, "outcome": "ok", "begin_ns": 9_210 * 10**9, "end_ns": 9_211 * 10**9}
        | {"sends": [{"topic": "t", "partition": 0, "value": "a", "offset": 0}]},
    ]
    recording = tmp_path / "recording.jsonl"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = tmp_path / "results"
    assert inquest("recording", "import", "jsonl", recording, "--results", results) == 0
    history = load(sealed(next(results.glob("2*"))))
    assert [history.seconds(int(ns)) for ns in history.tables["ops"]["complete_ns"].to_numpy()] == [1.0]
