"""Election.

The controller chooses the leader: the first replica, in the order of the list, that is in
sync and lives. Each replica in sync has everything that is committed, so any of them would do. What
follows is without eligible leader replicas (KIP-966), which have their own chapter."""

from model.settings import Settings
from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import OTHER_BROKERS, Steps, scenario

TWO = "ISR | leader | leader epoch | acknowledged | log 1 | log 2"
THREE = "running | ISR | leader | acknowledged | log 1 | log 2 | log 3"
RETURNING = "leader | log 1 | log 2 | b | c"


def _old(*, unclean: bool = False) -> Settings:
    return without("eligible_replicas", min_isr=1, unclean=unclean)


@scenario(
    "The first live replica of the ISR leads",
    source="Kafka: `PartitionChangeBuilder`, `Election.PREFERRED`",
    stage=lambda: PartitionStage(settings=_old()),
    columns="AR | running | ISR | leader | leader epoch | partition epoch",
)
def clean_election(s: PartitionStage) -> Steps:
    """The leader epoch rises with every change of the leader (also to none), the
    partition epoch with every change."""
    s.produce("m0", to=1).settle()
    yield "All in sync. Broker 1, the first replica, leads. | 1 2 3 | 1 2 3 | 1 2 3 | 1 | 0 | 0"
    s.crash(2).fence(2).restart(2)
    yield "Broker 2 dies and comes back; it is not in sync yet. | 1 2 3 | 1 2 3 | 1 3 | 1 | 0 | 1"
    s.crash(1).fence(1)
    yield """Broker 1 dies. The first replica that lives is broker 2, the first of the ISR that lives is
        broker 3: it leads.
        | 1 2 3 | 2 3 | 3 | 3 | 1 | 2"""
    s.tell(2, 3).rounds(2).alter(3).altered(3)
    yield "Broker 2 follows broker 3 and is let in. | 1 2 3 | 2 3 | 2 3 | 3 | 1 | 3"


@scenario(
    "The preferred leader gets its leadership back",
    source="KIP-460; Kafka: `ReplicationControlManager.maybeBalancePartitionLeaders`",
    stage=lambda: PartitionStage(settings=without("eligible_replicas", min_isr=1, preferred_check_ms=5000)),
    columns="running | ISR | leader | leader epoch",
)
def preferred_leader(s: PartitionStage) -> Steps:
    """A broker that was restarted leads nothing. The first replica of each list is the preferred leader, so
    that leaderships are spread as the lists are; it gets them back when an operator asks, or when the
    controller looks (auto.leader.rebalance.enable)."""
    s.produce("m0", to=1).settle().crash(1).fence(1).tell(2, 3)
    yield "Broker 1, the preferred leader, dies. Broker 2 leads. | 2 3 | 2 3 | 2 | 1"
    s.restart(1).tell(2, 3)
    yield "It comes back, not in sync. It cannot get the leadership. | 1 2 3 | 2 3 | 2 | 1"
    s.rounds(1, 3).alter(2).altered(2)
    yield "It has caught up and is let in. Broker 2 leads on. | 1 2 3 | 1 2 3 | 2 | 1"
    s.elect()
    yield """An operator asks for a preferred election: the leadership moves, the ISR stays.
        | 1 2 3 | 1 2 3 | 1 | 2"""
    s.tell(1, 2, 3).crash(1).fence(1).tell(2, 3).restart(1).tell(2, 3)
    s.rounds(1, 3).alter(2).altered(2)
    yield "The same again: broker 1 dies, comes back and is let in. | 1 2 3 | 1 2 3 | 2 | 3"
    s.wait(5000)
    yield """Without any request the controller looks every 5 s and moves the leadership.
        | 1 2 3 | 1 2 3 | 1 | 4"""


def _one_ahead(s: PartitionStage) -> PartitionStage:
    """m0 on brokers 1 and 2; then m1, acknowledged by broker 1 that is alone in sync."""
    s.produce("m0", to=1).settle().wait(3100).produce("m1", to=1).wait(100).alter(1).altered(1)
    return s.crash(1).fence(1).tell(2)


