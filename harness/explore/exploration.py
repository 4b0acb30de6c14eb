"""`inquest explore`: batches of seeds without planted bugs, and rounds of runs for each planted bug.

    result = explore(seeds=60, mutants="all", say=print)

Each round of a mutant has more runs than the one before: a bug that shows at once costs little, and one that
hides keeps all processors busy. The first run that shows a bug does not depend on their number: within a
round the lowest run counts.
"""

import contextlib
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from checkers.engine.spark import scatter, spark
from core.errors import ConfigError, SparkError
from core.progress import Stage
from harness.explore.profile import MODERN, clean, hunted, hunting, without_mutant
from harness.explore.result import Exploration, MutantResult
from harness.explore.trial import Trial, trial
from model.eras import ERAS
from model.mutants.registry import MUTANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES_AT_A_TIME = 4
"""For each processor. More delay the progress line."""
JOBS_AT_A_TIME = 2
"""So that the last batches of a job leave no processor idle."""
CLEAN_BATCH = 2
"""Seeds. Starting a batch costs a fiftieth of that; larger ones leave more processors idle at the end."""
ROUNDS = (2, 6, 24, 96)
"""Runs of a mutant in each round; all later rounds are as long as the last one here."""
HUNT_BATCH = 6


class TrialBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Without a mutant: seeds `begin` to `begin` + `count` - 1. With one: its runs with these numbers, whose
    seeds count from `first`, up to the first that shows it. logs: see `trial`; of runs without a mutant."""

    mutant: str = ""
    begin: int
    count: int
    first: int = 0
    era: str
    logs: bool = False


Runner = Callable[[Sequence[TrialBatch]], Iterable[list[Trial]]]
"""Makes the runs of batches; those of each batch come in the same order."""


def explore(
    *,
    seeds: int,
    first: int = 0,
    mutants: str = "none",
    era: str = MODERN,
    logs: bool = False,
    master: str | None = None,
    without_spark: bool = False,
    say: Callable[[str], None],
) -> Exploration:
    """Run `seeds` seeds from `first` on, and up to as many runs for each mutant.

    mutants: "all", "none", or names joined by commas. logs: seeds without planted bugs must satisfy the rules
    about brokers' logs too. master: Spark's; all processors of this machine if
    None. say: gets a line of progress after each batch. Ctrl-C ends it with the batches so far. Raises:
    ConfigError, before the first run.
    """
    names = named(mutants)
    if era not in ERAS:
        raise ConfigError(f"unknown era {era!r}; known: {', '.join(ERAS)}")
    if seeds < 1 or first < 0:
        raise ConfigError("seeds must be at least 1, and the first one at least 0")
    found = Exploration(seeds=seeds, clean=[], mutants={name: MutantResult() for name in names})
    try:
        with _runner(master, without_spark) as runner:
            run_clean(found.clean, seeds, first, era, runner, say, logs=logs)
            hunt(found.mutants, seeds, first, era, runner, say)
    except KeyboardInterrupt:
        found.interrupted = True
    if mutants == "all":
        found.mutants |= {name: MutantResult(hunted=False) for name in MUTANTS if name not in names}
    return found


def named(mutants: str) -> list[str]:
    """The mutants that an option names. Raises: ConfigError, with the known ones."""
    known = hunted()
    if mutants in ("all", "none"):
        return known if mutants == "all" else []
    names = list(dict.fromkeys(name.strip() for name in mutants.split(",")))
    for name in names:
        if name in MUTANTS and name not in known:
            raise ConfigError(f"mutant {name} shows in no run: see docs/model.md for its scenario")
        if name not in MUTANTS:
            raise ConfigError(f"unknown mutant {name!r}; known: all, none, {', '.join(known)}")
    return names


def run_clean(
    found: list[Trial],
    seeds: int,
    first: int,
    era: str,
    runner: Runner,
    say: Callable[[str], None],
    *,
    logs: bool = False,
) -> None:
    """Run the seeds without planted bugs. found: takes them, batch by batch."""
    end = first + seeds
    batches = [
        TrialBatch(begin=begin, count=min(CLEAN_BATCH, end - begin), era=era, logs=logs)
        for begin in range(first, end, CLEAN_BATCH)
    ]
    for trials in runner(batches):
        found += trials
        say(f"{len(found)} of {seeds} seeds, {sum(bool(one.failures) for one in found)} failed")


def hunt(
    found: dict[str, MutantResult],
    seeds: int,
    first: int,
    era: str,
    runner: Runner,
    say: Callable[[str], None],
) -> None:
    """Run up to `seeds` runs of each of these mutants, until one shows it. found: takes their runs, batch
    by batch."""
    begin, size, rounds = 0, 0, iter(ROUNDS)
    while begin < seeds and (left := [name for name, one in found.items() if not one.anomaly]):
        size = min(next(rounds, size), seeds - begin)
        end = begin + size
        batches = [
            TrialBatch(mutant=name, begin=at, count=min(HUNT_BATCH, end - at), first=first, era=era)
            for name in left
            for at in range(begin, end, HUNT_BATCH)
        ]
        for batch, trials in zip(batches, runner(batches), strict=True):
            if not found[batch.mutant].anomaly:  # runs behind the one that shows it do not count
                found[batch.mutant].trials += trials
            count = sum(bool(one.anomaly) for one in found.values())
            say(f"{count} of {len(found)} mutants found, runs up to {end}")
        begin = end


def run_batch(batch: TrialBatch) -> list[Trial]:
    """Run a batch in this process."""
    trials: list[Trial] = []
    for number in range(batch.begin, batch.begin + batch.count):
        if batch.mutant:
            trials.append(hunt_once(batch.mutant, number, batch.first, batch.era))
        else:
            trials.append(trial(clean(number, batch.era), logs=batch.logs))
        if trials[-1].shows:
            break
    return trials


def hunt_once(mutant: str, number: int, first: int = 0, era: str = MODERN) -> Trial:
    """One run of a mutant. It shows none of the mutant's classes that its twin without the planted bug shows
    too: eras have bugs of their own. A twin that crashes or is undecided proves nothing."""
    config = hunting(mutant, number, first, era)
    one = trial(config, invariants=False)
    anomaly = next((name for name in MUTANTS[mutant].anomalies if name in one.anomalies), "")
    if not anomaly:
        return one
    twin = trial(without_mutant(config), invariants=False)
    proves_nothing = anomaly in twin.anomalies or twin.crashed or twin.unknown
    return one if proves_nothing else msgspec.structs.replace(one, shows=anomaly)


@contextlib.contextmanager
def _runner(master: str | None, without_spark: bool) -> Iterator[Runner]:
    """Runs batches on Spark; in this process where Spark is not wanted or does not start."""
    with contextlib.ExitStack() as stack:
        if not without_spark:
            try:
                session = stack.enter_context(spark(master))
            except SparkError as error:
                print(f"inquest: {error}; exploring in this process instead", file=sys.stderr)
            else:
                width = BATCHES_AT_A_TIME * session.sparkContext.defaultParallelism
                yield lambda batches: _on_spark(session, batches, width)
                return
        yield lambda batches: map(run_batch, batches)


def _on_spark(session: "SparkSession", batches: Sequence[TrialBatch], width: int) -> Iterator[list[Trial]]:
    """`width` batches a job, so that there is progress to show between jobs."""
    decoder = msgspec.json.Decoder(list[Trial])
    jobs: deque[Future[list[bytes]]] = deque()
    pool = ThreadPoolExecutor(JOBS_AT_A_TIME)
    try:
        for at in range(0, len(batches), width):
            some = tuple(batches[at : at + width])
            work = functools.partial(_encoded_result, some)
            stage = Stage(name="exploring", tasks="batches", sizes=[1] * len(some))
            jobs.append(pool.submit(scatter, session, stage, work))
            if len(jobs) == JOBS_AT_A_TIME:
                yield from map(decoder.decode, jobs.popleft().result())
        while jobs:
            yield from map(decoder.decode, jobs.popleft().result())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for a job


def _encoded_result(batches: Sequence[TrialBatch], number: int) -> list[bytes]:
    return [msgspec.json.encode(run_batch(batches[number]))]
