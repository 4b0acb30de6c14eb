"""What needs more than one partition, or none: joining the kernels' results into one tally.

Torn transactions (records of one op in several partitions), foreign records, recovery; the others have
modules of their own.

Not here: where the kernels run (`checkers.pipeline`), what is allowed (`checkers.catalogue`).
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers import cycles, exactly_once, fencing, groups, stability
from checkers.kernel_types import (
    MISSING,
    UNDECIDED,
    Array,
    Columns,
    Context,
    Finding,
    PartitionResult,
    Progress,
)
from checkers.sealed import columns
from harness.events import Event, Recovered
from harness.history import FOREIGN_REASONS, OPEN

FOREIGN_CLASS = {
    "unreadable": "corrupt-record",
    "corrupt": "corrupt-record",
    "misdirected": "misdirected-record",
    "other-run": "phantom-read",
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """All that was found. counts: exact, by (class, variant).

    torn_undecided: transactions whose atomicity is undecided. eos_undecided: inputs of which it is
    undecided whether they were copied. silent: groups that were given records and of which no commit is
    known to have succeeded; whether each copies. progress: by partition. crashed: subject -> how.
    seconds: subject -> time spent, over all partitions.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    undecided: int = 0
    torn_undecided: int = 0
    eos_undecided: int = 0
    silent: dict[int, bool] = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    unlisted: list[int] = field(default_factory=list)
    """Partitions of which it is not known where their logs ended, all transactions over."""
    recovered: Recovered | None = None
    crashed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    acknowledged: int = 0

    def add(self, findings: Iterable[Finding]) -> None:
        """Findings of which none was left out."""
        for finding in findings:
            self.counts[finding.name, finding.variant] += 1
            self.findings.append(finding)


def tally(
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    context: Context,
    events: Sequence[Event] = (),
) -> Tally:
    """Join the results of all partitions with what the small tables and events say."""
    whole = Tally(rows=sum(result.rows for result in results))
    for result in results:
        whole.acknowledged += result.acknowledged
        whole.counts += result.counts
        whole.findings += result.findings
        whole.undecided += result.undecided
        for subject, spent in result.seconds.items():
            whole.seconds[subject] = whole.seconds.get(subject, 0.0) + spent
        if result.progress is not None:
            whole.progress[result.tp] = result.progress
        if result.unread:
            whole.unread.append(result.tp)
        for subject, how in result.crashed.items():
            whole.crashed.setdefault(subject, f"partition {result.tp}: {how}")
    _guarded(whole, "atomicity", lambda: _torn(whole, results, cap=context.cap))
    _guarded(whole, "integrity", lambda: whole.add(_foreign(tables["foreign"])))
    _guarded(whole, "cycles", lambda: _cycles(whole, results, tables, context))
    if not context.portable:
        _guarded(whole, "groups", lambda: whole.add(groups.regressions(tables)))
        _guarded(whole, "exactly-once", lambda: _copies(whole, results, cap=context.cap))
        _guarded(whole, "group-delivery", lambda: _silent(whole, results, tables, context))
        _guarded(whole, "zombies", lambda: _zombies(whole, results, tables, context))
        _guarded(whole, "lso", lambda: _lso(whole, tables, context, events))
        _guarded(whole, "recovery", lambda: _recovery(whole, events))
    return whole


def _guarded(whole: Tally, subject: str, step: Callable[[], None]) -> None:
    begin = time.perf_counter()
    try:
        step()
    except Exception:  # noqa: BLE001 (the subject is named as crashed, the others go on)
        whole.crashed.setdefault(subject, traceback.format_exc(limit=-3))
    spent = time.perf_counter() - begin
    whole.seconds[subject] = whole.seconds.get(subject, 0.0) + spent


def all_proven(results: Sequence[PartitionResult]) -> Array:
    """Ops proven committed in some partition."""
    return np.unique(np.concatenate([np.zeros(0, np.int32), *(r.seen_info for r in results)]))


def proven_elsewhere(results: Sequence[PartitionResult]) -> tuple[Array, list[int]]:
    """Ops proven committed in one partition of which another shows nothing; those partitions.

    Their records there count as committed, and the offsets that they committed there count: these
    partitions have to be checked again, knowing it.
    """
    everywhere = all_proven(results)
    again, needed = [], []
    for result in results:
        unseen = result.unseen
        open_ops = result.waiting if unseen is None else unseen.op[unseen.info]
        if len(everywhere) and (len(open_ops) or len(result.waiting)):
            ops = np.intersect1d(np.union1d(open_ops, result.waiting), everywhere)
            ops = np.setdiff1d(ops, result.seen_info)
            if len(ops):
                again.append(result.tp)
                needed.append(ops)
    return np.unique(np.concatenate(needed)) if needed else everywhere[:0], again


