"""A scheduler of virtual time that keeps step with the clock of this machine, in a thread of its own."""

import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.scheduler import Scheduler

T = TypeVar("T")

STEP_S = 0.001
TIMES = ("ns", "begin_ns")
"""Fields that are times of a clock."""


class RealTime:
    """`call` and `do` may be used from any thread but the scheduler's."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self._lock = threading.Condition()
        self._over = False
        self._began = 0

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Do this first, as fast as it goes; then keep step with the clock. Raises: what the work raises."""
        done = self.scheduler.spawn(work)
        assert self.scheduler.run(done)
        self._began = time.monotonic_ns() - self.scheduler.now * 1000
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """Nothing happens from now on."""
        with self._lock:
            self._over = True
            self._lock.notify_all()

    def _run(self) -> None:
        with self._lock:
            while not self._over:
                self._keep_step()
                self._lock.wait(STEP_S)

    def _keep_step(self) -> None:
        now = (time.monotonic_ns() - self._began) // 1000
        self.scheduler.run(limit=now)
        self.scheduler.now = max(self.scheduler.now, now)

    def do(self, work: Callable[[], T]) -> T:
        """The result of something that takes no time."""
        with self._lock:
            self._keep_step()
            return self.in_real_time(work())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a verb. Raises: what it raises."""
        done = threading.Event()

        async def ended() -> tuple[T | None, Exception | None]:
            try:
                return await work, None
            except Exception as error:  # noqa: BLE001 - it is raised where the verb was called
                return None, error

        with self._lock:
            self._keep_step()
            told = self.scheduler.spawn(ended())
            told.then(done.set)
            self._lock.notify_all()
        done.wait()
        assert told.value is not None
        result, error = told.value
        if error is not None:
            raise error
        return self.in_real_time(result)  # type: ignore[return-value]

    def in_real_time(self, value: T) -> T:
        """The value with the times of this machine's clock."""
        found: Any = value
        if isinstance(found, list):
            return [self.in_real_time(one) for one in found]  # type: ignore[return-value]
        by = self._began - BASE_NS
        times = {name: getattr(found, name) + by for name in TIMES if hasattr(found, name)}
        if not times:
            return value
        changed: Any = msgspec.structs.replace if isinstance(found, msgspec.Struct) else replace
        return changed(found, **times)  # type: ignore[no-any-return]
