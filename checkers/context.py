"""What kernels know beside the rows of their partition, made from the small tables.

Not here: reading files (`checkers.sealed`), the kernels.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from checkers.groups import done
from checkers.kernel_types import (
    CAP,
    FAIL,
    NEVER,
    OK,
    Array,
    Bound,
    Columns,
    Context,
    Tenure,
    Unclosed,
)
from checkers.sealed import by_tp, columns, grouped
from harness.history import OPEN
from harness.op import End

TABLES = ("processes", "ops", "bounds", "assignments", "commits")
"""Tables that a context is made from."""

NO_PRODUCER = -2
"""`acks` of a process that does not produce."""
OPS = ("op", "process", "outcome", "txn", "n_sends", "n_reads", "invoke_ns", "complete_ns")


def context(
    tables: Mapping[str, pa.Table], *, portable: bool, ww: bool = True, cap: int = CAP
) -> Context:
    """The context of all partitions of a history."""
    process = columns(tables["processes"])
    order = np.argsort(process["process"])
    process = {name: column[order] for name, column in process.items()}
    ops = columns(tables["ops"], OPS)
    vertex, relay = vertices(ops)
    member = process["group"] >= 0
    sends, reads = process["acks"] != NO_PRODUCER, process["isolation"] >= 0
    return Context(
        portable=portable,
        processes=process["process"],
        acks=process["acks"],
        idempotent=process["idempotent"],
        group=process["group"],
        isolation=process["isolation"],
        vertex=vertex,
        relay=relay,
        bounds={} if portable else _bounds(tables["bounds"]),
        assignments=dict(by_tp(tables["assignments"])),
        tenure=None if portable else tenure(process, ops),
        commits={} if portable else _commits(tables["commits"], ops),
        copying=frozenset(process["group"][member & sends & reads].tolist()),
        unclosed={} if portable else unclosed(process, ops),
        copies=not portable and bool((member & sends).any()),
        ww=ww,
        cap=cap,
    )


def vertices(ops: Columns) -> tuple[Array, Array]:
    """Flags by op: vertex of the dependency graph, relay (docs/checks.md, "Cycles")."""
    size = int(ops["op"].max(initial=-1)) + 1
    vertex, relay = np.zeros(size, bool), np.zeros(size, bool)
    txn, sends, reads = ops["txn"] == 1, ops["n_sends"], ops["n_reads"]
    alive = ops["outcome"] != FAIL
    vertex[ops["op"]] = alive & (txn | (sends == 0) | ((sends == 1) & (reads == 0)))
    relay[ops["op"]] = alive & txn & (sends > 0) & (reads > 0)
    return vertex, relay


def _bounds(table: pa.Table) -> dict[int, dict[int, Bound]]:
    bounds: dict[int, dict[int, Bound]] = {}
    for row in table.to_pylist():
        tp, isolation = row.pop("tp"), row.pop("isolation")
        bounds.setdefault(tp, {})[isolation] = Bound(**row)
    return bounds


def _commits(table: pa.Table, ops: Columns) -> dict[int, Columns]:
    """Rows of each partition that belong to a group, with `done`."""
    rows = columns(table)
    rows["done"] = done(rows, ops)
    mine = rows["group"] >= 0
    rows = {name: column[mine] for name, column in rows.items()}
    return dict(grouped(rows["tp"], rows))


def unclosed(process: Columns, ops: Columns) -> dict[int, Unclosed]:
    """Whose automatic commits may have passed too much (docs/checks.md, "group-skip"), by group."""
    member = (process["group"] >= 0) & (process["auto_commit"] == 1)
    rows = np.flatnonzero(member & (process["end"] != End.CLOSED))
    if not len(rows):
        return {}
    open_ns = np.full(len(rows), NEVER)
    left = np.flatnonzero(
        (ops["complete_ns"] == OPEN) & np.isin(ops["process"], process["process"][rows])
    )
    owner = np.searchsorted(process["process"][rows], ops["process"][left])
    np.minimum.at(open_ns, owner, ops["invoke_ns"][left])
    gone_ns = np.full(len(rows), NEVER)
    for n, row in enumerate(rows.tolist()):
        if process["end"][row] == End.CRASHED:
            begun = process["start_ns"][process["slot"] == process["slot"][row]]
            gone_ns[n] = begun[begun > process["start_ns"][row]].min(initial=NEVER)
    found = {}
    for group in np.unique(process["group"][rows]).tolist():
        mine = process["group"][rows] == group
        own = process["process"][rows][mine]
        found[group] = Unclosed(process=own, open_ns=open_ns[mine], gone_ns=gone_ns[mine])
    return found


def tenure(process: Columns, ops: Columns) -> Tenure | None:
    """Who held which transactional id when (docs/checks.md, "zombie-write"); None where no id had
    several holders."""
    ids, counts = np.unique(process["txn_id"][process["txn_id"] >= 0], return_counts=True)
    if not (counts > 1).any():
        return None
    size = len(process["process"])
    begun, first = np.full(size, NEVER), np.full(size, NEVER)
    txn = ops["txn"] == 1
    owner = np.searchsorted(process["process"], ops["process"])
    np.minimum.at(first, owner[txn], ops["invoke_ns"][txn])
    ok = txn & (ops["outcome"] == OK)
    np.minimum.at(begun, owner[ok], ops["complete_ns"][ok])
    first[first == NEVER] = -1
    holders = []
    for one in ids[counts > 1].tolist():
        mine = np.flatnonzero(process["txn_id"] == one)
        holders.append(mine[np.argsort(first[mine], kind="stable")])
    bare = Tenure(begun=begun, first=first, fenced=begun, holders=tuple(holders))
    fenced = bare.lowest_of_successors(begun)
    return Tenure(begun=begun, first=first, fenced=fenced, holders=bare.holders)
