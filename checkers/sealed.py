"""A sealed run folder as the checker reads it, and tables as numpy columns.

Everything is verified before anything is checked: a folder that is damaged, incomplete or of a newer
format is refused with one clear error.

Not here: the meaning of the tables (`harness.history`), the checks.
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

from checkers.kernel import READS, SENDS
from checkers.kernel_types import CAP, Array, Bound, Columns, Context
from harness.events import Event, decode
from harness.history import CLUSTERED, TABLES
from harness.store import FORMAT, Run

SMALL = tuple(name for name in TABLES if name not in CLUSTERED)
"""Tables of one file each, read whole; `ops` may have millions of rows, the others are small."""


class HistoryError(Exception):
    """The history cannot be checked: missing, damaged, newer, not of the format. Names the file."""


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
    if found > FORMAT:
        raise HistoryError(
            f"{run.names}: format {found} is newer than this version of Inquest knows ({FORMAT})"
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


def vertices(ops: Columns) -> tuple[Array, Array]:
    """Flags by op: vertex of the dependency graph, relay (docs/checks.md, "Cycles")."""
    size = int(ops["op"].max(initial=-1)) + 1
    vertex, relay = np.zeros(size, bool), np.zeros(size, bool)
    txn, sends, reads = ops["txn"] == 1, ops["n_sends"], ops["n_reads"]
    alive = ops["outcome"] != 1
    vertex[ops["op"]] = alive & (txn | (sends == 0) | ((sends == 1) & (reads == 0)))
    relay[ops["op"]] = alive & txn & (sends > 0) & (reads > 0)
    return vertex, relay


def context(
    tables: Mapping[str, pa.Table], *, portable: bool, ww: bool = True, cap: int = CAP
) -> Context:
    """The context of all partitions of a history."""
    process = columns(tables["processes"], ("process", "acks", "idempotent"))
    order = np.argsort(process["process"])
    ops = columns(tables["ops"], ("op", "outcome", "txn", "n_sends", "n_reads"))
    vertex, relay = vertices(ops)
    bounds: dict[int, dict[int, Bound]] = {}
    for row in tables["bounds"].to_pylist():
        tp, isolation = row.pop("tp"), row.pop("isolation")
        bounds.setdefault(tp, {})[isolation] = Bound(**row)
    return Context(
        portable=portable,
        processes=process["process"][order],
        acks=process["acks"][order],
        idempotent=process["idempotent"][order],
        vertex=vertex,
        relay=relay,
        bounds={} if portable else bounds,
        assignments=dict(by_tp(tables["assignments"])),
        ww=ww,
        cap=cap,
    )


def by_tp(table: pa.Table, names: tuple[str, ...] | None = None) -> Iterator[tuple[int, Columns]]:
    """Rows of each partition, their order kept."""
    tp, all_columns = numbers(table, "tp"), columns(table, names)
    if len(tp) and bool((tp[1:] < tp[:-1]).any()):
        order = np.argsort(tp, kind="stable")
        tp, all_columns = tp[order], {name: c[order] for name, c in all_columns.items()}
    starts = np.flatnonzero(np.append(True, tp[1:] != tp[:-1])[: len(tp)])
    ends = np.append(starts[1:], len(tp))[: len(starts)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(tp[start]), {name: c[start:end] for name, c in all_columns.items()}


def partitions(sends: pa.Table, reads: pa.Table) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table."""
    sent, read = dict(by_tp(sends, SENDS)), dict(by_tp(reads, READS))
    nothing_sent, nothing_read = (
        columns(sends.slice(0, 0), SENDS),
        columns(reads.slice(0, 0), READS),
    )
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, nothing_sent), read.get(tp, nothing_read)


def rows_where(table: pa.Table, column: str, values: Array) -> pa.Table:
    """Rows of a table whose column has one of these values."""
    return table.filter(pc.is_in(table.column(column), value_set=pa.array(values)))
