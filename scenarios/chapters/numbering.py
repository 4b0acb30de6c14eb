"""Idempotent producers that lose and repeat.

What is left of idempotence depends on what the log knows of the producer, and on what the client
makes of its answers."""

from model.eras import ERAS
from model.protocol.controller_messages import QuorumFetch
from model.protocol.messages import Produce
from scenarios.drivers.clients import ClientStage
from scenarios.drivers.cluster import lone
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS, Steps, scenario

FRESH = "log = log of new | m0 | m1"
BUMPED = "A | requests | log p0 | log p1 | x | y"


def _two(era: str = "4.3") -> ClientStage:
    return ClientStage(lone(era=ERAS[era]), ((1,), (2,)), (1,))


def _refused_once(s: ClientStage, **settings: int) -> Steps:
    s.producer("A", bootstrap=(2,), **settings)
    s.hold(QuorumFetch, of=1, answer=True).create("new", ((1,),))
    machine = s.producers["A"]
    machine.cluster.wanted = True
    s.until(lambda: ("new", 0) in machine.cluster.leaders)
    s.hold(Produce, answer=True).send("A", 0, "m0", topic="new")
    s.release(QuorumFetch)
    yield """A topic was just created: broker 2 knows it, broker 1, the leader, not yet. m0 (sequence 0) is
        refused; the answer is under way. Then broker 1 hears that it leads.
        | – | waits | –"""


@scenario(
    "The first batch of a partition",
    source="KAFKA-15591, KAFKA-14312, KAFKA-19880 (2.5 to 4.4)",
    stage=_two,
    columns=FRESH,
    not_played=BETWEEN_BROKERS,
)
def fresh_partition(s: ClientStage) -> Steps:
    """Since KIP-360 a log takes any sequence of a producer that it does not know. With more
    than one request in flight the second one may be the first that is taken."""
    yield from _refused_once(s)
    s.send("A", 0, "m1", topic="new")
    yield """m1 (sequence 1) was sent right behind m0. The log knows nothing of this producer, and takes any
        sequence.
        | m1 | waits | offset 0"""
    s.release().wait(200)
    yield """m0 is sent again. 0 after 1 is out of order: the client reports an error. Nothing acknowledged is
        lost, but the records are not those that were sent in this order.
        | m1 | OUT_OF_ORDER_SEQUENCE_NUMBER | offset 0"""


@scenario(
    "The same with librdkafka: an acknowledged record is lost",
    source="KAFKA-15591; librdkafka (up to 2.16)",
    stage=_two,
    columns=FRESH,
    not_played=BETWEEN_BROKERS,
)
def fresh_partition_implied(s: ClientStage) -> Steps:
    """Without any fault: it is enough to write right after a topic was created."""
    yield from _refused_once(s, implicit_acks=True)
    s.send("A", 0, "m1", topic="new")
    yield """m1 is taken. To librdkafka an acknowledgement of sequence 1 acknowledges 0 as well: else 1 would
        have been refused. m0 is reported as delivered, and is nowhere.
        | m1 | acknowledged | offset 0"""
    s.release().wait(1000)
    yield "Its producer does not send it again. | m1 | acknowledged | offset 0"


@scenario(
    "The same with one request in flight",
    source="KAFKA-15591",
    stage=_two,
    columns=FRESH,
    not_played=BETWEEN_BROKERS,
)
def fresh_partition_one(s: ClientStage) -> Steps:
    """Nothing can overtake m0."""
    yield from _refused_once(s, in_flight=1)
    s.send("A", 0, "m1", topic="new")
    yield "With one request in flight m1 stays in the client. | – | waits | waits"
    s.release().wait(200)
    yield "m0 is sent again, then m1. | m0 m1 | offset 0 | offset 1"


