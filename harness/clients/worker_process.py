"""Worker processes as their parent holds them: start, command, listen, pause, end.

A paused worker is resumed as soon as the harness is gone, by whatever death: it then sees the end of its
stdin, and ends.
"""

import signal
import time
from collections.abc import Sequence

from core.cluster import PROGRAM_LOST, Endpoint
from core.programs import program
from core.secrets import hide, secrets_of, without
from harness.clients.application.named import log_of
from harness.clients.worker_protocol import ClientProgress, Command, WorkerLine
from harness.processes.child import Child, start, tail
from harness.processes.guard import Guard
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
        self._program_log = log_of(run.application, slot)
        self._secrets = secrets_of(endpoint.args)
        running = start([*command, str(run.folder.resolve()), str(slot)], log=self.log)
        self._child = Child(running, f"client {slot}", WorkerLine, self._hear)
        self.tell(endpoint)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    @property
    def ended(self) -> int | None:
        """Exit status (negative: signal), None while running."""
        return self._child.ended

    @property
    def paused(self) -> Guard | None:
        """Who resumes it if the harness dies; None = it is not paused."""
        return self._child.paused

    def tell(self, command: Command | Endpoint) -> None:
        """Send a command, or first where the cluster is; no error where the worker has ended."""
        self._child.tell(command)

    def pause(self) -> None:
        """SIGSTOP; returns when it stands still. No-op for a paused worker.

        Raises: OSError, where the worker is gone or its guard cannot be started.
        """
        try:
            self._child.pause()
        except ProcessLookupError:
            gone = f"client {self.slot} could not be stopped: it is gone"
            raise ProcessLookupError(gone) from None

    def resume(self) -> None:
        """SIGCONT. No-op for a worker that is not paused, or has ended."""
        self._child.resume()

    def strike(self) -> None:
        """SIGKILL to its group, without waiting: safe in a handler of signals."""
        self._child.signal(signal.SIGKILL)

    def close(self) -> None:
        """Wait for the end of the worker, and release its pipes and its guard; idempotent. Programs of the
        user's know the secrets of the cluster: what they wrote is kept without these, or not at all."""
        self._child.close()
        for log in (self.log, self._program_log) if self._secrets else ():
            try:
                hide(log, lambda text: without(text, self._secrets))
            except FileNotFoundError:
                continue
            except OSError:
                log.unlink(missing_ok=True)
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def why_ended(self) -> str:
        """What its exit status and last words say."""
        status = self.ended
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        words = self.last_words()
        if status in PROGRAM_LOST and words:
            return words
        return f"ended with status {status}" + (f": {words}" if words else "")

    def last_words(self) -> str:
        """The last line that it wrote to stderr, "" = none."""
        return without(tail(self.log).strip().rpartition("\n")[2], self._secrets)

    def _hear(self, line: WorkerLine) -> None:
        self.progress = line.progress
        self.heard_ns = time.monotonic_ns()
