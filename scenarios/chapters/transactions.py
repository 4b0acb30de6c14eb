"""Transactions.

A producer with a transactional id writes to several partitions atomically (KIP-98). The
decision is one record in the log of its coordinator; markers carry it to the partitions afterwards. In the
tables "Ongoing 2/0" is the state, the producer id (brokers give them out of blocks of 1000, KIP-730) and
the epoch. Transaction protocol 1, if nothing else is
said."""

from model.protocol.coordinator_messages import WriteTxnMarkers
from model.protocol.messages import Fetch
from model.settings import Settings
from scenarios.drivers.cluster import TV1, lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import BETWEEN_BROKERS, Steps, scenario


def _one() -> RawProducerStage:
    return RawProducerStage(lone(era=TV1))


@scenario(
    "Producer only: a transaction from begin to end",
    source="KIP-98",
    stage=_one,
    columns="""producer | coordinator | transaction log | partitions | log p0 | log p1
        | uncommitted p0 = read_uncommitted | committed p0 = read_committed""",
    not_played=BETWEEN_BROKERS,
)
def transaction_commit(s: RawProducerStage) -> Steps:
    """Two-phase commit over the transaction log."""
    s.init("A")
    yield """InitProducerId: a producer id and an epoch for the id, logged before they are answered.
        | ok | Empty 2/0 | Empty | – | – | – | – | –"""
    s.add("A", 0, 1)
    yield """AddPartitionsToTxn: the transaction begins. Its coordinator knows where markers will have to go.
        | ok | Ongoing 2/0 | Empty Ongoing | p0 p1 | – | – | – | –"""
    s.write("A", 0, "a").write("A", 1, "b")
    yield """Records are in the logs at once. Readers at read_uncommitted get them, others do not.
        | ok | Ongoing 2/0 | Empty Ongoing | p0 p1 | a | b | a | –"""
    s.hold(WriteTxnMarkers).end("A", commit=True)
    yield """EndTxn: the first phase. Once PrepareCommit is in the transaction log nothing can abort the
        transaction any more, and the producer hears of it. The markers are on their way.
        | ok | PrepareCommit 2/0 | Empty Ongoing PrepareCommit | p0 p1 | a | b | a | –"""
    s.release()
    yield """The second phase: a marker in every partition, then CompleteCommit.
        | ok | CompleteCommit 2/0 | Empty Ongoing PrepareCommit CompleteCommit | – | a [commit] | b [commit]
        | a | a"""


@scenario(
    "Aborted records and the two isolation levels",
    source="KIP-98; Kafka: `TransactionIndex`, `Fetcher`",
    stage=_one,
    columns="""log | LSO | aborted index | read_uncommitted | read_committed
        | from 2 on = read_committed from 2""",
)
def isolation(s: RawProducerStage) -> Steps:
    """Brokers filter nothing. Consumers at read_committed get everything below the last stable
    offset, with a list of aborted transactions, and pass over these on their own."""
    s.init("A").init("B", "u").add("A", 0).add("B", 0).write("A", 0, "a1").write("B", 0, "b1")
    s.write("A", 0, "a2")
    yield "Two open transactions. | a1 b1 a2 | 0 | – | a1 b1 a2 | – | –"
    s.end("B", commit=True)
    yield """B commits. Readers at read_committed still stop at the first record of A's, which is open.
        | a1 b1 a2 [commit] | 0 | – | a1 b1 a2 | – | –"""
    s.end("A", commit=False)
    yield """A aborts. Its records stay in the log; the aborted index says from where to where (producer id,
        first offset, offset of the marker), and fetches at read_committed bring it along, also to who begins
        in the middle.
        | a1 b1 a2 [commit] [abort] | 5 | (2, 0, 4) | a1 b1 a2 | b1 | –"""
    s.add("A", 0).write("A", 0, "a3").end("A", commit=True)
    yield """The same producer id commits its next transaction. The reader passes over what lies between the
        first offset and the marker, not what came after.
        | a1 b1 a2 [commit] [abort] a3 [commit] | 7 | (2, 0, 4) | a1 b1 a2 a3 | b1 a3 | a3"""