@scenario(
    "The same before KIP-360",
    source="KAFKA-15591, KIP-360",
    stage=lambda: _two("2.4"),
    columns=FRESH,
    not_played=BETWEEN_BROKERS,
)
def fresh_partition_before(s: ClientStage) -> Steps:
    """Up to 2.4 no producer could begin in the middle."""
    yield from _refused_once(s)
    s.send("A", 0, "m1", topic="new")
    yield "m1 is refused: a producer that is not known has to begin at 0. | – | waits | UNKNOWN_PRODUCER_ID"
    s.release().wait(200)
    yield "m0 is sent again and taken. | m0 | offset 0 | UNKNOWN_PRODUCER_ID"


@scenario(
    "A partition that the producer has written to",
    source="KAFKA-15591",
    stage=_two,
    columns="log | m0 | m1",
    not_played=SEVERAL_BROKERS,
)
def written_partition(s: ClientStage) -> Steps:
    """This is why the workloads write one record to each partition and wait for it before they
    begin."""
    s.producer("A").send("A", 0, "z")
    yield "The producer has written to the partition before. | z | – | –"
    s.hold(Produce).send("A", 0, "m0").send("A", 0, "m1").wait(100)
    yield "m0 does not get there; m1 is refused, and waits in the client. | z | waits | waits"
    s.lose().wait(300)
    yield "m0 is sent again, then m1. | z m0 m1 | offset 1 | offset 2"


def _until_bump(s: ClientStage) -> None:
    s.hold(Produce).send("A", 1, "y").wait(2000)
    s.hold(Produce, answer=True).send("A", 0, "x").wait(900)
    s.lose(answers=False)


@scenario(
    "A raised epoch repeats a record",
    source="librdkafka #4953 (up to 2.16)",
    stage=_two,
    columns=BUMPED,
    not_played=SEVERAL_BROKERS,
)
def bump_renumbers(s: ClientStage) -> Steps:
    """An error in one partition makes a duplicate in another."""
    s.producer("A", delivery_ms=3000, bump_renumbers=True)
    _until_bump(s)
    yield """y, to partition 1, does not get through. x is in partition 0; its answer is under way.
        | 1/0 | (y) (x) | x | – | waits | waits"""
    s.wait(200)
    yield """y's time has run out: given up. Its sequence is missing in partition 1, so the epoch has to be
        raised; before that, the client waits for all answers.
        | 1/0 | (y) (x) | x | – | waits | _MSG_TIMED_OUT"""
    s.lose().wait(200)
    yield """The connection of x's answer breaks: x will have to be sent again. The epoch is raised, and x
        gets a sequence of the new one. The log cannot recognise it.
        | 1/1 | (y) (x) (x) | x x | – | offset 1 | _MSG_TIMED_OUT"""


@scenario(
    "A raised epoch, done right",
    source="KIP-360; Kafka: `TxnPartitionMap`, Java clients since 2.5",
    stage=_two,
    columns=BUMPED,
    not_played=SEVERAL_BROKERS,
)
def bump_keeps_numbers(s: ClientStage) -> Steps:
    """Each partition takes the new epoch over when nothing of the old one is in doubt there."""
    s.producer("A", delivery_ms=3000)
    _until_bump(s)
    yield "As before. | 1/0 | (y) (x) | x | – | waits | waits"
    s.wait(200)
    yield """y is given up, and the epoch raised at once, for partition 1. Partition 0 continues with the old
        one as long as something of it is not decided.
        | 1/1 | (y) (x) | x | – | waits | _MSG_TIMED_OUT"""
    s.lose().wait(200)
    yield "x is sent again as it was, and recognised. | 1/1 | (y) (x) (x) | x | – | offset 0 | _MSG_TIMED_OUT"
    s.send("A", 0, "x2").send("A", 1, "y2").wait(100)
    yield """What comes then has the new epoch, in both.
        | 1/1 | (y) (x) (x) (x2) (y2) | x x2 | y2 | offset 0 | _MSG_TIMED_OUT"""
