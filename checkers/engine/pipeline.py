"""The checks of a sealed run in tasks: of its history, unit by unit, and of its evidence, some partitions at
a time; and of tables in memory.

Every task reads its part with pyarrow, so no message is ever shuffled. Small results come back at once; what
kernels keep (`PartitionResult.kept`) goes into the scratch of the workers, and joins ask it for what they
need. A check that crashes is named in the result, and the others run. Where the engine fails over the
evidence, the checks with kernels there have crashed.
"""

import functools
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import ClassVar, Final, Generic, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from checkers.engine.check import AskKernels, Check, Join, Kernel, LogKernel, Reads, Tally, WholeRun
from checkers.engine.findings import CAP, INFO, OK, Kind, LogGround, PartitionResult
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
from checkers.engine.log_tasks import LogWork, log_tasks
from checkers.engine.memory import keep_freed
from checkers.engine.open_transactions import sent_twice, shown, shown_in_unit
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import distinct
from checkers.log_settings import log_settings
from checkers.run_windows import run_windows
from checkers.windows import LogWindows, RunWindows
from core.config import RunConfig
from core.errors import SparkError
from core.internal_topics import GROUP_TOPIC
from core.progress import ProgressStage
from history import storage
from history.columns import Array, Columns, columns, grouped, numbers
from history.events import Event
from history.evidence import Evidence
from history.evidence_tables import METADATA_LOG
from history.reader import History
from history.run_folder import Run
from history.tables import TABLES
from history.tasks import THREADS, Here, Scratch, Workers
from history.unit_files import read_columns
from history.values import OpsOnRecord, of_rows, out_of_order, refuse

T = TypeVar("T")
S = TypeVar("S", contravariant=True)

Checks = Mapping[str, Check]
"""Name -> check: the registry, or a part of it."""
Kernels = Mapping[str, Kernel]
NO_OPS: Final = np.zeros(0, np.int32)
OPEN: Final = "open transactions"
ACKS: Final = "first acknowledgements"
"""In place of a check, of parts that tell of open transactions, or of first acknowledgements."""


class Task(Protocol[S]):
    """A part of the work on a sealed run. It can be pickled. stage: the work that it is part of; parts: what
    it works on, in the plural; size: about how much, in `measure`. S: what all tasks of the stage share."""

    stage: ClassVar[str]
    parts: ClassVar[str]
    measure: ClassVar[str]

    @property
    def size(self) -> int:
        """See above."""

    def run(self, shared: S) -> Iterator[PartitionResult]:
        """Read files and use kernels. Raises: HistoryError."""


@dataclass(frozen=True, slots=True)
class UnitWork:
    """What tasks on the history share."""

    known: KernelInput
    kernels: Kernels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunTask(Generic[S]):
    """One of these tasks, with what all of them share."""

    tasks: Sequence[Task[S]]
    shared: S
    scratch: Scratch

    def __call__(self, number: int) -> list[PartitionResult]:
        """Its results; what kernels kept is in the scratch."""
        keep_freed()
        results = list(self.tasks[number].run(self.shared))
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


def run_tasks(workers: Workers, tasks: Sequence[Task[S]], shared: S) -> list[PartitionResult]:
    """The results of tasks of one stage. Raises: see `Workers.map`."""
    if not tasks:
        return []
    first, sizes = tasks[0], [task.size for task in tasks]
    stage = ProgressStage(name=first.stage, tasks=first.parts, sizes=sizes, measure=first.measure)
    work = RunTask(tuple(tasks), shared, workers.scratch)
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
    evidence: Evidence | None = None,
    f: Sequence[str] = (),
) -> Tally:
    """Check a whole run that is in memory, in this process. config, windows, f: see `kernel_input`. evidence:
    see `check_evidence`; None = it has none."""
    record = RECORDED if recorded else PORTABLE
    known = kernel_input(tables, record=record, config=config, events=events, windows=windows, cap=cap, f=f)
    kernels = kernels_of(checks)
    rows = list(partitions(columns(tables["sends"], SENDS), columns(tables["reads"], READS)))

    proven = [shown(*of) for _, *of in rows if known.on_record.recovery or not sent_twice(of[0])]
    known = knowing(known, proven)
    if known.tenure is not None:
        acked = first_acks(columns(tables["sends"], COLUMNS), known)
        known = replace(known, tenure=known.tenure.with_acks(acked))
    checked = [check_partition(*each, known, kernels) for each in rows]
    clients = _History(tables=tables, known=known, events=events, results=checked)
    return _joined(clients, checks, evidence or Evidence({}), None, Here())


