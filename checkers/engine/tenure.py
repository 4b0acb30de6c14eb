"""Who held which transactional id when."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from checkers.engine.findings import NEVER, OK
from history.columns import Array, Columns, positions


@dataclass(frozen=True, kw_only=True)
class Tenure:
    """Who held a transactional id when; one entry a process, as in `KernelInput.processes`.

    since: when the first holder of the id started; no earlier loss concerns it (0: the id has one holder).
    begun: when it had the id for certain, since a transaction had ended, or a record of one was acknowledged
    (NEVER: none); first: when its first transaction was invoked (-1: none). holders: of each id that several
    processes held, their positions in order of `first`.
    """

    since: Array
    begun: Array
    first: Array
    holders: tuple[Array, ...]

    def with_acks(self, first_acks: Array) -> "Tenure":
        """With the time of the first acknowledged record of each process (NEVER: none)."""
        return replace(self, begun=np.minimum(self.begun, first_acks))

    @cached_property
    def fenced(self) -> Array:
        """When the earliest successor had begun (NEVER: none had)."""
        return self.lowest_of_successors(self.begun)

    def lowest_of_successors(self, values: Array) -> Array:
        """For each process: the lowest value (one a process) among the processes that it precedes,
        NEVER where there is none."""
        lowest = np.full(len(values), NEVER)
        for mine in self.holders:
            onward = np.minimum.accumulate(values[mine][::-1])[::-1]
            after = np.searchsorted(self.first[mine], self.begun[mine], side="right")
            lowest[mine] = np.append(onward, NEVER)[after]
        return lowest

    def successors(self, process: int) -> Array:
        """Positions of the processes that the one at a position precedes."""
        holders = next(mine for mine in self.holders if process in mine)
        return np.asarray(holders[self.first[holders] > self.begun[process]])


def tenure(process: Columns, ops: Columns) -> Tenure | None:
    """Who held which transactional id when, as far as ops tell (docs/checks.md, "zombie-write"); None where
    no id had several holders."""
    ids, counts = np.unique(process["txn_id"][process["txn_id"] >= 0], return_counts=True)
    if not (counts > 1).any():
        return None
    size = len(process["process"])
    begun, first = np.full(size, NEVER), np.full(size, NEVER)
    since = np.zeros(size, np.int64)
    txn = ops["txn"] == 1
    owner = positions(ops["process"], process["process"])
    np.minimum.at(first, owner[txn], ops["invoke_ns"][txn])
    ok = txn & (ops["outcome"] == OK)
    np.minimum.at(begun, owner[ok], ops["complete_ns"][ok])
    first[first == NEVER] = -1
    holders = []
    for one in ids[counts > 1].tolist():
        mine = np.flatnonzero(process["txn_id"] == one)
        holders.append(mine[np.argsort(first[mine], kind="stable")])
        since[mine] = process["start_ns"][mine].min()
    return Tenure(since=since, begun=begun, first=first, holders=tuple(holders))
