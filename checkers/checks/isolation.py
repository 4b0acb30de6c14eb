"""isolation: records of aborted or open transactions that were read (docs/checks.md, "Isolation and
integrity").

The kernel finds reads of what failed, and those of a transaction of its own records. How long a transaction
lasted shows in all its partitions: the join takes the reads that had ended before it did, which are few, and
asks for its times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, not_fetched, truncated, truncation
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.findings import FAIL, FINAL, RC, Finding, Level, PartitionResult, Shown, What, at, reader
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from core.internal_topics import TRANSACTION_TOPIC
from core.op import CommitKind
from history.columns import Array, Columns, columns
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTooEarly(Finding):
    """A record that was read while its transaction continued, until `unasked_ns`."""

    unasked_ns: int

    def sentence(self, history: History) -> str:
        """Who read it, and until when its transaction continued."""
        (s,), (r,) = self.only(What.SEND), self.only(What.READ)
        return (
            f"{reader(history, r.op)} got {r.text(history)} at offset {r.offset} {at(history, self.at_ns)};"
            f" its transaction, op {s.op} of {history.client(self.process)}, continued until after"
            f" {history.seconds(self.unasked_ns):.3f} s: it had not asked for its commit yet."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTheEnd:
    """Reads at read_committed, and deliveries of share groups, that had ended before the transaction had
    ended, one entry each. sent, read: columns of the send and of the read. excuse: a key of `EXCUSES`."""

    sent: Columns
    read: Columns
    excuse: Array


SENT: Final = ("op", "process", "value", "place", "outcome", "invoke_ns", "ack_ns")
READ: Final = ("op", "process", "offset", "complete_ns", "leader_epoch")


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends, reads = p.sends, p.reads
    never = (sends["txn"] == 0) | (sends["op_outcome"] != FAIL)
    failed = one_of_each_op(p, np.flatnonzero(np.append(p.failed, False)[p.writer]))
    codes = np.where(never[p.writer[failed]], _UNSENT, _levels(p, failed))
    report = partial(result.report, legal=NOT_PROMISED)
    since, until = p.first_sent[p.writer[failed]], reads["complete_ns"][failed]
    excuses = p.known.windows.excuses_of_markers(p.tp, since, until)
    report(ABORTED, failed, partial(of_read, p, AbortedRead), codes, LEVELS, excuses=excuses)
    own = np.flatnonzero(p.of_writer(sends["op"], -1) == reads["op"])
    early = one_of_each_op(p, own[p.of_writer(sends["txn"], 0, own) == 1])
    codes = _levels(p, early)
    excuses = _decided_again(p, p.writer[early], reads["complete_ns"][early])
    report(PRECOMMITTED, early, partial(of_read, p, PrecommittedRead), codes, LEVELS, excuses=excuses)
    if len(p.known.ends):
        _under_way(p, result)


def _decided_again(p: KernelView, rows: Array, until: Array) -> Array:
    """Codes of what may have shown these sends before they were decided: a coordinator that has lost the rest
    writes the markers of an older decision again."""
    return p.known.windows.excuses((TRANSACTION_TOPIC,), p.first_sent[rows], until)


def _under_way(p: KernelView, result: PartitionResult) -> None:
    """What the join needs: reads that had ended before the transaction had ended, and how long it lasted."""
    sends, reads = p.sends, p.reads
    txn = sends["txn"] == 1
    if not txn.any():
        return
    rows = np.flatnonzero(txn & ~p.failed)
    until = np.full(len(sends["op"]) + 1, -1)
    until[rows] = p.known.ended_by(sends["op"][rows])
    early = np.flatnonzero((reads["isolation"] == RC) & (reads["complete_ns"] < until[p.writer]))
    early = early[sends["op"][p.writer[early]] != reads["op"][early]]
    given, of = _delivered(p)
    soon = np.flatnonzero(given["complete_ns"] < until[of])
    writer = np.append(p.writer[early], of[soon])
    if len(writer):
        read = {name: np.append(reads[name][early], given[name][soon]) for name in READ}
        result.parts[NAME] = BeforeTheEnd(
            sent={name: sends[name][writer] for name in SENT},
            read=read,
            excuse=_decided_again(p, writer, read["complete_ns"]),
        )
    own = np.flatnonzero(txn)
    of = sends["op"][own]
    first = np.flatnonzero(np.append(True, of[1:] != of[:-1])[: len(of)])  # rows are in the order of ops
    if not len(first):
        return
    invoked, acked = (np.maximum.reduceat(sends[name][own], first) for name in ("invoke_ns", "ack_ns"))
    parts = np.diff(np.append(first, len(of))) < sends["op_sends"][own[first]]
    kept = parts | among(of[first], distinct(sends["op"][writer]))
    result.kept[NAME] = Continued(op=of[first][kept], invoked=invoked[kept], acked=acked[kept])


def _delivered(p: KernelView) -> tuple[Columns, Array]:
    """What share groups at read_committed delivered, as reads; and the row in sends of each value, -1 = none
    has it."""
    rows = p.known.share.deliveries.get(p.tp) if p.known.share is not None else None
    if rows is None:
        return dict.fromkeys(READ, np.zeros(0, np.int64)), np.zeros(0, np.int64)
    rc = p.known.isolation[p.known.positions(rows["process"])] == RC
    given = {name: column[rc] for name, column in rows.items()}
    order = np.argsort(p.sends["value"], kind="stable")
    values = p.sends["value"][order]
    at = np.minimum(np.searchsorted(values, given["value"]), len(values) - 1)
    given["leader_epoch"] = np.full(len(at), -1)
    return given, np.where(values[at] == given["value"], order[at], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """Of transactions, when the last record of them here was sent, and when one was last acknowledged."""

    op: Array
    invoked: Array
    acked: Array


def _of_ops(ops: Array, kept: object) -> Continued:
    """What a partition knows of these ops."""
    assert isinstance(kept, Continued)
    mine = among(kept.op, ops)
    return Continued(op=kept.op[mine], invoked=kept.invoked[mine], acked=kept.acked[mine])


def _join(run: WholeRun, tally: Tally) -> None:
    parts = tally.parts_of(NAME, BeforeTheEnd)
    if not parts:
        return
    ops = distinct(np.concatenate([part.sent["op"] for _, part in parts]))
    unasked = _unasked(run, ops)
    done: set[tuple[int, int, int]] = set()
    for tp, part in parts:
        until = unasked[np.searchsorted(ops, part.sent["op"])]
        read_ns = part.read["complete_ns"]
        hits = np.flatnonzero((part.sent["invoke_ns"] <= read_ns) & (read_ns < until))
        first = []
        for n, (value, op) in enumerate(zip(part.sent["value"][hits], part.read["op"][hits], strict=True)):
            key = tp, int(value), int(op)
            if key not in done:
                first.append(n)
                done.add(key)
        made = _too_early(tp, part, until)
        codes, excuses = np.full(len(first), _RC), part.excuse[hits[first]]
        tally.report(PRECOMMITTED, hits[first], made, codes, {_RC: Level.RC}, excuses=excuses)


def _unasked(run: WholeRun, ops: Array) -> Array:
    """Until when the commits of these transactions had not been asked for (docs/checks.md)."""
    latest, acked = np.full(len(ops), -1), np.full(len(ops), -1)
    for _, part in run.ask(NAME, partial(_of_ops, ops)):
        np.maximum.at(latest, np.searchsorted(ops, part.op), part.invoked)
        np.maximum.at(acked, np.searchsorted(ops, part.op), part.acked)
    commits = columns(run.tables["commits"], ("op", "kind", "invoke_ns"))
    rows = np.flatnonzero((commits["kind"] == CommitKind.TXN) & among(commits["op"], ops))
    np.maximum.at(latest, np.searchsorted(ops, commits["op"][rows]), commits["invoke_ns"][rows])
    all_ops = columns(run.tables["ops"], ("op", "complete_ns"))
    mine = np.flatnonzero(among(all_ops["op"], ops))
    ended = np.zeros(len(ops), np.int64)
    ended[np.searchsorted(ops, all_ops["op"][mine])] = all_ops["complete_ns"][mine]
    latest = np.maximum(latest, np.where(acked < ended, acked, -1))
    return np.asarray(np.minimum(latest, ended))


def _too_early(tp: int, part: BeforeTheEnd, until: Array) -> Callable[[int], Finding]:
    """Makes the finding of an entry."""

    def finding(row: int) -> Finding:
        op, process, value, place, outcome, invoke, acked = (int(part.sent[name][row]) for name in SENT)
        reader_op, reader_process, offset, done, epoch = (int(part.read[name][row]) for name in READ)
        sent = Shown(op, What.SEND, tp, value, place, process, acked, outcome, invoke_ns=invoke)
        read = Shown(reader_op, What.READ, tp, value, offset, reader_process, done, leader_epoch=epoch)
        return ReadTooEarly(
            key=(tp, value, reader_op),
            process=process,
            records=(sent, read),
            at_ns=done,
            unasked_ns=int(until[row]),
        )

    return finding


def _levels(p: KernelView, reads: Array) -> Array:
    """Codes of `LEVELS` of reads of what was written."""
    final = p.reads["phase"][reads] == FINAL
    return np.where(p.reads["isolation"][reads] == RC, _RC, np.where(final, _LOG, _RU))


def one_of_each_op(p: KernelView, rows: Array) -> Array:
    """Of these reads: the first of each value and reading op."""
    if not len(rows):
        return rows
    keys = p.writer[rows].astype(np.int64) << 32 | p.reads["op"][rows]
    return np.asarray(rows[np.unique(keys, return_index=True)[1]])


def of_read(p: KernelView, kind: type[Finding], read: int) -> Finding:
    """A finding about a read (a row) and the send of its value."""
    s, r = p.sent(int(p.writer[read])), p.got(read)
    return kind(key=(p.tp, r.value, r.op), process=s.process, records=(s, r), at_ns=r.done_ns)


READ_UNCOMMITTED: Final = "the reader’s isolation.level was read_uncommitted"
"""Why a reader may see what no committed transaction wrote."""


def uncommitted(ground: Ground, variant: str) -> Answer:
    """A record of no committed transaction was read."""
    if variant == Level.RU:
        return True, READ_UNCOMMITTED
    if variant == Level.UNSENT:
        return False, "the record was never written, as its client reported"
    if reason := truncation(ground) or not_fetched(ground, "the marker"):
        return True, f"{reason}; a marker that is gone ends nothing"
    return False, "read_committed readers see committed transactions only"


def own(ground: Ground, variant: str) -> Answer:
    """A record was read while its transaction was open."""
    if variant == Level.RU:
        return True, READ_UNCOMMITTED
    return truncated(ground, "a read_committed reader sees no open transaction, not even its own")


NAME = "isolation"
CHECK = Check(
    claim="Consumers at read_committed see nothing of aborted and open transactions.",
    anomalies={
        ABORTED: AnomalyClass(
            title="Aborted record read",
            meaning="A consumer was given a record whose transaction was aborted, or whose write was"
            " refused.",
            literature="G1a",
            early=Early(("tp", "value", "op")),
            half=True,
            rule=uncommitted,
        ),
        PRECOMMITTED: AnomalyClass(
            title="Record of an open transaction read",
            meaning="A consumer was given a record whose transaction had not asked for its commit yet: the"
            " transaction itself, or another consumer, or a share group, at read_committed.",
            literature="G1b, dirty read",
            early=Early(("tp", "value", "op")),
            rule=own,
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    subject="reads",
)
