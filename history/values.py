"""What values the tables of a history may have: codes that stand for something, numbers of rows that exist,
times that go forward, and columns that say the same as the table they come from.

A kernel believes its rows: a wrong code or a phase that is not the op's would hide a finding, or make one.
Tables of a recording of others, and of a caller, are asked before any kernel sees them.

Not here: which tables and columns there are, and their types (`history.tables`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from core.op import Acknowledgement, AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from history.columns import Array, Columns, numbers, positions
from history.tables import CLUSTERED, FOREIGN_REASONS, NO_PRODUCER, OPEN, ORDER

ANY: Final = 2**63 - 1
FLAG: Final = (0, 1)
LEVELS: Final = (int(Isolation.READ_UNCOMMITTED), int(Isolation.READ_COMMITTED))
OUTCOMES: Final = (int(min(Outcome)), int(max(Outcome)))
PHASES: Final = (int(min(Phase)), int(max(Phase)))

Range = tuple[int, int]
"""The least and the greatest number of a column."""


def _of(enum: type[IntEnum]) -> Range:
    return int(min(enum)), int(max(enum))


CODES: Final[Mapping[str, Mapping[str, Range]]] = {
    "processes": {
        "acks": (NO_PRODUCER, 1),
        "isolation": _of(Isolation),
        "idempotent": FLAG,
        "auto_commit": FLAG,
        "end": _of(End),
    },
    "ops": {"outcome": OUTCOMES, "phase": PHASES, "txn": FLAG, "deliberate": FLAG},
    "sends": {"outcome": OUTCOMES},
    "reads": {"isolation": LEVELS},
    "bounds": {"isolation": LEVELS},
    "commits": {"kind": _of(CommitKind), "outcome": OUTCOMES},
    "acknowledgements": {"kind": _of(Acknowledgement), "outcome": OUTCOMES},
    "assignments": {"kind": _of(AssignmentKind)},
    "foreign": {"reason": (0, len(FOREIGN_REASONS) - 1)},
}
"""By table and column: the numbers that stand for something."""
LEAST: Final[Mapping[str, Mapping[str, int]]] = {
    "tps": {"partition": 0},
    "processes": {"process": 0},
    "ops": {"invoke_ns": 0, "n_sends": 0, "n_reads": 0},
    "sends": {"value": 0, "offset": -1, "place": -1, "ack_ns": -1},
    "reads": {"value": 0, "offset": 0},
    "bounds": {"start": -1, "end": -1, "read_to": -1},
    "commits": {"generation": -1, "invoke_ns": -1, "complete_ns": -1},
    "deliveries": {
        "offset": 0,
        "value": 0,
        "delivery_count": 0,
        "since_ns": -1,
        "invoke_ns": -1,
        "complete_ns": -1,
    },
    "acknowledgements": {"offset": 0, "invoke_ns": -1, "complete_ns": -1},
    "assignments": {"generation": -1, "assignment": 0, "ns": -1},
    "foreign": {"offset": 0},
}
"""By table and column: the least number."""
NAMED: Final = {
    "ops": ("f", "error"),
    "processes": ("group", "txn_id"),
    "commits": ("group",),
    "deliveries": ("group",),
    "acknowledgements": ("group",),
}
"""Columns of codes that point into the list of their name."""
REFERS: Final = {
    "ops": ("process",),
    "bounds": ("tp",),
    "commits": ("tp", "process", "op"),
    "deliveries": ("tp", "process", "op"),
    "acknowledgements": ("tp", "process", "op"),
    "assignments": ("process", "tp", "op"),
    "foreign": ("tp", "op"),
    "producers": ("process",),
}
"""Columns that name a row of `tps`, `ops` or `processes`; those of sends and reads have `limits`."""
OUTSIDE: Final = (("commits", "op"), ("assignments", "op"))
"""Those that are -1 where a client did something outside of any op."""
SAME: Final = {
    "sends": ("process", "op_outcome", "txn", "op_sends"),
    "reads": ("process", "op_outcome", "phase", "isolation"),
}
"""Columns that are the same in all rows of an op."""
TXN_BIT: Final = 6
PHASE_BIT: Final = 2
"""Of the byte that has all of an op that its rows repeat, but its process."""


class Bad(NamedTuple):
    """Rows of a table that cannot be. values: of the column; rows: flags; why: what is wrong with them."""

    table: str
    column: str
    values: Array
    rows: Array
    why: str


def refuse(found: Iterable[Bad], place: Mapping[str, object] | None = None) -> None:
    """Refuse tables in which something cannot be.

    place: by table, where it lies. Raises: HistoryError, naming the first such row.
    """
    for bad in found:
        if bad.rows.any():
            rows = np.flatnonzero(bad.rows)
            value = bad.values[rows[0]].item()
            more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            where = f"{place[bad.table]}" if place else f"the table {bad.table}"
            raise HistoryError(f"{where}, row {rows[0]}: {bad.column} {value} {bad.why}{more}")


# Tables of one file -----------------------------------------------------------------------------


def of_small(tables: Mapping[str, pa.Table], names: Mapping[str, Sequence[str]]) -> Iterator[Bad]:
    """What cannot be in tables of one file, those rules first that others rely on.

    names: the lists that codes point into; one that is not there is not known.
    """
    yield from _numbered(tables)
    for table in (name for name in tables if name not in CLUSTERED):
        yield from within(table, tables[table], CODES.get(table, {}))
        yield from within(table, tables[table], _least(table))
        for column in NAMED.get(table, ()):
            code, known = numbers(tables[table], column), names.get(column)
            yield Bad(table, column, code, code < -1, "is below -1")
            if known is not None:
                why = f"is not a place in the {len(known)} names of {column}"
                yield Bad(table, column, code, code >= len(known), why)
    yield from _times(tables)
    yield from _ends(tables)


def _least(table: str) -> dict[str, Range]:
    return {column: (lowest, ANY) for column, lowest in LEAST.get(table, {}).items()}


def within(table: str, rows: pa.Table, ranges: Mapping[str, Range]) -> Iterator[Bad]:
    """Numbers outside of the range of their column."""
    for column, (low, high) in ranges.items():
        values = numbers(rows, column)
        if column in ("tp", "op"):
            yield Bad(table, column, values, (values < low) | (values > high), f"is not a row of {column}s")
        elif high == ANY:
            yield Bad(table, column, values, values < low, f"is below {low}")
        else:
            known = ", ".join(map(str, range(low, high + 1)))
            yield Bad(table, column, values, (values < low) | (values > high), f"is none of {known}")


def _numbered(tables: Mapping[str, pa.Table]) -> Iterator[Bad]:
    """Rows that others name, and those that name them."""
    tps, processes, ops = (
        numbers(tables[name], key) for name, key in (("tps", "tp"), ("processes", "process"), ("ops", "op"))
    )
    yield Bad("tps", "tp", tps, tps != np.arange(len(tps)), "is not the number of its row: 0, 1, 2 …")
    pairs = [*zip(*(tables["tps"][name].to_pylist() for name in ("topic", "partition")), strict=True)]
    first = {pair: row for row, pair in reversed([*enumerate(pairs)])}
    yield Bad("tps", "tp", tps, _again([first[pair] for pair in pairs]), "is a partition that is there twice")
    yield Bad("processes", "process", processes, _again(processes), "is there twice")
    yield Bad(
        "ops",
        "op",
        ops,
        ops != np.arange(len(ops), dtype=ops.dtype),
        "is not the number of its row: 0, 1, 2 …",
    )
    for table, names in REFERS.items():
        for column in names:
            values = numbers(tables[table], column)
            if column == "process":
                yield Bad(table, column, values, ~_there(values, processes), "is not a row of processes")
                continue
            most, of = (len(tps), "tps") if column == "tp" else (len(ops), "ops")
            least = -1 if (table, column) in OUTSIDE else 0
            yield Bad(table, column, values, (values < least) | (values >= most), f"is not a row of {of}")


def _there(values: Array, known: Array) -> Array:
    """Of each value: whether it is one of these distinct ones."""
    place = _places(known)
    if place is None or not len(values) or values.min() < 0 or values.max() >= len(place):
        return np.isin(values, known)
    return np.asarray(place[values] >= 0)


def _places(known: Array) -> Array | None:
    """By number: its place among these distinct ones, -1 = none. None: it would be large for nothing."""
    most = int(known.max(initial=-1))
    if most > 4 * len(known) + (1 << 16) or known.min(initial=0) < 0:
        return None
    place = np.full(most + 1, -1, np.int32)
    place[known] = np.arange(len(known), dtype=np.int32)
    return place


def _again(values: Array | Sequence[int]) -> Array:
    """Of each value, whether it stands before as well."""
    again = np.ones(len(values), bool)
    again[np.unique(np.asarray(values, np.int64), return_index=True)[1]] = False
    return again


def _times(tables: Mapping[str, pa.Table]) -> Iterator[Bad]:
    begun, done, outcome = (numbers(tables["ops"], name) for name in ("invoke_ns", "complete_ns", "outcome"))
    yield Bad("ops", "complete_ns", done, done < begun, "is before its invoke_ns")
    back = np.append(False, done[1:] < done[:-1])[: len(done)]
    yield Bad("ops", "complete_ns", done, back, "is before that of the op before it")
    open_ = (done == OPEN) & (outcome != Outcome.INFO)
    why = f"belongs to an op that never completed: {int(Outcome.INFO)}"
    yield Bad("ops", "outcome", outcome, open_, why)
    start, end = (numbers(tables["processes"], name) for name in ("start_ns", "end_ns"))
    yield Bad("processes", "end_ns", end, end < start, "is before its start_ns")
    for table in ("commits", "deliveries", "acknowledgements"):
        start, end = (numbers(tables[table], name) for name in ("invoke_ns", "complete_ns"))
        yield Bad(table, "complete_ns", end, end < start, "is before its invoke_ns")
    since, end = (numbers(tables["deliveries"], name) for name in ("since_ns", "complete_ns"))
    yield Bad("deliveries", "since_ns", since, since > end, "is after its complete_ns")


def _ends(tables: Mapping[str, pa.Table]) -> Iterator[Bad]:
    names = ("tp", "isolation", "start", "end", "read_to")
    tp, level, start, end, read_to = (numbers(tables["bounds"], name) for name in names)
    yield Bad("bounds", "tp", tp, _again(2 * tp.astype(np.int64) + level), "has two rows of one isolation")
    yield Bad("bounds", "start", start, (end >= 0) & (start > end), "is above its end")
    complete = np.array(tables["bounds"]["complete"].to_pylist(), bool)
    yield Bad("bounds", "end", end, complete & (end < 0), "is not known, and the row is complete")
    yield Bad(
        "bounds", "read_to", read_to, complete & (read_to < end), "is below its end, and the row is complete"
    )


def of_counts(tables: Mapping[str, pa.Table], table: str, op: Array) -> Bad:
    """Ops that have another number of sends or reads than they say. op: of each row of that table."""
    count = f"n_{table}"
    said, counted = numbers(tables["ops"], count), np.bincount(op, minlength=tables["ops"].num_rows)
    return Bad("ops", count, said, said != counted, f"is not its number of rows of {table}")


# Sends and reads --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsOnRecord:
    """What sends and reads repeat of their ops, in as few bytes an op as there may be.

    process: of each op the place of its process in `processes`, the numbers of all. code: outcome, phase and
    txn. n_sends. acks, isolation: of each process.
    """

    process: Array
    code: Array
    n_sends: Array
    processes: Array
    acks: Array
    isolation: Array

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> "OpsOnRecord":
        """Of tables that are as `of_small` wants them."""
        processes = numbers(tables["processes"], "process")
        place = _places(processes)
        of_ops = numbers(tables["ops"], "process")
        process = positions(of_ops, processes) if place is None else place[of_ops]
        n_sends = numbers(tables["ops"], "n_sends")
        outcome, phase, txn = (numbers(tables["ops"], name) for name in ("outcome", "phase", "txn"))
        return cls(
            process=process.astype(np.min_scalar_type(len(processes))),
            code=(outcome | phase << PHASE_BIT | txn << TXN_BIT).astype(np.uint8),
            n_sends=n_sends.astype(np.min_scalar_type(int(n_sends.max(initial=0)))),
            processes=processes,
            acks=numbers(tables["processes"], "acks"),
            isolation=numbers(tables["processes"], "isolation"),
        )


def limits(tps: int, ops: int) -> dict[str, dict[str, Range]]:
    """Of sends and reads by column: the range of its numbers, by how many partitions and ops there are."""
    shared = {"tp": (0, tps - 1), "op": (0, ops - 1)}
    return {table: {**shared, **CODES[table], **_least(table)} for table in CLUSTERED}


def of_rows(table: str, rows: Columns, ops: OpsOnRecord) -> Iterator[Bad]:
    """What cannot be in rows of sends or reads whose numbers lie within `limits`."""
    if table == "sends":
        offset, place = rows["offset"], rows["place"]
        moved = (offset >= 0) & (place != offset)
        yield Bad("sends", "place", place, moved, "is not its acknowledged offset")
    op = rows["op"]
    new = np.append(True, op[1:] != op[:-1])[: len(op)]
    first = np.flatnonzero(new)
    if len(first) < len(op) // 2 and all(_repeats(rows[column], new) for column in SAME[table]):
        of_ops = {column: rows[column][first] for column in ("op", *SAME[table])}
        if not any(bad.rows.any() for bad in _of_ops(table, of_ops, ops)):
            return
    yield from _of_ops(table, rows, ops)


def _repeats(values: Array, new: Array) -> bool:
    """Whether every value that is not flagged is that of the row before it."""
    return not bool(((values[1:] != values[:-1]) & ~new[1:]).any())


def _of_ops(table: str, rows: Columns, ops: OpsOnRecord) -> Iterator[Bad]:
    op = rows["op"].astype(np.intp)  # quicker for `take`, which is quicker than an index
    process, code = ops.process.take(op), ops.code.take(op)
    other = rows["process"] != ops.processes.take(process)
    yield Bad(table, "process", rows["process"], other, "is not the process of its op")
    outcome = rows["op_outcome"]
    yield Bad(table, "op_outcome", outcome, outcome != code & 3, "is not the outcome of its op")
    if table == "sends":
        txn, of_op = rows["txn"], rows["op_sends"]
        yield Bad(table, "txn", txn, txn != code >> TXN_BIT, "is not the txn of its op")
        yield Bad(table, "op_sends", of_op, of_op != ops.n_sends.take(op), "is not the n_sends of its op")
        mute = (ops.acks == NO_PRODUCER).take(process)
        yield Bad(table, "process", rows["process"], mute, f"has acks {NO_PRODUCER}: it does not produce")
        return
    phase, level = rows["phase"], rows["isolation"]
    there = code >> PHASE_BIT & ((1 << TXN_BIT - PHASE_BIT) - 1)
    yield Bad(table, "phase", phase, phase != there, "is not the phase of its op")
    why = "is not the isolation of its process"
    yield Bad(table, "isolation", level, level != ops.isolation.take(process), why)


def out_of_order(table: str, rows: Columns) -> Bad:
    """Rows of one partition that are not above the row before them, as sealed ones are."""
    _, *keys = ORDER[table]
    steps = max(len(rows["op"]) - 1, 0)
    above, equal = np.zeros(steps, bool), np.ones(steps, bool)
    for key in keys:
        step = np.diff(rows[key])
        above |= equal & (step > 0)
        equal &= step == 0
    last = rows[keys[-1]]
    why = f"is not above that of the row before it ({', '.join(keys)})"
    return Bad(table, keys[-1], last, np.append(False, ~above)[: len(last)], why)
