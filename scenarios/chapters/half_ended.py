"""Transactions that end in half of their partitions.

Two weaknesses of Kafka 4.3. A new coordinator acts upon what it has read before that is committed (all
versions): if it dies before another replica has it, the next coordinator knows nothing of it and acts
otherwise. And a coordinator takes a partition without a leader for a deleted one (KAFKA-20734, since 4.3)."""

from dataclasses import replace

from model.eras import ERAS, Era
from model.protocol.coordinator_messages import WriteTxnMarkers
from model.protocol.messages import Fetch
from model.settings import Settings
from scenarios.drivers.cluster import TV1
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS, Steps, scenario

MENDED = replace(TV1, acts_when_committed=True)
LONG_MS = 900_000
ABORTED = """producer | B = B learns | led by | coordinator | log p0 | log p1 | read_committed p0
    | p1 = read_committed p1"""
HIDDEN = "producer | led by | coordinator | partitions | log p0 | log p1 | read_committed p0 | LSO p1"
LEADERLESS = "producer | coordinator | log p0 | log p1 | read_committed p0 | LSO p1"


def _apart(era: Era = TV1) -> RawProducerStage:
    """Brokers 1, 2, 3 coordinate, 4 and 5 have the data."""
    return RawProducerStage(Settings(era=era), ((4, 5), (5, 4)), (1, 2, 3))


@scenario(
    "A decision that is not replicated is acted upon",
    source="Kafka: `TransactionStateManager.loadTransactionMetadata`",
    stage=_apart,
    columns="""producer | led by | PrepareCommit at | coordinator | log p0 | log p1 | read_committed p0
        | p1 = read_committed p1""",
    not_played=BETWEEN_BROKERS,
)
def decision_acted_upon(s: RawProducerStage) -> Steps:
    """A new coordinator reads its log to the end, and must: a committed decision may lie beyond its high
    watermark. But it acts upon what it read before that is committed: it sends markers for each prepared
    transaction. If it dies then, another member of the in-sync set decides again, and may decide otherwise:
    the transaction is torn. That takes a follower that cannot fetch for a moment, and two deaths of
    coordinators before it has left the in-sync set. Kafka does so with acks=all, min.insync.replicas=2 and
    clean elections (3.3.2, 3.9.1, 4.0.2 and 4.3.1 were tried); the group coordinator waits since
    KAFKA-16973. `inquest bugs reproduce uncommitted-abort` shows a worse variant on real brokers, in which
    the commit is acknowledged (docs/findings/uncommitted-transaction-state.md)."""
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b").wait(600)
    s.hold(Fetch, of=2, to=3).wait(600).end("A", commit=True)
    yield """EndTxn: PrepareCommit is in the logs of brokers 3 and 1, not yet in that of broker 2. The
        producer waits.
        | waits | 3 | 1 3 | Ongoing 2002/0 | a | b | – | –"""
    s.hold(Fetch, of=2, to=1, times=2).hold(WriteTxnMarkers, to=5).crash(3).lose(Fetch).wait(4000)
    yield """Broker 3 dies, and the producer's process too. Broker 1 reads PrepareCommit in its log and sends
        the markers; the one for p1 is delayed.
        | unknown | 1 | 1 | PrepareCommit 2002/0 | a [commit] | b | a | –"""
    s.crash(1).let().lose().wait(4000)
    yield """Broker 1 dies before broker 2, which is in sync all the time, has fetched the record. For broker
        2 the transaction is open.
        | unknown | 2 | – | Ongoing 2002/0 | a [commit] | b | a | –"""
    s.restart(3).wait(12_000)
    yield """Broker 3 comes back and cuts its log to that of broker 2. The transaction's time has run out: it
        is aborted. Half of it is read.
        | unknown | 2 | – | CompleteAbort 2002/1 | a [commit] [abort] | b [abort] | a | –"""


def _abort_forgotten(s: RawProducerStage, sent: str, forgotten: str, ended: str) -> Steps:
    """B fences A; of the three coordinators only 3 and 1 have PrepareAbort. 3 dies, then 1; A commits."""
    s.init("A", timeout=LONG_MS)
    if s.settings.era.client_transaction_version == 1:
        s.add("A", 0, 1)
    s.write("A", 0, "a").write("A", 1, "b").wait(600).hold(Fetch, of=2, to=3).wait(600).init("B", again=False)
    yield """A second instance B begins: A's transaction has to be aborted first. PrepareAbort is in
        the logs of brokers 3 and 1, not yet in that of broker 2, which is in sync. B waits.
        | ok | waits | 3 | Ongoing 2002/0 | a | b | – | –"""
    s.hold(Fetch, of=2, to=1, times=2).hold(WriteTxnMarkers, to=5).crash(3).lose(Fetch).wait(4000)
    yield sent
    s.crash(1).let().lose().wait(4000)
    yield forgotten
    s.restart(3).wait(2000).end("A", commit=True).wait(1000)
    yield ended


