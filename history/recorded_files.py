"""The files of a run folder that others may have made: files and folders only, no link that leads elsewhere,
no pipe without a writer, and tables whose footers promise no more than their bytes can hold.

Inquest writes no links into a run folder. The folder itself may be a link, as `latest` is.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from core.errors import HistoryError, UsageError
from history import storage
from history.run_folder import Run

if TYPE_CHECKING:
    import pyarrow.parquet as pq

KINDS: Final = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
FREE_ROWS: Final = 1 << 20
ROWS_A_BYTE: Final = 30
FREE_BYTES: Final = 1 << 26
BYTES_A_BYTE: Final = 200
"""Limits of a table: rows, and bytes unpacked, which any table may have, and further ones with each byte of
its file. Columns that count up take next to no room: sealed ones have up to 6 rows and 13 bytes a byte."""
GROUP_ROWS: Final = 1 << 22
"""Rows of a row group: what a reader has in memory at least."""


def refuse_special(folder: Path) -> None:
    """Refuse a run folder that holds anything but files and folders; one on a store holds nothing else. What
    goes away meanwhile, as in a run that is being recorded, is left out.

    Raises: HistoryError, with the path; OSError.
    """
    if storage.remote(folder) is not None:
        return
    left = [str(folder)]
    while left:
        for path, mode in _modes(left.pop()):
            if stat.S_ISDIR(mode):
                left.append(path)
            elif not stat.S_ISREG(mode):
                what = next((name for is_kind, name in KINDS if is_kind(mode)), "neither file nor folder")
                raise HistoryError(f"{path}: {what}, which no recorded run has")


def _modes(folder: str) -> Iterator[tuple[str, int]]:
    """What a folder holds, with the mode of each; nothing of what is not there."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        if error.errno not in storage.NOWHERE:
            raise
        return
    for name in names:
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            yield path, os.lstat(path).st_mode


def regular(path: Path) -> Path:
    """A file that is given to be read, where it is one: reading a pipe or a device may have no end.

    Raises: HistoryError.
    """
    if storage.remote(path) is None:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            return path  # opening it says what is wrong
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            what = next((name for is_kind, name in KINDS if is_kind(mode)), "no file")
            raise HistoryError(f"{path}: {what}, not a file")
    return path


def refuse_reduced(run: Run) -> None:
    """Refuse the folder of a run that a soak has reduced to its verdict and its configuration.

    Raises: UsageError, with the command that makes the run once more.
    """
    left = (run.events, run.schedule, run.names)
    if not storage.is_there(run.verdict) or any(map(storage.is_there, left)):
        return
    try:
        said = msgspec.json.decode(storage.read_bytes(regular(run.verdict)), type=_Repeat).repro
    except (HistoryError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return  # what reads it says what is wrong
    why = f"{run.folder}: its verdict and configuration only, as a soak keeps them of a run that passed"
    raise UsageError(f"{why}; repeat it: {said}" if said else why)


class _Repeat(msgspec.Struct, frozen=True):
    """What is read of a verdict."""

    repro: str = ""


def promises_too_much(file: "pq.ParquetFile", size: int) -> str:
    """Why a table's footer is not true of a file of this size, or made to fill the memory; "" = neither."""
    meta = file.metadata
    if meta.num_rows > FREE_ROWS + ROWS_A_BYTE * size:
        return f"{meta.num_rows} rows in {size} bytes"
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    if (most := max((group.num_rows for group in groups), default=0)) > GROUP_ROWS:
        return f"a row group of {most} rows"
    unpacked = sum(group.total_byte_size for group in groups)
    if unpacked > FREE_BYTES + BYTES_A_BYTE * size:
        return f"{unpacked} bytes packed in {size}"
    return ""
