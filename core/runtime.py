"""Time and tasks of a run. The run program is written once, as coroutines over a `Runtime`.

A *real* runtime (`harness.processes.real_time`) has the wall clock and threads; a *virtual* one
(`harness.modelled.virtual.scheduler`) has the simulator's scheduler. Every part of the harness that waits is
`async` and waits through a runtime or a clock, so the same code runs in both.

In a real run nothing suspends: `sleep`, `until`, the verbs of sessions and clusters block the calling thread
and return. There is no event loop, and `run_blocking` finishes such a coroutine with one `send(None)`. In a
virtual run the same coroutines suspend, and the scheduler resumes them at the virtual time they wait for.
That buys one client loop and one run program for both worlds; a coroutine that suspends in a real run is
a fault of the harness, and `run_blocking` raises `Suspended`.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

STEP_S = 0.05
"""Distance between two looks of `Runtime.until` at its condition."""


class Clock(Protocol):
    """Time as a client or a nemesis sees it."""

    def now_ns(self) -> int:
        """Monotonic time in ns (CLOCK_MONOTONIC of the host in a real run)."""

    async def sleep(self, seconds: float) -> None:
        """Wait; returns early when the run is being stopped."""


class Signal(Protocol):
    """Set once, never cleared. Safe to set from any thread and from a handler of signals."""

    def set(self) -> None:
        """Wake everything that waits for it."""

    def is_set(self) -> bool:
        """Whether it was set."""

    async def wait(self) -> None:
        """Return once it is set."""


class ClockJump(NamedTuple):
    """The clocks went apart between two looks at them, both in ns of the monotonic one. wall_s: seconds by
    which the wall's clock went further than it; suspended_s: for which the machine slept."""

    before_ns: int
    ns: int
    wall_s: float
    suspended_s: float


class SpawnedTask(Protocol):
    """A coroutine that runs beside the run program."""

    async def join(self) -> None:
        """Return once it has ended."""


class Runtime(Protocol):
    """Time and tasks of one run. An exception that ends a spawned task ends the whole run: the next wait of
    the run program raises it."""

    @property
    def interrupted(self) -> bool:
        """The user asked for the end of the run."""

    def hold_interrupts(self) -> None:
        """From now on something is recorded: an interrupt no longer ends the program at once, but sets
        `interrupted`."""

    def now_ns(self) -> int:
        """Monotonic time in ns; the clock of the whole history."""

    def clock_jump(self) -> ClockJump | None:
        """Whether the clocks of the machine went apart since the last call, None = they did not."""

    def signal(self) -> Signal:
        """A new signal, not set."""

    def clock(self, stop: Signal) -> Clock:
        """A clock whose sleeps end early once `stop` is set."""

    def spawn(self, name: str, work: Coroutine[object, None, None]) -> SpawnedTask:
        """Run `work` beside the caller. name: for people who debug."""

    async def attend(self, task: SpawnedTask, give_up: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until a task has ended; whether it has. Where waiting can take for ever, `give_up` is asked
        every `STEP_S`, and ends it."""

    async def until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Wait until `condition()` holds or the deadline has passed; whether it held when asked last. It is
        asked every `STEP_S`, and at least once."""


class Suspended(Exception):
    """A coroutine suspended in a real run: a fault of the harness (exit 70)."""


def run_blocking(work: Coroutine[object, None, T]) -> T:
    """Finish a coroutine that never suspends; its result.

    Raises: Suspended, where it does suspend; whatever it raises.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise Suspended("a coroutine suspended in a real run")
