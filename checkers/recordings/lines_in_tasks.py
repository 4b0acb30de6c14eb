"""Recordings in the line format, read in tasks: for files that are large for one process.

First one task for each range of a file: it assigns each line to the bucket of its process. Then one task for
each bucket: it reads the lines of its processes in order, as `LinesImport` does, and writes their journals.
Tables and messages are those of an import in one process; only the numbers that journals give to ops are not.

Tasks reach recordings and run folder by their paths: this machine's, or those of a shared file system.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import BinaryIO, Final, cast

import msgspec

from checkers.recordings.files import UNREADABLE, lines, opened, packed, reason
from checkers.recordings.lines import LinesImport, lost_settings, process_of
from checkers.recordings.recording import NEVER, REASONS, Recording
from core.config import RunConfig
from core.progress import ProgressStage
from history.run_folder import Run
from history.storage import remove, write_whole
from history.tasks import Workers

RANGE_BYTES: Final = 1 << 26
"""Bytes of a range, and of the lines that a task has in memory. A packed file is one range."""
BUCKETS: Final = 64
SCRATCH: Final = "parts"
"""Folder of the run folder for what tasks leave to others."""
GENERAL: Final = 0
"""The bucket of lines that name no process, or cannot be read."""

Place = tuple[int, int]
"""Of a line: its range, and its number there from 1 on."""
Numbered = tuple[int, bytes | None]


@dataclass(frozen=True, slots=True)
class Range:
    """The lines of a file that begin in these bytes; end -1: all, unpacked."""

    file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """What a range holds. pieces: bucket -> scratch files; first: number of the first line that is not blank
    (0 = none); cut: why it could not be read to its end. lost: numbers of lines that name no process and may
    have had settings, with what `lost_settings` says of them."""

    pieces: Mapping[int, Sequence[str]]
    count: int
    first: int
    cut: str
    lost: Sequence[tuple[int, int]]


@dataclass(slots=True)
class Read:
    """What a bucket's lines gave."""

    ops: int = 0
    processes: int = 0
    refused: int = 0
    reasons: list[tuple[Place, str]] = field(default_factory=list)
    ends: dict[tuple[str, int, int], tuple[int, int]] = field(default_factory=dict)
    on_record: tuple[str, ...] = ()
    began_ns: int = NEVER


_PACK: Final = msgspec.msgpack.Encoder()
_UNPACK: msgspec.msgpack.Decoder[list[Numbered]] = msgspec.msgpack.Decoder(list[Numbered])


def read_in_tasks(recording: Recording, files: Sequence[Path], workers: Workers) -> tuple[str, ...]:
    """Read files into a recording, with these workers; what the first line says is on record.

    Raises: HistoryError, where a file cannot be opened; what the workers raise.
    """
    ranges = [one for path in files for one in _ranges(path)]
    scratch = recording.run.folder / SCRATCH
    scratch.mkdir()
    sizes = [one.end - one.begin if one.end >= 0 else Path(one.file).stat().st_size for one in ranges]
    splitting = ProgressStage(name="splitting", tasks="ranges", sizes=sizes, measure="bytes")
    splits = workers.map(splitting, SplitRange(ranges, str(scratch.absolute())))
    found = sorted({bucket for split in splits for bucket in split.pieces})
    folder, config = str(recording.run.folder.absolute()), recording.config
    reading = ProgressStage(
        name="reading",
        tasks="groups of processes",
        sizes=[_size(splits, bucket) for bucket in found],
        measure="bytes",
    )
    reads = workers.map(reading, ReadBucket(found, ranges, splits, folder, config))
    remove(scratch)
    reasons = [each for read in reads for each in read.reasons]
    for number, split in enumerate(splits):
        if split.cut:
            reasons.append(((number, split.count + 1), f"{ranges[number].file}: {split.cut}"))
    recording.add(
        ops=sum(read.ops for read in reads),
        processes=sum(read.processes for read in reads),
        refused=sum(read.refused for read in reads) + sum(bool(split.cut) for split in splits),
        reasons=[text for _, text in sorted(reasons)],
        began_ns=min((read.began_ns for read in reads), default=NEVER),
    )
    ends = {key: each for read in reads for key, each in read.ends.items()}
    recording.close([(*key, *each) for key, each in sorted(ends.items())])
    return next((read.on_record for read in reads if read.on_record), ())


def _ranges(path: Path) -> Iterator[Range]:
    """Raises: HistoryError."""
    with opened(path):  # it is there, and not empty
        pass
    where = str(path.absolute())
    if packed(path):
        yield Range(where, 0, -1)
        return
    size = path.stat().st_size
    for begin in range(0, size, RANGE_BYTES):
        yield Range(where, begin, min(begin + RANGE_BYTES, size))


def _size(splits: Sequence[Split], bucket: int) -> int:
    return sum(Path(piece).stat().st_size for split in splits for piece in split.pieces.get(bucket, ()))


