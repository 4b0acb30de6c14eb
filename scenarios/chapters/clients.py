"""Producers as real ones are.

Between the application's `send` and the report of a record a client batches, waits, asks for
metadata and sends again. What the report says, and what it leaves open, comes from there."""

from model.protocol.messages import Fetch, Produce
from model.settings import Settings
from scenarios.drivers.clients import ClientStage
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS, Steps, scenario


@scenario(
    "Batches, and requests in flight",
    source="Kafka: `batch.size`, `max.in.flight.requests.per.connection`",
    stage=ClientStage,
    columns="requests | log | m1 | m6",
)
def batches_in_flight(s: ClientStage) -> Steps:
    """Each partition has a queue, each broker a window of requests."""
    s.producer("A", batch=2, in_flight=2).hold(Produce, times=4)
    s.send("A", 0, "m0", "m1", "m2", "m3", "m4", "m5", "m6")
    yield """Seven records are handed over. They are put into batches of at most two (batch.size); two
        requests are in flight, the rest waits in the client.
        | (m0 m1) (m2 m3) | – | waits | waits"""
    s.release()
    yield """Each answer lets the next request go.
        | (m0 m1) (m2 m3) (m4 m5) (m6) | m0 m1 m2 m3 | offset 1 | waits"""
    s.release()
    yield """All are there, in their order.
        | (m0 m1) (m2 m3) (m4 m5) (m6) | m0 m1 m2 m3 m4 m5 m6 | offset 1 | offset 6"""


@scenario(
    "Old metadata",
    source="Kafka: `Sender`, `Metadata.requestUpdate`",
    stage=lambda: ClientStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
    columns="leader | A knows | requests | log | m0 | m1",
    not_played=SEVERAL_BROKERS,
)
def metadata_refresh(s: ClientStage) -> Steps:
    """A client learns of a new leader by being refused."""
    s.producer("A").send("A", 0, "m0")
    yield "The producer knows the leader from its metadata. | 1 | 1, epoch 0 | (m0) | m0 | offset 0 | –"
    s.crash(1).restart(1)
    yield """The leader ended and came back; broker 2 leads since then. The producer had nothing to send, and
        its metadata are old.
        | 2 | 1, epoch 0 | (m0) | m0 | offset 0 | –"""
    s.hold(Produce, answer=True).send("A", 0, "m1")
    yield """It sends m1 to broker 1, which refuses it: NOT_LEADER_OR_FOLLOWER.
        | 2 | 1, epoch 0 | (m0) (m1) | m0 | offset 0 | waits"""
    s.release().wait(300)
    yield """It asks for the metadata, and sends m1 again after a pause. The application sees nothing of that.
        | 2 | 2, epoch 1 | (m0) (m1) (m1) | m0 m1 | offset 0 | offset 1"""


@scenario(
    "Retries, and what is left when they are used up",
    source="Kafka: producer setting `retries`",
    stage=ClientStage,
    columns="requests | log | m0 | m1",
)
def retries(s: ClientStage) -> Steps:
    """With `retries` = 1."""
    s.producer("A", retries=1, idempotent=False).hold(Produce).send("A", 0, "m0").lose().wait(100)
    yield "m0 is lost and sent again. That was the only retry there is. | (m0) (m0) | m0 | offset 0 | –"
    s.hold(Produce).hold(Produce, answer=True).send("A", 0, "m1").lose().wait(100)
    yield "m1 is lost, and then the answer to its retry. | (m0) (m0) (m1) (m1) | m0 m1 | offset 0 | waits"
    s.lose()
    yield """The client gives up and reports an error. The record is in the log: an error after a request was
        sent says nothing of that.
        | (m0) (m0) (m1) (m1) | m0 m1 | offset 0 | REQUEST_TIMED_OUT"""


