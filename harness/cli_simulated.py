"""Commands of the simulated system: replay and shrink of its runs, which repeat to the byte; explore.

Not here: making a run (`harness.cli`), what the commands do (`harness.simulated`, `harness.shrink`,
`harness.explore`).
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.judging import HARNESS_FAULT, INTERRUPTED, USAGE, Engine, fail, judge
from harness.store import RESULTS, Run


def _recorded(folder: Path) -> tuple[Run, Any, Any]:
    """A simulated run: its folder, config and steps."""
    from harness.config import RunConfig
    from harness.simulated import SIMULATED, schedule

    run = Run(folder)
    try:
        config = RunConfig.model_validate_json(run.config.read_bytes())
        if config.sut != SIMULATED:
            fail(
                f"{folder} is a run of {config.system}: only simulated runs repeat exactly; "
                "its verdict names the command that makes such a run again",
                USAGE,
            )
        return run, config, schedule(run)
    except (OSError, ValueError) as error:
        fail(f"{folder} is no run that could be repeated: {error}", USAGE)


def replay(run: Annotated[Path, typer.Argument(help="Folder of a simulated run.")]) -> None:
    """Make a simulated run again, with its faults, and compare all journals, byte by byte."""
    from harness.simulated import differences

    recorded, config, steps = _recorded(run)
    try:
        found, lines = differences(recorded, config, steps)
    except KeyboardInterrupt:
        fail("interrupted; the run folder is as it was", INTERRUPTED)
    if found:
        for text in found:
            typer.echo(text)
        fail("this is not the same run: another version of the model made it?", HARNESS_FAULT)
    typer.echo(f"the same run: {lines} lines of all journals")


def shrink(
    run: Annotated[Path, typer.Argument(help="Folder of a simulated run with a finding.")],
    anomaly: Annotated[
        str | None, typer.Option(help="The class to keep; the gravest if absent.")
    ] = None,
    budget: Annotated[str, typer.Option(help="How long to try, e.g. 90s, 5m.")] = "5m",
    results: Annotated[Path, typer.Option(help="Where the run folder goes.")] = RESULTS,
    master: Annotated[str | None, typer.Option(help="Spark master for the check.")] = None,
    without_spark: Annotated[bool, typer.Option(help="Check in this process.")] = False,
) -> None:
    """Leave out of a simulated run what its finding does not need; a new run folder with the rest."""
    from harness.config import ConfigError
    from harness.progress import Display
    from harness.run import record_shrunk
    from harness.shrink import Case, Shrinker, findings
    from harness.soak.opening import seconds

    recorded, config, steps = _recorded(run)
    case = Case(config, steps)
    display = Display()
    try:
        classes = findings(case)
        wanted = anomaly or (classes or [""])[0]
        if wanted not in classes:
            there = ", ".join(classes) or "nothing"
            fail(f"{run}: no forbidden finding to keep (asked: {wanted}, found: {there})", USAGE)
        shrinker = Shrinker(wanted, seconds(budget), display.say)
        smallest = shrinker.shrink(case)
        shrunk = shrinker.told(recorded.name, case, smallest)
        made = record_shrunk(smallest.config, smallest.steps, shrunk, results, display)
    except ConfigError as error:
        fail(str(error), USAGE)
    except OSError as error:
        fail(f"the run could not be recorded: {error}", HARNESS_FAULT)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written", INTERRUPTED)
    finally:
        display.close()
    typer.echo(f"shrunk after {shrunk.tries} tries: {shrunk.text}")
    judge(made, Engine(master, without_spark), own=True)


def explore(
    seeds: Annotated[
        int, typer.Option(help="Clean seeds, and the most that a mutant is looked for with.")
    ] = 60,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    mutants: Annotated[
        str, typer.Option(help="Planted bugs: all, none, or names joined by commas.")
    ] = "none",
    era: Annotated[
        str | None, typer.Option(help="Behaviour of the modelled cluster, by release.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master, e.g. local[4].")] = None,
    without_spark: Annotated[bool, typer.Option(help="Explore in this process.")] = False,
) -> None:
    """Simulate many seeds, with and without planted bugs: clean ones stay clean, bugs are found."""
    from harness.config import ConfigError
    from harness.explore import Wish
    from harness.explore import explore as search
    from harness.exploring.profile import MODERN
    from harness.progress import Display

    wish = Wish(
        seeds=seeds, first=first, mutants=mutants, era=era or MODERN, master=master,
        without_spark=without_spark,
    )  # fmt: skip
    display = Display()
    try:
        outcome = search(wish, say=display.status)
    except ConfigError as error:
        fail(str(error), USAGE)
    except KeyboardInterrupt:
        display.close()
        fail("interrupted; nothing of an exploration is kept", INTERRUPTED)
    finally:
        display.close()
    if as_json:
        typer.echo(json.dumps(outcome.as_json()))
    else:
        outcome.show()
    raise typer.Exit(outcome.code)
