"""The files of a partition's folder that belong to its log, as a broker would take them when it starts.

A broker that is killed leaves files of what it was about (Kafka's `LogLoader.load`). The cleaner writes
segments as `.cleaned`, renames them to `.swap` once they are whole, renames those that they replace to
`.deleted`, and takes `.swap` away. So `.swap` files stand for all segments between the first of them and the
end of the last, unless a `.cleaned` file at or before their offset shows that not all of them had been
renamed. `.cleaned` and `.deleted` files belong to no log, nor does an index of aborted transactions whose
segment has been renamed. Without an ended broker the files say the same: they are renamed in this order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence import segments

OFFSET: Final = "0[0-8][0-9]{18}"
"""What files are named for: an offset in 20 digits. From 9 * 10^18 on none is."""
NAMED: Final = re.compile(rf"(?P<offset>{OFFSET})\.(?P<kind>log|txnindex|snapshot)(?P<swap>\.swap)?")
CLEANED: Final = re.compile(rf"(?P<offset>{OFFSET})\..+\.cleaned")
LOG: Final = "log"
INDEX: Final = "txnindex"
SNAPSHOT: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """logs: the segments. indexes: those of aborted transactions. snapshots: of producers. All in the order
    of offsets. cleaned_to: the cleaner had come so far when the broker ended, which its checkpoint need not
    say; 0 = no file shows it."""

    logs: list[Path]
    indexes: list[Path]
    snapshots: list[Path]
    cleaned_to: int


def partition_files(folder: Path) -> PartitionFiles:
    """What a broker would find. A `.swap` file that cannot be opened replaces the segment of its offset
    alone. Raises: OSError, where the folder cannot be read."""
    names = sorted(path.name for path in folder.iterdir())
    begun = min((int(one["offset"]) for name in names if (one := CLEANED.fullmatch(name))), default=1 << 63)
    files: dict[str, dict[int, Path]] = {LOG: {}, INDEX: {}, SNAPSHOT: {}}
    swaps: dict[str, dict[int, Path]] = {LOG: {}, INDEX: {}, SNAPSHOT: {}}
    for name in names:
        if (one := NAMED.fullmatch(name)) is None:
            continue
        offset = int(one["offset"])
        if not one["swap"]:
            files[one["kind"]][offset] = folder / name
        elif offset < begun:
            swaps[one["kind"]][offset] = folder / name
    first, end = _span(swaps[LOG])
    for kind, found in files.items():
        kept = {offset: path for offset, path in found.items() if not first <= offset < end}
        files[kind] = kept | swaps[kind]
    logs, indexes = files[LOG], files[INDEX]
    whole = {offset: path for offset, path in indexes.items() if offset in logs}
    return PartitionFiles(_in_order(logs), _in_order(whole), _in_order(files[SNAPSHOT]), end)


def log_end(folder: Path) -> int:
    """Offset after the last batch in a partition's folder, 0 = it has none. Raises: OSError."""
    return max((_end(path) for path in partition_files(folder).logs[-2:]), default=0)


def _span(swaps: Mapping[int, Path]) -> tuple[int, int]:
    """The offsets that `.swap` files stand for, from and to (excluded); nothing without one."""
    if not swaps:
        return 0, 0
    return min(swaps), max(_end(path) for path in swaps.values())


def _end(path: Path) -> int:
    try:
        segment = segments.read(path)
    except OSError:  # the reader of the file notes it
        return segments.offset_of(path)
    if not len(segment.headers):
        return segments.offset_of(path)
    native = segments.native_columns(segment.headers[-1:])
    return int(native["base"][0]) + int(native["last_delta"][0]) + 1


def _in_order(files: Mapping[int, Path]) -> list[Path]:
    return [files[offset] for offset in sorted(files)]
