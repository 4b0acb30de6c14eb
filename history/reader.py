"""The reader of a sealed run folder: the one that checker and report share.

Names, events and small tables are read once and stay in memory. Sends and reads stay on disk: kernels
read whole units (`history.unit_files`), code that shows single records asks for a few (`History.sends`,
`History.reads`), and Parquet's statistics skip the row groups that cannot hold them.

`load` verifies everything before anything is checked: a folder that is damaged, incomplete or of
another format is refused with one clear error. A report wants to show what can be read: it composes a
`History` from `read_names`, `read_events` and `history.unit_files.read_table`.

Not here: the meaning of the tables (`history.tables`).
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from core.op import End, Isolation, Outcome, Phase
from core.presets import NamedSettings
from history import storage, values
from history.broker_logs import VIRTUAL, BrokerLogs, LeftOutMarkersLine, broker_logs
from history.columns import Array, Columns, columns, numbers
from history.events import Event, decode
from history.run_folder import FORMAT, Run
from history.tables import CLUSTERED, NAMES, OPEN, TABLES, TableRow
from history.unit_files import EVERYWHERE, Where, matching, read_columns, read_table, verify

SMALL: Final = tuple(name for name in TABLES if name not in CLUSTERED)
"""Tables of one file each, read whole; `ops` may have millions of rows, the others are small."""


class Unit(msgspec.Struct, frozen=True):
    """One entry of `names.json` "units": a file of sends and a file of reads; how many rows each has."""

    name: str
    tps: list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]]
    sends: Annotated[int, msgspec.Meta(ge=0)]
    reads: Annotated[int, msgspec.Meta(ge=0)]


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """`names.json`. f, error, group, txn_id: the names that codes in the tables stand for."""

    format: int
    run: str
    start_ns: int
    start_wall: str = ""
    units: list[Unit]
    f: list[str]
    error: list[str]
    group: list[str]
    txn_id: list[str]


class SendRow(NamedTuple):
    """One row of `sends` (`history.tables`)."""

    tp: int
    op: int
    process: int
    pos: int
    value: int
    offset: int
    place: int
    outcome: int
    op_outcome: int
    txn: int
    op_sends: int
    invoke_ns: int
    ack_ns: int
    src_tp: int
    src_offset: int


class ReadRow(NamedTuple):
    """One row of `reads` (`history.tables`)."""

    tp: int
    op: int
    process: int
    pos: int
    isolation: int
    op_outcome: int
    phase: int
    assignment: int
    leader_epoch: int
    offset: int
    value: int
    invoke_ns: int
    complete_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a client: a row of `processes` with names for codes.

    retries, in_flight, socket_timeout_ms: what its producer worked with; -1 = not on record.
    """

    process: int
    slot: int
    group: int
    isolation: Isolation
    transactional_id: str
    acks: int
    idempotent: bool
    auto_commit: bool
    retries: int
    in_flight: int
    socket_timeout_ms: int
    start_ns: int
    end_ns: int
    end: End

    @property
    def level(self) -> str:
        """Its isolation level by Kafka's name; "" where it does not read."""
        return "" if self.isolation is Isolation.NONE else self.isolation.name.lower()

    def __str__(self) -> str:
        """The process with its client and transactional id."""
        named = f", {self.transactional_id}" if self.transactional_id else ""
        return f"process {self.process} (client {self.slot}{named})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRecord:
    """One op: a row of `ops` with names for codes. error: "" where there was none."""

    op: int
    process: int
    f: str
    outcome: Outcome
    phase: Phase
    txn: bool
    deliberate: bool
    error: str
    n_sends: int
    n_reads: int
    invoke_ns: int
    complete_ns: int

    @property
    def completed(self) -> bool:
        """Whether it ever completed."""
        return self.complete_ns != OPEN

    @property
    def ended_ns(self) -> int:
        """When it completed; its invocation where it never did."""
        return self.complete_ns if self.completed else self.invoke_ns


