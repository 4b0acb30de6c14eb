"""The sealed history beside its ops: clients, partitions, bounds, and the few records that are shown.

Small tables are read once; records are read from the units that hold them, filtered while reading.
Columns are named, so that folders of an older format are read as far as they go.

Not here: ops (`inputs`), which records are wanted (`logs`, `transactions`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.op import End, Isolation
from harness.store import Run

Row = dict[str, Any]
SENDS = (
    "tp", "op", "process", "value", "offset", "place", "outcome", "op_outcome", "txn", "invoke_ns",
    "ack_ns", "src_tp", "src_offset",
)  # fmt: skip
READS = ("tp", "op", "process", "isolation", "phase", "offset", "value", "leader_epoch")
COLUMNS = {"sends": SENDS, "reads": READS}


class Unreadable(Exception):
    """A table cannot be read. The message names the file."""


class Unit(msgspec.Struct, frozen=True):
    """A file of sends and a file of reads, and the partitions in them."""

    name: str
    tps: list[int]


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `names.json` that a report needs."""

    f: list[str] = []
    error: list[str] = []
    txn_id: list[str] = []
    units: list[Unit] = []
    start_ns: int = -1
    start_wall: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a client. Times are seconds since the start of the run."""

    process: int
    slot: int
    isolation: int
    transactional_id: str
    begin: float
    end: float
    ended: End

    @property
    def level(self) -> str:
        """Its isolation level by Kafka's name, "" where it does not read."""
        return "" if self.isolation < 0 else Isolation(self.isolation).name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What the final reads at one level had to reach in one partition, and reached; -1 unknown."""

    start: int
    end: int
    read_to: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """Names, clients and bounds in memory; records on disk. bounds: by (tp, isolation)."""

    run: Run
    start_ns: int
    units: list[Unit]
    tps: dict[str, int]
    processes: dict[int, Process]
    bounds: dict[tuple[int, int], Bound]

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return (ns - self.start_ns) / 1e9

    def tp(self, number: int) -> str:
        """`topic-partition`."""
        return next((name for name, tp in self.tps.items() if tp == number), str(number))

    def client(self, process: int) -> str:
        """A process with its client and transactional id."""
        row = self.processes.get(process)
        if row is None:
            return f"process {process}"
        named = f", {row.transactional_id}" if row.transactional_id else ""
        return f"process {process} (client {row.slot}{named})"

    def rows_of(self, table: str, where: Mapping[int, pc.Expression]) -> list[Row]:
        """Rows of `sends` or `reads` of some partitions, by what each of them has to satisfy.

        Raises: Unreadable.
        """
        found: list[Row] = []
        for unit in self.units:
            mine = [(pc.field("tp") == tp) & where[tp] for tp in unit.tps if tp in where]
            if mine:
                found += self._read(table, unit, either(mine))
        return found

    def rows(self, table: str, where: pc.Expression) -> list[Row]:
        """Rows of `sends` or `reads` of all partitions.

        Raises: Unreadable.
        """
        return [row for unit in self.units for row in self._read(table, unit, where)]

    def _read(self, table: str, unit: Unit, where: pc.Expression) -> list[Row]:
        path = self.run.table(table) / f"{unit.name}.parquet"
        try:
            known = pq.read_schema(path).names
            columns = [column for column in COLUMNS[table] if column in known]
            part = pq.read_table(path, columns=columns, filters=where, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            name = f"history/{table}/{path.name}"
            raise Unreadable(f"{name} cannot be read ({_why(error)})") from None
        rows: list[Row] = part.to_pylist()
        return rows


def either(conditions: Iterable[pc.Expression]) -> pc.Expression:
    """Rows that satisfy at least one of some conditions (there must be one)."""
    return reduce(or_, conditions)


def any_of(column: str, values: Iterable[int]) -> pc.Expression:
    """Rows whose column has one of these values."""
    return pc.field(column).isin(pa.array(sorted(values), pa.int64()))


def sealed(run: Run, names: Names, start_ns: int, gaps: list[str]) -> Sealed | None:
    """The history beside its ops; None, and a gap, where it cannot be read."""
    try:
        tps = _table(run, "tps", ("tp", "topic", "partition"))
        processes = _table(
            run,
            "processes",
            ("process", "slot", "isolation", "txn_id", "start_ns", "end_ns", "end"),
        )
        bounds = _table(run, "bounds", ("tp", "isolation", "start", "end", "read_to", "complete"))
    except Unreadable as error:
        gaps.append(f"{error}: clients, logs and transactions are not shown.")
        return None

    def seconds(ns: int) -> float:
        return (ns - start_ns) / 1e9

    return Sealed(
        run=run,
        start_ns=start_ns,
        units=names.units,
        tps={f"{row['topic']}-{row['partition']}": row["tp"] for row in tps},
        processes={
            row["process"]: Process(
                process=row["process"],
                slot=row["slot"],
                isolation=row["isolation"],
                transactional_id=_named(names.txn_id, row["txn_id"]),
                begin=seconds(row["start_ns"]),
                end=seconds(row["end_ns"]),
                ended=End(row["end"]),
            )
            for row in processes
        },
        bounds={
            (row["tp"], row["isolation"]): Bound(
                start=row["start"], end=row["end"], read_to=row["read_to"], complete=row["complete"]
            )
            for row in bounds
        },
    )  # fmt: skip


def _table(run: Run, name: str, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    try:
        rows: list[Mapping[str, Any]] = pq.read_table(
            run.table(name), columns=list(columns), partitioning=None
        ).to_pylist()
    except FileNotFoundError:
        raise Unreadable(f"history/{name}.parquet is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(f"history/{name}.parquet cannot be read ({_why(error)})") from None
    return rows


def _why(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _named(names: Sequence[str], code: int) -> str:
    return names[code] if 0 <= code < len(names) else ""
