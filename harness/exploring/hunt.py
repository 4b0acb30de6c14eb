"""All trials of an exploration: batches of clean seeds, and rounds of seeds for every mutant.

A mutant is looked for with ever more seeds at a time, so that one that shows at once costs little, and
one that hides keeps all processors busy. Which run finds it does not depend on how many there are: of
all finds of a round the one with the lowest number counts.

Not here: what a batch does (`tasks`), telling the outcome (`outcome`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.exploring.outcome import Clean, Found, Outcome, Run
from harness.exploring.tasks import Batch, Done, Runner

CLEAN_BATCH = 10
ROUNDS = (2, 6, 24, 96)
"""Seeds of a mutant in each round; the last number goes on."""
HUNT_BATCH = 6


@dataclass(slots=True, kw_only=True)
class Hunt:
    """An exploration under way. runner: makes batches. width: batches at a time. say: told what is done."""

    seeds: int
    first: int
    mutants: Sequence[str]
    era: str
    runner: Runner
    width: int
    say: Callable[[str], None]
    outcome: Outcome = field(init=False)

    def explore(self) -> Outcome:
        """Make all runs."""
        self.outcome = Outcome(clean=Clean(), mutants={})
        self._clean()
        self._mutants()
        return self.outcome

    def _clean(self) -> None:
        batches = [
            Batch(
                begin=begin, count=min(CLEAN_BATCH, self.first + self.seeds - begin), era=self.era
            )
            for begin in range(self.first, self.first + self.seeds, CLEAN_BATCH)
        ]
        clean = self.outcome.clean
        for done in self._run(batches):
            clean.seeds += done.runs
            clean.simulated_s = round(clean.simulated_s + done.simulated_s, 3)
            clean.failures += [
                Run(seed=one.seed, why="; ".join(one.failures), config=one.config)
                for one in done.trials
            ]
            self.say(f"{clean.seeds} of {self.seeds} clean seeds, {len(clean.failures)} failed")

    def _mutants(self) -> None:
        found = {name: Found() for name in self.mutants}
        self.outcome.mutants = found
        begin, rounds = 0, iter(ROUNDS)
        size = 0
        while begin < self.seeds:
            left = [name for name, one in found.items() if not one.found]
            if not left:
                return
            size = min(next(rounds, size), self.seeds - begin)
            batches = [batch for name in left for batch in self._round(name, begin, size)]
            for done in self._run(batches):
                self._note(done)
                count = sum(one.found for one in found.values())
                self.say(f"{count} of {len(found)} mutants found, seeds up to {begin + size}")
            begin += size

    def _round(self, name: str, begin: int, size: int) -> Iterator[Batch]:
        for at in range(begin, begin + size, HUNT_BATCH):
            count = min(HUNT_BATCH, begin + size - at)
            yield Batch(mutant=name, begin=at, count=count, first=self.first, era=self.era)

    def _note(self, done: Done) -> None:
        """Count a batch; those behind a find of the same round do not count."""
        one = self.outcome.mutants[done.batch.mutant]
        if one.found:
            return
        one.simulated_s = round(one.simulated_s + done.simulated_s, 3)
        one.seeds += done.runs
        one.broke += done.broke
        if done.found:
            last = done.trials[-1]
            one.found, one.anomaly = True, done.found
            one.seeds_to_detection = one.seeds
            one.run = Run(seed=last.seed, why="; ".join(last.failures), config=last.config)

    def _run(self, batches: Sequence[Batch]) -> Iterator[Done]:
        """In order, some at a time, so that there is something to tell meanwhile."""
        for at in range(0, len(batches), self.width):
            yield from self.runner(batches[at : at + self.width])