@scenario(
    "An acknowledged commit, half of it aborted",
    source="KIP-98; docs/findings/uncommitted-transaction-state.md",
    stage=_apart,
    columns=ABORTED,
    not_played=BETWEEN_BROKERS,
)
def acknowledged_abort(s: RawProducerStage) -> Steps:
    """The same, where the decision that gets lost is the abort of a second instance of the producer: the
    first instance commits, and the commit is acknowledged. On real brokers: `inquest bugs reproduce
    uncommitted-abort`."""
    return _abort_forgotten(
        s,
        """Broker 3 dies. Broker 1 reads PrepareAbort in its log and sends abort markers at once;
        the one for p1 is delayed.
        | ok | unknown | 1 | PrepareAbort 2002/1 | a [abort] | b | – | –""",
        """Broker 1 dies before broker 2 has fetched the record. For broker 2 the transaction is
        open, in the epoch of A.
        | ok | unknown | 2 | Ongoing 2002/0 | a [abort] | b | – | –""",
        """Broker 3 comes back, and A commits: it gets the answer that this is done. The leader of p0
        refuses the marker, whose epoch is an old one; so the end never completes either.
        | ok | unknown | 2 | PrepareCommit 2002/0 | a [abort] | b [commit] | – | b""",
    )


@scenario(
    "The same with clients of transaction version 2",
    source="KAFKA-19999; docs/findings/uncommitted-transaction-state.md",
    stage=lambda: _apart(ERAS["4.3"]),
    columns=ABORTED,
    not_played=BETWEEN_BROKERS,
)
def acknowledged_abort_v2(s: RawProducerStage) -> Steps:
    """No error appears anywhere."""
    return _abort_forgotten(
        s,
        """Broker 3 dies. Broker 1 sends abort markers at once; the one for p1 is delayed.
        | ok | unknown | 1 | PrepareAbort 2002/1 | a [abort] | b | – | –""",
        """Broker 1 dies. For broker 2 the transaction is open.
        | ok | unknown | 2 | Ongoing 2002/0 | a [abort] | b | – | –""",
        """A commits: it gets the answer that this is done. Its marker has the epoch of the abort marker, so
        the leader of p0 takes it for one that is written already.
        | ok | unknown | 2 | CompleteCommit 2002/1 | a [abort] [commit] | b [commit] | – | b""",
    )


@scenario(
    "The same where a coordinator acts when it may",
    source="KAFKA-16973 (the group coordinator does so)",
    stage=lambda: _apart(MENDED),
    columns=ABORTED,
    not_played=BETWEEN_BROKERS,
)
def acknowledged_abort_mended(s: RawProducerStage) -> Steps:
    """A coordinator that loads does nothing before all that it has read is committed. No release of Kafka
    has this rule. Its price: where the log has fewer replicas in sync than its minimum, and an end that is
    not committed, the coordinator stays unavailable."""
    return _abort_forgotten(
        s,
        """Broker 3 dies. Broker 1 has read PrepareAbort, and waits until broker 2 has it too: no
        marker goes out.
        | ok | unknown | 1 | – | a | b | – | –""",
        """Broker 1 dies. For broker 2 the transaction is open, and so it is everywhere.
        | ok | unknown | 2 | Ongoing 2002/0 | a | b | – | –""",
        """A commits, all of it. B has not been answered, and will have to ask again.
        | ok | unknown | 2 | CompleteCommit 2002/0 | a [commit] | b [commit] | a | b""",
    )


def _added_at_two(s: RawProducerStage) -> None:
    """Of the three coordinators only 3 and 1 learn that p1 belongs to the transaction. Then 3 dies."""
    s.init("A", timeout=LONG_MS).add("A", 0).write("A", 0, "a").wait(600)
    s.hold(Fetch, of=2, to=3).wait(600).add("A", 1)


@scenario(
    "An acknowledged commit, one partition never ends",
    source="KIP-98; docs/findings/uncommitted-transaction-state.md",
    stage=_apart,
    columns=HIDDEN,
    not_played=BETWEEN_BROKERS,
)
def acknowledged_hidden(s: RawProducerStage) -> Steps:
    """A coordinator tells a producer what it has read: that the partition belongs to the transaction already.
    The next coordinator does not know the partition. On real brokers: `inquest bugs reproduce
    uncommitted-partition`."""
    _added_at_two(s)
    yield """A transaction has a record in p0. p1 joins: the record of that is in the logs of brokers
        3 and 1, not yet in that of broker 2. The producer waits.
        | waits | 3 | Ongoing 2002/0 | p0 | a | – | – | 0"""
    s.hold(Fetch, of=2, to=1, times=9).crash(3).lose(Fetch).wait(4000).add("A", 1).write("A", 1, "b")
    yield """Broker 3 dies. Broker 1 has read that p1 belongs to the transaction, and says so at once
        when the producer asks again. The producer writes to p1, and gets its acknowledgement.
        | ok | 1 | Ongoing 2002/0 | p0 p1 | a | b | – | 0"""
    s.crash(1).let().lose().wait(4000)
    yield """Broker 1 dies before broker 2 has fetched the record. For broker 2 the transaction is in
        p0 only.
        | ok | 2 | Ongoing 2002/0 | p0 | a | b | – | 0"""
    s.restart(3).wait(2000).end("A", commit=True).wait(6000)
    yield """Broker 3 comes back. The producer commits, and gets the answer that this is done. No marker is
        ever written to p1: readers at read_committed see nothing there any more.
        | ok | 2 | CompleteCommit 2002/0 | – | a [commit] | b | a | 0"""


