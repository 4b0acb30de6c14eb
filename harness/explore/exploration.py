"""`inquest model explore`: runs of seeds without planted bugs, and runs of each planted bug until one shows.

    result = explore(seeds=60, mutants="all", say=print)

Runs are made by processes of this machine, one after the other (`harness.explore.forked`), or by Spark where
a master is named. Mutants take turns, and one that a run has shown gets no further runs. The first run that
shows a mutant does not depend on the number of processes: those behind it do not count.
"""

import contextlib
import functools
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from core.errors import ConfigError
from core.known_names import unlisted
from core.progress import ProgressStage
from harness.explore.explained import explainable
from harness.explore.forked import Undone, answered, forked, processors
from harness.explore.profile import MODERN, clean, hunted, hunting, without_mutant
from harness.explore.result import Exploration, MutantResult
from harness.explore.trial import Trial, settings, trial
from model.eras import ERAS
from model.mutants.registry import MUTANTS

SEEDS = 2**63
PROCESSES_MOST = 1024
TASKS_AT_A_TIME = 64
"""Runs of a Spark job, for each processor. More delay the progress line, fewer leave processors idle."""


class SeedRun(NamedTuple):
    """One run to make: without a planted bug, or of a mutant, whose runs have workloads and nemeses by their
    number. The seed is the number plus the first seed."""

    mutant: str
    number: int


def explore(
    *,
    seeds: int,
    first: int = 0,
    mutants: str = "none",
    era: str = MODERN,
    logs: bool = False,
    processes: int | None = None,
    master: str | None = None,
    say: Callable[[str], None],
) -> Exploration:
    """Run `seeds` seeds from `first` on, and up to as many runs for each mutant.

    mutants: "all", "none", or names joined by commas. logs: seeds without planted bugs must satisfy the rules
    about brokers' logs too. processes: that make the runs; None = one for each processor. master: Spark's,
    whose executors make the runs then. say: gets a line of progress after each run. Ctrl-C ends it with the
    runs so far. Raises: ConfigError, before the first run; SparkError.
    """
    if era not in ERAS:
        raise ConfigError(f"unknown era {era!r}; known: {', '.join(ERAS)}")
    names = named(mutants, era)
    if seeds < 1 or first < 0 or first + seeds > SEEDS:
        raise ConfigError("seeds must be at least 1, the first one at least 0, the last one below 2^63")
    if processes is not None and (not 1 <= processes <= PROCESSES_MOST or master is not None):
        raise ConfigError(
            f"processes must be 1 to {PROCESSES_MOST}, and none are made where Spark has a master"
        )
    made = Made(seeds=seeds, mutants=names)
    work = functools.partial(make, first=first, era=era, logs=logs)
    interrupted = False
    try:
        with contextlib.closing(_done(work, made.left(), processes or processors(), master)) as done:
            for attempt, one in done:
                made.take(attempt, _undone(attempt, one, first, era) if isinstance(one, Undone) else one)
                say(made.progress)
    except KeyboardInterrupt:
        interrupted = True
    found = made.result()
    found.interrupted = interrupted
    if mutants == "all":
        found.mutants |= {name: MutantResult(hunted=False) for name in MUTANTS if name not in names}
    return found


def named(mutants: str, era: str = MODERN) -> list[str]:
    """The mutants that an option names; "all" are those that a run of this era can show. Raises: ConfigError,
    with a near one."""
    known = hunted()
    if mutants == "none":
        return []
    if mutants == "all":
        return [name for name in known if not _refused(name, era)]
    names = list(dict.fromkeys(name.strip() for name in mutants.split(",")))
    for name in names:
        if name in MUTANTS and name not in known:
            raise ConfigError(
                f"mutant {name} shows in no run: a table of docs/model or a test of the model shows it"
            )
        if name not in MUTANTS:
            raise ConfigError(unlisted("unknown mutant", name, ("all", "none", *known), "mutants"))
        if why := _refused(name, era):
            raise ConfigError(f"mutant {name}: era {era} has no run that can show it: {why}")
    return names


def _refused(mutant: str, era: str) -> str:
    """Why the era cannot have the runs of a mutant, "" = it can."""
    hunt = MUTANTS[mutant].hunt
    assert hunt is not None
    try:
        for number in range(len(hunt.workloads)):
            hunting(mutant, number, era=era)
    except ConfigError as error:
        return str(error)
    return ""


