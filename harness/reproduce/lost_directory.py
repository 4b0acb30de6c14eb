"""A follower loses one of two log directories: its leader waits for it, though it is not in sync any more."""

from time import monotonic
from typing import Final

from core.capabilities import DirectoryFailable
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin import log_directories
from harness.containers.data import SECOND
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached, PerformedWait
from harness.reproduce.library_producer import PATIENT, PlainProducer
from harness.reproduce.stage import FiveBrokers

PARTITIONS: Final = 4
"""A broker puts each new replica into the directory with the fewest: some are in the second one."""


def waits(stage: FiveBrokers, name: str, good: bool) -> PerformedWait:
    """The log directory with a follower's replica fails, its broker lives on; the controller takes it out of
    the in-sync set. Then a record is written. On the good side the broker is killed instead."""
    leader, follower, other = stage.cluster.brokers[:3]
    tps = stage.create(name, [(leader, follower, other)] * PARTITIONS)
    second = log_directories.replicas(stage.cluster.admin, follower)[SECOND] or ()
    tp = next((one for one in tps if one in second), None)
    if tp is None:
        raise NotReached(f"the second directory of broker {follower} has no replica of {name}")
    producer = PlainProducer(stage, {"enable.idempotence": True, **PATIENT})
    producer.write(tp, "before")
    assert isinstance(stage.cluster, DirectoryFailable)
    try:
        if good:
            stage.kill(follower)
        else:
            run_blocking(stage.cluster.fail_directory(follower, STEP_S))
        until(STEP_S, PAUSE_S, lambda: _left(stage, tp, follower))
        stage.say(f"broker {follower} {'is dead' if good else 'lives on'}, and is not in sync any more")
        began = monotonic()
        producer.write(tp, "after")
        waited_s = monotonic() - began
        who = f"broker {follower} had left the in-sync set of {tp}; the producer of a record"
        return PerformedWait(who=who, waited_s=waited_s)
    finally:
        stage.kill(follower)
        run_blocking(stage.cluster.mend_directories([follower]))


def _left(stage: FiveBrokers, tp: TopicPartition, node: int) -> None:
    """Raises: NotYet, where the replica is in sync."""
    if node in (found := run_blocking(stage.cluster.roles()).isr.get(tp, (node,))):
        raise NotYet(f"in sync are {found}")