@scenario(
    "The same where a coordinator answers when it may",
    source="KAFKA-16973 (the group coordinator does so)",
    stage=lambda: _apart(MENDED),
    columns=HIDDEN,
    not_played=BETWEEN_BROKERS,
)
def acknowledged_hidden_mended(s: RawProducerStage) -> Steps:
    """The producer is sent away until what the coordinator has read is committed."""
    _added_at_two(s)
    yield """p1 joins, as before: broker 2 does not know it yet.
        | waits | 3 | Ongoing 2002/0 | p0 | a | – | – | 0"""
    s.hold(Fetch, of=2, to=1, times=9).crash(3).lose(Fetch).wait(4000).add("A", 1)
    yield """Broker 3 dies. Broker 1 waits until all that it has read is committed, and sends the
        producer away.
        | COORDINATOR_LOAD_IN_PROGRESS | 1 | – | – | a | – | – | 0"""
    s.crash(1).let().lose().wait(4000).restart(3).wait(2000)
    yield """Broker 1 dies as well, broker 3 comes back. For broker 2 the transaction is in p0 only.
        No client has another answer.
        | COORDINATOR_LOAD_IN_PROGRESS | 2 | Ongoing 2002/0 | p0 | a | – | – | 0"""
    s.add("A", 1).write("A", 1, "b").end("A", commit=True).wait(1000)
    yield """The producer asks once more. Now p1 joins; the transaction ends in both partitions.
        | ok | 2 | CompleteCommit 2002/0 | – | a [commit] | b [commit] | a | 2"""


def _one_pair_down(s: RawProducerStage, down: str, ended: str, back: str) -> Steps:
    """Brokers 4 and 5, which have p1, are down while the transaction ends."""
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b").wait(600).crash(5).crash(4).wait(4000)
    yield down
    s.end("A", commit=True).wait(1000)
    yield ended
    s.restart(4).restart(5).wait(6000)
    yield back


def _two_pairs(era: Era = TV1) -> RawProducerStage:
    """Brokers 1, 2, 3 coordinate; 1 and 2 have p0, 4 and 5 have p1."""
    return RawProducerStage(Settings(era=era), ((1, 2), (4, 5)), (1, 2, 3))


@scenario(
    "A partition without a leader counts as deleted",
    source="KAFKA-20734 (since 4.3)",
    stage=_two_pairs,
    columns=LEADERLESS,
    not_played=SEVERAL_BROKERS,
)
def leaderless_partition(s: RawProducerStage) -> Steps:
    """A coordinator that finds no leader of a partition takes the partition for deleted: it leaves the marker
    out and ends the transaction. On real brokers: `inquest bugs reproduce kafka-20734`."""
    return _one_pair_down(
        s,
        """A transaction is open in p0 and p1. Brokers 5 and 4 die, which hold p1: it has no leader.
        | ok | Ongoing 2002/0 | a | down | – | –""",
        """The producer commits, and gets the answer that this is done. The coordinator leaves out the
        marker of p1: the transaction is complete.
        | ok | CompleteCommit 2002/0 | a [commit] | down | a | –""",
        """Both brokers come back, with the record. No marker is ever written to it: the last stable
        offset stays.
        | ok | CompleteCommit 2002/0 | a [commit] | b | a | 0""",
    )


@scenario(
    "The same up to 4.2",
    source="KAFKA-20734",
    stage=lambda: _two_pairs(ERAS["4.2-tv1"]),
    columns=LEADERLESS,
    not_played=SEVERAL_BROKERS,
)
def leaderless_partition_before(s: RawProducerStage) -> Steps:
    """The coordinator waits for a leader."""
    return _one_pair_down(
        s,
        """As before: p1 has no leader.
        | ok | Ongoing 2002/0 | a | down | – | –""",
        """The producer commits, and gets the answer that this is done. The marker of p1 waits: the
        transaction is not complete.
        | ok | PrepareCommit 2002/0 | a [commit] | down | a | –""",
        """Both brokers come back, and p1 gets its marker.
        | ok | CompleteCommit 2002/0 | a [commit] | b [commit] | a | 2""",
    )
