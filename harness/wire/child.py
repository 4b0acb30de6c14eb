"""A program that the harness holds by its standard input and output: a process of this machine, or one in a
container beside a broker (`harness.kafka.containers.sidecar`). It ends with its standard input.

What it sees it stamps with the monotonic clock, which is that of one boot of one machine (`boot`).
"""

import subprocess
from pathlib import Path
from typing import IO, Final, Protocol

from core.errors import ClusterError
from core.programs import environment, program

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
ELSEWHERE: Final = "it runs on another machine, whose clock is not that of this one"


class Child(Protocol):
    """What is used of `subprocess.Popen`."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    @property
    def pid(self) -> int:
        """Its process, as the machine that it runs on numbers it."""

    def poll(self) -> int | None:
        """Exit code; None = it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Exit code, once it has ended. Raises: subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """End it at once."""


def process(module: str) -> Child:
    """A module of this code as a process, in a session of its own. Raises: ClusterError."""
    try:
        return subprocess.Popen(
            program(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=environment(),
        )
    except OSError as error:
        raise ClusterError(f"{module} was not started: {error}") from error


def boot() -> str:
    """The id of this boot of this machine. Raises: OSError."""
    return BOOT.read_text().strip()
