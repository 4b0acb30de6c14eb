"""What values tables of a caller may have: codes that stand for something, numbers of rows that exist, and
columns that say the same as the table they come from.

A kernel believes its rows: a wrong code or a phase that is not the op's would hide a finding, or make one.

Not here: which tables and columns there are (`history.tables`), and their types (`checkers.caller_tables`).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from core.op import AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from history.columns import Array, numbers
from history.tables import FOREIGN_REASONS, OPEN

NO_PRODUCER: Final = -2
ACKS: Final = (NO_PRODUCER, -1, 0, 1)
FLAG: Final = (0, 1)
LEVELS: Final = (int(Isolation.READ_UNCOMMITTED), int(Isolation.READ_COMMITTED))


def _values(enum: type[IntEnum]) -> tuple[int, ...]:
    return tuple(int(each) for each in enum)


ONE_OF: Final[Mapping[str, Mapping[str, Sequence[int]]]] = {
    "processes": {
        "acks": ACKS,
        "isolation": _values(Isolation),
        "idempotent": FLAG,
        "auto_commit": FLAG,
        "end": _values(End),
    },
    "ops": {"outcome": _values(Outcome), "phase": _values(Phase), "txn": FLAG, "deliberate": FLAG},
    "sends": {"outcome": _values(Outcome)},
    "reads": {"isolation": LEVELS},
    "bounds": {"isolation": LEVELS},
    "commits": {"kind": _values(CommitKind), "outcome": _values(Outcome)},
    "assignments": {"kind": _values(AssignmentKind)},
    "foreign": {"reason": range(len(FOREIGN_REASONS))},
}
"""By table and column: the numbers that stand for something."""
LEAST: Final[Mapping[str, Mapping[str, int]]] = {
    "tps": {"partition": 0},
    "processes": {"process": 0},
    "ops": {"invoke_ns": 0},
    "sends": {"value": 0, "offset": -1, "place": -1, "ack_ns": -1},
    "reads": {"value": 0, "offset": 0},
    "bounds": {"start": -1, "end": -1, "read_to": -1},
    "foreign": {"offset": 0},
}
"""By table and column: the least number."""
CODED: Final = {"ops": ("f", "error"), "processes": ("group", "txn_id"), "commits": ("group",)}
"""Columns of codes that point into the list of their name."""
REFERS: Final = {
    "ops": ("process",),
    "sends": ("tp", "op", "process"),
    "reads": ("tp", "op", "process"),
    "bounds": ("tp",),
    "commits": ("tp", "process"),
    "assignments": ("process", "tp"),
    "foreign": ("tp", "op"),
    "producers": ("process",),
}
"""Columns that name a row of `tps`, `ops` or `processes`."""
SAME: Final = {
    "sends": {"process": "process", "op_outcome": "outcome", "txn": "txn", "op_sends": "n_sends"},
    "reads": {"process": "process", "op_outcome": "outcome", "phase": "phase"},
}
"""Columns that repeat one of their op."""


class _Bad(NamedTuple):
    """Rows of a table that cannot be. why: what is wrong with them."""

    table: str
    column: str
    rows: Array
    why: str


def refuse_values(tables: Mapping[str, pa.Table], names: Mapping[str, Sequence[str]]) -> None:
    """Refuse tables whose values contradict their schemas or each other. The ops are in order of number.

    Raises: HistoryError, naming the first such row.
    """
    for bad in _bad(tables, names):
        found = np.flatnonzero(bad.rows)
        if len(found):
            row = int(found[0])
            value = numbers(tables[bad.table], bad.column)[row].item()
            more = f" (and {len(found) - 1} more rows)" if len(found) > 1 else ""
            raise HistoryError(f"the table {bad.table}, row {row}: {bad.column} {value} {bad.why}{more}")


def _bad(tables: Mapping[str, pa.Table], names: Mapping[str, Sequence[str]]) -> Iterator[_Bad]:
    """All rules, those first that others rely on."""
    yield from _numbered(tables)
    for table, columns in ONE_OF.items():
        for column, some in columns.items():
            known = ", ".join(map(str, some))
            yield _Bad(
                table, column, ~np.isin(numbers(tables[table], column), [*some]), f"is none of {known}"
            )
    for table, least in LEAST.items():
        for column, lowest in least.items():
            yield _Bad(table, column, numbers(tables[table], column) < lowest, f"is below {lowest}")
    for table, coded in CODED.items():
        for column in coded:
            code, most = numbers(tables[table], column), len(names.get(column, ()))
            yield _Bad(table, column, code < -1, "is below -1")
            if most:
                yield _Bad(table, column, code >= most, f"is not a place in the {most} names of {column}")
    yield from _times(tables)
    yield from _repeated(tables)
    yield from _of_processes(tables)
    yield from _ends(tables)


def _numbered(tables: Mapping[str, pa.Table]) -> Iterator[_Bad]:
    """Rows that others name, and those that name them."""
    tps, processes = (numbers(tables[name], key) for name, key in (("tps", "tp"), ("processes", "process")))
    yield _Bad("tps", "tp", tps != np.arange(len(tps)), "is not the number of its row: 0, 1, 2 …")
    pairs = [*zip(*(tables["tps"][name].to_pylist() for name in ("topic", "partition")), strict=True)]
    first = {pair: row for row, pair in reversed([*enumerate(pairs)])}
    yield _Bad("tps", "tp", _again([first[pair] for pair in pairs]), "is a partition that is there twice")
    yield _Bad("processes", "process", _again(processes), "is there twice")
    there = {"tp": tps, "process": processes, "op": np.arange(tables["ops"].num_rows)}
    for table, columns in REFERS.items():
        for column in columns:
            of = {"tp": "tps", "process": "processes", "op": "ops"}[column]
            yield _Bad(
                table,
                column,
                ~np.isin(numbers(tables[table], column), there[column]),
                f"is not a row of {of}",
            )


def _again(values: Array | Sequence[int]) -> Array:
    """Of each value, whether it stands before as well."""
    again = np.ones(len(values), bool)
    again[np.unique(np.asarray(values, np.int64), return_index=True)[1]] = False
    return again


def _times(tables: Mapping[str, pa.Table]) -> Iterator[_Bad]:
    begun, done, outcome = (numbers(tables["ops"], name) for name in ("invoke_ns", "complete_ns", "outcome"))
    yield _Bad("ops", "complete_ns", done < begun, "is before its invoke_ns")
    yield _Bad(
        "ops", "complete_ns", np.append(False, done[1:] < done[:-1]), "is before that of the op before it"
    )
    open_ = (done == OPEN) & (outcome != Outcome.INFO)
    yield _Bad("ops", "outcome", open_, f"belongs to an op that never completed: {int(Outcome.INFO)}")


def _repeated(tables: Mapping[str, pa.Table]) -> Iterator[_Bad]:
    """What a row repeats of its op, and how many rows an op has."""
    for table, columns in SAME.items():
        op = numbers(tables[table], "op")
        for column, of in columns.items():
            own, there = numbers(tables[table], column), numbers(tables["ops"], of)
            yield _Bad(table, column, own != there[op], f"is not the {of} of its op")
        counted, count = np.bincount(op, minlength=tables["ops"].num_rows), f"n_{table}"
        yield _Bad(
            "ops", count, numbers(tables["ops"], count) != counted, f"is not its number of rows of {table}"
        )
    offset, place = (numbers(tables["sends"], name) for name in ("offset", "place"))
    yield _Bad("sends", "place", (offset >= 0) & (place != offset), "is not its acknowledged offset")


def _of_processes(tables: Mapping[str, pa.Table]) -> Iterator[_Bad]:
    """What a process cannot have done with its settings."""
    process = numbers(tables["processes"], "process")
    order = np.argsort(process)
    of = {table: order[np.searchsorted(process[order], numbers(tables[table], "process"))]
          for table in ("sends", "reads")}  # fmt: skip
    acks, level = (numbers(tables["processes"], name) for name in ("acks", "isolation"))
    yield _Bad(
        "sends", "process", acks[of["sends"]] == NO_PRODUCER, f"has acks {NO_PRODUCER}: it does not produce"
    )
    yield _Bad("reads", "isolation", numbers(tables["reads"], "isolation") != level[of["reads"]],
               "is not the isolation of its process")  # fmt: skip


def _ends(tables: Mapping[str, pa.Table]) -> Iterator[_Bad]:
    bounds = tables["bounds"]
    tp, level, start, end = (numbers(bounds, name) for name in ("tp", "isolation", "start", "end"))
    yield _Bad("bounds", "tp", _again(2 * tp.astype(np.int64) + level), "has two rows of one isolation")
    yield _Bad("bounds", "start", (end >= 0) & (start > end), "is above its end")
    complete = np.array(bounds["complete"].to_pylist(), bool)
    yield _Bad("bounds", "end", complete & (end < 0), "is not known, and the row is complete")
