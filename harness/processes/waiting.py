"""Waiting: with a deadline for something that is not there yet, and for several things done at once.

Never for a client's operation: trying one again would change the history that is judged.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from core.errors import ClusterError, InquestError

T = TypeVar("T")
R = TypeVar("R")


class NotYet(ClusterError):
    """Not there now, but worth another look. The message says what is missing."""


@contextmanager
def not_yet(kind: type[InquestError]) -> Iterator[None]:
    """Around a block, or a function: an error of this kind is a NotYet."""
    try:
        yield
    except kind as error:
        raise NotYet(str(error)) from error


def until(deadline_s: float, pause_s: float, look: Callable[[], T]) -> T:
    """What `look` returns, once it no longer raises NotYet; at least one look, `pause_s` between two.

    Raises: the last NotYet, when `deadline_s` have passed; every other error at once.
    """
    return Retrying(
        stop=stop_after_delay(deadline_s),
        wait=wait_fixed(pause_s),
        retry=retry_if_exception_type(NotYet),
        reraise=True,
    )(look)


def on_each(action: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """Do it to all at once; what each returned. All are tried before the first error is raised."""
    with ThreadPoolExecutor(max(len(things), 1)) as pool:
        done = [pool.submit(action, thing) for thing in things]
    return [future.result() for future in done]