class _Lines:
    """The lines of a range as a file, as far as `files.lines` needs one. count: how many were read."""

    def __init__(self, file: BinaryIO, of: Range) -> None:
        self._file, self._end = file, of.end
        self._at, self._begins = of.begin, True
        self.count = 0
        if of.begin:  # a line that began before belongs to the range before
            file.seek(of.begin - 1)
            self._at -= 1
            while (skipped := file.readline(RANGE_BYTES)) and not skipped.endswith(b"\n"):
                self._at += len(skipped)
            self._at += len(skipped)

    def readline(self, most: int) -> bytes:
        """At most this many bytes of the next line; b"" where the next one belongs to another range."""
        if self._begins and 0 <= self._end <= self._at:
            return b""
        line = self._file.readline(most)
        self.count += self._begins and bool(line)
        self._at += len(line)
        self._begins = line.endswith(b"\n")
        return line


@dataclass(frozen=True, slots=True)
class SplitRange:
    """Task: assign the lines of one of these ranges to buckets."""

    ranges: Sequence[Range]
    scratch: str

    def __call__(self, number: int) -> Split:
        """Raises: HistoryError, OSError."""
        of = self.ranges[number]
        pieces: dict[int, list[str]] = {}
        held: dict[int, list[Numbered]] = {}
        size = first = 0
        cut = ""
        lost: list[tuple[int, int]] = []
        with opened(Path(of.file)) as file:
            source = _Lines(file, of)
            try:
                for at, content in lines(cast(BinaryIO, source), begins_file=of.begin == 0):
                    first = first or at
                    bucket = _bucket(content)
                    held.setdefault(bucket, []).append((at, content))
                    if bucket == GENERAL and (whose := lost_settings(content)) is not None:
                        lost.append((at, whose))
                    size += len(content or b"")
                    if size >= RANGE_BYTES:
                        self._write(number, held, pieces)
                        size = 0
            except UNREADABLE as error:
                cut = f"cannot be read to its end: {reason(error)}"
        self._write(number, held, pieces)
        return Split(pieces, source.count, first, cut, lost)

    def _write(self, number: int, held: dict[int, list[Numbered]], pieces: dict[int, list[str]]) -> None:
        for bucket, some in held.items():
            names = pieces.setdefault(bucket, [])
            path = Path(self.scratch) / f"{number}-{bucket}-{len(names)}.lines"
            write_whole(path, _PACK.encode(some))
            names.append(str(path))
        held.clear()


def _bucket(content: bytes | None) -> int:
    process = process_of(content)
    return GENERAL if process < 0 else 1 + process % BUCKETS


class _BucketRecording(Recording):
    """The recording of one bucket. at: the place of the line that is being read. Its journals lie in a folder
    of this attempt until they are whole: Spark may run a task again that has written some of them."""

    def __init__(self, run: Run, config: RunConfig) -> None:
        super().__init__(run, config)
        self.at: Place = (0, 0)
        self.placed: list[tuple[Place, str]] = []
        self._folder = Path(mkdtemp(dir=run.folder / SCRATCH))

    def _path(self, process: int) -> Path:
        return self._folder / super()._path(process).name

    def write_journals(self) -> None:
        """See `Recording`."""
        super().write_journals()
        for path in self._folder.iterdir():
            path.replace(self.run.journal / path.name)
        self._folder.rmdir()

    def refuse(self, where: str, why: str) -> None:
        """Something at this place could not be read."""
        self.refused += 1
        if len(self.placed) < REASONS:
            self.placed.append((self.at, f"{where}: {why}"))


@dataclass(frozen=True, slots=True)
class ReadBucket:
    """Task: read the lines of one of these buckets, and write the journals of its processes."""

    buckets: Sequence[int]
    ranges: Sequence[Range]
    splits: Sequence[Split]
    folder: str
    config: RunConfig

    def __call__(self, number: int) -> Read:
        """Raises: OSError."""
        recording = _BucketRecording(Run(Path(self.folder)), self.config)
        found = LinesImport(recording)
        first = next(((n, split.first) for n, split in enumerate(self.splits) if split.first), (0, 0))
        lost = deque(((n, at), whose) for n, split in enumerate(self.splits) for at, whose in split.lost)
        for of, before, some in self._lines(self.buckets[number]):
            for at, content in some:
                recording.at = (of, at)
                while lost and lost[0][0] < recording.at:
                    found.lose(lost.popleft()[1])
                where = f"{self.ranges[of].file}: line {before + at}"
                found.take(where, content, is_first=recording.at == first)
        recording.write_journals()
        return Read(
            ops=recording.ops,
            processes=recording.processes,
            refused=recording.refused,
            reasons=recording.placed,
            ends=found.ends,
            on_record=found.on_record,
            began_ns=recording.began_ns,
        )

    def _lines(self, bucket: int) -> Iterator[tuple[int, int, Iterable[Numbered]]]:
        """Pieces in order: the range, the lines of the file before it, and the bucket's lines."""
        before, file = 0, ""
        for number, (of, split) in enumerate(zip(self.ranges, self.splits, strict=True)):
            before = 0 if of.file != file else before
            file = of.file
            for piece in split.pieces.get(bucket, ()):
                yield number, before, _UNPACK.decode(Path(piece).read_bytes())
            before += split.count
