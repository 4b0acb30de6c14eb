"""A delayed EndTxn of one transaction ended the next one, in the partitions that this one had by then; the
client ended the rest of it, the other way.

Where a rule of the wire held the EndTxn back, the run recorded when it came. Elsewhere the ending of the
transaction before took so long that its client must have asked again. Where the coordinators' log is known as
a whole, it has to hold the decision that the late request caused; where it is not, slowness alone explains
nothing.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final

from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST
from checkers.checks.isolation import ABORTED, PRECOMMITTED
from checkers.engine.evidence import Wanted
from checkers.engine.findings import FAIL, OK, Finding, LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun, endings
from checkers.known_bugs.late_requests import LateRequest
from checkers.known_bugs.log_findings import between, client_transactions, completed_ms, marker_at
from checkers.known_bugs.transaction_fates import (
    ENDINGS,
    Fates,
    Suspicion,
    Written,
    decided_early,
    in_log,
    uniform,
)
from checkers.logs.answers import ANSWERED
from checkers.logs.classes import HANGING, LOST_DECISION
from checkers.logs.decisions import DECIDED, NAMED
from checkers.logs.transactions import PREPARED, Decision, Transaction, transaction_logs
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
    slow = _slow(run, before, before.invoke_ns) and _opposite(before, op) and run.same_producer(before, op)
    if not into(run, op) and not slow:
        return None
    return Wanted(ops=(before.op,), written=(op.op,))


def late_end(suspicion: Suspicion) -> bool:
    """An EndTxn that asked for the other ending came late into this transaction, and ended what was in the
    log by then; or ending the one before took longer than the client waits for one answer, so that it asked
    again, and the fate of this one differs by partition, as the coordinators' log says that it was decided.
    Its records are all in the log."""
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
    if not _slow(run, before, max([before.invoke_ns, *done])) or not run.same_producer(before, op):
        return False
    if run.records_within(op) is None:
        return False  # nothing says what was decided: slowness alone would explain every bug
    return any(
        _split(found, ended)
        and _ends_here(suspicion, op, found, ended)
        and _was_decided(run, op, found, ended)
        for ended in _opposite(before, op)
    )


def into(run: LabelledRun, op: OpRecord) -> list[LateRequest]:
    """Late EndTxn of its transactional id that came into a transaction of the same producer id and epoch: the
    coordinator refuses any other."""
    name = run.transactional_id(op.process)
    every = [late for late in run.late_ends.get(name, ()) if late.comes_into(op)]
    return [
        late for late in every if (of := run.at(name, late.caught_ns)) is None or run.same_producer(of, op)
    ]


def _opposite(before: OpRecord, op: OpRecord) -> set[bool]:
    """How an op that ended may have ended otherwise, if the one before asked for that. Of an op in doubt, or
    after one in doubt, nothing is said."""
    if op.outcome not in (OK, FAIL) or before.outcome not in (OK, FAIL):
        return set()
    return {ended for ended in ENDINGS[op.outcome] if (not ended) in endings(before)}


def _slow(run: LabelledRun, op: OpRecord, since_ns: int) -> bool:
    """An op ended later after `since_ns` than its client waits for one answer, as far as that is known: when
    a program of the user's asks again, it alone knows."""
    process = run.history.processes.get(op.process)
    waits_ms = -1 if process is None or run.own_program else process.socket_timeout_ms
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
    way; or it is not known as a whole, of this id."""
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


# ---- in brokers' logs


def end_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """The finding is about what a coordinator decided when a late EndTxn came into a transaction: the
    decision itself, which its client contradicts; a marker that it led to; or a record that the transaction
    sent after it to a partition that it had ended."""
    if finding.check == ANSWERED:
        return any(
            (each.log, each.offset) == (finding.log, finding.offset) for each, _ in _late(run, finding)
        )
    if finding.check == DECIDED:
        marker = marker_at(run, finding)
        return marker is not None and any(
            finding.log in each.partitions
            and each.commit == (marker["name"] == "COMMIT")
            and each.ms <= marker["timestamp"] <= completed_ms(transaction) + SLACK_MS
            for each, transaction in _late(run, finding)
        )
    return finding.check == NAMED and any(finding.log in each.partitions for each, _ in _late(run, finding))


def _late(run: LabelledRun, finding: LogFinding) -> Iterator[tuple[Decision, Transaction]]:
    """What was decided while a late EndTxn came into the transaction of a finding, as it asked."""
    for op in client_transactions(run, finding):
        name = run.transactional_id(op.process)
        every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
        for late in into(run, op):
            asked = run.asked(late, name)
            for transaction in every:
                for each in transaction.decisions:
                    here = between(run, late.delivered_ns, each.ms, late.answered_ns)
                    if here and transaction.transactional_id == name and each.commit in asked:
                        yield each, transaction


BUG: Final = KnownBug(
    title="A delayed EndTxn ends the producer's next transaction",
    link="KAFKA-17754",
    versions="fixed by transaction protocol v2 (KIP-890, KIP-1228), which librdkafka 2.16 does not speak",
    doc="""\
A network delays the request that ends a transaction. The client retries on another connection and
succeeds. The next transaction of the same producer id and epoch begins. Then the first request arrives
and ends *that* one. A read_committed consumer sees a record of an aborted transaction, or a committed
transaction is torn or lost. Only the previous transaction of the same process counts as evidence: a
successor with the same transactional id has raised the epoch, so the late request cannot end its
transaction.

For the same reason an application is safe that makes a new client when a commit times out
(librdkafka issue 5423; `kafka-17754-doubt`), if it hears of the time-out: librdkafka itself asks
again after `socket.timeout.ms` (`kafka-17754-timeout`), which therefore has to be longer than the
application waits; the preset `rebuild-on-doubt` does both. Where the connection is reset, librdkafka asks
again at once (`kafka-17754-commit`): no setting of a client prevents that. Of four runs of 60 s on
real brokers with late EndTxn (workload `transactions`, nemesis `wire:endtxn`, seeds 771 and 772) the
two with `safe` lost records of committed transactions, and the two with `rebuild-on-doubt` none.""",
    evidence="The transaction before it, of the same process, with the same producer id and epoch as far"
    " as the coordinators' log tells, asked for the other ending and took longer to end than the client,"
    " which is not a program of the user's, waits for one answer (so EndTxn was sent again); and of this"
    " transaction whole partitions are visible while others are not. None that kept its own ending had an"
    " acknowledged record before all of the others had one sent. Or a fault of the nemesis `wire` held an"
    " EndTxn of such a transaction back that asked for the other ending, it reached the coordinator while"
    " this transaction was under way, and the coordinator answered it without an error: what was"
    " acknowledged by then ended as the request asks, what was sent to other partitions afterwards did not."
    " Either way the log has every record that a broker acknowledged (the final reads at read_uncommitted"
    " show it), and `__transaction_state`, where it is known as a whole, has the decision that the late"
    " request caused; where that log is not known so (as of a cluster whose disks are not read), a rule of"
    " `wire` has to have held the request. In brokers' logs: the finding is that decision, a marker by it,"
    " or a record that the transaction sent afterwards to a partition that it ended.",
    anomalies=(ABORTED, TORN, LOST, PRECOMMITTED),
    match=late_end,
    wanted=late_end_wanted,
    in_logs=dict.fromkeys((LOST_DECISION, HANGING), end_came_late),
)
