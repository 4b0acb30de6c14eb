"""Waiting in tests: for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
WAIT_S: Final = 240.0
"""Long enough for a whole run on a busy machine."""
PAUSE_S: Final = 0.01


def until(condition: Callable[[], T | None], what: str, seconds: float = WAIT_S) -> T:
    """The first true value of a condition. Fails with `what` where none comes in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(PAUSE_S)
    return value
