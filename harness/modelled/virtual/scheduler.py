"""Virtual time: a heap of (time, sequence, call), tasks that wait for it, and the runtime of a simulated run.

A task is a coroutine that awaits `Future`s; nothing else suspends. Two calls that are due at the same
time run in the order in which they were asked for. No thread, no asyncio, no clock of this machine.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from core.runtime import STEP_S, ClockJump, Signal, SpawnedTask
from harness.modelled.shared.base_time import BASE_NS

T = TypeVar("T")


class Future(Generic[T]):
    """A result that is there later. Set once; a second `set` is ignored."""

    __slots__ = ("_then", "done", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: T | None = None
        self._then: list[Callable[[], None]] = []

    def set(self, value: T) -> None:
        """Set the result, and wake every task that waits for it."""
        if self.done:
            return
        self.done, self.value = True, value
        waiting, self._then = self._then, []
        for call in waiting:
            call()

    def then(self, call: Callable[[], None]) -> None:
        """Call when the result is there."""
        if self.done:
            call()
        else:
            self._then.append(call)

    def forget(self, call: Callable[[], None]) -> None:
        """Do not make this call, where it is still to be made."""
        if call in self._then:
            self._then.remove(call)

    async def join(self) -> T:
        """Suspend until the result is there (`core.runtime.SpawnedTask`)."""
        return await self

    def __await__(self) -> Generator["Future[T]", None, T]:
        if not self.done:
            yield self
        return self.value  # type: ignore[return-value]


class Expiring(Protocol):
    """What waits for something, and gives up after some time."""

    waits: bool
    """It still does."""

    def give_up(self) -> None:
        """The time has come."""


class Scheduler:
    """`now`: microseconds since the run began."""

    __slots__ = ("_expiring", "_heap", "_sequence", "events", "failed", "now")

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        """Calls made so far."""
        self.failed: BaseException | None = None
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._expiring: dict[int, deque[tuple[int, int, Expiring]]] = {}
        self._sequence = 0

    @property
    def ns(self) -> int:
        """Now, as all clocks of the simulation tell it."""
        return BASE_NS + self.now * 1000

    def at(self, time: int, call: Callable[..., None], *arguments: object) -> None:
        """Call at a time (now, where that has passed)."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (time if time > self.now else self.now, sequence, call, arguments))

    def after(self, microseconds: int, call: Callable[..., None], *arguments: object) -> None:
        """Call after some time."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now + microseconds, sequence, call, arguments))

    def expire(self, microseconds: int, waiting: Expiring) -> None:
        """Let it give up after some time, unless it waits no more by then.

        Most requests are answered long before. So they queue by how long they wait, in the order of their
        times, and only the first of each queue stands among the calls.
        """
        self._sequence = sequence = self._sequence + 1
        queue = self._expiring.get(microseconds)
        if queue is None:
            queue = self._expiring[microseconds] = deque()
        queue.append((self.now + microseconds, sequence, waiting))
        if len(queue) == 1:
            heappush(self._heap, (self.now + microseconds, sequence, self._expire, (queue,)))

    def _expire(self, queue: "deque[tuple[int, int, Expiring]]") -> None:
        _, _, waiting = queue.popleft()
        while queue and not queue[0][2].waits:
            queue.popleft()
        if queue:
            heappush(self._heap, (*queue[0][:2], self._expire, (queue,)))
        if waiting.waits:
            waiting.give_up()

    def sleep(self, microseconds: int) -> Future[None]:
        """A future that is set after some time."""
        future: Future[None] = Future()
        self.after(max(0, microseconds), future.set, None)
        return future

    def spawn(self, task: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a task from now on; its result. A task that raises stops the whole run."""
        result: Future[T] = Future()

        def step() -> None:
            try:
                waits_for = task.send(None)
            except StopIteration as ended:
                result.set(ended.value)
            except BaseException as error:  # noqa: BLE001 (`run` raises it again)
                self.failed = self.failed or error
            else:
                waits_for.then(lambda: self.at(self.now, step))

        self.at(self.now, step)
        return result

    def run(self, until: Future[Any] | None = None, *, limit: int = 2**62) -> bool:
        """Make calls until the future is set, nothing is left, or the time limit; whether it is set.

        Raises: whatever a task or a call raised.
        """
        heap = self._heap
        while heap and (until is None or not until.done):
            if heap[0][0] > limit:
                break
            time, _, call, arguments = heappop(heap)
            self.now = time
            self.events += 1
            call(*arguments)
            if self.failed is not None:
                raise self.failed
        return until is not None and until.done


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
        wake = partial(woken.set, None)
        self.scheduler.after(int(seconds * 1e6), wake)
        self.stop.then(wake)
        await woken
        self.stop.forget(wake)


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

    def clock_jump(self) -> ClockJump | None:
        """There is one clock only."""
        return None

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

    async def attend(self, task: SpawnedTask, give_up: Callable[[], Awaitable[bool]]) -> bool:
        """Suspend until the task has ended: nothing takes for ever in virtual time."""
        await task.join()
        return True

    async def until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Suspend until the condition holds or the deadline has passed."""
        scheduler = self._scheduler
        ends = scheduler.now + int(deadline_s * 1e6)
        step = int(STEP_S * 1e6)
        while not (holds := condition()) and scheduler.now < ends:
            await scheduler.sleep(min(step, ends - scheduler.now))
        return holds
