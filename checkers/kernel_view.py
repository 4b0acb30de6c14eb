"""One topic-partition as the kernels see it: which read shows which send, and what is committed.

Rows of sends are in (op, pos) order, rows of reads in (process, op, pos) order. All arrays are as
long as their table; `writer` joins them. Offsets are mapped to *slots*, dense numbers in offset
order, so that most work is plain indexing.

Not here: the rules of single classes (`kernel_delivery` and the others beside it).
"""

from dataclasses import dataclass, field

import numpy as np

from checkers.kernel_types import FAIL, FINAL, INFO, OK, RC, RU, Array, Bound, Columns, Context

SPARSE = 8
"""Offsets spread over more than this many times the rows are compressed by sorting."""


class Slots:
    """Known offsets of a partition -> dense slots in offset order."""

    def __init__(self, offsets: Array) -> None:
        lowest = int(offsets.min()) if len(offsets) else 0
        highest = int(offsets.max()) if len(offsets) else -1
        self._base = lowest
        self._sorted: Array | None = None
        self.size = highest - lowest + 1
        if self.size > SPARSE * len(offsets) + 1024:
            self._sorted = np.unique(offsets)
            self.size = len(self._sorted)

    def __call__(self, offsets: Array) -> Array:
        """Slots of offsets, all of which are known."""
        if self._sorted is None:
            return offsets - self._base
        return np.searchsorted(self._sorted, offsets)

    def offsets(self, slots: Array) -> Array:
        """The offsets of slots."""
        return slots + self._base if self._sorted is None else self._sorted[slots]

    def offset(self, slot: int) -> int:
        """The offset of a slot."""
        return int(self._sorted[slot]) if self._sorted is not None else slot + self._base


@dataclass(slots=True, kw_only=True)
class Partition:
    """Rows of one topic-partition, joined. `writer[i]`: row in sends of the value of read i, or -1.

    seen, shown_any, shown_rc: of each send (docs/checks.md, section 1).
    """

    tp: int
    context: Context
    sends: Columns
    reads: Columns
    slots: Slots
    read_slot: Array
    writer: Array
    counting: Array
    seen: Array
    shown_any: Array
    shown_rc: Array
    proven: Array
    failed: Array
    committed: Array
    acked: Array
    _owner: Array | None = None
    _expected: dict[int, Array] = field(default_factory=dict)

    @property
    def owner(self) -> Array:
        """Position in the context of the process of each send."""
        if self._owner is None:
            self._owner = self.context.process_rows(self.sends["process"])
        return self._owner

    @property
    def bounds(self) -> tuple[Bound | None, Bound | None]:
        """Bounds at RU and RC."""
        rows = self.context.bounds.get(self.tp, {})
        return rows.get(RU), rows.get(RC)

    @property
    def start(self) -> int:
        """Where the log starts, as far as any listing tells."""
        return max([0, *(b.start for b in self.bounds if b is not None)])

    @property
    def assignments(self) -> Columns | None:
        """Rows of `assignments` of this partition."""
        return self.context.assignments.get(self.tp)

    def flagged(self, of_reads: Array) -> Array:
        """Sends that at least one of the reads (a mask) shows."""
        flags = np.zeros(len(self.sends["op"]) + 1, bool)
        flags[self.writer[of_reads]] = True  # -1 (no send) hits the extra last place
        return flags[:-1]

    def of_writer(self, column: Array, otherwise: int) -> Array:
        """A column of sends, for each read; `otherwise` where the read has no send."""
        return np.append(column, column.dtype.type(otherwise))[self.writer]

    def order(self, level: int) -> Array:
        """Running count, by slot, of the offsets that a consumer at this level has to see."""
        return np.cumsum(self.expected(level), dtype=np.int64)

    def expected(self, level: int) -> Array:
        """Flags, by slot: a consumer at this level has to see the offset."""
        if level not in self._expected:
            self._expected[level] = self._expect(level)
        return self._expected[level]

    def _expect(self, level: int) -> Array:
        evidence = self._evidence()
        if level == RC:
            plain = (self.sends["txn"] == 0) | self.committed
            evidence = evidence & (
                (self.reads["isolation"] == RC) | np.append(plain, False)[self.writer]
            )
        known = np.zeros(self.slots.size, bool)
        known[self.read_slot[evidence]] = True
        if self.context.portable:
            known[self.slots(self.sends["offset"][self.acked & self.committed])] = True
        return known

    def _evidence(self) -> Array:
        reads = self.reads
        if not self.context.portable and any(b is not None and b.complete for b in self.bounds):
            return np.asarray(reads["phase"] == FINAL)
        return np.ones(len(reads["op"]), bool)


def view(tp: int, sends: Columns, reads: Columns, context: Context) -> Partition:
    """Join the rows of one partition."""
    acked = sends["offset"] >= 0
    placed = sends["place"] >= 0
    offsets = (reads["offset"], sends["offset"][acked], sends["place"][placed])
    slots = Slots(np.concatenate(offsets))
    read_slot = slots(reads["offset"])
    writer = _writers(sends, reads, slots, read_slot, placed)
    partition = Partition(
        tp=tp, context=context, sends=sends, reads=reads, slots=slots, read_slot=read_slot,
        writer=writer, acked=acked,
        counting=(reads["op_outcome"] == OK) | (reads["phase"] == FINAL),
        seen=acked, shown_any=acked, shown_rc=acked, proven=acked, failed=acked, committed=acked,
    )  # fmt: skip
    _decide(partition)
    return partition


def _writers(sends: Columns, reads: Columns, slots: Slots, slot: Array, placed: Array) -> Array:
    """Row in sends of each read's value, -1 where nobody sent it."""
    at = np.full(slots.size + 1, -1, np.int64)
    rows = np.flatnonzero(placed)
    at[slots(sends["place"][rows])] = rows
    values = sends["value"]
    writer = at[slot]
    wrong = np.flatnonzero((writer < 0) | (np.append(values, -1)[writer] != reads["value"]))
    if len(wrong):
        writer[wrong] = -1
    if len(wrong) and len(values):
        by_value = np.argsort(values, kind="stable")
        wanted = reads["value"][wrong]
        found = np.searchsorted(values, wanted, sorter=by_value)
        row = by_value[np.minimum(found, len(values) - 1)]
        hit = values[row] == wanted
        writer[wrong[hit]] = row[hit]
    return writer


def _decide(p: Partition) -> None:
    """Which sends are seen, shown by final reads, failed, committed."""
    sends, reads = p.sends, p.reads
    rc = reads["isolation"] == RC
    txn = sends["txn"] == 1
    counts = p.counting & (rc | (p.of_writer(sends["txn"], 1) == 0))
    p.seen = p.flagged(counts)
    final = reads["phase"] == FINAL
    p.shown_any = p.flagged(final)
    p.shown_rc = np.where(txn, p.flagged(final & rc), p.shown_any)
    p.failed = (sends["outcome"] == FAIL) | (txn & (sends["op_outcome"] == FAIL))
    open_txn = txn & (sends["op_outcome"] == INFO)
    p.proven = np.zeros(len(txn), bool)
    if open_txn.any():
        here = np.unique(sends["op"][open_txn & p.seen])
        proven = np.union1d(here, p.context.proven)
        p.proven = open_txn & np.isin(sends["op"], proven)
    decided = np.where(txn, (sends["op_outcome"] == OK) | p.proven, sends["outcome"] == OK)
    p.committed = ~p.failed & (decided | (~txn & p.seen))
