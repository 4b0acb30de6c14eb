"""Memory of a check: whether a unit fits, freed blocks that stay, and work without the collector.

A unit is in memory whole while its kernels run; one that cannot fit is refused before anything is read.

Kernels take and free arrays of megabytes all the time. By default the C library gives such blocks back to the
operating system at once, which has to clear each page again when it is next used: a third of the processor
time of a check.
"""

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from core.errors import InquestError

TRIM_THRESHOLD: Final = -1
MMAP_THRESHOLD: Final = -3
ARENA_MAX: Final = -8
"""Parameters of glibc's `mallopt` (malloc.h)."""
BLOCK: Final = 32 << 20
"""Smaller blocks come from the heap; glibc takes no higher limit."""
KEPT: Final = 512 << 20
"""Free memory at the end of the heap that is kept."""


BYTES_A_ROW: Final = 120
"""What a task has in memory for each row of its unit, at its peak (docs/memory.md)."""
MEMINFO: Final = Path("/proc/meminfo")
CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def refuse_too_large(rows: int) -> None:
    """Refuse a unit of this many rows where this machine has too little memory for it.

    Raises: InquestError.
    """
    needed, there = rows * BYTES_A_ROW, available()
    if needed > there:
        raise InquestError(
            f"the largest unit of this history has {rows / 1e6:.1f} million rows: its check needs about"
            f" {needed / 2**30:.1f} GiB of memory, and {there / 2**30:.1f} GiB are available"
        )


def available() -> float:
    """Bytes that this process can take, as far as the system tells."""
    found = float("inf")
    with contextlib.suppress(OSError):
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        found = int(lines["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # "max": no limit
        found = min(found, int(CGROUP.read_text()))
    return found


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