def _torn(whole: Tally, results: Sequence[PartitionResult], *, cap: int) -> None:
    parts = [(r.tp, r.unseen) for r in results if r.unseen is not None and len(r.unseen.op)]
    if not parts:
        return
    op = np.concatenate([u.op for _, u in parts])
    fate = np.concatenate([u.fate for _, u in parts])
    tp = np.concatenate([np.full(len(u.op), tp, np.int32) for tp, u in parts])
    value = np.concatenate([u.value for _, u in parts])
    ops, first, which = np.unique(op, return_index=True, return_inverse=True)
    seen = np.concatenate([u.op_sends for _, u in parts])[first] - np.bincount(which)
    missing = np.bincount(which[fate == MISSING], minlength=len(ops))
    undecided = np.bincount(which[fate == UNDECIDED], minlength=len(ops))
    torn = np.flatnonzero((seen > 0) & (missing > 0))
    whole.torn_undecided = int(((seen > 0) & (missing == 0) & (undecided > 0)).sum())
    if len(torn):
        whole.counts["torn-txn", ""] += len(torn)
    for at in torn[:cap].tolist():
        mine = np.flatnonzero((which == at) & (fate == MISSING))
        number = int(ops[at])
        whole.findings.append(
            Finding(
                name="torn-txn",
                key=(-1, number),
                ops=(number,),
                detail={
                    "seen": int(seen[at]),
                    "missing": int(missing[at]),
                    "tp": int(tp[mine[0]]),
                    "value": int(value[mine[0]]),
                },
            )
        )


def _foreign(table: pa.Table) -> list[Finding]:
    found: dict[tuple[str, int, int], Finding] = {}
    for row in table.to_pylist():
        name = FOREIGN_CLASS[FOREIGN_REASONS[row["reason"]]]
        at = (name, row["tp"], row["offset"])
        key = at[1:] + ((-1,) if name == "phantom-read" else ())
        found.setdefault(
            at,
            Finding(
                name=name, key=key, tp=row["tp"], ops=(row["op"],),
                detail={"reason": row["reason"], "offset": row["offset"]},
            ),
        )  # fmt: skip
    return list(found.values())


def clock(ops: pa.Table) -> Columns:
    """Outcome and times of ops, indexed by op number."""
    rows = columns(ops, ("op", "outcome", "invoke_ns", "complete_ns"))
    size = int(rows["op"].max(initial=-1)) + 1
    indexed: dict[str, Array] = {
        "outcome": np.full(size, 2, np.int8),
        "invoke_ns": np.zeros(size, np.int64),
        "complete_ns": np.full(size, OPEN, np.int64),
    }
    for name, column in indexed.items():
        column[rows["op"]] = rows[name]
    return indexed


def _cycles(
    whole: Tally,
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    context: Context,
) -> None:
    if not any(result.wr.shape[1] or result.ww.shape[1] for result in results):
        return
    counts, findings = cycles.find(results, clock(tables["ops"]), context.relay, cap=context.cap)
    for name, count in counts.items():
        whole.counts[name, ""] += count
    whole.findings += findings


def _copies(whole: Tally, results: Sequence[PartitionResult], *, cap: int) -> None:
    counts, findings, whole.eos_undecided = exactly_once.losses(results, cap=cap)
    whole.counts += counts
    whole.findings += findings


def _silent(
    whole: Tally,
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    context: Context,
) -> None:
    found = groups.silent(tables, all_proven(results))
    whole.silent = {group: group in context.copying for group in found}


def _zombies(
    whole: Tally,
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    context: Context,
) -> None:
    found = fencing.zombies(results, tables, context, all_proven(results))
    whole.findings += found[: context.cap]
    if found:
        whole.counts["zombie-write", "commit"] += len(found)


def _lso(
    whole: Tally, tables: Mapping[str, pa.Table], context: Context, events: Sequence[Event]
) -> None:
    findings, whole.unlisted = stability.stability(tables, context, events)
    whole.add(findings)


def _recovery(whole: Tally, events: Sequence[Event]) -> None:
    seen = [event for event in events if isinstance(event, Recovered)]
    if not seen:
        return
    whole.recovered = seen[-1]
    if not seen[-1].recovered:
        whole.add([Finding(name="not-recovered", key=(-1,), at_ns=seen[-1].ns)])
