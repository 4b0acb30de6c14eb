"""`inquest explore`: seeds without bugs and with planted ones, in simulated time, on Spark.

    outcome = explore(Wish(seeds=60, mutants="all"), say=print)

Not here: the parts (`harness.exploring`), the command (`harness.cli`).
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from checkers.spark import SparkError, spark
from harness.config import ConfigError
from harness.exploring.hunt import Hunt
from harness.exploring.outcome import Found, Outcome
from harness.exploring.profile import MODERN, hunted
from harness.exploring.tasks import Runner, in_process, spark_runner
from model.eras import ERAS
from model.mutants import MUTANTS

BATCHES_AT_A_TIME = 4
"""For each processor: fewer would leave some idle at the end of each job, more would tell less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to explore. seeds: clean seeds from `first` on, and most seeds for each mutant. mutants: "all",
    "none", or names joined by commas. master: Spark's, None = all processors of this machine."""

    seeds: int
    first: int = 0
    mutants: str = "none"
    era: str = MODERN
    master: str | None = None
    without_spark: bool = False


def named(mutants: str) -> list[str]:
    """The mutants of a wish. Raises: ConfigError, listing the known ones."""
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


def explore(wish: Wish, *, say: Callable[[str], None]) -> Outcome:
    """Make all runs.

    Raises: ConfigError, before anything is run.
    """
    names = named(wish.mutants)
    if wish.era not in ERAS:
        raise ConfigError(f"unknown era {wish.era!r}; known: {', '.join(ERAS)}")
    if wish.seeds < 1 or wish.first < 0:
        raise ConfigError("seeds must be at least 1, and the first one at least 0")
    with _runner(wish) as (runner, width):
        outcome = Hunt(
            seeds=wish.seeds,
            first=wish.first,
            mutants=names,
            era=wish.era,
            runner=runner,
            width=width,
            say=say,
        ).explore()
    if wish.mutants == "all":
        unseen = {name: Found(hunted=False) for name in MUTANTS if name not in names}
        outcome.mutants.update(unseen)
    return outcome


@contextlib.contextmanager
def _runner(wish: Wish) -> Iterator[tuple[Runner, int]]:
    """What makes batches, and how many it is given at a time."""
    if wish.without_spark:
        yield in_process, 1
        return
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(spark(wish.master))
        except SparkError as error:
            print(f"inquest: {error}; exploring in this process instead", file=sys.stderr)
            yield in_process, 1
            return
        parallel = session.sparkContext.defaultParallelism
        yield spark_runner(session), BATCHES_AT_A_TIME * parallel
