"""The process of a run: its end, its bound, its signals, and that it never outlives the soak."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.config import run_config
from harness.compose import create_folder
from harness.nights.session_log import FOLDER, RunBegun
from harness.processes.interrupts import Interrupts
from harness.soak import runs
from harness.soak.runs import Performer, bound_s, run
from tests.harness.nights.made_sessions import task, write
from tests.processes import state
from tests.waiting import until

PYTHON = sys.executable
DEADLINE_S = 120.0
OBEYS = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (print("asked", flush=True), sys.exit(130)))
print("ready", flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


def test_the_command_line_of_a_run(tmp_path: Path) -> None:
    what = task(seed=3, settings={"duration_s": 20, "broker_settings": {"a": "b c"}})
    performer = Performer(results=tmp_path, options=["--engine", "process"], interrupts=Interrupts())
    assert performer.command(what) == [
        *runs.COMMAND, "run", "--workload", "queue", "--nemesis", "kill", "--preset", "safe",
        "--seed", "3", "--results", str(tmp_path), "--engine", "process",
        "--set", "duration_s=20", "--set", 'broker_settings={"a":"b c"}',
    ]  # fmt: skip


def test_the_bound_is_above_all_deadlines() -> None:
    config = run_config({"seed": 1, "duration_s": 500})
    assert bound_s(config) > 500 + config.recovery_deadline_s + config.final_deadline_s


@pytest.mark.parametrize(
    ("code", "expected"),
    [("print('hello')", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_exit_codes_and_what_it_said(tmp_path: Path, code: str, expected: int) -> None:
    log = tmp_path / "log"
    assert run([PYTHON, "-c", code], log, DEADLINE_S, Interrupts()) == (expected, False)
    assert ("hello" in log.read_text()) == (expected == 0)


LIMIT_S = 1000.0


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a run whose time is over as soon as each of its processes is ready, however long that takes."""
    log = tmp_path / "log"
    looks = itertools.count()

    def monotonic() -> float:
        said = log.read_text()
        ready = next(looks) and said.count("ready") > said.count("process")  # the first look sets the limit
        return time.monotonic() + (LIMIT_S if ready else 0.0)

    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=monotonic))
    return log


def test_a_run_that_takes_too_long_is_asked_to_end(log: Path) -> None:
    assert run([PYTHON, "-c", OBEYS], log, LIMIT_S, Interrupts()) == (130, True)
    assert "asked" in log.read_text()


def test_a_run_that_does_not_listen_is_killed_with_its_children(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PATIENCE_S", 0.5)
    child = f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', {DEAF!r}])\n"
    code = f"{child}print('process', p.pid, flush=True)\n{DEAF}"
    assert run([PYTHON, "-c", code], log, LIMIT_S, Interrupts()) == (-9, True)
    words = log.read_text().split()
    until_gone(int(words[words.index("process") + 1]))


def until_gone(pid: int) -> None:
    until(lambda: state(pid) in ("", "Z"), f"process {pid} is gone")


def until_ready(log: Path) -> None:
    until(lambda: log.exists() and "ready" in log.read_text(), "the run starts")


def test_ctrl_c_is_passed_on_to_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def press() -> None:
        until_ready(log)
        os.kill(os.getpid(), signal.SIGINT)

    with Interrupts(immediate=False) as interrupts:
        threading.Thread(target=press).start()
        assert run([PYTHON, "-c", OBEYS], log, DEADLINE_S, interrupts) == (130, False)
        assert interrupts.asked.is_set()


def test_a_run_has_a_session_of_its_own_and_no_summary_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    code = "import os; print(os.getsid(0) == os.getpid(), 'GITHUB_STEP_SUMMARY' in os.environ)"
    log = tmp_path / "log"
    run([PYTHON, "-c", code], log, DEADLINE_S, Interrupts())
    assert log.read_text().split() == ["True", "False"]


@pytest.mark.sampled(16)
def test_of_two_folders_of_the_same_run_the_one_of_the_soak_is_taken(tmp_path: Path) -> None:
    session = write(tmp_path, "20260301T220000Z", [], over=False)
    by_hand = create_folder(run_config({"seed": 42}), tmp_path)
    code = f"""
import sys
from pathlib import Path
from types import SimpleNamespace
from core.config import run_config
from harness.compose import create_folder
assert sys.argv[1] == "--owner"
print(create_folder(run_config({{"seed": 42}}), Path({str(tmp_path)!r}), sys.argv[2]).name)
raise SystemExit(1)
"""
    begun = RunBegun(
        at="2026-03-01T22:00:01.000+00:00", spent_s=0, number=1, task=task(seed=42),
        command=[PYTHON, "-c", code],
    )  # fmt: skip
    performer = Performer(results=tmp_path, options=(), interrupts=Interrupts())
    result = performer.perform(session, begun)
    said = (tmp_path / FOLDER / session.name / "0001.log").read_text().strip()
    assert (result.state, result.folder) == ("error", said)
    assert result.folder not in ("", by_hand.name)


@pytest.mark.sampled(24)
def test_a_run_dies_with_the_soak(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"""
import sys
from pathlib import Path
from types import SimpleNamespace
from harness.processes.interrupts import Interrupts
from harness.soak.runs import run
run([sys.executable, "-c", {"import os; print(os.getpid())" + DEAF!r}], Path({str(log)!r}), 60, Interrupts())
"""
    with subprocess.Popen([PYTHON, "-c", code], cwd=Path(__file__).parents[3]) as soak:
        try:
            until_ready(log)
        finally:
            soak.kill()
    until_gone(int(log.read_text().split()[0]))
