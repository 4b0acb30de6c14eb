"""Looking things up for witnesses: ops, names, producer identities, faults, single records.

Small tables are in memory; records are read from the units on demand, for few ops at a time.

Not here: sentences (`checkers.sentences`), examples (`checkers.witness`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.kernel import COPIES, READS, SENDS
from checkers.kernel_types import Array, Columns
from checkers.sealed import Sealed, columns, read_table, rows_where
from harness.events import FaultHealed, FaultStarted
from harness.history import OPEN
from harness.op import Isolation, Outcome, Phase
from harness.verdict import Fault

Row = dict[str, Any]
Records = tuple[list[Row], list[Row]]
"""Rows of two tables: sends and reads, unless said otherwise."""


def show_value(value: int) -> str:
    """A value as people read it: process/number."""
    return f"{value >> 32}/{value & 0xFFFFFFFF}"


@dataclass(slots=True)
class Lookup:
    """One sealed run, by op, process, partition and time."""

    sealed: Sealed
    _ops: pa.Table = field(init=False)
    _processes: dict[int, Row] = field(init=False)
    _tps: dict[int, str] = field(init=False)
    faults: list[Fault] = field(init=False)
    _sends: dict[int, Columns] = field(default_factory=dict)
    _transactions: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    _by_op: dict[int, Records] = field(default_factory=dict)
    _by_value: dict[int, Records] = field(default_factory=dict)
    _inputs: dict[tuple[int, int], Records] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = self.sealed.tables
        self._ops = tables["ops"]
        self._processes = {row["process"]: row for row in tables["processes"].to_pylist()}
        self._tps = {r["tp"]: f"{r['topic']}-{r['partition']}" for r in tables["tps"].to_pylist()}
        self.faults = self._all_faults()

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return round((ns - self.sealed.names.start_ns) / 1e9, 6)

    def tp(self, tp: int) -> str:
        """`topic-partition`."""
        return self._tps.get(tp, str(tp))

    def group(self, group: int) -> str:
        """Name of a consumer group."""
        names = self.sealed.names.group
        return names[group] if 0 <= group < len(names) else str(group)

    def op(self, op: int) -> Row:
        """Row of `ops` (they are sorted by number), with names for codes."""
        row: Row = self._ops.slice(op, 1).to_pylist()[0]
        names = self.sealed.names
        row["name"] = names.f[row["f"]] if 0 <= row["f"] < len(names.f) else "?"
        row["why"] = names.error[row["error"]] if 0 <= row["error"] < len(names.error) else ""
        row["outcome_name"] = Outcome(row["outcome"]).name.lower()
        row["phase_name"] = Phase(row["phase"]).name.lower()
        return row

    def process(self, process: int) -> Row:
        """Row of `processes`, with names for codes; empty for a process that is not on record."""
        row = dict(self._processes.get(process, {}))
        if row:
            ids = self.sealed.names.txn_id
            row["transactional_id"] = ids[row["txn_id"]] if 0 <= row["txn_id"] < len(ids) else ""
            row["level"] = Isolation(row["isolation"]).name.lower()
        return row

    def previous_transaction(self, op: Row) -> Row | None:
        """The transaction before an op of the same process."""
        process = int(op["process"])
        if process not in self._transactions:
            ops = columns(self._ops, ("op", "process", "txn", "invoke_ns"))
            rows = np.flatnonzero((ops["process"] == process) & (ops["txn"] == 1))
            rows = rows[np.argsort(ops["invoke_ns"][rows], kind="stable")]
            self._transactions[process] = ops["op"][rows], ops["invoke_ns"][rows]
        numbers, invoked = self._transactions[process]
        before = int(np.searchsorted(invoked, op["invoke_ns"], side="left"))
        return self.op(int(numbers[before - 1])) if before else None

    def identity(self, process: int, ns: int) -> dict[str, int]:
        """The producer identity of a process at a moment, as its statistics told it; {} unknown."""
        known: dict[str, int] = {}
        for row in self.identities(process):
            if row["ns"] <= ns or not known:
                known = {
                    "producer_id": row["producer_id"],
                    "epoch": row["producer_epoch"],
                    "epoch_cnt": row["epoch_cnt"],
                }
        return known

    def identities(self, process: int) -> list[Row]:
        """All producer identities of a process in order of time."""
        table = self.sealed.tables["producers"]
        rows: list[Row] = rows_where(table, "process", np.array([process], np.int32)).to_pylist()
        return sorted(rows, key=lambda row: int(row["ns"]))

    def sends_to(self, tp: int) -> Columns:
        """All sends to one partition, as columns."""
        if tp not in self._sends:
            unit = next(unit for unit in self.sealed.names.units if tp in unit.tps)
            path = self.sealed.run.table("sends") / f"{unit.name}.parquet"
            table = read_table(path, "sends", ("tp", *SENDS))
            self._sends = {tp: columns(rows_where(table, "tp", np.array([tp], np.int32)))}
        return self._sends[tp]

    def fetch(self, *, ops: Iterable[int] = (), values: Iterable[int] = ()) -> None:
        """Read the records of these ops and values, all in one pass over the units."""
        new_ops, new_values = set(ops) - self._by_op.keys(), set(values) - self._by_value.keys()
        if not new_ops and not new_values:
            return
        self._by_op |= {op: ([], []) for op in new_ops}
        self._by_value |= {value: ([], []) for value in new_values}
        wanted_ops = np.array(sorted(new_ops), np.int32)
        wanted_values = np.array(sorted(new_values), np.int64)
        for unit in self.sealed.names.units:
            for n, (name, names) in enumerate((("sends", SENDS), ("reads", READS))):
                path = self.sealed.run.table(name) / f"{unit.name}.parquet"
                table = read_table(path, name, ("tp", *names))
                for row in rows_where(table, "op", wanted_ops).to_pylist():
                    self._by_op[row["op"]][n].append(row)
                for row in rows_where(table, "value", wanted_values).to_pylist():
                    self._by_value[row["value"]][n].append(row)

    def of_ops(self, *ops: int) -> tuple[list[Row], list[Row]]:
        """Rows of sends and of reads of these ops."""
        self.fetch(ops=ops)
        return _joined([self._by_op[op] for op in ops])

    def of_values(self, *values: int) -> tuple[list[Row], list[Row]]:
        """Rows of sends and of reads of these values, whichever the partition."""
        self.fetch(values=values)
        return _joined([self._by_value[value] for value in values])

    def fetch_inputs(self, inputs: Iterable[tuple[int, int]]) -> None:
        """Read what stands at these places (partition, offset), and its copies, in one pass."""
        new = set(inputs) - self._inputs.keys()
        if not new:
            return
        self._inputs |= {place: ([], []) for place in new}
        wanted = np.array(sorted({offset for _, offset in new}), np.int64)
        for unit in self.sealed.names.units:
            path = self.sealed.run.table("sends") / f"{unit.name}.parquet"
            table = read_table(path, "sends", ("tp", *SENDS, *COPIES))
            for row in rows_where(table, "src_offset", wanted).to_pylist():
                if (place := (row["src_tp"], row["src_offset"])) in new:
                    self._inputs[place][1].append(row)
            path = self.sealed.run.table("reads") / f"{unit.name}.parquet"
            table = read_table(path, "reads", ("tp", *READS))
            for row in rows_where(table, "offset", wanted).to_pylist():
                if (place := (row["tp"], row["offset"])) in new:
                    self._inputs[place][0].append(row)

    def input(self, tp: int, offset: int) -> Records:
        """Reads of what stands at a place, and sends of its copies."""
        self.fetch_inputs([(tp, offset)])
        return self._inputs[tp, offset]

    def faults_during(self, begin_ns: int, end_ns: int) -> list[int]:
        """Ids of the faults that were in force at some moment of an interval."""
        begin, end = self.seconds(begin_ns), self.seconds(end_ns)
        return [
            fault.fault
            for fault in self.faults
            if fault.begin_s <= end and (fault.end_s is None or fault.end_s >= begin)
        ]

    def _all_faults(self) -> list[Fault]:
        events = self.sealed.events
        healed = {e.fault: self.seconds(e.ns) for e in events if isinstance(e, FaultHealed)}
        return [
            Fault(
                fault=e.fault, name=e.name, text=e.text, nodes=list(e.nodes), colour=e.colour,
                begin_s=self.seconds(e.begin_ns), end_s=healed.get(e.fault), slots=list(e.slots),
            )
            for e in events
            if isinstance(e, FaultStarted)
        ]  # fmt: skip


def _joined(parts: Iterable[Records]) -> Records:
    sends: list[Row] = []
    reads: list[Row] = []
    for sent, read in parts:
        sends += sent
        reads += read
    return sends, reads


def ended_ns(op: Row) -> int:
    """When an op completed; its invocation where it never did."""
    complete, invoke = int(op["complete_ns"]), int(op["invoke_ns"])
    return invoke if complete == OPEN else complete
