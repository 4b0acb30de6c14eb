"""isolation: records of aborted or open transactions that were read (docs/checks.md, "Isolation and
integrity")."""

from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncation
from checkers.engine.check import AnomalyClass, Check
from checkers.engine.findings import FAIL, FINAL, RC, Finding, Level, PartitionResult, What, at, reader
from checkers.engine.partition_view import KernelView
from history.columns import Array
from history.reader import History

ABORTED = "aborted-read"
PRECOMMITTED = "precommitted-read"

_UNSENT, _RC, _RU, _LOG = range(4)
LEVELS: Final = dict(enumerate(Level))
NOT_PROMISED: Final = (Level.RU, Level.LOG)
"""Kafka hides nothing at these levels."""


class AbortedRead(Finding):
    """A record that was never to be read; its process is the writer."""

    def sentence(self, history: History) -> str:
        """The fate of the record, and who read it."""
        (s,), (r,) = self.only(What.SEND), self.only(What.READ)
        writer = history.op(s.op)
        if not writer.txn:
            fate = "was definitely not written, as its client reported"
        elif writer.outcome == FAIL:
            meant = "on purpose" if writer.deliberate else "after an error"
            fate = f"belongs to the transaction op {s.op}, which was aborted {meant}"
        else:
            fate = f"was never handed over within the transaction op {s.op}"
        return (
            f"{s.text(history)} by {history.client(self.process)} {fate}; yet"
            f" {reader(history, r.op)} got it at offset {r.offset} {at(history, self.at_ns)}."
        )


class PrecommittedRead(Finding):
    """A record that its own transaction read."""

    def sentence(self, history: History) -> str:
        """Who read it, when."""
        (r,) = self.only(What.READ)
        return (
            f"The transaction op {r.op} of {reader(history, r.op)} read its own"
            f" {r.text(history)} at offset {r.offset} {at(history, self.at_ns)}, before it could"
            " commit."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends, reads = p.sends, p.reads
    never = (sends["txn"] == 0) | (sends["op_outcome"] != FAIL)
    failed = one_of_each_op(p, np.flatnonzero(np.append(p.failed, False)[p.writer]))
    codes = np.where(never[p.writer[failed]], _UNSENT, _levels(p, failed))
    result.report(ABORTED, failed, partial(of_read, p, AbortedRead), codes, LEVELS, NOT_PROMISED)
    own = np.flatnonzero(p.of_writer(sends["op"], -1) == reads["op"])
    early = one_of_each_op(p, own[p.of_writer(sends["txn"], 0, own) == 1])
    codes = _levels(p, early)
    result.report(PRECOMMITTED, early, partial(of_read, p, PrecommittedRead), codes, LEVELS, NOT_PROMISED)


def _levels(p: KernelView, reads: Array) -> Array:
    """Codes of `LEVELS` of reads of what was written."""
    final = p.reads["phase"][reads] == FINAL
    return np.where(p.reads["isolation"][reads] == RC, _RC, np.where(final, _LOG, _RU))


def one_of_each_op(p: KernelView, rows: Array) -> Array:
    """Of these reads: the first of each value and reading op, where it is own."""
    if not len(rows):
        return rows
    keys = p.writer[rows].astype(np.int64) << 32 | p.reads["op"][rows]
    return p.of_reads(rows[np.unique(keys, return_index=True)[1]])


def of_read(p: KernelView, kind: type[Finding], read: int) -> Finding:
    """A finding about a read (a row) and the send of its value."""
    s, r = p.sent(int(p.writer[read])), p.got(read)
    return kind(key=(p.tp, r.value, r.op), process=s.process, records=(s, r), at_ns=r.done_ns)


def uncommitted(ground: Ground, variant: str) -> Answer:
    """A record of no committed transaction was read."""
    if variant == Level.RU:
        return True, "the reader used read_uncommitted"
    if variant == Level.UNSENT:
        return False, "the record was never written, as its client reported"
    if reason := truncation(ground):
        return True, f"{reason}; a marker that is gone ends nothing"
    return False, "read_committed readers see committed transactions only"


def own(ground: Ground, variant: str) -> Answer:
    """A transaction read its own record."""
    if variant == Level.RU:
        return True, "the reader used read_uncommitted"
    return False, "a read_committed reader sees no open transaction, not even its own"


CHECK = Check(
    claim="Consumers at read_committed see nothing of aborted and open transactions.",
    anomalies={
        ABORTED: AnomalyClass(
            title="Aborted record read",
            meaning="A consumer was given a record whose transaction was aborted, or whose write was"
            " refused.",
            literature="G1a",
            rule=uncommitted,
        ),
        PRECOMMITTED: AnomalyClass(
            title="Record read inside its own transaction",
            meaning="A transaction's own poll returned a record that the same transaction had not"
            " committed yet.",
            literature="G1b, dirty read",
            rule=own,
        ),
    },
    kernel=_kernel,
    content=True,
    subject="reads",
)
