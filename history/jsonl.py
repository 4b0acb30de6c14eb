"""JSON Lines: files of one JSON value a line, appended as things happen and readable after any crash.

    log = Appender(path)
    log.append(event)                          # one unbuffered write
    events = decode(path.read_bytes(), DECODER, path.name)

A crash can cut off only the last line. The reader leaves a line without newline out; any other line that
it cannot read is damage, and refused.
"""

import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from core.errors import HistoryError
from history import storage

T = TypeVar("T")
_ENCODER = msgspec.json.Encoder()


def encode(values: Iterable[msgspec.Struct]) -> bytes:
    """Values as lines."""
    return b"".join(_ENCODER.encode(value) + b"\n" for value in values)


def decode(data: bytes, decoder: msgspec.json.Decoder[T], name: str) -> list[T]:
    """The values of all whole lines. name: of the file, for the message. Raises: HistoryError."""
    return list(values(io.BytesIO(data), decoder, name))


def values(lines: Iterable[bytes], decoder: msgspec.json.Decoder[T], name: str) -> Iterator[T]:
    """The values of all whole lines of an open file, one at a time. Raises: HistoryError."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            value = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HistoryError(f"{name} line {number} is damaged: {error}") from None
        except RecursionError:
            raise HistoryError(f"{name} line {number} is damaged: nested too deeply") from None
        yield value


class Appender:
    """Appends values to a file, each in one write, and holds the file locked until `close`.

    new: the file must not exist yet. Where it exists, a line that a crash cut off gets its newline, so that
    the next value begins a line of its own. Raises: FileExistsError; BlockingIOError, where another process
    holds the lock; OSError. A file system without locks is written without one.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_EXCL if new else 0)
        self._handle = os.open(path, flags, 0o644)
        try:
            self._lock()
            size = os.fstat(self._handle).st_size
            if size and os.pread(self._handle, 1, size - 1) != b"\n":
                self._write(b"\n")
        except BaseException:
            self.close()
            raise

    def append(self, value: msgspec.Struct) -> None:
        """Append one line. Raises: OSError (full disk), also where a part of it was written."""
        self._write(encode([value]))

    def sync(self) -> None:
        """Wait until what was appended outlives a crash of the machine. Raises: OSError."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file and release the lock; idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise  # every other one: a file system without locks

    def _write(self, data: bytes) -> None:
        """Write all of it: where a part is left (a full disk), the next write says why."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._handle, left) :]


def sync(folder: Path) -> None:
    """Wait until all that was written into the files of a folder outlives a crash of the machine, also what
    other processes wrote. Raises: OSError."""
    for path in (*sorted(folder.glob("*.jsonl")), *([folder] if folder.is_dir() else ())):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def being_written(path: Path) -> bool:
    """Whether an `Appender` of a living process has this file open; a store has no locks."""
    if storage.remote(path) is not None:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False
