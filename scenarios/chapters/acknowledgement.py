"""Acknowledgement.

What a producer hears depends on two settings of two sides: its own acks, and the topic's
min.insync.replicas. The second one counts for acks=all only."""

from model.settings import Settings
from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import OTHER_BROKERS, Steps, scenario

MINIMUM = "ISR | log 1 | HW 1 | a | b | c | d: acks=1"


@scenario(
    "acks = 0, 1, all",
    source="Kafka: producer setting `acks`",
    stage=lambda: PartitionStage((1, 2), Settings(min_isr=2)),
    columns="a: acks=0 | b: acks=1 | c: acks=all | log 1 | log 2 | consumers see | HW 1",
)
def acks(s: PartitionStage) -> Steps:
    """When a producer is answered is its own choice; what consumers get is not: they see
    a record once the high watermark has passed it, whatever its acks."""
    yield "Both brokers in sync. | – | – | – | – | – | – | 0"
    s.produce("a", to=1, acks=0)
    yield """acks=0: the producer takes it for delivered when it is sent. There is no answer.
        | sent | – | – | a | – | – | 0"""
    s.produce("b", to=1, acks=1)
    yield "acks=1: answered when the leader has appended it. | sent | acknowledged | – | a b | – | – | 0"
    s.produce("c", to=1)
    yield """acks=all: appended as well, but the answer waits.
        | sent | acknowledged | waits | a b c | – | – | 0"""
    s.fetch(2).answer(2)
    yield "Broker 2 fetches all three. | sent | acknowledged | waits | a b c | a b c | – | 0"
    s.fetch(2)
    yield """Its next fetch moves the HW. Now c is answered, and now consumers get any of the three.
        | sent | acknowledged | acknowledged | a b c | a b c | a b c | 3"""


def _two_left(s: PartitionStage) -> Steps:
    s.crash(3).fence(3).tell(1, 2).produce("a", to=1).rounds(2)
    yield """Broker 3 is gone. Two in sync are enough for min.insync.replicas = 2.
        | 1 2 | a | 1 | acknowledged | – | – | –"""


@scenario(
    "Under-replicated, under the minimum, offline",
    source="Kafka: monitoring",
    stage=lambda: PartitionStage(settings=without("eligible_replicas")),
    columns="AR | ISR | leader | partition",
    not_played=OTHER_BROKERS,
)
def under_replicated(s: PartitionStage) -> Steps:
    """What Kafka's metrics call UnderReplicatedPartitions, UnderMinIsrPartitionCount and
    OfflinePartitionsCount. (Without ELR: the last member stays in the ISR.)"""
    yield "All in sync. | 1 2 3 | 1 2 3 | 1 | whole"
    s.crash(3).fence(3)
    yield "Broker 3 dies. | 1 2 3 | 1 2 | 1 | under-replicated"
    s.crash(2).fence(2)
    yield "Broker 2 dies: fewer than min.insync.replicas = 2. | 1 2 3 | 1 | 1 | under min ISR"
    s.crash(1).fence(1)
    yield """Broker 1 dies, the last one in sync: no leader. It stays in the ISR, as no other replica may
        lead.
        | 1 2 3 | 1 | – | offline"""
    s.restart(3)
    yield "Broker 3 comes back; it is not in sync, and does not lead. | 1 2 3 | 1 | – | offline"
    s.restart(1).tell(3)
    yield "Broker 1 comes back and leads. | 1 2 3 | 1 | 1 | under min ISR"
    s.fetch(3).alter(1).altered(1)
    yield "Broker 3 has everything. | 1 2 3 | 1 3 | 1 | under-replicated"


@scenario(
    "min.insync.replicas",
    source="KIP-966",
    stage=lambda: PartitionStage(settings=Settings(replica_lag_ms=1000)),
    columns=MINIMUM,
)
def min_isr(s: PartitionStage) -> Steps:
    """How many have to be in sync for a record with acks=all. Checked when it comes and,
    since 3.7, by the high watermark itself: what the minimum does not hold is not committed."""
    yield from _two_left(s)
    s.produce("b", to=1).crash(2).fence(2).wait(1100).tell(1)
    yield """b is appended; then broker 2 dies. The HW does not move with fewer in sync than the minimum.
        | 1 | a b | 1 | acknowledged | waits | – | –"""
    s.produce("c", to=1)
    yield """acks=all is refused at once, and nothing is appended.
        | 1 | a b | 1 | acknowledged | waits | NOT_ENOUGH_REPLICAS | –"""
    s.produce("d", to=1, acks=1)
    yield """acks=1 does not ask for the minimum; consumers do not get the record.
        | 1 | a b d | 1 | acknowledged | waits | NOT_ENOUGH_REPLICAS | acknowledged"""
    s.wait(2000)
    yield """b's time has run out. It is in the log and may yet be committed: its producer cannot know.
        | 1 | a b d | 1 | acknowledged | REQUEST_TIMED_OUT | NOT_ENOUGH_REPLICAS | acknowledged"""


@scenario(
    "min.insync.replicas, before 3.7",
    source="Kafka up to 3.6: NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    stage=lambda: PartitionStage(
        settings=without("committed_by_minimum", "eligible_replicas", replica_lag_ms=1000)
    ),
    columns=MINIMUM,
    not_played=OTHER_BROKERS,
)
def min_isr_before_3_7(s: PartitionStage) -> Steps:
    """The high watermark followed the ISR down to the leader alone. The producer of a
    record that was appended before learnt that it has too few copies, when consumers had it already."""
    yield from _two_left(s)
    s.produce("b", to=1).crash(2).fence(2).wait(1100).tell(1)
    yield """b is appended; then broker 2 dies. The HW moves as the leader is the only one in sync; the
        producer gets an error: b has too few copies. Consumers get it.
        | 1 | a b | 2 | acknowledged | NOT_ENOUGH_REPLICAS_AFTER_APPEND | – | –"""
    s.produce("c", to=1)
    yield """acks=all is refused at once.
        | 1 | a b | 2 | acknowledged | NOT_ENOUGH_REPLICAS_AFTER_APPEND | NOT_ENOUGH_REPLICAS | –"""
    s.produce("d", to=1, acks=1)
    yield """acks=1 is committed with a single copy.
        | 1 | a b d | 3 | acknowledged | NOT_ENOUGH_REPLICAS_AFTER_APPEND | NOT_ENOUGH_REPLICAS
        | acknowledged"""
