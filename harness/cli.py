"""The command `inquest`: run, soak, check, report, serve, list, doctor, setup; replay, shrink, explore.

Each command is joined to the others by the files of a run folder only. The verdict decides the exit
code (docs/architecture.md, "Exit codes"). Heavy parts (Spark, the client) are imported by the
commands that need them.

Not here: what the commands do (`harness.run`, `harness.soak`, `checkers`, `harness.report`,
`harness.serve`, `harness.doctor`).
"""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import cli_simulated
from harness.judging import HARNESS_FAULT, INTERRUPTED, USAGE, Engine, existing, fail, judge
from harness.store import RESULTS, Run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Break a Kafka cluster on purpose, record what its clients saw, and judge it.",
)


Option = typer.Option


@app.command()
def run(
    workload: Annotated[str | None, Option(help="What the clients do: see `inquest list`.")] = None,
    nemesis: Annotated[
        str | None, Option(help="Faults: family[:kind][@target], comma-separated.")
    ] = None,
    preset: Annotated[
        str | None, Option(help="Named settings: see `inquest list presets`.")
    ] = None,
    sut: Annotated[str | None, Option(help="System under test.")] = None,
    kafka: Annotated[str | None, Option(help="Kafka version, e.g. 4.3.1.")] = None,
    seed: Annotated[
        int | None, Option(help="Seed of all random choices (drawn if absent).")
    ] = None,
    duration: Annotated[float | None, Option(help="Seconds of faults.")] = None,
    brokers: Annotated[int | None, Option(help="Number of brokers.")] = None,
    rate: Annotated[float | None, Option(help="Ops per second; 0 = as fast as possible.")] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", help="Any other setting as name=value (see docs/tutorial.md)."),
    ] = None,
    results: Annotated[Path, Option(help="Where run folders go.")] = RESULTS,
    master: Annotated[str | None, Option(help="Spark master for the check.")] = None,
    without_spark: Annotated[bool, Option(help="Check in this process.")] = False,
) -> None:
    """Make one run, check it, report it."""
    from harness.config import ConfigError, run_config

    given = {
        "workload": workload, "nemesis": nemesis, "preset": preset, "sut": sut, "kafka": kafka,
        "seed": seed, "duration_s": duration, "brokers": brokers, "rate": rate,
    }  # fmt: skip
    settings = {name: value for name, value in given.items() if value is not None}
    settings.setdefault("seed", random.SystemRandom().randrange(2**31))
    try:
        config = run_config(settings | dict(map(_setting, set_ or ())))
        code = _run(config, results, Engine(master, without_spark))
    except ConfigError as error:
        fail(str(error), USAGE)
    raise typer.Exit(code)


def _setting(text: str) -> tuple[str, Any]:
    from harness.config import ConfigError, RunConfig

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set wants name=value, got {text!r}")
    try:
        known = json.loads(value)
    except ValueError:
        return name, value
    field = RunConfig.model_fields.get(name)
    if field is not None and field.annotation is str and not isinstance(known, str):
        return name, value  # era=0.10 is no number
    return name, known


def _run(config: Any, results: Path, engine: Engine) -> int:
    from harness.cluster import ClusterError
    from harness.progress import Display
    from harness.run import plan, record
    from harness.seal import SealError

    plan(config)  # unknown names are refused before anything is said or done
    display = Display()
    display.say(
        f"seed {config.seed} · workload {config.workload} · nemesis {config.nemesis} · "
        f"preset {config.preset} · {config.system} · {config.brokers} brokers · "
        f"{config.duration_s:g} s of faults"
    )
    try:
        recorded = record(config, results=results, display=display)
    except KeyboardInterrupt:
        fail("interrupted before anything was recorded", INTERRUPTED)
    except ClusterError as error:
        fail(str(error), HARNESS_FAULT)
    except (SealError, OSError) as error:
        fail(f"the run could not be recorded: {error}", HARNESS_FAULT)
    try:
        return judge(recorded.run, engine, interrupted=recorded.interrupted, own=True)
    except KeyboardInterrupt:
        fail(f"interrupted; check it later: inquest check {recorded.run.folder}", INTERRUPTED)


@app.command()
def check(
    run: Annotated[Path | None, typer.Argument(help="A run folder.")] = None,
    history: Annotated[Path | None, Option(help="A portable history instead.")] = None,
    as_json: Annotated[bool, Option("--json", help="One JSON line per case.")] = False,
    master: Annotated[str | None, Option(help="Spark master, e.g. local[4].")] = None,
    without_spark: Annotated[bool, Option(help="Check in this process.")] = False,
) -> None:
    """Judge a recorded run again, or a portable history."""
    if (run is None) == (history is None):
        fail("give either a run folder or --history FILE", USAGE)
    if history is not None:
        raise typer.Exit(_check_portable(history, as_json=as_json))
    assert run is not None
    try:
        raise typer.Exit(judge(existing(run), Engine(master, without_spark)))
    except KeyboardInterrupt:
        fail("interrupted; the run folder is as it was", INTERRUPTED)


