"""A quiet, quick Spark session.

Start-up is most of what a check of a small history costs. An archive of the JVM's loaded classes
(AppCDS, JEP 350; kept in the user's cache) halves it; it is made once, when a session ends and there is none.

Not here: what runs on the session (`checkers.engine.pipeline`).
"""

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from core.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

ARCHIVE_WAIT_S: Final = 60.0
"""How long the JVM may take to write the archive when it ends."""


@contextlib.contextmanager
def spark(master: str | None, *, archive: bool = True) -> Iterator["SparkSession"]:
    """A session, stopped at the end. An active session is used as it is, and left alone.

    master: None = all processors of this machine.

    Raises: SparkError.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    local = master is None or master.startswith("local")
    target = _archive_path() if archive and local else None
    with tempfile.TemporaryDirectory(prefix="inquest-spark-") as scratch:
        made = Path(scratch) / "classes.jsa"
        session = _start(master or "local[*]", scratch, target, made)
        try:
            yield session
        except KeyboardInterrupt:
            _kill(session)  # it would finish its job, and write its archive, before it ends
            raise
        except BaseException:
            _stop(session, target, made)
            raise
        _stop(session, target, made)


def scatter(session: "SparkSession", work: Callable[[int], Iterable[T]], count: int) -> list[T]:
    """Call `work`, which must be picklable, with the numbers from 0 to `count` - 1, one Spark task each, in
    one job. Returns what the calls yield, in the order of the numbers."""
    return session.sparkContext.parallelize(range(count), count).flatMap(work).collect()


def prepare() -> bool:
    """Make the archive now, if there is none, so that no check has to; whether there is one.

    Raises: SparkError.
    """
    target = _archive_path()
    if target is not None and not target.exists():
        with spark("local[1]") as session:
            scatter(session, range, 1)
    return target is not None and target.exists()


def _start(master: str, scratch: str, target: Path | None, made: Path) -> "SparkSession":
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if not logging.root.handlers:  # py4j logs an interrupt as an error, with a traceback
        logging.root.addHandler(logging.NullHandler())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master).setAppName("inquest check")
    for name, value in _settings(master, scratch, target, made).items():
        conf.set(name, value)
    said = Path(scratch) / "stderr"  # a JVM is chatty; what it says matters only if it fails
    try:
        with said.open("wb") as stderr:
            gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (PySparkException, Py4JError, OSError) as error:
        lines = said.read_text(errors="replace").strip().splitlines() if said.exists() else []
        telling = [line for line in lines if "java" in line.lower() and "WARNING" not in line]
        why = next(iter(telling or lines[-1:] or [str(error).strip()]))
        raise SparkError(f"Spark could not be started (it needs Java 17 or 21): {why}") from error


def _settings(master: str, scratch: str, target: Path | None, made: Path) -> dict[str, str]:
    java = [
        "-Xshare:auto",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
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
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
        }
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
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ARCHIVE_WAIT_S)
    SparkContext._gateway = SparkContext._jvm = None
    if target is not None and made.exists():
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
