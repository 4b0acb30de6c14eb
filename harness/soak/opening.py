"""Beginning a night, or going on with the one that a crash or a person broke off.

Not here: what a night does then (`nightly`), its file (`harness.night`).
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness import night as nights
from harness.config import ConfigError
from harness.night import Log, Night, Started
from harness.soak import choice, keep
from harness.soak.matrix import Matrix, canary_task, config_of
from harness.soak.nightly import Soak
from harness.store import Run

RESUME_S = 86_400.0
"""An unfinished night older than this is left as it is."""
BUDGET_S = 1800.0
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds(text: str) -> float:
    """Seconds of `90s`, `30m`, `8h`, `1h30m`. Raises: ConfigError."""
    match = _DURATION.fullmatch(text.strip())
    if not text.strip() or match is None:
        raise ConfigError(f"--budget wants a time such as 30m, 8h or 1h30m, got {text!r}")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return 3600.0 * hours + 60.0 * minutes + rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for. None: as in the night that is resumed; of a new one, BUDGET_S or drawn."""

    results: Path
    matrix: Matrix
    budget_s: float | None = None
    seed: int | None = None
    new: bool = False


def open_night(
    wish: Wish, wall: Callable[[], str] = nights.moment
) -> tuple[Path, Log, Night, bool]:
    """The unfinished night of the last day, else a new one: folder, log, night, whether resumed.

    wall: now, as `at` is written. Raises: ConfigError, where it is being written by another soak,
    where seed, budget or matrix are others than those of the night, where the budget is too small, or
    nothing can be written.
    """
    try:
        if not wish.new and (night := resumable(wish.results, wall())) is not None:
            folder = wish.results / nights.FOLDER / night.name
            log = Log(folder)
            fresh = nights.read(folder)  # as it is now that nobody else writes
            if fresh is not None and fresh.over is None and not (others := _others(fresh, wish)):
                return folder, log, fresh, True
            log.close()
            if fresh is not None and fresh.over is None:
                raise ConfigError(
                    f"night {night.name} is unfinished and would be resumed, but its "
                    f"{' and '.join(others)} differ from what is asked for (--new begins another night)"
                )
        return (*_new(wish, wall()), False)
    except BlockingIOError:
        raise ConfigError(
            "another soak is at work in this results folder (--new begins a night of its own)"
        ) from None
    except OSError as error:
        raise ConfigError(f"the results folder {wish.results} cannot be written: {error}") from None


def resumable(results: Path, now: str) -> Night | None:
    """The newest night, if it is unfinished and not too old."""
    found = nights.nights(results)
    if not found or found[-1].over is not None:
        return None
    age = nights.timestamp(now) - nights.timestamp(found[-1].started.at)
    return found[-1] if age < RESUME_S else None


def _others(night: Night, wish: Wish) -> list[str]:
    """What was asked for that is not as in the night."""
    started = night.started
    matrix = wish.matrix.model_dump(mode="json")
    same = {
        "seed": wish.seed in (None, started.seed),
        "budget": wish.budget_s in (None, started.budget_s),
        "matrix": matrix == started.matrix,
    }
    return [name for name, is_same in same.items() if not is_same]


def _new(wish: Wish, now: str) -> tuple[Path, Log, Night]:
    earlier = nights.nights(wish.results)
    canary = choice.canary_of(wish.matrix, earlier)
    needed = choice.expected_s(canary_task(wish.matrix, canary, 0), ())
    budget_s = BUDGET_S if wish.budget_s is None else wish.budget_s
    if budget_s < needed:
        raise ConfigError(
            f"a budget of {budget_s:.0f} s leaves no room for the canary ({needed:.0f} s)"
        )
    seed = random.SystemRandom().randrange(2**31) if wish.seed is None else wish.seed
    started = Started(
        at=now,
        seed=seed,
        budget_s=budget_s,
        canary=canary,
        matrix=wish.matrix.model_dump(mode="json"),
    )
    folder = _new_folder(wish.results / nights.FOLDER, now)
    log = Log(folder)
    log.write(started)
    night = nights.read(folder)
    assert night is not None
    return folder, log, night


def _new_folder(parent: Path, now: str) -> Path:
    base = datetime.fromisoformat(now).strftime("%Y%m%dT%H%M%SZ")
    name, number = base, 1
    while (parent / name).exists():
        number += 1
        name = f"{base}-{number}"
    (parent / name).mkdir(parents=True)
    return parent / name


def pick_up(soak: Soak, log_of: Callable[[int], Path]) -> None:
    """After a crash: what came of the run that was under way, or nothing of it left; and the folders of
    passed runs reduced, where the crash came before that. log_of: number -> file of what it said."""
    night = soak.night
    for attempt in night.runs:
        if attempt.outcome is not None:
            soak.tidy(attempt.begun, attempt.outcome)
    now = soak.wall()
    spent = night.spent_s
    broken = choice.unfinished(night)
    if broken is not None and broken.outcome is None:
        gone = nights.timestamp(now) - nights.timestamp(broken.begun.at)
        spent += min(max(gone, 0.0), choice.expected_s(broken.begun.task, night.attempts))
    soak.resume(spent)
    if broken is None or broken.outcome is not None:
        return
    begun = broken.begun
    folder = keep.folder_of(nights.owner(night.name, begun), soak.results)
    if folder is not None and not keep.quiet(folder):
        soak.say(f"run {begun.number} still records into {folder.name}: it is left alone")
        return
    verdict = keep.verdict_of(folder)
    for line in keep.release(folder, config_of(begun.task)):
        soak.say(f"left behind by run {begun.number}: {line}")
    if verdict is not None:  # only the line that says so was missing
        assert folder is not None
        seconds = Run(folder).verdict.stat().st_mtime - nights.timestamp(begun.at)
        result = keep.outcome(
            verdict.exit_code, seconds=max(seconds, 0.0), folder=folder, log=log_of(begun.number)
        )
        soak.ended(begun, result)
    elif folder is not None:
        keep.discard(folder)
