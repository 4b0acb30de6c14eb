"""One run of a soak: a process of its own, watched, ended where it takes too long, and cleared up after.

The process has a session of its own, so that a Ctrl-C reaches it only through the soak; and the kernel
ends it when the soak dies, so that a resumed night never meets a run of its past.

Not here: which run (`choice`), what is kept of it (`keep`).
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from harness.config import RunConfig
from harness.night import Task
from harness.store import OWNER

COMMAND: list[str] = [sys.executable, "-m", "harness.cli"]
"""How `inquest` is called."""
SLACK_S = 300.0
"""For starting the cluster and for the check, above all the deadlines of a run."""
PATIENCE_S = 120.0
"""After SIGINT a run heals, seals and checks; then it is ended by SIGKILL."""
POLL_S = 0.1
_SET_PDEATHSIG = 1
_HIDDEN = ("GITHUB_STEP_SUMMARY",)
"""Variables that are not for single runs: the night writes one summary."""


def command(task: Task, results: Path, options: Sequence[str]) -> list[str]:
    """The command line of a run."""
    words = [
        *COMMAND, "run", "--workload", task.workload, "--nemesis", task.nemesis,
        "--preset", task.preset, "--seed", str(task.seed), "--results", str(results), *options,
    ]  # fmt: skip
    for name, value in task.settings.items():
        words += ["--set", f"{name}={msgspec.json.encode(value).decode()}"]
    return words


def bound_s(config: RunConfig) -> float:
    """Seconds after which a run has hung."""
    return (
        config.duration_s
        + config.recovery_deadline_s
        + config.final_deadline_s
        + config.transaction_timeout_s
        + 6 * config.verb_deadline_s
        + SLACK_S
    )


class Interrupts:
    """SIGINT and SIGTERM while the soak goes on: each is passed on to the run as SIGINT, whose own rules
    then hold (the first: heal, seal, check; the second: kill the clients)."""

    def __init__(self) -> None:
        self.asked = False
        self.run: subprocess.Popen[bytes] | None = None
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, *_: object) -> None:
        self.asked = True
        if self.run is not None and self.run.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.run.pid, signal.SIGINT)


def run(
    words: Sequence[str], log: Path, limit_s: float, interrupts: Interrupts, *, owner: str = ""
) -> tuple[int, bool]:
    """Run a command to its end: its exit code (negative: a signal), and whether it took too long.

    log: file that gets what it says. owner: `night.owner`, which the run writes into its folder.
    Raises: OSError, where it cannot be started.
    """
    with log.open("wb") as output:
        process = _start(words, output, owner)
        interrupts.run = process
        try:
            if interrupts.asked:  # while it was being started
                os.kill(process.pid, signal.SIGINT)
            return _await(process, limit_s, interrupts)
        finally:
            _kill(process)
            interrupts.run = None


def _start(words: Sequence[str], output: IO[bytes], owner: str) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None, use_errno=True)
    soak = os.getpid()

    def die_with_the_soak() -> None:
        libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != soak:
            os._exit(1)

    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=die_with_the_soak,
        env={n: value for n, value in os.environ.items() if n not in _HIDDEN} | {OWNER: owner},
    )


def _await(
    process: subprocess.Popen[bytes], limit_s: float, interrupts: Interrupts
) -> tuple[int, bool]:
    end = time.monotonic() + limit_s
    if not _until(lambda: interrupts.asked, process, end):
        late = not interrupts.asked and process.poll() is None
        if late:
            os.kill(process.pid, signal.SIGINT)
        _until(lambda: False, process, time.monotonic() + PATIENCE_S)
        return _kill(process), late
    return process.wait(), False


def _until(stop: Callable[[], bool], process: subprocess.Popen[bytes], end: float) -> bool:
    """Wait for the end of the process; false where `stop` or the end of patience came first."""
    while not stop() and time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
            return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> int:
    """End the process with all of its group, if it still runs; its exit code."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
