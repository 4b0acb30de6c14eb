"""The command `inquest contract`: compare the model with a real broker, request by request."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from core.errors import ExitCode
from harness.cli.verdict import interruptible
from history.run_folder import RESULTS


def contract(
    kafka: Annotated[str | None, typer.Option(help="Version of Kafka (default: that of runs).")] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many random requests.")] = 10_000,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices (default: drawn).")] = None,
    results: Annotated[Path, typer.Option(help="Folder for the result and the broker's log.")] = RESULTS,
) -> None:
    """Compare the model with a real broker by random requests; exit code 1 for a difference not listed."""
    from core.config import KAFKA_VERSION
    from harness.contract.cluster import compare

    kafka = kafka or KAFKA_VERSION
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = results / "contract" / f"{stamp}-{kafka}"
    folder.mkdir(parents=True)
    typer.echo(f"the model against Kafka {kafka}, seed {seed}: {requests} requests")
    with interruptible(f"the broker's log is in {folder / 'cluster'}"):
        outcome = compare(kafka, requests=requests, seed=seed, folder=folder, say=typer.echo)
    answers = [f"{count:9} {kind} {error}" for (kind, error), count in sorted(outcome.answers.items())]
    failures = [failure.text for failure in outcome.failures]
    explained = [f"{count:9} explained: {name}" for name, count in sorted(outcome.explained.items())]
    lines = [outcome.text, *failures, *explained, *answers]
    (folder / "contract.txt").write_text("\n".join(lines) + "\n")
    typer.echo("\n".join([outcome.text, *explained]))
    typer.echo(f"all answers by kind, the broker's log: {folder}")
    raise typer.Exit(ExitCode.ANOMALY if outcome.failures else ExitCode.VALID)
