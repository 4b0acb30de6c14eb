"""What to run next: a pure function of the night so far, of earlier nights, and of the matrix.

The order of a night: failing runs of earlier nights, for at most half of the budget and only while much
room for the canary is left; the canary; the explicit runs of the matrix; then the drawn ones until the
budget is over. A run is chosen only if the time that it will probably take still fits.

Not here: making runs (`launch`), the night's file (`harness.night`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from harness.generator import source
from harness.night import FAILING, Attempt, Night, Task
from harness.soak.matrix import Matrix, canary_task, config_of, draws

OVERHEAD_S = 40.0
"""First guess of what a run takes besides its phase of faults."""
REPEAT_SHARE = 0.5
"""Share of the budget that runs of earlier nights may use."""
ROOM = 2.0
"""A run of an earlier night is made only where the budget holds it and the canary so many times over: it
may take longer than expected, and nothing proves anything in a night without its canary."""
TRIES = 3
"""A run that passed each of the last times, so many, is not made again."""
ATTEMPTS_MAX = 2
"""A run that the soak did not survive so often is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The next run. number: its place in the night, the same where it is made again."""

    number: int
    task: Task


def failing(earlier: Sequence[Night]) -> list[Task]:
    """The failing runs of earlier nights (oldest first), each once: open findings of all nights, then
    all else but known bugs, then these; the newest night first in each.

    Left out: canaries, as each night has its own; a run that passed each of the last times that it was
    made; and of the runs that found one known bug and nothing else all but the first in this order.
    """
    tries: dict[object, list[_Try]] = {}
    for age, night in enumerate(reversed(earlier)):
        for attempt in reversed(night.runs):
            made = _Try(age=age, night=night.name, attempt=attempt)
            if attempt.begun.task.why != "canary" and made.rank is not None:
                tries.setdefault(attempt.begun.task.key, []).append(made)
    gravest = [min(made[:TRIES], key=lambda one: one.order) for made in tries.values()]
    found: list[Task] = []
    bugs: set[tuple[str, ...]] = set()
    for one in sorted(gravest, key=lambda one: one.order):
        if one.rank == _PASSED or (one.rank == _KNOWN and one.bugs in bugs):
            continue
        bugs.add(one.bugs)
        found.append(one.again())
    return found


_OPEN, _OTHER, _KNOWN, _PASSED = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """One time that a run was made. age: nights since."""

    age: int
    night: str
    attempt: Attempt

    @property
    def rank(self) -> int | None:
        """How much what came of it matters; None: nothing came of it that says anything."""
        outcome = self.attempt.outcome
        if outcome is None:
            return None
        if outcome.open:
            return _OPEN
        if self.bugs:
            return _KNOWN
        if outcome.state in FAILING or outcome.forbidden:
            return _OTHER
        return _PASSED if outcome.state == "valid" else None

    @property
    def bugs(self) -> tuple[str, ...]:
        """The known bugs, where all that is forbidden is of them."""
        forbidden = self.attempt.outcome.forbidden if self.attempt.outcome else []
        names = {found.known_bug for found in forbidden}
        return () if "" in names else tuple(sorted(names))

    @property
    def order(self) -> tuple[int, int, int]:
        """The gravest first, then the newest night, then as they were made."""
        rank = _PASSED if self.rank is None else self.rank
        return rank, self.age, self.attempt.begun.number

    def again(self) -> Task:
        """The same run."""
        task = self.attempt.begun.task
        return Task(
            why="repeat", workload=task.workload, nemesis=task.nemesis, preset=task.preset,
            seed=task.seed, settings=task.settings, of=f"{self.night}/{self.attempt.begun.number}",
        )  # fmt: skip


def canary_of(matrix: Matrix, earlier: Sequence[Night]) -> str:
    """The canary of the next night: they take turns."""
    names = matrix.canaries()
    return names[len(earlier) % len(names)]


def seed_of(night_seed: int, number: int) -> int:
    """Seed of a run of a night."""
    return source(night_seed, "soak", "run", number).getrandbits(31)


def expected_s(task: Task, attempts: Iterable[Attempt]) -> float:
    """Seconds that a run will take: its phase of faults and the median of what runs took besides,
    those of the same workload if there are any."""
    extra: list[float] = []
    alike: list[float] = []
    for attempt in attempts:
        if attempt.outcome is None or not attempt.outcome.judged:
            continue
        besides = attempt.outcome.seconds - config_of(attempt.begun.task).duration_s
        extra.append(besides)
        if attempt.begun.task.workload == task.workload:
            alike.append(besides)
    overhead = median(alike or extra) if extra else OVERHEAD_S
    return config_of(task).duration_s + max(overhead, 0.0)


def unfinished(night: Night) -> Attempt | None:
    """The run that was under way when the night was cut short, by a crash or by a person."""
    if not night.attempts:
        return None
    last = night.attempts[-1]
    if last.outcome is None or last.outcome.state == "interrupted":
        return last
    return None


def given_up(night: Night, number: int) -> bool:
    """Whether the soak died with this run too often."""
    return (
        sum(a.begun.number == number and a.outcome is None for a in night.attempts) >= ATTEMPTS_MAX
    )


def choose(night: Night, repeats: Sequence[Task], matrix: Matrix) -> Choice | None:
    """The next run of the night, None where its budget leaves no room for it.

    repeats: `failing` of the nights before this one.
    """
    if (again := unfinished(night)) is not None:
        choice = Choice(number=again.begun.number, task=again.begun.task)
        return choice if _fits(night, choice.task, 1.0) else None
    number = 1 + max((a.begun.number for a in night.attempts), default=0)
    made = list({a.begun.number: a.begun.task for a in night.attempts}.values())
    if not any(task.why == "canary" for task in made):
        keys = {task.key for task in made}
        seed = seed_of(night.started.seed, number)
        canary = canary_task(matrix, night.started.canary, seed)
        for task in repeats:
            if (
                task.key not in keys
                and _fits(night, task, REPEAT_SHARE)
                and _leaves_room(night, task, canary)
            ):
                return Choice(number=number, task=task)
    task = _next(night, number, made, matrix)
    return Choice(number=number, task=task) if _fits(night, task, 1.0) else None


def _next(night: Night, number: int, made: Sequence[Task], matrix: Matrix) -> Task:
    seed = seed_of(night.started.seed, number)
    if not any(task.why == "canary" for task in made):
        return canary_task(matrix, night.started.canary, seed)
    explicit = sum(task.why == "explicit" for task in made)
    if explicit < len(matrix.runs):
        run = matrix.runs[explicit]
        return Task(
            why="explicit", workload=run.workload, nemesis=run.nemesis, preset=run.preset,
            seed=seed if run.seed is None else run.seed,
            settings=matrix.settings_for(run.preset, run.settings),
        )  # fmt: skip
    drawn = sum(task.why == "matrix" for task in made)
    workload, nemesis, preset = next(islice(draws(matrix, night.started.seed), drawn, None))
    return Task(
        why="matrix", workload=workload, nemesis=nemesis, preset=preset, seed=seed,
        settings=matrix.settings_for(preset),
    )  # fmt: skip


def _fits(night: Night, task: Task, share: float) -> bool:
    left = night.started.budget_s * share - night.spent_s
    return expected_s(task, night.attempts) <= left


def _leaves_room(night: Night, task: Task, canary: Task) -> bool:
    left = night.started.budget_s - night.spent_s
    return left >= ROOM * (expected_s(task, night.attempts) + expected_s(canary, night.attempts))
