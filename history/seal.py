"""Sealing: journals and events of a run → the tables of its history, once.

Idempotent: `seal` leaves a sealed run as it is, unless its tables are of an older format. All tables appear
at once or none: `seal` writes them beside the final place and renames the folder; on a store it writes
names.json last. It seals whatever was recorded, also of a run that a crash cut short: an op without
completion is indefinite, and a final read that was never performed is an incomplete one.

Not here: sealing a large run in many processes (`history.parts`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.errors import HistoryError, UsageError
from history import events as ev
from history import storage
from history.journal import by_process
from history.jsonl import being_written
from history.reader import Names, Unit, format_of, unit_name
from history.recorded_files import refuse_special
from history.rows import NUMBERS, read_journals
from history.run_folder import FORMAT, Run, write_atomically
from history.tables import CLUSTERED, NAMES, ORDER, TABLES

UNIT_ROWS = 250_000
"""A unit takes further partitions until it has this many rows."""
ROW_GROUP = 1 << 20
"""Rows of a row group: it has the values of a partition once for each reader, and zstd finds them again."""
VALUES_LEVEL: Final = 9
"""The level of zstd for values. From this one on it looks back 4 MiB."""


def seal(run: Run) -> None:
    """Write `history/` from `journal/` and `events.jsonl`, in this process.

    Raises: HistoryError (damaged recording), OSError (full disk); nothing is left half-written.
    """
    if is_sealed(run):
        return
    recorded = Recorded.of(run)
    rows = read_journals(journals(run))
    rows.add_bounds(recorded.bounds)
    tables = rows.tables()
    with published(run) as folder:
        units = write_clustered(folder, tables["sends"], tables["reads"])
        write_others(folder, tables, recorded.names(run, units, rows.names()))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What sealing takes from the events: listed ends, and when the run started."""

    bounds: Sequence[tuple[str, int, int, int, int]] = ()
    start_ns: int = 0
    start_wall: str = ""

    @classmethod
    def of(cls, run: Run) -> "Recorded":
        """Read the events. Raises: HistoryError, OSError."""
        recorded = storage.read_bytes(run.events) if storage.is_there(run.events) else b""
        events = ev.decode(recorded, str(run.events))
        listed = [event for event in events if isinstance(event, ev.BoundsListed)]
        for topic, partition, isolation, start, end in listed[-1].rows if listed else ():
            possible = -1 <= end < 2**62 and -1 <= start <= (end if end >= 0 else 2**62)
            if not (0 <= partition < NUMBERS and isolation in (0, 1) and possible):
                row = f"{topic!r}, {partition}, {isolation}, {start}, {end}"
                raise HistoryError(f"{run.events}: no partition can have these bounds: {row}")
        started = next((event for event in events if isinstance(event, ev.RunStarted)), None)
        begun = (started.ns, started.wall) if started else (0, "")
        return cls(listed[-1].rows if listed else (), *begun)

    def names(self, run: Run, units: list[Unit], lists: Mapping[str, list[str]]) -> Names:
        """The content of `names.json`."""
        return Names(
            format=FORMAT,
            run=run.name,
            start_ns=self.start_ns,
            start_wall=self.start_wall,
            units=units,
            **{name: lists[name] for name in NAMES},
        )


def journals(run: Run) -> list[Path]:
    """The journals of a run, in the order of processes.

    Raises: HistoryError (a file that is not the journal of a process), OSError.
    """
    with storage.file_errors():
        return by_process(run.journal.glob("*.jsonl"))


def is_sealed(run: Run) -> bool:
    """Whether a run has its history; if not, its journals can be sealed. Tables of an older format are none
    where the journals are there.

    Raises: HistoryError (no such folder; a history that lost its names, and no journal to make it from),
    OSError.
    """
    with storage.file_errors():
        if not run.folder.is_dir():
            raise HistoryError(f"{run.folder}: no such run folder")
        if storage.is_there(run.names):
            return format_of(run) >= FORMAT or not journals(run)
        if run.history.is_dir() and not journals(run):
            raise HistoryError(f"{run.names}: No such file; without it {run.history} cannot be read")
    return False


def waiting(run: Run) -> int:
    """Bytes of the journals that sealing has to read; 0: none, or the run is sealed.

    Raises: HistoryError, OSError: see `is_sealed`.
    """
    if is_sealed(run):
        return 0
    with storage.file_errors():
        return sum(path.stat().st_size for path in journals(run))


def recorded(folder: Path) -> Run:
    """The run in a folder that nothing records any more.

    Raises: UsageError (not a run folder, or one that is still being recorded), HistoryError (it holds a link
    or a pipe), OSError.
    """
    found = Run(folder)
    if not storage.is_there(found.config):
        raise UsageError(f"{folder} is not a run folder (no config.json)")
    refuse_special(folder)
    # Journals that still grow do not fit together; a client may outlive its run (it stands still, say).
    if being_written(found.events) or any(map(being_written, journals(found))):
        raise UsageError(f"{folder} is still being recorded")
    return found


