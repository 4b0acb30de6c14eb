"""A quiet, quick Spark session: on this machine, on a cluster, or the one of `spark-submit`.

On this machine start-up is most of what a check of a small history costs. An archive of the JVM's loaded
classes (AppCDS, JEP 350; kept in the user's cache) halves it; it is made once, when a session ends and there
is none.

On a cluster the executors get the driver's code with the session (`checkers.engine.shipped`). One task shows
at once whether they can use it: a cluster without workers, the right Python or a library is one clear error,
not a job that waits or crashes every check. Memory, cores and further settings of executors are the cluster's
own (`spark-defaults.conf`).

Not here: what runs on the session (`checkers.engine.pipeline`).
"""

import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from checkers.engine import shipped
from core.errors import HistoryError, SparkError
from core.programs import SAFE, environment
from core.progress import Progress, Stage, Watch, unwatched
from history.parts import Runner

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

T = TypeVar("T")
U = TypeVar("U")

ARCHIVE_WAIT_S: Final = 300.0
"""How long the JVM may take to write the archive when it ends."""
ANSWER_S: Final = 10.0
"""How long the master of a standalone cluster may take to accept a connection."""
LOOK_S: Final = 0.25
"""How often a watch learns which tasks have ended."""
WORKERS_S: Final = 120.0
"""How long a cluster may take to give the first executor."""
ONE: Final = Stage(name="starting", tasks="executors", sizes=(1,))
"""One task, which only shows that tasks run."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` sets this variable: the JVM runs already, with the settings that the user gave it."""


def spark_runs() -> bool:
    """Whether there is Spark already: the caller has a session, or `spark-submit` started this process."""
    if SUBMITTED in os.environ:
        return True
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@contextlib.contextmanager
def spark(master: str | None, *, archive: bool = True) -> Iterator["SparkSession"]:
    """A session, stopped at the end. An active session is used as it is, and left alone.

    master: None = all processors of this machine, or what `spark-submit` was given.

    Raises: SparkError.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    if SUBMITTED in os.environ:
        with tempfile.TemporaryDirectory(prefix="inquest-spark-") as scratch:
            found = list(sys.path)
            session = SparkSession.builder.getOrCreate()
            sys.path[:] = found  # what it adds ends with it, and this process has the code
            try:
                _supply(session, Path(scratch))
                yield session
            finally:
                session.stop()
        return
    target = _archive_path() if archive and not on_cluster(master) else None
    with tempfile.TemporaryDirectory(prefix="inquest-spark-") as scratch:
        made = Path(scratch) / "classes.jsa"
        session = _start(master or "local[*]", scratch, target, made)
        try:
            _supply(session, Path(scratch))
            yield session
        except KeyboardInterrupt:
            _kill(session)  # it would finish its job, and write its archive, before it ends
            raise
        except BaseException:
            _stop(session, target, made)
            raise
        _stop(session, target, made)


def scatter(
    session: "SparkSession", stage: Stage, work: Callable[[int], Iterable[T]], watch: Watch = unwatched
) -> list[T]:
    """Call `work`, which must be picklable, with the number of each task of a stage, one Spark task each, in
    one job. Returns what the calls yield, in the order of the numbers."""
    with _counting(session, stage, watch) as count:
        numbers = session.sparkContext.parallelize(range(len(stage.sizes)), max(len(stage.sizes), 1))
        return numbers.flatMap(functools.partial(_counted, work, count)).collect()


def keep(
    session: "SparkSession",
    stage: Stage,
    work: Callable[[int], Iterable[T]],
    first: Callable[[T], U],
    watch: Watch = unwatched,
) -> tuple[list[U], Callable[[Callable[[T], Any]], list[Any]]]:
    """Call `work` as `scatter` does, once, and leave what the calls yield with the executors, on their disks.

    Returns the answers of `first` to each of them, and what applies a further picklable function to each,
    where it is, and collects the answers in order.
    """
    from pyspark import StorageLevel

    with _counting(session, stage, watch) as count:
        numbers = session.sparkContext.parallelize(range(len(stage.sizes)), max(len(stage.sizes), 1))
        kept = numbers.flatMap(functools.partial(_counted, work, count))
        kept.persist(StorageLevel.DISK_ONLY)
        answers = kept.map(first).collect()
    return answers, lambda function: kept.map(function).collect()


def runner(session: "SparkSession", watch: Watch = unwatched) -> Runner:
    """What makes Spark tasks of the tasks of `history.parts`.

    Its calls raise: HistoryError, SparkError (the cluster ended the job, or a task crashed).
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    def run(stage: Stage, work: Callable[[int], T]) -> list[T]:
        try:
            answers = scatter(session, stage, functools.partial(_answered, work), watch)
        except (PySparkException, Py4JError) as error:
            why = f"{session.sparkContext.master}: {stage.name} {stage.tasks} failed"
            raise SparkError(f"{why}: {_telling(str(error))}") from error
        found: list[T] = []
        for answer in answers:
            if isinstance(answer, _Refused):
                raise HistoryError(answer.why)
            found.append(answer)
        return found

    return run


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a task could not read or write what it had to."""

    why: str


def _answered(work: Callable[[int], T], number: int) -> Iterator[T | _Refused]:
    """In an executor: a damaged file becomes its error's message, not a failed job."""
    try:
        yield work(number)
    except (OSError, HistoryError) as error:
        yield _Refused(str(error))


