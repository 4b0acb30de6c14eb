"""Where the checks run: in this process, or one Spark task for each unit of a sealed history.

Both ways use the same kernels on the same files and come to the same tally. Spark only schedules: every
task reads its unit with pyarrow, so no message is ever shuffled. Small results come to the driver at once;
what kernels keep (`PartitionResult.kept`) stays with the executors, on their disks, and joins ask it for
what they need. A check that crashes is named in the result, and the others run.
"""

import functools
import itertools
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, cast

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
from checkers.engine.spark import keep
from checkers.windows import RunWindows
from core.config import RunConfig
from core.errors import HistoryError
from core.progress import Progress, Stage, Watch, unwatched
from history import storage
from history.columns import Array, Columns, columns, grouped, numbers
from history.events import Event
from history.reader import History
from history.run_folder import Run
from history.unit_files import read_columns

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

T = TypeVar("T")

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]
NO_OPS: Final = np.zeros(0, np.int32)
THREADS: Final = 4
"""Tasks at a time in this process, at most. Each has its rows in memory."""
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


Question = Callable[[PartitionResult], T]


Asking = Callable[[Question[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Checked:
    """Results without what kernels kept; `ask`: what a question, asked of each whole result, yields."""

    results: Sequence[PartitionResult]
    ask: Asking


Shared = tuple[Sequence[Task], Kernels, KernelInput]
"""What all tasks of a job share."""
Runner = Callable[[Sequence[Task], Kernels, KernelInput], Checked]


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
    checked = here([check_partition(*each, known, kernels) for each in rows])
    return _joined(checked, tables, known, events, checks)


def check_sealed(history: History, config: RunConfig, checks: Checks, runner: Runner) -> Tally:
    """Check a sealed run with the given runner. config: the run's.

    Raises: HistoryError, where a file proves damaged.
    """
    record = on_record(history.config)
    known = kernel_input(history.tables, record=record, config=config, events=history.events)
    kernels, folder = kernels_of(checks), storage.shared(history.run.folder)
    known = _fencing(history, runner, knowing(known, _shown(history, runner, known)))
    tasks: list[Task] = [
        UnitTask(folder=folder, unit=unit.name, rows=unit.sends + unit.reads) for unit in history.names.units
    ]
    checked = runner(tasks, kernels, known) if tasks else here([])
    checked = replace(checked, results=sorted(checked.results, key=lambda result: result.tp))
    return _joined(checked, history.tables, known, history.events, checks)


def knowing(known: KernelInput, proven: Iterable[Array]) -> KernelInput:
    """With the open transactions that are proven committed."""
    return replace(known, proven=distinct(np.concatenate([NO_OPS, *proven])))


def _shown(history: History, runner: Runner, known: KernelInput) -> list[Array]:
    """Ops of open transactions, where some unit shows one of their records."""
    folder, repeats = storage.shared(history.run.folder), not known.on_record.recovery
    ops = history.tables["ops"]
    if not bool(((numbers(ops, "outcome") == INFO) & (numbers(ops, "txn") == 1)).any()):
        return []
    tasks = [
        OpenTask(folder=folder, unit=unit.name, rows=unit.sends + unit.reads, repeats=repeats)
        for unit in history.names.units
    ]
    return [
        each
        for result in runner(tasks, {}, _without_rows(known)).results
        for each in cast(list[Array], result.parts[OPEN])
    ]


def _fencing(history: History, runner: Runner, known: KernelInput) -> KernelInput:
    """With what acknowledgements tell of the holders of transactional ids."""
    if known.tenure is None or not history.names.units:
        return known
    folder = storage.shared(history.run.folder)
    tasks = [AckTask(folder=folder, unit=unit.name, rows=unit.sends) for unit in history.names.units]
    found = [cast(Array, result.parts[ACKS]) for result in runner(tasks, {}, _without_rows(known)).results]
    return replace(known, tenure=known.tenure.with_acks(earliest(found, known)))


def _without_rows(known: KernelInput) -> KernelInput:
    """What looks through units needs no more of it."""
    return replace(known, vertex=NO_OPS, relay=NO_OPS, ends=NO_OPS, commits={}, assignments={})


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
            tally.parts.setdefault(name, []).append((result.tp, part))
        if result.unread:
            tally.unread.append(result.tp)
        for name in kernels_of(checks) if result.refused else ():
            tally.doubt(name, 1, result.refused, tps=[result.tp])
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"partition {result.tp}: {how}")

    def ask(check: str, question: Callable[[object], T]) -> list[tuple[int, T]]:
        answers = checked.ask(functools.partial(_asked, check, question))
        return sorted((each for each in answers if each is not None), key=itemgetter(0))

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


def here(results: Sequence[PartitionResult]) -> Checked:
    """Results that are in this process, with what kernels kept."""

    def ask(question: Question[T]) -> list[T]:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as threads:
            return list(threads.map(question, results))

    return Checked(results, ask)


def _asked(check: str, question: Callable[[object], T], result: PartitionResult) -> tuple[int, T] | None:
    """The partition, and the answer of what the kernel of a check kept; None where it kept nothing."""
    return (result.tp, question(result.kept[check])) if check in result.kept else None


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
            yield check_partition(tp, sent, read, known, kernels)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """What a unit shows of open transactions. repeats: see `shown_in_unit`."""

    stage: ClassVar = "open transactions"
    folder: str
    unit: str
    rows: int
    repeats: bool

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """One part: ops, as arrays."""
        found = list(shown_in_unit(Run(storage.location(self.folder)), self.unit, repeats=self.repeats))
        yield PartitionResult(tp=-1, parts={OPEN: found})


@dataclass(frozen=True, slots=True, kw_only=True)
class AckTask:
    """When each process had its first record acknowledged, as far as a unit tells."""

    stage: ClassVar = "holders of transactional ids"
    folder: str
    unit: str
    rows: int

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """One part: an array."""
        run = Run(storage.location(self.folder))
        yield PartitionResult(tp=-1, parts={ACKS: first_acks_in_unit(run, self.unit, known)})


def in_process(
    tasks: Sequence[Task], kernels: Kernels, known: KernelInput, watch: Watch = unwatched
) -> Checked:
    """Runner without Spark: some tasks at a time, for numpy and pyarrow do not hold Python's lock."""
    stage, ended = _stage(tasks), itertools.count(1)
    sizes = [0]

    def run(task: Task) -> list[PartitionResult]:
        found = list(task.run(kernels, known))
        sizes.append(task.rows)
        watch(Progress(stage=stage, tasks=next(ended), done=sum(sizes)))
        return found

    with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as threads:
        try:
            return here([result for results in threads.map(run, tasks) for result in results])
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _stage(tasks: Sequence[Task]) -> Stage:
    """A job in words."""
    return Stage(name=tasks[0].stage, tasks="units", sizes=[task.rows for task in tasks])


def spark_runner(session: "SparkSession", watch: Watch = unwatched) -> Runner:
    """Runner on a Spark session: one task a unit, in the given order (largest first)."""

    def run(tasks: Sequence[Task], kernels: Kernels, known: KernelInput) -> Checked:
        everything: Shared = (tuple(tasks), dict(kernels), known)
        shared = session.sparkContext.broadcast(everything)
        results, ask = keep(session, _stage(tasks), functools.partial(_told, shared), _light, watch)
        for result in results:
            if isinstance(result, str):
                raise HistoryError(result)
        return Checked(cast(list[PartitionResult], results), cast(Asking, ask))

    return run


def _light(answer: PartitionResult | str) -> PartitionResult | str:
    """An answer without what the kernels kept."""
    return answer if isinstance(answer, str) else replace(answer, kept={})


def _told(shared: "Broadcast[Shared]", number: int) -> Iterator[PartitionResult | str]:
    """Results of one task; a damaged file becomes its error's message, not a failed job."""
    tasks, kernels, known = shared.value
    keep_freed()
    try:
        yield from tasks[number].run(kernels, known)
    except (OSError, HistoryError) as error:
        yield str(error)
