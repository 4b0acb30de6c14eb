"""A record came after the end of its transaction, and holds a transaction open."""

from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Final

from checkers.checks.stability import HANGING, STUCK, HangingTransaction, StuckLso
from checkers.engine.findings import OK, LogFinding
from checkers.known_bugs.broker_versions import Version
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.late_requests import COMMITTING, late_requests
from checkers.known_bugs.log_findings import between, rows_of_producer, transactional_ids
from checkers.known_bugs.transaction_fates import Suspicion, coordinators_answered, first_open, unclaimed
from checkers.log_settings import is_true
from checkers.logs.classes import HANGING as HANGING_PARTITION
from checkers.logs.clocks import timely
from checkers.logs.decisions import MARKED, NAMED
from checkers.logs.transactions import transaction_logs
from core.internal_topics import GROUP_TOPIC
from core.op import TopicPartition
from history.tables import TableRow
from model.log.unified_log import NO_PRODUCER

VERIFICATION: Final = "transaction.partition.verification.enable"

VERIFIED: Final = (3, 6)
"""First version whose brokers ask the coordinator before they add a transaction's first record."""
OFFSETS_VERIFIED: Final = (3, 7)
"""First version whose coordinators of groups ask so before they store offsets (KAFKA-15784, KAFKA-15987)."""
TELLS: Final = (3, 0)
"""First version whose coordinators say which transactions they know."""


def _unverified(suspicion: Suspicion) -> bool:
    """The transaction that holds the partition's LSO is one that its coordinator does not claim, and
    brokers add records to a partition without asking the coordinator. It begins with a record that no broker
    acknowledged, of a transaction that was not committed; it stands after a younger marker of its producer,
    as far as the log is known. A coordinator that did not answer claims nothing: that proves nothing. Where
    none can be asked for open transactions, the log has to show it."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, StuckLso | HangingTransaction)
    opened, tp = unclaimed(finding), run.partition(finding.tp)
    if opened is not None:
        start, producer_id = opened.start, opened.producer_id
    elif _cannot_tell(run) and not coordinators_answered(finding):  # modelled ones of any era do
        start = finding.lso if isinstance(finding, StuckLso) else finding.opened.start
        batch = run.batch(tp, start)
        producer_id = NO_PRODUCER if batch is None else int(batch["producer_id"])
    else:
        return False
    first = first_open(suspicion.history, finding.tp, start)
    if _verifies(run, min((row.invoke_ns for row in first), default=None)):
        return False
    late = bool(first) and all(row.txn and row.outcome != OK and row.op_outcome != OK for row in first)
    proven = opened is not None and run.survivor(tp) is None
    return late and (proven or came_after_marker(run, tp, start, producer_id))


def _cannot_tell(run: LabelledRun) -> bool:
    """No broker knows the requests for open transactions and who coordinates them (KIP-664)."""
    return bool(run.versions.known) and not run.versions.some_since(TELLS)


def _verifies(run: LabelledRun, ns: int | None = None, *, since: Version = VERIFIED) -> bool:
    """Brokers ask the coordinator before they add a transaction's first record to a partition; so may all
    whose version is not on record. ns: when the record was made, None = unknown. since: the first version
    that asks."""
    settings = run.history.config.get("broker_settings", {})
    return is_true(settings.get(VERIFICATION, "true")) and not run.versions.some_before(since, ns)


def _unverified_in_logs(run: LabelledRun, finding: LogFinding) -> bool:
    batch = run.batch(finding.log, finding.offset)
    made_ns = None if batch is None else run.ns_of(int(batch["base_timestamp"]))
    since = OFFSETS_VERIFIED if finding.log.topic == GROUP_TOPIC else VERIFIED
    return not _verifies(run, made_ns, since=since) and record_came_late(run, finding)


def record_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """A marker of the producer stands before the records that are open, and was written after their client
    had made them, or had sent the offsets that they are."""
    if finding.check not in (MARKED, NAMED):
        return False
    if finding.log.topic == GROUP_TOPIC:
        return _offset_came_late(run, finding)
    return came_after_marker(run, finding.log, finding.offset, finding.producer_id)


def came_after_marker(run: LabelledRun, tp: TopicPartition, offset: int, producer_id: int) -> bool:
    """A record was appended after a marker of its producer that is younger than the record is; and no other
    marker followed. A producer that may give records other times than those of their making tells nothing."""
    batch, dated = run.batch(tp, offset), timely(run.history)
    every = run.evidence.once(transaction_logs).of.get(producer_id, ())
    if batch is None or batch["log_append_time"] or any(one.transactional_id not in dated for one in every):
        return False
    before = _markers_before(run, tp, offset, producer_id)
    return any(marker["timestamp"] > batch["base_timestamp"] for marker in before)


def _markers_before(run: LabelledRun, tp: TopicPartition, offset: int, producer_id: int) -> list[TableRow]:
    """The markers before a record of a producer; none where another one follows."""
    batch = run.batch(tp, offset)
    if batch is None or batch["producer_id"] != producer_id:
        return []
    markers = rows_of_producer(run, "control", tp, producer_id)
    if any(row["offset"] > offset for row in markers):
        return []
    return sorted(markers, key=itemgetter("offset"))


def _offset_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """A commit of offsets came behind the marker of its transaction. Its coordinator stamps it when it comes:
    a rule of the wire took it before the marker was written, and let it go just then; or the log has the same
    in that transaction, so that the client had asked again; or the client did not commit the transaction, as
    it does once it has the answer."""
    batch = run.batch(finding.log, finding.offset)
    markers = _markers_before(run, finding.log, finding.offset, finding.producer_id)
    marked_ms = max((marker["timestamp"] for marker in markers), default=-1)
    if batch is None or marked_ms < _decided_ms(run, finding, int(batch["base_timestamp"])):
        return False
    names = transactional_ids(run, finding)
    held = any(
        run.history.wall_ms(late.caught_ns) <= marked_ms
        and between(run, late.delivered_ns, int(batch["base_timestamp"]), late.answered_ns)
        for late in late_requests(run.history, COMMITTING)
        if not late.named.isdisjoint(names)
    )
    ended = (run.at_ms(name, marked_ms) for name in names)
    return held or _asked_again(run, finding, markers) or not any(op.outcome == OK for op in ended if op)


def _asked_again(run: LabelledRun, finding: LogFinding, markers: Sequence[TableRow]) -> bool:
    """What the producer committed behind its last marker, it had committed in the transaction of that one."""
    stored = rows_of_producer(run, "offset_log", finding.log, finding.producer_id)
    since, until = [-1, *(marker["offset"] for marker in markers)][-2:]
    what = itemgetter("producer_epoch", "group", "committed_topic", "committed_partition", "committed")
    before = {what(row) for row in stored if since < row["offset"] < until}
    late = {what(row) for row in stored if row["offset"] > until}
    return bool(late) and late <= before


def _decided_ms(run: LabelledRun, finding: LogFinding, until_ms: int) -> float:
    """When the last transaction before a time that has the partition of a finding was decided; infinity =
    none was."""
    every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
    decided = [each.ms for one in every for each in one.decisions if finding.log in each.partitions]
    return max((ms for ms in decided if ms <= until_ms), default=inf)


BUG: Final = KnownBug(
    title="Transaction left open by a record that came after its end (KIP-890, part 1)",
    link="KAFKA-14402",
    versions="KIP-890, part 1, also KAFKA-12671; brokers 0.11 to 3.5, of offsets that are"
    " committed in transactions to 3.6, and later ones with"
    " `transaction.partition.verification.enable=false`",
    doc="""\
