"""Kernels of the order of polls: what one process was returned, in order, without gaps
(docs/checks.md, "Order of polls").

Not here: positions of groups (`checkers.groups`).
"""

from dataclasses import dataclass

import numpy as np

from checkers.kernel_delivery import got, highest_offsets
from checkers.kernel_types import OK, RC, RU, Array, Finding, PartitionResult, Shown, integers
from checkers.kernel_view import Partition
from harness.op import AssignmentKind


@dataclass(frozen=True, slots=True)
class _Steps:
    """Pairs of reads (rows): from `q` to `r`; `inside` one op or between two."""

    q: Array
    r: Array
    inside: Array


def poll_order(p: Partition, result: PartitionResult) -> None:
    """nonmonotonic-poll, poll-skip, and their forms inside one op."""
    if len(p.reads["op"]) < 2:
        return
    steps = _steps(p)
    position = _positions(p)
    a, b = position[steps.q], position[steps.r]
    back = b <= a
    skip = np.zeros(len(a), bool)
    low, high = p.slots(np.minimum(a, b)), p.slots(np.maximum(a, b))
    level = p.reads["isolation"][steps.r]
    for isolation in (RU, RC):
        mine = np.flatnonzero((level == isolation) & ~back)
        if len(mine):
            order = p.order(isolation)
            skip[mine] = order[high[mine] - 1] > order[low[mine]]
    hits = np.flatnonzero(back | skip)
    hits = hits[~_explained(p, steps, hits)]
    for inside, prefix in ((True, "int-"), (False, "")):
        mine = hits[steps.inside[hits] == inside]
        _report(p, result, steps, mine[back[mine]], f"{prefix}nonmonotonic-poll")
        _report(p, result, steps, mine[~back[mine]], f"{prefix}poll-skip")


def _steps(p: Partition) -> _Steps:
    reads = p.reads
    process, op = reads["process"], reads["op"]
    new_process = np.append(True, process[1:] != process[:-1])
    new_op = new_process | np.append(True, op[1:] != op[:-1])
    rows = np.arange(len(op))
    stands = np.where(_undone(p), -1, rows)
    last = np.maximum.accumulate(stands)  # last read that stands, up to each row
    first = np.flatnonzero(new_op & ~new_process)
    q = last[first - 1]
    kept = (q >= 0) & (process[q] == process[first])
    inner = np.flatnonzero(~new_op)
    return _Steps(
        q=np.concatenate((inner - 1, q[kept])),
        r=np.concatenate((inner, first[kept])),
        inside=np.repeat((True, False), (len(inner), int(kept.sum()))),
    )


def _undone(p: Partition) -> Array:
    """Reads whose op did not happen, so that the process went back to before them."""
    bad: Array = p.reads["op_outcome"] != OK
    changes = p.assignments
    if p.context.portable or not bad.any():
        return bad
    if changes is None:
        return np.zeros(len(bad), bool)
    rewinds = changes["op"][changes["kind"] == AssignmentKind.REWIND]
    return np.asarray(bad & np.isin(p.reads["op"], rewinds))  # an op belongs to one process


def _positions(p: Partition) -> Array:
    if not p.context.portable:
        return p.reads["offset"]
    highest = np.append(highest_offsets(p), -1)[p.writer]
    phantom = np.flatnonzero(p.writer < 0)
    if len(phantom):
        _, which = np.unique(p.reads["value"][phantom], return_inverse=True)
        top = np.full(int(which.max()) + 1, -1, np.int64)
        np.maximum.at(top, which, p.reads["offset"][phantom])
        highest[phantom] = top[which]
    return np.asarray(highest)


def _explained(p: Partition, steps: _Steps, hits: Array) -> Array:
    """For each of these steps: an event on record moved the position between the two reads."""
    explained = np.zeros(len(hits), bool)
    changes, reads = p.assignments, p.reads
    if changes is None:
        return explained
    moved = reads["assignment"][steps.q[hits]] < reads["assignment"][steps.r[hits]]
    by_op = p.context.portable & steps.inside[hits]
    for at in np.flatnonzero(moved | by_op).tolist():  # no more than there are events
        q, r = int(steps.q[hits[at]]), int(steps.r[hits[at]])
        number = changes["assignment"]
        between = (number > reads["assignment"][q]) & (number <= reads["assignment"][r])
        if by_op[at]:
            between = between | (changes["op"] == reads["op"][r])
        mine = changes["process"] == reads["process"][r]
        explained[at] = (between & mine & (changes["kind"] != AssignmentKind.REWIND)).any()
    return explained


def _report(p: Partition, result: PartitionResult, steps: _Steps, hits: Array, name: str) -> None:
    result.count(name, len(hits))
    reads = p.reads
    for at in hits[: p.context.cap].tolist():
        q, r = int(steps.q[at]), int(steps.r[at])
        key = integers(p.tp, reads["op"][r])
        result.findings.append(
            Finding(
                name=name,
                key=(*key, int(reads["pos"][r])) if steps.inside[at] else key,
                tp=p.tp,
                process=int(reads["process"][r]),
                ops=tuple(dict.fromkeys(integers(reads["op"][q], reads["op"][r]))),
                records=(
                    got(p, q),
                    *(_skipped(p, q, r) if name.endswith("skip") else ()),
                    got(p, r),
                ),
                at_ns=int(reads["complete_ns"][r]),
            )
        )


def _skipped(p: Partition, q: int, r: int) -> list[Shown]:
    """At most two reads of what lies between, by whomever."""
    low, high = sorted((int(p.reads["offset"][q]), int(p.reads["offset"][r])))
    offsets = p.reads["offset"]
    between = np.flatnonzero((offsets > low) & (offsets < high))
    first = between[np.unique(offsets[between], return_index=True)[1]]
    return [got(p, row) for row in first[:2].tolist()]
