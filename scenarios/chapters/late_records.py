"""Records and markers arrive late.

A record of a transaction may be on its way when the transaction ends, and so may the marker of
one that ended long ago. Logs recognise them as far as the epoch says something: this is what KIP-890 is
about."""

from dataclasses import replace

from model.eras import ERAS
from model.protocol.coordinator_messages import AddPartitionsToTxn, WriteTxnMarkers
from model.protocol.messages import Produce
from scenarios.drivers.cluster import TV1, lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import BETWEEN_BROKERS, OTHER_BROKERS, Steps, scenario

RECORDS = "a2 | coordinator | log | LSO | read_committed"
NEXT = "coordinator | log | read_committed"
MARKED = "coordinator | log | LSO | read_committed"


def _one(**switches: bool) -> RawProducerStage:
    return RawProducerStage(lone(era=replace(TV1, **switches)))


def _until_late_produce(s: RawProducerStage) -> None:
    s.init("A").add("A", 0).write("A", 0, "a1").hold(Produce).write("A", 0, "a2")
    s.give_up().end("A", commit=False)


@scenario(
    "A hanging transaction",
    source="KAFKA-14402, KAFKA-12671; `transaction.partition.verification.enable=false`; up to 3.5",
    stage=lambda: _one(verification=False),
    columns=RECORDS,
    not_played=OTHER_BROKERS,
)
def hanging_transaction(s: RawProducerStage) -> Steps:
    """The last stable offset stands still for ever."""
    _until_late_produce(s)
    yield """a2 is delayed. The client gives up and aborts; the marker is written.
        | unknown | CompleteAbort 2/0 | a1 [abort] | 2 | –"""
    s.release()
    yield """a2 arrives, with the present epoch and the next sequence: it is appended. The log has an open
        transaction which the coordinator does not have.
        | unknown | CompleteAbort 2/0 | a1 [abort] a2 | 2 | –"""
    s.write("P", 0, "x", plain=True).wait(60_000)
    yield """No coordinator will end it: readers at read_committed see nothing more of this partition.
        | unknown | CompleteAbort 2/0 | a1 [abort] a2 x | 2 | –"""


@scenario("KIP-890, part 1: the leader asks", source="KIP-890; Kafka 3.6", stage=_one, columns=RECORDS)
def verification(s: RawProducerStage) -> Steps:
    """Before the first record of a transaction a leader asks the transaction's coordinator."""
    _until_late_produce(s)
    yield "a2 is delayed; the transaction is aborted. | unknown | CompleteAbort 2/0 | a1 [abort] | 2 | –"
    s.release()
    yield """a2 arrives. It would begin a transaction in this log, so the leader asks the coordinator, which
        has none that is open: a2 is refused.
        | unknown | CompleteAbort 2/0 | a1 [abort] | 2 | –"""
    s.write("P", 0, "x", plain=True)
    yield "Readers continue. | unknown | CompleteAbort 2/0 | a1 [abort] x | 3 | x"


@scenario(
    "A marker between question and append",
    source="KAFKA-14884",
    stage=_one,
    columns="a1 | coordinator | log",
    not_played=BETWEEN_BROKERS,
)
def verification_guard(s: RawProducerStage) -> Steps:
    """The answer is only as good as nothing has happened since."""
    s.init("A").add("A", 0).hold(AddPartitionsToTxn, of=1, answer=True).write("A", 0, "a1")
    yield """The leader asks whether a1 belongs to an open transaction. Yes; the answer is delayed.
        | waits | Ongoing 2/0 | –"""
    s.end("A", commit=False)
    yield """Meanwhile the transaction is aborted, and the marker written.
        | waits | CompleteAbort 2/0 | [abort]"""
    s.release()
    yield """The answer arrives. It is true no more: the marker has taken the guard away that the question had
        left at the log, so a1 is refused.
        | INVALID_TXN_STATE | CompleteAbort 2/0 | [abort]"""


