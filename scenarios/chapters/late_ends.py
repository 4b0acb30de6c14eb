"""The end of a transaction arrives late.

With transaction protocol 1 a producer's epoch stays the same from one transaction to the next.
Every request between client and coordinator may be delayed, and the client may have asked again meanwhile.
librdkafka (as of 2.16) and Java clients before 4.0 speak no other, whatever the brokers can do; Jepsen found
what follows in Kafka 3.8 (KAFKA-17754). Protocol 2 (KIP-890, second part) gives each transaction an epoch of
its own."""

from model.protocol.coordinator_messages import EndTxn
from scenarios.drivers.cluster import TV1, lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import Steps, scenario

ENDS = "producer | coordinator | log p0 | log p1 | read_committed p0 | p1 = read_committed p1"


def _one() -> RawProducerStage:
    return RawProducerStage(lone(era=TV1))


def _until_late(s: RawProducerStage, *, commit: bool) -> None:
    """Transaction 1 is ended by the second copy of its EndTxn; the first one is under way."""
    s.init("A").add("A", 0).write("A", 0, "a1").hold(EndTxn)
    s.end("A", commit=commit).give_up().end("A", commit=commit)


@scenario("A late commit ends the next transaction", source="KAFKA-17754", stage=_one, columns=ENDS)
def late_commit(s: RawProducerStage) -> Steps:
    """Aborted reads: what was aborted is read."""
    _until_late(s, commit=True)
    yield """Transaction 1 wrote a1. Its EndTxn (commit) is delayed; the client asks again on a new
        connection, and that copy does it.
        | ok | CompleteCommit 2/0 | a1 [commit] | – | a1 | –"""
    s.add("A", 0).write("A", 0, "a2")
    yield "Transaction 2, with the same epoch, writes a2. | ok | Ongoing 2/0 | a1 [commit] a2 | – | a1 | –"
    s.release()
    yield """The delayed copy arrives: the coordinator finds an open transaction with that epoch and commits
        it.
        | ok | CompleteCommit 2/0 | a1 [commit] a2 [commit] | – | a1 a2 | –"""
    s.add("A", 1).write("A", 1, "b2")
    yield """The client knows nothing of that. A new partition opens a transaction again.
        | ok | Ongoing 2/0 | a1 [commit] a2 [commit] | b2 | a1 a2 | –"""
    s.end("A", commit=False)
    yield """It aborts, and gets the answer that this was done: but a2 is read.
        | ok | CompleteAbort 2/0 | a1 [commit] a2 [commit] | b2 [abort] | a1 a2 | –"""


@scenario("A late abort ends the next transaction", source="KAFKA-17754", stage=_one, columns=ENDS)
def late_abort(s: RawProducerStage) -> Steps:
    """Lost writes: part of a committed transaction is missing."""
    _until_late(s, commit=False)
    yield """Transaction 1 was aborted; one copy of its EndTxn is under way.
        | ok | CompleteAbort 2/0 | a1 [abort] | – | – | –"""
    s.add("A", 0).write("A", 0, "a2").release()
    yield """Transaction 2 writes a2; then the copy arrives and aborts it.
        | ok | CompleteAbort 2/0 | a1 [abort] a2 [abort] | – | – | –"""
    s.add("A", 1).write("A", 1, "b2").end("A", commit=True)
    yield """Transaction 2 writes b2 to another partition and commits. It gets the answer that this was done:
        a2 is lost, and the transaction torn.
        | ok | CompleteCommit 2/0 | a1 [abort] a2 [abort] | b2 [commit] | – | b2"""


@scenario("The same without a new partition", source="KAFKA-17754", stage=_one, columns=ENDS)
def late_end_noticed(s: RawProducerStage) -> Steps:
    """Then the client notices, and can only give up."""
    _until_late(s, commit=True)
    s.add("A", 0).write("A", 0, "a2").release()
    yield """As before, the late copy has committed transaction 2.
        | ok | CompleteCommit 2/0 | a1 [commit] a2 [commit] | – | a1 a2 | –"""
    s.end("A", commit=False)
    yield """No new partition follows. The client's own EndTxn meets another end: an error that ends the
        producer, which cannot say what happened to transaction 2.
        | INVALID_TXN_STATE | CompleteCommit 2/0 | a1 [commit] a2 [commit] | – | a1 a2 | –"""


@scenario(
    "The late end comes before the next transaction begins",
    source="Kafka: `TransactionCoordinator.endTransaction`",
    stage=_one,
    columns=ENDS,
)
def late_end_early(s: RawProducerStage) -> Steps:
    """An end may be asked for as often as needed."""
    _until_late(s, commit=True)
    yield "One copy of EndTxn is under way. | ok | CompleteCommit 2/0 | a1 [commit] | – | a1 | –"
    s.release()
    yield """It arrives before the next transaction begins: that end was reached already, which is the answer.
        | ok | CompleteCommit 2/0 | a1 [commit] | – | a1 | –"""
    s.add("A", 0).write("A", 0, "a2").end("A", commit=False)
    yield """The next transaction is not concerned.
        | ok | CompleteAbort 2/0 | a1 [commit] a2 [abort] | – | a1 | –"""


@scenario(
    "Protocol 2: an epoch for each transaction",
    source="KIP-890, part 2; Kafka 4.0",
    stage=RawProducerStage,
    columns="producer | coordinator | A | log p0 | log p1 | read_committed p0",
)
def late_end_refused(s: RawProducerStage) -> Steps:
    """EndTxn raises the epoch, and its answer tells the producer. AddPartitionsToTxn is not
    needed any more: leaders add their partitions themselves."""
    s.init("A").write("A", 0, "a1")
    yield """The leader adds its partition to the transaction itself, before it appends.
        | ok | Ongoing 2/0 | 2/0 | a1 | – | –"""
    s.hold(EndTxn).end("A", commit=True).give_up().end("A", commit=True)
    yield """EndTxn (commit, epoch 0) is delayed; its second copy does it. The answer brings epoch 1.
        | ok | CompleteCommit 2/1 | 2/1 | a1 [commit] | – | a1"""
    s.write("A", 0, "a2").release()
    yield """Transaction 2 has epoch 1. The delayed copy arrives with epoch 0: refused (PRODUCER_FENCED, which
        reaches no client).
        | ok | Ongoing 2/1 | 2/1 | a1 [commit] a2 | – | a1"""
    s.write("A", 1, "b2").end("A", commit=False)
    yield """Transaction 2 aborts, all of it.
        | ok | CompleteAbort 2/2 | 2/2 | a1 [commit] a2 [abort] | b2 [abort] | a1"""