@scenario(
    "The time of a record", source="KIP-91: `delivery.timeout.ms`", stage=ClientStage, columns="log | m0 | m1"
)
def delivery_timeout(s: ClientStage) -> Steps:
    """Retries have no number by default, but a time."""
    s.producer("A", delivery_ms=1000).crash(1).send("A", 0, "m0").send("A", 0, "m1").wait(900)
    yield "The broker is gone. The producer tries again and again. | down | waits | waits"
    s.wait(600)
    yield """After delivery.timeout.ms it reports both as timed out. This error says nothing of whether they
        arrived.
        | down | _MSG_TIMED_OUT | _MSG_TIMED_OUT"""


@scenario(
    "acks is the producer's choice",
    source="Kafka: producer setting `acks`",
    stage=lambda: ClientStage(Settings(), ((1, 2),), (3, 4)),
    columns="log | HW | a | b",
    not_played=BETWEEN_BROKERS,
)
def acks_of_producers(s: ClientStage) -> Steps:
    """What a report is worth: a copy, or all that are in sync."""
    s.producer("A").producer("B", acks=1, idempotent=False).wait(500)
    s.hold(Fetch, of=2, times=2).wait(600).send("A", 0, "a")
    yield "Broker 2 does not fetch. A (acks=all) waits. | a | 0 | waits | –"
    s.send("B", 0, "b")
    yield "B (acks=1) gets its answer as soon as broker 1 has its record. | a b | 0 | waits | offset 1"
    s.let().release().wait(600)
    yield "Broker 2 fetches: both are committed, and A gets its answer. | a b | 2 | offset 0 | offset 1"


@scenario(
    "Forget, wait for each, wait for all",
    source="Kafka: `KafkaProducer.send`",
    stage=ClientStage,
    columns="log | f0 | f1 | s0 | s1 | p0 | p1",
)
def send_modes(s: ClientStage) -> Steps:
    """Three ways of an application with the same client."""
    s.producer("F", acks=0, idempotent=False).producer("S").producer("P")
    s.hold(Produce, times=3).send("F", 0, "f0").send("S", 0, "s0").send("P", 0, "p0").lose()
    yield """F forgets (acks=0), S waits for each record, P for all at the end. The first request of each is
        lost. F takes its record for delivered.
        | – | acknowledged | – | waits | – | waits | –"""
    s.hold(Produce, of="S").hold(Produce, of="P")
    s.send("F", 0, "f1").send("P", 0, "p1")
    yield """F and P send their second records; S has not heard of its first one. P's is on its way behind the
        first one.
        | f1 | acknowledged | acknowledged | waits | – | waits | waits"""
    s.release().let().wait(500)
    yield """S and P send again on their own. f0 is lost, and no client ever learns of it.
        | f1 s0 p0 p1 | acknowledged | acknowledged | offset 1 | – | offset 2 | offset 3"""
    s.send("S", 0, "s1")
    yield """Only now S sends its second one.
        | f1 s0 p0 p1 s1 | acknowledged | acknowledged | offset 1 | offset 4 | offset 2 | offset 3"""


@scenario("A batch that was given up", source="KIP-360", stage=ClientStage, columns="A | log | m0 | m1 | m2")
def epoch_bump(s: ClientStage) -> Steps:
    """An idempotent producer may not leave a gap in its sequences."""
    s.producer("A", retries=0).send("A", 0, "m0")
    yield "An idempotent producer. | 1/0 | m0 | offset 0 | – | –"
    s.hold(Produce).send("A", 0, "m1").give_up()
    yield """m1 is late, and it has no retry left: given up. Its sequence is missing, so that with this epoch
        nothing would be taken any more.
        | 1/1 | m0 | offset 0 | REQUEST_TIMED_OUT | –"""
    s.send("A", 0, "m2")
    yield """It has raised its epoch on its own: m2 has sequence 0.
        | 1/1 | m0 m2 | offset 0 | REQUEST_TIMED_OUT | offset 1"""
    s.release()
    yield """Then the late copy of m1 arrives. It has an old epoch and is refused.
        | 1/1 | m0 m2 | offset 0 | REQUEST_TIMED_OUT | offset 1"""
