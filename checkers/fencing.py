"""zombie-write, transactions: committed although they wrote after a successor had begun
(docs/checks.md, "zombie-write", rule 2).

Not here: records that stand behind those of a successor (`kernel_fencing`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from checkers.kernel_types import FAIL, INFO, OK, Array, Context, Finding, PartitionResult
from checkers.sealed import columns
from harness.op import CommitKind


def zombies(
    results: Sequence[PartitionResult],
    tables: Mapping[str, pa.Table],
    context: Context,
    proven: Array,
) -> list[Finding]:
    """All findings of the rule. proven: ops proven committed, in whatever partition."""
    tenure = context.tenure
    if tenure is None:
        return []
    ops = columns(tables["ops"], ("op", "process", "outcome", "txn", "invoke_ns", "complete_ns"))
    late = [result.late for result in results]
    commits = columns(tables["commits"], ("op", "process", "kind", "invoke_ns"))
    fenced = tenure.fenced[context.process_rows(commits["process"])]
    too_late = (commits["kind"] == CommitKind.TXN) & (commits["invoke_ns"] > fenced)
    suspects = np.unique(np.concatenate([*late, commits["op"][too_late]]))
    rows = np.flatnonzero(np.isin(ops["op"], suspects) & (ops["txn"] == 1))
    outcome = ops["outcome"][rows]
    committed = (outcome == OK) | ((outcome == INFO) & np.isin(ops["op"][rows], proven))
    found = []
    for row in rows[committed & (outcome != FAIL)].tolist():
        own = int(context.process_rows(ops["process"][row]))
        heir = _first_heir(context, own)
        op = int(ops["op"][row])
        found.append(
            Finding(
                name="zombie-write",
                key=(-1, op),
                variant="commit",
                process=int(ops["process"][row]),
                ops=(op,),
                at_ns=int(ops["complete_ns"][row]),
                detail={
                    "heir": int(context.processes[heir]),
                    "fenced_ns": int(tenure.fenced[own]),
                },
            )
        )
    return found


def _first_heir(context: Context, own: int) -> int:
    """The process that had begun first of those that a process precedes."""
    tenure = context.tenure
    assert tenure is not None
    holders = next(mine for mine in tenure.holders if own in mine)
    heirs = holders[tenure.first[holders] > tenure.begun[own]]
    return int(heirs[np.argmin(tenure.begun[heirs])])
