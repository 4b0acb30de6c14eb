"""The real runtime: the wall clock, threads, and the signals of the user.

Nothing here suspends: each wait blocks its thread (see `core.runtime`).
"""

import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

from core.runtime import STEP_S, Clock, ClockJump, Signal, SpawnedTask, run_blocking
from harness.processes.clocks import Clocks, read
from harness.processes.interrupts import Interrupts


@dataclass(frozen=True, slots=True)
class RealSignal:
    """See `core.runtime.Signal`."""

    event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        """Wake everything that waits for it."""
        self.event.set()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self.event.is_set()

    async def wait(self) -> None:
        """Block until it is set."""
        self.event.wait()


@dataclass(frozen=True, slots=True)
class RealClock:
    """See `core.runtime.Clock`."""

    stop: RealSignal

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        """Block, at most until `stop` is set."""
        if seconds > 0:
            self.stop.event.wait(seconds)


@dataclass(frozen=True, slots=True)
class ThreadTask:
    """See `core.runtime.SpawnedTask`."""

    thread: threading.Thread

    async def join(self) -> None:
        """Block until the thread has ended."""
        self.thread.join()


class RealRuntime:
    """See `core.runtime.Runtime`. interrupts: those of the run, None = it cannot be interrupted."""

    def __init__(self, interrupts: Interrupts | None = None) -> None:
        self._interrupts = interrupts
        self._failed: BaseException | None = None
        self._clocks = Clocks(read)

    @property
    def interrupted(self) -> bool:
        """The user pressed Ctrl-C, or sent SIGTERM."""
        return self._interrupts is not None and self._interrupts.asked.is_set()

    def hold_interrupts(self) -> None:
        """From now on an interrupt only sets `interrupted`."""
        if self._interrupts is not None:
            self._interrupts.immediate = False

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def clock_jump(self) -> ClockJump | None:
        """Of the clocks of this machine."""
        return self._clocks.jump()

    def signal(self) -> RealSignal:
        """A new signal."""
        return RealSignal()

    def clock(self, stop: Signal) -> Clock:
        """A clock that `stop` wakes."""
        assert isinstance(stop, RealSignal)
        return RealClock(stop)

    def spawn(self, name: str, work: Coroutine[object, None, None]) -> ThreadTask:
        """Start a thread; the process does not wait for it at its end."""

        def body() -> None:
            try:
                run_blocking(work)
            except BaseException as error:  # noqa: BLE001 - `until` raises it in the run program
                self._failed = self._failed or error

        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return ThreadTask(thread)

    async def attend(self, task: SpawnedTask, give_up: Callable[[], Awaitable[bool]]) -> bool:
        """Block until the task has ended, or `give_up` says so. Raises: what ended a task."""
        assert isinstance(task, ThreadTask)
        while task.thread.is_alive():
            if await give_up():
                return False
            task.thread.join(STEP_S)
        if self._failed is not None:
            raise self._failed
        return True

    async def until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Block until the condition holds or the deadline has passed. Raises: what ended a task."""
        ends = time.monotonic() + deadline_s
        while not (holds := condition()):
            if self._failed is not None:
                raise self._failed
            left = ends - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(STEP_S, left))
        return holds
