"""The command `inquest`: run, demo, check, report, soak, list, setup, doctor, serve; sql, spark-package; the
groups recording (import, export, replay, shrink), model (explore, contract) and bugs (reproduce).

Commands share nothing but the files of a run folder. `main` turns every verdict and every error into an
exit code (`core.errors`). Each command imports what it needs when it runs, so that `--help` answers at once.
"""

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from core.errors import ExitCode, InquestError, UsageError
from core.files import written_into
from core.terminal import show, show_lines
from harness.cli import again, contract, explore, recordings, reproduce, tables
from harness.cli.endings import exit_code_of
from harness.cli.settings import name_cluster, of_application, of_cluster, setting
from harness.cli.verdict import (
    Engine,
    EngineName,
    Master,
    follow_run,
    interruptible,
    judge,
    judge_portable,
    own_files,
)
from history.run_folder import RESULTS, Run
from history.storage import location, reaching

if TYPE_CHECKING:
    from core.config import RunConfig


FURTHER = "Further commands"
"""Heading of what a first hour does not need."""
MOVED = {
    **dict.fromkeys(("import", "export", "replay", "shrink"), "recording"),
    **dict.fromkeys(("explore", "contract"), "model"),
    "reproduce": "bugs",
}
"""Commands that were once outside of a group."""


class Commands(TyperGroup):
    """The commands; typer itself would end an interrupted one without a word."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant. Raises: UsageError, where it has moved into a group, or is to write into
        a folder without a name, as an unset variable of a shell gives it: typer takes that for this one."""
        if args and args[0] in MOVED and args[0] not in self.commands:
            raise UsageError(f"`inquest {args[0]}` is now `inquest {MOVED[args[0]]} {args[0]}`")
        if "--results=" in args or ("--results", "") in itertools.pairwise(args):
            raise UsageError("--results is empty: give a folder, . for this one, or leave the option out")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the one that was asked for. Raises: InquestError, where it is interrupted."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InquestError("interrupted", ExitCode.INTERRUPTED) from None


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Break a Kafka cluster on purpose, record what its clients saw, and judge it.",
    epilog="Begin with: inquest demo · inquest run · inquest run --preset acks1 · inquest list nemeses",
)


Option = typer.Option

ClusterFile = Annotated[
    Path | None, Option("--cluster", help="TOML file of a cluster that you have (docs/external.md).")
]
Owned = Annotated[
    bool, Option("--owned", help="That cluster may have topics and groups of others: it is yours to break.")
]
Program = Annotated[
    str | None, Option("--app", help="A program of yours between two topics (docs/applications.md).")
]
Input = Annotated[str | None, Option("--in", help="The topic that it reads (app-in).")]
Output = Annotated[str | None, Option("--out", help="The topic that it writes to (app-out).")]
Effects = Annotated[
    str | None, Option(help="Instead of --out: prints what the world outside of Kafka shows of it.")
]
Require = Annotated[
    str | None,
    Option(help="What a run has to show beside a valid verdict: recovery<=10s,served>=75%,reached:fenced …"),
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"kafka-inquest {version('kafka-inquest')}")
        raise typer.Exit