class Identity(NamedTuple):
    """The producer identity of a process from `ns` on, as its client's statistics gave it."""

    ns: int
    producer_id: int
    producer_epoch: int
    epoch_cnt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One row of `bounds`: what the final reads of one level had to reach, and reached; -1 unknown."""

    start: int
    end: int
    read_to: int
    complete: bool


@dataclass(frozen=True, kw_only=True)
class History:
    """A sealed history: names, small tables and events in memory, units on disk.

    tables: the small ones that were read (`load`: all of them). remade: of a recording so far
    (`history.prefix`), how often the topics of the run had been deleted and made again.
    """

    run: Run
    names: Names
    tables: Mapping[str, pa.Table]
    events: Sequence[Event] = ()
    config: NamedSettings = field(default_factory=dict)
    remade: int = 0

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return (ns - self.names.start_ns) / 1e9

    @cached_property
    def tps(self) -> dict[int, str]:
        """`topic-partition` by number."""
        rows = self.tables["tps"].to_pylist()
        return {row["tp"]: f"{row['topic']}-{row['partition']}" for row in rows}

    def tp(self, tp: int) -> str:
        """`topic-partition`."""
        return self.tps.get(tp, str(tp))

    @cached_property
    def tp_numbers(self) -> dict[str, int]:
        """Number by `topic-partition`."""
        return {name: tp for tp, name in self.tps.items()}

    def group(self, group: int) -> str:
        """Name of a consumer group."""
        return _named(self.names.group, group, str(group))

    @cached_property
    def processes(self) -> dict[int, Process]:
        """Every process on record."""
        rows = self.tables["processes"].to_pylist()
        for row in rows:
            row["transactional_id"] = _named(self.names.txn_id, row["txn_id"], "")
        return {row["process"]: msgspec.convert(row, Process, strict=False) for row in rows}

    def client(self, process: int) -> str:
        """A process in words, with its client and transactional id."""
        return str(self.processes.get(process, f"process {process}"))

    @cached_property
    def _ops(self) -> Columns:
        return columns(self.tables["ops"])

    def op(self, op: int) -> OpRecord:
        """One op (rows of `ops` are sorted by number)."""
        row: TableRow = {name: column[op].item() for name, column in self._ops.items()}
        row["f"] = _named(self.names.f, row["f"], "?")
        row["error"] = _named(self.names.error, row["error"], "")
        return msgspec.convert(row, OpRecord, strict=False)

    @cached_property
    def ops_by_process(self) -> tuple[Array, Array]:
        """Process numbers, sorted, and the row of `ops` of each, in order of invocation."""
        process, invoke = (numbers(self.tables["ops"], name) for name in ("process", "invoke_ns"))
        order = np.lexsort((invoke, process))
        return process[order], order

    def ops_of(self, process: int) -> Array:
        """Ops of a process in order of invocation."""
        processes, ops = self.ops_by_process
        wanted = np.array((process, process + 1), processes.dtype)  # else numpy casts all of them
        low, high = np.searchsorted(processes, wanted)
        return np.asarray(ops[low:high])

    @cached_property
    def _anchor(self) -> tuple[datetime, int]:
        """One moment by the wall clock of brokers, and in ns; a simulated run has virtual time alone."""
        if self.names.start_wall:
            return datetime.fromisoformat(self.names.start_wall), self.names.start_ns
        return VIRTUAL, 0

    def wall_ns(self, wall: datetime) -> int:
        """The time of a broker's wall clock in ns, as events have it."""
        moment, ns = self._anchor
        return ns + int((wall - moment).total_seconds() * 1e9)

    def wall_ms(self, ns: int) -> int:
        """ms since 1970 by the wall clock of brokers, as records have it."""
        moment, at_ns = self._anchor
        return int(moment.timestamp() * 1000) + (ns - at_ns) // 1_000_000

    @cached_property
    def broker_logs(self) -> BrokerLogs:
        """What the brokers' logs say. Raises: HistoryError."""
        return broker_logs(self.run)

    @cached_property
    def left_out(self) -> list[tuple[int, LeftOutMarkersLine]]:
        """Markers that coordinators left out, each with its time in ns. Raises: HistoryError."""
        return [(self.wall_ns(one.wall), one) for one in self.broker_logs.left_out]

    @cached_property
    def bounds(self) -> dict[int, dict[int, Bound]]:
        """Bounds by partition and isolation level."""
        return bounds(self.tables["bounds"])

    @cached_property
    def _identities(self) -> dict[int, list[Identity]]:
        found: dict[int, list[Identity]] = defaultdict(list)
        for row in self.tables["producers"].to_pylist():
            identity = Identity(*(row[name] for name in Identity._fields))
            found[row["process"]].append(identity)
        return {process: sorted(rows) for process, rows in found.items()}

    def identities(self, process: int) -> Sequence[Identity]:
        """Producer identities of a process in order of time; none where its client gave none."""
        return self._identities.get(process, ())

    def sends(self, where: Mapping[int, Where]) -> list[SendRow]:
        """Sends that satisfy the condition of their partition, or of `EVERYWHERE`.

        Raises: HistoryError.
        """
        return [SendRow._make(row) for row in self._few("sends", SendRow._fields, where)]

    def reads(self, where: Mapping[int, Where]) -> list[ReadRow]:
        """Reads that satisfy the condition of their partition, or of `EVERYWHERE`.

        Raises: HistoryError.
        """
        return [ReadRow._make(row) for row in self._few("reads", ReadRow._fields, where)]

    def whole(self, name: str) -> pa.Table:
        """All rows of a table, in memory.

        Raises: HistoryError.
        """
        if name in self.tables:
            return self.tables[name]
        units = sorted(self.names.units, key=lambda unit: unit.tps)
        found = [self.of_unit(name, unit.name) for unit in units]
        return pa.concat_tables([TABLES[name].empty_table(), *found]).combine_chunks()

    def of_unit(self, name: str, unit: str) -> pa.Table:
        """The rows of a table that a unit holds, as `whole` has them.

        Raises: HistoryError.
        """
        rows = read_columns(self.run, name, unit, TABLES[name].names)
        return pa.table(rows, schema=TABLES[name])

    def _few(
        self, table: str, wanted: tuple[str, ...], where: Mapping[int, Where]
    ) -> Iterator[tuple[int, ...]]:
        def of_unit(unit: Unit) -> list[tuple[int, ...]]:
            mine = {tp: where[tp] for tp in (EVERYWHERE, *unit.tps) if tp in where}
            return matching(self.run, table, unit.name, wanted, mine) if mine else []

        if not where:
            return
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # decoding does not hold Python's lock
            for rows in threads.map(of_unit, self.names.units):
                yield from rows


