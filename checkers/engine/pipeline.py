"""Where the checks run: in this process, or one Spark task for each unit of a sealed history.

Both ways use the same kernels on the same files and come to the same tally. Spark only schedules: every
task reads its unit with pyarrow, so no message is ever shuffled. Small results come to the driver at once;
what kernels keep (`PartitionResult.kept`) stays with the executors, on their disks, and joins ask it for
what they need. Partitions above a bound are checked in ranges of offsets (`checkers.engine.ranges`), so that
each task has bounded memory. A check that crashes is named in the result, and the others run.
"""

import functools
import itertools
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from checkers.engine import ranges
from checkers.engine.check import Check, Kernel, Tally, WholeRun
from checkers.engine.findings import CAP, FAIL, OK, RC, RU, PartitionResult
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
from checkers.engine.partition_view import KernelView, Piece, distinct
from checkers.engine.spark import keep
from core.errors import HistoryError
from core.progress import Progress, Stage, Watch, unwatched
from history import storage
from history.events import Event
from history.reader import Array, Columns, History, Unit, columns, grouped, read_columns
from history.run_folder import Run

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

T = TypeVar("T")

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]
Place = tuple[int, int]
"""A partition, and the number of a range of it (0 where it is not cut)."""
NO_OPS: Final = np.zeros(0, np.int32)
THREADS: Final = 4
"""Tasks at a time in this process, at most. Each has its rows in memory."""
RANGES: Final = "ranges"
"""In place of a check, of parts that tell of ranges."""


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
    cap: int = CAP,
) -> Tally:
    """Check a whole history that is in memory, in this process."""
    known = kernel_input(tables, record=RECORDED if recorded else PORTABLE, cap=cap)
    kernels = kernels_of(checks)
    rows = list(partitions(columns(tables["sends"], SENDS), columns(tables["reads"], READS)))

    def checked(proven: Array, wanted: set[Place] | None) -> Checked:
        knowing = replace(known, proven=proven)
        mine = [each for each in rows if wanted is None or (each[0], 0) in wanted]
        return here([check_partition(*each, knowing, kernels) for each in mine])

    return _joined(_twice(checked), tables, known, events, checks)


def check_sealed(history: History, checks: Checks, runner: Runner) -> Tally:
    """Check a sealed run with the given runner.

    Raises: HistoryError, where a file proves damaged.
    """
    known = kernel_input(history.tables, record=on_record(history.config))
    kernels, folder = kernels_of(checks), storage.shared(history.run.folder)
    whole = not (known.on_record.final_reads and known.on_record.positions)  # evidence is of the partition
    large = [
        unit for unit in history.names.units if unit.sends + unit.reads > ranges.RANGE_ROWS and not whole
    ]
    tasks: list[UnitTask | RangeTask] = [
        UnitTask(folder=folder, unit=unit.name, tps=tuple(unit.tps), rows=unit.sends + unit.reads)
        for unit in history.names.units
        if unit not in large
    ]
    tasks = [*_range_tasks(history, large, runner, known), *tasks]

    def checked(proven: Array, wanted: set[Place] | None) -> Checked:
        mine = tasks if wanted is None else [own for task in tasks if (own := task.only(wanted)) is not None]
        return runner(mine, kernels, replace(known, proven=proven)) if mine else here([])

    return _joined(_twice(checked), history.tables, known, history.events, checks)


def _range_tasks(
    history: History, units: Sequence[Unit], runner: Runner, known: KernelInput
) -> list["RangeTask"]:
    """The tasks of large units: one for each range, with what it has to know of the others."""
    folder = storage.shared(history.run.folder)
    cut = [
        (unit.name, one)
        for unit in units
        for one in ranges.cut(history.run, unit.name, unit.tps, unit.sends + unit.reads)
    ]
    if not cut:
        return []
    seen = _parts(runner([ScoutTask(folder, unit, one) for unit, one in cut], {}, known), ranges.Scouted)
    met = {
        (tp, number): one
        for tp in {tp for tp, _ in seen}
        for number, one in enumerate(ranges.meet([seen[key] for key in sorted(seen) if key[0] == tp], known))
    }
    asked = [(unit, one) for unit, one in cut if ranges.guests_named(met[one.tp, one.number])]
    tasks = [GuestTask(folder, unit, one, met[one.tp, one.number]) for unit, one in asked]
    found = _parts(runner(tasks, {}, known), dict) if tasks else {}
    for tp in {tp for tp, _ in found}:
        guests = ranges.merged_guests(rows for (of, _), rows in found.items() if of == tp)
        met |= {key: replace(one, rows=guests) for key, one in met.items() if key[0] == tp}
    return [RangeTask(folder, unit, one, met[one.tp, one.number]) for unit, one in cut]


