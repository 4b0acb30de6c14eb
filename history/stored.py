"""How the files of a unit hold sends and reads: what other columns tell is not written again.

Some columns of the tables are in the files under another name, as the difference from what other columns of
their row predict. It is 0 or small in nearly every row, so files are small and quickly decoded. Any number
can be stored: a wrong prediction costs bytes, no more.

    sends.value    number             from the first value that its process can have (`core.op`)
    sends.offset   offset_from_place  from its place, where the record was acknowledged; else from -1
    sends.ack_ns   ack_after_ns       from invoke_ns, where the record was acknowledged; else from -1
    reads.value    other_value        PLACED, where the read returned the record whose send has its place at
                                      that offset (of several sends, the last one); else the value

`history.unit_files.read_columns` gives the columns of the tables; values of reads stay `PLACED`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.op import Outcome
from history.tables import CLUSTERED, PLACED, TABLES

Array = npt.NDArray[Any]


class Held(NamedTuple):
    """A column of a file in place of one of the table. predicted_by: the columns that predict the latter."""

    name: str
    predicted_by: tuple[str, ...]


HELD: Final[Mapping[str, Mapping[str, Held]]] = {
    "sends": {
        "value": Held("number", ("process",)),
        "offset": Held("offset_from_place", ("outcome", "place")),
        "ack_ns": Held("ack_after_ns", ("outcome", "invoke_ns")),
    },
    "reads": {"value": Held("other_value", ())},
}
"""By table and column of the table."""


def _schema(table: str) -> pa.Schema:
    held = HELD[table]
    return pa.schema([f.with_name(held[f.name].name) if f.name in held else f for f in TABLES[table]])


SCHEMAS: Final = {table: _schema(table) for table in CLUSTERED}
"""Of the files of units."""


def needed(table: str, names: Iterable[str]) -> list[str]:
    """The columns of a file that columns of the table are made of."""
    found: list[str] = []
    for name in names:
        held = HELD[table].get(name, Held(name, ()))
        found += [held.name, *held.predicted_by]
    return list(dict.fromkeys(found))


def decoded(table: str, rows: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Columns of the table. rows: the `needed` columns of its file."""
    found = {}
    for name in names:
        held = HELD[table].get(name, Held(name, ()))
        column = rows[held.name]
        found[name] = column + _predicted(rows, held.predicted_by) if held.predicted_by else column
    return found


def _predicted(rows: Mapping[str, Array], by: tuple[str, ...]) -> Array:
    if by == ("process",):
        return rows["process"].astype(np.int64) << 32
    outcome, column = by
    return np.where(rows[outcome] == Outcome.OK, rows[column], -1)


def enclosed(table: str, name: str, of: Callable[[str], tuple[int, int]]) -> tuple[int, int]:
    """Numbers that enclose a column of the table, in some rows. of: the same for a column of its file."""
    held = HELD[table].get(name)
    if held is None:
        return of(name)
    least, greatest = of(held.name)
    if held.predicted_by == ("process",):
        first, last = of("process")
        return least + (first << 32), greatest + (last << 32)
    if held.predicted_by:
        first, last = of(held.predicted_by[1])
        return least + min(first, -1), greatest + max(last, -1)
    return least, greatest


def encoded(sends: pa.Table, reads: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of a unit as its files hold them. Both tables are sorted."""
    rows = {name: sends.column(name).to_numpy() for name in sends.column_names}
    differences = {
        name: pa.array(rows[name] - _predicted(rows, held.predicted_by), pa.int64())
        for name, held in HELD["sends"].items()
    }
    tp, offset, value = (reads.column(name).to_numpy() for name in ("tp", "offset", "value"))
    others = np.where(value == values_at(rows, tp, offset), PLACED, value)
    return _file("sends", sends, differences), _file("reads", reads, {"value": pa.array(others, pa.int64())})


def _file(table: str, rows: pa.Table, replaced: Mapping[str, pa.Array]) -> pa.Table:
    columns = [replaced.get(name, rows.column(name)) for name in TABLES[table].names]
    return pa.Table.from_arrays(columns, schema=SCHEMAS[table])


def values_at(sends: Mapping[str, Array], tps: Array, offsets: Array) -> Array:
    """The value of the send that has its place at each of these offsets; of several, of the last one;
    `PLACED` where there is none.

    sends: columns tp, place and value. sends and tps are sorted by partition.
    """
    found = np.full(len(offsets), PLACED, np.int64)
    starts = np.flatnonzero(np.append(True, tps[1:] != tps[:-1])[: len(tps)])
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(tps)], strict=False):
        first, last = np.searchsorted(sends["tp"], np.array((tps[begin], tps[begin] + 1), tps.dtype))
        order = first + np.argsort(sends["place"][first:last], kind="stable")
        places = sends["place"][order]
        at = np.searchsorted(places, offsets[begin:end], side="right") - 1
        hit = np.flatnonzero(at >= 0)
        hit = hit[places[at[hit]] == offsets[begin:end][hit]]
        found[begin + hit] = sends["value"][order[at[hit]]]
    return found
