"""The virtual runtime: the clock, tasks and waits of a simulated run, over its scheduler."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from core.runtime import STEP_S, Signal
from harness.simulation.scheduler import Future, Scheduler


class VirtualSignal(Future[None]):
    """See `core.runtime.Signal`."""

    def set(self, value: None = None) -> None:
        """Wake everything that waits for it."""
        super().set(value)

    def is_set(self) -> bool:
        """Whether it was set."""
        return self.done

    async def wait(self) -> None:
        """Suspend until it is set."""
        await self


@dataclass(frozen=True, slots=True)
class VirtualClock:
    """See `core.runtime.Clock`."""

    scheduler: Scheduler
    stop: VirtualSignal

    def now_ns(self) -> int:
        """Virtual time."""
        return self.scheduler.ns

    async def sleep(self, seconds: float) -> None:
        """Suspend, at most until `stop` is set."""
        if seconds <= 0 or self.stop.done:
            return
        woken: Future[None] = Future()
        self.scheduler.after(int(seconds * 1e6), woken.set, None)
        self.stop.then(lambda: woken.set(None))
        await woken


class VirtualRuntime:
    """See `core.runtime.Runtime`. interrupted: set by tests, as no user interrupts virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.interrupted = False
        self._scheduler = scheduler

    def hold_interrupts(self) -> None:
        """Nothing to do."""

    def now_ns(self) -> int:
        """Virtual time."""
        return self._scheduler.ns

    def signal(self) -> VirtualSignal:
        """A new signal."""
        return VirtualSignal()

    def clock(self, stop: Signal) -> VirtualClock:
        """A clock that `stop` wakes."""
        assert isinstance(stop, VirtualSignal)
        return VirtualClock(self._scheduler, stop)

    def spawn(self, name: str, work: Coroutine[object, None, None]) -> Future[None]:
        """A task of the scheduler, which stops the whole run where the task raises."""
        return self._scheduler.spawn(work)

    async def until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Suspend until the condition holds or the deadline has passed."""
        scheduler = self._scheduler
        ends = scheduler.now + int(deadline_s * 1e6)
        step = int(STEP_S * 1e6)
        while not (holds := condition()) and scheduler.now < ends:
            await scheduler.sleep(min(step, ends - scheduler.now))
        return holds