def _parts(checked: Checked, kind: type[T]) -> dict[Place, T]:
    """What tasks found out about ranges, by partition and number."""
    found: dict[Place, T] = {}
    for result in checked.results:
        part = result.parts[RANGES]
        assert isinstance(part, kind), type(part)
        found[result.place] = part
    return found


def kernels_of(checks: Checks) -> dict[str, Kernel]:
    """The kernels of the checks that have one."""
    return {name: check.kernel for name, check in checks.items() if check.kernel is not None}


def _twice(check: Callable[[Array, set[Place] | None], Checked]) -> Checked:
    """The results in order; those that ops proven elsewhere concern, made a second time.

    check: (ops proven elsewhere, partitions and ranges: None = all) -> the results of these.
    """
    first = check(NO_OPS, None)
    by_place = {result.place: result for result in first.results}
    proven, places = _proven_elsewhere(first.results)
    if not places:
        return Checked([by_place[place] for place in sorted(by_place)], first.ask)
    again = check(proven, set(places))
    by_place |= {result.place: result for result in again.results}

    def ask(question: Question[T]) -> list[T]:
        return first.ask(functools.partial(_unless, frozenset(places), question)) + again.ask(question)

    return Checked([by_place[place] for place in sorted(by_place)], ask)


def _all_proven(results: Sequence[PartitionResult]) -> Array:
    """Ops proven committed in some partition."""
    return distinct(np.concatenate([NO_OPS, *(r.proven for r in results)]))


def _proven_elsewhere(results: Sequence[PartitionResult]) -> tuple[Array, list[Place]]:
    """Ops proven committed in one partition while another shows nothing of them; those partitions.

    Their records there count as committed, and the offsets that they committed there count: these
    partitions have to be checked again, with that knowledge.
    """
    everywhere = _all_proven(results)
    again: list[Place] = []
    needed = [everywhere[:0]]
    for result in results:
        ops = np.intersect1d(np.setdiff1d(result.waiting, result.proven), everywhere)
        if len(ops):
            again.append(result.place)
            needed.append(ops)
    return distinct(np.concatenate(needed)), again


def check_partition(
    tp: int,
    sends: Columns,
    reads: Columns,
    known: KernelInput,
    kernels: Kernels,
    piece: Piece | None = None,
    number: int = 0,
) -> PartitionResult:
    """All findings of one topic-partition, or of the range `number` of it.

    sends, reads: its rows, columns `SENDS` and `READS`, sorted as sealed tables are
    (sends by op, pos; reads by process, op, pos).
    """
    result = PartitionResult(tp=tp, number=number, cap=known.cap)
    if not known.on_record.recovery and (why := _sent_twice(sends)):
        result.refused, result.rows = why, len(sends["op"]) + len(reads["op"])
        return result
    try:
        view = KernelView(tp, sends, reads, known, piece)
    except Exception:  # noqa: BLE001 (all its checks are named as crashed, none passes)
        result.crashed = dict.fromkeys(kernels, traceback.format_exc(limit=-3))
        return result
    own = view.of_sends(np.arange(len(sends["op"])))
    result.rows = len(own) + len(view.of_reads(np.arange(len(reads["op"]))))
    result.acknowledged = int((sends["outcome"][own] == OK).sum())
    result.unread = view.unread
    open_txn = view.of_sends(np.flatnonzero(view.open_txn))
    result.proven = distinct(sends["op"][open_txn[view.seen[open_txn]]])
    shown = view.seen[open_txn] & (sends["outcome"][open_txn] != FAIL)
    result.waiting = distinct(sends["op"][open_txn[~shown]])
    if piece is not None:
        result.last_expected = view.last_expected(RU), view.last_expected(RC)
    for name, kernel in kernels.items():
        result.guarded(name, functools.partial(kernel, view, result))
    return result


def _sent_twice(sends: Columns) -> str:
    """Why the records cannot be distinguished, "" = they can. Inquest's own clients never repeat a value."""
    order = np.argsort(sends["value"], kind="stable")
    values = sends["value"][order]
    again = np.flatnonzero(values[1:] == values[:-1])
    if not len(again):
        return ""
    first, second = (int(sends["op"][order[again[0] + n]]) for n in (0, 1))
    return (
        f"{len(again)} values of {{where}} are sent twice, the first one by ops {first} and {second};"
        " which of their records a poll returned is not known"
    )


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
        if result.unread and result.tp not in tally.unread:
            tally.unread.append(result.tp)
        for name in kernels_of(checks) if result.refused else ():
            tally.doubt(name, 1, result.refused, tps=[result.tp])
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"partition {result.tp}: {how}")

    def ask(check: str, question: Callable[[object], T]) -> list[tuple[int, T]]:
        answers = checked.ask(functools.partial(_asked, check, question))
        return sorted((each for each in answers if each is not None), key=itemgetter(0))

    _settle(checked.results, tally)
    run = WholeRun(tables=tables, known=known, events=events, proven=_all_proven(checked.results), ask=ask)
    for name, check in checks.items():
        if check.join is not None:
            tally.guarded(name, functools.partial(check.join, run, tally))
    return tally


