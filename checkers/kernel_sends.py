"""Kernels of the order of sends: what one process sent, in the order in which it stands in the log
(docs/checks.md, "Order of sends").

Not here: order between processes (`kernel_offsets`).
"""

import numpy as np

from checkers.kernel_offsets import placed
from checkers.kernel_types import (
    ALL,
    IDEMPOTENT,
    OK,
    RU,
    Array,
    Finding,
    PartitionResult,
    integers,
)
from checkers.kernel_view import Partition
from harness.op import AssignmentKind

_WEAK, _ABANDONED = 2, 3
_KEPT = (*IDEMPOTENT, (_WEAK, "weak"), (_ABANDONED, "abandoned"))
"""Variants of what keeps two records of a producer in order."""


def send_order(p: Partition, result: PartitionResult) -> None:
    """nonmonotonic-send, int-nonmonotonic-send, int-send-skip."""
    sends = p.sends
    rows = np.flatnonzero(sends["place"] >= 0)
    process = p.owner[rows].astype(np.uint32)
    if len(rows) and int(process.max()) < 1 << 16:
        process = process.astype(np.uint16)  # numpy sorts these in linear time
    rows = rows[np.argsort(process, kind="stable")]
    before, after = rows[:-1], rows[1:]
    same_process = sends["process"][before] == sends["process"][after]
    same_op = sends["op"][before] == sends["op"][after]
    place = sends["place"]
    back = same_process & (place[after] < place[before])
    _backwards(p, result, "int-nonmonotonic-send", before[back & same_op], after[back & same_op])
    s, t = before[back & ~same_op], after[back & ~same_op]
    kept = ~_dropped(p, s, t)
    _backwards(p, result, "nonmonotonic-send", s[kept], t[kept])
    inside = same_process & same_op & (place[after] > place[before]) & (sends["txn"][after] == 1)
    _skips(p, result, before[inside], after[inside])


def _dropped(p: Partition, s: Array, t: Array) -> Array:
    """For each pair of sends: the process gave the partition up between the two."""
    dropped = np.zeros(len(s), bool)
    changes = p.assignments
    if changes is None:
        return dropped
    manual = changes["kind"] == AssignmentKind.MANUAL
    process, ns = changes["process"][manual], changes["ns"][manual]
    invoke = p.sends["invoke_ns"]
    for at in np.flatnonzero(np.isin(p.sends["process"][s], process)).tolist():
        between = (ns > invoke[s[at]]) & (ns <= invoke[t[at]])
        dropped[at] = (between & (process == p.sends["process"][s[at]])).any()
    return dropped


def _backwards(p: Partition, result: PartitionResult, name: str, s: Array, t: Array) -> None:
    if not len(s):
        return
    owner = p.context.process_rows(p.sends["process"][s])
    idempotent = p.context.idempotent[owner]
    weak = np.where(p.context.acks[owner] == ALL, 0, _WEAK)
    kept = np.where(p.sends["outcome"][s] == OK, weak, _ABANDONED)
    kept[idempotent == 1] = 1
    result.count_by(name, kept, _KEPT)
    for code, variant in _KEPT:
        for at in np.flatnonzero(kept == code)[: p.context.cap].tolist():
            result.findings.append(_finding(p, name, int(s[at]), int(t[at]), variant))


def _skips(p: Partition, result: PartitionResult, s: Array, t: Array) -> None:
    if not len(s):
        return
    order = p.order(RU)
    low, high = p.slots(p.sends["place"][s]), p.slots(p.sends["place"][t])
    skipped = np.flatnonzero(order[high - 1] > order[low])
    result.count("int-send-skip", len(skipped))
    for at in skipped[: p.context.cap].tolist():
        result.findings.append(_finding(p, "int-send-skip", int(s[at]), int(t[at]), ""))


def _finding(p: Partition, name: str, s: int, t: int, variant: str) -> Finding:
    sends = p.sends
    return Finding(
        name=name,
        key=integers(p.tp, sends["value"][s], sends["value"][t]),
        variant=variant,
        tp=p.tp,
        process=int(sends["process"][t]),
        ops=tuple(dict.fromkeys(integers(sends["op"][s], sends["op"][t]))),
        records=(placed(p, s), placed(p, t)),
        at_ns=int(sends["ack_ns"][t]),
        detail={"row": t},
    )
