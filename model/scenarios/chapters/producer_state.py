"""Scenarios: what a log knows of a producer id, and for how long."""

from typing import Final

from model.broker import CHECKPOINT_MS
from model.eras import ERAS
from model.protocol.messages import Fetch, Produce
from model.scenarios.drivers.cluster import data, lone
from model.scenarios.drivers.raw_producer import RawProducerStage, hw, identity, known, log, told
from model.scenarios.framework import Chapter, Scenario, Steps
from model.settings import Settings

EXPIRATION_MS: Final = 5000


def _epochs(s: RawProducerStage) -> Steps:
    s.init("A").init("B")
    s.writers["A"].id = s.writers["B"].id = None  # plain records, so that no transaction is asked for
    s.write("A", 0, "a0").write("B", 0, "b0")
    yield (
        "Two instances with one producer id: B came later and has the next epoch, whose sequences begin "
        "at 0. A's first record arrives before B's.",
        "2/0 | 2/1 | a0 b0 | 1: 0 | – | –",
    )
    s.write("A", 0, "a1")
    yield "A is too late from now on.", "2/0 | 2/1 | a0 b0 | 1: 0 | INVALID_PRODUCER_EPOCH | –"
    s.writers["B"].epoch = 2
    s.write("B", 0, "b1", sequence=1)
    yield (
        "A batch with a higher epoch that does not begin at 0 is refused as well.",
        "2/0 | 2/2 | a0 b0 | 1: 0 | INVALID_PRODUCER_EPOCH | OUT_OF_ORDER_SEQUENCE_NUMBER",
    )
    s.write("B", 0, "b1", sequence=0)
    yield "At 0 it begins again.", "2/0 | 2/2 | a0 b0 b1 | 2: 0 | INVALID_PRODUCER_EPOCH | offset 2"


def _failover(s: RawProducerStage) -> Steps:
    s.identify("A").write("A", 0, "a").wait(1000)
    yield "Followers learn of producers from the batches.", "a | a | 1 | 0: 0 | offset 0 | –"
    s.hold(Produce, answer=True).write("A", 0, "b").lose()
    yield ("b is appended and replicated; its answer is lost.", "a b | a b | 2 | 0: 0 1 | offset 0 | unknown")
    s.crash(1).wait(4000)
    yield "Broker 1 dies, broker 2 leads.", "down | a b | 2 | 0: 0 1 | offset 0 | unknown"
    s.write("A", 0, "b", sequence=1)
    yield ("b is sent again: broker 2 recognises it.", "down | a b | 2 | 0: 0 1 | offset 0 | offset 1")


def _restarted(s: RawProducerStage) -> Steps:
    s.identify("A").write("A", 0, "a").hold(Produce, answer=True).write("A", 0, "b").lose()
    yield "b is appended; its answer is lost.", "a b | 0: 0 1 | unknown"
    s.crash(1)
    yield "The broker's process ends.", "down | – | unknown"
    s.restart(1).write("A", 0, "b", sequence=1)
    yield ("It starts again and reads its log. b is sent again and recognised.", "a b | 0: 0 1 | offset 1")


def _truncated(s: RawProducerStage) -> Steps:
    s.identify("A").write("A", 0, "a").wait(1000)
    yield "All in sync.", "a | a | 0: 0 | –"
    s.hold(Fetch, of=2, times=2).hold(Fetch, of=3, times=2).wait(600).write("A", 0, "b")
    yield "b is on broker 1 only, and waits.", "a b | a | 0: 0 1 | waits"
    s.crash(1).let().lose().wait(4000).restart(1).wait(1000)
    yield (
        "Broker 1 dies, broker 2 leads. Broker 1 comes back and cuts b off, and with it what it knew of b.",
        "a | a | 0: 0 | unknown",
    )
    s.crash(2).wait(4000).write("A", 0, "b", sequence=1)
    yield ("Broker 1 leads again. b is sent again: it is new to it.", "a b | down | 0: 0 1 | offset 1")


def _delete(s: RawProducerStage) -> None:
    s.identify("A").write("A", 0, "a").write("A", 0, "b")
    replica = s.replica(data(0))
    assert replica is not None
    replica.log.delete_before(2)