@scenario(
    "No replica in sync lives: wait",
    source="Kafka: `unclean.leader.election.enable` = false",
    stage=lambda: PartitionStage((1, 2), _old()),
    columns=TWO,
    not_played=OTHER_BROKERS,
)
def unclean_off(s: PartitionStage) -> Steps:
    """With unclean elections off a partition would rather be unavailable than lose
    records."""
    _one_ahead(s)
    yield """Broker 2 hung, the ISR was broker 1 alone, m1 was acknowledged. Broker 1 dies. It stays in the
        ISR: no replica leads.
        | 1 | – | 1 | m0 m1 | down | m0"""
    s.restart(1).tell(2)
    yield "Broker 1 comes back and leads. | 1 | 1 | 2 | m0 m1 | m0 m1 | m0"
    s.wait(100).rounds(2)
    yield "Broker 2 fetches m1. Nothing is lost. | 1 | 1 | 2 | m0 m1 | m0 m1 | m0 m1"


@scenario(
    "No replica in sync lives: unclean election",
    source="Kafka: `unclean.leader.election.enable` = true",
    stage=lambda: PartitionStage((1, 2), _old(unclean=True)),
    columns=TWO,
)
def unclean_on(s: PartitionStage) -> Steps:
    """With unclean elections on it is the other way round. Until KIP-279 the logs could
    even differ afterwards (see *Truncation*)."""
    _one_ahead(s)
    yield """As before, but unclean.leader.election.enable is on: broker 2 leads although it has not all.
        | 2 | 2 | 1 | m0 m1 | down | m0"""
    s.produce("m2", to=2)
    yield "m2 takes the offset that m1 had. | 2 | 2 | 1 | m0 m1 m2 | down | m0 m2"
    s.restart(1).tell(2).rounds(1)
    yield """Broker 1 comes back and follows: m1 is cut off, m2 fetched. An acknowledged record is lost.
        | 2 | 2 | 1 | m0 m1 m2 | m0 m2 | m0 m2"""


def _two_ahead(s: PartitionStage) -> PartitionStage:
    """m0 everywhere, m1 on brokers 1 and 2, m2 on broker 1 alone; all acknowledged; all dead."""
    s.produce("m0", to=1).settle().crash(3).fence(3).tell(1, 2).rounds(2)
    s.wait(1500).rounds(2).wait(1600).rounds(2).produce("m1", to=1).rounds(2)
    s.crash(2).fence(2).wait(3100).tell(1).produce("m2", to=1)
    return s.crash(1).fence(1)


DOWN_ROW = "Brokers die one after the other: 3 without m1, 2 without m2, at last 1."


@scenario(
    "All replicas down: wait for the ISR",
    source="Kafka documentation, *Unclean leader election: what if they all die?*",
    stage=lambda: PartitionStage(settings=_old()),
    columns=THREE,
    not_played=OTHER_BROKERS,
)
def all_down_wait(s: PartitionStage) -> Steps:
    """The last one of the ISR has to come back, however many others are there."""
    _two_ahead(s)
    yield f"{DOWN_ROW} | – | 1 | – | m0 m1 m2 | down | down | down"
    s.restart(3)
    yield "Broker 3 comes back first. It has to wait. | 3 | 1 | – | m0 m1 m2 | down | down | m0"
    s.restart(2)
    yield "So does broker 2. | 2 3 | 1 | – | m0 m1 m2 | down | m0 m1 | m0"
    s.restart(1).tell(2, 3).wait(100).rounds(2, 3)
    yield """Broker 1, the ISR, comes back and leads. Nothing is lost; there was no leader until now.
        | 1 2 3 | 1 | 1 | m0 m1 m2 | m0 m1 m2 | m0 m1 m2 | m0 m1 m2"""


