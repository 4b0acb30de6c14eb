"""Files that an import reads: plain or gzip, by lines of bounded length, damage included."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from core.errors import HistoryError
from history.recorded_files import regular
from history.storage import NOWHERE

LINE_MOST: Final = 1 << 26
"""Bytes of a line; a longer one is not read."""
UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""What reading a damaged file raises, a gzip file that was cut included."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, unpacked where its first bytes are those of gzip.

    Raises: HistoryError, where it cannot be opened or is empty.
    """
    try:
        with regular(path).open("rb") as raw:
            begin = raw.read(2)
            raw.seek(0)
            if not begin:
                raise HistoryError(f"{path}: the file is empty")
            if begin == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
    except IsADirectoryError:
        raise HistoryError(f"{path}: a folder, not a file") from None
    except OSError as error:
        if error.errno not in NOWHERE:
            raise
        raise HistoryError(f"{path}: {error.strerror}") from None


def packed(path: Path) -> bool:
    """Whether a file begins as gzip does. Raises: OSError."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def lines(file: BinaryIO, *, begins_file: bool = True) -> Iterator[tuple[int, bytes | None]]:
    """Number and content of each line that is not blank; None for one of more than `LINE_MOST` bytes.

    begins_file: the first line is that of a file, and may begin with a mark of its encoding.
    """
    number = 0
    while line := file.readline(LINE_MOST):
        number += 1
        if number == 1 and begins_file:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) >= LINE_MOST and not line.endswith(b"\n"):
            while rest := file.readline(LINE_MOST):
                if rest.endswith(b"\n"):
                    break
            yield number, None
        elif line.strip():
            yield number, line


def reason(error: Exception) -> str:
    """One line of text for an error of a decoder or of a file."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
    return text.splitlines()[0] if text else type(error).__name__