def _named(names: Sequence[str], code: int, otherwise: str) -> str:
    return names[code] if 0 <= code < len(names) else otherwise


def value_text(value: int) -> str:
    """A value as people read it: process/number."""
    return f"{value >> 32}/{value & 0xFFFFFFFF}"


def load(run: Run) -> History:
    """Read and verify a sealed run folder.

    Raises: HistoryError.
    """
    if not run.folder.is_dir():
        raise HistoryError(f"{run.folder}: no such run folder")
    names = read_names(run)
    config = _json(run.config)
    if not isinstance(config, dict):
        raise HistoryError(f"{run.config}: not an object")
    events = read_events(run)
    try:
        tables = _tables(run, names)
    except HistoryError as error:
        if not any(run.journal.glob("*.jsonl")):
            raise
        again = f"remove {run.history}, and inquest check {run.folder} makes it again from the journals"
        raise HistoryError(f"{error}; {again}") from None
    return History(run=run, names=names, config=config, events=events, tables=tables)


def _tables(run: Run, names: Names) -> dict[str, pa.Table]:
    """The tables that are not clustered, and the others verified. Raises: HistoryError."""
    tables = {name: read_table(run.table(name), name) for name in SMALL}
    lists = {name: known for name in NAMES if (known := getattr(names, name))}  # a caller may give none
    values.refuse(values.of_small(tables, lists), {name: run.table(name) for name in SMALL})
    limits = values.limits(tables["tps"].num_rows, tables["ops"].num_rows)
    for unit in names.units:
        there = [verify(run, table, unit.name, getattr(unit, table), limits[table]) for table in CLUSTERED]
        if set().union(*there) != set(unit.tps):
            raise HistoryError(
                f"{run.names}: the files of unit {unit.name} hold other partitions than it lists"
            )
    for table in CLUSTERED:
        rows = sum(getattr(unit, table) for unit in names.units)
        due = numbers(tables["ops"], f"n_{table}").sum()
        if rows != due:
            raise HistoryError(
                f"{run.names}: {rows} {table} in its units, where the ops say that there are {due}"
            )
    return tables


