"""From a run folder to verdict, report and exit code: what every command that ends with a verdict does.

Heavy parts (Spark, the report) are imported when they are needed.

Not here: the commands (`harness.cli`), the verdict itself (`checkers`).
"""

from pathlib import Path
from typing import NamedTuple, NoReturn

import typer

from harness.store import Run

USAGE, HARNESS_FAULT, INTERRUPTED = 64, 70, 130
WORDS = {"True": "VALID", "False": "ANOMALY", "unknown": "UNKNOWN"}


class Engine(NamedTuple):
    """Where a check runs."""

    master: str | None = None
    without_spark: bool = False


def fail(message: str, code: int) -> NoReturn:
    """One clear error, and out."""
    typer.echo(f"inquest: {message}", err=True)
    raise typer.Exit(code)


def judge(run_folder: Run, engine: Engine, *, interrupted: bool = False, own: bool = False) -> int:
    """Check a sealed run, report it, print the verdict line; the exit code.

    own: this very command recorded it, so a damaged history is a fault of the harness.
    """
    import checkers
    from harness import report as reports

    try:
        verdict = checkers.check(
            run_folder, master=engine.master, without_spark=engine.without_spark
        )
    except checkers.HistoryError as error:
        fail(str(error), HARNESS_FAULT if own else USAGE)
    except OSError as error:
        fail(f"the verdict could not be written: {error}", HARNESS_FAULT)
    page = "none"
    try:
        page = str(reports.build(run_folder))
    except (reports.ReportError, OSError) as error:  # the verdict stands without a picture of it
        typer.echo(f"inquest: no report: {error}", err=True)
    typer.echo(f"{WORDS[str(verdict.valid)]}: {verdict.summary}")
    typer.echo(f"report: {page}")
    typer.echo(f"repeat: {verdict.repro}")
    return INTERRUPTED if interrupted else verdict.exit_code


def existing(folder: Path) -> Run:
    """The run in a folder, sealed if it was not yet."""
    from harness.recorder import recording
    from harness.seal import SealError, seal

    found = Run(folder)
    if not found.config.is_file():
        fail(f"{folder} is not a run folder (no config.json)", USAGE)
    if recording(found.events):  # its journals, read one after the other, would not fit together
        fail(f"{folder} is still being recorded", USAGE)
    try:
        seal(found)
    except (SealError, OSError) as error:
        fail(str(error), USAGE)
    return found
