"""The command `inquest model contract`: compare the model with a broker, by scenarios and random requests."""

import random
from pathlib import Path
from typing import Annotated

import typer

from core.errors import ExitCode, UsageError
from core.files import written_into
from core.terminal import show, show_lines
from harness.cli.verdict import interruptible
from history.run_folder import RESULTS, unused_name


def contract(
    kafka: Annotated[str | None, typer.Option(help="Version of Kafka (default: that of runs).")] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many random requests.")] = 10_000,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices (default: drawn).")] = None,
    sut: Annotated[
        str, typer.Option(help="kafka, or model: a broker of the model behind Kafka's protocol.")
    ] = "kafka",
    held: Annotated[
        bool, typer.Option(help="Send the requests to three brokers, messages between which are held.")
    ] = False,
    scenarios: Annotated[bool, typer.Option(help="Play the scenarios of docs/model first.")] = True,
    results: Annotated[Path, typer.Option(help="Folder for the result and the broker's log.")] = RESULTS,
) -> None:
    """Compare the model with a real broker, or its own broker behind Kafka's protocol, by scenarios and by
    random requests; exit code 1 for a difference not listed."""
    from core.systems import KAFKA_VERSION
    from harness.contract.cluster import BROKERS, compare, refused_held
    from harness.contract.scenarios import PLAYED, SCENARIOS
    from harness.contract.versions import version_of

    if sut not in BROKERS:
        raise UsageError(f"--sut {sut}: {' or '.join(BROKERS)}")

    kafka = kafka or KAFKA_VERSION
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    version_of(kafka)  # refuses before a folder is made
    if held and (why := refused_held(kafka, sut)):
        raise UsageError(f"--held: {why}")
    folder = results / "contract" / unused_name(kafka)
    with written_into(folder):
        folder.mkdir(parents=True)
    title = (
        f"Kafka {kafka}" if sut == "kafka" else f"its own broker behind Kafka's protocol, as Kafka {kafka}"
    )
    among = " to brokers between which messages are held" if held else ""
    show(f"the model against {title}, seed {seed}: {requests} requests{among}")
    with interruptible(f"the broker's log is in {folder / 'cluster'}"):
        names = PLAYED if scenarios else ()
        compared = compare(
            kafka,
            requests=requests,
            seed=seed,
            folder=folder,
            say=show_lines,
            names=names,
            start=BROKERS[sut],
            held=held,
        )
    outcome, played = compared.requests, compared.scenarios
    answers = [f"{count:9} {kind} {error}" for (kind, error), count in sorted(outcome.answers.items())]
    explained = [f"{count:9} explained: {name}" for name, count in sorted(outcome.explained.items())]
    tables = [
        *(f"played: {name}" for name in played.played),
        *(f"not played: {name}: of brokers of another time" for name in played.skipped),
        *(f"not played: {name}: {why}" for name, why in played.unplayable.items()),
        *(f"not played: {name}: {one.not_played}" for name, one in SCENARIOS.items() if one.not_played),
    ]
    lines = [compared.text, *compared.differences, *explained, *answers, *tables]
    (folder / "contract.txt").write_text("\n".join(lines) + "\n")
    show_lines("\n".join([compared.text, *explained]))
    show(f"all answers by kind, all scenarios, the broker's log: {folder}")
    raise typer.Exit(ExitCode.ANOMALY if compared.differences else ExitCode.VALID)
