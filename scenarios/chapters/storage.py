"""Page cache and flush.

Kafka leaves writing to disk to the operating system: a record is acknowledged when it is
in the page caches of all in sync. That survives a killed process; it does not survive a machine that
fails, and need not, as long as not all of them fail at once."""

from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import LOST_POWER, Steps, scenario

COLUMNS = "acknowledged | log 1 | flushed 1 | log 2 | log 3 | leader"


def _one_flushed(s: PartitionStage) -> Steps:
    s.produce("m0", to=1).settle().flush(1, 2, 3).produce("m1", to=1).rounds(2, 3)
    yield """m0 was flushed; m1 is acknowledged and in the page caches only.
        | m0 m1 | m0 m1 | 1 | m0 m1 | m0 m1 | 1"""


@scenario(
    "A crash keeps the page cache",
    source="Kafka documentation, *Replication*, *Log flush management*",
    stage=lambda: PartitionStage(settings=without("eligible_replicas")),
    columns=COLUMNS,
)
def crash_keeps(s: PartitionStage) -> Steps:
    """SIGKILL of every broker at once loses nothing that was acknowledged."""
    yield from _one_flushed(s)
    s.crash(1, 2, 3).fence(1, 2, 3)
    yield "All processes are killed at the same moment. | m0 m1 | down | down | down | down | –"
    s.restart(1, 2, 3).tell(1, 2, 3)
    yield """They come back and find what the operating system kept. Nothing is lost. (The controller fenced
        them one after the other; broker 3, the last one in sync, leads.)
        | m0 m1 | m0 m1 | 1 | m0 m1 | m0 m1 | 3"""


@scenario(
    "A power loss drops the unflushed tail",
    source="Kafka documentation, *Replication*, *Log flush management*",
    stage=lambda: PartitionStage(settings=without("eligible_replicas")),
    columns=COLUMNS,
    not_played=LOST_POWER,
)
def power_loss_drops(s: PartitionStage) -> Steps:
    """On one machine it is harmless, on all at once it is not."""
    yield from _one_flushed(s)
    s.lose_power(1).fence(1).tell(2, 3)
    yield """Broker 1's machine fails: m1 is gone there. Broker 2 leads.
        | m0 m1 | down | down | m0 m1 | m0 m1 | 2"""
    s.restart(1).tell(2, 3).wait(100).rounds(1, 3).alter(2).altered(2)
    yield """It comes back and fetches m1 again: the replicas are what keeps records.
        | m0 m1 | m0 m1 | 1 | m0 m1 | m0 m1 | 2"""
    s.lose_power(1, 2, 3).fence(1, 2, 3).restart(1, 2, 3).tell(1, 2, 3)
    yield """All machines fail at once: m1 is lost, though it was acknowledged by all.
        | m0 m1 | m0 | 1 | m0 | m0 | 3"""


@scenario(
    "A flush for each record",
    source="Kafka: `log.flush.interval.messages`",
    stage=lambda: PartitionStage(settings=without("eligible_replicas", flush_every=1)),
    columns=COLUMNS,
    not_played=LOST_POWER,
)
def flush_every_message(s: PartitionStage) -> Steps:
    """log.flush.interval.messages = 1: slow, and safe against everything but a broken
    disk."""
    s.produce("m0", to=1).settle()
    yield "m0 is flushed as soon as it is appended, by leader and followers. | m0 | m0 | 1 | m0 | m0 | 1"
    s.produce("m1", to=1).rounds(2, 3)
    yield "So is m1. | m0 m1 | m0 m1 | 2 | m0 m1 | m0 m1 | 1"
    s.lose_power(1, 2, 3).fence(1, 2, 3).restart(1, 2, 3).tell(1, 2, 3)
    yield "All machines fail at once: nothing is lost. | m0 m1 | m0 m1 | 2 | m0 m1 | m0 m1 | 3"
