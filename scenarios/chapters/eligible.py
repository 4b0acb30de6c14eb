"""Eligible leader replicas.

The ISR may shrink to one replica, and if that one loses its unflushed records, every replica
else has to follow it. KIP-966 has two halves: the high watermark does not move with fewer in sync than
min.insync.replicas; and who leaves the ISR while there are fewer stays eligible (ELR), as it has
everything that is committed."""

from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import LOST_POWER, OTHER_BROKERS, Steps, scenario


def _two_left(s: PartitionStage) -> PartitionStage:
    """m0 on all disks; broker 3 is cut off; then m1, by brokers 1 and 2."""
    s.produce("m0", to=1).settle().flush(1, 2, 3).isolate(3)
    s.wait(1500).rounds(2).wait(1600).rounds(2).tell(1, 2)
    return s.produce("m1", to=1).rounds(2)


TWO_LEFT = "Broker 3 is cut off. Two in sync are enough: m1 is acknowledged."

ONE_LEFT = "Broker 2 is cut off as well. It has everything that was acknowledged."

NONE_LEFT = "Broker 1, the last replica standing, loses power, and m1 with it."


@scenario(
    "The last replica standing, without ELR",
    source="KIP-966, motivation",
    stage=lambda: PartitionStage(settings=without("eligible_replicas")),
    columns="ISR | leader | acknowledged | log 1 | log 2 | log 3",
    not_played=OTHER_BROKERS,
)
def last_replica_standing(s: PartitionStage) -> Steps:
    """The ISR shrinks 3, 2, 1, the last one loses its tail."""
    _two_left(s)
    yield f"{TWO_LEFT} | 1 2 | 1 | m0 m1 | m0 m1 | m0 m1 | m0"
    s.isolate(2).fence(2).tell(1)
    yield f"{ONE_LEFT} | 1 | 1 | m0 m1 | m0 m1 | m0 m1 | m0"
    s.lose_power(1).fence(1)
    yield f"{NONE_LEFT} | 1 | – | m0 m1 | down | m0 m1 | m0"
    s.heal()
    yield """The others are back. They are not in sync: they have to wait for the ISR.
        | 1 | – | m0 m1 | down | m0 m1 | m0"""
    s.restart(1).tell(2, 3)
    yield "Broker 1 comes back and leads. | 1 | 1 | m0 m1 | m0 | m0 m1 | m0"
    s.wait(100).rounds(2, 3)
    yield """Broker 2 cuts m1 off, as its leader does not have it. An acknowledged record is lost, with
        acks=all, a minimum of 2, and one machine that failed.
        | 1 | 1 | m0 m1 | m0 | m0 | m0"""


@scenario(
    "The last replica standing, with ELR",
    source="KIP-966",
    stage=PartitionStage,
    columns="ISR | ELR | leader | acknowledged | log 1 | log 2 | log 3",
    not_played=LOST_POWER,
)
def eligible_replicas(s: PartitionStage) -> Steps:
    """The same schedule. An unclean restart takes a broker out of ISR and ELR."""
    _two_left(s)
    yield f"{TWO_LEFT} | 1 2 | – | 1 | m0 m1 | m0 m1 | m0 m1 | m0"
    s.isolate(2).fence(2).tell(1)
    yield f"{ONE_LEFT} So it is remembered as eligible. | 1 | 2 | 1 | m0 m1 | m0 m1 | m0 m1 | m0"
    s.lose_power(1).fence(1)
    yield f"""{NONE_LEFT} It left the ISR last and is eligible too: the controller cannot know yet.
        | – | 1 2 | – | m0 m1 | down | m0 m1 | m0"""
    s.restart(1)
    yield """It comes back first. It says that it was not shut down in order (its broker epoch is not in the
        clean-shutdown file), and is not eligible any more.
        | – | 2 | – | m0 m1 | m0 | m0 m1 | m0"""
    s.heal()
    yield "Broker 2 is back: it is eligible and leads. | 2 | – | 2 | m0 m1 | m0 | m0 m1 | m0"
    s.wait(100).rounds(1, 3)
    yield "The others follow it: nothing is lost. | 2 | – | 2 | m0 m1 | m0 m1 | m0 m1 | m0 m1"


@scenario(
    "Eligible until the minimum is reached again",
    source="KIP-966; Kafka: `PartitionChangeBuilder.maybePopulateTargetElr`",
    stage=PartitionStage,
    columns="ISR | ELR | leader | HW 1",
)
def eligible_until_minimum(s: PartitionStage) -> Steps:
    """ELR' = ∅ if |ISR| is at least the minimum, else ELR ∪ (old ISR ∖ new ISR)."""
    _two_left(s).isolate(2).fence(2).tell(1)
    yield "One in sync, one eligible. | 1 | 2 | 1 | 2"
    s.produce("m2", to=1, acks=1).wait(3100)
    yield """m2, with acks=1, is on broker 1 alone. The HW stands still, so broker 2 stays eligible: it has
        all that is committed.
        | 1 | 2 | 1 | 2"""
    s.heal(3).tell(1).rounds(3).alter(1).altered(1)
    yield """Broker 3 is back, has caught up and is let in. The minimum is reached, no replica needs to be
        eligible, and the HW continues.
        | 1 3 | – | 1 | 3"""
