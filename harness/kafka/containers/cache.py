"""The cache folder of this user: resolved jars, locks. Everything in it can be deleted."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/inquest`, else `~/.cache/inquest`; made when missing."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "inquest"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock `name` against all processes of this user; waits without a limit.

    The kernel lets go of it when the process ends, however it ends.
    """
    with (cache_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
