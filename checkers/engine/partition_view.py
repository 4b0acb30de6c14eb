"""One topic-partition as the kernels see it: which read shows which send, and what is committed.

Rows of sends are in (op, pos) order, rows of reads in (process, op, pos) order. All arrays are as
long as their table; `writer` joins them. Offsets are mapped to *slots*, dense numbers in offset
order, so that most work is plain indexing. The words are those of docs/checks.md, section 1.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from checkers.engine.acknowledged import acknowledged
from checkers.engine.compaction import Compacted, compacted
from checkers.engine.findings import FAIL, FINAL, INFO, NEVER, OK, RC, RU, Shown, What
from checkers.engine.kernel_input import KernelInput
from checkers.engine.slots import Slots, among, distinct
from checkers.log_settings import NOT_COMPACTED
from checkers.run_windows import Deletion
from checkers.windows import LogWindows
from history.columns import Array, Columns, held
from history.reader import Bound
from history.tables import GONE

NOTHING = -(2**63)
"""A value that no record has."""


class KernelView:
    """Rows of one topic-partition, joined.

    writer: of each read, the row in sends of its value, or -1. row_at: row in sends that has its place at a
    slot, -1 = none (of several: one of them). odd: reads whose value is not that of this row. All other reads
    say nothing that sends do not say, so most kernels look at sends and at the few odd reads.
    seen, shown_any, shown_rc, withheld, proven, failed, committed: of each send (docs/checks.md, section 1);
    open_txn: whether it belongs to an indeterminate transaction. returned: whether the final reader at
    read_committed was given it.
    """

    def __init__(self, tp: int, sends: Columns, reads: Columns, known: KernelInput) -> None:
        self.tp, self.sends, self.reads, self.known = tp, sends, reads, known
        self.acked = sends["offset"] >= 0
        self.placed_rows = np.flatnonzero(sends["place"] >= 0)
        offsets = (reads["offset"], sends["offset"][self.acked], sends["place"][self.placed_rows])
        self.slots = Slots(*offsets)
        self.read_slot = self.slots(reads["offset"])
        self.row_at = np.full(self.slots.size, -1, np.int64)
        self.row_at[self.slots(sends["place"][self.placed_rows])] = self.placed_rows
        self.writer, self.odd = self._writers()
        self.counting = (reads["op_outcome"] == OK) | (reads["phase"] == FINAL)
        self._expected: dict[int, Array] = {}
        self._order: dict[int, Array] = {}
        self._decide()

    def _writers(self) -> tuple[Array, Array]:
        """Row in sends of each read's value, -1 where no process sent it; the odd reads."""
        values, read = self.sends["value"], self.reads["value"]
        writer = self.row_at[self.read_slot]
        odd = np.flatnonzero(np.append(values, NOTHING)[writer] != read)
        writer[odd] = -1
        if len(odd) and len(values):
            wanted = read[odd]
            rows = np.flatnonzero(held(values, wanted))  # few, where few reads are odd
            rows = rows[np.argsort(values[rows], kind="stable")]
            found = np.searchsorted(values[rows], wanted)
            hit = np.append(values[rows], NOTHING)[found] == wanted
            writer[odd[hit]] = rows[found[hit]]
        return writer, odd

    def _decide(self) -> None:
        """Which sends are seen, shown by final reads, failed, committed."""
        sends, reads = self.sends, self.reads
        rc, final = reads["isolation"] == RC, reads["phase"] == FINAL
        txn = sends["txn"] == 1
        self.returned = final_rc = self.flagged(final & rc)
        self.shown_any = final_rc | self.flagged(final & ~rc)
        self.shown_rc = np.where(txn, final_rc, self.shown_any)
        self.withheld = np.zeros(len(txn), bool)
        if (span := self.bounds[RC]) is not None and not txn.all():
            start = self._begin(span, slice(None))
            passed = (sends["place"] >= start) & (sends["place"] < span.read_to)
            self.withheld = passed & self.shown_any & ~final_rc & ~txn
        self.seen = final_rc | self.flagged(self.counting & rc & ~final)
        if not txn.all():  # of other sends every counting read counts
            self.seen |= ~txn & (self.shown_any | self.flagged(self.counting & ~rc & ~final))
        self.failed = (sends["outcome"] == FAIL) | (txn & (sends["op_outcome"] == FAIL))
        self.open_txn = txn & (sends["op_outcome"] == INFO)
        self.proven = np.zeros(len(txn), bool)
        if self.open_txn.any():
            open_rows = np.flatnonzero(self.open_txn)
            self.proven[open_rows] = among(sends["op"][open_rows], self.known.proven)
        decided = np.where(txn, (sends["op_outcome"] == OK) | self.proven, sends["outcome"] == OK)
        self.committed = ~self.failed & (decided | (~txn & self.seen))

    @cached_property
    def compacted(self) -> Compacted | None:
        """What compaction may have removed; None: the topic is not compacted."""
        kept = self.known.tombstones_ns
        if kept == NOT_COMPACTED:
            return None
        unheard, covered = self.known.unheard, self._covered_anywhere
        rows = self.sends, self.reads, self.writer, self.committed, self.failed
        return compacted(*rows, covered, kept, unheard)

    @property
    def first_ack(self) -> int:
        """When the first record of the partition was acknowledged, NEVER = none was."""
        acks = self.sends["ack_ns"]
        return int(acks[acks >= 0].min(initial=NEVER))

    @property
    def lowest_values(self) -> Array:
        """The lowest value of each process in the log of the partition, NEVER = none."""
        lowest = np.full(len(self.known.processes), NEVER)
        written = self.flagged(slice(None))
        np.minimum.at(lowest, self.owner[written], self.sends["value"][written])
        return lowest

    @cached_property
    def contested(self) -> Array:
        """Flags, by slot: a read there is odd, or several sends claim the offset. At every other slot all
        evidence is of one value."""
        flags = np.zeros(self.slots.size, bool)
        flags[self.read_slot[self.odd]] = True
        acked = np.flatnonzero(self.acked)
        for rows, where in ((acked, "offset"), (self.placed_rows, "place")):
            slots = self.slots(self.sends[where][rows])
            flags[slots[self.row_at[slots] != rows]] = True
        return flags

    @cached_property
    def owner(self) -> Array:
        """Position in the kernel input of the process of each send."""
        return self.known.positions(self.sends["process"])

    @property
    def bounds(self) -> tuple[Bound | None, Bound | None]:
        """Bounds at RU and RC."""
        rows = self.known.bounds.get(self.tp, {})
        return rows.get(RU), rows.get(RC)

    def given_from(self, ns: Array) -> Array:
        """Below, a consumer need not have been given by each of these moments records that the log holds. A
        leader that has deleted records puts consumers forward; where it dies soon, the log begins earlier
        again."""
        listed = [b.start for b in self.bounds if b is not None and self.known.removed]
        found = np.full(len(ns), max([0, *listed]))
        for one in self._deleted:
            found = np.where(one.begin <= ns, np.maximum(found, one.offset), found)
        return found

    @property
    def given_from_all(self) -> bool:
        """It is the whole log, at all times."""
        return not self.given_from(np.array([NEVER])).any()

    @property
    def gone(self) -> bool:
        """The topic was deleted, and what had its name then has another one here."""
        return any(b is not None and b.start == GONE for b in self.bounds)

    @property
    def _deleted(self) -> Sequence[Deletion]:
        return self.known.deleted.get(self.tp, ())

    def _begin(self, bound: Bound, rows: Array | slice) -> Array:
        """Of each of these sends: below which offset it may have been removed, so that the log begins there.
        Deletions remove what was sent before them."""
        sent = self.sends["invoke_ns"][rows]
        if self.known.removed:
            return np.full(len(sent), bound.start)
        begin = np.zeros(len(sent), np.int64)
        for _, ns, offset in self._deleted:
            begin = np.where(sent <= ns, np.maximum(begin, offset), begin)
        return np.minimum(begin, bound.start) if bound.start >= 0 else begin

    @property
    def begins_known(self) -> bool:
        """No retention, or a listing says where the log starts: how far deletions go is on record."""
        return not self.known.removed or any(b is not None and b.start >= 0 for b in self.bounds)

    @property
    def assignments(self) -> Columns | None:
        """Rows of `assignments` of this partition."""
        return self.known.assignments.get(self.tp)

    def flagged(self, of_reads: Array | slice) -> Array:
        """Sends that at least one of the reads (a mask, or a slice) shows."""
        flags = np.zeros(len(self.sends["op"]) + 1, bool)
        flags[self.writer[of_reads]] = True  # -1 (no send) hits the extra last place
        return flags[:-1]

    def of_writer(self, column: Array, otherwise: int, reads: Array | None = None) -> Array:
        """A column of sends, for each read (or these); `otherwise` where the read has no send."""
        writer = self.writer if reads is None else self.writer[reads]
        return np.append(column, column.dtype.type(otherwise))[writer]

    def order(self, level: int) -> Array:
        """Running count, by slot, of the offsets that a consumer at this level has to see."""
        if level not in self._order:
            self._order[level] = np.cumsum(self.expected(level), dtype=np.int32)
        return self._order[level]

    def expected(self, level: int) -> Array:
        """Flags, by slot: a consumer at this level has to see the offset."""
        if level not in self._expected:
            self._expected[level] = self._expect(level)
        return self._expected[level]

    @cached_property
    def shown_committed(self) -> Array:
        """Flags, by slot: a consumer at read_committed was given the offset, by the final reads if they are
        whole."""
        shown = np.zeros(self.slots.size, bool)
        shown[self.read_slot[self._evidence() & (self.reads["isolation"] == RC)]] = True
        return shown

    def _expect(self, level: int) -> Array:
        counts = self._evidence()
        if level == RC:  # a reader that was given what was aborted has to see it no more than the others
            txn = self.sends["txn"] == 1
            aborted = np.append(txn & (self.sends["op_outcome"] == FAIL), False)
            plain = np.append(~txn | self.committed, False)
            rc = (self.reads["isolation"] == RC) & ~aborted[self.writer]
            counts = counts & (rc | plain[self.writer])
        known = np.zeros(self.slots.size, bool)
        known[self.read_slot[counts]] = True
        if not self.known.on_record.final_reads:
            known[self.slots(self.sends["offset"][self.acked & self.committed])] = True
        if self.compacted is not None:  # a replica may have lost these that another one still has
            gone = self.compacted.removable | ~self.committed
            known[self.slots(self.sends["place"][gone & (self.sends["place"] >= 0)])] = False
        return known

    def _evidence(self) -> Array:
        reads = self.reads
        if any(b is not None and b.complete for b in self.bounds):
            return np.asarray(reads["phase"] == FINAL)
        return np.ones(len(reads["op"]), bool)

    @property
    def positions(self) -> Array:
        """Of each read: where it stands for the order of polls.

        Its offset; where moves are not on record, the highest offset of its value in the log pairs, so
        that a value returned twice goes back.
        """
        if self.known.on_record.positions:
            return self.reads["offset"]
        return self._of_values(np.maximum, self.highest_offsets, -1)

    @property
    def first_offsets(self) -> Array:
        """Of each read: the lowest offset of its value in the log pairs."""
        none = np.iinfo(np.int64).max
        lowest = np.where(self.acked & self.committed, self.sends["offset"], none)
        written = self.writer >= 0
        np.minimum.at(lowest, self.writer[written], self.reads["offset"][written])
        return self._of_values(np.minimum, lowest, none)

    @property
    def highest_offsets(self) -> Array:
        """Of each send: the highest offset of its value in the log pairs, -1 = none."""
        highest = np.where(self.acked & self.committed, self.sends["offset"], -1)
        written = self.writer >= 0
        np.maximum.at(highest, self.writer[written], self.reads["offset"][written])
        return np.asarray(highest)

    def _of_values(self, extreme: np.ufunc, of_sends: Array, none: int) -> Array:
        """Of each read: what `of_sends` says of its value; of values without a send, the extreme of the
        offsets at which they were read."""
        found = np.append(of_sends, none)[self.writer]
        phantom = np.flatnonzero(self.writer < 0)
        if len(phantom):
            _, which = np.unique(self.reads["value"][phantom], return_inverse=True)
            best = np.full(int(which.max()) + 1, none, np.int64)
            extreme.at(best, which, self.reads["offset"][phantom])
            found[phantom] = best[which]
        return np.asarray(found)

    def _fates(self, rows: Array) -> tuple[Array, Array]:
        """Of such sends, flags: missing, as if nothing were compacted; removed below the log's start."""
        ru, rc = self.bounds
        place = self.sends["place"][rows]
        missing = self.withheld[rows]
        removed = np.zeros(len(rows), bool)
        hiding = self.known.hides(self.tp)
        unread = self._above_watermark(rows)
        for bound, hides, shown in ((ru, False, self.shown_any), (rc, hiding, self.shown_rc)):
            if bound is not None:
                start = self._begin(bound, rows)
                whole = ~unread & (bound.complete and not hides)
                missing |= _covers(bound, place, start=start, whole=whole) & ~shown[rows]
                removed |= (place >= 0) & (place < start)
        removed |= self.gone
        missing &= ~removed
        return missing, removed

    def _above_watermark(self, rows: Array) -> Array:
        """Which of these sends may lie in the log above its high watermark, where no consumer gets them
        (flags)."""
        late = self.known.weak[self.owner[rows]] & (self.sends["ack_ns"][rows] > self.known.settled_ns)
        if late.any():
            late &= ~self.read_before[rows]
        return np.asarray(late)

    @property
    def _covered_anywhere(self) -> Array:
        """Flags, by send: final reads would show it wherever it stood in the log, were it there."""
        every = np.arange(len(self.sends["op"]))
        found = np.zeros(len(every), bool)
        for bound, hides in zip(self.bounds, (False, self.known.hides(self.tp)), strict=True):
            if bound is not None and bound.complete and not hides:
                found |= self._begin(bound, every) == 0
        return np.asarray(found & ~self._above_watermark(every))

    def absent(self, rows: Array) -> Array:
        """Of sends that the final reads did not show: those that they would show, were they in the log."""
        return rows[self._fates(rows)[0]]

    def may_be_kept(self, rows: Array) -> Array:
        """Which of these sends the log has at the end, as far as final reads tell (flags)."""
        kept = np.ones(len(rows), bool)
        unseen = np.flatnonzero(~self.shown_any[rows])
        kept[unseen] = ~self._fates(rows[unseen])[0]
        return kept

    def fates(self, rows: Array) -> tuple[Array, Array]:
        """Of sends that are withheld, or that the final reads did not show: the missing ones, the undecided
        ones. What compaction may have removed is neither."""
        missing, removed = self._fates(rows)
        if self.compacted is not None:
            removed |= self.compacted.removable[rows]
            missing &= ~removed
        return rows[missing], rows[~missing & ~removed]

    def may_be_hidden(self, rows: Array) -> Array:
        """Which of these missing sends a decision may hide (flags): of transactions, but what the final read
        at read_uncommitted would have shown, were it in the log. (The cleaner takes what is aborted.)"""
        bound = self.bounds[RU]
        hidden = self.sends["txn"][rows] == 1
        if bound is not None and self.compacted is None and hidden.any():
            whole = ~self._above_watermark(rows) & bound.complete
            covered = _covers(bound, self.sends["place"][rows], start=self._begin(bound, rows), whole=whole)
            hidden &= self.shown_any[rows] | ~covered
        return np.asarray(hidden)

    @cached_property
    def first_sent(self) -> Array:
        """Of each send: the lowest `invoke_ns` of its op's sends here."""
        ops, invoked = self.sends["op"], self.sends["invoke_ns"]
        if not len(ops):
            return invoked
        first = np.flatnonzero(np.append(True, ops[1:] != ops[:-1]))
        lowest = np.minimum.reduceat(invoked, first)
        return np.repeat(lowest, np.diff(np.append(first, len(ops))))

    @property
    def windows(self) -> LogWindows:
        """When records may have been taken off the log."""
        return self.known.windows[self.tp]

    def excuses(self, rows: Array, since: Array, until: Array, *, read: Array | None = None) -> Array:
        """Codes of what may have taken these sends (rows) from the log between two moments. read: flags, a
        consumer had them."""
        if not self.windows:
            return np.zeros(len(rows), np.int8)
        return self.windows.excuses(since, until, weak=self.known.weak[self.owner[rows]], read=read)

    @cached_property
    def read_before(self) -> Array:
        """Sends that a read that is not FINAL returned (flags)."""
        return self.flagged(self.reads["phase"] != FINAL)

    def excuses_with(self, since: Array, until: Array, *logs: int | str) -> Array:
        """Of each pair of moments the code of what may have taken records in between from this log, or from
        others: partitions, or internal topics of coordinators (`checkers.windows.INTERNAL`)."""
        return self.known.windows.excuses((self.tp, *logs), since, until)

    def kept_behind(self, rows: Array) -> Array:
        """Of each of these sends: when the first record that final reads show behind its place was
        acknowledged, NEVER = none was. NEVER, too, for sends without a place, and where that one was
        acknowledged before the send began: then two leaders answered at the same time, each with a log of its
        own, and when the send's log was given up is not known."""
        final = np.flatnonzero((self.reads["phase"] == FINAL) & (self.writer >= 0))
        final = final[self.sends["place"][self.writer[final]] == self.reads["offset"][final]]
        acks = self.sends["ack_ns"][self.writer[final]]
        earliest = np.full(self.slots.size + 2, NEVER)
        known = acks >= 0
        np.minimum.at(earliest, self.read_slot[final[known]], acks[known])
        earliest = np.minimum.accumulate(earliest[::-1])[::-1]
        place = self.sends["place"][rows]
        found = np.full(len(rows), NEVER)
        placed = place >= 0
        found[placed] = earliest[self.slots(place[placed]) + 1]
        return np.where(found < self.sends["invoke_ns"][rows], NEVER, found)

    def flushed_behind(self, rows: Array, number: int) -> Array:
        """Of each of these sends: when brokers that flush `number` records together had flushed it,
        by the records behind it that were acknowledged; NEVER: unknown, or number is 0."""
        found = np.full(len(rows), NEVER)
        place = self.sends["place"][rows]
        placed = np.flatnonzero(place >= 0)
        if number and len(placed):
            acks, last = self.known.acks[self.owner], place[placed] + number - 1
            found[placed] = acknowledged(self.sends, acks, self.windows, last)
        return found

    def stayed(self, reads: Array) -> Array:
        """Which of these reads returned what final reads show at their offsets (flags). Nothing that lies
        below it was lost since: a truncation takes the end of a log."""
        offset, value = self.reads["offset"], self.reads["value"]
        final = np.flatnonzero(self.reads["phase"] == FINAL)
        final = final[among(offset[final], distinct(offset[reads]))]
        shown = set(zip(offset[final].tolist(), value[final].tolist(), strict=True))
        pairs = zip(offset[reads].tolist(), value[reads].tolist(), strict=True)
        return np.fromiter((pair in shown for pair in pairs), bool, len(reads))

    def empty(self, rows: Array) -> Array:
        """Which of these sends have a place where final reads, which read to behind it, show no record, not
        even a damaged one, though each offset of the log is one of a record (flags)."""
        whole = [b.end for b in self.bounds if b is not None and b.complete]
        removed = self.known.removed or self._deleted or self.compacted is not None
        if not whole or not self.known.dense or removed:
            return np.zeros(len(rows), bool)
        shown = np.zeros(self.slots.size + 1, bool)
        shown[self.read_slot[self.reads["phase"] == FINAL]] = True
        place = self.sends["place"][rows]
        here = (place >= 0) & (place < max(whole))
        here[here] = ~shown[self.slots(place[here])]
        return np.asarray(here & ~np.isin(place, self.known.damaged.get(self.tp, ())))

    @property
    def unread(self) -> bool:
        """It has sends, and lacks a complete final read at a level that they need."""
        if not self.known.on_record.final_reads or not len(self.sends["op"]) or self.gone:
            return False
        ru, rc = (bound is not None and bound.complete for bound in self.bounds)
        return not (rc or (ru and not bool((self.sends["txn"] == 1).any())))

    def sent(self, row: int) -> Shown:
        """A send as a witness shows it."""
        return self._send(row, "offset")

    def placed(self, row: int) -> Shown:
        """A send at the offset where it was acknowledged or read."""
        return self._send(row, "place")

    def _send(self, row: int, where: str) -> Shown:
        names = ("op", "value", where, "process", "ack_ns", "outcome", "invoke_ns", "src_tp", "src_offset")
        op, value, offset, process, done, outcome, invoke, *source = (
            int(self.sends[name][row]) for name in names
        )
        return Shown(
            op, What.SEND, self.tp, value, offset, process, done, outcome,
            source=(source[0], source[1]), invoke_ns=invoke,
        )  # fmt: skip

    def got(self, row: int) -> Shown:
        """A read as a witness shows it."""
        names = ("op", "value", "offset", "process", "complete_ns", "leader_epoch")
        op, value, offset, process, done, epoch = (int(self.reads[name][row]) for name in names)
        done = done if done < NEVER else -1  # in an op that never ended: when is not on record
        return Shown(op, What.READ, self.tp, value, offset, process, done, leader_epoch=epoch)

    def process_of(self, row: int) -> int:
        """The process of a send; -1 for the row -1."""
        return int(self.sends["process"][row]) if row >= 0 else -1


def _covers(bound: Bound, place: Array, *, start: Array, whole: Array) -> Array:
    """start: of each, below which it may have been removed. whole: flags, the final read would have shown it
    wherever it stood."""
    placed = (place >= start) & ((place < bound.read_to) | whole)
    return np.asarray(np.where(place >= 0, placed, whole & (start == 0)))
