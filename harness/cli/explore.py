"""`inquest model explore`: many seeds of simulated runs, with and without planted bugs."""

import json
from typing import Annotated

import typer

from core.terminal import show
from harness.cli.verdict import known_master


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
    logs: Annotated[bool, typer.Option("--logs", help="Check brokers' logs, too (a third slower).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    processes: Annotated[
        int | None, typer.Option(help="Processes that make the runs (default: one for each processor).")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            callback=known_master,
            help="Spark master, whose executors then make the runs: spark://host:7077 …",
        ),
    ] = None,
) -> None:
    """Simulate many seeds: runs without a planted bug must be clean, and each planted bug must be found."""
    from harness.explore.exploration import explore as search
    from harness.explore.profile import MODERN
    from harness.processes.interrupts import Interrupts
    from harness.run.progress import Display

    display = Display()
    try:
        with Interrupts():
            found = search(
                seeds=seeds,
                first=first,
                mutants=mutants,
                era=era or MODERN,
                logs=logs,
                processes=processes,
                master=master,
                say=display.status,
            )
    finally:
        display.close()
    if as_json:
        show(json.dumps(found.as_json()))
    else:
        found.show()
    raise typer.Exit(found.code)
