"""The writer of units: files of sends and reads, of whole topic-partitions.

Not here: reading them (`history.unit_files`).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from history import storage
from history.columns import arrow_array, numbers
from history.reader import Unit, unit_name
from history.tables import CLUSTERED, ORDER, TABLES

UNIT_ROWS = 250_000
"""A unit takes further partitions until it has this many rows."""
ROW_GROUP = 1 << 20
"""Rows of a row group: it has the values of a partition once for each reader, and zstd finds them again."""
VALUES_LEVEL: Final = 9
"""The level of zstd for values. From this one on it looks back 4 MiB."""


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


def write_unit(folder: Path, tps: list[int], sends: pa.Table, reads: pa.Table) -> Unit:
    """Write a unit: all rows of these partitions, which are in any order. Raises: OSError."""
    name = unit_name(tps)
    for table, rows in zip(CLUSTERED, (sends, reads), strict=True):
        ordered = _sorted(rows, ORDER[table]).cast(TABLES[table])
        write_table(ordered, folder / table / f"{name}.parquet")
    return Unit(name=name, tps=tps, sends=sends.num_rows, reads=reads.num_rows)


def largest_first(units: Iterable[Unit]) -> list[Unit]:
    """Units in the order in which they are listed."""
    return sorted(units, key=lambda unit: (-(unit.sends + unit.reads), unit.name))


def _sorted(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    order = np.lexsort([numbers(table, key) for key in reversed(keys)])
    if bool((order[1:] > order[:-1]).all()):
        return table.combine_chunks()
    return table.take(arrow_array(order, pa.int64())).combine_chunks()


def write_table(table: pa.Table, path: Path) -> None:
    """One Parquet file: zstd; DELTA_BINARY_PACKED on int32 and int64 columns but `value`. Raises: OSError."""
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
