"""A sealed run folder as the checker reads it, and tables as numpy columns.

Everything is verified before anything is checked: a folder that is damaged, incomplete or of another
format is refused with one clear error.

Not here: the meaning of the tables (`harness.history`), what kernels know of them besides their rows
(`checkers.context`), the checks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.kernel import COPIES, READS, SENDS
from checkers.kernel_types import Array, Columns
from harness.events import Event, decode
from harness.history import CLUSTERED, TABLES
from harness.store import FORMAT, Run

SMALL = tuple(name for name in TABLES if name not in CLUSTERED)
"""Tables of one file each, read whole; `ops` may have millions of rows, the others are small."""


class HistoryError(Exception):
    """The history cannot be checked: missing, damaged, of another format. Names the file."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One entry of `names.json` "units": a file of sends and a file of reads."""

    name: str
    tps: list[int]
    sends: int
    reads: int


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """`names.json`."""

    format: int
    run: str
    start_ns: int
    start_wall: str = ""
    units: list[Unit]
    f: list[str]
    error: list[str]
    group: list[str]
    txn_id: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A verified run folder: names, small tables and events in memory, units on disk."""

    run: Run
    names: Names
    config: dict[str, Any]
    events: list[Event]
    tables: Mapping[str, pa.Table]


def columns(table: pa.Table, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Columns of a table as numpy arrays."""
    return {name: numbers(table, name) for name in names or table.column_names}


def numbers(table: pa.Table, name: str) -> Array:
    """An integer column as a numpy array, without a copy.

    `to_numpy` would do, but imports pandas, which takes longer than most checks.
    """
    chunks = table.column(name).chunks
    array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else None
    dtype = np.dtype(table.schema.field(name).type.to_pandas_dtype())
    if array is None or not len(array):
        return np.zeros(0, dtype)
    whole = np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))
    return np.asarray(whole[array.offset :])


def load(run: Run) -> Sealed:
    """Read and verify a sealed run folder.

    Raises: HistoryError.
    """
    if not run.folder.is_dir():
        raise HistoryError(f"{run.folder}: no such run folder")
    names = _names(run)
    config = _json(run.config)
    if not isinstance(config, dict):
        raise HistoryError(f"{run.config}: not an object")
    try:
        events = decode(run.events.read_bytes())
    except OSError as error:
        raise HistoryError(f"{run.events}: {error.strerror}") from None
    except ValueError as error:
        raise HistoryError(f"{run.folder}: {error}") from None
    for unit in names.units:
        for table in CLUSTERED:
            _verify(run.table(table) / f"{unit.name}.parquet", table, getattr(unit, table))
    tables = {name: read_table(run.table(name), name) for name in SMALL}
    return Sealed(run=run, names=names, config=config, events=events, tables=tables)


def _names(run: Run) -> Names:
    raw = _json(run.names)
    found = raw.get("format") if isinstance(raw, dict) else None
    if not isinstance(found, int):
        raise HistoryError(f"{run.names}: no format number")
    if found != FORMAT:
        age = "newer" if found > FORMAT else "older"
        raise HistoryError(
            f"{run.names}: format {found} is {age} than the one that this version of Inquest reads "
            f"({FORMAT}); check it with the version that recorded it"
        )
    try:
        return msgspec.convert(raw, Names)
    except msgspec.ValidationError as error:
        raise HistoryError(f"{run.names}: {error}") from None


def _json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: {error}") from None


def _verify(path: Path, table: str, rows: int) -> None:
    """The file of a unit is whole as far as its footer tells."""
    try:
        meta = pq.read_metadata(path)
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: {_first_line(error)}") from None
    if not schema.equals(TABLES[table]):
        raise HistoryError(f"{path}: its columns are not those of the table {table}")
    if meta.num_rows != rows:
        raise HistoryError(f"{path}: {meta.num_rows} rows where names.json says {rows}")


def read_table(path: Path, name: str, wanted: tuple[str, ...] | None = None) -> pa.Table:
    """A table's file, whole or some of its columns.

    Raises: HistoryError.
    """
    try:
        table = pq.ParquetFile(path).read(columns=list(wanted) if wanted else None)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: {_first_line(error)}") from None
    expected = TABLES[name]
    if wanted is None and not table.schema.equals(expected):
        raise HistoryError(f"{path}: its columns are not those of the table {name}")
    return table.combine_chunks()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def by_tp(table: pa.Table, names: tuple[str, ...] | None = None) -> Iterator[tuple[int, Columns]]:
    """Rows of each partition, their order kept."""
    return grouped(numbers(table, "tp"), columns(table, names))


def grouped(tp: Array, rows: Columns) -> Iterator[tuple[int, Columns]]:
    """Rows of each partition, their order kept; `tp`: of each row."""
    if len(tp) and bool((tp[1:] < tp[:-1]).any()):
        order = np.argsort(tp, kind="stable")
        tp, rows = tp[order], {name: column[order] for name, column in rows.items()}
    starts = np.flatnonzero(np.append(True, tp[1:] != tp[:-1])[: len(tp)])
    ends = np.append(starts[1:], len(tp))[: len(starts)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(tp[start]), {name: column[start:end] for name, column in rows.items()}


def partitions(sends: pa.Table, reads: pa.Table) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table; sends with the columns
    `COPIES` where the table has them."""
    of_sends = SENDS + COPIES if set(COPIES) <= set(sends.column_names) else SENDS
    sent, read = dict(by_tp(sends, of_sends)), dict(by_tp(reads, READS))
    nothing_sent, nothing_read = (
        columns(sends.slice(0, 0), of_sends),
        columns(reads.slice(0, 0), READS),
    )
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, nothing_sent), read.get(tp, nothing_read)


def rows_where(table: pa.Table, column: str, values: Array) -> pa.Table:
    """Rows of a table whose column has one of these values."""
    return table.filter(pc.is_in(table.column(column), value_set=pa.array(values)))
