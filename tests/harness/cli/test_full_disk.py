"""A full disk is one sentence and 70, whatever was being written; nothing half-written stays, and what was
recorded can be judged later."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from core.config import run_config
from harness.compose import record
from harness.run.progress import silent
from history.run_folder import Run
from tests.harness.cli.bad_input import command, no_traceback, refused

SMALL = {"sut": "simulated", "seed": 5, "duration_s": 3, "rate": 10, "nemesis": "kill", "producers": 1}
WRITES: dict[str, tuple[list[str], str]] = {
    "run, its folder": (["run", "--sut", "model", "--results", "made"], "harness.compose.write_atomically"),
    "run, its recording": (["run", "--sut", "simulated", "--results", "made"], "history.jsonl.encode"),
    "check, its findings": (["check", "run"], "checkers.api.Result.write"),
    "report": (["report", "run"], "harness.report.write_atomically"),
    "import, its folder": (
        ["recording", "import", "jsonl", "file", "--results", "made"],
        "harness.compose.write_atomically",
    ),
    "soak, its log": (["soak", "--results", "made", "--matrix", "matrix"], "harness.soak.session.Appender"),
    "spark-package": (["spark-package", "made"], "checkers.engine.shipped.archive"),
    "replay": (["recording", "replay", "run"], "harness.modelled.virtual.run_folder.differences"),
    "contract": (["model", "contract", "--results", "made"], "harness.contract.cluster.compare"),
    "reproduce": (["bugs", "reproduce", "acks1", "--results", "made"], "harness.reproduce.attempts.attempts"),
    "setup": (["setup"], "harness.containers.engine.ensure"),
}
MATRIX = 'presets = ["safe"]\ncanary = "acks1"\nworkloads = ["queue"]\nnemeses = ["none"]\n'
FULL = "No space left on device"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = record(run_config(SMALL), results=tmp_path_factory.mktemp("recorded"), display=silent()).run
    assert command("check", str(made.folder), "--engine", "process").code == 0
    return made


@pytest.fixture
def here(recorded: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(recorded.folder, tmp_path / "run")
    (tmp_path / "file").write_text(json.dumps({"process": 1}) + "\n")
    (tmp_path / "matrix").write_text(MATRIX)
    return tmp_path


def full(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("words", "part"), WRITES.values(), ids=WRITES)
def test_a_full_disk(here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], part: str) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(part, full)
        ended = command(*words)
    no_traceback(ended)
    assert ended.code == 70, ended
    (line,) = [line for line in ended.err.splitlines() if line.startswith("inquest: ")]
    assert FULL in line
    assert not list(here.glob("made/*-*/config.json"))
    again = command("check", "run", "--engine", "process")
    assert (again.code, again.err) == (0, "")


@pytest.mark.sampled(21)
@pytest.mark.usefixtures("here")
def test_a_verdict_stands_without_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.write_atomically", full)
    ended = command("check", "run", "--engine", "process")
    assert (ended.code, ended.err) == (0, f"inquest: no report: [Errno 28] {FULL}\n")
    assert "report: none" in ended.out


@pytest.mark.usefixtures("here")
def test_an_export_to_a_full_device() -> None:
    ended = command("recording", "export", "run", "--output", "/dev/full")
    assert ended.code == 70
    assert ended.err.splitlines()[-1] == f"inquest: {FULL}"
    assert Path("/dev/full").exists()


def test_half_an_export_does_not_stay(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_name: str, _events: object, file: object) -> None:
        print("half", file=file)  # type: ignore[call-overload]
        full()

    from checkers.recordings import export

    monkeypatch.setitem(export.WRITERS, "portable", half)
    ended = command("recording", "export", "run", "--output", "made.json")
    assert ended.code == 70
    assert not (here / "made.json").exists()


@pytest.mark.sampled(21)
def test_a_file_in_the_way_is_the_users_to_move(here: Path) -> None:
    (here / "blocked").write_text("")
    refused(
        ["recording", "import", "jsonl", "file", "--results", "blocked"], said=["blocked cannot be written"]
    )
    command("recording", "export", "run", "--output", "run")
    ended = command("recording", "export", "run", "--output", "run")
    assert (ended.code, ended.err.splitlines()[-1]) == (64, "inquest: run cannot be written: Is a directory")