@scenario(
    "The coordinator ended it",
    source="KIP-98; KAFKA-6119",
    stage=lambda: _one(verification=False),
    columns=RECORDS,
)
def late_after_timeout(s: RawProducerStage) -> Steps:
    """It did not matter who asked: this end raises the epoch with protocol 1 too."""
    s.init("A", timeout=1000).add("A", 0).write("A", 0, "a1").hold(Produce).write("A", 0, "a2")
    s.give_up()
    yield "a2 is delayed. | unknown | Ongoing 2/0 | a1 | 0 | –"
    s.wait(3000)
    yield """The coordinator times the transaction out. Its marker has the next epoch.
        | unknown | CompleteAbort 2/1 | a1 [abort] | 2 | –"""
    s.release()
    yield """a2 arrives with an old epoch: refused, without any question.
        | unknown | CompleteAbort 2/1 | a1 [abort] | 2 | –"""


@scenario("A late record joins the next transaction", source="KIP-890, motivation", stage=_one, columns=NEXT)
def late_joins_next(s: RawProducerStage) -> Steps:
    """What part 1 cannot see, where the epoch stays the same."""
    _until_late_produce(s)
    yield "a2 is delayed; its transaction is aborted. | CompleteAbort 2/0 | a1 [abort] | –"
    s.add("A", 0).release()
    yield """The next transaction has the same epoch, and this partition. a2 arrives: the coordinator says
        yes.
        | Ongoing 2/0 | a1 [abort] a2 | –"""
    s.end("A", commit=True)
    yield """A record of an aborted transaction is committed with the next one.
        | CompleteCommit 2/0 | a1 [abort] a2 [commit] | a2"""


@scenario("The same with protocol 2", source="KIP-890, part 2", stage=RawProducerStage, columns=NEXT)
def late_joins_not(s: RawProducerStage) -> Steps:
    """Each transaction has its epoch."""
    s.init("A").write("A", 0, "a1").hold(Produce).write("A", 0, "a2").give_up()
    s.end("A", commit=False)
    yield """a2 is delayed; its transaction is aborted, and the next one has epoch 1.
        | CompleteAbort 2/1 | a1 [abort] | –"""
    s.write("A", 0, "a3").release()
    yield "a3 begins it. a2 arrives with epoch 0 and is refused. | Ongoing 2/1 | a1 [abort] a3 | –"
    s.end("A", commit=True)
    yield "Only a3 is committed. | CompleteCommit 2/2 | a1 [abort] a3 [commit] | a3"


def _marker(s: RawProducerStage) -> None:
    s.init("A").write("A", 0, "a1").hold(WriteTxnMarkers)
    s.end("A", commit=True).give_up().wait(200)


@scenario(
    "A late marker ends the next transaction",
    source="KAFKA-19446",
    stage=lambda: RawProducerStage(lone(era=ERAS["4.1"])),
    columns=MARKED,
    not_played=BETWEEN_BROKERS,
)
def late_marker(s: RawProducerStage) -> Steps:
    """With protocol 2 the marker of a transaction has the epoch that the next one begins with.
    (4.0 and 4.1.)"""
    _marker(s)
    yield """The marker of transaction 1 is sent twice, as the first one was slow. The second one is written.
        Transaction 2 has epoch 1, as the marker had.
        | CompleteCommit 2/1 | a1 [commit] | 2 | a1"""
    s.write("A", 0, "a2").release()
    yield """Transaction 2 writes a2; then the late marker comes, and commits it there.
        | Ongoing 2/1 | a1 [commit] a2 [commit] | 4 | a1 a2"""
    s.end("A", commit=False)
    yield """Transaction 2 aborts. Its record is read.
        | CompleteAbort 2/2 | a1 [commit] a2 [commit] [abort] | 5 | a1 a2"""


@scenario(
    "KIP-1228: the epoch of a marker has to be higher",
    source="KIP-1228 (4.2)",
    stage=RawProducerStage,
    columns=MARKED,
    not_played=BETWEEN_BROKERS,
)
def late_marker_refused(s: RawProducerStage) -> Steps:
    """While a transaction is open."""
    _marker(s)
    yield "The marker of transaction 1 is sent twice, as before. | CompleteCommit 2/1 | a1 [commit] | 2 | a1"
    s.write("A", 0, "a2").release()
    yield """A marker of transaction 2 would have epoch 2: one with epoch 1 is refused while it is open.
        | Ongoing 2/1 | a1 [commit] a2 | 2 | a1"""
    s.end("A", commit=False)
    yield "Transaction 2 aborts. | CompleteAbort 2/2 | a1 [commit] a2 [abort] | 4 | a1"
