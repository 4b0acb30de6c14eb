"""Faults of Spark and around it: one clear line, a verdict that is right or unknown, and nothing is left."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from checkers.api import check_history
from checkers.engine.check import Tally
from checkers.engine.engines import chosen
from core.config import run_config
from core.errors import ExitCode
from core.programs import environment, program
from core.progress import ProgressStage
from harness.cli import spark_cluster
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history import units
from history.reader import load
from history.run_folder import Run, write_atomically
from history.seal import seal
from history.tasks import Workers
from tests.faults.command import ROOT, Inquest
from tests.harness.cli.bad_input import Ended
from tests.history.test_parts import files
from tests.spark.held import Killing
from tests.waiting import until

T = TypeVar("T")
Work = Callable[[int], object]
pytestmark = [pytest.mark.spark, pytest.mark.slow]

JAVA_11 = """#!/bin/sh
echo "Error: LinkageError occurred while loading main class org.apache.spark.launcher.Main" >&2
echo "	java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more" \
 "recent version of the Java Runtime (class file version 61.0), this version of the Java Runtime only" \
 "recognizes class file versions up to 55.0" >&2
exit 1
"""
"""What Java 11 says to Spark."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing has sealed, and that lost thousands of writes, as acks=1 permits."""
    run = Run(tmp_path_factory.mktemp("recorded") / "run")
    run.journal.mkdir(parents=True)
    config = run_config({"preset": "acks1", "sut": "simulated", "seed": 2, "duration_s": 4})
    write_atomically(run.config, config.model_dump_json())
    record(config, planned(config).steps, run)
    return run


@pytest.fixture
def run(recorded: Run, tmp_path: Path) -> Run:
    (tmp_path / "tmp").mkdir()
    return Run(Path(shutil.copytree(recorded.folder, tmp_path / "run")))


def command(run: Run, *held: str, engine: str = "spark", master: str = "", **around: str) -> Inquest:
    """`inquest check` of a run, with its temporary files beside the run. held: see `tests.spark.held`."""
    module = "tests.spark.held" if held else "inquest"
    temporary = {"TMPDIR": str(run.folder.parent / "tmp")}
    words = (*held, "check", str(run.folder), "--engine", engine, *(["--master", master] if master else []))
    return Inquest(*words, module=module, around={**temporary, **around})


def assert_nothing_left(run: Run, *commands: Inquest) -> None:
    """No temporary file, no half of a history, no process."""
    assert not list((run.folder.parent / "tmp").iterdir())
    assert not [path.name for path in run.folder.iterdir() if path.name.startswith((".", "scratch"))]
    for one in commands:
        until(partial(ended_session, one.process.pid), "its processes have ended", 30)


def ended_session(session: int) -> bool:
    """Whether no process of a session lives."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                return False
        except OSError:
            continue
    return True


def verdict(run: Run) -> tuple[object, ...]:
    """What does not depend on who judged."""
    told = json.loads(run.verdict.read_bytes())
    return told["valid"], told["exit_code"], told["anomalies"], told["unknown"]


@pytest.fixture(scope="module")
def right(recorded: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The verdict of this process."""
    folder = tmp_path_factory.mktemp("right")
    (folder / "tmp").mkdir()
    copied = Run(Path(shutil.copytree(recorded.folder, folder / "run")))
    ended = command(copied, engine="process").wait()
    found = verdict(copied)
    assert (ended.code, ended.err) == (found[1], "")
    assert "lost-write" in str(found)
    return found


@pytest.mark.sampled(48)
@pytest.mark.parametrize("java", ["", JAVA_11])
def test_without_a_java_that_spark_takes_this_process_judges_and_says_so(
    run: Run, right: tuple[object, ...], tmp_path: Path, java: str
) -> None:
    (tmp_path / "java" / "bin").mkdir(parents=True)
    if java:
        (tmp_path / "java" / "bin" / "java").write_text(java)
        (tmp_path / "java" / "bin" / "java").chmod(0o755)
    one = command(run, JAVA_HOME=str(tmp_path / "java"))
    ended = one.wait()
    assert ended.code == right[1]
    assert ended.err.startswith("inquest: Spark could not be started (it needs Java 17 or later): ")
    assert ("UnsupportedClassVersionError" if java else "No such file") in ended.err
    assert ended.err.endswith("; this process checked instead\n")
    assert ended.err.count("\n") == 1
    assert verdict(run) == right
    assert json.loads(run.verdict.read_bytes())["engine"] == "this process"
    assert_nothing_left(run, one)


SMALL = """
mount -t tmpfs -o size=64k tmpfs "$0" && "$@"
code=$?
ls -A "$0"
exit $code
"""