def sealed(folder: Path) -> Run:
    """The run in a folder; seals it, if nothing has yet.

    Raises: UsageError (not a run folder, or one that is still being recorded), HistoryError, OSError.
    """
    found = recorded(folder)
    seal(found)
    return found


def write_history(
    run: Run, tables: Mapping[str, pa.Table], *, names: dict[str, list[str]], start_ns: int, start_wall: str
) -> None:
    """Write sealed tables (any row order) as the files that `history.tables` describes.

    tables: one for each name of `TABLES`, with its schema. Replaces an existing history.
    """
    with published(run) as folder:
        units = write_clustered(folder, tables["sends"], tables["reads"])
        write_others(folder, tables, Recorded((), start_ns, start_wall).names(run, units, names))


@contextmanager
def published(run: Run) -> Iterator[Path]:
    """A folder to write a history into: it appears as `history/` at the end, or not at all.

    Raises: OSError.
    """
    temporary = storage.beside(run.history)
    try:
        yield temporary
        storage.publish(temporary, run.history)
    except BaseException:
        storage.remove(temporary)
        raise


def write_others(folder: Path, tables: Mapping[str, pa.Table], names: Names) -> None:
    """Write the tables that are not clustered, and then `names.json`."""
    for name, schema in TABLES.items():
        if name not in CLUSTERED:
            write_table(tables[name].cast(schema), folder / f"{name}.parquet")
    write_atomically(folder / "names.json", msgspec.json.encode(names))


def write_clustered(folder: Path, sends: pa.Table, reads: pa.Table) -> list[Unit]:
    """Write sends and reads as units of whole partitions; the list of units, largest first.

    In memory are, beside the given tables, the order of their rows by partition, and the rows of one unit.
    """
    tables = {"sends": sends, "reads": reads}
    numbers = {name: table.column("tp").to_numpy() for name, table in tables.items()}
    order = {name: np.argsort(tps, kind="stable") for name, tps in numbers.items()}
    ends = {name: np.cumsum(np.bincount(tps)) for name, tps in numbers.items()}
    make_folders(folder)
    units: list[Unit] = []
    for tps in grouped(np.bincount(np.concatenate(list(numbers.values())))):
        rows: dict[str, pa.Table] = {}
        for name, table in tables.items():
            before = np.append(0, ends[name])  # rows of the partitions below each
            first, end = before[np.minimum((tps[0], tps[-1] + 1), len(ends[name]))].tolist()
            rows[name] = table.take(pa.array(order[name][first:end]))
        units.append(write_unit(folder, tps, rows["sends"], rows["reads"]))
    return largest_first(units)


def make_folders(folder: Path) -> None:
    """Make the folders of clustered tables. Raises: OSError."""
    for name in CLUSTERED:
        storage.make_folder(folder / name)


def write_unit(folder: Path, tps: list[int], sends: pa.Table, reads: pa.Table) -> Unit:
    """Write a unit: all rows of these partitions, which are in any order."""
    name = unit_name(tps)
    for table, rows in zip(CLUSTERED, (sends, reads), strict=True):
        ordered = _sorted(rows, ORDER[table]).cast(TABLES[table])
        write_table(ordered, folder / table / f"{name}.parquet")
    return Unit(name=name, tps=tps, sends=sends.num_rows, reads=reads.num_rows)


def largest_first(units: Iterable[Unit]) -> list[Unit]:
    """Units in the order in which they are listed."""
    return sorted(units, key=lambda unit: (-(unit.sends + unit.reads), unit.name))


def grouped(counts: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    """Neighbouring partitions together, until a unit has `UNIT_ROWS`. counts: rows of each partition."""
    group: list[int] = []
    size = 0
    for tp in np.flatnonzero(counts).tolist():
        group.append(tp)
        size += int(counts[tp])
        if size >= UNIT_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _sorted(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    columns = [table.column(key).to_numpy() for key in reversed(keys)]
    order = np.lexsort(columns)
    if bool((order[1:] > order[:-1]).all()):
        return table.combine_chunks()
    return table.take(pa.array(order)).combine_chunks()


def write_table(table: pa.Table, path: Path) -> None:
    """One Parquet file: zstd; DELTA_BINARY_PACKED on int32 and int64 columns but `value`."""
    delta = [field.name for field in table.schema if field.type in (pa.int32(), pa.int64())]
    delta = [name for name in delta if name != "value"]
    others = [name for name in table.column_names if name not in (*delta, "value")]
    storage.write_parquet(
        table,
        path,
        compression="zstd",
        compression_level={"value": VALUES_LEVEL},
        use_dictionary=others or False,
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
        row_group_size=ROW_GROUP,
        max_rows_per_page=ROW_GROUP,
        data_page_size=8 * ROW_GROUP,
    )
