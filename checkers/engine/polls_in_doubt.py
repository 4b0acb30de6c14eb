"""Polls in doubt of histories that others recorded (docs/checks.md, section 1): each may have been given
records that are not on record, and its client may have read on behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.engine.findings import INFO
from history.columns import Array, columns, held

POLLING: Final = ("poll", "txn")
"""Kinds of ops that may poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollsInDoubt:
    """One entry each, in the order of `invoke_ns`. group: of its process; -1 = none, and then one position
    for all processes without a group."""

    op: Array
    process: Array
    group: Array
    invoke_ns: Array
    complete_ns: Array

    def __len__(self) -> int:
        return len(self.op)

    def until(self, groups: Array, ns: Array) -> Array:
        """For each group and moment: until when at the latest a poll in doubt of the group lasted that had
        begun by then, -1 = none had."""
        found = np.full(len(ns), -1, np.int64)
        for group in np.unique(self.group[held(self.group, groups)]).tolist():
            mine = self.group == group
            latest = np.append(-1, np.maximum.accumulate(self.complete_ns[mine]))
            asked = groups == group
            found[asked] = latest[np.searchsorted(self.invoke_ns[mine], ns[asked], side="right")]
        return found

    def between(self, processes: Array, after: Array, before: Array) -> Array:
        """Flags: the process has one behind the op `after` and before the op `before`."""
        order = np.lexsort((self.op, self.process))
        keys = _numbered(self.process[order], self.op[order])
        first = np.searchsorted(keys, _numbered(processes, after), side="right")
        return np.asarray(first < np.searchsorted(keys, _numbered(processes, before)))


NONE: Final = PollsInDoubt(**dict.fromkeys(PollsInDoubt.__annotations__, np.zeros(0, np.int64)))


def polls_in_doubt(ops: pa.Table, processes: pa.Table, f: Sequence[str]) -> PollsInDoubt:
    """Of a history that others recorded. f: the names of kinds of ops."""
    rows = columns(ops, ("op", "process", "f", "outcome", "n_reads", "invoke_ns", "complete_ns"))
    named = [number for number, name in enumerate(f) if name in POLLING]
    doubt = np.flatnonzero((rows["outcome"] == INFO) & (rows["n_reads"] == 0) & np.isin(rows["f"], named))
    if not len(doubt):
        return NONE
    of = columns(processes, ("process", "group", "isolation"))
    order = np.argsort(of["process"])
    at = order[np.searchsorted(of["process"][order], rows["process"][doubt])]
    consumes = of["isolation"][at] >= 0
    doubt, at = doubt[consumes], at[consumes]
    sort = np.argsort(rows["invoke_ns"][doubt], kind="stable")
    names = ("op", "process", "invoke_ns", "complete_ns")
    wide = {name: rows[name][doubt[sort]].astype(np.int64) for name in names}
    return PollsInDoubt(group=of["group"][at[sort]].astype(np.int64), **wide)


def _numbered(processes: Array, ops: Array) -> Array:
    return np.asarray(processes.astype(np.int64) << 32 | ops.astype(np.int64))