def read_names(run: Run) -> Names:
    """The names, of this version's format.

    Raises: HistoryError.
    """
    found = format_of(run)
    if found != FORMAT:
        age = "newer" if found > FORMAT else "older"
        again = found < FORMAT and any(run.journal.glob("*.jsonl"))
        how = (
            f"inquest check {run.folder} makes it again"
            if again
            else "check it with the version that recorded it"
        )
        raise HistoryError(
            f"{run.names}: format {found} is {age} than the one that this version of Inquest reads "
            f"({FORMAT}); {how}"
        )
    try:
        names = msgspec.convert(_json(run.names), Names)
    except msgspec.ValidationError as error:
        raise HistoryError(f"{run.names}: {error}") from None
    if why := _odd_units(names.units):
        raise HistoryError(f"{run.names}: {why}")
    return names


def format_of(run: Run) -> int:
    """The format of a sealed history.

    Raises: HistoryError.
    """
    raw = _json(run.names)
    found = raw.get("format") if isinstance(raw, dict) else None
    if not isinstance(found, int):
        raise HistoryError(f"{run.names}: no format number")
    return found


def _odd_units(units: Sequence[Unit]) -> str:
    """Why no sealing lists these units, "" = it may. Their names become names of files."""
    seen: set[int] = set()
    for unit in units:
        if not unit.tps or sorted(set(unit.tps)) != unit.tps or unit.name != unit_name(unit.tps):
            return f"no unit of these partitions is called {unit.name[:80]!r}"
        if seen & set(unit.tps):
            return f"unit {unit.name}: one of its partitions is in another unit as well"
        seen.update(unit.tps)
    return ""


def unit_name(tps: Sequence[int]) -> str:
    """The name of the unit of these partitions."""
    return f"{tps[0]:05d}-{tps[-1]:05d}"


def planned_faults(run: Run) -> int:
    """How many faults were planned for a run; 0 where no plan is on record. Raises: HistoryError."""
    try:
        if not storage.is_there(run.schedule):
            return 0
        return sum(bool(line.strip()) for line in storage.read_bytes(run.schedule).splitlines())
    except OSError as error:
        raise HistoryError(f"{run.schedule}: {storage.line(error)}") from None


def read_events(run: Run) -> list[Event]:
    """All events.

    Raises: HistoryError.
    """
    try:
        return decode(storage.read_bytes(run.events), str(run.events))
    except OSError as error:
        raise HistoryError(f"{run.events}: {storage.line(error)}") from None
    except ValueError as error:
        raise HistoryError(f"{run.folder}: {error}") from None


def _json(path: Path) -> object:
    try:
        return msgspec.json.decode(storage.read_bytes(path))
    except OSError as error:
        raise HistoryError(f"{path}: {storage.line(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: {error}") from None
    except RecursionError:
        raise HistoryError(f"{path}: nested too deeply") from None


def bounds(table: pa.Table) -> dict[int, dict[int, Bound]]:
    """Rows of `bounds` by partition and isolation level."""
    found: dict[int, dict[int, Bound]] = defaultdict(dict)
    for row in table.to_pylist():
        tp, isolation = row.pop("tp"), row.pop("isolation")
        found[tp][isolation] = Bound(**row)
    return dict(found)
