"""A night under way: run after run, each written down before and after, until its budget is over.

Not here: beginning and resuming a night (`opening`), which run is next (`choice`), the process of a run
(`launch`), run folders (`keep`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.config import ConfigError
from harness.night import (
    Begun,
    Ended,
    Event,
    Log,
    Night,
    Outcome,
    Over,
    Paused,
    Resumed,
    Task,
    owner,
)
from harness.soak import choice, keep
from harness.soak.matrix import Matrix, check_task

ERRORS_MAX = 5
"""So many errors of the harness in a row end the night: the next run would be one too."""

GIVEN_UP = Outcome(
    state="error", code=70, seconds=0.0, error="the soak itself died with it, more than once"
)


@dataclass(slots=True, kw_only=True)
class Soak:
    """A night under way.

    command: the command line of a run. make: makes it, to its end. asked: whether a person wants the
    night to stop. clock: seconds, monotonic. wall: now, as `at` is written. say: tells a person.
    rebuilt: builds the index.
    """

    results: Path
    night: Night
    log: Log
    matrix: Matrix
    command: Callable[[Task], list[str]]
    make: Callable[[Begun], Outcome]
    asked: Callable[[], bool]
    clock: Callable[[], float]
    wall: Callable[[], str]
    say: Callable[[str], None]
    rebuilt: Callable[[], None]
    _begin: float = field(init=False)
    _base: float = field(init=False)

    def __post_init__(self) -> None:
        self._begin, self._base = self.clock(), self.night.spent_s

    def resume(self, spent_s: float) -> None:
        """The night goes on; so much of it is used up."""
        self._begin, self._base = self.clock(), spent_s
        self._write(Resumed(at=self.wall(), spent_s=spent_s))

    @property
    def spent_s(self) -> float:
        """Seconds of the night that are used up."""
        return round(self._base + self.clock() - self._begin, 3)

    def run(self, earlier: Sequence[Night]) -> int:
        """All runs until the budget is over; the exit code. The index then lacks the last line.

        Raises: OSError, where the night's file cannot be written any more.
        """
        repeats = self._usable(choice.failing(earlier))
        self.rebuilt()
        while not self.asked():
            self.night.spent_s = self.spent_s
            chosen = choice.choose(self.night, repeats, self.matrix)
            if chosen is None or self._hopeless():
                break
            self._one(chosen)
            self.rebuilt()
        if self.asked():
            self._write(Paused(at=self.wall(), spent_s=self.spent_s))
            return 130
        return self._over()

    def _over(self) -> int:
        """Write the last line. A night without a canary is void only once it is over."""
        over = Over(at=self.wall(), spent_s=self.spent_s, code=0)
        self.night.over = over
        over = msgspec.structs.replace(over, code=self.night.code)
        self._write(over)
        return over.code

    def _one(self, chosen: choice.Choice) -> None:
        task = chosen.task
        begun = Begun(
            at=self.wall(),
            spent_s=self.spent_s,
            number=chosen.number,
            task=task,
            command=self.command(task),
        )
        self.say(
            f"run {chosen.number} ({task.why}): {task.workload} x {task.nemesis} x {task.preset}, "
            f"seed {task.seed}"
        )
        hopeless = choice.given_up(self.night, chosen.number)
        self._write(begun)
        self.ended(begun, GIVEN_UP if hopeless else self.make(begun))

    def ended(self, begun: Begun, outcome: Outcome) -> None:
        """Record what came of a run, then keep of its folder what is to be kept."""
        self._write(
            Ended(at=self.wall(), spent_s=self.spent_s, number=begun.number, outcome=outcome)
        )
        found = ", ".join(f"{f.name} ({f.disallowed})" for f in outcome.forbidden)
        told = f": {outcome.error or found}" if outcome.error or found else ""
        self.say(f"run {begun.number}: {outcome.state} in {outcome.seconds:.0f} s{told}")
        self.tidy(begun, outcome)

    def tidy(self, begun: Begun, outcome: Outcome) -> None:
        """Reduce the folder of a run that passed, where it is that run's; idempotent."""
        name = outcome.folder
        if not name or Path(name).name != name or keep.whole(begun.task, outcome):
            return
        if keep.is_of(self.results / name, owner(self.night.name, begun)):
            keep.reduce(self.results / name)

    def _hopeless(self) -> bool:
        last = [attempt.outcome for attempt in self.night.attempts[-ERRORS_MAX:]]
        if len(last) < ERRORS_MAX or not all(o is not None and o.state == "error" for o in last):
            return False
        self.say(f"{ERRORS_MAX} errors of the harness in a row: the night ends here")
        return True

    def _usable(self, tasks: Sequence[Task]) -> list[Task]:
        """Those that this version can still make."""
        usable = []
        for task in tasks:
            try:
                check_task(task)
            except ConfigError as error:
                self.say(f"run {task.of} cannot be repeated: {error}")
            else:
                usable.append(task)
        return usable

    def _write(self, event: Event) -> None:
        self.log.write(event)
        self.night.apply(event)
