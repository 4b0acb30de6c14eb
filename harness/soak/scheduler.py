"""What to run next: a pure function of the session so far, of earlier sessions, and of the matrix.

The order of a session: failing runs of earlier sessions, for at most half of the budget and only while it
holds the canary too; the canary; the explicit runs of the matrix; then drawn runs until the budget is used
up. A run is chosen only if its expected time still fits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import NamedTuple

import msgspec

from core.generator import source
from harness.nights.session_log import FAILING, Attempt, PlannedRun, RunResult, SoakSession, State
from harness.soak.matrix import Matrix, canary_run, config_of, draws, topologies

OVERHEAD_S = 40.0
"""First guess of the seconds that a run takes in addition to its phase of faults."""
REPEAT_SHARE = 0.5
"""Share of the budget for repeating runs of earlier sessions."""
ROOM = 2.0
"""Repeat an earlier failure only if the remaining budget covers `ROOM` times that run and the canary: a run
can take longer than expected, and without its canary a session is void."""
TRIES = 3
"""Stop repeating a failure after it has passed this many times in a row."""
ATTEMPTS_MAX = 2
"""Skip a run after the soak process has died in it this often."""
CUT_SHORT: tuple[State, ...] = ("interrupted", "error")
"""States of runs that did not last as long as they would have, or far longer than all their deadlines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The next run. number: its place in the session, also of a repetition after a crash."""

    number: int
    task: PlannedRun


def failing(earlier: Sequence[SoakSession]) -> list[PlannedRun]:
    """The failing runs of earlier sessions (oldest first), each once: open findings first, then all others
    but known bugs, then known bugs; within each the newest session first.

    Left out: canaries, as each session has its own; runs that passed the last `TRIES` times; and all but the
    first of the runs that found nothing but the same known bug.
    """
    tries: dict[object, list[_Try]] = {}
    for age, session in enumerate(reversed(earlier)):
        for attempt in reversed(session.runs):
            begun, result = attempt.begun, attempt.outcome
            if result is None or begun.task.why == "canary" or (rank := _rank(result)) is None:
                continue
            again = msgspec.structs.replace(begun.task, why="repeat", of=f"{session.name}/{begun.number}")
            made = _Try((rank, age, begun.number), result.known_bugs, again)
            tries.setdefault(again.key, []).append(made)
    gravest = [min(made[:TRIES], key=lambda one: one.order) for made in tries.values()]
    found: list[PlannedRun] = []
    bugs: set[tuple[str, ...]] = set()
    for (rank, *_), known, again in sorted(gravest, key=lambda one: one.order):
        if rank == _PASSED or (rank == _KNOWN and known in bugs):
            continue
        bugs.add(known)
        found.append(again)
    return found


_OPEN, _OTHER, _KNOWN, _PASSED = range(4)


class _Try(NamedTuple):
    """One attempt at a run. order: by rank, then by how many sessions ago, then by number."""

    order: tuple[int, int, int]
    bugs: tuple[str, ...]
    again: PlannedRun


def _rank(result: RunResult) -> int | None:
    """How severe it is; None = it says nothing."""
    if result.open:
        return _OPEN
    if result.known_bugs:
        return _KNOWN
    if result.state in FAILING or result.forbidden:
        return _OTHER
    return _PASSED if result.state == "valid" else None


def canary_of(matrix: Matrix, earlier: Sequence[SoakSession]) -> str:
    """The canary of the next session; the canaries take turns."""
    names = matrix.canaries()
    return names[len(earlier) % len(names)]


def seed_of(session_seed: int, number: int) -> int:
    """Seed of a run of a session."""
    return source(session_seed, "soak", "run", number).getrandbits(31)


def expected_s(task: PlannedRun, attempts: Iterable[Attempt]) -> float:
    """Expected seconds of a run: its phase of faults, plus the median overhead of the runs of its workload,
    or of all runs, where its workload has none yet. Runs that were cut short say nothing about it."""
    extra = [
        (attempt.begun.task.workload, came.seconds - config_of(attempt.begun.task).duration_s)
        for attempt in attempts
        if (came := attempt.outcome) is not None and came.judged and came.state not in CUT_SHORT
    ]
    alike = [seconds for workload, seconds in extra if workload == task.workload]
    overhead = median(alike or [seconds for _, seconds in extra] or [OVERHEAD_S])
    return config_of(task).duration_s + max(overhead, 0.0)


def unfinished(session: SoakSession) -> Attempt | None:
    """The run during which a crash or a person ended the session."""
    last = session.attempts[-1] if session.attempts else None
    broken = last is not None and (last.outcome is None or last.outcome.state == "interrupted")
    return last if broken else None


def given_up(session: SoakSession, number: int) -> bool:
    """Whether the soak process died in this run too often."""
    return sum(a.begun.number == number and a.outcome is None for a in session.attempts) >= ATTEMPTS_MAX


def choose(session: SoakSession, repeats: Sequence[PlannedRun], matrix: Matrix) -> Choice | None:
    """The next run of the session; None, where it does not fit into the budget.

    repeats: `failing` of the sessions before this one.
    """
    if (again := unfinished(session)) is not None:
        number, task = again.begun.number, again.begun.task
    else:
        made = {attempt.begun.number: attempt.begun.task for attempt in session.attempts}
        number = 1 + max(made, default=0)
        task = _next(session, number, list(made.values()), repeats, matrix)
    return Choice(number=number, task=task) if _fits(session, task, 1.0) else None


def _next(
    session: SoakSession,
    number: int,
    made: Sequence[PlannedRun],
    repeats: Sequence[PlannedRun],
    matrix: Matrix,
) -> PlannedRun:
    seed = seed_of(session.started.seed, number)
    if not any(task.why == "canary" for task in made):
        canary = canary_run(matrix, session.started.canary, seed)
        keys = {task.key for task in made}
        left = session.started.budget_s - session.spent_s
        for task in repeats:
            both_s = expected_s(task, session.attempts) + expected_s(canary, session.attempts)
            if task.key not in keys and _fits(session, task, REPEAT_SHARE) and ROOM * both_s <= left:
                return task
        return canary
    explicit = sum(task.why == "explicit" for task in made)
    if explicit < len(matrix.explicit()):
        run = matrix.explicit()[explicit]
        return matrix.planned(
            "explicit", run.combination, seed if run.seed is None else run.seed, run.settings
        )
    drawn, of = sum(task.why == "matrix" for task in made), session.started.seed
    drawn, system = divmod(drawn, len(matrix.systems))
    combination = next(islice(draws(matrix, of), drawn, None))
    topology = next(islice(topologies(matrix, of), drawn, None))
    on, more = matrix.systems[system], matrix.placed(combination.preset, topology)
    seed = seed if len(matrix.systems) == 1 else seed_of(of, -1 - drawn)  # all systems have the same one
    return matrix.planned("matrix", combination, seed, more, system=on)


def _fits(session: SoakSession, task: PlannedRun, share: float) -> bool:
    left = session.started.budget_s * share - session.spent_s
    return expected_s(task, session.attempts) <= left
