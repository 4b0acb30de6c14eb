"""What signatures ask of a finding in brokers' logs: its transaction, and its marker."""

from collections.abc import Iterator

import pyarrow.compute as pc

from checkers.engine.findings import LogFinding
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.logs.transactions import NEVER, Transaction, transaction_logs
from core.op import TopicPartition
from history.reader import OpRecord
from history.tables import TableRow


def transactional_ids(run: LabelledRun, finding: LogFinding) -> set[str]:
    """The transactional ids that a finding may be about."""
    if finding.transactional_id:
        return {finding.transactional_id}
    every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
    return {one.transactional_id for one in every}


def client_transactions(run: LabelledRun, finding: LogFinding) -> Iterator[OpRecord]:
    """The transaction of clients that a finding is about: the one that was under way then."""
    ops = (run.at_ms(name, finding.ms) for name in transactional_ids(run, finding))
    return (op for op in ops if op is not None)


def logged_transactions(run: LabelledRun, finding: LogFinding) -> list[Transaction]:
    """The transaction that a finding is about, as its coordinator wrote it down."""
    every = run.evidence.once(transaction_logs).of.get(finding.producer_id, ())
    ids = transactional_ids(run, finding)
    return [one for one in every if one.transactional_id in ids and one.began_ms == finding.ms]


def marker_at(run: LabelledRun, finding: LogFinding) -> TableRow | None:
    """The marker at the place of a finding; None = there is none."""
    log = run.survivor(finding.log)
    rows = run.evidence.of("control", finding.log)
    if log is None or not rows.num_rows:
        return None
    place = (pc.field("take") == log.take) & (pc.field("node") == log.node)
    found = rows.filter(place & (pc.field("offset") == finding.offset)).to_pylist()
    return found[0] if found else None


def rows_of_producer(run: LabelledRun, table: str, tp: TopicPartition, producer_id: int) -> list[TableRow]:
    """Rows of a producer in the log that a clean leader has at the end; none where no node had it."""
    log = run.survivor(tp)
    if log is None:
        return []
    place = (pc.field("take") == log.take) & (pc.field("node") == log.node)
    rows = run.evidence.of(table, tp).filter(place & (pc.field("producer_id") == producer_id))
    found: list[TableRow] = rows.to_pylist()
    return found


def between(run: LabelledRun, since_ns: int, ms: int, until_ns: int) -> bool:
    """A time of the brokers' clock lies between two of the run."""
    wall_ms = run.history.wall_ms
    return wall_ms(since_ns) - SLACK_MS <= ms <= wall_ms(until_ns) + SLACK_MS


def completed_ms(transaction: Transaction) -> int:
    """When its coordinator had written all markers; NEVER = it did not say so."""
    return transaction.completed_ms if transaction.completed >= 0 else NEVER