class Made:
    """The runs that are done: `seeds` without planted bugs, then up to as many of each mutant."""

    def __init__(self, seeds: int, mutants: Iterable[str]) -> None:
        self.seeds = seeds
        self.runs: dict[str, dict[int, Trial]] = {"": {}, **{name: {} for name in mutants}}
        self._shown: dict[str, int] = {}
        """By mutant: the lowest run so far that shows it."""
        self._failed = 0
        self._latest = 0

    def left(self) -> Iterator[SeedRun]:
        """The runs to make, of each mutant only those before one that shows it."""
        yield from (SeedRun("", number) for number in range(self.seeds))
        for number in range(self.seeds):
            for name in self.runs:
                if name and number < self._shown.get(name, self.seeds):
                    self._latest = number + 1
                    yield SeedRun(name, number)

    def take(self, attempt: SeedRun, one: Trial) -> None:
        """A run is done."""
        self.runs[attempt.mutant][attempt.number] = one
        if one.shows:
            before = self._shown.get(attempt.mutant, self.seeds)
            self._shown[attempt.mutant] = min(attempt.number, before)
        self._failed += not attempt.mutant and bool(one.failures)

    @property
    def progress(self) -> str:
        """In one line."""
        if self._latest:
            return f"{len(self._shown)} of {len(self.runs) - 1} mutants found, runs up to {self._latest}"
        return f"{len(self.runs[''])} of {self.seeds} seeds, {self._failed} failed"

    def result(self) -> Exploration:
        """By number, of each mutant up to the first that shows it."""
        found = {
            name: [runs[n] for n in sorted(runs) if n <= self._shown.get(name, n)]
            for name, runs in self.runs.items()
        }
        clean_runs = found.pop("")
        shown = {name: MutantResult(trials=trials) for name, trials in found.items()}
        return Exploration(seeds=self.seeds, clean=clean_runs, mutants=shown)


def make(attempt: SeedRun, *, first: int = 0, era: str = MODERN, logs: bool = False) -> Trial:
    """Make a run. first: the first seed. logs: see `trial`; of runs without a mutant."""
    if attempt.mutant:
        return hunt_once(attempt.mutant, attempt.number, first, era)
    return trial(clean(first + attempt.number, era), logs=logs)


def hunt_once(mutant: str, number: int, first: int = 0, era: str = MODERN) -> Trial:
    """One run of a mutant. It shows none of the mutant's classes that its twin without the planted bug shows
    too, or that a known weakness of Kafka explains in it: eras have bugs of their own. A twin that crashes or
    is undecided proves nothing."""
    config = hunting(mutant, number, first, era)
    one = trial(config, invariants=False)
    shown = [name for name in MUTANTS[mutant].anomalies if name in one.anomalies]
    if not shown:
        return one
    twin = trial(without_mutant(config), invariants=False)
    if twin.crashed or twin.unknown or twin.harness:
        return one
    shown = [name for name in shown if name not in twin.anomalies]
    if shown and explainable(shown[0]):
        unexplained = trial(config).anomalies  # with a look for the weaknesses, which takes longer
        shown = [name for name in shown if name in unexplained]
    return msgspec.structs.replace(one, shows=shown[0]) if shown else one


def _undone(attempt: SeedRun, undone: Undone, first: int, era: str) -> Trial:
    """A run that the harness failed to make or to judge."""
    name, number = attempt
    try:
        config = settings(hunting(name, number, first, era) if name else clean(first + number, era))
    except Exception:  # noqa: BLE001 - the result says why all the same, and has the other runs
        config = {}
    return Trial(seed=first + number, config=config, harness=undone.why)


def _done(
    work: Callable[[SeedRun], Trial], left: Iterator[SeedRun], processes: int, master: str | None
) -> Generator[tuple[SeedRun, Trial | Undone], None, None]:
    return forked(work, left, processes) if master is None else _on_spark(work, left, master)


def _on_spark(
    work: Callable[[SeedRun], Trial], left: Iterator[SeedRun], master: str
) -> Generator[tuple[SeedRun, Trial | Undone], None, None]:
    from checkers.engine.engines import chosen

    with tempfile.TemporaryDirectory() as folder, chosen(Path(folder), master=master) as choice:
        while some := list(islice(left, TASKS_AT_A_TIME)):
            stage = ProgressStage(name="exploring", tasks="runs", sizes=[1] * len(some))
            done = choice.workers.map(stage, functools.partial(_answer, work, some))
            yield from zip(some, done, strict=True)


def _answer(work: Callable[[SeedRun], Trial], some: list[SeedRun], number: int) -> Trial | Undone:
    return answered(work, some[number])
