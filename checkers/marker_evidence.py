"""Evidence for transactions that ended differently by partition: markers left out, markers that came late,
decisions not in the log.

Two bugs of the transaction coordinator look alike to clients (KAFKA-20734, and the use of state that is not
committed). The coordinators tell them apart: by their logs, and by the contents of `__transaction_state` at
the end of the run. Of markers that came late the run recorded what its rules of the wire held back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from checkers.checks.atomicity import TornTransaction
from checkers.checks.isolation import PRECOMMITTED
from checkers.checks.poll_order import Skipped
from checkers.checks.stability import HangingTransaction, StuckLso
from checkers.engine.evidence import FetchedRecords, Wanted
from checkers.engine.findings import FAIL, NEVER, OK, RC, Finding, What
from checkers.late_requests import MARKING, late_markers, late_requests
from core.cluster import OpenTransaction
from history.broker_logs import MarkersSent
from history.columns import numbers
from history.reader import History, OpRecord
from history.transaction_log import TransactionRecord


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A finding that may bear a bug's signature, in its run; `fetched`: the records that `wanted` named."""

    history: History
    finding: Finding
    fetched: FetchedRecords

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of the run."""
        return self.history.config

    @property
    def until_ns(self) -> int:
        """What explains the finding happened before: where a record was read too early, it was read then."""
        return self.finding.at_ns if self.finding.name == PRECOMMITTED else NEVER


def behind(history: History, finding: Finding) -> tuple[int, ...]:
    """The transactions whose records a finding is about; of a skip: those that may be committed."""
    if isinstance(finding, Skipped):
        between = range(finding.records[0].offset + 1, finding.records[-1].offset)
        rows = history.sends({finding.tp: {"place": between}})
        return tuple({row.op for row in rows if row.place in between and row.op_outcome != FAIL})
    if isinstance(finding, TornTransaction):
        return finding.ops[:1]
    if isinstance(finding, StuckLso | HangingTransaction):
        opened = _opened(finding)
        rows = history.sends({finding.tp: {"place": (opened.start,)}}) if opened else []
        return tuple({row.op for row in rows if opened and row.place == opened.start})
    return tuple(shown.op for shown in finding.only(What.SEND))


def _opened(finding: StuckLso | HangingTransaction) -> OpenTransaction | None:
    """The transaction that holds the last stable offset back; None = the leader named none."""
    if isinstance(finding, HangingTransaction):
        return finding.opened
    return finding.opened[0] if finding.opened else None


def fates(fetched: FetchedRecords, op: int) -> dict[int, set[bool]]:
    """Of each partition: whether the records of this transaction that were written are visible. A record in
    doubt was written if it is visible."""
    by_tp: dict[int, set[bool]] = {}
    for row in fetched.sends.get(op, ()):
        reads = fetched.reads_of.get((row.tp, row.value), ())
        visible = any(read.isolation == RC and read.op != op for read in reads)
        if row.outcome == OK or visible:
            by_tp.setdefault(row.tp, set()).add(visible)
    return by_tp


def _all_explained(suspicion: Suspicion, astray: Callable[[Suspicion, int], set[int]]) -> bool:
    """Each transaction behind a finding about records went astray in some partitions, and its others show one
    end of it."""
    history, finding = suspicion.history, suspicion.finding
    found = behind(history, finding)
    if isinstance(finding, Skipped):
        found = tuple(op for op in found if _committed(suspicion, op))
    return bool(found) and all(_only_these_differ(suspicion, op, astray(suspicion, op)) for op in found)


def _committed(suspicion: Suspicion, op: int) -> bool:
    """The client got its acknowledgement, or a record of the transaction is visible."""
    visible = any(True in fate for fate in fates(suspicion.fetched, op).values())
    return suspicion.history.op(op).outcome == OK or visible


def _only_these_differ(suspicion: Suspicion, number: int, astray: set[int]) -> bool:
    op = suspicion.history.op(number)
    possible = {OK: {True}, FAIL: {False}}.get(op.outcome, {True, False})
    marked = [fate for tp, fate in fates(suspicion.fetched, number).items() if tp not in astray]
    ends = set().union(*marked)
    return bool(astray) and len(ends) <= 1 and ends <= possible


def _transactional_id(history: History, process: int) -> str:
    known = history.processes.get(process)
    return known.transactional_id if known else ""


def _later(history: History, op: OpRecord, mine: str, outcomes: tuple[int, ...]) -> OpRecord | None:
    """The next transaction of a transactional id that was invoked after an op, with one of these outcomes
    (none given: with any)."""
    same = [history.ops_of(one) for one in history.processes if _transactional_id(history, one) == mine]
    rows = np.concatenate(same)
    invoked, txn, outcome = (
        numbers(history.tables["ops"], name)[rows] for name in ("invoke_ns", "txn", "outcome")
    )
    found = (invoked > op.invoke_ns) & (txn == 1)
    if outcomes:
        found &= np.isin(outcome, outcomes)
    return history.op(int(rows[found][np.argmin(invoked[found])])) if found.any() else None


# ---- KAFKA-20734


def left_out_wanted(history: History, finding: Finding) -> Wanted | None:
    """What `left_out` needs."""
    if not history.left_out:
        return None
    if isinstance(finding, StuckLso | HangingTransaction):
        return Wanted()
    found = behind(history, finding)
    return Wanted(written=found) if found else None


def left_out(suspicion: Suspicion) -> bool:
    """A coordinator's log says that it left out markers of each transaction behind the finding. All
    partitions that got their markers show one end of the transaction: only those left out differ."""
    history, finding = suspicion.history, suspicion.finding
    if isinstance(finding, StuckLso | HangingTransaction):
        opened = _opened(finding)
        return opened is not None and _never_marked(history, finding.tp, opened)
    return _all_explained(suspicion, _without_marker)


def _without_marker(suspicion: Suspicion, number: int) -> set[int]:
    """Partitions whose markers a coordinator left out after this transaction began, and before a later one of
    its transactional id committed."""
    history = suspicion.history
    op = history.op(number)
    mine = _transactional_id(history, op.process)
    if not op.txn or not mine:
        return set()
    later = _later(history, op, mine, (OK,))
    until = later.ended_ns if later else NEVER
    return {
        history.tp_numbers[name]
        for ns, one in history.left_out
        if one.transactional_id == mine and op.invoke_ns <= ns <= until
        for name in one.partitions & history.tp_numbers.keys()
    }


def _never_marked(history: History, tp: int, opened: OpenTransaction) -> bool:
    """No coordinator claims the transaction, and one left out a marker of its producer in this partition."""
    ids = {
        _transactional_id(history, process)
        for process in history.processes
        if any(one.producer_id == opened.producer_id for one in history.identities(process))
    }
    return not opened.transactional_id and any(
        one.transactional_id in ids and history.tp(tp) in one.partitions for _, one in history.left_out
    )


# ---- KAFKA-19446


def late_marker_wanted(history: History, finding: Finding) -> Wanted | None:
    """What `late_marker` needs."""
    if next(late_requests(history, MARKING), None) is None:
        return None
    found = behind(history, finding)
    return Wanted(written=found) if found else None


def late_marker(suspicion: Suspicion) -> bool:
    """While each transaction behind the finding was under way, markers of the same producer came that a rule
    of the wire had taken before it began, and their brokers did not refuse them. Only in the partitions that
    these name the transaction shows another end, and the finding is in one of them."""
    finding = suspicion.finding
    here = finding.tp < 0 or all(
        finding.tp in _marked_early(suspicion, op) for op in behind(suspicion.history, finding)
    )
    return here and _all_explained(suspicion, _marked_early)


def _marked_early(suspicion: Suspicion, number: int) -> set[int]:
    history = suspicion.history
    op = history.op(number)
    mine = _transactional_id(history, op.process)
    if not op.txn or not mine:
        return set()
    later = _later(history, op, mine, ())
    until = later.invoke_ns if later else NEVER  # its own markers are written before the next one begins
    return {
        history.tp_numbers[name]
        for late in late_markers(history, mine)
        if late.comes_into(op, until) and late.delivered_ns <= suspicion.until_ns
        for name in late.named & history.tp_numbers.keys()
    }


# ---- state that is not committed


def uncommitted_wanted(history: History, finding: Finding) -> Wanted | None:
    """What `uncommitted` needs."""
    if not history.transaction_log.whole or not history.broker_logs.elected:
        return None
    found = behind(history, finding)
    return Wanted(written=found) if found else None


def uncommitted(suspicion: Suspicion) -> bool:
    """While each transaction behind the finding was open, a coordinator loaded the end of a log that its
    successor, in sync then, did not have. What the log lacks now is what the finding shows: a partition with
    acknowledged records that it does not name, or a decision whose markers were sent."""
    finding = suspicion.finding
    if isinstance(finding, StuckLso | HangingTransaction):
        opened = _opened(finding)
        if opened is None or opened.transactional_id:
            return False
        found = behind(suspicion.history, finding)
        return bool(found) and all(finding.tp in _not_in_log(suspicion, op) for op in found)
    return _all_explained(suspicion, _not_in_log)


def _not_in_log(suspicion: Suspicion, number: int) -> set[int]:
    """Partitions in which a transaction has acknowledged records, or got markers, by no record of the log."""
    history = suspicion.history
    op, log = history.op(number), history.transaction_log
    mine = _transactional_id(history, op.process)
    records = [record for record in log.records if record.transactional_id == mine]
    if not op.txn or not mine or not records:
        return set()
    partition = records[0].partition
    later = _later(history, op, mine, ())
    until_ns = later.invoke_ns if later else NEVER
    if partition not in log.whole or not went_back(history, partition, op.invoke_ns, until_ns):
        return set()
    begin_ms = history.wall_ms(op.invoke_ns)
    until_ms = history.wall_ms(until_ns) if later else NEVER
    own = [record for record in records if begin_ms <= record.ms <= until_ms]
    named = {name for record in own for name in record.partitions}
    written = {row.tp for row in suspicion.fetched.sends.get(number, ()) if row.outcome == OK}
    unlogged = [
        sent
        for sent in history.broker_logs.sent
        if sent.transactional_id == mine
        and begin_ms <= sent.updated_ms <= until_ms
        and not any(_decided(record, sent) for record in records)
        and not any(record.state == _state(sent) for record in own)
    ]
    marked = {name for sent in unlogged for name in sent.partitions}
    return {tp for tp in written if history.tp(tp) not in named or history.tp(tp) in marked}


def went_back(history: History, partition: int, since_ns: int = 0, until_ns: int = NEVER) -> bool:
    """A coordinator of this partition of the log loaded what its successor, in sync then, did not have, and
    what was not committed; the one led before `until_ns`, the other after `since_ns`."""
    elected = {one.epoch: one for one in history.broker_logs.elected if one.partition == partition}
    return any(
        new.start < old.start
        and old.high_watermark <= new.start
        and new.node in old.isr
        and history.wall_ns(old.wall) <= until_ns
        and since_ns <= history.wall_ns(new.wall)
        for old, new in pairwise(elected[epoch] for epoch in sorted(elected))
    )


def _state(sent: MarkersSent) -> str:
    return "PrepareCommit" if sent.commit else "PrepareAbort"


def _decided(record: TransactionRecord, sent: MarkersSent) -> bool:
    """The record is the decision whose markers were sent."""
    return (record.producer_id, record.producer_epoch, record.updated_ms, record.state) == (
        sent.producer_id,
        sent.producer_epoch,
        sent.updated_ms,
        _state(sent),
    )
