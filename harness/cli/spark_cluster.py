"""A small Spark cluster on this machine, from the pyspark package (`make spark-cluster`).

A standalone master and its workers, each a JVM of its own, as on several machines. They listen on the
loopback alone, stay when this program ends, and are found again by the pid files in one folder.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from core.errors import SparkError
from core.terminal import show
from harness.cli.main import main

HOST: Final = "127.0.0.1"
CLASSES: Final = "org.apache.spark.deploy"
START_S: Final = 180.0
STOP_S: Final = 15.0
FOLDER: Final = Path(".cache/spark-cluster")

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def start(
    folder: Path,
    *,
    port: int = 7077,
    workers: int = 2,
    cores: int = 1,
    memory: str = "2g",
    environment: Mapping[str, str] | None = None,
) -> str:
    """Start a master and its workers; the URL of the master.

    folder: of pid files, logs and scratch files. port: of the master, 0 = any free one. cores, memory: of
    each worker. environment: added to this process's, for instance a store's credentials.

    Raises: SparkError, with nothing left running.
    """
    if _running(folder):
        raise SparkError(f"a Spark cluster of {folder} runs already; stop it first")
    folder.mkdir(parents=True, exist_ok=True)
    known = {**os.environ, **(environment or {}), "SPARK_LOCAL_IP": HOST, "SPARK_PUBLIC_DNS": HOST}
    # executors inherit it: what they run is Python, and their JVM moves bytes
    known["JDK_JAVA_OPTIONS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    known["SPARK_DAEMON_MEMORY"] = "256m"
    listens = ["--host", HOST, "--webui-port", "0"]
    try:
        log = _launched(folder, "master", ["master.Master", *listens, "--port", str(port)], known)
        master = _said(log, r"Starting Spark master at (spark://\S+)")
        options = ["worker.Worker", *listens, "--cores", str(cores), "--memory", memory, "--work-dir"]
        for name in [f"worker-{number}" for number in range(1, workers + 1)]:
            _launched(folder, name, [*options, str(folder.absolute() / name), master], known)
        for log in folder.glob("worker-*.log"):
            _said(log, r"(Successfully registered with master)")
    except BaseException:
        stop(folder)
        raise
    return master


def stop(folder: Path) -> int:
    """End the processes that the pid files name, workers first; how many ran."""
    running = sorted(_running(folder).items(), reverse=True)
    for _, pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
    ended = _until(lambda: not _running(folder), STOP_S)
    for _, pid in () if ended else running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for file in folder.glob("*.pid"):
        file.unlink()
    return len(running)


def _launched(folder: Path, name: str, arguments: list[str], environment: Mapping[str, str]) -> Path:
    """Start one process in a session of its own; the file that it logs to."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = folder / f"{name}.log"
    output = (log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    pid = os.posix_spawn(
        program,
        [str(program), f"{CLASSES}.{arguments[0]}", *arguments[1:]],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, *output),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    (folder / f"{name}.pid").write_text(str(pid))
    return log


def _said(log: Path, pattern: str) -> str:
    """What a process logs when it is ready. Raises: SparkError."""
    found: list[str] = []

    def ready() -> bool:
        found[:] = re.findall(pattern, log.read_text(errors="replace"))
        return bool(found)

    if not _until(ready, START_S):
        raise SparkError(f"the Spark cluster did not start within {START_S:g} s; see {log}")
    return found[0]


def _running(folder: Path) -> dict[str, int]:
    """The processes of the pid files that run, by name."""
    found = {}
    for file in folder.glob("*.pid"):
        pid = int(file.read_text())
        with contextlib.suppress(OSError):
            if CLASSES.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[file.stem] = pid
    return found


def _until(condition: Callable[[], bool], deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


Folder = Annotated[Path, typer.Option(help="Folder of pid files and logs.")]


@app.command("start")
def start_command(
    folder: Folder = FOLDER,
    port: Annotated[int, typer.Option(help="Port of the master.")] = 7077,
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 2,
    cores: Annotated[int, typer.Option(help="Cores of each worker.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory of each worker.")] = "2g",
) -> None:
    """Start a master and its workers, and print the option that makes a check use them."""
    show(f"--master {start(folder, port=port, workers=workers, cores=cores, memory=memory)}")


@app.command("stop")
def stop_command(folder: Folder = FOLDER) -> None:
    """Stop the cluster."""
    show(f"stopped {stop(folder)} processes")


if __name__ == "__main__":
    main(app)
