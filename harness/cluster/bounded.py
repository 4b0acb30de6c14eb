"""Calls of confluent-kafka that keep no deadline of their own, made in a thread that may be left.

A call that is left behind still runs: it may take effect, and its client may not be used or closed
before it has ended.

Not here: which calls these are (`producer`, `consumer`).
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Expired(Exception):
    """The call did not end in time; `thread` still runs it."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__(thread.name)
        self.thread = thread


def bounded(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns or raises, if it ends in so many seconds.

    Raises: Expired, where it does not.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=f"bounded {function!r}", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Expired(thread)
    return results[0]
