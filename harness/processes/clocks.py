"""The clocks of this machine: whether they went apart (the time was set, or the machine slept), and which
machine that is: a monotonic clock is that of one boot of one machine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from core.runtime import ClockJump

WALL_S: Final = 0.005
"""Smaller steps of the wall's clock between two looks do not count: a daemon that keeps the time makes the
clock run slower by as much, and reading the clocks takes its time."""
SUSPENDED_S: Final = 0.1
CLOSE_NS: Final = 1_000_000
"""Clocks that were read within so little time were read at once."""
TRIES: Final = 100
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
ELSEWHERE: Final = "it runs on another machine, whose clock is not that of this one"


class ClockReading(NamedTuple):
    """The clocks at one moment, in ns."""

    monotonic: int
    wall: int
    boot: int


class Clocks:
    """Remembers the clocks as they were at the last look. read: them, now."""

    def __init__(self, read: Callable[[], ClockReading]) -> None:
        self._read = read
        self._before = read()

    def jump(self) -> ClockJump | None:
        """How far they went apart since the last look, None = not so far that it matters."""
        before, now = self._before, self._read()
        self._before = now
        passed = now.monotonic - before.monotonic
        wall_s = (now.wall - before.wall - passed) / 1e9
        suspended_s = (now.boot - before.boot - passed) / 1e9
        if abs(wall_s) < WALL_S and suspended_s < SUSPENDED_S:
            return None
        return ClockJump(before.monotonic, now.monotonic, round(wall_s, 3), round(max(0.0, suspended_s), 3))


def read() -> ClockReading:
    """The clocks of this machine, read at once: a thread that has to wait in between tries again."""
    for _ in range(TRIES):
        begin = time.monotonic_ns()
        found = ClockReading(begin, time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        if time.monotonic_ns() - begin <= CLOSE_NS:
            break
    return found


def boot() -> str:
    """The id of this boot of this machine. Raises: OSError."""
    return BOOT.read_text().strip()
