"""The checker on Spark: the same answers as in this process, damage and crashes told the same way."""

import functools
import json
import operator
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from checkers.api import check, check_history
from checkers.checks import CHECKS
from checkers.checks.consistency import Contradiction
from checkers.checks.recovery import ServedTimes
from checkers.engine.check import Tally
from checkers.engine.engines import chosen
from checkers.engine.findings import Kind
from checkers.engine.pipeline import kernels_of
from checkers.engine.spark import spark
from checkers.logs.registry import LOG_CHECKS
from core.errors import ExitCode, HistoryError, SparkError
from core.op import Outcome
from core.progress import Progress, ProgressStage
from history import seal, units
from history.reader import load
from history.run_folder import Run
from history.tasks import Workers
from tests.checkers.test_sealed import a_file
from tests.histories.built import Built, Op, Read, Send
from tests.histories.folders import check_run, scribble, write_run
from tests.histories.planted import random_history
from tests.history.test_parts import files, unsealed

ONE = ProgressStage(name="trying", tasks="tasks", sizes=[1])
KERNELS = kernels_of(CHECKS)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark("local[2]") as made:
        yield made


@pytest.fixture
def workers(session: Any, tmp_path: Path) -> Iterator[Workers]:
    with chosen(tmp_path) as choice:
        yield choice.workers


