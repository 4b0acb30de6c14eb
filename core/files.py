"""Small files of a recorded run, which may come from another person.

A pipe without a writer, a device, a file without an end: each is refused before it is read.
"""

import stat
from pathlib import Path
from typing import Final

from core.errors import HistoryError

SMALL_MOST: Final = 1 << 26
"""Bytes: more than any configuration or schedule has."""


def read_small(path: Path) -> bytes:
    """What the file holds. Raises: HistoryError, where it is missing, no file, or too large for one."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise HistoryError(f"{path}: not a file")
        if about.st_size > SMALL_MOST:
            raise HistoryError(f"{path}: {about.st_size} bytes, and at most {SMALL_MOST} make sense")
        return path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
