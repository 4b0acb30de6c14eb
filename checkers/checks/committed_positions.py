"""Where groups stand in a partition: their committed positions, what lies below these, and what members may
have begun behind (docs/checks.md, "Exactly once, delivery to groups, fencing"). No check: what checks of
groups share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.checks.group_offsets import stored
from checkers.engine.findings import INFO, NEVER, OK, RC, Shown, What
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from core.op import AssignmentKind, CommitKind
from history.columns import Array, Columns

BEGINS_LATE: Final = "auto.offset.reset=latest: a group without a committed offset begins at the log’s end"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPosition:
    """The committed position of a group in a partition, and the row that it stems from."""

    group: int
    offset: int
    op: int
    process: int
    ns: int

    def shown(self, tp: int) -> Shown:
        """The commit as a witness shows it."""
        return Shown(self.op, What.COMMIT, tp, -1, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Neighbouring reads of one process under one assignment: from row `start` up to `end`."""

    start: Array
    end: Array
    process: Array
    assignment: Array
    group: Array
    isolation: Array


def spans_of(p: KernelView) -> Spans:
    """Of a partition."""
    process, assignment = p.reads["process"], p.reads["assignment"]
    new = (process[1:] != process[:-1]) | (assignment[1:] != assignment[:-1])
    start = np.flatnonzero(np.append(True, new)[: len(process)])
    at = p.known.positions(process[start])
    return Spans(
        start=start,
        end=np.append(start[1:], len(process))[: len(start)],
        process=process[start],
        assignment=assignment[start],
        group=p.known.group[at],
        isolation=p.known.isolation[at],
    )


def positions(p: KernelView) -> Iterator[tuple[Columns, CommittedPosition]]:
    """Of each group with a committed position here, whose members are all on record: its commits, and that
    position."""
    commits = p.known.commits.get(p.tp)
    if commits is None:
        return
    for group in distinct(commits["group"]).tolist():
        if group in p.known.cut_groups:
            continue
        rows = {name: column[commits["group"] == group] for name, column in commits.items()}
        commit = rows["kind"] != CommitKind.FETCHED
        open_txn = (rows["kind"] == CommitKind.TXN) & (rows["outcome"] == INFO)
        proven = open_txn & among(rows["op"], p.known.proven)
        known = np.flatnonzero(commit & (rows["outcome"] == OK) | proven)
        highest = int(rows["offset"][known].max(initial=-1))
        if len(known):
            row = int(known[np.argmax(rows["offset"][known])])
            op, process, ns = (int(rows[name][row]) for name in ("op", "process", "complete_ns"))
            yield (rows, CommittedPosition(group=group, offset=highest, op=op, process=process, ns=ns))


def to_see(p: KernelView, position: CommittedPosition, commits: Columns) -> Array:
    """Slots below a committed position that a read_committed consumer has to see. commits: the group's."""
    slots = np.flatnonzero(p.expected(RC))
    slots = slots[p.slots.offsets(slots) < position.offset]
    offsets = p.slots.offsets(slots)
    return np.asarray(slots[offsets >= p.given_from(passed_ns(commits, offsets))])


def passed_ns(commits: Columns, offsets: Array) -> Array:
    """When the group had committed an offset above each of these; NEVER: it is not known to have."""
    rows = np.flatnonzero(stored(commits))
    rows = rows[np.argsort(commits["offset"][rows], kind="stable")]
    done = np.append(np.minimum.accumulate(commits["done"][rows][::-1])[::-1], NEVER)
    return np.asarray(done[np.searchsorted(commits["offset"][rows], offsets, side="right")])


def never_read(p: KernelView, group: int, slots: Array, spans: Spans) -> Array:
    """Those of the slots that no read of the group has."""
    read = np.zeros(p.slots.size, bool)
    mine = spans.group == group
    for start, end in zip(spans.start[mine].tolist(), spans.end[mine].tolist(), strict=True):
        read[p.read_slot[start:end]] = True
    return np.asarray(slots[~read[slots]])


def begun_late(p: KernelView, group: int, commits: Columns, spans: Spans) -> int:
    """The highest offset with which members began late (`_beginnings`); NEVER where the log may have begun
    later."""
    if not (p.given_from_all and p.begins_known):
        return NEVER
    return int(_beginnings(p, group, commits, spans)[1].max(initial=-1))


def passed_late(p: KernelView, group: int, commits: Columns, spans: Spans, slots: Array) -> Array:
    """Offsets of those slots that the group passed because a member may have begun behind them. What some
    member had read was passed so only by one that had begun behind it before the group committed that."""
    offsets = p.slots.offsets(slots)
    late = offsets < begun_late(p, group, commits, spans)
    if not late.any():
        return offsets[late]
    ns, behind = _beginnings(p, group, commits, spans)
    order = np.argsort(ns, kind="stable")
    highest = np.append(-1, np.maximum.accumulate(behind[order]))
    passed = passed_ns(commits, offsets)
    unread = np.isin(slots, never_read(p, group, slots, spans))
    late &= unread | (offsets < highest[np.searchsorted(ns[order], passed)])
    return offsets[late]


def _beginnings(p: KernelView, group: int, commits: Columns, spans: Spans) -> tuple[Array, Array]:
    """When members began in this partition where the group may have had no committed offset there, or reset
    their position, and the offsets of their first reads."""
    none = np.zeros(0, np.int64)
    changes, reads = p.assignments, spans.group == group
    if changes is None or not reads.any():
        return none, none
    first = int(commits["done"][stored(commits)].min(initial=NEVER))
    assigned = changes["kind"] == AssignmentKind.ASSIGNED
    given = assigned & (changes["ns"] - p.known.apart_ns < first)
    begun = np.flatnonzero(given | (changes["kind"] == AssignmentKind.RESET))
    process = changes["process"][begun].astype(np.int64)
    under, at = np.unique(
        spans.process[reads].astype(np.int64) << 32 | spans.assignment[reads], return_index=True
    )
    next_read = np.searchsorted(under, process << 32 | changes["assignment"][begun])
    known = np.minimum(next_read, len(under) - 1)
    own = (next_read < len(under)) & (under[known] >> 32 == process)
    rows = spans.start[reads][at[known[own]]]
    return np.asarray(changes["ns"][begun[own]]), np.asarray(p.reads["offset"][rows])
