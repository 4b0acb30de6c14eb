"""Evidence for transactions that ended differently by partition: markers left out, markers that came late,
decisions not in the log.

Two bugs of the transaction coordinator look alike to clients (KAFKA-20734, and the use of state that is not
committed). The coordinators tell them apart: by their logs, and by the contents of `__transaction_state` at
the end of the run. Of markers that came late the run recorded what its rules of the wire held back, or a
coordinator's log says that it gave the request up.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import partial
from itertools import islice
from typing import Final

from checkers.cancelled_markers import LateMarker
from checkers.checks.stability import HangingTransaction, StuckLso
from checkers.engine.evidence import Wanted
from checkers.engine.findings import NEVER, OK, Finding
from checkers.labelled_run import SLACK_MS, LabelledRun
from checkers.late_requests import LateRequest
from checkers.transaction_fates import Suspicion, Way, Written, all_explained, behind, decided_early, uniform
from history.broker_logs import MarkersSent
from history.reader import OpRecord

FOLLOWED: Final = 8
"""Later transactions of an id whose acknowledgements are looked at."""


# ---- KAFKA-20734


def left_out_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """What `left_out` needs: the transactions behind a finding, and those that followed."""
    if not run.history.left_out:
        return None
    found = behind(run, finding)
    later = [one.op for number in found for one in _following(run, run.history.op(number))]
    return Wanted(ops=tuple(later), written=found) if found else None


def left_out(suspicion: Suspicion) -> bool:
    """A coordinator's log says that it left out markers of each transaction behind the finding. All
    partitions that got their markers show one end of the transaction: only those left out differ."""
    history, finding = suspicion.history, suspicion.finding
    if isinstance(finding, StuckLso | HangingTransaction):
        found = behind(suspicion.run, finding)
        return bool(found) and all(finding.tp in _without_marker(suspicion, history.op(op)) for op in found)
    return all_explained(suspicion, _without_marker)


def _without_marker(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    """Partitions whose markers a coordinator left out after this transaction began, and before a later one of
    its transactional id had an acknowledgement: no record is taken before the markers of the last one are
    done."""
    history = suspicion.history
    mine = suspicion.run.transactional_id(op.process)
    if not op.txn or not mine:
        return {}
    until = min((_proven(suspicion, one) for one in _following(suspicion.run, op)), default=NEVER)
    return {
        history.tp_numbers[name]: uniform
        for ns, one in history.left_out
        if one.transactional_id == mine and op.invoke_ns <= ns <= until
        for name in one.partitions & history.tp_numbers.keys()
    }


def _following(run: LabelledRun, op: OpRecord) -> Iterator[OpRecord]:
    """The next transactions of its id, up to the first one that its client saw committed."""
    for one in islice(run.later(op), FOLLOWED):
        yield one
        if one.outcome == OK:
            return


def _proven(suspicion: Suspicion, op: OpRecord) -> int:
    """When a transaction had certainly begun at its coordinator: a record was acknowledged, or its commit."""
    acked = [row.ack_ns for row in suspicion.fetched.sends.get(op.op, ()) if row.ack_ns >= 0]
    return min([*acked, op.ended_ns if op.outcome == OK else NEVER])


# ---- KAFKA-19446


def late_marker_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """What `late_marker` needs."""
    if not run.any_late_markers:
        return None
    found = behind(run, finding)
    return Wanted(written=found) if found else None


def late_marker(suspicion: Suspicion) -> bool:
    """While each transaction behind the finding was under way, markers of the same producer came that a rule
    of the wire had taken, or their coordinator had given up, before it began, and their brokers wrote them.
    Only in the partitions that these name the transaction shows another end: of its records there, those
    before the marker; and the finding is in one of them."""
    return all_explained(suspicion, _marked_early)


def _marked_early(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    history, run = suspicion.history, suspicion.run
    mine = run.transactional_id(op.process)
    if not op.txn or not mine:
        return {}
    until = run.next_ns(op)  # its own markers are written before the next one begins
    held: dict[int, Way] = {
        history.tp_numbers[name]: partial(_as_marked, late, run.asked(late, mine), suspicion.early)
        for late in run.late_markers(mine)
        if late.comes_into(op, until) and late.delivered_ns <= suspicion.until_ns
        for name in late.named & history.tp_numbers.keys()
    }
    until_ms = history.wall_ms(suspicion.until_ns) + SLACK_MS
    return held | {
        history.tp_numbers[name]: partial(_as_marked_at, given_up, suspicion.early)
        for given_up in run.given_up(mine)
        if given_up.ms <= until_ms
        and (name := str(given_up.tp)) in history.tp_numbers
        and (hit := run.at_ms(mine, given_up.began_ms))
        and hit.op == op.op
    }


def _as_marked_at(late: LateMarker, early: bool, rows: Sequence[Written], ended: bool) -> bool:
    """Records before the late marker in the log have its result, those behind it do not. early: one of them
    was read by it."""
    if early:
        return late.commit and any(one.place < late.offset for one in rows)
    return late.commit != ended and all((one.visible != ended) == (one.place < late.offset) for one in rows)


def _as_marked(
    late: LateRequest, asked: Set[bool], early: bool, rows: Sequence[Written], ended: bool
) -> bool:
    """Records in the log before the late marker came have its result, those sent after it do not. early: one
    of them was read by it, and its own transaction may have ended in the same way."""
    if early:
        return True in asked and any(one.sent_ns <= late.answered_ns for one in rows)
    return (
        (not ended) in asked
        and decided_early(rows, ended)
        and all(one.visible != ended for one in rows if one.acked_ns < late.delivered_ns)
        and all(one.visible == ended for one in rows if one.sent_ns > late.answered_ns)
    )


# ---- state that is not committed


def uncommitted_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """What `uncommitted` needs."""
    if not run.coordinator_log.whole or not run.history.broker_logs.elected:
        return None
    found = behind(run, finding)
    return Wanted(written=found) if found else None


def uncommitted(suspicion: Suspicion) -> bool:
    """While each transaction behind the finding was open, a coordinator loaded the end of a log that its
    successor, in sync then, did not have. What the log lacks now is what the finding shows: a partition with
    acknowledged records that it does not name, or a decision whose markers were sent."""
    history, finding = suspicion.history, suspicion.finding
    if isinstance(finding, StuckLso | HangingTransaction):
        found = behind(suspicion.run, finding)
        return bool(found) and all(finding.tp in _not_in_log(suspicion, history.op(op)) for op in found)
    return all_explained(suspicion, _not_in_log)


def _not_in_log(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    """Partitions in which a transaction has acknowledged records, or got markers, by no record of the log."""
    history, run = suspicion.history, suspicion.run
    mine = run.transactional_id(op.process)
    own = run.records_within(op) if op.txn and mine else None
    if own is None or not run.went_back(run.records_of(mine)[0].partition, op):
        return {}
    begin_ms, until_ms = run.window_ms(op)
    named = {name for record in own for name in record.partitions}
    written = {row.tp for row in suspicion.fetched.sends.get(op.op, ()) if row.outcome == OK}
    unlogged = [
        sent
        for sent in history.broker_logs.sent
        if sent.transactional_id == mine
        and begin_ms <= sent.updated_ms <= until_ms
        and not any(record.state == _state(sent) for record in own)
    ]
    results = defaultdict(set)
    for sent in unlogged:
        for name in sent.partitions:
            results[name].add(sent.commit)
    astray: dict[int, Way] = {tp: uniform for tp in written if history.tp(tp) not in named}
    for tp in written:
        if some := results.get(history.tp(tp)):
            astray[tp] = partial(_as_sent, some)
    return astray


def _as_sent(results: Set[bool], rows: Sequence[Written], ended: bool) -> bool:
    """Markers of these results were sent: records before them have theirs."""
    return decided_early(rows, ended) and (
        all(one.visible == ended for one in rows) or (not ended) in results
    )


def _state(sent: MarkersSent) -> str:
    return "PrepareCommit" if sent.commit else "PrepareAbort"
