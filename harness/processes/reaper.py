"""A reaper: a small process that clears up after a harness that was killed.

It waits on its stdin, and the harness holds the other end. When that end closes without the line `done`
(SIGKILL, out of memory, a crash), the reaper acts. It has a session of its own, so that a Ctrl-C does not
reach it. What it does then is its program's: `harness.containers.reaper`, `harness.external.reaper`.

Programs that outlive the harness may still break what the reaper heals. Of each the harness says when it has
begun (`+<pid>`) and when it has ended (`-<pid>`). What else a reaper has to know then is a note (`=<text>`).
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from core.programs import program
from harness.processes.child import end, end_input, start

END_S: Final = 10.0
DONE: Final = b"done\n"


class Reaper:
    """A running reaper of one run."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @contextmanager
    def during(self, pid: int) -> Iterator[None]:
        """A program runs that outlives this process; safe from any thread."""
        self._tell(b"+%d\n" % pid)
        try:
            yield
        finally:
            self._tell(b"-%d\n" % pid)

    def note(self, text: str) -> None:
        """The reaper knows this when it acts. text: one line."""
        self._tell(b"=%s\n" % text.encode())

    def _tell(self, line: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(OSError, ValueError):  # it has ended, or was dismissed
                stdin.write(line)
                stdin.flush()

    def act(self) -> None:
        """Make it clear up now, in the background; returns at once."""
        end_input(self._process)

    def dismiss(self) -> None:
        """End it without effect; idempotent. For a run that has cleared up already."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        with suppress(OSError):  # it has ended
            stdin.write(DONE)
        end(self._process, END_S)


def start_program(module: str, *arguments: str) -> Reaper:
    """Start the program of a reaper; it watches until this process ends or dismisses it. Raises: OSError."""
    return Reaper(start(program(module, *arguments), lines=False))


class Last(NamedTuple):
    """What a harness had said. running: process ids of the programs that it had begun and that had not ended.
    notes: in their order."""

    running: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def dismissed() -> bool:
    """In the reaper: wait for the end of stdin; whether the harness dismissed it."""
    return heard() is None


def heard() -> Last | None:
    """In the reaper: wait for the end of stdin. What the harness had said; None = it dismissed the reaper."""
    running: dict[int, None] = {}
    notes: list[str] = []
    for line in sys.stdin.buffer.read().splitlines(keepends=True):
        if line == DONE:
            return None
        if not line.endswith(b"\n"):
            break  # it was killed while it wrote
        if line.startswith(b"="):
            notes.append(line[1:-1].decode())
        elif line.startswith(b"+"):
            running[int(line)] = None
        else:
            running.pop(-int(line), None)
    return Last(tuple(running), tuple(notes))