@pytest.fixture
def many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit a partition, however small."""
    monkeypatch.setattr(units, "UNIT_ROWS", 1)


def told(tally: Tally) -> Any:
    served = dict(tally.parts_of("recovery", ServedTimes))
    waits = {tp: each.waits.tolist() for tp, each in served.items()}
    return tally.counts, tally.findings, tally.doubts, waits, tally.crashed


@pytest.mark.sampled(42)
@pytest.mark.usefixtures("many_units")
def test_spark_and_this_process_come_to_the_same(workers: Workers, tmp_path: Path) -> None:
    found = 0
    for seed in [n for n in range(1, 30) if n % 3]:
        sealed = load(write_run(tmp_path / str(seed), random_history(seed)[0].tables()))
        assert len(sealed.names.units) > 1
        here = check_history(sealed)
        found += sum(here.counts.values())
        assert told(check_history(sealed, workers)) == told(here)
    assert found > 100


def test_workers_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the current folder ran')\n")
    monkeypatch.chdir(tmp_path)
    with chosen(tmp_path, master="local[1]") as choice:
        assert choice.workers.map(ONE, abs) == [0]


@pytest.mark.usefixtures("many_units")
def test_what_one_unit_proves_another_is_checked_with(workers: Workers, tmp_path: Path) -> None:
    """An indeterminate transaction, seen in y, was acknowledged in x where another record stands."""
    built = Built(tps=["x", "y"])
    txn = Op(process=1, f="txn", invoke=1, complete=2, outcome=Outcome.INFO, txn=True)
    txn.mops = [Send(tp=0, value=1, offset=0), Send(tp=1, value=1)]
    other = Op(process=2, f="send", invoke=3, complete=4, mops=[Send(tp=0, value=2, offset=0)])
    read = Op(process=3, f="poll", invoke=5, complete=6, mops=[Read(tp=1, offset=5, value=1)])
    built.ops = [txn, other, read]
    sealed = load(write_run(tmp_path / "run", built.tables()))
    tally = check_history(sealed, workers)
    assert tally.counts[Kind("inconsistent-offsets", Contradiction.ACK_ALL)] == 1
    assert told(tally) == told(check_history(sealed))


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("many_units")
def test_a_verdict_by_spark_is_the_one_by_this_process(session: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", random_history(7)[0].tables())
    by_spark, here = check_run(run, engine="spark"), check_run(run)
    many = len(load(run).names.units)
    assert re.fullmatch(
        rf"Spark 4\.\d\.\d, local\[2\], ({many}|{2 * many}|{3 * many}) tasks", by_spark.engine
    )
    assert here.engine == "this process"
    assert by_spark.anomalies == here.anomalies
    assert (by_spark.exit_code, by_spark.unknown) == (here.exit_code, here.unknown)


@pytest.mark.sampled(16)
@pytest.mark.usefixtures("many_units")
def test_spark_seals_to_the_bytes_that_this_process_writes(session: Any, tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    seal.seal(run)
    here = files(run)
    shutil.rmtree(run.history)
    seen: list[Progress] = []
    with chosen(tmp_path, seen.append) as choice:
        seal.seal(run, choice.workers)
    assert files(run) == here
    ended = {each.stage.name: each for each in seen}
    assert list(ended) == ["reading", "sealing"]
    for each in ended.values():
        assert each.tasks == len(each.stage.sizes) > 1
        assert each.done == sum(each.stage.sizes)


@pytest.mark.sampled(19)
def test_a_journal_that_a_task_cannot_read_is_one_clear_error(session: Any, tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    damaged = seal.journals(run)[-1]
    damaged.write_bytes(b"garbage\n" + damaged.read_bytes())
    with pytest.raises(HistoryError, match=f"{damaged.name} line 1"):
        check(run)
    assert not run.history.exists()


def test_a_task_that_crashes_while_it_seals_is_an_error_of_spark(workers: Workers) -> None:
    with pytest.raises(SparkError, match="trying tasks failed: ZeroDivisionError"):
        workers.map(ONE, functools.partial(operator.floordiv, 1))


@pytest.mark.sampled(10)
@pytest.mark.usefixtures("many_units")
@pytest.mark.parametrize("by_spark", [True, False])
def test_a_watch_sees_how_far_a_check_is(session: Any, tmp_path: Path, by_spark: bool) -> None:
    run = write_run(tmp_path / "run", random_history(7)[0].tables())
    seen: list[Progress] = []
    check(run, engine="spark" if by_spark else "process", watch=seen.append)
    stages = {each.stage.name: [one for one in seen if one.stage.name == each.stage.name] for each in seen}
    assert list(stages) == ["looking at transactions", "checking"]
    units = load(run).names.units
    rows = sum(unit.sends + unit.reads for unit in units)
    for told in stages.values():
        assert (told[-1].tasks, told[-1].done) == (len(units), rows)
        assert [each.done for each in told] == sorted(each.done for each in told)


def test_a_file_that_a_task_cannot_read_is_one_clear_error(session: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    damaged = a_file(run, "reads")
    scribble(damaged)
    with pytest.raises(HistoryError, match=damaged.name):
        check_run(run, engine="spark")
    assert not run.verdict.exists()


def test_a_job_that_fails_crashes_every_check_and_decides_nothing(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())

    def failing(*_: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr("checkers.engine.spark_workers.SparkWorkers.map", failing)
    verdict = check_run(run, engine="spark")
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert {c.status for c in verdict.checks.values()} == {"crashed"}
    assert "planted" in verdict.checks["durability"].why


@pytest.mark.sampled(26)
def test_a_history_sealed_anew_is_not_confused_with_the_old_one(workers: Workers, tmp_path: Path) -> None:
    for seed in (1, 2, 4):
        run = write_run(tmp_path / "run", random_history(seed)[0].tables())
        sealed = load(Run(run.folder))
        assert told(check_history(sealed, workers)) == told(check_history(sealed))


@pytest.mark.sampled(6)
def test_a_java_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    """In a process of its own: a JVM that runs would be used again."""
    program = "from checkers.engine.spark import spark\nwith spark('local[1]'): pass"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert "SparkError: Spark could not be started (it needs Java 17 or later)" in last
    assert str(tmp_path) in last


@pytest.mark.sampled(48)
def test_an_archive_of_classes_is_made_once_and_used(tmp_path: Path) -> None:
    """In processes of their own: the archive belongs to the start of a JVM."""
    program = "from checkers.engine.spark import prepare\nassert prepare()"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    made: list[tuple[str, int]] = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        (archive,) = (tmp_path / "inquest").iterdir()
        made.append((archive.name, archive.stat().st_mtime_ns))
    assert made[0] == made[1]
    assert archive.stat().st_size > 10_000_000
    program = (
        "from checkers.engine.spark import spark\nimport pathlib, sys\n"
        "with spark('local[1]') as session:\n"
        "    from checkers.engine.spark import _JVM\n"
        "    print(pathlib.Path(f'/proc/{_JVM.gateway.proc.pid}/maps').read_text())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert str(archive) in ended.stdout
    os.truncate(archive, 3_000_000)  # a JVM that maps it crashes
    program = "from checkers.engine.spark import spark\nwith spark('local[1]'): print('started')"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert (ended.stdout, "shared archive" in ended.stderr) == ("started\n", False)
    assert not archive.exists()  # the next `make setup` makes it again


OTHER_THREAD = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from checkers.api import check
from checkers.engine.spark import spark, spark_runs
from pyspark.sql import SparkSession

def elsewhere():
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(check, sys.argv[1], master=sys.argv[2]).result()
        return thread.submit(spark_runs).result(), found.verdict.engine.split(" ")[0], found.spark_failed

with spark("local[1]"):  # Inquest's own, which ends when the thread that made it has no more use for it
    own = elsewhere()
mine = SparkSession.builder.master("local[1]").getOrCreate()
print(json.dumps([own, elsewhere(), mine.range(3).count()]))
"""


