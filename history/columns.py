"""Columns of Arrow tables as numpy arrays, and back.

Nothing here imports pandas, as Arrow's own conversions do: that takes longer than most checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]
"""Columns of a table by name, all of one length."""


def columns(table: pa.Table, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Columns of a table as numpy arrays."""
    return {name: numbers(table, name) for name in names or table.column_names}


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """The type of numpy that holds numbers or flags of this type of Arrow: their names are the same.

    `to_pandas_dtype` would do, but imports pandas with some versions of it.
    """
    return np.dtype(str(kind))


def numbers(table: pa.Table, name: str) -> Array:
    """An integer column as a numpy array, without a copy.

    `to_numpy` would do, but imports pandas.
    """
    chunks = table.column(name).chunks
    array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else None
    dtype = dtype_of(table.schema.field(name).type)
    if array is None or not len(array):
        return np.zeros(0, dtype)
    whole = np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))
    return np.asarray(whole[array.offset :])


def arrow_array(values: Sequence[Any] | Array, kind: pa.DataType) -> pa.Array:
    """Numbers, flags, texts, bytes or lists of them as an Arrow array.

    `pa.array` would do, but imports pandas.
    """
    flat = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if flat or pa.types.is_list(kind):
        parts = [each.encode() for each in values] if pa.types.is_string(kind) else values
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
        if flat:
            data = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
            return pa.Array.from_buffers(kind, len(values), data)
        children = [arrow_array([one for part in parts for one in part], kind.value_type)]
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends)], children=children)
    row = np.ascontiguousarray(values, dtype_of(kind))
    if pa.types.is_boolean(kind):
        row = np.packbits(row, bitorder="little")
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(row)])


def held(values: Array, some: Array) -> Array:
    """Of each of these integers: whether it is one of some, by a hash table. (numpy.isin sorts.)"""
    if not len(values) or not len(some):
        return np.zeros(len(values), bool)
    flags = pc.is_in(_int64(values), value_set=_int64(some))
    bits = np.frombuffer(flags.buffers()[1], np.uint8)
    return np.unpackbits(bits, count=len(values), bitorder="little").view(bool)


def positions(values: Array, distinct: Array) -> Array:
    """The position of each of these integers in an array of distinct ones, which holds all of them."""
    if not len(values):
        return np.zeros(0, np.int32)
    found = pc.index_in(_int64(values), value_set=_int64(distinct))
    return np.frombuffer(found.buffers()[1], np.int32, len(values))


def _int64(values: Array) -> pa.Array:
    return arrow_array(values, pa.int64())


def by_tp(table: pa.Table) -> Iterator[tuple[int, Columns]]:
    """Rows of each partition, their order kept."""
    return grouped(numbers(table, "tp"), columns(table))


def grouped(tp: Array, rows: Columns) -> Iterator[tuple[int, Columns]]:
    """Rows of each partition, their order kept; `tp`: of each row."""
    if len(tp) and bool((tp[1:] < tp[:-1]).any()):
        order = np.argsort(tp, kind="stable")
        tp, rows = tp[order], {name: column[order] for name, column in rows.items()}
    starts = np.flatnonzero(np.append(True, tp[1:] != tp[:-1])[: len(tp)])
    ends = np.append(starts[1:], len(tp))[: len(starts)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(tp[start]), {name: column[start:end] for name, column in rows.items()}