def _check_portable(path: Path, *, as_json: bool) -> int:
    import checkers

    try:
        answers = checkers.check_portable(path)
    except (checkers.HistoryError, OSError) as error:
        fail(str(error), USAGE)
    verdicts = [config["valid"] for a in answers for config in a["by_config"].values()]
    for answer in answers:
        if as_json:
            typer.echo(json.dumps(answer))
            continue
        for name, config in answer["by_config"].items():
            found = ", ".join(config["anomalies"]) or "nothing"
            typer.echo(f"{answer['name']} [{name}]: valid {config['valid']}; found {found}")
    return 1 if False in verdicts else 2 if "unknown" in verdicts else 0


@app.command()
def report(run: Annotated[Path, typer.Argument(help="A checked run folder.")]) -> None:
    """Build the HTML report of a checked run again."""
    from harness import report as reports

    try:
        typer.echo(str(reports.build(Run(run))))
    except (reports.ReportError, OSError) as error:
        fail(str(error), USAGE)


@app.command()
def soak(
    budget: Annotated[
        str | None,
        Option(help="How long, e.g. 8h, 1h30m; 30m if absent, or as the night that is resumed."),
    ] = None,
    matrix: Annotated[
        Path | None, Option(help="What may be combined (TOML); the package's own if absent.")
    ] = None,
    results: Annotated[Path, Option(help="Where nights and run folders go.")] = RESULTS,
    seed: Annotated[int | None, Option(help="Seed of the night (drawn if absent).")] = None,
    new: Annotated[bool, Option("--new", help="Do not resume an unfinished night.")] = False,
    master: Annotated[str | None, Option(help="Spark master for the checks.")] = None,
    without_spark: Annotated[bool, Option(help="Check without Spark.")] = False,
) -> None:
    """Make runs until a budget is over: a night. Resumes one that was broken off (docs/soak.md)."""
    from harness.config import ConfigError
    from harness.soak import soak as nightly
    from harness.soak.matrix import check, load
    from harness.soak.opening import Wish, seconds

    options = ["--master", master] if master else []
    options += ["--without-spark"] if without_spark else []
    try:
        wanted = load(matrix)
        check(wanted)
        time = None if budget is None else seconds(budget)
        wish = Wish(results=results, budget_s=time, matrix=wanted, seed=seed, new=new)
        code = nightly(wish, options)
    except ConfigError as error:
        fail(str(error), USAGE)
    except OSError as error:
        fail(f"the night could not be recorded: {error}", HARNESS_FAULT)
    raise typer.Exit(code)


@app.command()
def serve(
    port: Annotated[int, Option(help="Port on 127.0.0.1; 0 = any free one.")] = 8765,
    results: Annotated[Path, Option(help="The folder to show.")] = RESULTS,
) -> None:
    """Show the results folder in a browser, on this machine only; Ctrl-C ends it."""
    from harness.serve import ServeError, server

    try:
        serving = server(results, port)
    except ServeError as error:
        fail(str(error), USAGE)
    with serving:
        typer.echo(f"http://127.0.0.1:{serving.server_port}/")
        sys.stdout.flush()
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            typer.echo("inquest: ended", err=True)


@app.command(name="list")
def list_(what: Annotated[str, typer.Argument(help="Which list; all if absent.")] = "") -> None:
    """What there is: workloads, nemeses, checks, anomalies, presets."""
    from harness.listing import LISTS

    if what and what not in LISTS:
        fail(f"unknown list {what!r}; known: {', '.join(LISTS)}", USAGE)
    for name, lines in LISTS.items():
        if what in ("", name):
            typer.echo(f"{name}:")
            for key, text in lines().items():
                typer.echo(f"  {key:28} {text}")


@app.command()
def doctor() -> None:
    """Say what is there, what is missing and what to do about it."""
    from harness.doctor import doctor as examine

    raise typer.Exit(examine())


@app.command()
def setup(kafka: Annotated[str | None, Option(help="Kafka version.")] = None) -> None:
    """Prepare the Docker engine and the images; instant when all is there."""
    from harness.cluster import ClusterError
    from harness.config import KAFKA_VERSION
    from harness.doctor import setup as prepare

    try:
        prepare(kafka or KAFKA_VERSION)
    except ClusterError as error:
        fail(str(error), HARNESS_FAULT)


for command_ in (cli_simulated.replay, cli_simulated.shrink, cli_simulated.explore):
    app.command()(command_)


def main(command: Callable[..., Any] = app) -> None:
    """Entry point: usage errors are 64, faults of the harness 70, never anything of a verdict."""
    try:
        code = command(standalone_mode=False)
    except SystemExit:  # typer's answer to a closed output: 1, which here means an anomaly
        code = HARNESS_FAULT
    except KeyboardInterrupt:
        typer.echo("inquest: interrupted", err=True)
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence
        if hasattr(error, "format_message"):
            typer.echo(f"inquest: {error.format_message()}", err=True)
            sys.exit(USAGE)
        import traceback

        traceback.print_exc()
        typer.echo(f"inquest: a fault of the harness: {error}", err=True)
        code = HARNESS_FAULT
    sys.exit(int(code or 0))


if __name__ == "__main__":
    main()