@scenario(
    "The last stable offset",
    source="KIP-98; Kafka: `ProducerStateManager.firstUnstableOffset`",
    stage=lambda: RawProducerStage(Settings(era=TV1), ((1, 2), (1, 2)), (3, 4)),
    columns="log | HW | LSO | read_committed",
    not_played=BETWEEN_BROKERS,
)
def last_stable_offset(s: RawProducerStage) -> Steps:
    """The LSO is the first offset of a transaction that is open, or whose marker is not
    replicated yet; the high watermark where there is none."""
    s.init("A").write("P", 0, "x", plain=True).wait(1000)
    yield "No transaction is open: LSO = HW. | x | 1 | 1 | x"
    s.add("A", 0).write("A", 0, "a").write("P", 0, "y", plain=True).wait(1000)
    yield """The LSO stays at the first record of an open transaction. y, of no transaction, is behind it and
        has to wait too: readers at read_committed get everything in its order.
        | x a y | 3 | 1 | x"""
    s.hold(Fetch, of=2, times=1).wait(1000)
    yield "The follower's next fetch is delayed. | x a y | 3 | 1 | x"
    s.end("A", commit=True)
    yield """The marker is written, but not replicated: it could still be lost, so the LSO does not move.
        | x a y [commit] | 3 | 1 | x"""
    s.release().wait(1000)
    yield "Now it is. | x a y [commit] | 4 | 4 | x a y"


@scenario(
    "Consume, transform, produce",
    source="KIP-98, KIP-447",
    stage=_one,
    columns="coordinator | partitions | log | committed offset = offset of in | read_committed | producer",
)
def consume_transform_produce(s: RawProducerStage) -> Steps:
    """The offsets of what was read are part of the transaction that writes what resulted from it: each record
    counts exactly once."""
    s.init("A").add("A", 0).write("A", 0, "a").add_group("A")
    yield """The application read records 0 to 2 and wrote a for them. AddOffsetsToTxn: the partition of
        __consumer_offsets that has its group joins the transaction.
        | Ongoing 2/0 | offsets p0 | a | none | – | ok"""
    s.offsets("A", 3)
    yield """TxnOffsetCommit, to the group's coordinator: 3 is pending. A member that asks has to come back,
        since an older answer would let a member read the same records again (KIP-447).
        | Ongoing 2/0 | offsets p0 | a | UNSTABLE_OFFSET_COMMIT | – | ok"""
    s.end("A", commit=True)
    yield """The markers make the output visible and the offset effective: both or none.
        | CompleteCommit 2/0 | – | a [commit] | 3 | a | ok"""
    s.add("A", 0).write("A", 0, "b").add_group("A").offsets("A", 6).end("A", commit=False)
    yield """The next three records are copied and aborted: the offset stays. The application has to go back
        to it on its own; its consumer does not (KAFKA-17582).
        | CompleteAbort 2/0 | – | a [commit] b [abort] | 3 | a | ok"""


@scenario(
    "Consumer only: a transaction of offsets",
    source="KIP-98",
    stage=_one,
    columns="coordinator | partitions | committed offset = offset of in",
)
def consumer_only(s: RawProducerStage) -> Steps:
    """A transaction without records."""
    s.init("A")
    yield "The application filters: of what it read nothing is to be written. | Empty 2/0 | – | none"
    s.add_group("A").offsets("A", 3)
    yield "The transaction has one partition, of offsets. | Ongoing 2/0 | offsets | UNSTABLE_OFFSET_COMMIT"
    s.end("A", commit=True)
    yield "It is atomic with nothing else, and fenced like any other. | CompleteCommit 2/0 | – | 3"
