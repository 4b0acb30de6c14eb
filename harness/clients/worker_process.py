"""Worker processes as their parent holds them: start, command, listen, pause, end.

A paused worker (SIGSTOP) has a guard (`harness.processes.guard`) that resumes it as soon as the harness is
gone, by whatever death: the worker then sees the end of its stdin, and ends.
"""

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.cluster import Endpoint
from core.programs import environment, program
from harness.clients.worker_protocol import ClientProgress, Command
from harness.processes import guard
from history.run_folder import Run

WORKER = program(f"{__package__}.worker_main")
"""The program of a worker; its arguments are the run folder and the slot."""


class WorkerProcess:
    """One worker process, a `WorkerHandle`. endpoint: where its clients find the cluster."""

    def __init__(self, run: Run, slot: int, endpoint: Endpoint, command: Sequence[str] = WORKER) -> None:
        self.slot = slot
        self.progress = ClientProgress()
        self.heard_ns = time.monotonic_ns()
        self.condemned = False
        self.log = run.journal / f"worker-{slot}.log"
        self._guard: guard.Guard | None = None
        with self.log.open("ab") as log:  # a successor adds to the last words of the one before
            self._process = subprocess.Popen(
                [*command, str(run.folder.resolve()), str(slot)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=Path.cwd(),
                env=environment(),
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.tell(endpoint)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit status (negative: signal), None while running."""
        return self._process.poll()

    def tell(self, command: Command | Endpoint) -> None:
        """Send a command, or first where the cluster is; no error where the worker has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # its pipe is broken, or closed
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()

    def pause(self) -> None:
        """SIGSTOP; returns when it was sent. No-op for a paused worker.

        Raises: OSError, where the worker is gone or its guard cannot be started.
        """
        if self._guard is not None:
            return
        try:
            self._guard = guard.pause(self.pid)
        except ProcessLookupError:
            gone = f"client {self.slot} could not be stopped: it is gone"
            raise ProcessLookupError(gone) from None

    def resume(self) -> None:
        """SIGCONT. No-op for a worker that is not paused, or has ended."""
        held, self._guard = self._guard, None
        if held is not None:
            self._process.send_signal(signal.SIGCONT)  # even if the guard was killed
            held.release()

    def strike(self) -> None:
        """SIGKILL, without waiting. A handler of signals must not wait: the code that it interrupted may hold
        the lock of `Popen.poll`."""
        self._process.kill()

    def close(self) -> None:
        """Wait for the end of the worker, and release its pipes and its guard; idempotent."""
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
        decoder = msgspec.json.Decoder(ClientProgress)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self.progress = decoder.decode(line)
                self.heard_ns = time.monotonic_ns()
            except msgspec.MsgspecError:
                continue  # a line cut off by the worker's death
