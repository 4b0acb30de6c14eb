"""A record came after the end of its transaction, and holds a transaction open."""

from typing import Final

import pyarrow.compute as pc

from checkers.checks.stability import HANGING, STUCK, HangingTransaction, StuckLso
from checkers.engine.findings import OK, LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion, coordinators_answered, first_open, unclaimed
from checkers.logs.classes import HANGING as HANGING_PARTITION
from checkers.logs.decisions import MARKED, NAMED
from checkers.windows import is_true
from core.op import TopicPartition
from model.log.unified_log import NO_PRODUCER

VERIFICATION: Final = "transaction.partition.verification.enable"

VERIFIED: Final = (3, 6)
"""First version whose brokers ask the coordinator before they add a transaction's first record."""
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


def _verifies(run: LabelledRun, ns: int | None = None) -> bool:
    """Brokers ask the coordinator before they add a transaction's first record to a partition; so may all
    whose version is not on record. ns: when the record was made, None = unknown."""
    settings = run.history.config.get("broker_settings", {})
    return is_true(settings.get(VERIFICATION, "true")) and not run.versions.some_before(VERIFIED, ns)


def _unverified_in_logs(run: LabelledRun, finding: LogFinding) -> bool:
    batch = run.batch(finding.log, finding.offset)
    made_ns = None if batch is None else run.ns_of(int(batch["base_timestamp"]))
    return not _verifies(run, made_ns) and record_came_late(run, finding)


def record_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """A marker of the producer stands before the records that are open, and was written after their client
    had made them."""
    return finding.check in (MARKED, NAMED) and came_after_marker(
        run, finding.log, finding.offset, finding.producer_id
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


BUG: Final = KnownBug(
    title="Transaction left open by a record that came after its end (KIP-890, part 1)",
    url="https://issues.apache.org/jira/browse/KAFKA-14402",
    link="KAFKA-14402",
    versions="KIP-890, part 1, also KAFKA-12671; brokers 0.11 to 3.5, and later ones with"
    " `transaction.partition.verification.enable=false`",
    doc="""\
A network delays a produce request of a transaction. The client gives up and aborts, and the partition's
leader writes the marker. Then the request arrives, and the leader appends it. The coordinator knows of no
open transaction and never ends this one: the last stable offset stays there, and read_committed consumers
wait for ever. Since 3.6 brokers ask the coordinator before they append.""",
    evidence="The partition's leader lists an open transaction at the last stable offset, the"
    " coordinator that knows its producer id answered and does not claim it, and brokers do not"
    " verify transactions"
    " (`transaction.partition.verification.enable` is false, or Kafka is older than 3.6). No broker"
    " acknowledged the record at that offset, and its transaction was not committed. Where the"
    " partition's log is on record, and of findings in brokers' logs: the last marker of that producer"
    " stands before the record, and is younger than the record. Brokers before 3.0 cannot list what is open"
    " and who coordinates it: there that log is needed, and is enough.",
    anomalies=(STUCK, HANGING),
    match=_unverified,
    in_logs={HANGING_PARTITION: _unverified_in_logs},
)