A network delays a produce request of a transaction. The client gives up and aborts, and the partition's
leader writes the marker. Then the request arrives, and the leader appends it. The coordinator knows of no
open transaction and never ends this one: the last stable offset stays there, and read_committed consumers
wait for ever. Since 3.6 brokers ask the coordinator before they append. Commits of offsets in transactions
(TxnOffsetCommit) come late in the same way; the coordinators of groups ask since 3.7.""",
    evidence="The partition's leader lists an open transaction at the last stable offset, the coordinator"
    " that knows its producer id answered and does not claim it, and brokers do not verify transactions"
    " (`transaction.partition.verification.enable` is false, or Kafka is older than 3.6). No broker"
    " acknowledged the record at that offset, and its transaction was not committed. Where the partition's"
    " log is on record, and of findings in brokers' logs: the last marker of that producer stands before the"
    " record, and is younger than the record; of applications, and of programs of the user's, whose records"
    " may have any time, no log shows that. A coordinator of groups stamps an offset when it comes: there"
    " a rule of the nemesis `wire` took the commit before that marker was written, and it came when the"
    " record was stored; or the log has the same offsets in the transaction that the marker ended, too; or"
    " the client did not commit the transaction that the marker ended; that is the last one that was decided"
    " before; and Kafka may be older than 3.7. Brokers before 3.0 cannot list what is open and who"
    " coordinates it: there that log is needed, and is enough.",
    anomalies=(STUCK, HANGING),
    match=_unverified,
    in_logs={HANGING_PARTITION: _unverified_in_logs},
)
