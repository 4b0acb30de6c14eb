"""The reaper: a small process that removes what a harness left that was killed.

`python -m harness.containers.reaper <run> <copies>` waits as `harness.processes.reaper` says. Where the
harness was killed, or the engine was too slow for it, the reaper removes all containers, networks and volumes
of the run, and the copies of its nodes' data.
"""

import shutil
import sys
from contextlib import suppress
from pathlib import Path

from core.errors import ClusterError
from core.terminal import say
from harness.containers import engine
from harness.processes.reaper import Reaper, dismissed, start_program
from harness.processes.waiting import NotYet, until

DEADLINE_S = 180.0
"""Longer than the engine may take for a few calls (`engine.CALL_DEADLINE_S`)."""
PAUSE_S = 0.5


def start_reaper(run: str, copies: Path) -> Reaper:
    """Start the reaper of a run; it watches until this process ends or dismisses it.

    copies: a folder that is no longer needed then. Raises: OSError.
    """
    return start_program(f"{__package__}.reaper", run, str(copies))


def reap(run: str) -> list[str]:
    """Remove what is left of a run until nothing is found twice in a row; what stayed, if any.

    The killed harness may have asked the engine for a container that appears only now. An engine that
    does not answer is asked again until the deadline: it may be busy, or restarting.
    """
    left = ["the deadline passed"]
    quiet = 0

    def look() -> None:
        nonlocal left, quiet
        failed = engine.clear(run)
        try:
            found = engine.leftovers(run)
        except ClusterError as error:
            found = [str(error)]
        left = (failed or found) if found else []
        quiet = 0 if found else quiet + 1
        if quiet < 2:
            raise NotYet(f"something of {run} may be left")

    with suppress(NotYet):
        until(DEADLINE_S, PAUSE_S, look)
    return left


def main(arguments: list[str]) -> int:
    """Wait for the end of stdin, then reap unless dismissed."""
    run, copies = arguments
    if dismissed():
        return 0
    shutil.rmtree(copies, ignore_errors=True)
    left = reap(run)
    for line in left:
        say(f"left behind by {run}: {line}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
