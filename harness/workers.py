"""Worker processes as their parent sees them: start, command, listen, end.

Not here: what a worker does (`harness.worker`), the phases (`harness.interpreter`).
"""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from harness.messages import Command, Progress
from harness.store import Run


class WorkerHandle:
    """One worker. `progress` is its newest report; `ended` is its exit status, None while it runs."""

    def __init__(self, run: Run, slot: int) -> None:
        self.slot = slot
        self.progress = Progress()
        self.log = run.journal / f"worker-{slot}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.worker", str(run.folder.resolve()), str(slot)],
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

    def tell(self, command: Command) -> None:
        """Send a command; a worker that is gone is not an error here."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass

    def strike(self) -> None:
        """SIGKILL, without waiting: safe in a handler of signals, where waiting could find the lock
        of `Popen.poll` held by the very code that was interrupted."""
        self._process.kill()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.strike()
        self._process.wait()

    def close(self) -> None:
        """Release the pipes of a worker that has ended."""
        self._process.wait()
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
        words = (
            self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        )
        return f"ended with status {status}" + (f": {words[-1]}" if words else "")

    def _listen(self) -> None:
        decoder = msgspec.json.Decoder(Progress)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self.progress = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # a line cut off by the worker's death


def wait_ended(workers: list[WorkerHandle], deadline_s: float) -> list[WorkerHandle]:
    """Wait until all have ended; those that had not by the deadline."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if all(worker.ended is not None for worker in workers):
            break
        time.sleep(0.02)
    return [worker for worker in workers if worker.ended is None]
