"""The nightly soak: seeds x workloads x nemeses x presets, run after run, until a budget is over.

matrix    what may be combined, and the order in which it is drawn
choice    what to run next: pure
opening   beginning a night, resuming one
nightly   a night under way
launch    the process of one run
keep      run folders: which one, what came of it, what is kept

The file of a night is `harness.night`; for users: docs/soak.md.

Not here: one run (`harness.run`), the index of the results folder (`harness.report.index`).
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.night import Begun, Night, Outcome
    from harness.soak.launch import Interrupts
    from harness.soak.opening import Wish


def soak(wish: "Wish", options: Sequence[str] = ()) -> int:
    """Begin or resume a night and bring it to its end; the exit code (docs/soak.md).

    options: words for every `inquest run`. Raises: ConfigError; OSError, where the file of the night
    cannot be written any more.
    """
    from harness import night as nights
    from harness.soak.launch import Interrupts, command
    from harness.soak.nightly import Soak
    from harness.soak.opening import open_night, pick_up

    folder, log, night, resumed = open_night(wish)
    interrupts = Interrupts()
    try:
        with interrupts:
            say(f"night {night.name}: seed {night.started.seed}, budget {night.started.budget_s:.0f} s, "
                f"canary {night.started.canary}{', resumed' if resumed else ''}")  # fmt: skip
            under_way = Soak(
                results=wish.results,
                night=night,
                log=log,
                matrix=wish.matrix,
                command=lambda task: command(task, wish.results, options),
                make=lambda begun: _make(begun, night, wish, interrupts),
                asked=lambda: interrupts.asked,
                clock=time.monotonic,
                wall=nights.moment,
                say=say,
                rebuilt=lambda: build_index(wish.results),
            )
            if resumed:
                pick_up(under_way, lambda number: _log(folder, number))
            earlier = [one for one in nights.nights(wish.results) if one.name < night.name]
            code = under_way.run(earlier)
            _summarise(wish.results, night)
    finally:
        log.close()
    build_index(wish.results)  # once more: the night is nobody's now
    say(f"night {night.name}: {_ending(code, night)}")
    say(f"index: {wish.results / 'index.html'}")
    return code


def _make(begun: "Begun", night: "Night", wish: "Wish", interrupts: "Interrupts") -> "Outcome":
    """One run in a process of its own, and what it left cleared up."""
    import msgspec

    from harness.night import FOLDER, owner
    from harness.soak import keep, launch
    from harness.soak.matrix import config_of

    config = config_of(begun.task)
    log = _log(wish.results / FOLDER / night.name, begun.number)
    since = time.monotonic()
    mark = owner(night.name, begun)
    code, late = launch.run(begun.command, log, launch.bound_s(config), interrupts, owner=mark)
    seconds = round(time.monotonic() - since, 3)
    run_folder = keep.folder_of(mark, wish.results)
    if late or code < 0:
        for line in keep.release(run_folder, config):
            say(f"left behind by run {begun.number}: {line}")
    result = keep.outcome(code, seconds=seconds, folder=run_folder, log=log, late=late)
    if interrupts.asked and result.state == "error":  # it was not given the time; it is made again
        result = msgspec.structs.replace(result, state="interrupted")
    if not keep.whole(begun.task, result):
        log.unlink(missing_ok=True)
    return result


def _log(folder: Path, number: int) -> Path:
    """The file that gets what a run says; kept of runs that are kept whole."""
    return folder / f"{number:04}.log"


def _summarise(results: Path, night: "Night") -> None:
    from harness.report.nightly import append

    try:
        append(results, night)
    except OSError as error:
        say(f"no step summary: {error}")


def _ending(code: int, night: "Night") -> str:
    words = {
        0: "everything valid, and the canary fired",
        1: "something forbidden was found",
        2: "something could not be decided",
        3: "a cluster did not recover",
        4: "void: a control did not find what it has to find, or was not run",
        70: "the harness failed",
        130: "interrupted; the same command resumes it",
    }
    return f"{night.tested} besides the canary came to a verdict; {words[code]}"


def say(text: str) -> None:
    """Tell the user, on stderr."""
    print(f"inquest: {text}", file=sys.stderr, flush=True)


def build_index(results: Path) -> None:
    """Build the index of a results folder. A night does not end because of a page: what goes wrong is
    said, with its place."""
    from harness.report import index

    try:
        index.build(results)
    except Exception as error:  # noqa: BLE001 - the runs matter more than the picture of them
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "?"
        say(f"no index: {type(error).__name__}: {error} ({where})")
