"""The checks of a sealed history, unit by unit, in tasks; and of tables in memory.

Every task reads its unit with pyarrow, so no message is ever shuffled. Small results come back at once; what
kernels keep (`PartitionResult.kept`) goes into the scratch of the workers, and joins ask it for what they
need. A check that crashes is named in the result, and the others run.
"""

import functools
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import ClassVar, Final, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from checkers.engine.check import Check, Kernel, Tally, WholeRun
from checkers.engine.findings import CAP, INFO, OK, PartitionResult
from checkers.engine.first_acks import COLUMNS, earliest, first_acks, first_acks_in_unit
from checkers.engine.kernel_input import (
    PORTABLE,
    READS,
    RECORDED,
    SENDS,
    KernelInput,
    kernel_input,
    on_record,
)
from checkers.engine.memory import keep_freed
from checkers.engine.open_transactions import sent_twice, shown, shown_in_unit
from checkers.engine.partition_view import KernelView, distinct
from checkers.windows import RunWindows
from core.config import RunConfig
from core.progress import Stage
from history import storage
from history.columns import Array, Columns, columns, grouped, numbers
from history.events import Event
from history.reader import History
from history.run_folder import Run
from history.tasks import THREADS, Memory, Scratch, Workers
from history.unit_files import read_columns
from history.values import OpsOnRecord, of_rows, out_of_order, refuse

T = TypeVar("T")

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]
NO_OPS: Final = np.zeros(0, np.int32)
OPEN: Final = "open transactions"
ACKS: Final = "first acknowledgements"
"""In place of a check, of parts that tell of open transactions, or of first acknowledgements."""


