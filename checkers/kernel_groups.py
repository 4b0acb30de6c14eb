"""Kernel of delivery to groups: what a group was given again, or never, although it had committed an
offset behind it (docs/checks.md, "Exactly once, delivery to groups, fencing").

Not here: committed offsets that go back (`checkers.groups`), copies (`kernel_copies`).
"""

from dataclasses import dataclass, replace

import numpy as np

from checkers.kernel_delivery import got, sent
from checkers.kernel_types import (
    FAIL,
    FINAL,
    INFO,
    NEVER,
    OK,
    RC,
    Array,
    Columns,
    Finding,
    PartitionResult,
    Position,
    Shown,
    integers,
    runs,
)
from checkers.kernel_view import Partition
from harness.op import AssignmentKind, CommitKind

BLOCK = 256
"""Reads that are compared with all commits at once."""

_PASSED = ((0, ""), (1, "auto"))
"""Variants of a record that a group passed: who may have passed it."""


def group_delivery(p: Partition, result: PartitionResult) -> None:
    """group-duplicate and group-skip; what copying groups had to copy."""
    commits = p.context.commits.get(p.tp)
    if commits is None or not len(commits["op"]):
        return
    spans = _spans(p)
    _again(p, result, commits, spans)
    rc = p.expected(RC)
    for group in np.unique(commits["group"]).tolist():
        rows = {name: column[commits["group"] == group] for name, column in commits.items()}
        position = _position(p, result, rows)
        if position is not None:
            _skipped(p, result, position, rows, spans, np.flatnonzero(rc))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spans:
    """Neighbouring reads of one process under one assignment: from row `start` up to `end`."""

    start: Array
    end: Array
    process: Array
    assignment: Array
    group: Array
    isolation: Array


def _spans(p: Partition) -> _Spans:
    process, assignment = p.reads["process"], p.reads["assignment"]
    new = (process[1:] != process[:-1]) | (assignment[1:] != assignment[:-1])
    start = np.flatnonzero(np.append(True, new)[: len(process)])
    at = p.context.process_rows(process[start])
    return _Spans(
        start=start,
        end=np.append(start[1:], len(process))[: len(start)],
        process=process[start],
        assignment=assignment[start],
        group=p.context.group[at],
        isolation=p.context.isolation[at],
    )


def _again(p: Partition, result: PartitionResult, commits: Columns, spans: _Spans) -> None:
    """group-duplicate."""
    if not len(spans.start):
        return
    given = _given_ns(p, spans)
    live = np.where(p.reads["phase"] == FINAL, NEVER, p.reads["offset"])
    lowest = np.minimum.reduceat(live, spans.start)
    for at in np.flatnonzero((spans.group >= 0) & (given >= 0)).tolist():
        mine = commits["group"] == spans.group[at]
        before = mine & _stored(commits) & (commits["done"] < given[at])
        if spans.isolation[at] != RC:
            before &= commits["kind"] != CommitKind.TXN
        before &= commits["offset"] > lowest[at]
        if before.any():
            written = mine & (commits["kind"] != CommitKind.FETCHED) & (commits["outcome"] != FAIL)
            rows = np.arange(spans.start[at], spans.end[at])
            rows = rows[p.reads["phase"][rows] != FINAL]
            _first_again(p, result, commits, rows, np.flatnonzero(before), np.flatnonzero(written))


def _given_ns(p: Partition, spans: _Spans) -> Array:
    """For each span: when the coordinator assigned the partition for it, -1 = it did not."""
    given = np.full(len(spans.start), -1, np.int64)
    changes = p.assignments
    if changes is None:
        return given
    assigned = np.flatnonzero(changes["kind"] == AssignmentKind.ASSIGNED)
    key = changes["process"][assigned].astype(np.int64) << 32 | changes["assignment"][assigned]
    keys, first = np.unique(key, return_index=True)
    if len(keys):
        wanted = spans.process.astype(np.int64) << 32 | spans.assignment
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = keys[at] == wanted
        given[found] = changes["ns"][assigned[first[at[found]]]]
    return given


def _stored(commits: Columns) -> Array:
    return np.asarray((commits["outcome"] == OK) & (commits["kind"] != CommitKind.FETCHED))


def _first_again(
    p: Partition,
    result: PartitionResult,
    commits: Columns,
    rows: Array,
    before: Array,
    written: Array,
) -> None:
    """The first of these reads that one of the commits `before` excludes, and none of the `written`
    ones excuses."""
    before = before[np.argsort(commits["invoke_ns"][before], kind="stable")]
    invoked, offset = commits["invoke_ns"][before], commits["offset"][before]
    highest = np.append(np.maximum.accumulate(offset[::-1])[::-1], -1)  # of those from here on
    rows = rows[p.reads["offset"][rows] < highest[0]]
    for block in np.split(rows, range(BLOCK, len(rows), BLOCK)):
        at, until = p.reads["offset"][block, None], p.reads["complete_ns"][block, None]
        excuses = (commits["offset"][written] <= at) & (commits["invoke_ns"][written] < until)
        excused = np.where(excuses, commits["done"][written], -1).max(axis=1, initial=-1)
        left = np.searchsorted(invoked, excused, side="right")  # commits that it does not excuse
        hits = np.flatnonzero(highest[left] > p.reads["offset"][block])
        if len(hits):
            commit = int(before[left[hits[0]] + np.argmax(offset[left[hits[0]] :])])
            result.count("group-duplicate", 1)
            if sum(f.name == "group-duplicate" for f in result.findings) < p.context.cap:
                result.findings.append(_redelivered(p, commits, commit, int(block[hits[0]])))
            return


