"""A transaction ended without a marker in a partition that had no leader just then.

To clients this looks like the use of state that is not committed (`uncommitted_state`). The coordinators tell
the two apart: by their logs, and by the contents of `__transaction_state` at the end of the run.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST
from checkers.checks.exactly_once import LOST as NEVER_COPIED
from checkers.checks.exactly_once import TWICE, CopiedTwice
from checkers.checks.group_delivery import NEVER_GIVEN
from checkers.checks.isolation import ABORTED
from checkers.checks.poll_order import SKIP, SKIP_INSIDE
from checkers.checks.stability import HANGING, STUCK
from checkers.engine.evidence import Wanted
from checkers.engine.findings import NEVER, OK, Finding, LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.log_findings import completed_ms, logged_transactions
from checkers.known_bugs.transaction_fates import (
    HIDDEN,
    Suspicion,
    Way,
    astray_only,
    behind,
    open_or_astray,
    uniform,
)
from checkers.logs.classes import HANGING as HANGING_PARTITION
from checkers.logs.classes import TORN_DECISION
from checkers.logs.decisions import AGREE, MARKED
from history.broker_logs import LeftOutMarkersLine
from history.reader import OpRecord

FIRST: Final = (4, 3)
"""First version that takes a partition without a leader for deleted; earlier ones write the same line of
partitions that were deleted."""
ABORT: Final = "PrepareAbort"
DECISIONS: Final = {ABORT, "PrepareCommit"}
FOLLOWED: Final = 8
"""Later transactions of an id whose acknowledgements are looked at."""


def left_out_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """What `left_out` needs: the transactions behind a finding, and those that followed."""
    if not any(_left_out(run)):
        return None
    found = behind(run, finding)
    later = [one.op for number in found for one in _following(run, run.history.op(number))]
    return Wanted(ops=tuple(later), written=found) if found else None


def left_out(suspicion: Suspicion) -> bool:
    """A coordinator's log says that it left out markers of each transaction behind the finding. All
    partitions that got their markers show one end of the transaction: only those left out differ."""
    if isinstance(suspicion.finding, CopiedTwice):
        return _copied_again(suspicion, suspicion.finding)
    return open_or_astray(suspicion, _without_marker)


def _copied_again(suspicion: Suspicion, finding: CopiedTwice) -> bool:
    """All copies but one are of transactions that were aborted, offsets and all: the group got their input
    again by right. Their records stayed without a marker, and a later one committed them."""
    ops = {op: suspicion.history.op(op) for op in behind(suspicion.run, finding)}
    if len(ops) < finding.copies:  # more of them than are shown, or several by one transaction
        return False
    astray = [
        op
        for op in ops.values()
        if _aborted(suspicion, op) and astray_only(suspicion, op, _without_marker(suspicion, op))
    ]
    return len(astray) >= finding.copies - 1


def _aborted(suspicion: Suspicion, op: OpRecord) -> bool:
    """Its coordinator's log says so: the first decision behind an acknowledgement of the transaction. There
    is one transaction of an id at a time; what its client began before that decision came to nothing."""
    run = suspicion.run
    records = run.records_of(run.transactional_id(op.process))
    acked = [row.ack_ns for row in suspicion.fetched.sends.get(op.op, ()) if row.ack_ns >= 0]
    if not acked or not records or records[0].partition not in run.coordinator_log.whole:
        return False
    since = run.history.wall_ms(min(acked))
    decided = (one.state for one in records if one.ms >= since and one.state in DECISIONS)
    return next(decided, "") == ABORT


def _without_marker(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    """Partitions whose markers a coordinator left out after this transaction had its first acknowledgement
    (or began, if it had none), and before a later one of its transactional id had one: no record is taken
    before the markers of the last one are done. So what was left out before that may be the last one's, of a
    partition that really was deleted."""
    history = suspicion.history
    mine = suspicion.run.transactional_id(op.process)
    if not op.txn or not mine:
        return {}
    acked = [row.ack_ns for row in suspicion.fetched.sends.get(op.op, ()) if row.ack_ns >= 0]
    since = max(op.invoke_ns, min(acked, default=0) - SLACK_MS * 1_000_000)
    until = min((_proven(suspicion, one) for one in _following(suspicion.run, op)), default=NEVER)
    return {
        history.tp_numbers[name]: uniform
        for ns, one in _left_out(suspicion.run)
        if one.transactional_id == mine and since <= ns <= until
        for name in one.partitions & history.tp_numbers.keys()
    }


def _left_out(run: LabelledRun) -> Iterator[tuple[int, LeftOutMarkersLine]]:
    """What coordinators left out, each with its time, while some broker may have had the bug."""
    return ((ns, one) for ns, one in run.history.left_out if run.versions.some_since(FIRST, ns))


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


# ---- in brokers' logs


def marker_left_out(run: LabelledRun, finding: LogFinding) -> bool:
    """A coordinator's log says that it left out the marker of this transaction in this partition, after it
    had decided and before it completed it."""
    if finding.check not in (MARKED, AGREE) or not any(_left_out(run)):
        return False
    return any(
        one.transactional_id == transaction.transactional_id
        and str(finding.log) in one.partitions
        and any(finding.log in each.partitions for each in transaction.decisions)
        and transaction.decided_ms <= run.history.wall_ms(ns) + SLACK_MS
        and run.history.wall_ms(ns) - SLACK_MS <= completed_ms(transaction)
        for transaction in logged_transactions(run, finding)
        for ns, one in _left_out(run)
    )


BUG: Final = KnownBug(
    title="Transaction ended without a marker in a partition that had no leader just then",
    link="KAFKA-20734",
    versions="brokers 4.3 and later",
    doc="""\
A coordinator sends the markers of a transaction while a partition has no leader. Kafka 4.3 takes that
partition for deleted and completes the transaction without it; earlier versions wait. The partition's
last stable offset stays at the transaction's records until the next transaction of the same producer in
that partition ends: it decides them too. So an acknowledged record is lost, an aborted one becomes
visible, or a partition hangs. An aborted copy that becomes visible so stands beside the copy that its
group made again.

In runs of a workload it takes a cluster with more brokers than replicas, and a fault that stops all
replicas of one partition (`restart:replicas`, `kill:replicas`, `kill:all`). On 4.3.1 with 5 brokers, an
isolated controller and 12 producers, `transactions` under `restart:replicas` showed it in 6 of 6 runs of
60 s, in 2 of 4 shorter ones with 4 producers.""",
    evidence="While some brokers had 4.3 or later, a coordinator's log says that it left out markers of"
    " this transactional id, because it knew no leader of some partitions (`Couldn't find leader endpoint"
    " for partitions …`), after the transaction had its first acknowledgement (or began, if it had none) and"
    " before a later one of that id had one; all records of a partition that was left out have one fate, and"
    " in all other partitions the transaction ended one way. The log has every acknowledged record (the"
    " final reads at read_uncommitted show it). Of a transaction that stays open: the line names its id and"
    " partition, and the coordinator that knows its producer id answered and does not claim it. A record"
    f" that a group was never given, or never copied, is of such a transaction and hidden so.{HIDDEN} Of"
    " copies of one input, all but one are of such transactions, and the coordinator's log has the abort of"
    " each. In brokers' logs: the line names the partition of the finding, and was written between the"
    " decision of that transaction and its completion.",
    anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, NEVER_COPIED, TWICE, NEVER_GIVEN, STUCK, HANGING),
    match=left_out,
    in_logs=dict.fromkeys((TORN_DECISION, HANGING_PARTITION), marker_left_out),
    wanted=left_out_wanted,
)
