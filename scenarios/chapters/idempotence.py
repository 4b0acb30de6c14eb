"""Idempotent producers.

A producer that gets no answer cannot know whether its records were appended; it sends them
again. With a producer id, an epoch and a sequence per partition (KIP-98) the log knows what it has already,
and what is missing in between."""

from dataclasses import replace

from model.eras import Era
from model.protocol.messages import Produce
from model.settings import Settings
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import OTHER_BROKERS, Steps, scenario

ORDER = "log | m0 | m1 | m2"
REMEMBERED = "log | epoch: sequences known | a | b"


def _era(**changes: int) -> Settings:
    return lone(era=replace(Era(), **changes))  # type: ignore[arg-type]


@scenario(
    "Duplicates without a producer id",
    source="KIP-98",
    stage=RawProducerStage,
    columns="log of A = log p0 | log of B = log p1 | a | b",
)
def without_producer_id(s: RawProducerStage) -> Steps:
    """A record is sent again because its answer was lost, or because it is late."""
    s.identify("B").hold(Produce, answer=True, times=2)
    s.write("A", 0, "a", plain=True).write("B", 1, "b").lose()
    yield """A, without a producer id, and B, with one, send a record each. Both answers are lost.
        | a | b | unknown | unknown"""
    s.write("A", 0, "a", plain=True).write("B", 1, "b", sequence=0)
    yield "Both send again: A's record is there twice. | a a | b | offset 1 | offset 0"
    s.hold(Produce, times=2).write("A", 0, "a2", plain=True).write("B", 1, "b2").give_up()
    yield """The same with a request that is only late: the connection breaks while it is under way.
        | a a | b | offset 1 | offset 0"""
    s.write("A", 0, "a2", plain=True).write("B", 1, "b2", sequence=1)
    yield "Both send again on a new connection. | a a a2 | b b2 | offset 1 | offset 0"
    s.release()
    yield "Then the late requests arrive. | a a a2 a2 | b b2 | offset 1 | offset 0"


@scenario(
    "Producer id, epoch, sequence",
    source="KIP-98; Kafka: `ProducerAppendInfo.checkSequence`",
    stage=RawProducerStage,
    columns="A | a | b1 | d | log | epoch: sequences known",
)
def sequences(s: RawProducerStage) -> Steps:
    """Kafka's `ProducerStateManager`: the log keeps, of each producer id, the epoch and the
    sequences of its newest batches. They are in the batches themselves: every replica has them, and a restart
    finds them again."""
    s.identify("A")
    yield """Producer A is given a producer id by a broker, and epoch 0. Logs hear of it with its first batch.
        | 2/0 | – | – | – | – | –"""
    s.write("A", 0, "a").write("A", 0, "b1", "b2")
    yield """Each record has the next sequence of its partition; a batch says its first one.
        | 2/0 | offset 0 | offset 1 | – | a b1 b2 | 0: 0 1"""
    s.write("A", 0, "b1", "b2", sequence=1)
    yield """The second batch comes again, as its answer was lost: it is recognised by its sequences, not
        appended, and answered as the first time (Kafka calls it a duplicate).
        | 2/0 | offset 0 | offset 1 | – | a b1 b2 | 0: 0 1"""
    s.write("A", 0, "d", sequence=4)
    yield """Sequence 4 after 2: something before it did not arrive. It is refused.
        | 2/0 | offset 0 | offset 1 | OUT_OF_ORDER_SEQUENCE_NUMBER | a b1 b2 | 0: 0 1"""
    s.write("A", 0, "c").write("A", 0, "d", sequence=4)
    yield """c arrives, with sequence 3, then d again.
        | 2/0 | offset 0 | offset 1 | offset 4 | a b1 b2 c d | 0: 0 1 3 4"""


@scenario(
    "A new process is a new producer",
    source="KIP-98",
    stage=RawProducerStage,
    columns="first process = A | second process = B | log | m0",
)
def new_process(s: RawProducerStage) -> Steps:
    """Without a transactional.id, a broker gives each process a producer id of its own: what was sent twice
    is recognised within a process, and never from one to the next."""
    s.identify("A").hold(Produce, answer=True).write("A", 0, "m0").lose()
    yield "A process sends m0; the answer is lost. | 2/0 | – | m0 | unknown"
    s.write("A", 0, "m0", sequence=0)
    yield "It sends m0 again, which is recognised. | 2/0 | – | m0 | offset 0"
    s.identify("B")
    yield """It dies, and is started again: it asks for a producer id, and gets the next one.
        | 2/0 | 3/0 | m0 | offset 0"""
    s.write("B", 0, "m0")
    yield """It does not know what arrived, and begins from the start. The same m0, with the same sequence 0,
        is another producer's: the log has it twice.
        | 2/0 | 3/0 | m0 m0 | offset 1"""


