"""A leader's index of aborted transactions does not name all of them to fetches: consumers take their records
for committed.

To clients this looks like a transaction that was decided wrongly (`uncommitted_state`, `kafka_20734`). Here
all replicas have its marker, and have it in their indexes: the node that was read from does not look so far.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from checkers.checks.isolation import ABORTED
from checkers.engine.evidence import Wanted
from checkers.engine.findings import NEVER, Finding, Level, Shown, What
from checkers.known_bugs.broker_versions import Version
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun, batch_at
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.replicas import ReplicaLog
from core.op import TopicPartition
from history.evidence import Evidence


class Entry(NamedTuple):
    """A transaction in a node's aborted index. segment: base offset of the segment whose index it is in.
    first, last: its first offset and that of its marker. last_stable: the last stable offset behind it."""

    segment: int
    producer_id: int
    first: int
    last: int
    last_stable: int

    @property
    def too_high(self) -> bool:
        """No transaction that was open at the marker explains the last stable offset: one would have begun
        below the marker, and without one it is the next offset."""
        return self.last_stable > self.last + 1


Indexes = Mapping[tuple[int, int], Sequence[Entry]]
"""Take and node -> its aborted index, in the order of the log."""


def indexes(evidence: Evidence) -> Mapping[TopicPartition, Indexes]:
    """Of each partition the aborted indexes that have an entry which is too high."""
    found: dict[TopicPartition, dict[tuple[int, int], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(evidence.table("aborted").to_pylist(), key=lambda row: int(row["last"])):
        entry = Entry(*(row[name] for name in Entry._fields))
        found[TopicPartition(row["topic"], row["partition"])][row["take"], row["node"]].append(entry)
    return {
        tp: {where: some for where, some in every.items() if any(one.too_high for one in some)}
        for tp, every in found.items()
    }


def _looks_no_further(version: Version) -> bool:
    """Fetches of these brokers end the look-up at an entry, as KAFKA-806 meant them to."""
    return version >= (4, 0, 1) or (3, 9, 1) <= version < (4,)


def _wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    versions = run.versions.known
    if versions and not any(_looks_no_further(one) for one in versions):
        return None
    known = finding.variant == Level.RC and run.evidence.once(indexes).get(run.partition(finding.tp))
    return Wanted() if known else None


def index_skips(suspicion: Suspicion) -> bool:
    """A node that led while the record was read has the record's transaction in its index behind an entry
    that is too high."""
    run = suspicion.run
    (read,) = suspicion.finding.only(What.READ)
    tp = run.partition(read.tp)
    every, leaders = run.evidence.once(indexes)[tp], {*_leaders(run, tp, read)}
    return any(
        log.node in leaders and _skipped(log, every.get((log.take, log.node), ()), read.offset)
        for log in run.logs(tp)
    )


def _leaders(run: LabelledRun, tp: TopicPartition, read: Shown) -> Iterator[int]:
    """Nodes that led the partition while an op read this record."""
    since_ms = run.history.wall_ms(run.history.op(read.op).invoke_ns) - SLACK_MS
    until_ms = run.history.wall_ms(read.done_ns) + SLACK_MS
    found = run.lineage(tp).found
    for one, end_ms in zip(found, [*(one.ms for one in found[1:]), NEVER], strict=False):
        if one.ms <= until_ms and since_ms <= end_ms:
            yield one.leader


def _skipped(log: ReplicaLog, index: Sequence[Entry], offset: int) -> bool:
    """A fetch of the record at this offset, from this log, finds an entry that is too high before that of the
    record's transaction, and ends there. It looks from the record's segment on, and up to the end of what it
    returns: that is behind the record."""
    batch = batch_at(log, offset)
    if batch is None:
        return False
    mine = [
        one for one in index if one.producer_id == batch["producer_id"] and one.first <= offset < one.last
    ]
    return any(
        one.too_high and one.last_stable > offset and one.segment >= batch["segment"]
        for entry in mine
        for one in index
        if one.last < entry.last
    )


BUG: Final = KnownBug(
    title="A replica that caught up hides aborted transactions from fetches when it leads",
    url="findings/aborted-index-skips.md",
    link="the report",
    versions="brokers 3.9.1, 4.0.1, 4.1 to 4.4; open",
    doc="""\
With each aborted transaction a replica notes where the last stable offset is behind its marker. A leader
appends one batch at a time. A follower appends all that a fetch brought: it takes note of all transactions
first, and asks for the last stable offset then. Where none was open at the marker it gets the beginning of a
transaction of another producer that lies behind it, and notes a last stable offset that is too high.

A fetch at read_committed reads that index up to the first entry whose last stable offset is not below the
end of what it returns (`TransactionIndex.collectAbortedTxns`): later entries cannot matter, if the offset is
right. Where it is too high they do. So once such a replica leads, its answers do not name
the aborted transactions behind that entry, and consumers take their records for committed ones.

Seen in a run of `transactions` under `partition,upgrade:whole` from 4.1.2 to 4.4.0: node 1 had noted 9591
behind the marker at 8794, led later, and gave out 91 records of the aborted transactions between. Such
entries are common on followers, and are harmless there: [aborted-index](log-rules.md) permits them.""",
    evidence="Some broker had 3.9.1 or a later 3.9, or 4.0.1 or later, as far as versions are on record. The"
    " metadata log says that a node led the partition while an op at read_committed read the record."
    " That node's aborted index has the record's transaction. Before it, in the record's segment or a"
    " later one, it has an entry whose last stable offset is above the offset next to its own marker,"
    " though a transaction that was open there would have begun below it; and that last stable offset is"
    " above the record's offset, as it is not below the end of what the fetch returned.",
    anomalies=(ABORTED,),
    match=index_skips,
    wanted=_wanted,
)
