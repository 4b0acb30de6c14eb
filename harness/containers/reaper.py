"""The reaper: a small process that removes what a harness left that was killed.

`python -m harness.containers.reaper <run> <copies>` waits on its stdin. The harness holds the other
end. When that end closes without the line `done` (SIGKILL, out of memory, a crash, or an engine that was
too slow), the reaper removes all containers and networks of the run, and the copies of its nodes' data. It
has a session of its own, so that a Ctrl-C does not reach it.
"""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from core.errors import ClusterError
from core.programs import program
from core.terminal import say
from harness.containers import engine
from harness.processes.child import end, end_input, start
from harness.processes.waiting import NotYet, until

DEADLINE_S = 180.0
"""Longer than the engine may take for a few calls (`engine.CALL_DEADLINE_S`)."""
PAUSE_S = 0.5
END_S = 10.0
DONE = b"done\n"


class Reaper:
    """A running reaper of one run."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def act(self) -> None:
        """Make it clean up now, in the background; returns at once."""
        end_input(self._process)

    def dismiss(self) -> None:
        """End it without effect; idempotent. For a run that has removed everything already."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        with suppress(OSError):  # it has ended
            stdin.write(DONE)
        end(self._process, END_S)


def start_reaper(run: str, copies: Path) -> Reaper:
    """Start the reaper of a run; it watches until this process ends or dismisses it.

    copies: a folder that is no longer needed then. Raises: OSError.
    """
    return Reaper(start(program(f"{__package__}.reaper", run, str(copies)), lines=False))


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
    if sys.stdin.buffer.read().endswith(DONE):
        return 0
    shutil.rmtree(copies, ignore_errors=True)
    left = reap(run)
    for line in left:
        say(f"left behind by {run}: {line}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
