"""The Parquet files of a run's tables: whole ones, columns of a unit, or the few rows that are asked for.

Parquet's statistics tell which row groups cannot hold what is asked for: those are not read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from history import storage
from history.columns import Array, columns, held, numbers
from history.recorded_files import promises_too_much
from history.run_folder import Run
from history.tables import TABLES

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Where = Mapping[str, Iterable[int]]
"""A condition: rows that have one of these values in at least one of these columns."""
EVERYWHERE: Final = -1
"""In place of a partition: all of them."""
ANY: Final = (-(2**63), 2**63 - 1)
"""The range of all numbers."""
Ranges = Callable[[str], tuple[int, int]]
"""Numbers that enclose a column in a row group, by its name."""
BLOCK_ROWS: Final = 1 << 22
"""Rows that are in memory where a unit is read piece by piece."""


def read_table(path: Path, name: str) -> pa.Table:
    """A table's file.

    Raises: HistoryError.
    """
    with _opened(path) as file:
        table = file.read()
    if not table.schema.equals(TABLES[name]):
        raise HistoryError(f"{path}: its columns are not those of the table {name}")
    return table.combine_chunks()


def verify(run: Run, table: str, unit: str, rows: int, limits: Mapping[str, tuple[int, int]]) -> set[int]:
    """Check a unit's file by its footer; its pages are checked when they are read. Returns the partitions of
    its rows: read from the row groups that hold several; of the others the footer names it.

    rows: how many it has. limits: the range of numbers of columns; read where the footer has none.

    Raises: HistoryError.
    """
    path = _path(run, table, unit)
    with _opened(path) as file:
        meta, schema = file.metadata, file.schema_arrow
        same = schema.equals(TABLES[table])
        held, outside = (_partitions(file), _outside(file, limits)) if same else (set(), "")
    if not schema.equals(TABLES[table]):
        raise HistoryError(f"{path}: its columns are not those of the table {table}")
    if meta.num_rows != rows:
        raise HistoryError(f"{path}: {meta.num_rows} rows where names.json says {rows}")
    if outside:
        raise HistoryError(f"{path}: {outside}")
    return held


def _partitions(file: "pq.ParquetFile") -> set[int]:
    place = file.schema_arrow.get_field_index("tp")
    held: set[int] = set()
    for number in range(file.num_row_groups):
        least, greatest = _range(file.metadata.row_group(number).column(place))
        if least != greatest:
            found = numbers(file.read_row_group(number, columns=["tp"], use_threads=False), "tp")
            held.update(np.unique(found).tolist())
        else:
            held.add(least)
    return held


def _outside(file: "pq.ParquetFile", limits: Mapping[str, tuple[int, int]]) -> str:
    """A number that its column cannot have, in words; "" = none."""
    for group in range(file.num_row_groups):
        ranges = _ranges(file, group)
        for name, (low, high) in limits.items():
            least, greatest = ranges(name)
            if (least, greatest) == ANY:
                found = columns_of_groups(file, [name], [group])[name]
                least, greatest = int(found.min(initial=high)), int(found.max(initial=low))
            if least < low or greatest > high:
                odd = least if least < low else greatest
                return f"{name} {odd} is not within {low} and {high}"
    return ""


def read_columns(run: Run, table: str, unit: str, wanted: Sequence[str]) -> dict[str, Array]:
    """Some columns of a unit's rows of a table.

    Raises: HistoryError.
    """
    with _opened(_path(run, table, unit)) as file:
        return columns_of_groups(file, wanted, range(file.num_row_groups))


def read_blocks(
    run: Run, table: str, unit: str, wanted: Sequence[str], groups: Callable[[Ranges], bool] | None = None
) -> Iterator[dict[str, Array]]:
    """What `read_columns` yields, about `BLOCK_ROWS` rows at a time; `groups`: only of these row groups.

    Raises: HistoryError.
    """
    with _opened(_path(run, table, unit)) as file:
        meta = file.metadata
        numbers = [n for n in range(file.num_row_groups) if groups is None or groups(_ranges(file, n))]
        before = np.cumsum([meta.row_group(n).num_rows for n in numbers]) // BLOCK_ROWS
        for block in np.split(np.array(numbers, np.int64), np.flatnonzero(np.diff(before)) + 1):
            if len(block):
                yield columns_of_groups(file, wanted, block.tolist())


def matching(
    run: Run, table: str, unit: str, wanted: Sequence[str], where: Mapping[int, Where]
) -> list[tuple[int, ...]]:
    """Rows of a unit that satisfy a condition.

    Row groups whose statistics exclude every condition are not read. Of the others it reads first the
    columns that the conditions name, and the remaining columns only where a row satisfies one.

    Raises: HistoryError.
    """
    found = list[tuple[int, ...]]()
    conditions = [
        (tp, name, np.sort(np.fromiter(some, np.int64)))
        for tp, each in where.items()
        for name, some in each.items()
    ]
    with _opened(_path(run, table, unit)) as file:
        for number in range(file.num_row_groups):
            ranges_of = _ranges(file, number)
            ranges = {name: ranges_of(name) for name in {"tp"}.union(*where.values())}
            asked = [
                (tp, name, some)
                for tp, name, some in conditions
                if (tp == EVERYWHERE or ranges["tp"][0] <= tp <= ranges["tp"][1])
                and _overlap(some, *ranges[name])
            ]
            if not asked:
                continue
            keys = columns_of_groups(file, ["tp", *(name for _, name, _ in asked)], [number])
            matches = np.zeros(len(keys["tp"]), bool)
            for tp, name, some in asked:
                rows = held(keys[name], some)
                matches |= rows if tp == EVERYWHERE else rows & (keys["tp"] == tp)
            if matches.any():
                told = columns_of_groups(file, wanted, [number])
                found += zip(*(told[name][matches].tolist() for name in wanted), strict=True)
    return found


def _overlap(ordered: Array, least: int, greatest: int) -> bool:
    """Whether one of these numbers lies in a range."""
    at = int(np.searchsorted(ordered, least))
    return at < len(ordered) and int(ordered[at]) <= greatest


def _path(run: Run, table: str, unit: str) -> Path:
    return run.table(table) / f"{unit}.parquet"


@contextmanager
def _opened(path: Path) -> Iterator["pq.ParquetFile"]:
    """A file to read; the error names it where it cannot be read."""
    try:
        with storage.parquet_file(path) as file:
            if why := promises_too_much(file, storage.size(path)):
                raise HistoryError(f"{path}: no table of a history: {why}")
            yield file
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: {storage.line(error)}") from None


def _ranges(file: "pq.ParquetFile", group: int) -> Ranges:
    meta, schema = file.metadata.row_group(group), file.schema_arrow
    return lambda name: _range(meta.column(schema.get_field_index(name)))


def _range(column: "pq.ColumnChunkMetaData") -> tuple[int, int]:
    """Least and greatest number of a column of a row group; where it is not on record, any."""
    known = column.statistics
    if known is None or not known.has_min_max:
        return ANY
    return known.min, known.max


def columns_of_groups(
    file: "pq.ParquetFile", wanted: Sequence[str], groups: Sequence[int]
) -> dict[str, Array]:
    """Some columns, of the rows of some row groups."""
    read = file.read_row_groups([*groups], columns=[*dict.fromkeys(wanted)], use_threads=False)
    return columns(read.combine_chunks())