@app.callback()
def inquest(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Break a Kafka cluster on purpose, record what its clients saw, and judge it."""


@app.command()
def run(
    workload: Annotated[
        str | None, Option(help="What the clients do (inquest list workloads); or a file: ./orders.py.")
    ] = None,
    nemesis: Annotated[
        str | None,
        Option(help="Faults, comma-separated: kill, kill:one@leader … (inquest list nemeses); or ./x.py:Y."),
    ] = None,
    check_: Annotated[
        list[str] | None, Option("--check", help="A further check, of a file: ./x.py:Y (docs/extending.md).")
    ] = None,
    schedule: Annotated[
        Path | None, Option(help="Faults from a file instead, one a line (inquest list nemeses, schedule).")
    ] = None,
    preset: Annotated[str | None, Option(help="A named set of settings (inquest list presets).")] = None,
    sut: Annotated[
        str | None, Option(help="System under test (inquest list systems; default kafka).")
    ] = None,
    kafka: Annotated[str | None, Option(help="Version of Kafka (`list versions`).")] = None,
    upgrade: Annotated[
        str | None, Option(help="The later version that the nemesis upgrade gives to its nodes.")
    ] = None,
    client: Annotated[
        str | None, Option(help="A program of yours is the load client (docs/client-protocol.md).")
    ] = None,
    app_: Program = None,
    in_: Input = None,
    out: Output = None,
    effects: Effects = None,
    cluster: ClusterFile = None,
    owned: Owned = False,
    seed: Annotated[int | None, Option(help="Seed of all random choices (default: drawn).")] = None,
    duration: Annotated[float | None, Option(help="Length of the fault phase in seconds.")] = None,
    brokers: Annotated[int | None, Option(help="Number of brokers.")] = None,
    rate: Annotated[float | None, Option(help="Ops per second; 0 = as fast as possible.")] = None,
    require: Require = None,
    set_: Annotated[
        list[str] | None, Option("--set", help="Any other setting as name=value (docs/config.schema.json).")
    ] = None,
    results: Annotated[Path, Option(help="Folder for run folders.")] = RESULTS,
    fail_fast: Annotated[
        bool, Option("--fail-fast", help="End the faults on the first finding that is final (docs/early.md).")
    ] = False,
    master: Master = None,
    engine_name: EngineName = None,
    owner: Annotated[str, Option(hidden=True)] = "",
) -> None:
    """Run a workload under faults, check what the clients saw, and write a report."""
    from core.config import laid_over, run_config
    from core.extensions import extend, is_file

    if client is not None:
        from harness.clients.command import named

        named.PROGRAM.name(client)
    given = {
        "clients": None if client is None else "command",
        "workload": extend("workloads", workload) if workload and is_file(workload) else workload,
        "nemesis": _nemesis(nemesis) if nemesis else nemesis,
        "preset": preset,
        "sut": sut,
        "kafka": kafka,
        "upgrade": upgrade,
        "seed": seed,
        "duration_s": duration,
        "brokers": brokers,
        "rate": rate,
        "require": require,
    }
    for words in check_ or ():  # after the workload: what a check imports has the registry of workloads
        extend("checks", words)
    settings = of_cluster(cluster, sut, owned=owned)
    settings = laid_over(settings, of_application(app_, in_, out, effects, there="app" in settings))
    settings |= {name: value for name, value in given.items() if value is not None}
    settings.setdefault("seed", random.SystemRandom().randrange(2**31))
    if schedule is not None:
        if nemesis is not None:
            raise UsageError("--nemesis and --schedule: each says which faults happen; give one")
        settings["nemesis"] = "schedule"
    for name, value in map(setting, set_ or ()):
        settings = laid_over(settings, {name: value})
    config = run_config(settings)
    if effects is not None and not (config.app and config.app.effects):
        raise UsageError("--effects: --set app=... says that there are none; give one of the two")
    from harness.systems import system_of

    repeatable = system_of(config).repeatable
    engine = Engine.of(engine_name, master, simulated=repeatable)
    raise typer.Exit(_run(config, schedule, results, owner, engine, fail_fast=fail_fast))


@app.command()
def demo(results: Annotated[Path, Option(help="Folder for run folders.")] = RESULTS) -> None:
    """In 20 seconds a loss, found and explained, without Docker and Kafka."""
    from harness.cli.demo import demo as shown

    engine = Engine.of("process", None, simulated=True)
    raise typer.Exit(shown(lambda config: _run(config, None, results, "", engine, fail_fast=False)))


def _nemesis(given: str) -> str:
    """The faults by name, those of files loaded. Raises: ConfigError."""
    from core.extensions import extend, is_file

    def named(words: str) -> str:
        file, at, target = words.partition("@")
        return f"{extend('nemeses', file)}{at}{target}" if is_file(file) else words

    return ",".join(map(named, given.split(",")))


def _run(
    config: "RunConfig", schedule: Path | None, results: Path, owner: str, engine: Engine, *, fail_fast: bool
) -> int:
    from harness.compose import plan, read_schedule, record
    from harness.judging.process import WarmJudge
    from harness.run.progress import Display

    steps = None if schedule is None else read_schedule(schedule, config)
    plan(config, steps, fail_fast=fail_fast)  # refuses what cannot work before the first line of output
    engine.reach()
    with written_into(results):
        results.mkdir(parents=True, exist_ok=True)
    judge_ = WarmJudge(wanted=engine.spark, master=engine.master)
    display = Display(entered=judge_.entered)
    display.say(
        f"seed {config.seed} · workload {config.workload} · nemesis {config.nemesis} · "
        f"preset {config.preset} · {config.title} · {config.brokers} brokers · "
        f"{config.duration_s:g} s of faults"
    )
    with judge_:
        with own_files(), interruptible("no run was recorded"):
            recorded = record(
                config, steps=steps, results=results, owner=owner, fail_fast=fail_fast, display=display
            )
        with own_files(), interruptible(f"check it later: inquest check {recorded.run.folder}"):
            return judge(recorded.run, engine, interrupted=recorded.interrupted, judge_at=judge_.socket)


@app.command()
def check(
    run: Annotated[str | None, typer.Argument(help="A run folder, or its URL (s3://bucket/run).")] = None,
    history: Annotated[
        Path | None, Option(help="A file of portable histories, in place of a run folder.")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="With --history: print one JSON object per case.")
    ] = False,
    follow: Annotated[
        bool, Option("--follow", help="While it records, print what is final (docs/early.md).")
    ] = False,
    require: Require = None,
    master: Master = None,
    engine_name: EngineName = None,
) -> None:
    """Check a recorded run again, or histories that another program recorded."""
    if (run is None) == (history is None):
        raise UsageError("give either a run folder or --history FILE")
    if history is not None and require is not None:
        raise UsageError("--require is about a run folder; portable histories have no faults")
    if history is None and as_json:
        raise UsageError("--json prints what --history FILE judges; of a run folder see its verdict.json")
    if history is not None:
        raise typer.Exit(judge_portable(history, as_json=as_json))
    assert run is not None
    from history.recorded_files import refuse_special
    from history.seal import recorded

    folder = location(run)
    with reaching(folder), interruptible("what the run folder has is whole; check it again"):
        if follow:
            refuse_special(folder)
            follow_run(folder)
        raise typer.Exit(judge(recorded(folder), Engine.of(engine_name, master), require=require))


@app.command()
def report(run: Annotated[str, typer.Argument(help="A checked run folder, or its URL.")]) -> None:
    """Write the HTML report of a checked run again."""
    from harness import report as reports

    folder = location(run)
    with reaching(folder):
        show(str(reports.build(Run(folder))))


@app.command()
def soak(
    budget: Annotated[
        str | None, Option(help="Time budget, e.g. 8h or 1h30m (default 30m, or that of a session resumed).")
    ] = None,
    matrix: Annotated[
        Path | None, Option(help="TOML file with the combinations to run (default: the built-in matrix).")
    ] = None,
    versions: Annotated[
        str, Option(help="Versions of Kafka that perform the same runs: 3.9.2,4.4.0 (docs/soak.md).")
    ] = "",
    clients: Annotated[
        str, Option(help="Clients that do: librdkafka,NAME=COMMAND (docs/client-protocol.md).")
    ] = "",
    clusters: Annotated[str, Option(help="Clusters of yours that do: east.toml,west.toml.")] = "",
    owned: Owned = False,
    app_: Program = None,
    in_: Input = None,
    out: Output = None,
    effects: Effects = None,
    results: Annotated[Path, Option(help="Folder for sessions and run folders.")] = RESULTS,
    seed: Annotated[int | None, Option(help="Seed of the session (default: drawn).")] = None,
    new: Annotated[bool, Option("--new", help="Start a new session, even if one was interrupted.")] = False,
    fail_fast: Annotated[
        bool, Option("--fail-fast", help="End the session after the first run with an open finding.")
    ] = False,
    require: Require = None,
    master: Master = None,
    engine_name: EngineName = None,
) -> None:
    """Run combinations until the time budget is used up. Resumes an interrupted session (docs/soak.md)."""
    from harness.soak.matrix import APPLICATIONS, check, load
    from harness.soak.session import SoakRequest, budget_seconds
    from harness.soak.session import soak as perform
    from harness.soak.systems import compared

    engine = Engine.of(engine_name, master)
    engine.reach()
    options = [*(["--master", master] if master else []), "--engine", engine.name]
    if owned and not clusters:
        raise UsageError("--owned says something of clusters: give --clusters FILE")
    app_settings = of_application(app_, in_, out, effects, there=False)
    wanted = load(matrix)
    sut = wanted.settings.get("sut", "kafka")
    systems, named = compared(versions, clients, clusters, owned=owned, sut=sut, app=app_ is not None)
    if matrix is None and (app_ is not None or all(one.application for one in systems)):
        wanted = load(None, APPLICATIONS)
    wanted = wanted if app_ is None else wanted.performing(app_settings["app"])
    if require is not None:
        wanted = wanted.requiring(require)
    if versions or clients or clusters:
        wanted = wanted.comparing(systems)
    check(wanted, named, "the matrix" if matrix is None else str(matrix))
    request = SoakRequest(
        results=results,
        budget_s=None if budget is None else budget_seconds(budget),
        matrix=wanted,
        seed=seed,
        new=new,
        fail_fast=fail_fast,
        options=options,
        named=named,
        spark=engine.spark,
        master=master,
    )
    raise typer.Exit(perform(request))


@app.command(rich_help_panel=FURTHER)
def client_test(
    command: Annotated[str, typer.Argument(help="The program of a client, with its arguments.")],
    case: Annotated[list[str] | None, Option(help="Only this case; may be given several times.")] = None,
) -> None:
    """Try whether the program of a client keeps docs/client-protocol.md; exit code 1 if it does not."""
    from harness.clients.command import named
    from harness.conformance.suite import perform, summary

    named.PROGRAM.name(command)
    with interruptible("nothing was recorded"):
        results = perform(named.PROGRAM.words(), show_lines, case or ())
    show(summary(results))
    raise typer.Exit(ExitCode.ANOMALY if any(one.why for one in results) else ExitCode.VALID)


@app.command(name="list")
def list_(
    what: Annotated[str, typer.Argument(help="A list, or one entry of any (default: all lists).")] = "",
) -> None:
    """List systems, workloads, nemeses, checks, anomalies, presets …; of one entry, all that is known."""
    from core.known_names import meant
    from harness.cli.catalogue import details, lists

    known = lists()
    if what and what not in known:
        entry = details(what)
        if not entry:
            every = [*known, *(name for entries in known.values() for name in entries)]
            near = meant(what, every)
            raise UsageError(f"no list and no entry {what!r}; {near}lists: {', '.join(known)}")
        show_lines("\n".join(entry).strip())
        return
    for name in [what] if what else known:
        show(f"{name}:")
        for key, text in known[name].items():
            show_lines(f"  {key:28} {text}".replace("\n", f"\n{'':31}"))


@app.command()
def setup(
    kafka: Annotated[str | None, Option(help="Version of Kafka (`list versions`).")] = None,
    upgrade: Annotated[str | None, Option(help="A later version that its nodes are to change to.")] = None,
) -> None:
    """Prepare the Docker engine and the images. Takes no time where they are ready."""
    from core.config import run_config
    from core.systems import KAFKA_VERSION, refused_version
    from harness.cli.doctor import setup as prepare

    if kafka and (why := refused_version(kafka)):
        raise UsageError(f"--kafka {kafka!r}: {why}")
    if upgrade:
        run_config(
            {"seed": 0, "kafka": kafka or KAFKA_VERSION, "upgrade": upgrade}
        )  # refuses what no run has
    prepare(kafka or KAFKA_VERSION, upgrade or "")


@app.command()
def doctor(cluster: ClusterFile = None, owned: Owned = False) -> None:
    """Check this machine's prerequisites, and say how to install what is missing; or try a cluster of yours.

    With --cluster each of its hooks breaks each node and heals it; what the prefix begins is deleted.
    """
    from harness.cli.doctor import doctor as examine
    from harness.cli.doctor import try_cluster

    if cluster is None and owned:
        raise UsageError("--owned says something of a cluster: give --cluster FILE")
    if cluster is None:
        raise typer.Exit(examine())
    name_cluster(cluster, owned=owned)
    with interruptible("no node stays broken but those that are named above"):
        raise typer.Exit(try_cluster())


@app.command()
def serve(
    port: Annotated[int, Option(help="Port on 127.0.0.1; 0 takes any free port.")] = 8765,
    results: Annotated[Path, Option(help="The results folder.")] = RESULTS,
) -> None:
    """Serve the results folder to browsers on this machine until Ctrl-C."""
    from harness.soak.serve import server

    with server(results, port) as serving:
        show(f"http://127.0.0.1:{serving.server_port}/")
        serving.serve_forever()


@app.command(rich_help_panel=FURTHER)
def spark_package(folder: Annotated[Path, typer.Argument(help="A folder to write into.")]) -> None:
    """Write what spark-submit needs to run `inquest check` on a cluster (docs/cluster.md)."""
    from checkers.engine.shipped import package

    with written_into(folder):
        code, program = package(folder, f"{__package__}.main")
    show(f"spark-submit --master … --py-files {code} {program} check URL")


app.command(rich_help_panel=FURTHER)(tables.sql)
for group_, help_, members_ in (
    (
        "recording",
        "Recorded runs again, and recordings of other programs.",
        (recordings.import_, recordings.export, again.replay, again.shrink),
    ),
    (
        "model",
        "The model of Kafka: many simulated runs; compared with a broker.",
        (explore.explore, contract.contract),
    ),
    ("bugs", "Known bugs of Kafka on real brokers.", (reproduce.reproduce,)),
):
    of_group = typer.Typer(cls=Commands, no_args_is_help=True, help=help_)
    for member in members_:
        of_group.command(name=member.__name__.rstrip("_"))(member)
    app.add_typer(of_group, name=group_, rich_help_panel=FURTHER)


def main(command: Callable[..., object] = app) -> None:
    """Entry point: ends with the exit code of the command (`harness.cli.endings`)."""
    sys.exit(int(exit_code_of(command)))


if __name__ == "__main__":
    main()