def _unknown(s: RawProducerStage) -> Steps:
    _delete(s)
    yield "Retention removes both records of producer A, and A with them.", "– | – | –"
    s.write("A", 0, "c")
    yield (
        "It continues with sequence 2. The log cannot tell whether 0 and 1 are gone or never came. Clients "
        "took this for an error that ends the producer.",
        "– | – | UNKNOWN_PRODUCER_ID",
    )
    s.write("A", 0, "c", sequence=0)
    yield (
        "Some (Java before 2.5) began again at 0 where nothing of theirs could be left in the log; a "
        "mistake there is a gap or a wrong order.",
        "c | 0: 0 | offset 2",
    )


def _kept(s: RawProducerStage) -> Steps:
    _delete(s)
    yield ("The records go; what is known of A stays until producer.id.expiration.ms.", "– | 0: 0 1 | –")
    s.write("A", 0, "c")
    yield "It continues.", "c | 0: 0 1 2 | offset 2"
    s.wait(EXPIRATION_MS + CHECKPOINT_MS)
    yield ("After that time without a record (1 day; here 5 s) A is not known any more.", "c | – | offset 2")
    s.write("A", 0, "d")
    yield (
        "Since 2.5 any sequence is taken of a producer that is not known. That ends the dead end, and opens "
        "another gap: see *The first batch of a partition*.",
        "c d | 0: 3 | offset 2",
    )


DELETED = {"log": log(0), "epoch: sequences known": known(0, "A"), "c": told("c")}

PRODUCER_STATE = Chapter(
    title="What a log knows of a producer",
    about="""Producer state belongs to the partition: it is in the batches, so that followers have it too.""",
    scenarios=(
        Scenario(
            name="producer-epochs",
            title="Producer epochs",
            about="A higher epoch fences producers with a lower one, and numbers again.",
            source="Kafka: `ProducerAppendInfo.checkProducerEpoch`",
            stage=RawProducerStage,
            columns={
                "A": identity("A"),
                "B": identity("B"),
                "log": log(0),
                "epoch: sequences known": known(0, "A"),
                "a1": told("a1"),
                "b1": told("b1"),
            },
            steps=_epochs,
        ),
        Scenario(
            name="producer-state-failover",
            title="A new leader recognises what is sent again",
            about="What is known of producers is part of what is replicated.",
            source="KIP-98",
            stage=lambda: RawProducerStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
            columns={
                "log 1": log(0, 1),
                "log 2": log(0, 2),
                "HW": hw(0),
                "epoch: sequences known": known(0, "A"),
                "a": told("a"),
                "b": told("b"),
            },
            steps=_failover,
        ),
        Scenario(
            name="producer-state-restart",
            title="A broker that starts again recognises what is sent again",
            about="From the batches in its log (Kafka: from a snapshot, and what follows it).",
            source="Kafka: `ProducerStateManager.truncateAndReload`",
            stage=RawProducerStage,
            columns={"log": log(0), "epoch: sequences known": known(0, "A"), "b": told("b")},
            steps=_restarted,
        ),
        Scenario(
            name="producer-state-truncation",
            title="What is cut off is forgotten",
            about="Else a record would be taken for one that is there.",
            source="Kafka: `UnifiedLog.truncateTo`",
            stage=lambda: RawProducerStage(Settings(), ((1, 2, 3),), (3, 2, 1)),
            columns={
                "log 1": log(0, 1),
                "log 2": log(0, 2),
                "epoch: sequences known": known(0, "A"),
                "b": told("b"),
            },
            steps=_truncated,
        ),
        Scenario(
            name="unknown-producer",
            title="Unknown producer ids, until 2.4",
            about="""A producer without any record in the log must begin at 0.""",
            source="KAFKA-7190, KAFKA-8710; the era 2.0",
            stage=lambda: RawProducerStage(lone(era=ERAS["2.0"])),
            columns=DELETED,
            steps=_unknown,
        ),
        Scenario(
            name="unknown-producer-taken",
            title="Unknown producer ids, since KIP-360",
            about="""What is known of a producer outlives its records, and who is not known may continue.""",
            source="KIP-360 (2.5); KAFKA-7190; Kafka: `ProducerStateManager.removeExpiredProducers`",
            stage=lambda: RawProducerStage(lone(producer_id_expiration_ms=EXPIRATION_MS)),
            columns=DELETED,
            steps=_kept,
        ),
    ),
)
"""See the module."""
