"""`inquest bugs reproduce`: show a known bug of Kafka on real brokers, and that its twin does not."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from core.errors import UsageError
from core.files import written_into
from core.terminal import show, show_lines
from harness.cli.verdict import interruptible
from history.run_folder import RESULTS, unused_name


def reproduce(
    name: Annotated[str, typer.Argument(help="A known bug (default: list them).")] = "",
    runs: Annotated[int, typer.Option(min=1, help="How many runs, on one cluster.")] = 1,
    good: Annotated[bool, typer.Option("--good", help="The good side: the twin that shows no bug.")] = False,
    kafka: Annotated[str | None, typer.Option(help="Version of Kafka, in place of the side's own.")] = None,
    deaths: Annotated[
        str, typer.Option(help="How coordinators lose their partition: kill, shutdown, election.")
    ] = "kill",
    record: Annotated[
        bool,
        typer.Option("--record", help="Keep the rate in harness/reproduce/measured.json (make catalogue)."),
    ] = False,
    results: Annotated[Path, typer.Option(help="Folder for the brokers' logs and the result.")] = RESULTS,
) -> None:
    """Show a known bug on real brokers by a scripted schedule.

    Exit code 0: the bad side shows the bug in each run, or the good side in none.
    """
    from core.systems import refused_version
    from harness.reproduce import rates
    from harness.reproduce.attempts import attempts, exit_code
    from harness.reproduce.registry import REPRODUCTIONS
    from harness.reproduce.stage import Deaths

    if not name:
        for key, one in REPRODUCTIONS.items():
            show_lines(f"{key:24} {one.title}\n{'':24} bad:  {one.bad}\n{'':24} good: {one.good}")
        return
    if name not in REPRODUCTIONS:
        raise UsageError(f"unknown bug {name!r}; known: {', '.join(REPRODUCTIONS)}")
    bug = REPRODUCTIONS[name]
    version = kafka or bug.versions[good]
    if why := refused_version(version):
        raise UsageError(f"--kafka {version!r}: {why}")
    if deaths not in bug.deaths:
        raise UsageError(f"--deaths {deaths!r}: {name} takes {', '.join(bug.deaths)}")
    folder = results / "reproduced" / unused_name(f"{name}-{'good' if good else 'bad'}")
    with written_into(folder):
        folder.mkdir(parents=True)
    show(f"{name} on Kafka {version}: {bug.good if good else bug.bad}")
    with interruptible(f"the brokers' logs are in {folder / 'cluster'}"):
        done = attempts(
            bug, version, runs=runs, good=good, folder=folder, say=show_lines, deaths=Deaths(deaths)
        )
    if record:
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        rates.record(rates.rate(name, version, good, done, day, Deaths(deaths)))
    counts = Counter(str(attempt.shows) for attempt in done)
    shown = "; ".join(f"{outcome} in {count} of {runs}" for outcome, count in counts.items())
    show(f"{name} on Kafka {version}, {'good' if good else 'bad'} side: {shown}")
    show(f"found in logs alone: {sum(bool(attempt.in_logs) for attempt in done)} of {runs}")
    show(f"brokers' logs: {folder / 'cluster'}")
    raise typer.Exit(exit_code(done, good))
