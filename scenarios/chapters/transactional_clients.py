"""Transactional producers as real ones are.

What the application calls begin, commit and abort are several requests, which the client repeats
and between which it waits. (Transaction protocol 1.)"""

from model.protocol.coordinator_messages import EndTxn
from model.protocol.messages import Produce
from scenarios.drivers.clients import ClientStage
from scenarios.drivers.cluster import TV1, lone
from scenarios.framework import Steps, scenario


@scenario(
    "A commit needs every record",
    source="Kafka: `TransactionManager.beginCommit`",
    stage=lambda: ClientStage(lone(era=TV1)),
    columns="end | m0 | m1 | log | read_committed",
)
def commit_waits(s: ClientStage) -> Steps:
    """Records without acknowledgement are not committed."""
    s.producer("A", transactional_id="t", delivery_ms=1000).begin("A").send("A", 0, "m0").wait(200)
    s.hold(Produce, times=20).send("A", 0, "m1").finish("A", commit=True)
    yield "m0 is acknowledged, m1 is not. The commit waits for it. | waits | offset 0 | waits | m0 | –"
    for _ in range(8):
        s.lose().wait(200)
    yield """m1's time has run out. No EndTxn is sent: commit_transaction fails, and says that an abort is
        needed.
        | _MSG_TIMED_OUT | offset 0 | _MSG_TIMED_OUT | m0 | –"""
    s.let().finish("A", commit=False).wait(500)
    yield "The application aborts. | ok | offset 0 | _MSG_TIMED_OUT | m0 [abort] | –"


@scenario(
    "An abort waits for what is under way",
    source="Kafka: `TransactionManager.nextRequest`, `RecordAccumulator.abortUndrainedBatches`",
    stage=lambda: ClientStage(lone(era=TV1)),
    columns="end | A | m0 | m1 | log | read_committed",
)
def abort_waits(s: ClientStage) -> Steps:
    """What was never sent is given up. What was sent is waited for: else there might be a gap
    in the sequences. (The Java client. librdkafka also gives up what it was about to send again.)"""
    s.producer("A", transactional_id="t", in_flight=1).begin("A")
    s.hold(Produce).send("A", 0, "m0").send("A", 0, "m1")
    yield "m0 is under way. m1 has to wait in the client. | – | 1/0 | waits | waits | – | –"
    s.finish("A", commit=False).wait(500)
    yield """The application aborts. m1 was never sent and is given up. EndTxn is not sent: m0 has no answer.
        | waits | 1/0 | waits | _PURGE | – | –"""
    s.give_up().wait(200)
    yield """m0's connection breaks. It is sent again, as it always would be, and answered; then EndTxn goes.
        Nothing is in doubt, so the epoch stays.
        | ok | 1/0 | offset 0 | _PURGE | m0 [abort] | –"""
    s.begin("A").send("A", 0, "m2").wait(200).release()
    yield """In the next transaction the first copy of m0 arrives, and is recognised.
        | ok | 1/0 | offset 0 | _PURGE | m0 [abort] m2 | –"""


@scenario(
    "An abort with records in doubt",
    source="KIP-360",
    stage=lambda: ClientStage(lone(era=TV1)),
    columns="end | A | m1 | log | read_committed",
)
def abort_in_doubt(s: ClientStage) -> Steps:
    """It waits no longer than for the records themselves (`delivery.timeout.ms`)."""
    s.producer("A", transactional_id="t", delivery_ms=1000).begin("A").send("A", 0, "m0").wait(200)
    s.hold(Produce).send("A", 0, "m1")
    yield "m0 is acknowledged, m1 is under way. | – | 1/0 | waits | m0 | –"
    s.finish("A", commit=False).wait(900)
    yield "The application aborts. The abort waits for m1. | waits | 1/0 | waits | m0 | –"
    s.wait(300)
    yield """m1's time has run out: it may be in the log or not. Which sequence comes next is in doubt, so the
        producer asks for the next epoch before it continues.
        | ok | 1/1 | _MSG_TIMED_OUT | m0 [abort] | –"""
    s.begin("A").send("A", 0, "m2").wait(200).release()
    yield """The next transaction begins at 0. m1 arrives, with an old epoch, and is refused.
        | ok | 1/1 | _MSG_TIMED_OUT | m0 [abort] m2 | –"""
    s.finish("A", commit=True).wait(200)
    yield "It ends as if nothing had been. | ok | 1/1 | _MSG_TIMED_OUT | m0 [abort] m2 [commit] | m2"


@scenario(
    "EndTxn is sent again on a new connection",
    source="KAFKA-17754; librdkafka, Java clients before 4.0",
    stage=lambda: ClientStage(lone(era=TV1)),
    columns="commit = end | A | m0 | log | read_committed",
)
def end_retried(s: ClientStage) -> Steps:
    """The client's part in KAFKA-17754."""
    s.producer("A", transactional_id="t").begin("A").send("A", 0, "m0").wait(200)
    yield "A transaction: the client adds the partition on its own, then sends. | – | 1/0 | offset 0 | m0 | –"
    s.hold(EndTxn).finish("A", commit=True)
    yield "commit_transaction: EndTxn is under way. | waits | 1/0 | offset 0 | m0 | –"
    s.give_up().wait(200)
    yield """Its connection breaks. The client asks again on a new one; the application hears that it is
        committed.
        | ok | 1/0 | offset 0 | m0 [commit] | m0"""
    s.begin("A").send("A", 0, "m1").wait(200).release()
    yield """The next transaction is open when the first copy arrives, and is committed by it: see *A late
        commit ends the next transaction*.
        | ok | 1/0 | offset 0 | m0 [commit] m1 [commit] | m0 m1"""
