"""The history's tables while they are built.

Columns grow as typed arrays (a run has millions of rows). At the end the ops get their dense rank and the
sends their `place`. `history.tables` says what the columns mean.
"""

from array import array
from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.op import GONE_MARK, AssignmentKind, Isolation
from history.columns import arrow_array, dtype_of
from history.tables import CLUSTERED, GONE, TABLES

Values = npt.NDArray[np.signedinteger]
Cell = int | str | bytes
CELL: Final = (int, str, bytes)
_CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "b"}
NUMBERS: Final = 2**31
"""Numbers of processes and partitions are below it."""
NUMBER_KEPT = (AssignmentKind.REWIND, AssignmentKind.BEGINNING)
"""Kinds that say more of an assignment which another line has numbered."""


class Misfit(ValueError):
    """A line says what no run can record; the message says what, without the place."""


class Columns:
    """Rows of one table, column by column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.columns: dict[str, MutableSequence[Any]] = {
            f.name: array(_CODES[str(f.type)]) if str(f.type) in _CODES else [] for f in schema
        }
        self.rows = 0

    def add(self, **values: Cell) -> None:
        """Append a row."""
        for name, column in self.columns.items():
            column.append(values[name])
        self.rows += 1

    def add_rows(self, count: int, **values: Cell | Iterable[Cell]) -> None:
        """Append `count` rows; each value is a sequence of that length or one for all of them."""
        for name, column in self.columns.items():
            value = values[name]
            column.extend([value] * count if isinstance(value, CELL) else value)
        self.rows += count

    def extend(self, other: "Columns", **replaced: Values) -> None:
        """Append the rows of another such table; `replaced` columns stand for its own. Raises: Misfit."""
        for name, column in self.columns.items():
            if name in replaced:
                assert isinstance(column, array)
                values = replaced[name].astype(dtype_of(self.schema.field(name).type))
                if not np.array_equal(values, replaced[name]):
                    raise Misfit(f"with those before it, more than the column {name} can number")
                column.frombytes(values.tobytes())
            else:
                column.extend(other.columns[name])
        self.rows += other.rows

    def numpy(self, name: str) -> Values:
        """One column, without a copy: afterwards no row can be added."""
        dtype = dtype_of(self.schema.field(name).type)
        column = self.columns[name]
        return np.asarray(column, dtype) if len(column) else np.zeros(0, dtype)

    def table(self, **replaced: Values) -> pa.Table:
        """The table; `replaced` columns stand for the recorded ones."""
        arrays = []
        for f in self.schema:
            if f.name in replaced:
                arrays.append(arrow_array(replaced[f.name], f.type))
            elif str(f.type) in _CODES:
                arrays.append(arrow_array(self.numpy(f.name), f.type))
            else:
                arrays.append(arrow_array(self.columns[f.name], f.type))
        return pa.Table.from_arrays(arrays, schema=self.schema)


class Codes:
    """Strings → dense codes, in order of first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def __call__(self, name: str | None) -> int:
        """The code of a string; -1 for None."""
        if name is None:
            return -1
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Final numbers of ops and partitions, by provisional ones."""

    ops: Values
    tps: Values

    def of(self, columns: Mapping[str, Values]) -> dict[str, Values]:
        """Those of these columns that hold numbers of ops or partitions, with the final ones."""
        found: dict[str, Values] = {}
        for name in {"tp", "src_tp"} & columns.keys():
            given = columns[name]
            found[name] = np.where(given >= 0, self.tps[np.maximum(given, 0)], -1).astype(np.int32)
        if "op" in columns:
            given = columns["op"]
            found["op"] = np.where(given >= 0, self.ops[np.maximum(given, 0)], -1).astype(np.int32)
        return found


@dataclass(frozen=True, slots=True)
class Appended:
    """Where `Rows.append` put the rows of others. ops: how many; tps: number of a partition there -> here."""

    first_op: int
    ops: int
    tps: Values


class Rows:
    """All tables of a history while they are built, with provisional numbers of ops and tps."""

    def __init__(self) -> None:
        self.columns = {name: Columns(schema) for name, schema in TABLES.items()}
        self.f, self.error, self.group, self.txn_id = Codes(), Codes(), Codes(), Codes()
        self.ops = 0
        self.run = ""
        self.remade = 0
        """How often the topics of the run were deleted and made again."""
        self._tps: dict[tuple[str, int, int], int] = {}
        self._reached: dict[tuple[int, int], int] = {}

    def tp(self, topic: str, partition: int, remade: int = 0) -> int:
        """Provisional number of a partition (order of first use), of the topic that there was after this
        number of deletions. Raises: Misfit."""
        number = self._tps.get((topic, partition, remade))
        if number is None:
            if not 0 <= partition < NUMBERS:
                raise Misfit(f"{topic!r} has no partition {partition}")
            number = self._tps[topic, partition, remade] = len(self._tps)
        return number

    @property
    def _named(self) -> list[tuple[str, int]]:
        """Topic and partition of each provisional number; of deleted topics the names say so."""
        return [
            (topic if made == self.remade else f"{topic}{GONE_MARK}{made + 1}", number)
            for topic, number, made in self._tps
        ]

    def of_run(self, run: str) -> None:
        """These rows are of this run. Raises: Misfit, where others are of another one."""
        if (self.run or run) != run:
            raise Misfit(f"the journal of another run, {run!r}: the others are of {self.run!r}")
        self.run = run

    def reached(self, tp: int, isolation: int, offset: int) -> None:
        """A final reader of this level has everything of `tp` below `offset`."""
        self._reached[tp, isolation] = max(offset, self._reached.get((tp, isolation), -1))

    def add_bounds(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Listed ends, and what the final readers reached. Partitions and levels that were not
        listed get an incomplete row: nothing is known of their end. The logs of deleted topics have lost
        all records."""
        made = self.remade
        listed = {(self.tp(topic, p, made), level): (start, end) for topic, p, level, start, end in rows}
        for (_, _, of), tp in self._tps.items():
            for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
                start, end = listed.get((tp, int(isolation)), (-1 if of == made else GONE, -1))
                reached = self._reached.get((tp, int(isolation)), -1)
                self.columns["bounds"].add(
                    tp=tp,
                    isolation=int(isolation),
                    start=start,
                    end=end,
                    read_to=reached,
                    complete=int(end >= 0 and reached >= end),
                )

    def names(self) -> dict[str, list[str]]:
        """The lists that codes point into."""
        return {
            "f": self.f.names,
            "error": self.error.names,
            "group": self.group.names,
            "txn_id": self.txn_id.names,
        }

    @property
    def clustered(self) -> int:
        """How many sends and reads are in memory."""
        return sum(self.columns[name].rows for name in CLUSTERED)

    def empty(self, name: str) -> Columns:
        """The rows of a table; from here on it has none."""
        taken, self.columns[name] = self.columns[name], Columns(TABLES[name])
        return taken

    def append(self, other: "Rows") -> Appended:
        """Append the rows of further journals, as if these had been read here. Raises: Misfit."""
        if other.run:
            self.of_run(other.run)
        tps = np.array([self.tp(*tp) for tp in other._tps] or [0], np.int32)
        self.remade = max(self.remade, other.remade)
        first_op = self.ops
        coded = {
            ("ops", "f"): (self.f, other.f),
            ("ops", "error"): (self.error, other.error),
            ("processes", "group"): (self.group, other.group),
            ("processes", "txn_id"): (self.txn_id, other.txn_id),
            ("commits", "group"): (self.group, other.group),
            ("deliveries", "group"): (self.group, other.group),
            ("acknowledgements", "group"): (self.group, other.group),
        }
        codes = {key: np.array([*map(here, there.names), -1]) for key, (here, there) in coded.items()}
        moved = Numbers(np.arange(first_op, first_op + max(other.ops, 1)), tps)
        for name, columns in other.columns.items():
            numbered = {each: columns.numpy(each) for each in {"op", "tp", "src_tp"} & columns.columns.keys()}
            replaced = moved.of(numbered)
            replaced |= {
                column: mapped[columns.numpy(column)]
                for (table, column), mapped in codes.items()
                if table == name
            }
            self.columns[name].extend(columns, **replaced)
        for (tp, isolation), offset in other._reached.items():
            self.reached(int(tps[tp]), isolation, offset)
        self.ops += other.ops
        return Appended(first_op, other.ops, tps)

    def final(self) -> Numbers:
        """Final numbers: ops by their rank, partitions in the order of their names."""
        order = {tp: n for n, tp in enumerate(sorted(self._named))}
        return Numbers(self._ranks(), np.array([order[tp] for tp in self._named] or [0], dtype=np.int32))

    def tables(self) -> dict[str, pa.Table]:
        """All tables, with final numbers, sends placed."""
        final = self.final()
        made = {}
        for name, columns in self.columns.items():
            numbered = {each: columns.numpy(each) for each in {"op", "tp", "src_tp"} & columns.columns.keys()}
            replaced = final.of(numbered)
            if name == "sends":
                sends, reads = self.columns["sends"], self.columns["reads"]
                replaced["place"] = places(
                    {each: sends.numpy(each) for each in PLACED_BY},
                    {each: reads.numpy(each) for each in PLACED_BY},
                )
            made[name] = columns.table(**replaced)
        made["ops"] = made["ops"].sort_by("op")
        order = sorted(self._named)
        made["tps"] = pa.table(
            {
                "tp": arrow_array(range(len(order)), pa.int32()),
                "topic": arrow_array([topic for topic, _ in order], pa.string()),
                "partition": arrow_array([partition for _, partition in order], pa.int32()),
            },
            schema=TABLES["tps"],
        )
        return made

    def _ranks(self) -> Values:
        """Provisional op number → dense rank by completion, open ops last."""
        ops = self.columns["ops"]
        order = np.lexsort((ops.numpy("invoke_ns"), ops.numpy("complete_ns")))
        ranks = np.zeros(max(len(order), 1), dtype=np.int32)
        ranks[ops.numpy("op")[order]] = np.arange(len(order), dtype=np.int32)
        return ranks


PLACED_BY: Final = ("tp", "value", "offset")
"""The columns of sends and of reads that decide where sends are placed."""


def places(sends: Mapping[str, Values], reads: Mapping[str, Values]) -> Values:
    """Of each send the acknowledged offset, else the lowest offset at which its value was read, else -1.

    sends, reads: columns `PLACED_BY` of whole partitions, rows in any order.
    """
    place = sends["offset"].copy()
    missing = np.flatnonzero(place < 0)
    if not len(missing) or not len(reads["tp"]):
        return place
    order = np.lexsort((reads["offset"], reads["value"], reads["tp"]))
    tps, values = reads["tp"][order], reads["value"][order]
    first = np.r_[True, (tps[1:] != tps[:-1]) | (values[1:] != values[:-1])]
    keys = zip(tps[first].tolist(), values[first].tolist(), strict=True)
    found = dict(zip(keys, reads["offset"][order][first].tolist(), strict=True))
    wanted = zip(sends["tp"][missing].tolist(), sends["value"][missing].tolist(), strict=True)
    place[missing] = [found.get(key, -1) for key in wanted]
    return place
