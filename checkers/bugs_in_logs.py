"""Signatures of known bugs of the transaction coordinator in what brokers' logs show.

Each needs a second witness beside the finding, of the same transaction and the same time: a line of a
coordinator's log, what coordinators had when they were elected, or a request that a rule of the wire held
back. Not here: the registry (`checkers.known_bugs`).
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.compute as pc

from checkers.labelled_run import SLACK_MS, LabelledRun
from checkers.late_end_evidence import into
from checkers.logs.answers import ANSWERED
from checkers.logs.classes import EARLY, HANGING, LOST_DECISION, TORN_DECISION
from checkers.logs.decisions import AGREE, DECIDED, MARKED, NAMED
from checkers.logs.judgement import LogFinding
from checkers.logs.messages import MARKERS_LOGGED
from checkers.logs.transactions import NEVER, Decision, Transaction, transaction_logs
from core.cluster import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import WRITE_TXN_MARKERS
from history.reader import OpRecord

LEFT_OUT: Final = (TORN_DECISION, HANGING)
CAME_LATE: Final = (LOST_DECISION, TORN_DECISION)
ENDED_LATE: Final = (LOST_DECISION, HANGING)
WENT_BACK: Final = (LOST_DECISION, TORN_DECISION, HANGING)
ACTS: Final = (EARLY,)
"""Classes of findings that each signature may be of; of a class it may be some rules alone."""


def _ids(run: LabelledRun, finding: LogFinding) -> set[str]:
    """The transactional ids that a finding may be about."""
    if finding.transactional_id:
        return {finding.transactional_id}
    every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
    return {one.transactional_id for one in every}


def _ops(run: LabelledRun, finding: LogFinding) -> Iterator[OpRecord]:
    """The transaction of clients that a finding is about: the one that was under way then."""
    ops = (run.at_ms(name, finding.ms) for name in _ids(run, finding))
    return (op for op in ops if op is not None)


def _logged(run: LabelledRun, finding: LogFinding) -> list[Transaction]:
    """The transaction that a finding is about, as its coordinator wrote it down."""
    every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
    ids = _ids(run, finding)
    return [one for one in every if one.transactional_id in ids and one.began_ms == finding.ms]


def _marker(run: LabelledRun, finding: LogFinding) -> dict[str, Any] | None:
    """The marker at the place of a finding; None = there is none."""
    log = run.survivor(finding.tp)
    rows = run.evidence.of("control", finding.tp)
    if log is None or not rows.num_rows:
        return None
    place = (pc.field("take") == log.take) & (pc.field("node") == log.node)
    found = rows.filter(place & (pc.field("offset") == finding.offset)).to_pylist()
    return found[0] if found else None


# ---- KAFKA-20734


def marker_left_out(run: LabelledRun, finding: LogFinding) -> bool:
    """A coordinator's log says that it left out the marker of this transaction in this partition, after it
    had decided and before it completed it."""
    if finding.rule not in (MARKED.name, AGREE.name):
        return False
    return any(
        one.transactional_id == transaction.transactional_id
        and str(finding.tp) in one.partitions
        and any(finding.tp in each.partitions for each in transaction.decisions)
        and transaction.decided_ms <= run.history.wall_ms(ns) + SLACK_MS
        and run.history.wall_ms(ns) - SLACK_MS <= _completed_ms(transaction)
        for transaction in _logged(run, finding)
        for ns, one in run.history.left_out
    )


def _completed_ms(transaction: Transaction) -> int:
    return transaction.completed_ms if transaction.completed >= 0 else NEVER


# ---- KAFKA-19446


def marker_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """The marker of the finding came by a request that its coordinator had given up before the transaction
    began; or it was written when one of this transactional id came, for this partition, that a rule of the
    wire had taken before the transaction began."""
    if finding.rule not in (DECIDED.name, AGREE.name):
        return False
    place = finding.tp, finding.offset
    if any((late.tp, late.offset) == place for name in _ids(run, finding) for late in run.given_up(name)):
        return True
    marker = _marker(run, finding)
    return marker is not None and any(
        str(finding.tp) in late.named
        and late.comes_into(op, run.next_ns(op))
        and _between(run, late.delivered_ns, marker["timestamp"], late.answered_ns)
        and (marker["name"] == "COMMIT") in run.asked(late, name)
        for name in _ids(run, finding)
        for op in filter(None, [run.at_ms(name, marker["timestamp"])])
        for late in run.late_markers(name)
    )


def _between(run: LabelledRun, since_ns: int, ms: int, until_ns: int) -> bool:
    """A time of the brokers' clock lies between two of the run."""
    wall_ms = run.history.wall_ms
    return wall_ms(since_ns) - SLACK_MS <= ms <= wall_ms(until_ns) + SLACK_MS


# ---- KAFKA-17754


