"""`inquest recording import` and `export`: recordings of other programs in, portable histories out."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from core.errors import ExitCode, UsageError
from core.files import written_into
from core.terminal import say, show
from harness.cli.settings import setting
from harness.cli.verdict import Engine, EngineName, Master, interruptible, watch_of, watching
from history.run_folder import RESULTS, Run

Option = typer.Option


def import_(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="jepsen, verifiable or jsonl.")],
    files: Annotated[
        list[Path], typer.Argument(help="The recording; verifiable: of every process of a run.")
    ],
    from_start: Annotated[
        bool,
        Option(
            "--from-start",
            help="verifiable: the consumers began at the start of each partition, and the output of all of"
            " them is given.",
        ),
    ] = False,
    one_group: Annotated[
        bool, Option("--one-group", help="verifiable: the consumers are members of one group.")
    ] = False,
    clock_error: Annotated[
        float | None,
        Option(
            "--clock-error",
            min=0,
            metavar="SECONDS",
            help="verifiable: the clocks of its hosts are at most so far apart (default: 5).",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", help="What is known of clients and topics, as name=value, e.g. acks=1."),
    ] = None,
    results: Annotated[Path, Option(help="Folder for run folders.")] = RESULTS,
    master: Master = None,
    engine_name: EngineName = None,
) -> None:
    """Make a run folder from a recording of another program, for `inquest check` (docs/importing.md)."""
    from checkers.engine.engines import chosen
    from checkers.recordings.formats import ImportRequest, import_config, import_files
    from harness.compose import create_folder, point_latest
    from history.seal import seal

    request = ImportRequest(
        format=format_, files=files, from_start=from_start, one_group=one_group, clock_error_s=clock_error
    )
    if (from_start or one_group or clock_error is not None) and format_ != "verifiable":
        raise UsageError("--from-start, --one-group and --clock-error are options of the format verifiable")
    config = import_config(request, dict(map(setting, set_ or ())))
    run = create_folder(config, results)
    with _removed_on_failure(run), interruptible("nothing was imported"):
        by_spark = Engine.of(engine_name, master).spark
        with watching() as tell, chosen(run.folder, watch_of(tell), spark=by_spark, master=master) as choice:
            workers = choice.workers
            recording = import_files(run, config, request, workers if workers.apart else None)
            seal(run, workers)
    if why := point_latest(run):  # a refused import leaves it where it was
        say(why)
    if choice.why:
        say(f"{choice.why}; this process imported instead")
    for why in recording.reasons:
        say(f"not read: {why}")
    lost = f"; places that could not be read: {recording.refused}" if recording.refused else ""
    show(f"imported: {recording.ops} ops of {recording.processes} processes{lost}")
    show(f"judge it: inquest check {run.folder}")
    raise typer.Exit(ExitCode.UNKNOWN if recording.refused else ExitCode.VALID)


@contextmanager
def _removed_on_failure(run: Run) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, Option(help="portable (JSON) or jepsen (EDN).")] = "portable",
    output: Annotated[Path | None, Option(help="The file to write (default: standard output).")] = None,
) -> None:
    """Write the ops of a run, as its read_committed clients saw them, for other checkers."""
    from checkers.recordings.export import WRITERS, events_of
    from history.reader import load
    from history.seal import sealed

    if to not in WRITERS:
        raise UsageError(f"unknown format {to!r}; known: {', '.join(WRITERS)}")
    history = load(sealed(run))
    exported = events_of(history)
    for note in exported.left_out:
        say(f"left out: {note}")
    for note in exported.claimed:
        say(f"it says more than the run: {note}")
    if output is None:
        WRITERS[to](history.run.name, exported.events, sys.stdout)
        return
    with written_into(output), output.open("w", encoding="utf-8") as file:
        try:
            WRITERS[to](history.run.name, exported.events, file)
            file.flush()
        except BaseException:
            if output.is_file():  # half of a history looks like a history
                output.unlink()
            raise
