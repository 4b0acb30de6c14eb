"""A quiet, quick Spark session: here, on a cluster, through Spark Connect, or the one of `spark-submit`.

On this machine start-up is most of what a check of a small history costs. An archive of the JVM's loaded
classes (AppCDS, JEP 350; kept in the user's cache) halves it; `make setup` makes it (`prepare`).

On a cluster the executors get the driver's code with the session (`checkers.engine.shipped`). One task shows
at once whether they can use it: a cluster without workers, the right Python or a library is one clear error,
not a job that waits or crashes every check. Memory, cores and further settings of executors are the cluster's
own (`spark-defaults.conf`).

Not here: what runs on the session (`checkers.engine.spark_workers`).
"""

import atexit
import contextlib
import hashlib
import importlib
import logging
import os
import re
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.engine import shipped
from checkers.engine.masters import is_local, master_of, reach
from checkers.engine.spark_workers import telling
from core.errors import SparkError
from core.extensions import VARIABLE as EXTENSIONS
from core.programs import SAFE, SUBMITTED, environment

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ARCHIVE_WAIT_S: Final = 300.0
"""How long the JVM may take to write the archive when it ends."""
WORKERS_S: Final = 120.0
"""How long a cluster may take to run the first task."""
NEEDED: Final = tuple(resolve_name(f"..{name}", __package__) for name in ("checks", "logs.registry"))
"""Modules that tasks need."""


def spark_runs() -> bool:
    """Whether there is Spark already: the caller has a session, or `spark-submit` started this process."""
    if SUBMITTED in os.environ:
        return True
    if "pyspark" not in sys.modules:
        return False
    return _active() is not None


@contextlib.contextmanager
def spark(master: str | None) -> Iterator["SparkSession"]:
    """A session, stopped at the end. An active session is used as it is, and left alone. So is one that
    another thread of the caller's has made.

    master: None = all processors of this machine, or what `spark-submit` was given. The JVM that a session on
    this machine needs serves later ones, too, and ends with this process.

    Raises: SparkError.
    """
    active = _active()
    if active is not None:
        yield active
        return
    with tempfile.TemporaryDirectory(prefix="inquest-spark-") as scratch:
        found = list(sys.path)
        session = _started(master, scratch)
        try:
            _supply(session, Path(scratch))
            sys.path[:] = found  # what Spark adds ends with it, and this process has the code
            yield session
        except KeyboardInterrupt:
            _JVM.kill()  # it would finish its job first
            raise
        finally:
            sys.path[:] = found
            with contextlib.suppress(Exception):  # a JVM that died cannot be stopped; what is done is done
                session.stop()


def _active() -> "SparkSession | None":
    """The session of the caller: of this thread, else of the process, which can have one context alone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    context = SparkContext._active_spark_context
    if active is None and context is not None and context is not _JVM.context:
        return SparkSession.builder.getOrCreate()
    return active


def warm(session: "SparkSession") -> None:
    """One job that imports in each Python worker of this machine what tasks need."""
    many = session.sparkContext.defaultParallelism
    session.range(0, many, 1, many).mapInArrow(_able, "number long").toArrow()


def spark_answers(session: "SparkSession") -> bool:
    """Whether a session still runs jobs: its JVM may have been killed."""
    try:
        return len(session.range(1).collect()) == 1
    except Exception:  # noqa: BLE001 (whatever it is, the session is of no use)
        return False


def _able(batches: Any) -> Any:
    """In an executor: import what tasks need."""
    for name in NEEDED:
        importlib.import_module(name)
    yield from batches


def _started(master: str | None, scratch: str) -> "SparkSession":
    """Raises: SparkError."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master is None and SUBMITTED in os.environ:
        return SparkSession.builder.getOrCreate()
    if master is not None and master.startswith("sc://"):
        reach(master)
        try:
            return SparkSession.builder.remote(master).getOrCreate()
        except (PySparkException, ImportError, OSError) as error:
            raise SparkError(f"{master}: Spark Connect cannot be used: {telling(str(error))}") from None
    return _start(master or f"local[{len(os.sched_getaffinity(0))}]", scratch)


def _supply(session: "SparkSession", scratch: Path) -> None:
    """Give the executors of a cluster the code, and make sure that they can run it.

    scratch: a folder that stays as long as the session: the driver serves the code from there.

    Raises: SparkError.
    """
    from pyspark.errors import PySparkException

    master = master_of(session)
    if is_local(master):
        return
    if not shipped.shipped_already():
        session.addArtifact(str(shipped.archive(scratch)), pyfile=True)
    failed: list[Exception] = []

    def ask() -> None:
        try:
            session.range(1).mapInArrow(_able, "number long").toArrow()
        except Exception as error:  # noqa: BLE001 (reported below)
            failed.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WORKERS_S)
    if asking.is_alive():
        session.interruptAll()
        raise SparkError(
            f"{master}: no executor ran a task within {WORKERS_S:g} s; has the cluster a worker with free"
            " cores and memory?"
        )
    for error in failed:
        if not isinstance(error, PySparkException):
            raise SparkError(f"{master}: the cluster ended the application ({telling(str(error))})") from None
        raise SparkError(
            f"{master}: executors cannot run the checks ({telling(str(error))}). Each needs the "
            f"libraries of Inquest and Python {sys.version_info.major}.{sys.version_info.minor}; "
            "PYSPARK_PYTHON names it"
        ) from None


