"""Commands for simulated runs, which repeat to the byte: replay, shrink, explore."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InquestError, UsageError
from harness.cli.verdict import Engine, Master, WithoutSpark, interruptible, judge, own_files
from history.run_folder import RESULTS, Run

if TYPE_CHECKING:
    from core.config import RunConfig
    from nemesis.types import PlannedFault


def _recorded(folder: Path) -> "tuple[Run, RunConfig, tuple[PlannedFault, ...]]":
    """A simulated run: its folder, config and planned faults. Raises: UsageError."""
    from core.config import recorded_config
    from harness.simulation.run_folder import schedule
    from harness.systems import system_of

    run = Run(folder)
    config = recorded_config(run.config)
    system = system_of(config)
    if not system.repeatable:
        raise UsageError(
            f"{folder} is a run of {system.title(config)}: only simulated runs repeat exactly; "
            "its verdict names the command for another run of the same kind"
        )
    return run, config, schedule(run)


def replay(run: Annotated[Path, typer.Argument(help="Folder of a simulated run.")]) -> None:
    """Repeat a simulated run with the same faults and compare all journals byte by byte."""
    from harness.simulation.run_folder import differences

    recorded, config, steps = _recorded(run)
    with interruptible("the run folder is as it was"):
        found, lines = differences(recorded, config, steps)
    if found:
        for text in found:
            typer.echo(text)
        raise InquestError("replay differs from the recording (recorded by a different version?)")
    typer.echo(f"identical: {lines} journal lines match")


def shrink(
    run: Annotated[Path, typer.Argument(help="Folder of a simulated run with a finding.")],
    anomaly: Annotated[
        str | None, typer.Option(help="Anomaly to preserve while shrinking (default: the most severe one).")
    ] = None,
    budget: Annotated[str, typer.Option(help="Time budget, e.g. 90s or 5m.")] = "5m",
    results: Annotated[Path, typer.Option(help="Folder for the new run folder.")] = RESULTS,
    master: Master = None,
    without_spark: WithoutSpark = False,
) -> None:
    """Remove the faults and load that a finding does not need; record the smaller run."""
    from harness.compose import record_shrunk
    from harness.explore.shrink import ShrinkCase, Shrinker, findings
    from harness.run.progress import Display
    from harness.soak.session import budget_seconds

    recorded, config, steps = _recorded(run)
    case = ShrinkCase(config, steps)
    display = Display()
    try:
        classes = findings(case)
        wanted = anomaly or (classes or [""])[0]
        if wanted not in classes:
            there = ", ".join(classes) or "nothing"
            raise UsageError(f"{run}: no forbidden finding to preserve (asked: {wanted}, found: {there})")
        shrinker = Shrinker(wanted, budget_seconds(budget), display.say)
        with interruptible("nothing was written"):
            smallest = shrinker.shrink(case)
            shrunk = shrinker.summary(recorded.name, case, smallest)
            with own_files():
                made = record_shrunk(smallest.config, smallest.steps, shrunk, results, display)
    finally:
        display.close()
    typer.echo(f"shrunk after {shrunk.tries} tries: {shrunk.text}")
    with own_files():
        judge(made, Engine(master, without_spark))


def explore(
    seeds: Annotated[
        int,
        typer.Option(
            help="Number of seeds to run without planted bugs; "
            "also the maximum number of seeds tried per planted bug."
        ),
    ] = 60,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    mutants: Annotated[
        str, typer.Option(help="Planted bugs to look for: all, none, or names joined by commas.")
    ] = "none",
    era: Annotated[
        str | None, typer.Option(help="Kafka release whose behaviour is modelled, e.g. 2.4.")
    ] = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Ask the rules about brokers' logs too; a third slower.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    master: Master = None,
    without_spark: WithoutSpark = False,
) -> None:
    """Simulate many seeds: runs without a planted bug must be clean, and each planted bug must be found."""
    from harness.explore.exploration import explore as search
    from harness.explore.profile import MODERN
    from harness.run.progress import Display

    display = Display()
    try:
        found = search(
            seeds=seeds,
            first=first,
            mutants=mutants,
            era=era or MODERN,
            logs=logs,
            master=master,
            without_spark=without_spark,
            say=display.status,
        )
    finally:
        display.close()
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        found.show()
    raise typer.Exit(found.code)