def _counted(
    work: Callable[[int], Iterable[T]], count: "Accumulator[int] | None", number: int
) -> Iterator[T]:
    """In an executor: what a call yields; then the task is counted."""
    yield from work(number)
    if count is not None:
        count.add(1 << number)


class _OneBitEach:
    """How Spark puts counts together (`pyspark.AccumulatorParam`): a task that it runs twice counts once."""

    def zero(self, value: int) -> int:
        """No task."""
        return 0

    def addInPlace(self, value: int, added: int) -> int:
        """The tasks of both."""
        return value | added


@contextlib.contextmanager
def _counting(session: "SparkSession", stage: Stage, watch: Watch) -> Iterator["Accumulator[int] | None"]:
    """Tells the watch, while this block runs, which tasks have ended."""
    if watch is unwatched or not stage.sizes:
        yield None
        return
    count = session.sparkContext.accumulator(0, cast(Any, _OneBitEach()))
    ended = threading.Event()

    def look() -> None:
        while True:
            over = ended.wait(LOOK_S)
            bits = count.value
            done = [size for number, size in enumerate(stage.sizes) if bits >> number & 1]
            watch(Progress(stage=stage, tasks=len(done), done=sum(done)))
            if over:
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield count
    finally:
        ended.set()
        looking.join()


def on_cluster(master: str | None) -> bool:
    """Whether this master runs tasks outside this process's machine, as far as its name says."""
    return SUBMITTED in os.environ if master is None else not re.match(r"local(\[|$)", master)


def _supply(session: "SparkSession", scratch: Path) -> None:
    """Give the executors of a cluster the code, and make sure that they can run it.

    scratch: a folder that stays as long as the session: the driver serves the code from there.

    Raises: SparkError.
    """
    context = session.sparkContext
    if not on_cluster(context.master):
        return
    if not shipped.shipped_already():
        found = list(sys.path)
        context.addPyFile(str(shipped.archive(scratch)))
        sys.path[:] = found  # this process has the code
    _await_executor(session)


def _await_executor(session: "SparkSession") -> None:
    """Raises: SparkError, where no executor comes or the first one cannot run the checks."""
    from pyspark.errors import PySparkException

    context = session.sparkContext
    executors = context._jsc.sc()
    end = time.monotonic() + WORKERS_S
    while executors.getExecutorMemoryStatus().size() < 2:  # the driver is one
        if executors.isStopped():
            raise SparkError(f"{context.master}: the cluster ended the application")
        if time.monotonic() > end:
            raise SparkError(
                f"{context.master}: no executor within {WORKERS_S:g} s; has the cluster a worker with "
                "free cores and memory?"
            )
        time.sleep(0.1)
    try:
        scatter(session, ONE, _able)
    except PySparkException as error:
        raise SparkError(
            f"{context.master}: executors cannot run the checks ({_telling(str(error))}). Each needs the "
            f"libraries of Inquest and Python {sys.version_info.major}.{sys.version_info.minor}; "
            "PYSPARK_PYTHON names it"
        ) from None


def _able(number: int) -> list[int]:
    """In an executor: import what kernels need."""
    from checkers.engine import partition_view

    return [len(partition_view.__name__)]


