"""From a run folder to verdict, report and exit code: what every command that ends with a verdict does.

Heavy parts (Spark, the report) are imported when they are needed.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from checkers.engine.masters import refuse_unknown
from core.errors import ExitCode, HistoryError, InquestError, UsageError
from core.programs import SUBMITTED
from core.progress import Watch, text_of, unwatched
from core.terminal import say, show, show_whole
from history.run_folder import Run

if TYPE_CHECKING:
    from history.verdict import Verdict


def known_master(given: str | None) -> str | None:
    """Refuse, before anything is done, what no Spark takes. Raises: UsageError."""
    if given is not None:
        refuse_unknown(given)
    return given


Master = Annotated[
    str | None,
    typer.Option(
        callback=known_master,
        help="Spark master: local[4], spark://host:7077, sc://host … (default: all processors here).",
    ),
]
EngineName = Annotated[
    Literal["spark", "process"] | None,
    typer.Option("--engine", help="What seals and judges (default: $INQUEST_ENGINE, or Spark)."),
]


ENGINE = "INQUEST_ENGINE"
"""Variable that says which engine seals and judges, where the command line does not."""


class Engine(NamedTuple):
    """Where a check runs."""

    master: str | None = None
    name: Literal["spark", "process"] = "spark"

    @classmethod
    def of(
        cls, given: Literal["spark", "process"] | None, master: str | None, *, simulated: bool = False
    ) -> "Engine":
        """The one that the user gave; with a master, or under `spark-submit`, Spark; else what `ENGINE` says,
        this process for a run that was simulated just now, Spark.

        Raises: UsageError, where the environment names no engine.
        """
        if given is None and (master is not None or SUBMITTED in os.environ):
            given = "spark"
        said = given or os.environ.get(ENGINE) or ("process" if simulated else "spark")
        match said:
            case "spark" | "process":
                return cls(master, said)
        raise UsageError(f"{ENGINE}={said}: spark or process")

    @property
    def spark(self) -> bool:
        """Spark, not this process."""
        return self.name == "spark"

    def reach(self) -> None:
        """Before a run is made whose check needs it. Raises: SparkError, where no master answers."""
        if self.master is not None and self.spark:
            from checkers.engine.masters import reach

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
def watching() -> Iterator[Callable[[str], None] | None]:
    """What shows on a terminal how far long work has come, and leaves nothing there; None = no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


def watch_of(tell: Callable[[str], None] | None) -> Watch:
    """A watch that tells this."""
    return unwatched if tell is None else lambda progress: tell(text_of(progress))


def judge(
    run_folder: Run,
    engine: Engine,
    *,
    interrupted: bool = False,
    judge_at: str = "",
    require: str | None = None,
) -> ExitCode:
    """Check a recorded run, build its report, print the last lines; the exit code.

    judge_at: socket of a process that judges, "" = this one does. require: as of `checkers.api.check`; only
    where this process judges.

    Raises: HistoryError.
    """
    verdict, spark_failed = checked(run_folder, engine, judge_at, require)
    from harness import report as reports
    from harness.cli.last_lines import last_lines

    if spark_failed:
        say(f"{spark_failed}; this process checked instead")
    page = "none"
    try:
        page = str(reports.build(run_folder))
    except (InquestError, OSError) as error:  # the verdict stands without its picture
        say(f"no report: {error}")
    show_whole(last_lines(verdict, run_folder, page))
    return ExitCode.INTERRUPTED if interrupted else ExitCode(verdict.exit_code)


def checked(
    run_folder: Run, engine: Engine, judge_at: str = "", require: str | None = None
) -> "tuple[Verdict, str]":
    """Have a run folder judged: its verdict, which is in the folder, too; and why Spark could not be started,
    "" = it was not asked, or ran.

    Raises: what `checkers.api.check` raises.
    """
    with watching() as tell:
        if judge_at and engine.spark:
            from harness.judging.process import judged
            from harness.report.inputs import read_verdict

            failed = judged(run_folder, judge_at, tell or (lambda _: None))
            if failed is not None:
                return read_verdict(run_folder), failed
        from checkers.api import check

        result = check(
            run_folder, master=engine.master, engine=engine.name, require=require, watch=watch_of(tell)
        )
    result.write(run_folder)
    return result.verdict, result.spark_failed


def follow_run(folder: Path) -> None:
    """Print final findings until the run has been recorded. Raises: HistoryError."""
    from core.config import recorded_config
    from harness.run.follow import PAUSE_S, Follower
    from history.jsonl import being_written

    run_folder = Run(folder)
    follower = Follower(run_folder, recorded_config(run_folder.config))
    while being_written(run_folder.events):
        for found in follower.look():
            if not found.allowed:
                show(f"final already: {found.identity[0]}: {found.sentence}")
        time.sleep(PAUSE_S)


def judge_portable(path: Path, *, as_json: bool) -> int:
    """Judge a file of portable histories, print what was found: the exit code. Raises: HistoryError."""
    from checkers.api import check_portable

    answers = check_portable(path)
    verdicts = [config["valid"] for a in answers for config in a["by_config"].values()]
    for answer in answers:
        if as_json:
            show(json.dumps(answer))
            continue
        for name, config in answer["by_config"].items():
            found = ", ".join(config["anomalies"]) or "nothing"
            show(f"{answer['name']} [{name}]: valid {config['valid']}; found {found}")
    if False in verdicts:
        return ExitCode.ANOMALY
    return ExitCode.UNKNOWN if "unknown" in verdicts else ExitCode.VALID
