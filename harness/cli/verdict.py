"""From a run folder to verdict, report and exit code: what every command that ends with a verdict does.

Heavy parts (Spark, the report) are imported when they are needed.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from core.errors import ExitCode, HistoryError, InquestError, UsageError
from core.progress import Progress, Watch, unwatched
from core.terminal import say, show
from history.run_folder import Run

SIZES = ((" M", 1_000_000), (" k", 1_000), ("", 0))
WORDS = {"True": "VALID", "False": "ANOMALY", "unknown": "UNKNOWN"}

MASTER = re.compile(
    r"local|local\[(\*|[0-9]{1,4})(,[0-9]{1,4})?\]|local-cluster\[[0-9]+,[0-9]+,[0-9]+\]"
    r"|spark://[^\s,/:]+:[0-9]{1,5}(,[^\s,/:]+:[0-9]{1,5})*|yarn|k8s://\S+"
)
"""What Spark takes for a master."""


def known_master(given: str | None) -> str | None:
    """Refuse, before anything is done, what no Spark takes. Raises: UsageError."""
    if given is not None and MASTER.fullmatch(given) is None:
        raise UsageError(f"--master {given!r}: local[4], spark://host:7077, yarn or k8s://…")
    return given


Master = Annotated[
    str | None,
    typer.Option(
        callback=known_master,
        help="Spark master: local[4], spark://host:7077 … (default: none for histories below 300 M rows).",
    ),
]
WithoutSpark = Annotated[bool, typer.Option(help="Check in this process, without Spark.")]


class Engine(NamedTuple):
    """Where a check runs."""

    master: str | None = None
    without_spark: bool = False

    def reach(self) -> None:
        """Before a run is made whose check needs it. Raises: SparkError, where no master answers."""
        if self.master is not None and not self.without_spark:
            from checkers.engine.spark import reach

            reach(self.master)


@contextmanager
def interruptible(left: str) -> Iterator[None]:
    """Ctrl-C in this block ends the command; `left` tells the user what remains."""
    try:
        yield
    except KeyboardInterrupt:
        raise InquestError(f"interrupted; {left}", ExitCode.INTERRUPTED) from None


@contextmanager
def own_files() -> Iterator[None]:
    """A file that this very command wrote and cannot read is a fault of the harness, not of the user."""
    try:
        yield
    except HistoryError as error:
        raise InquestError(str(error)) from error


@contextmanager
def watching() -> Iterator[Watch]:
    """A watch that shows how far long work has come, where stderr is a terminal. It leaves nothing there."""
    if not sys.stderr.isatty():
        yield unwatched
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda progress: status.update(said(progress))


def said(progress: Progress) -> str:
    """Progress in words."""
    stage = progress.stage
    whole = sum(stage.sizes)
    unit, size = next((unit, size) for unit, size in SIZES if whole >= size)
    done, of = (f"{count / size:.1f}" if size else str(count) for count in (progress.done, whole))
    tasks = f"{progress.tasks} of {len(stage.sizes)} {stage.tasks}"
    return f"{stage.name}: {tasks}, {done} of {of}{unit} {stage.measure}"


def judge(run_folder: Run, engine: Engine, *, interrupted: bool = False) -> ExitCode:
    """Check a recorded run, build its report, print the verdict line; the exit code.

    Raises: HistoryError.
    """
    from checkers.api import check

    with watching() as watch:
        result = check(run_folder, master=engine.master, without_spark=engine.without_spark, watch=watch)
    result.write(run_folder)  # as soon as it is there: importing the report takes longer than small checks
    from harness import report as reports
    from harness.report.wording import faults_line, incident_lines, logs_line

    verdict = result.verdict
    if result.spark_failed:
        say(f"{result.spark_failed}; this process checked instead")
    page = "none"
    try:
        page = str(reports.build(run_folder))
    except (InquestError, OSError) as error:  # the verdict stands without its picture
        say(f"no report: {error}")
    show(f"{WORDS[str(verdict.valid)]}: {verdict.summary}")
    for line in incident_lines(verdict):
        show(f"incident: {line}")
    show(f"faults: {faults_line(verdict)}")
    show(f"logs: {logs_line(verdict.logs)}")
    show(f"report: {page}")
    show(f"repeat: {verdict.repro}")
    return ExitCode.INTERRUPTED if interrupted else ExitCode(verdict.exit_code)