def end_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """The finding is about what a coordinator decided when a late EndTxn came into a transaction: the
    decision itself, which its client contradicts; a marker that it led to; or a record that the transaction
    sent after it to a partition that it had ended."""
    if finding.rule == ANSWERED.name:
        return any((each.log, each.offset) == (finding.tp, finding.offset) for each, _ in _late(run, finding))
    if finding.rule == DECIDED.name:
        marker = _marker(run, finding)
        return marker is not None and any(
            finding.tp in each.partitions
            and each.commit == (marker["name"] == "COMMIT")
            and each.ms <= marker["timestamp"] <= _completed_ms(transaction) + SLACK_MS
            for each, transaction in _late(run, finding)
        )
    return finding.rule == NAMED.name and any(
        finding.tp in each.partitions for each, _ in _late(run, finding)
    )


def _late(run: LabelledRun, finding: LogFinding) -> Iterator[tuple[Decision, Transaction]]:
    """What was decided while a late EndTxn came into the transaction of a finding, as it asked."""
    for op in _ops(run, finding):
        name = run.transactional_id(op.process)
        every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
        for late in into(run, op):
            asked = run.asked(late, name)
            for transaction in every:
                for each in transaction.decisions:
                    here = _between(run, late.delivered_ns, each.ms, late.answered_ns)
                    if here and transaction.transactional_id == name and each.commit in asked:
                        yield each, transaction


# ---- KAFKA-14402


def record_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """A marker of the producer stands before the records that are open, and was written after their client
    had made them."""
    return finding.rule in (MARKED.name, NAMED.name) and came_after_marker(
        run, finding.tp, finding.offset, finding.producer_id
    )


def came_after_marker(run: LabelledRun, tp: TopicPartition, offset: int, producer_id: int) -> bool:
    """A record was appended after a marker of its producer that is younger than the record is; and no other
    marker followed."""
    batch, log = run.batch(tp, offset), run.survivor(tp)
    if batch is None or log is None or batch["log_append_time"] or batch["producer_id"] != producer_id:
        return False
    rows = run.evidence.of("control", tp)
    own = (pc.field("take") == log.take) & (pc.field("node") == log.node)
    markers = rows.filter(own & (pc.field("producer_id") == producer_id)).to_pylist()
    return not any(row["offset"] > offset for row in markers) and any(
        row["offset"] < offset and row["timestamp"] > batch["base_timestamp"] for row in markers
    )


# ---- state that is not committed


def state_went_back(run: LabelledRun, finding: LogFinding) -> bool:
    """While this transaction was under way a coordinator of its id loaded the end of the log, and a
    successor, in sync then, did not have it; and the finding shows what the log lacks: a decision that was
    acted upon, or a partition of the transaction."""
    rules = (DECIDED.name, NAMED.name, AGREE.name, ANSWERED.name, MARKERS_LOGGED.name)
    return finding.rule in rules and any(_lost(run, finding, op) for op in _ops(run, finding))


def _lost(run: LabelledRun, finding: LogFinding, op: OpRecord) -> bool:
    records = run.records_of(run.transactional_id(op.process))
    gone = run.went_back(records[0].partition, op) if records else []
    if not gone:
        return False
    if finding.rule == MARKERS_LOGGED.name:
        return any(one.node in finding.nodes for one in gone)
    if finding.rule in (NAMED.name, ANSWERED.name):
        return True
    marker = _marker(run, finding)
    if marker is not None and marker["coordinator_epoch"] in {one.epoch for one in gone}:
        return True
    own = run.records_within(op)
    lacks = own is not None and not any(str(finding.tp) in record.partitions for record in own)
    return finding.rule == AGREE.name and lacks


def acted_upon_what_it_loaded(run: LabelledRun, finding: LogFinding) -> bool:
    """A coordinator sent markers by a decision that a leader before it had appended, before the next
    transaction of the id began."""
    if finding.tp.topic != TRANSACTION_TOPIC:
        return False
    log = run.evidence.of("transaction_log", finding.tp)
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


def _next_ms(run: LabelledRun, decision: dict[str, Any]) -> int:
    """When the next transaction of the id began, as the log has it."""
    records = run.records_of(decision["transactional_id"])
    later = (one.ms for one in records if one.ms > decision["timestamp"] and one.state == "Ongoing")
    return next(later, NEVER)


def _markers_sent(run: LabelledRun, finding: LogFinding) -> list[dict[str, Any]]:
    """The markers of the producer of a finding that its coordinator sent."""
    frames, parts = run.evidence.table("frames"), run.evidence.table("frame_parts")
    mine = parts.filter(
        (pc.field("producer_id") == finding.producer_id)
        & (pc.field("producer_epoch") == finding.producer_epoch)
        & pc.is_valid(pc.field("coordinator_epoch"))
    )
    sent = frames.filter((pc.field("api") == WRITE_TXN_MARKERS) & pc.invert(pc.field("answer")))
    at = {row["number"]: row for row in sent.select(["number", "ms", "client"]).to_pylist()}
    return [
        row | at[row["number"]]
        for row in mine.select(["number", "coordinator_epoch"]).to_pylist()
        if row["number"] in at and at[row["number"]]["client"] in finding.nodes
    ]