@pytest.mark.sampled(10)
def test_a_full_scratch_disk_is_one_line_that_names_it(run: Run, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    entered = ["unshare", "-rm", "sh", "-c", SMALL, str(small)]
    if subprocess.run([*entered, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    ended = subprocess.run(
        [*entered, *program("inquest", "check", str(run.folder), "--engine", "spark")],
        env={**environment(), "TMPDIR": str(small)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (70, ""), ended
    assert ended.stderr.startswith(f"inquest: {small}/")
    assert ended.stderr.endswith(": No space left on device\n")
    assert ended.stderr.count("\n") == 1
    assert not run.verdict.exists()


STAGES = ["reading", "sealing", "checking", "judging", "report"]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_each_stage(run: Run, right: tuple[object, ...], tmp_path: Path, stage: str) -> None:
    one = command(run, stage, str(tmp_path / "marker"), "600")
    until(lambda: (tmp_path / "marker").exists() or one.process.poll() is not None, f"it is {stage}")
    os.killpg(one.process.pid, signal.SIGINT)
    ended = one.wait(60)
    assert ended == Ended(130, "", "inquest: interrupted; what the run folder has is whole; check it again\n")
    assert run.names.exists() == (stage not in STAGES[:2])
    assert run.verdict.exists() == (stage == "report")
    assert_nothing_left(run, one)
    again = command(run, engine="process").wait()
    assert (again.code, again.err, verdict(run)) == (right[1], "", right)


@pytest.mark.sampled(10)
def test_two_checks_of_one_folder_at_once_say_the_same(run: Run, right: tuple[object, ...]) -> None:
    both = [command(run), command(run, engine="process"), command(run)]
    for one in both:
        ended = one.wait()
        assert (ended.code, ended.err) == (right[1], "")
    assert verdict(run) == right
    assert_nothing_left(run, *both)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a cluster of two workers whose executors find these tests, and the folder of its files."""
    folder = tmp_path / "cluster"
    master = spark_cluster.start(folder, port=0, memory="1g", environment={"PYTHONPATH": str(ROOT)})
    try:
        yield master, folder
    finally:
        spark_cluster.stop(folder)


class Faulty:
    """Workers with a fault in the first job of one stage."""

    def __init__(self, workers: Workers, where: str, fault: Callable[[Work], Work]) -> None:
        self.title, self.done, self.apart, self.scratch = workers.title, 0, True, workers.scratch
        self._workers, self._where, self._fault = workers, where, fault

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`."""
        faulty: Any = self._fault(work) if stage.name == self._where else work
        answers: list[T] = self._workers.map(stage, faulty)
        return answers


def counted(tally: Tally) -> tuple[object, ...]:
    return tally.counts, tally.rows, tally.acknowledged, sorted(map(repr, tally.findings)), tally.crashed


@pytest.mark.sampled(14)
@pytest.mark.parametrize("stage", ["reading", "sealing", "checking"])
def test_an_executor_that_is_killed_in_mid_task_is_made_up_for_and_nothing_counts_twice(
    run: Run, cluster: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(units, "UNIT_ROWS", 1000)
    seal(run)
    here, files_here = counted(check_history(load(run))), files(run)
    shutil.rmtree(run.history)
    with chosen(run.folder, master=cluster[0]) as choice:
        marker = tmp_path / "marker"
        faulty = Faulty(choice.workers, stage, partial(Killing, str(marker)))
        seal(run, faulty)
        assert files(run) == files_here
        assert counted(check_history(load(run), faulty)) == here
        assert marker.exists()
    assert not [path.name for path in run.folder.iterdir() if path.name.startswith((".", "scratch"))]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("whole", [False, True])
def test_a_master_that_goes_away_in_mid_job(
    run: Run, right: tuple[object, ...], cluster: tuple[str, Path], tmp_path: Path, whole: bool
) -> None:
    """Executors work on without it. Where they are gone with it, the verdict is unknown, and soon."""
    master, folder = cluster
    held = ("checking", str(tmp_path / "marker"), "20" if not whole else "600")
    one = command(run, *held, master=master)
    until(lambda: (tmp_path / "marker").exists() or one.process.poll() is not None, "it is checking")
    pids = [int(file.read_text()) for file in folder.glob("*.pid") if whole or file.stem == "master"]
    for pid in pids:
        os.killpg(pid, signal.SIGKILL)
    for pid in executors(folder) if whole else ():
        os.kill(pid, signal.SIGKILL)
    ended = one.wait(120)
    assert ended.err == ""
    if whole:
        assert ended.code == ExitCode.UNKNOWN
        assert ended.out.startswith("UNKNOWN: ")
        told = json.loads(run.verdict.read_bytes())
        assert {each["status"] for each in told["checks"].values()} == {"crashed"}
        assert f"{master}: no Spark master answers" in told["checks"]["durability"]["why"]
    else:
        assert (ended.code, verdict(run)) == (right[1], right)
    assert_nothing_left(run, one)


def executors(folder: Path) -> list[int]:
    """Process ids of the executors of a cluster."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command, where = (place / "cmdline").read_bytes(), os.readlink(place / "cwd")
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and where.startswith(str(folder)):
            found.append(int(place.name))
    return found
