"""Where run folders lie: this machine's files, or any store that fsspec reaches by a URL.

    location("results/latest")          a pathlib.Path
    location("s3://bucket/run")         the same methods on an object store; s3a:// means the same
    location("memory://run")            in this process, for tests

Credentials, regions and endpoints come from the store's usual environment alone (for S3: AWS_PROFILE,
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ~/.aws). Every process that reads a run needs them.

A folder that has to appear as a whole is made beside its place and renamed (`beside`, `publish`). A store
cannot rename a folder: there, one file of it is written last, and without that file it does not count. A
store's errors become OSError, as files raise it.

Not here: the names of files (`history.run_folder`).
"""
# Commands that need no table import this module: Arrow is imported where it is used.

import contextlib
import errno
import importlib
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from core.errors import StorageError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from upath import UPath

URL: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://", re.IGNORECASE)
FRESH: Final = {"use_listings_cache": False}
"""A store's listing may be older than what another process has written since."""
NOWHERE: Final = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of a path that leads to nothing: no file has this name, or links lead in a circle."""
CLIENTS: Final = ("botocore", "aiobotocore", "aiohttp", "fsspec", "requests", "s3fs", "urllib3")
"""Packages whose exceptions mean that a store refused or could not be reached."""


def location(text: str | Path) -> Path:
    """The file or folder of a path or URL.

    A URL's is a `upath.UPath`: no subclass of `Path`, but with its methods as far as run folders need them.

    Raises: UsageError, where no file system reads such URLs; StorageError, where it cannot be reached.
    """
    found = URL.match(text) if isinstance(text, str) else None
    if found is None:
        return Path(text)
    scheme = found["scheme"].lower()
    rest = str(text)[found.end() :]
    if scheme in ("file", "local"):
        return Path("/" + rest.lstrip("/"))
    if not rest.strip("/"):
        raise UsageError(f"{text} names no bucket or folder")
    upath = importlib.import_module("upath")  # it takes 0.3 s, and files need none of it
    try:
        with file_errors():
            remote = upath.UPath(f"{'s3' if scheme == 's3a' else scheme}://{rest.rstrip('/')}", **FRESH)
            assert remote.fs
    except (ValueError, ImportError, TypeError, KeyError) as error:  # it lacks a part that such URLs have
        raise UsageError(f"{text}: {line(error)}") from None
    except OSError as error:
        raise StorageError(f"{text}: the store cannot be used: {line(error)}") from None
    return cast(Path, remote)


def remote(path: Path) -> "UPath | None":
    """The path where it lies on a store; None where it is this machine's."""
    return None if isinstance(path, Path) else path


def shared(path: Path) -> str:
    """Text that `location` makes the same path from, in any process and working directory."""
    return str(path) if remote(path) is not None else str(path.absolute())


@contextlib.contextmanager
def file_errors() -> Iterator[None]:
    """A store's own exceptions become OSError; every other passes.

    Raises: OSError.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] not in CLIENTS:
            raise
        raise OSError(line(error)) from error


@contextlib.contextmanager
def reaching(path: Path) -> Iterator[None]:
    """What fails on a store is one sentence about the store; what fails on files passes.

    Raises: StorageError.
    """
    if remote(path) is None:
        yield
        return
    try:
        with file_errors():
            yield
    except OSError as error:
        raise StorageError(f"{path}: the store cannot be used: {line(error)}") from error


def is_there(path: Path) -> bool:
    """Whether this file exists. Raises: OSError, where a store refuses to say or cannot be reached."""
    try:
        with file_errors():
            path.stat()
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno in NOWHERE or isinstance(error, FileNotFoundError):
            return False
        raise
    return True


def read_bytes(path: Path) -> bytes:
    """A whole file. Raises: OSError."""
    with file_errors():
        return path.read_bytes()


def parquet_file(path: Path) -> "pq.ParquetFile":
    """An open Parquet file; of a store, only the byte ranges that are read travel.

    Raises: OSError, pyarrow.ArrowException.
    """
    import pyarrow.parquet as pq

    if remote(path) is None:
        return pq.ParquetFile(path)
    return pq.ParquetFile(arrow_source(path), pre_buffer=True)


def size(path: Path) -> int:
    """Bytes of a file. Raises: OSError."""
    with file_errors():
        return path.stat().st_size


def arrow_source(path: Path) -> "pa.NativeFile":
    """An open file for Arrow; of a store, only the byte ranges that are read travel. Raises: OSError."""
    import pyarrow as pa

    if remote(path) is None:
        return pa.OSFile(str(path))
    with file_errors():
        source = _Opened(path.open("rb", cache_type="none"))  # type: ignore[call-overload]
    return pa.PythonFile(source, mode="r")


class _Opened(io.RawIOBase):
    """A file of a store for Arrow, with files' errors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        with file_errors():
            return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        super().close()
        self._file.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def write_parquet(table: "pa.Table", path: Path, **options: object) -> None:
    """`pyarrow.parquet.write_table`, also to a store. Raises: OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if remote(path) is None:
        with _appearing(path) as mine:
            pq.write_table(table, mine, **options)
        return
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    write_whole(path, sink.getvalue().to_pybytes())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; all of it appears at once. Raises: OSError."""
    if remote(path) is None:
        with _appearing(path) as mine:
            mine.write_bytes(data)
        return
    with file_errors():
        path.write_bytes(data)


def remove_unfinished(folder: Path) -> None:
    """Remove files below this folder of this machine that never took their places (`write_whole`)."""
    for path in folder.rglob(".*"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A new file beside this one, which takes its place when it is whole: a task that Spark runs twice at a
    time, or kills, does no harm to what its other attempt wrote. What fails names the file: a full disk alone
    would not."""
    mine = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield mine
        os.replace(mine, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            mine.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing. Raises: OSError."""
    with file_errors():
        path.mkdir(parents=True, exist_ok=True)


def remove(folder: Path) -> None:
    """Remove a folder with all that it holds, if it is there. Raises: OSError, of a store."""
    there = remote(folder)
    if there is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with file_errors():
        if there.fs.exists(there.path):
            there.fs.rm(there.path, recursive=True)


def beside(final: Path) -> Path:
    """The folder to make what `publish` then puts into the place of `final`: new and empty.

    A store has no rename: there it is `final`, emptied, and whole as soon as its last file is written.

    Raises: OSError.
    """
    made = final if remote(final) is not None else final.with_name(f".{final.name}-{os.getpid()}")
    remove(made)
    make_folder(made)
    return made


def remove_unpublished(final: Path) -> None:
    """Remove what processes that were killed made for this place. For who knows that none makes it now."""
    for made in final.parent.glob(f".{final.name}-*"):
        remove(made)


def publish(made: Path, final: Path) -> None:
    """Put a folder into its place, at once, when it is on the disk: what has the name is whole
    after a loss of power, too. Raises: OSError."""
    if made != final:
        for folder, _, names in os.walk(made):
            for name in names:
                _flush(os.path.join(folder, name))
            _flush(folder)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(made, final)
        _flush(str(final.parent))


def _flush(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # a late attempt at a task has taken back what it wrote
    try:
        os.fsync(handle)
    except OSError:
        if not os.path.isdir(path):  # some file systems flush no folders
            raise
    finally:
        os.close(handle)


def line(error: BaseException) -> str:
    """What an error says, in one line."""
    said = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return said.splitlines()[0]