class Task(Protocol):
    """A part of the work on a sealed history. It can be pickled. stage: the work that it is part of; rows:
    about how many it reads."""

    stage: ClassVar[str]

    @property
    def rows(self) -> int:
        """See above."""

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """Read files and use kernels. Raises: HistoryError."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """One of these tasks, with what all of them share."""

    tasks: Sequence[Task]
    kernels: Kernels
    known: KernelInput
    scratch: Scratch

    def __call__(self, number: int) -> list[PartitionResult]:
        """Its results; what kernels kept is in the scratch."""
        keep_freed()
        results = list(self.tasks[number].run(self.kernels, self.known))
        return [
            replace(
                result,
                kept={
                    name: self.scratch.write(f"kept-{number}-{at}-{name}", kept)
                    for name, kept in result.kept.items()
                },
            )
            for at, result in enumerate(results)
        ]


def run_tasks(
    workers: Workers, tasks: Sequence[Task], kernels: Kernels, known: KernelInput
) -> list[PartitionResult]:
    """The results of tasks of one stage. Raises: see `Workers.map`."""
    if not tasks:
        return []
    stage = Stage(name=tasks[0].stage, tasks="units", sizes=[task.rows for task in tasks])
    work = RunTask(tuple(tasks), dict(kernels), known, workers.scratch)
    return [result for results in workers.map(stage, work) for result in results]


def check_tables(
    tables: Mapping[str, pa.Table],
    checks: Checks,
    *,
    recorded: bool,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
    windows: RunWindows | None = None,
    cap: int = CAP,
) -> Tally:
    """Check a whole history that is in memory, in this process. config, windows: see `kernel_input`."""
    record = RECORDED if recorded else PORTABLE
    known = kernel_input(tables, record=record, config=config, events=events, windows=windows, cap=cap)
    kernels = kernels_of(checks)
    rows = list(partitions(columns(tables["sends"], SENDS), columns(tables["reads"], READS)))

    proven = [shown(*of) for _, *of in rows if known.on_record.recovery or not sent_twice(of[0])]
    known = knowing(known, proven)
    if known.tenure is not None:
        acked = first_acks(columns(tables["sends"], COLUMNS), known)
        known = replace(known, tenure=known.tenure.with_acks(acked))
    checked = [check_partition(*each, known, kernels) for each in rows]
    return _joined(checked, Memory(), tables, known, events, checks)


def check_sealed(history: History, config: RunConfig, checks: Checks, workers: Workers) -> Tally:
    """Check a sealed run with these workers. config: the run's.

    Raises: HistoryError, where a file proves damaged; SparkError, where the engine failed.
    """
    record = on_record(history.config)
    known = kernel_input(history.tables, record=record, config=config, events=history.events)
    known = replace(known, ops=OpsOnRecord.of(history.tables))
    kernels, folder = kernels_of(checks), storage.shared(history.run.folder)
    known = _looked(history, workers, known)
    tasks = [
        UnitTask(folder=folder, unit=unit.name, rows=unit.sends + unit.reads) for unit in history.names.units
    ]
    checked = sorted(run_tasks(workers, tasks, kernels, known), key=lambda result: result.tp)
    return _joined(checked, workers.scratch, history.tables, known, history.events, checks)


def knowing(known: KernelInput, proven: Iterable[Array]) -> KernelInput:
    """With the open transactions that are proven committed."""
    return replace(known, proven=distinct(np.concatenate([NO_OPS, *proven])))


def _looked(history: History, workers: Workers, known: KernelInput) -> KernelInput:
    """With what has to be known of all units before one can be checked."""
    ops = history.tables["ops"]
    open_ops = bool(((numbers(ops, "outcome") == INFO) & (numbers(ops, "txn") == 1)).any())
    if not (open_ops or known.tenure is not None):
        return knowing(known, [])
    folder = storage.shared(history.run.folder)
    tasks = [
        LookTask(folder=folder, unit=unit.name, rows=unit.sends + unit.reads, open_ops=open_ops)
        for unit in history.names.units
    ]
    parts = [result.parts for result in run_tasks(workers, tasks, {}, _without_rows(known))]
    known = knowing(known, [each for part in parts for each in cast(list[Array], part[OPEN])])
    if known.tenure is None:
        return known
    acked = earliest([cast(Array, part[ACKS]) for part in parts], known)
    return replace(known, tenure=known.tenure.with_acks(acked))


def _without_rows(known: KernelInput) -> KernelInput:
    """What looks through units needs no more of it."""
    return replace(known, vertex=NO_OPS, relay=NO_OPS, ends=NO_OPS, commits={}, assignments={}, ops=None)


def kernels_of(checks: Checks) -> dict[str, Kernel]:
    """The kernels of the checks that have one."""
    return {name: check.kernel for name, check in checks.items() if check.kernel is not None}


def check_partition(
    tp: int, sends: Columns, reads: Columns, known: KernelInput, kernels: Kernels
) -> PartitionResult:
    """All findings of one topic-partition.

    sends, reads: its rows, columns `SENDS` and `READS`, sorted as sealed tables are
    (sends by op, pos; reads by process, op, pos).
    """
    result = PartitionResult(tp=tp, cap=known.cap)
    if not known.on_record.recovery and (why := sent_twice(sends)):
        result.refused, result.rows = why, len(sends["op"]) + len(reads["op"])
        return result
    try:
        view = KernelView(tp, sends, reads, known)
    except Exception:  # noqa: BLE001 (all its checks are named as crashed, none passes)
        result.crashed = dict.fromkeys(kernels, traceback.format_exc(limit=-3))
        return result
    result.rows = len(sends["op"]) + len(reads["op"])
    result.acknowledged = int((sends["outcome"] == OK).sum())
    result.unread = view.unread
    for name, kernel in kernels.items():
        result.guarded(name, functools.partial(kernel, view, result))
    return result


def _joined(
    results: Sequence[PartitionResult],
    scratch: Scratch,
    tables: Mapping[str, pa.Table],
    known: KernelInput,
    events: Sequence[Event],
    checks: Checks,
) -> Tally:
    """Join the results of all partitions with what small tables and events say."""
    tally = Tally(cap=known.cap)
    for result in results:
        tally.rows += result.rows
        tally.acknowledged += result.acknowledged
        tally.counts += result.counts
        tally.findings += result.findings
        for name, seconds in result.seconds.items():
            tally.spent(name, seconds)
        for name, part in result.parts.items():
            tally.parts.setdefault(name, []).append((result.tp, part))
        if result.unread:
            tally.unread.append(result.tp)
        for name in kernels_of(checks) if result.refused else ():
            tally.doubt(name, 1, result.refused, tps=[result.tp])
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"partition {result.tp}: {how}")

    def ask(check: str, question: Callable[[object], T]) -> list[tuple[int, T]]:
        def answer(result: PartitionResult) -> tuple[int, T]:
            return result.tp, question(scratch.read(result.kept[check]))

        asked = [result for result in results if check in result.kept]
        with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as threads:
            return sorted(threads.map(answer, asked), key=itemgetter(0))

    run = WholeRun(tables=tables, known=known, events=events, ask=ask)
    for name, check in checks.items():
        if check.join is not None:
            tally.guarded(name, functools.partial(check.join, run, tally))
    return tally


def partitions(sends: Columns, reads: Columns) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table."""
    sent, read = dict(grouped(sends["tp"], sends)), dict(grouped(reads["tp"], reads))
    no_sends, no_reads = ({name: of[name][:0] for name in of} for of in (sends, reads))
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, no_sends), read.get(tp, no_reads)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """One unit to check."""

    stage: ClassVar = "checking"
    folder: str
    unit: str
    rows: int

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """Check its partitions."""
        run = Run(storage.location(self.folder))
        sends = read_columns(run, "sends", self.unit, SENDS)
        reads = read_columns(run, "reads", self.unit, READS)
        for tp, sent, read in partitions(sends, reads):
            if known.ops is not None:
                self._refuse(run, known.ops, sent, read)
            yield check_partition(tp, sent, read, known, kernels)

    def _refuse(self, run: Run, ops: OpsOnRecord, sends: Columns, reads: Columns) -> None:
        """Refuse rows of one partition that no recording has. Raises: HistoryError."""
        for table, rows in (("sends", sends), ("reads", reads)):
            place = {table: f"{run.table(table)}/{self.unit}.parquet"}
            refuse((*of_rows(table, rows, ops), out_of_order(table, rows)), place)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookTask:
    """What a unit tells of transactions that others have records of, too: which open ones it shows
    (open_ops: there are some), and when each process had its first record acknowledged."""

    stage: ClassVar = "looking at transactions"
    folder: str
    unit: str
    rows: int
    open_ops: bool

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """Two parts: ops, as arrays; and an array."""
        run, repeats = Run(storage.location(self.folder)), not known.on_record.recovery
        parts: dict[str, object] = {OPEN: []}
        if self.open_ops:
            parts[OPEN] = list(shown_in_unit(run, self.unit, repeats=repeats))
        if known.tenure is not None:
            parts[ACKS] = first_acks_in_unit(run, self.unit, known)
        yield PartitionResult(tp=-1, parts=parts)
