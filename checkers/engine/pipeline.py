"""Where the checks run: in this process, or one Spark task for each unit of a sealed history.

Both ways use the same kernels on the same files and come to the same tally. Spark only schedules: every
task reads its unit with pyarrow, so no message is ever shuffled. A check that crashes is named in the
result, and the others run.
"""

import functools
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from checkers.engine.check import Check, Kernel
from checkers.engine.cross_partition import Tally, WholeRun, all_proven, proven_elsewhere
from checkers.engine.findings import CAP, FAIL, OK, PartitionResult
from checkers.engine.kernel_input import (
    COPIES,
    READS,
    RECORDED,
    SENDS,
    TABLES,
    Facts,
    KernelInput,
    kernel_input,
)
from checkers.engine.partition_view import view
from checkers.engine.spark import scatter
from core.errors import HistoryError
from history.events import Event
from history.reader import Array, Columns, History, by_tp, columns, read_table
from history.run_folder import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """One unit to check. tps: only these of it (None: all). proven: ops proven elsewhere."""

    folder: str
    unit: str
    ww: bool
    tps: tuple[int, ...] | None = None
    proven: tuple[int, ...] = ()


Runner = Callable[[Sequence[UnitTask], Kernels], list[PartitionResult]]
Rerun = Callable[[Array, set[int]], list[PartitionResult]]
"""(ops proven elsewhere, partitions) -> the results of these partitions, with that knowledge."""


def check_tables(
    tables: Mapping[str, pa.Table],
    checks: Checks,
    facts: Facts,
    *,
    events: Sequence[Event] = (),
    ww: bool = True,
    cap: int = CAP,
) -> Tally:
    """Check a whole history that is in memory, in this process."""
    known = kernel_input(tables, facts, ww=ww, cap=cap)
    kernels = kernels_of(checks)
    rows = list(partitions(tables["sends"], tables["reads"]))

    def again(proven: Array, tps: set[int]) -> list[PartitionResult]:
        knowing = replace(known, proven=proven)
        return [check_partition(*each, knowing, kernels) for each in rows if each[0] in tps]

    results = [check_partition(*each, known, kernels) for each in rows]
    return _joined(_twice(results, again), tables, known, events, checks)


def check_sealed(history: History, checks: Checks, runner: Runner, *, ww: bool = True) -> Tally:
    """Check a sealed run with the given runner.

    Raises: HistoryError, where a file proves damaged.
    """
    known = kernel_input(history.tables, RECORDED, ww=ww)
    kernels, folder = kernels_of(checks), str(history.run.folder)
    units = history.names.units
    tasks = [UnitTask(folder=folder, unit=unit.name, ww=ww) for unit in units]

    def again(proven: Array, tps: set[int]) -> list[PartitionResult]:
        mine = [(task, tps & set(unit.tps)) for task, unit in zip(tasks, units, strict=True)]
        numbers = tuple(proven.tolist())
        second = [replace(task, proven=numbers, tps=tuple(sorted(own))) for task, own in mine if own]
        return runner(second, kernels)

    results = _twice(runner(tasks, kernels) if tasks else [], again)
    return _joined(results, history.tables, known, history.events, checks)


def kernels_of(checks: Checks) -> dict[str, Kernel]:
    """The kernels of the checks that have one."""
    return {name: check.kernel for name, check in checks.items() if check.kernel is not None}


def _twice(results: list[PartitionResult], again: Rerun) -> list[PartitionResult]:
    """The results by partition; those that ops proven elsewhere concern, made a second time."""
    proven, tps = proven_elsewhere(results)
    by_partition = {result.tp: result for result in results}
    if tps:
        by_partition |= {result.tp: result for result in again(proven, set(tps))}
    return [by_partition[tp] for tp in sorted(by_partition)]


def check_partition(
    tp: int, sends: Columns, reads: Columns, known: KernelInput, kernels: Kernels
) -> PartitionResult:
    """All findings of one topic-partition.

    sends, reads: the partition's rows, columns `SENDS` and `READS`, sorted as sealed tables are
    (sends by op, pos; reads by process, op, pos).
    """
    result = PartitionResult(tp=tp, cap=known.cap, rows=len(sends["op"]) + len(reads["op"]))
    result.acknowledged = int((sends["outcome"] == OK).sum())
    try:
        partition = view(tp, sends, reads, known)
    except Exception:  # noqa: BLE001 (all its checks are named as crashed, none passes)
        result.crashed = dict.fromkeys(kernels, traceback.format_exc(limit=-3))
        return result
    result.unread = partition.unread
    in_doubt, seen = partition.open_txn, partition.seen & (sends["outcome"] != FAIL)
    result.proven = np.unique(sends["op"][in_doubt & partition.seen])
    result.waiting = np.unique(sends["op"][in_doubt & ~seen])
    for name, kernel in kernels.items():
        begin = time.perf_counter()
        try:
            kernel(partition, result)
        except Exception:  # noqa: BLE001
            result.crashed[name] = traceback.format_exc(limit=-3)
        result.seconds[name] = time.perf_counter() - begin
    return result


