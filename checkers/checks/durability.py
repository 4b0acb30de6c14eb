"""durability: what was committed and is not in the log (docs/checks.md, "Delivery")."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from checkers.allowed import Answer, Ground, never, truncation
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import (
    ACKS,
    IN_A_HOLE,
    INFO,
    NEVER,
    OK,
    RC,
    READ_ONCE,
    Acks,
    Finding,
    PartitionResult,
    Shown,
    What,
    at,
)
from checkers.engine.partition_view import KernelView
from checkers.windows import Excuse, LogWindows
from core.internal_topics import TRANSACTION_TOPIC
from history.columns import Array
from history.reader import History
from history.verdict import IN_THE_LOG

LOST = "lost-write"
UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWrite(Finding):
    """A committed record that is not in the log.

    log_end: where the log ended, -1 unknown. fresh: nothing had been acknowledged in the partition when
    the record was sent. first: no earlier record of its producer is in the log, and a later one is.
    withheld: it is in the log, and readers at read_committed do not get it. passed_by: of a history without
    final reads, a read that passed it; else None.
    """

    log_end: int
    fresh: bool
    first: bool
    withheld: bool
    passed_by: Shown | None = None

    def sentence(self, history: History) -> str:
        """What was promised, and what was read."""
        s = self.records[0]
        op = history.op(s.op)
        where = f" at offset {s.offset}" if s.offset >= 0 else " without an offset"
        if op.txn and op.outcome == OK:
            promised = f"was committed in the transaction op {s.op}"
            promised += f" (acknowledged{where})" if s.outcome == OK else ""
        elif op.txn:
            promised = f"counts as committed (op {s.op} has no known outcome; consumers saw part of it)"
        elif s.outcome == INFO:
            promised = f"was written (op {s.op} has no known outcome, but consumers saw it take effect)"
        else:
            promised = f"was acknowledged{where} {at(history, self.at_ns)}"
        return f"{s.text(history)}, sent by {history.client(self.process)}, {promised}; {self._seen()}"

    def _seen(self) -> str:
        """What reads show of it."""
        reads, past = self.only(What.READ), self.passed_by
        if past is not None:
            seen = f"op {reads[0].op} had read it at offset {reads[0].offset}, yet " if reads else ""
            level = " at read_committed" if reads else ""
            return (
                f"{seen}no poll on record returned it{level}, and op {past.op} was given a later record of"
                f" its partition, at offset {past.offset}."
            )
        seen = "no consumer ever read it, and "
        if reads:
            seen = f"op {reads[0].op} had read it at offset {reads[0].offset}, yet "
        if self.withheld:
            seen = f"{IN_THE_LOG}, and "
        level = " at read_committed" if self.withheld else ""
        reached = f" (the log ends at {self.log_end})" if self.log_end >= 0 else ""
        return f"{seen}the final reads{level} went beyond its place{reached} and did not return it."


class UnseenRecord(Finding):
    """A committed record that no successful poll returned."""

    def sentence(self, history: History) -> str:
        """The record."""
        return f"{self.records[0].text(history)} is committed, and no poll returned it."


def _kernel(p: KernelView, result: PartitionResult) -> None:
    if p.known.on_record.final_reads:
        missing, undecided = p.fates(np.flatnonzero(p.committed & (p.withheld | ~p.shown_rc)))
        missing = missing[~p.open_txn[missing] | p.seen[missing]]  # the others are torn off, not lost
        result.parts[NAME] = len(undecided)
    else:
        unseen = np.flatnonzero(p.committed & ~p.seen)
        missing = passed_over(p)
        if p.known.on_record.exhausted:
            result.report(UNSEEN, unseen, partial(_unseen, p))
        else:
            result.parts[NAME] = len(np.setdiff1d(unseen, missing))
    if len(missing):
        _report_losses(p, result, missing)


def _report_losses(p: KernelView, result: PartitionResult, missing: Array) -> None:
    log_end = max((b.end for b in p.bounds if b is not None), default=-1)
    first_ack, lowest = p.first_ack, p.lowest_values
    passing = None if p.known.on_record.final_reads else _passing(p, missing)

    def lost(row: int) -> Finding:
        s = p.sent(row)
        return LostWrite(
            key=(p.tp, s.value),
            process=s.process,
            ops=(s.op,),
            records=(s, *map(p.got, np.flatnonzero(p.writer == row)[:3].tolist())),
            at_ns=s.done_ns,
            log_end=log_end,
            fresh=first_ack >= s.invoke_ns,
            first=s.value < int(lowest[p.owner[row]]) < NEVER,
            withheld=bool(p.shown_any[row] and not p.returned[row]),
            passed_by=None if passing is None else p.got(passing[row]),
        )

    codes = promised(p, missing)
    codes[p.empty(missing)] = IN_A_HOLE
    result.report(LOST, missing, lost, codes, ACKS, excuses=_taken(p, missing))


def promised(p: KernelView, rows: Array) -> Array:
    """Codes of `ACKS` of sends (rows)."""
    codes = p.known.acks[p.owner[rows]].astype(np.int64)
    weak = p.known.weak[p.owner[rows]]
    if weak.any():
        codes[weak & p.read_before[rows]] = READ_ONCE
    return codes


def _taken(p: KernelView, rows: Array) -> Array:
    """Codes of what may have taken these sends off the end of the log, with all that stood behind them; or,
    of those that a decision may hide, what may have taken that one. No record behind one keeps a decision."""
    windows = p.windows
    codes = np.zeros(len(rows), np.int8)
    if windows:
        codes = _cut_off(p, rows, windows)
    if p.known.on_record.final_reads:
        hidden = np.flatnonzero(p.may_be_hidden(rows))
        since, ever = p.first_sent[rows[hidden]], np.full(len(hidden), NEVER)
        codes[hidden] = p.excuses_with(since, ever, TRANSACTION_TOPIC)
    return codes


def _cut_off(p: KernelView, rows: Array, windows: LogWindows) -> Array:
    since, acked = p.sends["invoke_ns"][rows], p.sends["ack_ns"][rows]
    weak, read = p.known.weak[p.owner[rows]], p.read_before[rows]
    counted = p.flushed_behind(rows, windows.flushed_records)
    until = p.kept_behind(rows)
    return windows.excuses(since, until, weak=weak, read=read, acked=acked, counted=counted)


def _unseen(p: KernelView, row: int) -> Finding:
    s = p.sent(row)
    return UnseenRecord(key=(p.tp, s.value), process=s.process, records=(s,), at_ns=s.done_ns)


def passed_over(p: KernelView) -> Array:
    """Without final reads: committed sends that no read returned, with a place at or below the highest
    that a read which speaks of them reached; none, where the history may lack reads."""
    sends, reads = p.sends, p.reads
    touched = p.flagged((reads["isolation"] == RC) | (p.of_writer(sends["txn"], 1) == 0))
    rows = np.flatnonzero(p.committed & ~touched)
    if not len(rows) or not p.counting.any() or not p.known.on_record.from_start:
        return rows[:0]
    last = p.highest_offsets[rows]
    return np.asarray(rows[(last >= 0) & (last <= _furthest(p, rows)[1])])


def _passing(p: KernelView, rows: Array) -> dict[int, int]:
    """Of each of these sends, which were passed over: the read (row) that got furthest beyond it."""
    return dict(zip(rows.tolist(), _furthest(p, rows)[0].tolist(), strict=True))


def _furthest(p: KernelView, rows: Array) -> tuple[Array, Array]:
    """For each of these sends, of the reads that speak of it: the one (row) with the highest first offset of
    its value, and that offset; -1 = none speaks of it."""
    first, sent = np.append(p.first_offsets, -1), p.sends["invoke_ns"][rows]
    levels = (p.counting & (p.reads["isolation"] == RC), p.counting)
    rc, any_level = (_speaking(p, np.flatnonzero(level), first, sent) for level in levels)
    found = np.where(p.sends["txn"][rows] == 1, rc, any_level)
    return found, first[found]


def _speaking(p: KernelView, reads: Array, first: Array, sent: Array) -> Array:
    """For each of these times of sends: of those reads (rows) the one with the highest first offset, without
    those behind a poll in doubt that may have had the record; -1 = there is none."""
    polls = p.known.polls_in_doubt
    if not len(polls):
        best = reads[np.argmax(first[reads])] if len(reads) else -1
        return np.full(len(sent), best)
    groups = p.known.group[p.known.positions(p.reads["process"][reads])]
    until = polls.until(groups, p.reads["complete_ns"][reads])
    order = np.argsort(until, kind="stable")
    offsets = first[reads[order]]
    highest = np.maximum.accumulate(offsets)
    best = np.maximum.accumulate(np.where(offsets == highest, np.arange(len(order)), 0))
    best = np.append(-1, reads[order][best])
    return np.asarray(best[np.searchsorted(until[order], sent)])


def _join(run: WholeRun, tally: Tally) -> None:
    why = "the final reads did not reach them"
    if not run.known.on_record.final_reads:
        why = "no poll on record returned them, and the recording has no final reads"
    number = sum(part for _, part in tally.parts_of(NAME, int))
    tally.doubt(NAME, number, "{number} of the committed records may be lost or not: " + why)


def loss(ground: Ground, variant: str) -> Answer:
    """An acknowledged record is not (or no longer) where it was; variant: what its producer was promised."""
    if variant == Acks.HOLE:
        return False, "a log loses nothing but its end, and this one continues behind the empty offset"
    if variant == Acks.NONE:
        return True, "the producer used acks=0: an acknowledgement promises nothing"
    if reason := truncation(ground):
        return True, reason
    if variant == Acks.LEADER and ground.excuse is Excuse.LEADER:
        return True, "the producer used acks=1: the leader alone acknowledged, and may have been replaced"
    if variant == Acks.LEADER:
        return False, "acks=1 keeps a record while the partition keeps its leader, and nothing replaced it"
    if variant == Acks.READ:
        return False, "a consumer had read it, so every in-sync replica had it, and elections were clean"
    return False, "acks=all and clean elections keep every acknowledged record"


NAME = "durability"
CHECK = Check(
    claim="Every acknowledged record, and every record of a committed transaction, is in the log.",
    anomalies={
        LOST: AnomalyClass(
            title="Lost record",
            absence=True,
            meaning="A record was acknowledged, committed with its transaction, or seen by consumers, and"
            " the log does not hold it, or consumers at read_committed never get it.",
            literature="lost update; durability",
            half=True,
            rule=loss,
        ),
        UNSEEN: AnomalyClass(
            title="Committed record never read",
            absence=True,
            meaning="A committed record was returned by no successful poll. A history without final"
            " reads cannot tell whether it is lost or was only not read yet.",
            rule=never("a committed record has to become visible"),
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    subject="acknowledgements",
)