@dataclass(slots=True)
class _Machine:
    """The JVM of this process. context: of the last session that Inquest started. folder: for what it writes
    beside the scratch of sessions, and would leave behind when it is killed."""

    gateway: "JavaGateway | None" = None
    context: "SparkContext | None" = None
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def temporary(self) -> str:
        """The folder, which ends with the JVM."""
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="inquest-jvm-")
        return self.folder.name

    def _clean(self) -> None:
        folder, self.folder = self.folder, None
        if folder is not None:
            folder.cleanup()

    def kill(self) -> None:
        """End it at once. There is nothing of it to save."""
        gateway, self.gateway = self.gateway, None
        if gateway is not None:
            with contextlib.suppress(Exception):  # objects of this process do not ask for it any more
                gateway.shutdown()
            process: subprocess.Popen[bytes] = gateway.proc
            process.kill()
            process.wait()
        self._clean()

    def end(self) -> bool:
        """Let it end in order, which writes an archive that it was asked for; whether it did so in time."""
        gateway, self.gateway = self.gateway, None
        if gateway is None:
            return False
        process: subprocess.Popen[bytes] = gateway.proc
        gateway.shutdown()
        if process.stdin is not None:
            process.stdin.close()
        try:
            return process.wait(ARCHIVE_WAIT_S) == 0
        except subprocess.TimeoutExpired:  # what it has written is not whole
            process.kill()
            process.wait()
            return False
        finally:
            self._clean()


_JVM: Final = _Machine()


def _start(master: str, scratch: str, option: str = "") -> "SparkSession":
    """A session on this machine's JVM, which is started, with this option, if there is none.

    Raises: SparkError.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if not logging.root.handlers:  # py4j logs an interrupt as an error, with a traceback
        logging.root.addHandler(logging.NullHandler())
    _quieten_accumulators()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master) or not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    reach(master)
    archive = _archive_path()
    conf = SparkConf().setMaster(master).setAppName("inquest check")
    for name, value in _settings(master, scratch, option or _used(archive)).items():
        conf.set(name, value)
    said = Path(scratch) / "said"  # a JVM is chatty; what it says matters only if it fails
    try:
        if _JVM.gateway is None:
            with said.open("wb") as output:
                streams = {"stdout": output, "stderr": output}
                _JVM.gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
            atexit.register(_JVM.kill)
        _JVM.context = SparkContext(conf=conf, gateway=_JVM.gateway)
        return SparkSession(_JVM.context)
    except (PySparkException, Py4JError, OSError, ValueError) as error:
        # ValueError: another thread has a session of its own here
        if _JVM.gateway is None and archive is not None and archive.exists():
            archive.unlink(missing_ok=True)  # a damaged archive can keep a JVM from starting
            return _start(master, scratch)
        lines = said.read_text(errors="replace").strip().splitlines() if said.exists() else []
        of_java = (line.strip() for line in lines if "java" in line.lower() and "WARNING" not in line)
        why = next(of_java, lines[-1] if lines else str(error).strip())
        needs = "(it needs Java 17 or later)" if is_local(master) else f"on {master}"
        raise SparkError(f"Spark could not be started {needs}: {why}") from error


def _quieten_accumulators() -> None:
    """Its servers would show a traceback where a JVM is gone. Their names differ between PySparks."""
    from pyspark import accumulators

    for server in vars(accumulators).values():
        if isinstance(server, type) and issubclass(server, socketserver.BaseServer):
            setattr(server, "handle_error", lambda *_: None)  # noqa: B010


def _used(archive: Path | None) -> str:
    return f"-XX:SharedArchiveFile={archive}" if archive is not None and archive.exists() else "-Xshare:auto"


def _settings(master: str, scratch: str, option: str) -> dict[str, str]:
    java = [
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-XX:ErrorFile={scratch}/crash.log",
        f"-Djava.io.tmpdir={_JVM.temporary()}",
        option,
    ]
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
        "spark.speculation": "false",  # a second attempt reads and writes the same files
        # Python workers start with `-m`: without it they import from the current folder first
        **{f"spark.executorEnv.{name}": value for name, value in SAFE.items()},
        f"spark.executorEnv.{EXTENSIONS}": os.environ.get(EXTENSIONS, ""),
    }
    if is_local(master):
        settings["spark.local.dir"] = scratch
        settings["spark.executorEnv.PYTHONPATH"] = environment().get("PYTHONPATH", "")
    if is_local(master) or re.match(r"spark://(127\.|localhost[:,])", master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def prepare() -> bool:
    """Make the archive now, if there is none; whether there is one. For the last use of Spark in a process.

    Raises: SparkError.
    """
    target = _archive_path()
    if target is None or target.exists():
        return target is not None
    with tempfile.TemporaryDirectory(prefix="inquest-spark-") as scratch:
        made = Path(scratch) / "classes.jsa"
        session = _start("local[1]", scratch, f"-XX:ArchiveClassesAtExit={made}")
        warm(session)
        session.stop()
        if _JVM.end() and made.exists():
            with contextlib.suppress(OSError):  # without an archive each start is only slower
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary = target.with_suffix(f".{os.getpid()}")
                shutil.copyfile(made, temporary)
                os.replace(temporary, target)
    return target.exists()


def _archive_path() -> Path | None:
    """Where the archive of this Java and these jars belongs; None where there can be none.

    A JVM takes an archive only with the very class path that it was made with, and silently starts
    without one otherwise: each installation of Spark has its own.
    """
    import pyspark

    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    java = Path(found) if found else None
    if java is None or not java.exists():
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = f"{java.resolve()} {Path(pyspark.__file__).resolve()}"
    key = hashlib.sha256(place.encode()).hexdigest()[:12]
    return cache / "inquest" / f"spark-{pyspark.__version__}-{key}.jsa"
