"""SIGINT and SIGTERM while a run, a soak or an exploration is under way."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """Handles both signals between `__enter__` and `__exit__`.

    The first signal sets `asked` and calls `first`; each further one calls `second`. While `immediate` is
    set the first one also raises KeyboardInterrupt.

    A run sets `immediate` until it has recorded something; afterwards it heals, stops, seals and checks what
    it recorded, and kills its clients at the second signal. A soak passes every signal on to its run. An
    exploration ends with the first one.
    """

    def __init__(self, *, immediate: bool = True) -> None:
        self.asked = threading.Event()
        self.immediate = immediate
        self.first: Callable[[], None] = lambda: None
        self.second: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.second()
        else:
            self.asked.set()
            self.first()
        if self.immediate:
            self.immediate = False  # the exception cleans up, and must not be raised again meanwhile
            raise KeyboardInterrupt
