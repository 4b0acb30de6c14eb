"""What the Python programs beside this one do with a call of librdkafka that never returns: begin anew."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Begin anew where this takes longer: a call that does not return would keep its partitions for ever."""
    hangs = threading.Timer(seconds, begin_anew)
    hangs.daemon = True
    hangs.start()
    try:
        yield
    finally:
        hangs.cancel()


def begin_anew() -> None:
    """The same program in the place of this one. Its producer aborts what was open, and what it had not
    committed comes again."""
    print("a call does not return: the program begins anew", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv])
