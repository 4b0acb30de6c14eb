"""The writer of `events.jsonl`, and the interrupts of a run.

`Recorder` may be used from any thread; each event is one unbuffered write. A write that fails (a full
disk) does not raise: the recording is broken from then on, `broken` says why, and the run is stopped.

Not here: what the events mean (`harness.events`).
"""

import contextlib
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from harness.events import Event, Note, encode


class Recorder:
    """Appends events to one file, which it holds locked: see `recording`."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._lock = threading.Lock()
        self.broken = ""

    def write(self, event: Event) -> None:
        """Append one event."""
        data = encode(event)
        with self._lock:
            if self.broken or self._handle < 0:
                return
            try:
                if os.write(self._handle, data) != len(data):
                    self.broken = "events.jsonl could not be written whole (disk full?)"
            except OSError as error:
                self.broken = f"events.jsonl: {error.strerror}"

    def note(self, text: str, *, incomplete: bool = False) -> None:
        """Append a `Note`."""
        self.write(Note(ns=time.monotonic_ns(), text=text, incomplete=incomplete))

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1


def recording(path: Path) -> bool:
    """Whether a Recorder, of any process that still lives, writes to this file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


class Interrupts:
    """SIGINT and SIGTERM while a run goes on.

    The first one sets `asked`: the run heals, stops, seals and checks what there is; while
    `immediate` is set (nothing was recorded yet) it raises KeyboardInterrupt instead. Each further
    one calls `second` (kill the workers).
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.immediate = True
        self.second: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, Any] = {}

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
        self.asked.set()
        if self.immediate:
            self.immediate = False  # what is raised now cleans up, and is not to be raised again
            raise KeyboardInterrupt
