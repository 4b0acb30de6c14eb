"""Kernel of fencing: what a process wrote after another had taken its transactional id
(docs/checks.md, "zombie-write").

Not here: who held an id when (`checkers.context`), transactions that end after the fence
(`checkers.fencing` joins them over partitions).
"""

import numpy as np

from checkers.kernel_offsets import placed
from checkers.kernel_types import FAIL, NEVER, Finding, PartitionResult, Tenure, integers
from checkers.kernel_view import Partition

_COMMITTED = ((1, "committed"), (0, "uncommitted"))


def fencing(p: Partition, result: PartitionResult) -> None:
    """zombie-write (records); transactions that wrote here after a successor had begun."""
    tenure = p.context.tenure
    if tenure is None or not len(p.sends["op"]):
        return
    sends = p.sends
    owner = p.owner
    late = (sends["invoke_ns"] > tenure.fenced[owner]) & (sends["outcome"] != FAIL)
    late &= (sends["txn"] == 1) & (sends["op_outcome"] != FAIL)
    result.late = np.unique(sends["op"][late])
    lowest = np.full(len(p.context.processes), NEVER)
    rows = np.flatnonzero(sends["place"] >= 0)
    np.minimum.at(lowest, owner[rows], sends["place"][rows])
    bound = tenure.lowest_of_successors(lowest)[owner]
    hits = rows[bound[rows] < sends["place"][rows]]
    if not len(hits):
        return
    result.count_by("zombie-write", p.committed[hits], _COMMITTED)
    for code, variant in _COMMITTED:
        for row in hits[p.committed[hits] == bool(code)][: p.context.cap].tolist():
            result.findings.append(_zombie(p, tenure, row, int(bound[row]), variant))


def _zombie(p: Partition, tenure: Tenure, row: int, place: int, variant: str) -> Finding:
    own = p.owner[row]
    holders = next(mine for mine in tenure.holders if own in mine)
    heirs = holders[tenure.first[holders] > tenure.begun[own]]
    there = np.flatnonzero((p.sends["place"] == place) & np.isin(p.owner, heirs))
    heir = int(there[0])
    return Finding(
        name="zombie-write",
        key=integers(p.tp, p.sends["value"][row]),
        variant=variant,
        tp=p.tp,
        process=int(p.sends["process"][row]),
        ops=tuple(dict.fromkeys(integers(p.sends["op"][heir], p.sends["op"][row]))),
        records=(placed(p, heir), placed(p, row)),
        at_ns=int(p.sends["ack_ns"][row]),
        detail={"heir": int(p.sends["process"][heir])},
    )
