"""The process that judges: what a folder gets by it is what it gets here; who asks sees its errors; it never
outlives its parent, and a run is judged where it died."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from core.errors import HistoryError
from core.op import Phase
from core.programs import environment
from harness.cli.verdict import Engine, checked
from harness.judging import process
from harness.judging.process import SOCKET, JudgeProcess, WarmJudge, judged
from history.run_folder import Run
from tests.checkers.test_sealed import a_file
from tests.histories.folders import check_run, scribble, write_run
from tests.histories.planted import random_history
from tests.processes import alive, children
from tests.waiting import until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeProcess]:
    with JudgeProcess("local[1]") as made:
        yield made


def a_run(folder: Path, seed: int = 7) -> Run:
    return write_run(folder, random_history(seed)[0].tables())


@pytest.mark.sampled(48)
def test_it_judges_folder_after_folder_as_this_process_does(judge: JudgeProcess, tmp_path: Path) -> None:
    for seed in (1, 7):
        run = a_run(tmp_path / str(seed), seed)
        here = check_run(run)
        run.verdict.unlink()
        told: list[str] = []
        assert judged(run, judge.socket, told.append) == ""
        there, failed = checked(run, Engine(), judge.socket)
        assert (there.anomalies, failed) == (here.anomalies, "")
        assert there.engine.startswith("Spark ")
        assert any(text.startswith("checking: ") for text in told)


@pytest.mark.sampled(11)
def test_its_errors_are_those_of_a_check(judge: JudgeProcess, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    damaged = a_file(run, "reads")
    scribble(damaged)
    with pytest.raises(HistoryError, match=damaged.name):
        judged(run, judge.socket, print)


@pytest.mark.sampled(10)
def test_where_it_died_the_run_is_judged_all_the_same(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with JudgeProcess("local[1]") as judge:
        os.kill(judge.pid, signal.SIGKILL)
        until(lambda: not alive(judge.pid), "the judge is gone", 60)
        assert judged(run, judge.socket, print) is None
        verdict, failed = checked(run, Engine(master="local[1]"), judge.socket)
        assert (verdict.engine.startswith("Spark "), failed) == (True, "")
        judge.alive()
        until(lambda: judged(run, judge.socket, print) == "", "a new judge judges", 120)


@pytest.mark.sampled(48)
def test_where_its_jvm_died_the_run_is_judged_all_the_same(tmp_path: Path) -> None:
    """The judge has no more use for its session: it ends, and its parent starts another one."""
    run = a_run(tmp_path / "run")
    here = check_run(run)
    with JudgeProcess("local[1]") as judge:
        assert judged(run, judge.socket, print) == ""
        first, (jvm,) = judge.pid, children(judge.pid)
        os.kill(jvm, signal.SIGKILL)
        verdict, failed = checked(run, Engine(master="local[1]"), judge.socket)
        assert (verdict.anomalies, verdict.unknown, failed) == (here.anomalies, here.unknown, "")
        until(lambda: not alive(first), "the judge is gone", 60)
        judge.alive()
        assert judge.pid != first
        assert judged(run, judge.socket, print) == ""


@pytest.mark.sampled(29)
def test_without_java_it_says_so_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with JudgeProcess("local[1]") as judge:
        run = a_run(tmp_path / "run")
        found: list[str] = []

        def told() -> bool:
            found.append(judged(run, judge.socket, print) or "")
            return bool(found[-1])

        until(told, "it judges", 120)
        assert "it needs Java" in found[-1]
        assert run.verdict.exists()


PARENT = """
import os, sys
from harness.judging.process import JudgeProcess
judge = JudgeProcess("local[1]")
print(judge.pid, flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


@pytest.mark.sampled(29)
def test_it_ends_with_its_parent_whatever_death_that_died_and_leaves_nothing(tmp_path: Path) -> None:
    folders = environment() | {"TMPDIR": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=folders
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.communicate()
    until(lambda: not alive(pid), "the judge is gone", 60)
    until(lambda: not any(tmp_path.iterdir()), "its folders are gone", 60)


@pytest.mark.parametrize("full", [False, True])
def test_where_no_judge_can_be_started_the_run_is_made_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], full: bool
) -> None:
    """Its socket has too long a name, or the disk is full."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv(SOCKET, raising=False)
    if full:
        monkeypatch.setattr(tempfile, "mkdtemp", no_space)
    with WarmJudge(wanted=True) as judge:
        for phase in Phase:
            judge.entered(phase)
        assert judge.socket == ""
    why = "No space left" if full else "AF_UNIX path too long"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("inquest: no judge can be started (")
    assert why in line
    assert not any(folder.iterdir())


@pytest.mark.sampled(10)
def test_a_judge_that_died_and_cannot_be_started_again_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left of its group is killed once: later another group may have its number."""
    killed: list[int] = []
    with JudgeProcess("local[1]") as judge:
        pid = judge.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), "the judge is gone", 60)
        monkeypatch.setattr(process, "start", no_space)
        monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
        judge.alive()
        judge.alive()
        assert judge.pid == 0
        assert capsys.readouterr().err.count("inquest: no judge can be started (") == 1
        assert judged(Run(tmp_path), judge.socket, print) is None
    assert killed == [pid]


@pytest.mark.sampled(10)
def test_a_judge_that_could_not_be_started_is_as_soon_as_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with JudgeProcess("local[1]") as judge:
        pid = judge.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), "the judge is gone", 60)
        with monkeypatch.context() as patched:
            patched.setattr(process, "start", no_space)
            judge.alive()
        judge.alive()
        assert alive(judge.pid)


def no_space(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_of_a_soak_has_its_judge_and_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, "/somewhere")
    with WarmJudge(wanted=True) as judge:
        judge.entered(Phase.COLLECT)
        assert judge.socket == "/somewhere"
    with WarmJudge(wanted=False) as none:
        none.entered(Phase.COLLECT)
        assert none.socket == ""


@pytest.mark.sampled(10)
def test_it_starts_when_a_run_heals_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    with WarmJudge(wanted=True, master="local[1]") as judge:
        judge.entered(Phase.WARMUP)
        assert judge.socket == ""
        judge.entered(Phase.HEAL)
        first = judge.socket
        assert first
        judge.entered(Phase.COLLECT)
        assert judge.socket == first
