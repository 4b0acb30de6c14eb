"""Work in tasks, wherever they run: the one seam between what is to be done and the engine that does it.

    workers.map(stage, work)        # work(0), work(1), … : one call for each size of the stage

`work` is a picklable value that holds what all tasks share; a task is its number. `Here` runs tasks in this
process; `checkers.engine.spark_workers.SparkWorkers` makes a Spark task of each. What tasks hand back is
small: what is large goes into the scratch.
"""

import hmac
import itertools
import os
import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from core.errors import HistoryError
from core.progress import Progress, ProgressStage, Watch, unwatched
from history import storage

T = TypeVar("T")

THREADS: Final = 4
"""Tasks at a time in this process, at most. Each has its rows in memory."""
KEY_BYTES: Final = 32
SIGNED_BY: Final = "sha256"
SIGNATURE: Final = 32
"""Bytes of a signature."""


Kept = Any
"""What a scratch gives for what was written into it, and wants where that is read."""


class Scratch(Protocol):
    """Where tasks of one job leave what is too large for an answer. `write` and `write_rows` say what `read`
    and `read_rows` have to be given, by the same task or any other.

    Raises: OSError; HistoryError, where what is read is not what was written.
    """

    def write(self, name: str, value: object) -> Kept:
        """Keep a value under a name that no other one has."""

    def read(self, kept: Kept) -> Any:
        """A value."""

    def write_rows(self, name: str, rows: pa.Table, counts: Sequence[int]) -> Kept:
        """Keep a table in pieces. counts: rows of each."""

    def read_rows(self, kept: Kept, pieces: Sequence[int]) -> pa.Table:
        """Some of the pieces of a table, by their numbers."""


class Memory:
    """A scratch of tasks in this process: what was written is what is read."""

    def write(self, name: str, value: object) -> Kept:
        """See `Scratch`."""
        return value

    def read(self, kept: Kept) -> Any:
        """See `Scratch`."""
        return kept

    def write_rows(self, name: str, rows: pa.Table, counts: Sequence[int]) -> Kept:
        """See `Scratch`."""
        return _pieces(rows, counts)

    def read_rows(self, kept: Kept, pieces: Sequence[int]) -> pa.Table:
        """See `Scratch`."""
        return pa.concat_tables([kept[number] for number in pieces])


@dataclass(frozen=True, slots=True)
class Files:
    """A scratch in a folder which all tasks reach.

    Who can write there must not be able to run code here, as a pickle does: each is signed with a key that
    the caller draws and gives to tasks with their work, and nothing else is unpickled. folder: as
    `storage.shared` names it.
    """

    folder: str
    key: bytes = field(repr=False)

    def write(self, name: str, value: object) -> str:
        """See `Scratch`."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        return self._write(f"{name}.pickle", signed(data, self.key))

    def read(self, kept: str) -> Any:
        """See `Scratch`. Raises: HistoryError, also where another program wrote there."""
        held = storage.read_bytes(storage.location(kept))
        signature, data = held[:SIGNATURE], held[SIGNATURE:]
        if not hmac.compare_digest(signature, hmac.digest(self.key, data, SIGNED_BY)):
            raise HistoryError(f"{kept}: another program wrote into this folder while it was in use")
        return pickle.loads(data)

    def write_rows(self, name: str, rows: pa.Table, counts: Sequence[int]) -> str:
        """See `Scratch`: one batch a piece."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
            for piece in _pieces(rows, counts):
                writer.write_table(piece)
        return self._write(f"{name}.arrow", sink.getvalue().to_pybytes())

    def read_rows(self, kept: str, pieces: Sequence[int]) -> pa.Table:
        """See `Scratch`."""
        try:
            with storage.arrow_source(storage.location(kept)) as source:
                reader = pa.ipc.open_file(source)
                return pa.Table.from_batches([reader.get_batch(number) for number in pieces])
        except pa.ArrowException as error:
            raise HistoryError(f"{kept}: {storage.line(error)}") from None

    def _write(self, name: str, data: bytes) -> str:
        path = storage.location(self.folder) / name
        storage.write_whole(path, data)
        return storage.shared(path)


def _pieces(rows: pa.Table, counts: Sequence[int]) -> list[pa.Table]:
    whole, ends = rows.combine_chunks(), itertools.accumulate(counts)
    return [whole.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]


def signed(data: bytes, key: bytes) -> bytes:
    """The data behind its signature."""
    return hmac.digest(key, data, SIGNED_BY) + data


@contextmanager
def files_in(folder: Path) -> Iterator[Files]:
    """A scratch in a new folder, which goes at the end. Raises: OSError."""
    storage.make_folder(folder)
    try:
        yield Files(storage.shared(folder), secrets.token_bytes(KEY_BYTES))
    finally:
        storage.remove(folder)


class Workers(Protocol):
    """What runs tasks.

    title: in a reader's words, as "this process". done: tasks that have ended. apart: tasks run in other
    processes, so they read files, not this process's memory. scratch: for what they keep.
    """

    title: str
    done: int
    apart: bool
    scratch: Scratch

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """What `work` answers to the number of each task of a stage, in this order.

        Raises: HistoryError and OSError, where a task did; SparkError, where the engine failed or a task
        crashed.
        """


class Here:
    """Tasks in this process: some at a time, for numpy and pyarrow do not hold Python's lock."""

    def __init__(self, watch: Watch = unwatched) -> None:
        self.title = "this process"
        self.done = 0
        self.apart = False
        self.scratch: Scratch = Memory()
        self._watch = watch

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
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