def _redelivered(p: Partition, commits: Columns, commit: int, row: int) -> Finding:
    op, group, offset = (int(commits[name][commit]) for name in ("op", "group", "offset"))
    read = got(p, row)
    return Finding(
        name="group-duplicate",
        key=(p.tp, group, read.op),
        tp=p.tp,
        process=int(p.reads["process"][row]),
        ops=tuple(dict.fromkeys((op, read.op))),
        records=(Shown(op, "commit", p.tp, -1, offset), read),
        at_ns=int(p.reads["complete_ns"][row]),
        detail={"committed_ns": int(commits["done"][commit])},
    )


def _position(p: Partition, result: PartitionResult, rows: Columns) -> Position | None:
    """The committed position of a group (`rows`: its commits here)."""
    written = rows["kind"] != CommitKind.FETCHED
    open_txn = written & (rows["kind"] == CommitKind.TXN) & (rows["outcome"] == INFO)
    proven = open_txn & np.isin(rows["op"], _proven(p))
    known = np.flatnonzero(written & (rows["outcome"] == OK) | proven)
    highest = int(rows["offset"][known].max(initial=-1))
    waiting = open_txn & ~proven & (rows["offset"] > highest)
    result.waiting = np.union1d(result.waiting, rows["op"][waiting])
    if not len(known):
        return None
    at = int(known[np.argmax(rows["offset"][known])])
    group, op, process, ns = (int(rows[n][at]) for n in ("group", "op", "process", "complete_ns"))
    return Position(group=group, offset=highest, op=op, process=process, ns=ns)


def _proven(p: Partition) -> Array:
    """Ops that are proven committed, here or elsewhere."""
    return np.union1d(p.sends["op"][p.proven], p.context.proven)


def _skipped(
    p: Partition,
    result: PartitionResult,
    position: Position,
    commits: Columns,
    spans: _Spans,
    slots: Array,
) -> None:
    """group-skip; what a copying group had to copy. `commits`: the group's; `slots`: what RC readers
    have to see."""
    offsets = p.slots.offsets(slots)
    below = (offsets >= p.start) & (offsets < position.offset)
    slots = slots[below]
    if position.group in p.context.copying:
        result.positions.append(replace(position, expected=runs(offsets[below])))
    read = np.zeros(p.slots.size, bool)
    mine = spans.group == position.group
    for start, end in zip(spans.start[mine].tolist(), spans.end[mine].tolist(), strict=True):
        read[p.read_slot[start:end]] = True
    missed = slots[~read[slots]]
    if not len(missed):
        return
    automatic = _automatic(p, position.group, commits, missed)
    result.count_by("group-skip", automatic, _PASSED)
    for code, variant in _PASSED:
        for slot in missed[automatic == code][: p.context.cap].tolist():
            result.findings.append(_missed(p, position, slot, variant))


def _automatic(p: Partition, group: int, commits: Columns, missed: Array) -> Array:
    """Of each missed slot: whether an automatic member that was not closed may have had it (flags)."""
    suspects = p.context.unclosed.get(group)
    found = np.zeros(len(missed), np.int8)
    if suspects is None:
        return found
    stored = np.flatnonzero(_stored(commits))
    stored = stored[np.argsort(commits["offset"][stored], kind="stable")]
    done = np.append(np.minimum.accumulate(commits["done"][stored][::-1])[::-1], NEVER)
    offsets = p.slots.offsets(missed)
    passed = done[np.searchsorted(commits["offset"][stored], offsets, side="right")]
    sent = np.full(len(missed), NEVER)
    reads = np.flatnonzero(np.isin(p.read_slot, missed))
    at = np.searchsorted(missed, p.read_slot[reads])
    np.minimum.at(sent, at, p.of_writer(p.sends["invoke_ns"], -1)[reads])
    for n, process in enumerate(suspects.process.tolist()):
        began = min(int(suspects.open_ns[n]), _first_change(p, process))
        found |= (began < passed) & (sent < suspects.gone_ns[n])
    return found


def _first_change(p: Partition, process: int) -> int:
    """When it first was on record that the process reads this partition; NEVER: never."""
    if p.assignments is None:
        return NEVER
    own = p.assignments["ns"][p.assignments["process"] == process]
    return int(own.min(initial=NEVER))


def _missed(p: Partition, position: Position, slot: int, variant: str) -> Finding:
    offset = p.slots.offset(slot)
    read = int(np.flatnonzero(p.read_slot == slot)[0])
    writer = int(p.writer[read])
    shown = [sent(p, writer)] if writer >= 0 else []
    shown += [got(p, read), Shown(position.op, "commit", p.tp, -1, position.offset)]
    return Finding(
        name="group-skip",
        key=integers(p.tp, position.group, offset),
        variant=variant,
        tp=p.tp,
        process=position.process,
        ops=tuple(dict.fromkeys(each.op for each in shown)),
        records=tuple(shown),
        at_ns=position.ns,
    )