@scenario(
    "Several requests in flight, without a producer id",
    source="Kafka: producer setting `max.in.flight.requests.per.connection`",
    stage=RawProducerStage,
    columns=ORDER,
)
def reordering(s: RawProducerStage) -> Steps:
    """Retries overtake each other."""
    s.hold(Produce).write("A", 0, "m0", plain=True).lose()
    yield "m0 is lost on its way. | – | unknown | – | –"
    s.write("A", 0, "m1", plain=True).write("A", 0, "m2", plain=True)
    yield """m1 and m2 were sent right behind it, and no broker misses m0.
        | m1 m2 | unknown | offset 0 | offset 1"""
    s.write("A", 0, "m0", plain=True)
    yield """m0 is sent again, and comes last. One request in flight would have kept the order.
        | m1 m2 m0 | offset 2 | offset 0 | offset 1"""


@scenario("Several requests in flight, with one", source="KAFKA-5494", stage=RawProducerStage, columns=ORDER)
def pipelining(s: RawProducerStage) -> Steps:
    """Without an answer to the first request the next ones are sent; the log takes them in the
    order of their sequences only."""
    s.identify("A").write("A", 0, "z").hold(Produce)
    s.write("A", 0, "m0").lose()
    yield "m0 is lost on its way. | z | unknown | – | –"
    s.write("A", 0, "m1").write("A", 0, "m2")
    yield """m1 and m2 were sent right behind it. The log waits for m0's sequence and refuses both.
        | z | unknown | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER"""
    s.write("A", 0, "m0", sequence=1)
    yield """The producer sends again, the oldest first.
        | z m0 | offset 1 | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER"""
    s.write("A", 0, "m1", sequence=2).write("A", 0, "m2", sequence=3)
    yield "The order is kept. | z m0 m1 m2 | offset 1 | offset 2 | offset 3"


@scenario(
    "Five batches are remembered", source="KAFKA-5494 (1.0)", stage=RawProducerStage, columns=REMEMBERED
)
def five_batches(s: RawProducerStage) -> Steps:
    """Producers keep at most five requests in flight to a broker, so that every batch that may
    have to be sent again is among the five newest."""
    s.identify("A").hold(Produce, answer=True, times=6)
    for name in "abcdef":
        s.write("A", 0, name)
    s.lose()
    yield """Six batches are sent without waiting. All are appended; all answers are lost. The log remembers
        the newest five.
        | a b c d e f | 0: 1 2 3 4 5 | unknown | unknown"""
    s.write("A", 0, "b", sequence=1)
    yield "b is sent again, and recognised. | a b c d e f | 0: 1 2 3 4 5 | unknown | offset 1"
    s.write("A", 0, "a", sequence=0)
    yield """a is sent again. It is in the log, but the log no longer recognises it: with at most five
        requests in flight this cannot happen.
        | a b c d e f | 0: 1 2 3 4 5 | OUT_OF_ORDER_SEQUENCE_NUMBER | offset 1"""


@scenario(
    "0.11: one batch is remembered",
    source="KIP-98; KAFKA-5494",
    stage=lambda: RawProducerStage(_era(remembered_batches=1)),
    columns=REMEMBERED,
    not_played=OTHER_BROKERS,
)
def one_batch(s: RawProducerStage) -> Steps:
    """Then `max.in.flight.requests.per.connection` has to be 1."""
    s.identify("A").hold(Produce, answer=True, times=2)
    s.write("A", 0, "a").write("A", 0, "b").lose()
    yield "Two batches are sent; both answers are lost. | a b | 0: 1 | unknown | unknown"
    s.write("A", 0, "b", sequence=1)
    yield "b is sent again, and recognised. | a b | 0: 1 | unknown | offset 1"
    s.write("A", 0, "a", sequence=0)
    yield """a is not: with one remembered batch only one request may be in flight.
        | a b | 0: 1 | OUT_OF_ORDER_SEQUENCE_NUMBER | offset 1"""