def check_sealed(
    history: History, config: RunConfig, checks: Checks, workers: Workers, evidence: Evidence | None = None
) -> Tally:
    """Check a sealed run with these workers. config: the run's. evidence: None = it has none.

    Raises: HistoryError, where a file proves damaged; SparkError, where the engine failed over the history.
    """
    record, found = on_record(history.config), evidence or Evidence({})
    known = kernel_input(
        history.tables, record=record, config=config, events=history.events, f=history.names.f
    )
    known = replace(known, ops=OpsOnRecord.of(history.tables))
    known, folder = _looked(history, workers, known), storage.shared(history.run.folder)
    tasks = [
        UnitTask(folder=folder, unit=unit.name, size=unit.sends + unit.reads) for unit in history.names.units
    ]
    results = run_tasks(workers, tasks, UnitWork(known, kernels_of(checks)))
    results.sort(key=lambda result: result.tp)
    clients = _History(tables=history.tables, known=known, events=history.events, results=results)
    windows = _log_windows(found, history.events, config)
    return _joined(
        clients, checks, found, history, workers, windows, log_settings(config, GROUP_TOPIC).unclean
    )


def check_evidence(
    evidence: Evidence, checks: Checks, history: History | None = None, workers: Workers | None = None
) -> Tally:
    """Apply checks of evidence alone, as if nothing had taken records off a log. history: what the clients
    saw; None = it is unknown. Evidence without takes exercises none.

    Raises: HistoryError, where a file proves damaged.
    """
    tables = {name: schema.empty_table() for name, schema in TABLES.items()}
    clients = _History(tables=tables, known=kernel_input(tables, record=RECORDED))
    return _joined(clients, checks, evidence, history, workers or Here())


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The history of a run, and what each partition decided."""

    tables: Mapping[str, pa.Table]
    known: KernelInput
    events: Sequence[Event] = ()
    results: Sequence[PartitionResult] = ()


def asked_of(checks: Checks, evidence: Evidence) -> dict[str, Check]:
    """The checks that a run can be asked: those that read evidence only where it has some."""
    some = evidence.table("takes").num_rows > 0
    return {name: check for name, check in checks.items() if some or check.reads is Reads.HISTORY}


def kinds_of(checks: Checks) -> dict[str, Kind]:
    """Of checks of evidence: the kind of their findings."""
    return {
        name: Kind(anomaly, check.variant, check=name)
        for name, check in checks.items()
        if check.reads is not Reads.HISTORY
        for anomaly in check.anomalies
    }


def log_ground(
    checks: Checks, evidence: Evidence, windows: RunWindows | None = None, unclean: bool | None = None
) -> LogGround:
    """What has to be known of findings in logs. windows: None = nothing took records off a log. unclean: what
    brokers say of unclean elections."""
    takes = evidence.table("takes").to_pylist() if windows else []
    return LogGround(
        kinds=kinds_of(checks),
        rests_on={name: check.rests_on for name, check in checks.items()},
        windows=windows or RunWindows(),
        taken_ns={row["take"]: row["at_ns"] for row in sorted(takes, key=itemgetter("at_ns"))},
        unclean=unclean,
    )


def _log_windows(evidence: Evidence, events: Sequence[Event], config: RunConfig) -> RunWindows:
    """Those of the partitions of the evidence. The metadata log has none: it is flushed always."""
    places = {log: (log.topic, log.partition) for log in evidence.partitions() if log != METADATA_LOG}
    if not places:
        return RunWindows()
    found = run_windows(places, events, config)
    return replace(found, of_log={**found.of_log, METADATA_LOG: LogWindows()})


def _log_results(
    evidence: Evidence, checks: Checks, ground: LogGround, workers: Workers
) -> list[PartitionResult]:
    """What each partition of the evidence decides."""
    if not (kernels := kernels_over_logs(checks)):
        return []
    try:
        return run_tasks(workers, log_tasks(evidence, workers), LogWork(ground, kernels))
    except SparkError as error:
        crashed = {name: str(error) for names in kernels.values() for name in names}
        return [PartitionResult(crashed=crashed)]


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
        LookTask(folder=folder, unit=unit.name, size=unit.sends + unit.reads, open_ops=open_ops)
        for unit in history.names.units
    ]
    parts = [result.parts for result in run_tasks(workers, tasks, UnitWork(_without_rows(known)))]
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


def kernels_over_logs(checks: Checks) -> dict[LogKernel, list[str]]:
    """The kernels that read evidence, each with the checks that it is of."""
    kernels: dict[LogKernel, list[str]] = defaultdict(list)
    for name, check in checks.items():
        if check.log_kernel is not None:
            kernels[check.log_kernel].append(name)
    return dict(kernels)


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
        result.guarded([name], functools.partial(kernel, view, result))
    return result


def _ask(results: Sequence[PartitionResult], scratch: Scratch) -> AskKernels:
    """What joins ask of what kernels kept."""

    def ask(check: str, question: Callable[[object], T]) -> list[tuple[int, T]]:
        def answer(result: PartitionResult) -> tuple[int, T]:
            return result.tp, question(scratch.read(result.kept[check]))

        asked = [result for result in results if check in result.kept]
        with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as threads:
            return sorted(threads.map(answer, asked), key=itemgetter(0))

    return ask


def _joined(
    clients: _History,
    checks: Checks,
    evidence: Evidence,
    history: History | None,
    workers: Workers,
    windows: RunWindows | None = None,
    unclean: bool | None = None,
) -> Tally:
    """Join the results of all partitions, those of the evidence too, with what small tables and events
    say."""
    asked = asked_of(checks, evidence)
    ground = log_ground(asked, evidence, windows, unclean)
    results = [*clients.results, *_log_results(evidence, asked, ground, workers)]
    tally = Tally(cap=clients.known.cap, ground=ground)
    for result in results:
        tally.rows += result.rows
        tally.acknowledged += result.acknowledged
        tally.counts += result.counts
        tally.findings += result.findings
        tally.doubts += result.doubts
        tally.asked += result.asked
        for name, seconds in result.seconds.items():
            tally.spent(name, seconds)
        for name, part in result.parts.items():
            tally.parts.setdefault(name, []).append((result.tp, part))
        if result.unread:
            tally.unread.append(result.tp)
        for name in kernels_of(asked) if result.refused else ():
            tally.doubt(name, 1, result.refused, tps=[result.tp])
        for name, how in result.crashed.items():
            tally.crashed.setdefault(name, f"{result.where}: {how}")
    run = WholeRun(
        tables=clients.tables,
        known=clients.known,
        events=clients.events,
        ask=_ask(results, workers.scratch),
        evidence=evidence,
        history=history,
    )
    joins: dict[Join, list[str]] = defaultdict(list)
    for name, check in asked.items():
        if check.join is not None:
            joins[check.join].append(name)
    for join, names in joins.items():
        tally.guarded(names, functools.partial(join, run, tally))
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
    parts: ClassVar = "units"
    measure: ClassVar = "rows"
    folder: str
    unit: str
    size: int

    def run(self, shared: UnitWork) -> Iterator[PartitionResult]:
        """Check its partitions."""
        known = shared.known
        run = Run(storage.location(self.folder))
        sends = read_columns(run, "sends", self.unit, SENDS)
        reads = read_columns(run, "reads", self.unit, READS)
        for tp, sent, read in partitions(sends, reads):
            if known.ops is not None:
                self._refuse(run, known.ops, sent, read)
            yield check_partition(tp, sent, read, known, shared.kernels)

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
    parts: ClassVar = "units"
    measure: ClassVar = "rows"
    folder: str
    unit: str
    size: int
    open_ops: bool

    def run(self, shared: UnitWork) -> Iterator[PartitionResult]:
        """Two parts: ops, as arrays; and an array."""
        known = shared.known
        run, repeats = Run(storage.location(self.folder)), not known.on_record.recovery
        parts: dict[str, object] = {OPEN: []}
        if self.open_ops:
            parts[OPEN] = list(shown_in_unit(run, self.unit, repeats=repeats))
        if known.tenure is not None:
            parts[ACKS] = first_acks_in_unit(run, self.unit, known)
        yield PartitionResult(parts=parts)
