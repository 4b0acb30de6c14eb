"""Recorded runs once more: replay, shrink. A simulated run repeats to the byte; a run on real brokers has the
same faults at the same times, and shows its findings in some of its repeats."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from core.errors import ExitCode, InquestError, UsageError
from core.terminal import show
from harness.cli.verdict import Engine, EngineName, Master, checked, interruptible, judge, own_files
from history.run_folder import RESULTS, Run, write_atomically

if TYPE_CHECKING:
    from core.config import RunConfig
    from harness.explore.shrink import ShrinkCase, Shrunk
    from harness.judging.process import WarmJudge
    from harness.run.progress import Display
    from nemesis.types import PlannedFault

WORST = (
    ExitCode.INTERRUPTED,
    ExitCode.ANOMALY,
    ExitCode.NOT_RECOVERED,
    ExitCode.SILENT,
    ExitCode.UNKNOWN,
    ExitCode.UNMET,
    ExitCode.VALID,
)
Repeats = Annotated[
    int, typer.Option("--runs", min=1, help="Of a run on real brokers: how often each run is repeated.")
]


class _Recorded(NamedTuple):
    run: Run
    config: "RunConfig"
    steps: "tuple[PlannedFault, ...]"
    repeatable: bool


def _recorded(folder: Path) -> _Recorded:
    """A run that may come from another person: its configuration passes what a new one has to pass.

    Raises: HistoryError, ConfigError; UsageError, where a soak has reduced its folder.
    """
    from core.config import recorded_config
    from harness.compose import plan
    from harness.run.planning import recorded_steps
    from harness.systems import system_of
    from history.recorded_files import refuse_reduced

    run = Run(Path(os.path.realpath(folder)) if folder.is_symlink() else folder)  # repeats move `latest`
    refuse_reduced(run)
    config = recorded_config(run.config)
    steps = recorded_steps(run)
    plan(config, steps)
    return _Recorded(run, config, steps, system_of(config).repeatable)


def replay(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    runs: Repeats = 1,
    results: Annotated[Path, typer.Option(help="Folder for the new run folders.")] = RESULTS,
    master: Master = None,
    engine_name: EngineName = None,
) -> None:
    """Repeat a run with the same faults. Of a simulated run all journals must be the same, byte by byte."""
    recorded = _recorded(run)
    if not recorded.repeatable:
        raise typer.Exit(_made_again(recorded, runs, results, Engine.of(engine_name, master)))
    from harness.modelled.virtual.run_folder import differences

    with interruptible("the run folder is as it was"):
        found, lines = differences(recorded.run, recorded.config, recorded.steps)
    if found:
        for text in found:
            show(text)
        raise InquestError("replay differs from the recording (recorded by a different version?)")
    show(f"identical: {lines} journal lines match")


def _made_again(recorded: _Recorded, runs: int, results: Path, engine: Engine) -> ExitCode:
    """Repeats on real brokers, each with its verdict, and how many show what the recorded run shows. Returns
    the worst of their exit codes."""
    from harness.compose import record
    from harness.explore.repeats import classes, known_bug_of, same_finding
    from harness.judging.process import WarmJudge
    from harness.report.inputs import read_verdict
    from harness.run.progress import Display

    original = read_verdict(recorded.run)
    bugs = {name: known_bug_of(original, name) for name in classes(original)}
    seen = dict.fromkeys(bugs, 0)
    codes: list[ExitCode] = []
    engine.reach()
    with WarmJudge(wanted=engine.spark, master=engine.master) as judge_:
        while len(codes) < runs and ExitCode.INTERRUPTED not in codes:
            display = Display(entered=judge_.entered)
            many = len(recorded.steps)
            faults = f"{many} fault{'s' * (many != 1)}"
            display.say(f"repeat {len(codes) + 1} of {runs} of {recorded.run.name}, {faults}")
            with own_files(), interruptible("the recorded run is as it was"):
                made = record(recorded.config, steps=recorded.steps, results=results, display=display)
            with own_files(), interruptible(f"check it later: inquest check {made.run.folder}"):
                code = judge(made.run, engine, interrupted=made.interrupted, judge_at=judge_.socket)
                codes.append(code)
                verdict = read_verdict(made.run)
            seen = {name: count + same_finding(verdict, name, bugs[name]) for name, count in seen.items()}
    for name, count in seen.items():
        known = f" (known bug {bugs[name]})" if bugs[name] else ""
        show(f"{name}{known}: the recorded run shows it, and {count} of {len(codes)} repeats")
    return min(codes, key=WORST.index)


def shrink(
    run: Annotated[Path, typer.Argument(help="Folder of a run with a finding.")],
    anomaly: Annotated[
        str | None, typer.Option(help="Anomaly to preserve while shrinking (default: the most severe one).")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Time budget, e.g. 90s (default: 5m; on real brokers 2h); a try is always finished."
        ),
    ] = None,
    runs: Repeats = 3,
    needed: Annotated[
        int, typer.Option(min=1, help="Of a run on real brokers: how many repeats must show the anomaly.")
    ] = 1,
    results: Annotated[Path, typer.Option(help="Folder for the new run folder.")] = RESULTS,
    master: Master = None,
    engine_name: EngineName = None,
) -> None:
    """Remove the faults and load that a finding does not need; record the smaller run."""
    import msgspec

    from harness.judging.process import WarmJudge
    from harness.run.progress import Display
    from harness.soak.session import budget_seconds

    if needed > runs:
        raise UsageError(f"--needed {needed}: there are no more than {runs} repeats (--runs)")
    recorded = _recorded(run)
    seconds = budget_seconds(budget or ("5m" if recorded.repeatable else "2h"))
    engine = Engine.of(engine_name, master)
    engine.reach()
    judge_ = WarmJudge(wanted=engine.spark, master=engine.master)
    display = Display()
    with judge_:
        try:
            work = _Shrinking(recorded, anomaly, seconds, results, display, engine, judge_)
            with interruptible("the recorded run is as it was"), own_files():
                search = work.simulated() if recorded.repeatable else work.real(runs, needed)
                made, shrunk, stopped_by = search
                write_atomically(made.shrunk, msgspec.json.encode(shrunk))
        finally:
            display.close()
        more = "" if shrunk.whole or stopped_by is not None else "; give it more time: --budget"
        show(f"shrunk after {shrunk.tries} tries: {shrunk.text}{more}")
        with own_files():
            judge(made, engine, judge_at=judge_.socket)
        if stopped_by is not None:
            with interruptible(f"the smallest run so far is {made.folder}"):
                raise stopped_by


class _Shrinking(NamedTuple):
    recorded: _Recorded
    anomaly: str | None
    budget_s: float
    results: Path
    display: "Display"
    engine: Engine
    judge: "WarmJudge"

    def simulated(self) -> "tuple[Run, Shrunk, BaseException | None]":
        """The smallest run, what it lacks, and what ended the search for it, if neither the end nor the time
        budget did. Raises: that, where no smaller run was found."""
        from harness.compose import record
        from harness.explore.shrink import Shrinker, findings, in_simulation

        case = self._case()
        classes = findings(case)
        known = not classes or self.anomaly not in {None, *classes}
        wanted = self._wanted(findings(case, known=True) if known else classes)
        shows = partial(in_simulation, known=known)
        shrinker = Shrinker(wanted, self.budget_s, self.display.say, shows=shows)
        smallest = shrinker.shrink(case)
        if shrinker.stopped_by is not None and smallest == case:
            raise shrinker.stopped_by
        shrunk = shrinker.summary(self.recorded.run.name, case, smallest)
        made = record(smallest.config, steps=smallest.steps, results=self.results, display=self.display)
        return made.run, shrunk, shrinker.stopped_by

    def real(self, runs: int, needed: int) -> "tuple[Run, Shrunk, BaseException | None]":
        """See `simulated`. Raises: UsageError, where too few repeats of the run itself show the anomaly."""
        from harness.compose import point_latest
        from harness.explore.repeats import Repeats as RepeatedRuns
        from harness.explore.repeats import classes, known_bug_of
        from harness.explore.shrink import Shrinker
        from harness.report.inputs import read_verdict

        case = self._case()
        verdict = read_verdict(self.recorded.run)
        wanted = self._wanted(classes(verdict))
        engine, judge_ = self.engine, self.judge
        repeated = RepeatedRuns(
            wanted,
            runs,
            needed,
            self.results,
            judge=lambda run: checked(run, engine, judge_.socket)[0],
            entered=judge_.entered,
            say=self.display.say,
            known_bug=known_bug_of(verdict, wanted),
        )
        shrinker = Shrinker(wanted, self.budget_s, self.display.say, shows=repeated.fails)
        if not repeated.fails(case, wanted):
            raise UsageError(
                f"{wanted}: fewer than {needed} of {runs} repeats of {self.recorded.run.name} show it; "
                f"{repeated.unknown} were unknown; give more --runs, or --needed less"
            )
        smallest = shrinker.shrink(case)
        try:
            if shrinker.stopped_by is None:
                repeated.measure(smallest)
        except (KeyboardInterrupt, InquestError, OSError) as error:
            shrinker.stopped_by = error
        shrunk = shrinker.summary(self.recorded.run.name, case, smallest, rate=repeated.rate)
        assert repeated.kept is not None
        if why := point_latest(repeated.kept):
            self.display.say(why)
        return repeated.kept, shrunk, shrinker.stopped_by

    def _case(self) -> "ShrinkCase":
        from harness.explore.shrink import ShrinkCase

        config = self.recorded.config.model_copy(update={"nemesis": "schedule"})
        return ShrinkCase(config, self.recorded.steps)

    def _wanted(self, classes: list[str]) -> str:
        wanted = self.anomaly or (classes or [""])[0]
        if wanted not in classes:
            asked = f"asked: {wanted}, found: {', '.join(classes) or 'nothing'}"
            raise UsageError(f"{self.recorded.run.folder}: no forbidden finding to preserve ({asked})")
        return wanted