@scenario(
    "All replicas down: take the first that lives",
    source="Kafka documentation, *Unclean leader election: what if they all die?*",
    stage=lambda: PartitionStage(settings=_old(unclean=True)),
    columns=THREE,
    not_played=OTHER_BROKERS,
)
def all_down_first(s: PartitionStage) -> Steps:
    """The other answer: the replica that comes back first leads, and what it has is the truth."""
    _two_ahead(s)
    yield f"{DOWN_ROW} | – | 1 | – | m0 m1 m2 | down | down | down"
    s.restart(3)
    yield "Broker 3 comes back first and leads at once. | 3 | 3 | 3 | m0 m1 m2 | down | down | m0"
    s.restart(2, 1).tell(2, 3).rounds(1, 2)
    yield "The others follow it: m1 and m2 are lost. | 1 2 3 | 3 | 3 | m0 m1 m2 | m0 | m0 | m0"


@scenario(
    "An operator's unclean election",
    source="KIP-460, ElectLeaders(UNCLEAN)",
    stage=lambda: PartitionStage(settings=_old()),
    columns=THREE,
    not_played=OTHER_BROKERS,
)
def operator_election(s: PartitionStage) -> Steps:
    """Where the ISR is lost for good, an operator has to decide."""
    _two_ahead(s).restart(3, 2)
    yield "As above; broker 1 does not come back. | 2 3 | 1 | – | m0 m1 m2 | down | m0 m1 | m0"
    s.elect(unclean=True)
    yield """An operator asks for an unclean election. The first replica that lives leads: broker 2, as it is
        the first in the list, not because it has more.
        | 2 3 | 2 | 2 | m0 m1 m2 | down | m0 m1 | m0"""


@scenario(
    "A returning leader: unacknowledged records are cut off, and sent again out of order",
    source="Kafka: producer setting `max.in.flight.requests.per.connection`",
    stage=lambda: PartitionStage((1, 2), _old()),
    columns=RETURNING,
)
def returning_leader_retried(s: PartitionStage) -> Steps:
    """What an old leader has beyond the high watermark was promised to no client. A producer
    without idempotence that has several requests in flight sends the missing record again, behind later
    ones."""
    s.produce("a", to=1).settle().produce("b", to=1)
    yield "Broker 1 has b, broker 2 not yet; b's producer waits. | 1 | a b | a | waits | –"
    s.crash(1).fence(1).tell(2)
    yield "Broker 1 dies, broker 2 leads. b is nowhere but on broker 1. | 2 | down | a | waits | –"
    s.produce("c", to=2)
    yield """The producer, which has several requests in flight, sends c to broker 2.
        | 2 | down | a c | waits | acknowledged"""
    s.produce("b", to=2)
    yield "It sends b again: behind c. | 2 | down | a c b | acknowledged | acknowledged"
    s.restart(1).tell(2).rounds(1)
    yield """Broker 1 returns and cuts its own b off: one copy of b, in another order.
        | 2 | a c b | a c b | acknowledged | acknowledged"""


@scenario(
    "A returning leader: records acknowledged with acks=1 are lost",
    source="Kafka: producer setting `acks` = 1",
    stage=lambda: PartitionStage((1, 2), _old()),
    columns=RETURNING,
)
def returning_leader_lost(s: PartitionStage) -> Steps:
    """With acks=1 a record is promised before it is committed."""
    s.produce("a", to=1).settle().produce("b", to=1, acks=1)
    yield "b, with acks=1, is acknowledged when broker 1 has it. | 1 | a b | a | acknowledged | –"
    s.crash(1).fence(1).tell(2)
    yield "Broker 1 dies, broker 2 leads. | 2 | down | a | acknowledged | –"
    s.produce("c", to=2, acks=1)
    yield "c takes b's offset. | 2 | down | a c | acknowledged | acknowledged"
    s.restart(1).tell(2).rounds(1)
    yield """Broker 1 returns and cuts b off. Its producer does not send it again: it was acknowledged, and is
        lost.
        | 2 | a c | a c | acknowledged | acknowledged"""