def _telling(said: str) -> str:
    """The line of a worker's error that says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|MISMATCH\w*\])", line)]
    return (telling or lines or ["unknown"])[-1 if telling else 0]


def prepare() -> bool:
    """Make the archive now, if there is none, so that no check has to; whether there is one.

    Raises: SparkError.
    """
    target = _archive_path()
    if target is not None and not target.exists():
        with spark("local[1]") as session:
            scatter(session, ONE, range)
    return target is not None and target.exists()


def _start(master: str, scratch: str, target: Path | None, made: Path) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if not logging.root.handlers:  # py4j logs an interrupt as an error, with a traceback
        logging.root.addHandler(logging.NullHandler())
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not (on_cluster(master) and os.environ.get("PYSPARK_PYTHON")):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    reach(master)
    conf = SparkConf().setMaster(master).setAppName("inquest check")
    for name, value in _settings(master, scratch, target, made).items():
        conf.set(name, value)
    said = Path(scratch) / "said"  # a JVM is chatty; what it says matters only if it fails
    try:
        with said.open("wb") as output:
            streams = {"stdout": output, "stderr": output}
            gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (PySparkException, Py4JError, OSError) as error:
        if target is not None and target.exists():  # a damaged archive can keep a JVM from starting
            target.unlink(missing_ok=True)
            return _start(master, scratch, target, made)
        lines = said.read_text(errors="replace").strip().splitlines() if said.exists() else []
        telling = [line for line in lines if "java" in line.lower() and "WARNING" not in line]
        why = next(iter(telling or lines[-1:] or [str(error).strip()]))
        needs = f"on {master}" if on_cluster(master) else "(it needs Java 17 or 21)"
        raise SparkError(f"Spark could not be started {needs}: {why}") from error


def reach(master: str) -> None:
    """Raises: SparkError, where no master of a standalone cluster accepts a connection.

    Spark itself tries for a minute, and then ends the JVM.
    """
    found = re.fullmatch(r"spark://(?P<hosts>.+)", master)
    why: Exception | None = None
    for place in found["hosts"].split(",") if found else ():
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            why = error
    if found:
        raise SparkError(f"{master}: no Spark master answers ({why})")


def _settings(master: str, scratch: str, target: Path | None, made: Path) -> dict[str, str]:
    java = [
        "-Xshare:auto",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-XX:ErrorFile={scratch}/crash.log",
    ]
    if target is not None:
        used = f"SharedArchiveFile={target}" if target.exists() else f"ArchiveClassesAtExit={made}"
        java.append(f"-XX:{used}")
    settings = {
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        # SPARK-59141: unions of bucketed scans could give wrong results
        "spark.sql.unionOutputPartitioning": "false",
        # Python workers start with `-m`: without it they import from the current folder first
        **{f"spark.executorEnv.{name}": value for name, value in SAFE.items()},
    }
    if not on_cluster(master):
        settings["spark.local.dir"] = scratch
        settings["spark.executorEnv.PYTHONPATH"] = environment().get("PYTHONPATH", "")
    if not on_cluster(master) or re.match(r"spark://(127\.|localhost[:,])", master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _kill(session: "SparkSession") -> None:
    """End the JVM at once, and let nothing complain that it is gone."""
    from pyspark import SparkContext

    with contextlib.suppress(AttributeError):
        setattr(session.sparkContext._accumulatorServer, "handle_error", lambda *_: None)  # noqa: B010
    if SparkContext._gateway is not None:
        SparkContext._gateway.proc.kill()
        SparkContext._gateway.proc.wait()


def _stop(session: "SparkSession", target: Path | None, made: Path) -> None:
    """Stop the session and its JVM; keep the archive that the JVM leaves."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):  # a JVM that died cannot be stopped; what is done is done
        session.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process: subprocess.Popen[bytes] = gateway.proc
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends with its standard input
    try:
        process.wait(ARCHIVE_WAIT_S)
    except subprocess.TimeoutExpired:  # what it has written of the archive is not whole
        process.kill()
        process.wait()
        target = None
    SparkContext._gateway = SparkContext._jvm = None
    if target is not None and process.returncode == 0 and made.exists():
        with contextlib.suppress(OSError):  # without an archive the next start is only slower
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, temporary)
            os.replace(temporary, target)


def _archive_path() -> Path | None:
    """Where the archive of this Java and these jars belongs; None where there can be none.

    A JVM takes an archive only with the very class path that it was made with, and silently starts
    without one otherwise: each installation of Spark has its own.
    """
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else _which("java")
    if java is None or not java.exists():
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = f"{java.resolve()} {Path(pyspark.__file__).resolve()}"
    key = hashlib.sha256(place.encode()).hexdigest()[:12]
    return cache / "inquest" / f"spark-{pyspark.__version__}-{key}.jsa"


def _which(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None