def _settle(results: Sequence[PartitionResult], tally: Tally) -> None:
    """Decide what depended on lower ranges. results: in the order of partitions and ranges."""
    below: dict[tuple[int, int], int] = {}
    for result in results:
        for each in result.pending:
            if below.get((result.tp, each.level), -1) > each.above:
                tally.counts[each.finding.name, each.finding.variant] += 1
                tally.findings.append(each.finding)
        for level, last in enumerate(result.last_expected):
            below[result.tp, level] = max(last, below.get((result.tp, level), -1))


def partitions(sends: Columns, reads: Columns) -> Iterator[tuple[int, Columns, Columns]]:
    """(tp, sends, reads) of each partition that has rows in either table."""
    sent, read = dict(grouped(sends["tp"], sends)), dict(grouped(reads["tp"], reads))
    no_sends, no_reads = ({name: of[name][:0] for name in of} for of in (sends, reads))
    for tp in sorted(sent.keys() | read.keys()):
        yield tp, sent.get(tp, no_sends), read.get(tp, no_reads)


def here(results: Sequence[PartitionResult]) -> Checked:
    """Results that are in this process, with what kernels kept."""
    return Checked(results, lambda question: list(map(question, results)))


def _asked(check: str, question: Callable[[object], T], result: PartitionResult) -> tuple[int, T] | None:
    """The partition, and the answer of what the kernel of a check kept; None where it kept nothing."""
    return (result.tp, question(result.kept[check])) if check in result.kept else None


def _unless(places: Set[Place], question: Question[T], result: PartitionResult) -> T | None:
    """The answer of a result that is none of these."""
    return None if result.place in places else question(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """One unit to check. tps: only these of it."""

    stage: ClassVar = "checking"
    folder: str
    unit: str
    tps: tuple[int, ...]
    rows: int

    def only(self, wanted: Set[Place]) -> "UnitTask | None":
        """Without the partitions that are not wanted."""
        tps = tuple(tp for tp in self.tps if (tp, 0) in wanted)
        return replace(self, tps=tps) if tps else None

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """Check its partitions."""
        run = Run(storage.location(self.folder))
        sends = read_columns(run, "sends", self.unit, SENDS)
        reads = read_columns(run, "reads", self.unit, READS)
        for tp, sent, read in partitions(sends, reads):
            if tp in self.tps:
                yield check_partition(tp, sent, read, known, kernels)


@dataclass(frozen=True, slots=True)
class OfRange:
    """Something to do with one range."""

    folder: str
    unit: str
    of: ranges.Range

    @property
    def rows(self) -> int:
        """About how many it reads."""
        return ranges.RANGE_ROWS

    @property
    def files(self) -> Run:
        """The run."""
        return Run(storage.location(self.folder))

    def said(self, part: object) -> Iterator[PartitionResult]:
        """What is found out about the range, as a result."""
        yield PartitionResult(tp=self.of.tp, number=self.of.number, parts={RANGES: part})


class ScoutTask(OfRange):
    """What a range tells of itself."""

    __slots__ = ()
    stage: ClassVar = "looking through"

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """One part of kind `Scouted`."""
        return self.said(ranges.scout(self.files, self.unit, self.of, known))


@dataclass(frozen=True, slots=True)
class GuestTask(OfRange):
    """Which of its rows are guests of other ranges."""

    stage: ClassVar = "connecting"
    met: ranges.Met

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """One part: rows by table."""
        return self.said(ranges.find(self.files, self.unit, self.of, self.met))


@dataclass(frozen=True, slots=True)
class RangeTask(OfRange):
    """One range to check."""

    stage: ClassVar = "checking"
    met: ranges.Met

    def only(self, wanted: Set[Place]) -> "RangeTask | None":
        """Itself, if it is wanted."""
        return self if (self.of.tp, self.of.number) in wanted else None

    def run(self, kernels: Kernels, known: KernelInput) -> Iterator[PartitionResult]:
        """Check it."""
        sends, reads, piece = ranges.piece(self.files, self.unit, self.of, self.met, known)
        yield check_partition(self.of.tp, sends, reads, known, kernels, piece, self.of.number)


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
