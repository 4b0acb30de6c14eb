"""Where the checks run: in this process, or one Spark task for each unit of a sealed history.

Both ways use the same kernels on the same files and come to the same tally. Spark only schedules: every
task reads its unit with pyarrow, so no message is ever shuffled. Small results come to the driver at once;
what kernels keep (`PartitionResult.kept`) stays with the executors, on their disks, and joins ask it for
what they need. A check that crashes is named in the result, and the others run.
"""

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa

from checkers.engine.check import Check, Kernel, Tally, WholeRun
from checkers.engine.findings import CAP, FAIL, OK, PartitionResult
from checkers.engine.kernel_input import (
    PORTABLE,
    READS,
    RECORDED,
    SENDS,
    KernelInput,
    kernel_input,
    on_record,
)
from checkers.engine.partition_view import KernelView, distinct
from checkers.engine.spark import keep
from core.errors import HistoryError
from history.events import Event
from history.reader import Array, Columns, History, by_tp, columns, read_table
from history.run_folder import Run

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

T = TypeVar("T")

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]
NO_OPS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """One unit to check. tps: only these of it."""

    folder: str
    unit: str
    tps: tuple[int, ...]


Question = Callable[[PartitionResult], T]


Asking = Callable[[Question[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Checked:
    """Results without what kernels kept; `ask`: what a question, asked of each whole result, yields."""

    results: Sequence[PartitionResult]
    ask: Asking


Shared = tuple[Sequence[UnitTask], Kernels, KernelInput]
"""What all tasks of a job share."""
Runner = Callable[[Sequence[UnitTask], Kernels, KernelInput], Checked]


def check_tables(
    tables: Mapping[str, pa.Table],
    checks: Checks,
    *,
    recorded: bool,
    events: Sequence[Event] = (),
    cap: int = CAP,
) -> Tally:
    """Check a whole history that is in memory, in this process."""
    known = kernel_input(tables, record=RECORDED if recorded else PORTABLE, cap=cap)
    kernels = kernels_of(checks)
    rows = list(partitions(tables["sends"], tables["reads"]))

    def checked(proven: Array, tps: set[int] | None) -> Checked:
        knowing = replace(known, proven=proven)
        return here(
            [check_partition(*each, knowing, kernels) for each in rows if tps is None or each[0] in tps]
        )

    return _joined(_twice(checked), tables, known, events, checks)


def check_sealed(history: History, checks: Checks, runner: Runner) -> Tally:
    """Check a sealed run with the given runner.

    Raises: HistoryError, where a file proves damaged.
    """
    known = kernel_input(history.tables, record=on_record(history.config))
    kernels, folder = kernels_of(checks), str(history.run.folder)
    units = history.names.units

    def checked(proven: Array, tps: set[int] | None) -> Checked:
        mine = {unit.name: tuple(n for n in unit.tps if tps is None or n in tps) for unit in units}
        tasks = [UnitTask(folder=folder, unit=unit, tps=own) for unit, own in mine.items() if own]
        return runner(tasks, kernels, replace(known, proven=proven)) if tasks else here([])

    return _joined(_twice(checked), history.tables, known, history.events, checks)


def kernels_of(checks: Checks) -> dict[str, Kernel]:
    """The kernels of the checks that have one."""
    return {name: check.kernel for name, check in checks.items() if check.kernel is not None}


def _twice(check: Callable[[Array, set[int] | None], Checked]) -> Checked:
    """The results by partition; those that ops proven elsewhere concern, made a second time.

    check: (ops proven elsewhere, partitions: None = all) -> the results of these partitions.
    """
    first = check(NO_OPS, None)
    by_partition = {result.tp: result for result in first.results}
    proven, tps = _proven_elsewhere(first.results)
    if not tps:
        return Checked([by_partition[tp] for tp in sorted(by_partition)], first.ask)
    again = check(proven, set(tps))
    by_partition |= {result.tp: result for result in again.results}

    def ask(question: Question[T]) -> list[T]:
        return first.ask(functools.partial(_unless, frozenset(tps), question)) + again.ask(question)

    return Checked([by_partition[tp] for tp in sorted(by_partition)], ask)


def _all_proven(results: Sequence[PartitionResult]) -> Array:
    """Ops proven committed in some partition."""
    return distinct(np.concatenate([NO_OPS, *(r.proven for r in results)]))


def _proven_elsewhere(results: Sequence[PartitionResult]) -> tuple[Array, list[int]]:
    """Ops proven committed in one partition while another shows nothing of them; those partitions.

    Their records there count as committed, and the offsets that they committed there count: these
    partitions have to be checked again, with that knowledge.
    """
    everywhere = _all_proven(results)
    again: list[int] = []
    needed = [everywhere[:0]]
    for result in results:
        ops = np.intersect1d(np.setdiff1d(result.waiting, result.proven), everywhere)
        if len(ops):
            again.append(result.tp)
            needed.append(ops)
    return distinct(np.concatenate(needed)), again


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
        view = KernelView(tp, sends, reads, known)
    except Exception:  # noqa: BLE001 (all its checks are named as crashed, none passes)
        result.crashed = dict.fromkeys(kernels, traceback.format_exc(limit=-3))
        return result
    result.unread = view.unread
    result.proven = distinct(sends["op"][view.open_txn & view.seen])
    result.waiting = distinct(sends["op"][view.open_txn & ~(view.seen & (sends["outcome"] != FAIL))])
    for name, kernel in kernels.items():
        result.guarded(name, functools.partial(kernel, view, result))
    return result


def _joined(
    checked: Checked,
    tables: Mapping[str, pa.Table],
    known: KernelInput,
    events: Sequence[Event],
    checks: Checks,
) -> Tally:
    """Join the results of all partitions with what small tables and events say."""
    tally = Tally(cap=known.cap)
    for result in checked.results:
        tally.rows += result.rows
        tally.acknowledged += result.acknowledged
        tally.counts += result.counts
        tally.findings += result.findings
        for name, seconds in result.seconds.items():
            tally.spent(name, seconds)
        for name, part in result.parts.items():
            tally.parts.setdefault(name, {})[result.tp] = part
        if result.unread:
            tally.unread.append(result.tp)
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"partition {result.tp}: {how}")

    def ask(check: str, question: Callable[[object], T]) -> list[tuple[int, T]]:
        answers = checked.ask(functools.partial(_asked, check, question))
        return sorted((each for each in answers if each is not None), key=itemgetter(0))

    run = WholeRun(tables=tables, known=known, events=events, proven=_all_proven(checked.results), ask=ask)
    for name, check in checks.items():
        if check.join is not None:
            tally.guarded(name, functools.partial(check.join, run, tally))
    return tally


def partitions(sends: pa.Table, reads: pa.Table) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table."""
    sent, read = dict(by_tp(sends, SENDS)), dict(by_tp(reads, READS))
    no_sends, no_reads = columns(sends.slice(0, 0), SENDS), columns(reads.slice(0, 0), READS)
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, no_sends), read.get(tp, no_reads)


def here(results: Sequence[PartitionResult]) -> Checked:
    """Results that are in this process, with what kernels kept."""
    return Checked(results, lambda question: list(map(question, results)))


def _asked(check: str, question: Callable[[object], T], result: PartitionResult) -> tuple[int, T] | None:
    """The partition, and the answer of what the kernel of a check kept; None where it kept nothing."""
    return (result.tp, question(result.kept[check])) if check in result.kept else None


def _unless(tps: Set[int], question: Question[T], result: PartitionResult) -> T | None:
    """The answer of a partition that is none of these."""
    return None if result.tp in tps else question(result)


def in_process(tasks: Sequence[UnitTask], kernels: Kernels, known: KernelInput) -> Checked:
    """Runner without Spark."""
    return here([result for task in tasks for result in run_task(task, kernels, known)])


def run_task(task: UnitTask, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
    """Read one unit and check its partitions. Raises: HistoryError."""
    run = Run(Path(task.folder))
    sends = read_table(run.table("sends") / f"{task.unit}.parquet", "sends", ("tp", *SENDS))
    reads = read_table(run.table("reads") / f"{task.unit}.parquet", "reads", ("tp", *READS))
    for tp, sent, read in partitions(sends, reads):
        if tp in task.tps:
            yield check_partition(tp, sent, read, known, kernels)


def spark_runner(session: "SparkSession") -> Runner:
    """Runner on a Spark session: one task a unit, in the given order (largest first)."""

    def run(tasks: Sequence[UnitTask], kernels: Kernels, known: KernelInput) -> Checked:
        everything: Shared = (tuple(tasks), dict(kernels), known)
        shared = session.sparkContext.broadcast(everything)
        answers = keep(session, functools.partial(_told, shared), len(tasks))
        results = answers(_light)
        for result in results:
            if isinstance(result, str):
                raise HistoryError(result)
        return Checked(cast(list[PartitionResult], results), cast(Asking, answers))

    return run


def _light(answer: PartitionResult | str) -> PartitionResult | str:
    """An answer without what the kernels kept."""
    return answer if isinstance(answer, str) else replace(answer, kept={})


def _told(shared: "Broadcast[Shared]", number: int) -> Iterator[PartitionResult | str]:
    """Results of one task; a damaged file becomes its error's message, not a failed job."""
    tasks, kernels, known = shared.value
    try:
        yield from run_task(tasks[number], kernels, known)
    except HistoryError as error:
        yield str(error)
