"""Mutated recordings through the importers: every one must end in tables or in one clear error.

    python -m tests.checkers.recordings.fuzz 100000 [first seed]

Each file is a small recording with a few random changes (bytes, tokens and lines removed, repeated,
exchanged or replaced by extremes). A crash is any exception but HistoryError; it is printed with the seed
that repeats it.
"""

import io
import random
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PosixPath
from typing import Final

from checkers.recordings import formats
from checkers.recordings.formats import FORMATS, ImportRequest, import_config
from checkers.recordings.recording import Recording
from core.errors import HistoryError
from core.op import End
from history import journal as j
from history import jsonl
from history.journal_rows import rows_of
from history.run_folder import Run

RECORDINGS = Path(__file__).parents[2] / "histories" / "imports"
FILES: Final[dict[str, tuple[str, ...]]] = {
    "jepsen": ("jepsen.edn",),
    "jsonl": ("lines.jsonl",),
    "verifiable": ("producer.jsonl", "consumer.jsonl"),
}
SEEDS: Final = {
    format_: tuple((RECORDINGS / name).read_bytes() for name in names) for format_, names in FILES.items()
}
"""Format -> files of a small recording that is whole and clean."""
TOKENS: Final = (
    b"", b"null", b"nil", b"-1", b"0", b"1.5", b"9" * 25, b"1e400", b"NaN", b"##NaN", b'"', b"[", b"]",
    b"{", b"}", b"(", b"#_", b"#x", b"^", b":", b",", b"\\", b"\\u12", b"\x00", b"\xff", b"\n", b"\r\n",
    b"\xef\xbb\xbf", b";", b"true", b"[" * 300, b"{:a " * 120, b'"' + b"x" * 5000,
    b"4611686018427387904", b"2147483647",
)  # fmt: skip


@dataclass(slots=True)
class Tried:
    """How many files ended in which way. damaged: something of them could not be read; refused: nothing."""

    files: int = 0
    whole: int = 0
    damaged: int = 0
    refused: int = 0
    crashes: list[str] = field(default_factory=list)


class _InMemory(Recording):
    """A recording whose journals are read back, not written."""

    def close(self, bounds: Iterable[tuple[str, int, int, int, int]] = ()) -> None:
        """Make the tables, as sealing does."""
        journals = []
        for process, content in self._buffers.items():
            end = self._ended.get(process, End.CRASHED)
            closed = jsonl.encode([j.Closed(ns=self._last.get(process, 0), end=end)])
            journals.append((str(process), jsonl.decode(bytes(content) + closed, j.DECODER, "")))
        rows = rows_of(journals)
        rows.add_bounds(bounds)
        rows.tables()


def mutated(content: bytes, random_: random.Random) -> bytes:
    """The content with one to four changes."""
    data = bytearray(content)
    for _ in range(random_.randint(1, 4)):
        lines = bytes(data).split(b"\n")
        at, to = sorted(random_.randrange(len(data) + 1) for _ in range(2))
        match random_.randrange(8):
            case 0:
                del data[at : min(to, at + 20)]
            case 1:
                data[at:at] = random_.choice(TOKENS)
            case 2:
                data[at : at + random_.randint(1, 8)] = random_.choice(TOKENS)
            case 3 if at < len(data):
                data[at] ^= 1 << random_.randrange(8)
            case 4:
                data[at:at] = data[at : min(to, at + 200)]
            case 5:
                random_.shuffle(lines)
                data = bytearray(b"\n".join(lines))
            case 6:
                number = random_.randrange(len(lines))
                lines[number : number + 1] = [lines[number]] * random_.choice((0, 2))
                data = bytearray(b"\n".join(lines))
            case _:
                del data[to:]
        data = data or bytearray(b" ")
    return bytes(data)


def fuzz(format_: str, seeds: Iterable[int]) -> Tried:
    """Import one mutated recording for each seed."""
    tried = Tried()
    paths = [_Memory(f"{number}.txt") for number in range(len(SEEDS[format_]))]
    request = ImportRequest(format=format_, files=paths)
    config = import_config(request, {})
    for seed in seeds:
        random_ = random.Random(f"{format_} {seed}")
        for path, content in zip(paths, SEEDS[format_], strict=True):
            path.content = mutated(content, random_) if random_.random() < 0.8 else content
        recording = _InMemory(Run(Path("fuzz")), config)
        tried.files += 1
        try:
            FORMATS[format_].read(recording, request)
        except HistoryError:
            tried.refused += 1
        except Exception:  # noqa: BLE001 (that is what this looks for)
            tried.crashes.append(f"{format_} {seed}: {traceback.format_exc()}")
        else:
            tried.damaged += recording.refused > 0
            tried.whole += recording.refused == 0
    return tried


class _Memory(PosixPath):
    """A file in memory."""

    content = b""

    def open(self, *_: object, **__: object) -> io.BytesIO:  # type: ignore[override]
        """Its content."""
        return io.BytesIO(self.content)


def main() -> None:
    """Try the given number of files, shared among the formats."""
    number, first = int(sys.argv[1]), int((*sys.argv[2:], "0")[0])
    for format_ in formats.FORMATS:
        begin = time.process_time()
        tried = fuzz(format_, range(first, first + number // len(FORMATS)))
        spent = time.process_time() - begin
        print(
            f"{format_}: {tried.files} files, {tried.whole} read whole, {tried.damaged} in part,"
            f" {tried.refused} refused, {len(tried.crashes)} crashes; {spent:.0f} s of CPU"
        )
        for crash in tried.crashes[:5]:
            print(crash)


if __name__ == "__main__":
    main()
