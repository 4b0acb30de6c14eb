"""Evidence for KAFKA-17754: an EndTxn of one transaction ended the next one, in the partitions that this one
had by then; the client ended the rest of it, the other way.

Where a rule of the wire held the EndTxn back, the run recorded when it came. Elsewhere the ending of the
transaction before took so long that its client must have asked again. Where the coordinators' log is known as
a whole, it has to hold the decision that the late request caused.
"""

from itertools import product

from checkers.engine.evidence import Wanted
from checkers.engine.findings import FAIL, OK, Finding
from checkers.labelled_run import SLACK_MS, LabelledRun, endings
from checkers.late_requests import LateRequest
from checkers.logs.transactions import PREPARED
from checkers.transaction_fates import ENDINGS, Fates, Suspicion, Written, decided_early, in_log, uniform
from history.reader import OpRecord


def late_end_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """An EndTxn that came late into this transaction, as a rule of the wire saw it; or the transaction before
    this one, of the same process, may have asked for the other ending, and took longer than the client waits
    for one answer: the records of both.

    Not across processes: InitProducerId raises the epoch of the transactional id, and a request of the
    epoch before ends nothing any more.
    """
    op = run.history.op(finding.ops[0])
    before = run.before(op) if op.txn else None
    if before is None:
        return None
    if not into(run, op) and not (_slow(run, before, before.invoke_ns) and _opposite(before, op)):
        return None
    return Wanted(ops=(before.op,), written=(op.op,))


def late_end(suspicion: Suspicion) -> bool:
    """An EndTxn that asked for the other ending came late into this transaction, and ended what was in the
    log by then; or ending the one before took longer than the client waits for one answer, so that it asked
    again, and the fate of this one differs by partition. Its records are all in the log."""
    run, fetched = suspicion.run, suspicion.fetched
    op = run.history.op(suspicion.finding.ops[0])
    found = suspicion.fates(op.op)
    if not in_log(found):
        return False
    if any(_ended_by(suspicion, op, found, late) for late in into(run, op)):
        return True
    before = run.before(op)
    assert before is not None
    done = [row.ack_ns for row in fetched.sends.get(before.op, ())]
    done += [row.complete_ns for row in fetched.reads.get(before.op, ())]
    if not _slow(run, before, max([before.invoke_ns, *done])):
        return False
    return any(
        _split(found, ended)
        and _ends_here(suspicion, op, found, ended)
        and _was_decided(run, op, found, ended)
        for ended in _opposite(before, op)
    )


def into(run: LabelledRun, op: OpRecord) -> list[LateRequest]:
    """Late EndTxn of its transactional id that came into a transaction."""
    every = run.late_ends.get(run.transactional_id(op.process), ())
    return [late for late in every if late.comes_into(op)]


def _opposite(before: OpRecord, op: OpRecord) -> set[bool]:
    """How an op that ended may have ended otherwise, if the one before asked for that. Of an op in doubt, or
    after one in doubt, nothing is said."""
    if op.outcome not in (OK, FAIL) or before.outcome not in (OK, FAIL):
        return set()
    return {ended for ended in ENDINGS[op.outcome] if (not ended) in endings(before)}


def _slow(run: LabelledRun, op: OpRecord, since_ns: int) -> bool:
    """An op ended later after `since_ns` than its client waits for one answer, as far as that is known."""
    process = run.history.processes.get(op.process)
    waits_ms = -1 if process is None else process.socket_timeout_ms
    return waits_ms >= 0 and op.ended_ns - since_ns >= waits_ms * 1_000_000


def _ended_by(suspicion: Suspicion, op: OpRecord, found: Fates, late: LateRequest) -> bool:
    """A late EndTxn explains the fates: what was acknowledged before it came has its result, in partitions
    that had a record by the time of its answer; the rest has the other one."""
    run = suspicion.run
    asked = run.asked(late, run.transactional_id(op.process))
    if suspicion.early:
        (shown, *_) = suspicion.finding.records
        return (
            True in asked and late.delivered_ns <= suspicion.until_ns and shown.invoke_ns <= late.answered_ns
        )
    for ended, result in product(ENDINGS.get(op.outcome, (True, False)), asked):
        if result == ended:
            continue
        wrong = {tp for tp, rows in found.items() if any(row.visible != ended for row in rows)}
        fits = all(
            decided_early(rows, ended)
            and all(row.visible != ended for row in rows if row.acked_ns < late.delivered_ns)
            and (tp not in wrong or min(row.sent_ns for row in rows) <= late.answered_ns)
            for tp, rows in found.items()
        )
        # what was aborted cannot be committed; only what the transaction began afterwards can
        own = not ended or any(row.visible for rows in found.values() for row in rows)
        if fits and own and _ends_here(suspicion, op, found, ended) and _was_decided(run, op, found, ended):
            return True
    return False


def _split(found: Fates, ended: bool) -> bool:
    """Whole partitions have the other ending, the others their own; and none of these had an acknowledged
    record before the last one of those had its first: one request ends all partitions that there are."""
    if not all(uniform(rows, ended) for rows in found.values()):
        return False
    wrong = [rows for rows in found.values() if rows[0].visible != ended]
    right = [rows for rows in found.values() if rows[0].visible == ended]
    if not wrong or not right:
        return False
    begun = max(min(row.sent_ns for row in rows) for rows in wrong)
    return min(row.acked_ns for rows in right for row in rows) >= begun


def _ends_here(suspicion: Suspicion, op: OpRecord, found: Fates, ended: bool) -> bool:
    """A record has another fate than its transaction: in the partition of the finding, or of one in doubt
    anywhere (what it shows elsewhere is the wrong part of it)."""
    tp = -1 if op.outcome not in ENDINGS else suspicion.finding.tp
    rows: list[Written] = [row for one, some in found.items() if tp in (-1, one) for row in some]
    return any(row.visible != ended for row in rows)


def _was_decided(run: LabelledRun, op: OpRecord, found: Fates, ended: bool) -> bool:
    """The coordinators' log holds the decision that the late request caused, while the transaction was under
    way; or it is not known as a whole."""
    own = run.records_within(op)
    if own is None:
        return True
    wrong = {run.history.tp(tp) for tp, rows in found.items() if any(row.visible != ended for row in rows)}
    until_ms = run.history.wall_ms(op.ended_ns) + SLACK_MS
    return any(
        PREPARED.get(record.state) is (not ended)
        and wrong <= {*record.partitions}
        and (record.ms <= until_ms or not op.completed)
        for record in own
    )
