"""Memory that kernels free stays with the process; work without cycles of references needs no collector.

Kernels take and free arrays of megabytes all the time. By default the C library gives such blocks back to the
operating system at once, which has to clear each page again when it is next used: a third of the processor
time of a check.
"""

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from functools import cache
from typing import Final

import pyarrow as pa

TRIM_THRESHOLD: Final = -1
MMAP_THRESHOLD: Final = -3
ARENA_MAX: Final = -8
"""Parameters of glibc's `mallopt` (malloc.h)."""
BLOCK: Final = 32 << 20
"""Smaller blocks come from the heap; glibc takes no higher limit."""
KEPT: Final = 512 << 20
"""Free memory at the end of the heap that is kept."""


@cache
def keep_freed() -> None:
    """Keep freed blocks from here on; without effect where the C library is not glibc."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, BLOCK)
        mallopt(TRIM_THRESHOLD, KEPT)
        mallopt(ARENA_MAX, 1)
        pa.set_memory_pool(pa.system_memory_pool())


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of references meanwhile, for work that makes millions of objects and no cycle: the
    collector looks at them again and again, for a tenth of the time or more."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
