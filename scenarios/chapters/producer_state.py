"""What a log knows of a producer.

Producer state belongs to the partition: it is in the batches, so that followers have it too."""

from typing import Final

from model.broker import CHECKPOINT_MS
from model.eras import ERAS
from model.protocol.messages import Fetch, Produce
from model.settings import Settings
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import BETWEEN_BROKERS, OTHER_BROKERS, SEVERAL_BROKERS, Steps, scenario

DELETED = "log | epoch: sequences known | c"

EXPIRATION_MS: Final = 5000


@scenario(
    "Producer epochs",
    source="Kafka: `ProducerAppendInfo.checkProducerEpoch`",
    stage=RawProducerStage,
    columns="A | B | log | epoch: sequences known | a1 | b1",
)
def producer_epochs(s: RawProducerStage) -> Steps:
    """A higher epoch fences producers with a lower one, and numbers again."""
    s.init("A").init("B")
    s.writers["A"].id = s.writers["B"].id = ""  # plain records, so that no transaction is asked for
    s.write("A", 0, "a0").write("B", 0, "b0")
    yield """Two instances with one producer id: B came later and has the next epoch, whose sequences begin at
        0. A's first record arrives before B's.
        | 2/0 | 2/1 | a0 b0 | 1: 0 | – | –"""
    s.write("A", 0, "a1")
    yield "A is too late from now on. | 2/0 | 2/1 | a0 b0 | 1: 0 | INVALID_PRODUCER_EPOCH | –"
    s.writers["B"].epoch = 2
    s.write("B", 0, "b1", sequence=1)
    yield """A batch with a higher epoch that does not begin at 0 is refused as well.
        | 2/0 | 2/2 | a0 b0 | 1: 0 | INVALID_PRODUCER_EPOCH | OUT_OF_ORDER_SEQUENCE_NUMBER"""
    s.write("B", 0, "b1", sequence=0)
    yield "At 0 it begins again. | 2/0 | 2/2 | a0 b0 b1 | 2: 0 | INVALID_PRODUCER_EPOCH | offset 2"


@scenario(
    "A new leader recognises what is sent again",
    source="KIP-98",
    stage=lambda: RawProducerStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
    columns="log 1 | log 2 | HW | epoch: sequences known | a | b",
    not_played=SEVERAL_BROKERS,
)
def producer_state_failover(s: RawProducerStage) -> Steps:
    """What is known of producers is part of what is replicated."""
    s.identify("A").write("A", 0, "a").wait(1000)
    yield "Followers learn of producers from the batches. | a | a | 1 | 0: 0 | offset 0 | –"
    s.hold(Produce, answer=True).write("A", 0, "b").lose()
    yield "b is appended and replicated; its answer is lost. | a b | a b | 2 | 0: 0 1 | offset 0 | unknown"
    s.crash(1).wait(4000)
    yield "Broker 1 dies, broker 2 leads. | down | a b | 2 | 0: 0 1 | offset 0 | unknown"
    s.write("A", 0, "b", sequence=1)
    yield "b is sent again: broker 2 recognises it. | down | a b | 2 | 0: 0 1 | offset 0 | offset 1"


@scenario(
    "A broker that starts again recognises what is sent again",
    source="Kafka: `ProducerStateManager.truncateAndReload`",
    stage=RawProducerStage,
    columns="log | epoch: sequences known | b",
)
def producer_state_restart(s: RawProducerStage) -> Steps:
    """From the batches in its log (Kafka: from a snapshot, and what follows it)."""
    s.identify("A").write("A", 0, "a").hold(Produce, answer=True).write("A", 0, "b").lose()
    yield "b is appended; its answer is lost. | a b | 0: 0 1 | unknown"
    s.crash(1)
    yield "The broker's process ends. | down | – | unknown"
    s.restart(1).write("A", 0, "b", sequence=1)
    yield "It starts again and reads its log. b is sent again and recognised. | a b | 0: 0 1 | offset 1"


@scenario(
    "What is cut off is forgotten",
    source="Kafka: `UnifiedLog.truncateTo`",
    stage=lambda: RawProducerStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
    columns="log 1 | log 2 | epoch: sequences known | b",
    not_played=BETWEEN_BROKERS,
)
def producer_state_truncation(s: RawProducerStage) -> Steps:
    """Else a record would be taken for one that is there."""
    s.identify("A").write("A", 0, "a").wait(1000)
    yield "All in sync. | a | a | 0: 0 | –"
    s.hold(Fetch, of=2, times=2).hold(Fetch, of=3, times=2).wait(600).write("A", 0, "b")
    yield "b is on broker 1 only, and waits. | a b | a | 0: 0 1 | waits"
    s.crash(1).let().lose().wait(4000).restart(1).wait(1000)
    yield """Broker 1 dies, broker 2 leads. Broker 1 comes back and cuts b off, and with it what it knew of b.
        | a | a | 0: 0 | unknown"""
    s.crash(2).wait(4000).write("A", 0, "b", sequence=1)
    yield "Broker 1 leads again. b is sent again: it is new to it. | a b | down | 0: 0 1 | offset 1"


def _delete(s: RawProducerStage) -> None:
    s.identify("A").write("A", 0, "a").write("A", 0, "b").delete_before(2)


@scenario(
    "Unknown producer ids, until 2.4",
    source="KAFKA-7190, KAFKA-8710; the era 2.0",
    stage=lambda: RawProducerStage(lone(era=ERAS["2.0"])),
    columns=DELETED,
    not_played=OTHER_BROKERS,
)
def unknown_producer(s: RawProducerStage) -> Steps:
    """A producer without any record in the log must begin at 0."""
    _delete(s)
    yield "Retention removes both records of producer A, and A with them. | – | – | –"
    s.write("A", 0, "c")
    yield """It continues with sequence 2. The log cannot tell whether 0 and 1 are gone or never came. Clients
        took this for an error that ends the producer.
        | – | – | UNKNOWN_PRODUCER_ID"""
    s.write("A", 0, "c", sequence=0)
    yield """Some (Java before 2.5) began again at 0 where nothing of theirs could be left in the log; a
        mistake there is a gap or a wrong order.
        | c | 0: 0 | offset 2"""


@scenario(
    "Unknown producer ids, since KIP-360",
    source="KIP-360 (2.5); KAFKA-7190; Kafka: `ProducerStateManager.removeExpiredProducers`",
    stage=lambda: RawProducerStage(lone(producer_id_expiration_ms=EXPIRATION_MS)),
    columns=DELETED,
)
def unknown_producer_taken(s: RawProducerStage) -> Steps:
    """What is known of a producer outlives its records, and who is not known may continue."""
    _delete(s)
    yield "The records go; what is known of A stays until producer.id.expiration.ms. | – | 0: 0 1 | –"
    s.write("A", 0, "c")
    yield "It continues. | c | 0: 0 1 2 | offset 2"
    s.wait(EXPIRATION_MS + CHECKPOINT_MS)
    yield "After that time without a record (1 day; here 5 s) A is not known any more. | c | – | offset 2"
    s.write("A", 0, "d")
    yield """Since 2.5 any sequence is taken of a producer that is not known. That ends the dead end, and
        opens another gap: see *The first batch of a partition*.
        | c d | 0: 3 | offset 2"""
