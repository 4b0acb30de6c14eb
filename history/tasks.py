"""Work in tasks, wherever they run: the one seam between what is to be done and the engine that does it.

    workers.map(stage, work)        # work(0), work(1), … : one call for each size of the stage

`work` is a picklable value that holds what all tasks share; a task is its number. `Here` runs tasks in this
process; `checkers.engine.spark_workers.SparkWorkers` makes a Spark task of each. What tasks hand back is
small: what is large goes into files of the scratch.
"""

import hmac
import itertools
import os
import pickle
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from core.errors import HistoryError
from core.progress import Progress, Stage, Watch, unwatched
from history import storage

T = TypeVar("T")

THREADS: Final = 4
"""Tasks at a time in this process, at most. Each has its rows in memory."""
KEY_BYTES: Final = 32
SIGNED_BY: Final = "sha256"
SIGNATURE: Final = 32
"""Bytes of a signature."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for pickles of one job, which all its tasks reach.

    Who can write there must not be able to run code here, as a pickle does: each is signed with a key that
    the caller draws and gives to tasks with their work, and nothing else is unpickled. folder: as
    `storage.shared` names it.
    """

    folder: str
    key: bytes = field(repr=False)

    def write(self, name: str, value: object) -> str:
        """Keep a value; its path. Raises: OSError."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        path = storage.location(self.folder) / f"{name}.pickle"
        storage.write_whole(path, signed(data, self.key))
        return storage.shared(path)

    def read(self, path: str) -> Any:
        """What `write` kept. Raises: HistoryError, where another program wrote there; OSError."""
        held = storage.read_bytes(storage.location(path))
        signature, data = held[:SIGNATURE], held[SIGNATURE:]
        if not hmac.compare_digest(signature, hmac.digest(self.key, data, SIGNED_BY)):
            raise HistoryError(f"{path}: another program wrote into this folder while it was in use")
        return pickle.loads(data)


def signed(data: bytes, key: bytes) -> bytes:
    """The data behind its signature."""
    return hmac.digest(key, data, SIGNED_BY) + data


@contextmanager
def scratch_in(folder: Path) -> Iterator[Scratch]:
    """A scratch in a new folder, which goes at the end. Raises: OSError."""
    storage.make_folder(folder)
    try:
        yield Scratch(storage.shared(folder), secrets.token_bytes(KEY_BYTES))
    finally:
        storage.remove(folder)


class Workers(Protocol):
    """What runs tasks.

    title: in a reader's words, as "this process". done: tasks that have ended. scratch: where tasks leave
    what is too large for an answer; None = they share this process's memory.
    """

    title: str
    done: int
    scratch: Scratch | None

    def map(self, stage: Stage, work: Callable[[int], T]) -> list[T]:
        """What `work` answers to the number of each task of a stage, in this order.

        Raises: HistoryError and OSError, where a task did; SparkError, where the engine failed or a task
        crashed.
        """


class Here:
    """Tasks in this process: some at a time, for numpy and pyarrow do not hold Python's lock."""

    def __init__(self, watch: Watch = unwatched) -> None:
        self.title = "this process"
        self.done = 0
        self.scratch: Scratch | None = None
        self._watch = watch

    def map(self, stage: Stage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`. A task that crashes raises what it raised."""
        ended, sizes = itertools.count(1), [0]

        def run(number: int) -> T:
            answer = work(number)
            sizes.append(stage.sizes[number])
            self._watch(Progress(stage=stage, tasks=next(ended), done=sum(sizes)))
            return answer

        with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as threads:
            try:
                answers = list(threads.map(run, range(len(stage.sizes))))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        self.done += len(answers)
        return answers
