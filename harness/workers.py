"""Worker processes as their parent sees them: start, command, listen, pause, end.

A worker that stands still (SIGSTOP) has a guard, a tiny process that sets it going again as soon as the
harness is gone, by whatever death: the worker then sees the end of its stdin, and ends.

Not here: what a worker does (`harness.worker`), which of them are to die or to stand still
(`harness.clients`), the phases (`harness.interpreter`).
"""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.messages import Command, Progress
from harness.store import Run

WORKER = (sys.executable, "-m", "harness.worker")
"""The program of a worker; its arguments are the run folder and the slot."""
GUARD = 'trap "" PIPE; kill -STOP "$1" || exit 1; echo stopped; read -r _; kill -CONT "$1"'
"""The guard of a paused worker: its stdin is a pipe that only the harness holds open. It outlives a
harness that dies before it reads what the guard reports."""
GUARD_S = 5.0
"""A guard ends at once when its stdin does."""


class WorkerHandle:
    """One worker. `progress` is its newest report; `ended` is its exit status, None while it runs.

    condemned: a fault means it to die by SIGKILL; then its end is no loss. Not thread-safe but for
    reading, `tell`, `strike` and `kill`.
    """

    def __init__(self, run: Run, slot: int, program: Sequence[str] = WORKER) -> None:
        self.slot = slot
        self.progress = Progress()
        self.condemned = False
        self.log = run.journal / f"worker-{slot}.log"
        self._guard: subprocess.Popen[bytes] | None = None
        with self.log.open("ab") as log:  # a successor adds to the last words of the one before
            self._process = subprocess.Popen(
                [*program, str(run.folder.resolve()), str(slot)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=Path.cwd(),
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit status (negative: signal), None while running."""
        return self._process.poll()

    @property
    def executed(self) -> bool:
        """It was condemned, and died as meant."""
        return self.condemned and self.ended == -signal.SIGKILL

    def tell(self, command: Command) -> None:
        """Send a command; a worker that is gone is not an error here."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()

    def pause(self) -> None:
        """SIGSTOP; returns when it was sent. No-op for one that stands still.

        Raises: OSError, where the worker is gone or its guard cannot be started.
        """
        if self._guard is not None:
            return
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        if not self._guard.stdout.readline():
            self.resume()
            raise ProcessLookupError(f"client {self.slot} could not be stopped: it is gone")

    def resume(self) -> None:
        """SIGCONT. No-op for one that runs, or is gone."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        with guard:  # closes its pipes, and waits
            self._process.send_signal(signal.SIGCONT)  # also where the guard was killed
            assert guard.stdin is not None
            with contextlib.suppress(OSError):
                guard.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(GUARD_S)
            guard.kill()

    def strike(self) -> None:
        """SIGKILL, without waiting: safe in a handler of signals, where waiting could find the lock
        of `Popen.poll` held by the very code that was interrupted."""
        self._process.kill()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.strike()
        self._process.wait()

    def close(self) -> None:
        """Release the pipes and the guard of a worker that has ended."""
        self._process.wait()
        self.resume()
        self._listener.join(timeout=1)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def why_ended(self) -> str:
        """What its exit status and last words say."""
        status = self.ended
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        words = self.last_words()
        return f"ended with status {status}" + (f": {words}" if words else "")

    def last_words(self) -> str:
        """The last line that it wrote to stderr, "" = none."""
        words = self.log.read_text(errors="replace") if self.log.exists() else ""
        return words.strip().rpartition("\n")[2]

    def _listen(self) -> None:
        decoder = msgspec.json.Decoder(Progress)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self.progress = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # a line cut off by the worker's death


def wait_ended(workers: Sequence[WorkerHandle], deadline_s: float) -> list[WorkerHandle]:
    """Wait until all have ended; those that had not by the deadline."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if all(worker.ended is not None for worker in workers):
            break
        time.sleep(0.02)
    return [worker for worker in workers if worker.ended is None]
