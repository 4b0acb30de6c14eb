"""A leader's index of aborted transactions does not name all of them to fetches: consumers take their records
for committed.

To clients this looks like a transaction that was decided wrongly (`uncommitted_state`, `kafka_20734`). Here
all replicas have its marker, and have it in their indexes: the node that was read from does not look so far.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST
from checkers.checks.integrity import PHANTOM, ForeignRecord
from checkers.checks.isolation import ABORTED
from checkers.checks.poll_order import SKIP, SKIP_INSIDE
from checkers.checks.share_groups import ABORTED as ABORTED_DELIVERY
from checkers.engine.evidence import Wanted
from checkers.engine.findings import NEVER, RC, Finding, Level, What
from checkers.known_bugs.broker_versions import Version
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun, batch_at
from checkers.known_bugs.transaction_fates import ENDINGS, Suspicion, Way, Written, all_explained, behind
from checkers.logs.replicas import ReplicaLog
from core.op import TopicPartition
from history.evidence import Evidence
from history.reader import OpRecord

ONE_RECORD: Final = (ABORTED, ABORTED_DELIVERY)
"""Classes of findings that are about one record of a transaction that is known to be aborted."""


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
    known = run.evidence.once(indexes)
    if finding.name == PHANTOM:
        sent = run.copied(finding) if isinstance(finding, ForeignRecord) else None
        return Wanted() if sent is not None and known.get(run.partition(sent.tp)) else None
    if finding.name in ONE_RECORD:
        committed = finding.name == ABORTED_DELIVERY or finding.variant == Level.RC
        return Wanted() if committed and known.get(run.partition(finding.tp)) else None
    found = behind(run, finding) if any(known.values()) else ()
    return Wanted(written=found) if found else None


def index_skips(suspicion: Suspicion) -> bool:
    """A node that may have answered the fetch of an aborted record has its transaction in its index behind an
    entry that is too high; likewise of what is visible of a transaction in doubt that was aborted."""
    if isinstance(suspicion.finding, ForeignRecord):
        return _copied(suspicion.run, suspicion.finding)
    if suspicion.finding.name not in ONE_RECORD:
        return all_explained(suspicion, _hidden)
    (sent,), (read,) = suspicion.finding.only(What.SEND), suspicion.finding.only(What.READ)
    return _may_skip(suspicion.run, read.tp, read.offset, sent.invoke_ns, read.done_ns)


def _copied(run: LabelledRun, finding: ForeignRecord) -> bool:
    """An application made a copy of such a record: it was given it at some time until the end."""
    sent, end_ns = run.copied(finding), run.history.op(finding.ops[0]).complete_ns
    if sent is None or not sent.txn or sent.place < 0:
        return False
    return _may_skip(run, sent.tp, sent.place, sent.invoke_ns, end_ns, from_ns=sent.invoke_ns)


def _hidden(suspicion: Suspicion, op: OpRecord) -> Mapping[int, Way]:
    """Partitions of a transaction in doubt where readers were given some of it, though it was aborted."""
    if op.outcome in ENDINGS:
        return {}
    places: dict[int, set[int]] = defaultdict(set)
    fetched = suspicion.fetched
    for row in fetched.sends.get(op.op, ()):
        reads = fetched.reads_of.get((row.tp, row.value), ())
        given = [read for read in reads if read.isolation == RC and read.op != op.op]
        if given and all(
            _may_skip(suspicion.run, row.tp, read.offset, row.invoke_ns, read.complete_ns) for read in given
        ):
            places[row.tp].add(row.place)
    return {tp: partial(_aborted, some) for tp, some in places.items()}


def _aborted(places: Set[int], rows: Sequence[Written], ended: bool) -> bool:
    """The transaction was aborted, and an index hid that from each read of a record."""
    return not ended and all(one.place in places for one in rows if one.visible)


def _may_skip(
    run: LabelledRun, number: int, offset: int, since_ns: int, until_ns: int, from_ns: int | None = None
) -> bool:
    """Some node that led the partition from when a record was sent until it was read hid that it was aborted.
    from_ns: it was read then at the earliest, at `until_ns` at the latest; None: just then.

    A client hands records out long after it fetched them, and asks the leader of that time. A node builds its
    index again when it starts after a death: the first take behind the read shows the index of that time.
    """
    if run.versions.known and not run.versions.some_between(_looks_no_further, since_ns, until_ns):
        return False
    tp = run.partition(number)
    every, leaders = run.evidence.once(indexes).get(tp, {}), {*_leaders(run, tp, since_ns, until_ns)}
    then: list[ReplicaLog] = []
    left, earliest_ns = set(leaders), until_ns if from_ns is None else from_ns
    for log in sorted(run.logs(tp), key=lambda log: (log.at_end, log.taken_ns)):
        if log.node in left and (log.at_end or log.taken_ns >= earliest_ns):
            then.append(log)
            left -= {log.node} if log.at_end or log.taken_ns >= until_ns else set()
    return any(_skipped(log, every.get((log.take, log.node), ()), offset) for log in then)


def _leaders(run: LabelledRun, tp: TopicPartition, since_ns: int, until_ns: int) -> Iterator[int]:
    """Nodes that led a partition between two times."""
    since_ms, until_ms = run.history.wall_ms(since_ns) - SLACK_MS, run.history.wall_ms(until_ns) + SLACK_MS
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
    page="findings/aborted-index-skips.md",
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
    evidence="The metadata log says that a node led the partition at some time from when the record was"
    " sent until a reader at read_committed, or a share group, was given it; within that time some broker"
    " had 3.9.1 or a later 3.9, or 4.0.1 or later, as far as versions are on record. That node's aborted"
    " index, as the first take of its files after that shows it, has the record's transaction. Before it, in"
    " the record's segment or a later one, it has an entry whose last stable offset is above the offset next"
    " to its own marker, though a transaction that was open there would have begun below it; and that last"
    " stable offset is above the record's offset, as it is not below the end of what the fetch returned."
    " Where the client does not know how its transaction ended, all that is visible of it was read so: then"
    " it was aborted, and that it counts as committed, for a part of it was read, explains torn-txn,"
    " lost-write and the skips (of readers at read_committed). Output of an application that names such a"
    " record (phantom-read): this was so at some time from the record's send until the output was read at"
    " the end.",
    anomalies=(ABORTED, ABORTED_DELIVERY, TORN, LOST, SKIP, SKIP_INSIDE, PHANTOM),
    match=index_skips,
    wanted=_wanted,
)
