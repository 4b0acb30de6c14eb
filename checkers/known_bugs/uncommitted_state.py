"""A new transaction coordinator acted upon state that was not committed.

To clients this looks like KAFKA-20734 (`kafka_20734`), where it is said what tells the two apart.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from functools import partial
from typing import Final

import pyarrow.compute as pc

from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST
from checkers.checks.exactly_once import LOST as NEVER_COPIED
from checkers.checks.group_delivery import NEVER_GIVEN
from checkers.checks.isolation import ABORTED
from checkers.checks.poll_order import SKIP, SKIP_INSIDE, Skipped
from checkers.checks.stability import HANGING, STUCK
from checkers.engine.evidence import Wanted
from checkers.engine.findings import OK, Finding, LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun, LostState
from checkers.known_bugs.log_findings import client_transactions, marker_at, transactional_ids
from checkers.known_bugs.transaction_fates import (
    HIDDEN,
    Suspicion,
    Way,
    Written,
    behind,
    decided_early,
    open_or_astray,
    uniform,
)
from checkers.logs.answers import ANSWERED
from checkers.logs.classes import EARLY, LOST_DECISION, TORN_DECISION
from checkers.logs.classes import HANGING as HANGING_PARTITION
from checkers.logs.decisions import AGREE, DECIDED, NAMED
from checkers.logs.messages import MARKERS_LOGGED
from checkers.logs.transactions import NEVER
from core.internal_topics import TRANSACTION_TOPIC
from history.broker_logs import MarkersSent
from history.evidence_tables import WRITE_TXN_MARKERS
from history.reader import OpRecord
from history.tables import TableRow


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
    return open_or_astray(suspicion, _not_in_log)


def _not_in_log(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    """Partitions in which a transaction has acknowledged records, or got markers, by no record of the log."""
    history, run = suspicion.history, suspicion.run
    mine = run.transactional_id(op.process)
    own = run.records_within(op) if op.txn and mine else None
    gone = run.went_back(run.records_of(mine)[0].partition, op) if own is not None else []
    if own is None or not gone:
        return {}
    begin_ms, until_ms = run.window_ms(op)
    named = {name for record in own for name in record.partitions}
    written: dict[int, int] = {}  # when it knew of a record there
    for row in suspicion.fetched.sends.get(op.op, ()):
        if row.outcome == OK:
            acked_ns = row.ack_ns if row.ack_ns >= 0 else NEVER
            written[row.tp] = min(written.get(row.tp, NEVER), acked_ns)
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
    since_ns = run.acted_since_ns(gone)
    astray: dict[int, Way] = {
        tp: uniform
        for tp, acked_ns in written.items()
        if history.tp(tp) not in named and acked_ns >= since_ns
    }
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


# ---- in brokers' logs


def state_went_back(run: LabelledRun, finding: LogFinding) -> bool:
    """While this transaction was under way a coordinator of its id loaded the end of the log, and a
    successor, in sync then, did not have it; and the finding shows what the log lacks: a decision that was
    acted upon, a commit that was answered, or a partition of the transaction. Where no client of the run has
    it (an application's), the marker itself says which coordinator wrote it."""
    if finding.check not in (DECIDED, NAMED, AGREE, ANSWERED, MARKERS_LOGGED):
        return False
    ops = list(client_transactions(run, finding))
    return any(_lost(run, finding, op) for op in ops) if ops else _marked_by_lost(run, finding)


def _marked_by_lost(run: LabelledRun, finding: LogFinding) -> bool:
    """A coordinator of the id that loaded what its successor did not have wrote the marker."""
    marker = marker_at(run, finding)
    records = [run.records_of(name) for name in transactional_ids(run, finding)]
    gone = [one for some in records if some for one in run.lost_states(some[0].partition)]
    return marker is not None and marker["coordinator_epoch"] in {one.old.epoch for one in gone}


def _lost(run: LabelledRun, finding: LogFinding, op: OpRecord) -> bool:
    records = run.records_of(run.transactional_id(op.process))
    gone = run.went_back(records[0].partition, op) if records else []
    if not gone:
        return False
    if finding.check == MARKERS_LOGGED:
        sent = _markers_sent(run, finding)
        epochs = {(one["client"], one["coordinator_epoch"]) for one in sent if one["ms"] == finding.ms}
        return any((one.old.node, one.old.epoch) in epochs for one in gone)
    if finding.check == ANSWERED:  # with a place: the log has a decision, which the client contradicts
        return finding.offset < 0
    # that it was acknowledged tells when it was written: its own time is that of its making, before that
    let_in = run.first_ack_ns(op, str(finding.log)) >= run.acted_since_ns(gone)
    if finding.check == NAMED:
        return let_in
    marker = marker_at(run, finding)
    if marker is not None and marker["coordinator_epoch"] in {one.old.epoch for one in gone}:
        return True
    own = run.records_within(op)
    lacks = own is not None and not any(str(finding.log) in record.partitions for record in own)
    return finding.check == AGREE and lacks and let_in


def acted_upon_what_it_loaded(run: LabelledRun, finding: LogFinding) -> bool:
    """A coordinator sent markers by a decision that a leader before it had appended, before the next
    transaction of the id began."""
    if finding.log.topic != TRANSACTION_TOPIC:
        return False
    log = run.evidence.of("transaction_log", finding.log)
    written = log.filter(
        (pc.field("offset") == finding.offset) & (pc.field("producer_id") == finding.producer_id)
    ).to_pylist()
    return any(
        sent["ms"] >= one["timestamp"] - SLACK_MS
        and sent["coordinator_epoch"] > one["leader_epoch"]
        and sent["ms"] <= _next_ms(run, one) + SLACK_MS
        for one in written
        for sent in _markers_sent(run, finding)
    )


def _next_ms(run: LabelledRun, decision: TableRow) -> int:
    """When the next transaction of the id began, as the log has it."""
    records = run.records_of(decision["transactional_id"])
    later = (one.ms for one in records if one.ms > decision["timestamp"] and one.state == "Ongoing")
    return next(later, NEVER)


def _markers_sent(run: LabelledRun, finding: LogFinding) -> list[TableRow]:
    """The markers of the producer of a finding that its coordinator sent."""
    frames, parts = run.evidence.table("frames"), run.evidence.table("frame_parts")
    mine = parts.filter(
        (pc.field("producer_id") == finding.producer_id)
        & (pc.field("producer_epoch") == finding.producer_epoch)
    )
    sent = frames.filter((pc.field("api") == WRITE_TXN_MARKERS) & pc.invert(pc.field("answer")))
    at = {row["number"]: row for row in sent.select(["number", "ms", "client"]).to_pylist()}
    return [
        row | at[row["number"]]
        for row in mine.select(["number", "coordinator_epoch"]).to_pylist()
        if row["number"] in at and at[row["number"]]["client"] in finding.nodes
    ]


# ---- of all findings


def as_many_as_records(run: LabelledRun, findings: Sequence[Finding]) -> list[bool]:
    """Each lost record is of one transactional id: where more ids have findings than records were lost, by
    which alone they can be explained, none is explained."""
    every = [_ids(run, finding) for finding in findings]
    lost = defaultdict[frozenset[LostState], set[str]](set)
    for finding, ids in zip(findings, every, strict=True):
        if not isinstance(finding, Skipped):  # of what one has passed over, some may not be wrong
            for name, gone in ids.items():
                lost[gone].add(name)
    too_many: set[str] = set()
    for gone in [*lost]:
        mine = {name for some, names in lost.items() if some <= gone for name in names}
        too_many |= mine if len(mine) > sum(one.records for one in gone) else set()
    return [too_many.isdisjoint(ids) for ids in every]


def _ids(run: LabelledRun, finding: Finding) -> dict[str, frozenset[LostState]]:
    """The transactional ids that a finding is about -> what coordinators lost meanwhile. None of what no loss
    explains."""
    if not isinstance(finding, LogFinding):
        ops = [run.history.op(number) for number in behind(run, finding)]
    elif finding.name == EARLY:
        return {}
    elif not (ops := [*client_transactions(run, finding)]):
        ids = transactional_ids(run, finding)
        return {
            name: frozenset(run.lost_states(some[0].partition))
            for name in ids
            if (some := run.records_of(name))
        }
    found = defaultdict[str, frozenset[LostState]](frozenset)
    for op in ops:
        name = run.transactional_id(op.process)
        if records := run.records_of(name):
            found[name] |= frozenset(run.went_back(records[0].partition, op))
    return {name: gone for name, gone in found.items() if gone}


BUG: Final = KnownBug(
    title="New transaction coordinator acted upon state that was not committed",
    page="findings/uncommitted-transaction-state.md",
    link="the report",
    versions="brokers 0.11 to 4.4",
    doc="""\
A coordinator loads its log to the end, and acts upon records there that are not committed: it tells a
producer that a partition is in its transaction, or sends markers. Its successor was in sync, or eligible
(KIP-966: too few replicas were in sync for anything to be committed), and does not have those records. So
an acknowledged record of an acknowledged commit is hidden or lost, an aborted one becomes visible, or one
half of a transaction is aborted.

In runs of a workload it takes two deaths of coordinators while a follower of their log lags in sync
(`failover:lagging`), with replica.lag.time.max.ms near Kafka's default. On 4.3.1 with 5 brokers, an
isolated controller and 12 producers, `transactions` showed it in 9 of 10 runs of 60 s. The same runs of
the model showed it with 8 of 8 seeds. Of 1,000 seeds of `inquest model explore` none met it, and one met
KAFKA-20734.""",
    evidence="Brokers' logs show a coordinator that loaded its log to an offset, and a successor whose log"
    " ended before it and not below the high watermark, while the transaction was under way; the successor"
    " was in sync, or the metadata log calls its election clean. `__transaction_state`, read whole at the"
    " end, does not name the partition in this transaction, which has an acknowledged record there, and had"
    " none before that coordinator led; or it lacks the decision whose markers a coordinator says that it"
    " sent after loading. In all other partitions the transaction ended one way, and the log has every"
    " acknowledged record (the final reads at read_uncommitted show it). A record that a group was never"
    f" given, or never copied, is of that transaction and hidden so.{HIDDEN} In brokers' logs: the finding is"
    " a decision, a commit that was answered or a partition of that transaction that `__transaction_state`"
    " lacks (never a decision there that the client contradicts); of a marker, the coordinator that lost its"
    " state wrote it, with that coordinator epoch. All transactional ids that are explained so by a loss are"
    " at most as many as the records that were lost; of more, none is. Or, where messages were captured, a"
    " coordinator sent markers of that transaction by a decision that a leader before it had appended, and"
    " could not know that it was committed (`early-act`; it need not harm).",
    anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, NEVER_COPIED, NEVER_GIVEN, STUCK, HANGING),
    match=uncommitted,
    in_logs=dict.fromkeys((LOST_DECISION, TORN_DECISION, HANGING_PARTITION), state_went_back)
    | {EARLY: acted_upon_what_it_loaded},
    wanted=uncommitted_wanted,
    together=as_many_as_records,
)