@pytest.mark.sampled(32)
def test_a_check_in_another_thread_uses_the_session_of_the_caller(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    ended = subprocess.run(
        [sys.executable, "-c", OTHER_THREAD, str(run.folder), "local[1]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (runs, engine, why), callers, count = json.loads(ended.stdout)
    assert (runs, engine) == (False, "this")
    assert "multiple SparkContexts" in why
    assert (callers, count) == ([True, "Spark", ""], 3)


KILLS_THE_JVM = """
import json, sys
from pathlib import Path
from checkers import api
from checkers.engine.spark import _JVM
from checkers.engine.spark_workers import SparkWorkers
from core.errors import SparkError
from history.run_folder import Run

whole = SparkWorkers.map

def killing(workers, stage, work):
    if stage.name == sys.argv[2]:
        _JVM.gateway.proc.kill()
        _JVM.gateway.proc.wait()
    return whole(workers, stage, work)

SparkWorkers.map = killing
run = Run(Path(sys.argv[1]))
try:
    verdict = api.check(run, master="local[2]", watch=lambda _: None).verdict
except SparkError as error:
    print(json.dumps({"error": str(error), "sealed": run.history.exists()}))
else:
    crashed = [name for name, check in verdict.checks.items() if check.status == "crashed"]
    print(json.dumps({"code": verdict.exit_code, "found": sorted(verdict.anomalies), "crashed": crashed}))
"""


def killed(run: Run, stage: str) -> dict[str, Any]:
    """What a check says whose JVM dies before this stage. On the terminal it says nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLS_THE_JVM, str(run.folder), stage],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@pytest.mark.sampled(10)
def test_a_jvm_that_dies_crashes_every_check_and_there_is_still_a_verdict(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    ended = killed(run, "checking")
    assert (ended["code"], ended["found"], set(ended["crashed"])) == (2, [], set(CHECKS))


@pytest.mark.sampled(48)
def test_a_jvm_that_dies_between_two_stages_takes_the_later_one_alone(tmp_path: Path) -> None:
    """Sealing ends with an error of Spark; what clients saw is judged before the evidence is."""
    losing = {"preset": "acks1", "seed": 2, "duration_s": 4, "rate": 100}
    run = unsealed(tmp_path, "queue", **losing, nemesis="partition:isolate@leader")
    ended = killed(run, "sealing")
    assert ended["error"].startswith("local[2]: sealing units failed: ")
    assert not ended["sealed"]
    right = check_run(run)
    ended = killed(run, "judging")
    assert "lost-write" in ended["found"]
    assert (ended["found"], ended["code"]) == (sorted(right.anomalies), ExitCode.UNKNOWN)
    assert set() < set(ended["crashed"]) <= set(LOG_CHECKS)


@pytest.mark.parametrize("error", [Py4JNetworkError, ConnectionRefusedError])
def test_who_looks_how_far_a_job_is_ends_with_its_jvm(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    looked = threading.Event()

    class Tracker:
        def getJobIdsForGroup(self, _: str) -> NoReturn:
            looked.set()
            raise error("Answer from Java side is empty")

    monkeypatch.setattr(session.sparkContext, "statusTracker", Tracker)
    ranged = session.range
    monkeypatch.setattr(session, "range", lambda *words: (looked.wait(60), ranged(*words))[1])
    with chosen(tmp_path, lambda _: None) as choice:
        assert choice.workers.map(ONE, operator.index) == [0]
    assert looked.is_set()
    assert not raised
