"""Where the kernels run: in this process, or one Spark task for each unit of a sealed history.

Both ways use the same kernel on the same files and come to the same tally. Spark only schedules:
every task reads its unit with pyarrow, so no message is ever shuffled.

Not here: the kernel, the Spark session (`checkers.spark`), the verdict (`checkers.verdict`).
"""

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.context import TABLES, context
from checkers.kernel import COPIES, READS, SENDS, check_partition
from checkers.kernel_types import CAP, Context, PartitionResult
from checkers.sealed import HistoryError, Sealed, partitions, read_table
from checkers.whole import Tally, proven_elsewhere, tally
from harness.events import Event
from harness.store import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit to check. tps: only these of it (None: all). proven: ops proven elsewhere."""

    folder: str
    unit: str
    ww: bool
    tps: tuple[int, ...] | None = None
    proven: tuple[int, ...] = ()


Runner = Callable[[Sequence[Task]], list[PartitionResult]]


def check_tables(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    ww: bool = True,
    cap: int = CAP,
) -> Tally:
    """Check a whole history that is in memory, in this process.

    portable: None = a history without `bounds` rows is portable.
    """
    if portable is None:
        portable = tables["bounds"].num_rows == 0
    known = context(tables, portable=portable, ww=ww, cap=cap)
    rows = list(partitions(tables["sends"], tables["reads"]))
    results = [check_partition(tp, sends, reads, known) for tp, sends, reads in rows]
    proven, again = proven_elsewhere(results)
    if again:
        knowing = replace(known, proven=proven)
        redone = {
            tp: check_partition(tp, sends, reads, knowing)
            for tp, sends, reads in rows
            if tp in again
        }
        results = [redone.get(result.tp, result) for result in results]
    return tally(results, tables, known, events)


def findings(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    ww: bool = True,
) -> set[tuple[str | int, ...]]:
    """Canonical keys (docs/checks.md, section 2) of all findings of a history, in this process.

    Raises: AssertionError, where a check crashed.
    """
    found = check_tables(tables, portable=portable, events=events, ww=ww, cap=2**31)
    assert not found.crashed, found.crashed
    return {finding.canonical for finding in found.findings}


def check_sealed(sealed: Sealed, runner: Runner, *, ww: bool = True) -> Tally:
    """Check a sealed run with the given runner.

    Raises: HistoryError, where a file proves damaged.
    """
    known = context(sealed.tables, portable=False, ww=ww)
    folder = str(sealed.run.folder)
    tasks = [Task(folder=folder, unit=unit.name, ww=ww) for unit in sealed.names.units]
    results = runner(tasks) if tasks else []
    proven, again = proven_elsewhere(results)
    if again:
        second = [
            Task(
                folder=folder, unit=unit.name, ww=ww, proven=tuple(proven.tolist()),
                tps=tuple(tp for tp in unit.tps if tp in again),
            )
            for unit in sealed.names.units
            if set(unit.tps) & set(again)
        ]  # fmt: skip
        redone = {result.tp: result for result in runner(second)}
        results = [redone.get(result.tp, result) for result in results]
    results.sort(key=lambda result: result.tp)
    return tally(results, sealed.tables, known, sealed.events)


def in_process(tasks: Sequence[Task]) -> list[PartitionResult]:
    """Runner without Spark."""
    return [result for task in tasks for result in run_task(task)]


def run_task(task: Task) -> Iterator[PartitionResult]:
    """Read one unit and check its partitions. Raises: HistoryError."""
    run = Run(Path(task.folder))
    known = _context(task.folder, _stamp(run), task.ww)
    if task.proven:
        known = replace(known, proven=np.array(task.proven, np.int32))
    of_sends = ("tp", *SENDS, *(COPIES if known.copies else ()))
    sends = read_table(run.table("sends") / f"{task.unit}.parquet", "sends", of_sends)
    reads = read_table(run.table("reads") / f"{task.unit}.parquet", "reads", ("tp", *READS))
    for tp, sent, read in partitions(sends, reads):
        if task.tps is None or tp in task.tps:
            yield check_partition(tp, sent, read, known)


def _stamp(run: Run) -> int:
    """Changes when the folder is sealed anew. Raises: HistoryError."""
    try:
        return run.names.stat().st_mtime_ns
    except OSError as error:
        raise HistoryError(f"{run.names}: {error.strerror}") from None


@functools.lru_cache(maxsize=1)
def _context(folder: str, stamp: int, ww: bool) -> Context:
    """The context, once for all units of a history that one worker checks."""
    run = Run(Path(folder))
    tables = {name: read_table(run.table(name), name) for name in TABLES}
    return context(tables, portable=False, ww=ww)


def spark_runner(session: Any) -> Runner:
    """Runner on a Spark session: one task a unit, in the given order (largest first), one job."""

    def run(tasks: Sequence[Task]) -> list[PartitionResult]:
        numbered = session.range(0, len(tasks), 1, len(tasks))
        answers = numbered.mapInArrow(_Mapper(tuple(tasks)), "ok tinyint, result binary").collect()
        results: list[PartitionResult] = []
        for ok, payload in answers:
            if not ok:
                raise HistoryError(bytes(payload).decode())
            results.append(pickle.loads(bytes(payload)))
        return results

    return run


class _Mapper:
    """Numbers of tasks -> pickled results; a damaged file becomes a row, not a failed job."""

    def __init__(self, tasks: tuple[Task, ...]) -> None:
        self._tasks = tasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    for result in run_task(self._tasks[number]):
                        yield _row(True, pickle.dumps(result, protocol=5))
                except HistoryError as error:
                    yield _row(False, str(error).encode())


def _row(ok: bool, payload: bytes) -> pa.RecordBatch:
    """One answer. From buffers: `pa.array` would import pandas into every worker."""
    ends = np.array([0, len(payload)], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(payload)]
    flags = pa.Array.from_buffers(pa.int8(), 1, [None, pa.py_buffer(bytes([ok]))])
    results = pa.Array.from_buffers(pa.binary(), 1, buffers)
    return pa.RecordBatch.from_arrays([flags, results], names=["ok", "result"])
