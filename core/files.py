"""Files that a person names: those that are read whole, and folders to write into.

A recorded run may come from another person. A pipe without a writer, a device, a file without an end: each is
refused before it is read.
"""

import errno
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.errors import ConfigError, HistoryError

SMALL_MOST: Final = 1 << 26
"""Bytes: more than any configuration or schedule has."""

UNUSABLE: Final = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Errors that say that another file or folder has to be named. A full disk is none of them."""


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


@contextmanager
def written_into(path: Path, what: str = "") -> Iterator[None]:
    """For a block that writes into a file or folder that the user named. what: it is, in words.

    Raises: ConfigError, where that cannot be written to at all; OSError, where the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in UNUSABLE:
            named = f"{what} {path}".lstrip()
            raise ConfigError(f"{named} cannot be written: {error.strerror}") from None
        raise