def _joined(
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    known: KernelInput,
    events: Sequence[Event],
    checks: Checks,
) -> Tally:
    """Join the results of all partitions with what small tables and events say."""
    tally = Tally(rows=sum(result.rows for result in results))
    for result in results:
        tally.acknowledged += result.acknowledged
        tally.counts += result.counts
        tally.findings += result.findings
        for name, spent in result.seconds.items():
            tally.seconds[name] = tally.seconds.get(name, 0.0) + spent
        for name, part in result.parts.items():
            tally.parts.setdefault(name, {})[result.tp] = part
        if result.unread:
            tally.unread.append(result.tp)
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"partition {result.tp}: {how}")
    run = WholeRun(results=results, tables=tables, known=known, events=events, proven=all_proven(results))
    for name, check in checks.items():
        if check.join is not None:
            begin = time.perf_counter()
            try:
                check.join(run, tally)
            except Exception:  # noqa: BLE001 (the check is named as crashed, the others run)
                tally.crashed.setdefault(name, traceback.format_exc(limit=-3))
            spent = time.perf_counter() - begin
            tally.seconds[name] = tally.seconds.get(name, 0.0) + spent
    return tally


def partitions(sends: pa.Table, reads: pa.Table) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table; sends with the columns
    `COPIES` where the table has them."""
    of_sends = SENDS + COPIES if set(COPIES) <= set(sends.column_names) else SENDS
    sent, read = dict(by_tp(sends, of_sends)), dict(by_tp(reads, READS))
    no_sends, no_reads = columns(sends.slice(0, 0), of_sends), columns(reads.slice(0, 0), READS)
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, no_sends), read.get(tp, no_reads)


def in_process(tasks: Sequence[UnitTask], kernels: Kernels) -> list[PartitionResult]:
    """Runner without Spark."""
    return [result for task in tasks for result in run_task(task, kernels)]


def run_task(task: UnitTask, kernels: Kernels) -> Iterator[PartitionResult]:
    """Read one unit and check its partitions. Raises: HistoryError."""
    run = Run(Path(task.folder))
    known = _kernel_input(task.folder, _stamp(run), task.ww)
    if task.proven:
        known = replace(known, proven=np.array(task.proven, np.int32))
    of_sends = ("tp", *SENDS, *(COPIES if known.copies else ()))
    sends = read_table(run.table("sends") / f"{task.unit}.parquet", "sends", of_sends)
    reads = read_table(run.table("reads") / f"{task.unit}.parquet", "reads", ("tp", *READS))
    for tp, sent, read in partitions(sends, reads):
        if task.tps is None or tp in task.tps:
            yield check_partition(tp, sent, read, known, kernels)


def _stamp(run: Run) -> int:
    """Changes when the folder is sealed again. Raises: HistoryError."""
    try:
        return run.names.stat().st_mtime_ns
    except OSError as error:
        raise HistoryError(f"{run.names}: {error.strerror}") from None


@functools.lru_cache(maxsize=1)
def _kernel_input(folder: str, stamp: int, ww: bool) -> KernelInput:
    """The kernel input, once for all units of a history that one worker checks."""
    run = Run(Path(folder))
    tables = {name: read_table(run.table(name), name) for name in TABLES}
    return kernel_input(tables, RECORDED, ww=ww)


def spark_runner(session: "SparkSession") -> Runner:
    """Runner on a Spark session: one task a unit, in the given order (largest first), one job."""

    def run(tasks: Sequence[UnitTask], kernels: Kernels) -> list[PartitionResult]:
        work = functools.partial(_pickled, tuple(tasks), dict(kernels))
        results: list[PartitionResult] = []
        for payload in scatter(session, work, len(tasks)):
            answer: PartitionResult | str = pickle.loads(payload)
            if isinstance(answer, str):
                raise HistoryError(answer)
            results.append(answer)
        return results

    return run


def _pickled(tasks: Sequence[UnitTask], kernels: Kernels, number: int) -> Iterator[bytes]:
    """Results of one task; a damaged file becomes its error's message, not a failed job."""
    try:
        for result in run_task(tasks[number], kernels):
            yield pickle.dumps(result, protocol=5)
    except HistoryError as error:
        yield pickle.dumps(str(error))
