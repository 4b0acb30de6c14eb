"""The cache folder of this user: resolved jars, locks. Everything in it can be deleted."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import ClusterError


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/inquest`, else `~/.cache/inquest`; made when missing.

    Raises: ClusterError, where it cannot be written.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "inquest"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ClusterError(
            f"the cache folder {folder} cannot be written ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that this user can write"
        ) from error
    return folder


@contextmanager
def locked(what: str | Path) -> Iterator[None]:
    """Hold a lock against all other processes; waits without a limit. what: a name in this user's cache, or
    the lock's own file.

    The kernel lets go of it when the process ends, however it ends.
    """
    path = what if isinstance(what, Path) else cache_folder() / f"{what}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
