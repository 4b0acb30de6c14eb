"""Sessions on the cluster in memory through the command line: killed, interrupted, void, repeated."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from core.op import Phase
from harness.nights.session_log import FILE, FOLDER, Attempt, SoakSession, sessions
from history.run_folder import Run
from tests.faults.command import Inquest, inquest, workers_of
from tests.waiting import until

pytestmark = pytest.mark.faults

MATRIX = """
workloads = ["queue"]
nemeses = ["none"]
presets = ["safe"]
canary = "{canary}"
[settings]
sut = "memory"
duration_s = {duration}
verb_deadline_s = 2
recovery_deadline_s = 30
transaction_timeout_s = 2
{settings}
{more}
"""
PLANTED = """
[[runs]]
workload = "queue"
nemesis = "none"
preset = "safe"
seed = 11
settings = { broker_settings = { "memory.bug" = "lose" } }
"""


def soak(tmp_path: Path, *words: str, budget: str = "30m", **matrix: Any) -> Inquest:
    """A soak under way."""
    values = {"canary": "read-uncommitted", "duration": 2, "settings": "", "more": ""} | matrix
    file = tmp_path / "matrix.toml"
    file.write_text(MATRIX.format(**values))
    return Inquest(
        "soak", "--budget", budget, "--matrix", str(file), "--results", str(tmp_path / "results"),
        "--seed", "5", "--engine", "process", *words,
    )  # fmt: skip


def newest(tmp_path: Path) -> SoakSession | None:
    found = sessions(tmp_path / "results")
    return found[-1] if found else None


def begun(tmp_path: Path, number: int, session: str = "") -> Attempt | None:
    """The last attempt at a run of the newest session, once it is there."""
    found = newest(tmp_path)
    if found is None or found.name == session:
        return None
    return next((a for a in reversed(found.attempts) if a.begun.number == number), None)


def ended(tmp_path: Path, number: int, session: str = "") -> Attempt | None:
    attempt = begun(tmp_path, number, session)
    return attempt if attempt is not None and attempt.outcome is not None else None


def recording(tmp_path: Path, number: int) -> Path | None:
    """The folder of a run, once its faults are under way."""
    attempt = begun(tmp_path, number)
    if attempt is None:
        return None
    wanted = f'"phase":{int(Phase.FAULTS)}}}'
    for folder in (tmp_path / "results").glob(f"2*-{attempt.begun.task.seed}-*"):
        events = Run(folder).events
        if events.exists() and wanted in events.read_text():
            return folder
    return None


def index(tmp_path: Path) -> str:
    return (tmp_path / "results" / "index.html").read_text()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.sampled(14)
def test_a_session_is_killed_resumed_interrupted_and_its_failing_run_comes_first_in_the_next(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    command = soak(tmp_path, more=PLANTED)
    folder = until(lambda: recording(tmp_path, 3), "the first drawn run")
    os.kill(command.process.pid, signal.SIGKILL)
    command.wait()
    until(lambda: not workers_of(results), "the end of all clients")
    session = newest(tmp_path)
    assert session is not None
    canary, planted, broken = session.attempts
    assert broken.outcome is None
    assert canary.outcome is not None
    assert canary.outcome.state == "valid"
    assert planted.outcome is not None
    assert [found.name for found in planted.outcome.open] == ["lost-write"]

    command = soak(tmp_path, more=PLANTED)  # the same command
    until(lambda: recording(tmp_path, 4), "the run after the broken one")
    os.kill(command.process.pid, signal.SIGINT)
    said = command.wait()
    assert said.code == 130, said
    assert "resumed" in said.err
    assert "Traceback" not in said.err
    assert not workers_of(results)
    again = newest(tmp_path)
    assert again is not None
    assert again.name == session.name
    assert (again.paused, again.ended) == (True, None)
    first, second = (a for a in again.attempts if a.begun.number == 3)
    assert (first.begun.task, first.begun.command) == (second.begun.task, second.begun.command)
    assert second.outcome is not None
    assert second.outcome.state == "valid"
    assert not folder.exists()
    assert again.attempts[-1].outcome is not None
    assert again.attempts[-1].outcome.state == "interrupted"
    assert again.spent_s < 1800
    kept = [a.outcome.folder for a in again.attempts[:2] if a.outcome]
    assert all("report.html" in names(results / name) for name in kept)
    assert names(results / second.outcome.folder) == {"verdict.json", "config.json"}
    assert "1 open finding" in index(tmp_path)
    assert "This session is interrupted" in index(tmp_path)

    command = soak(tmp_path, "--new", more=PLANTED)
    repeat = until(lambda: ended(tmp_path, 1, session.name), "the first run of the second session")
    until(lambda: begun(tmp_path, 2, session.name), "the second run")
    os.kill(command.process.pid, signal.SIGINT)
    assert command.wait().code == 130
    assert repeat.begun.task.key == planted.begun.task.key
    assert (repeat.begun.task.why, repeat.begun.task.of) == ("repeat", f"{session.name}/2")
    assert repeat.outcome is not None
    assert [found.name for found in repeat.outcome.open] == ["lost-write"]
    last = begun(tmp_path, 2, session.name)
    assert last is not None
    assert last.begun.task.why == "canary"
    assert not workers_of(results)


@pytest.mark.sampled(14)
def test_a_canary_that_stays_silent_makes_the_session_void(tmp_path: Path) -> None:
    said = soak(tmp_path, budget="12s", canary="acks1", duration=1).wait()
    assert said.code == 4, said
    assert "void" in said.err
    session = newest(tmp_path)
    assert session is not None
    assert session.ended is not None
    assert session.ended.code == 4
    assert session.canary is not None
    assert session.canary.state == "silent"
    assert "report.html" in names(tmp_path / "results" / session.canary.folder)
    assert "Void" in index(tmp_path)
    file = tmp_path / "results" / FOLDER / session.name / FILE
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert events[:3] == ["started", "run-begun", "run-ended"]
    assert events[-1] == "ended"


@pytest.mark.sampled(48)
def test_where_no_run_can_be_made_the_harness_is_to_blame(tmp_path: Path) -> None:
    failing = 'broker_settings = { "memory.start" = "fail" }'
    said = soak(tmp_path, settings=failing).wait()
    assert said.code == 70, said
    assert "in a row" in said.err
    session = newest(tmp_path)
    assert session is not None
    outcomes = [attempt.outcome for attempt in session.attempts]
    assert all(o is not None and o.state == "error" and o.code == 70 for o in outcomes)
    assert all(o is not None and "never came up" in o.error for o in outcomes)
    logs = sorted((tmp_path / "results" / FOLDER / session.name).glob("*.log"))
    assert len(logs) == len(outcomes) == 5
    assert "errors of the harness" in index(tmp_path)


@pytest.mark.sampled(10)
def test_serve_shows_the_folder_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    command = Inquest("serve", "--port", "0", "--results", str(tmp_path))
    assert command.process.stdout is not None
    address = command.process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert b"No session yet" in answer.read()
    port = address.rstrip("/").rpartition(":")[2]
    taken = inquest("serve", "--port", port, "--results", str(tmp_path))
    assert taken.code == 64
    assert "in use" in taken.err
    os.kill(command.process.pid, signal.SIGINT)
    told = command.wait()
    assert (told.code, "Traceback" in told.err) == (130, False), told
