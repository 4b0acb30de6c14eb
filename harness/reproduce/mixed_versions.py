"""A coordinator has a later version of Kafka than the other brokers: it asks them what they do not know."""

from time import monotonic

from core.capabilities import Upgradable
from core.runtime import run_blocking
from harness.processes.waiting import NotYet
from harness.reproduce.cluster import LONG_S, PerformedWait
from harness.reproduce.stage import FiveBrokers


def mixed_markers(stage: FiveBrokers, name: str, good: bool) -> PerformedWait:
    """Broker A alone gets the later version, and coordinates a transaction that commits. Where it does not
    end in time, broker B, which has the first version, is elected to coordinate, and ends it. Both sides are
    the same schedule."""
    _upgrade(stage, stage.a)
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = stage.producer(name, stage.d)
    producer.init()
    producer.write(tp, "zero", stage.d)
    producer.end(commit=True)
    began = monotonic()
    try:
        stage.stable_beyond(tp, 0, f"{tp} has no commit marker", LONG_S)
    except NotYet as error:
        waited_s = monotonic() - began
        stage.say(f"{error} after {waited_s:.1f} s; broker {stage.a} says {producer.described(stage.a)}")
        stage.reorder(stage.log, (stage.b, stage.a, stage.c))
        run_blocking(stage.cluster.elect_preferred([stage.log]))
        stage.leads(stage.b, stage.log)
        stage.stable_beyond(tp, 0, f"broker {stage.b} does not end the transaction either")
        stage.say(f"broker {stage.b} has ended the transaction")
        stage.reorder(stage.log, (stage.a, stage.b, stage.c))
    else:
        waited_s = monotonic() - began
    return PerformedWait(who="a commit was acknowledged; a reader behind it", waited_s=waited_s)


def _upgrade(stage: FiveBrokers, node: int) -> None:
    """Give a broker the later version, if it does not have it. Raises: ClusterError."""
    assert isinstance(stage.cluster, Upgradable)
    if node in stage.cluster.upgraded():
        return
    run_blocking(stage.cluster.shut_down([node]))
    run_blocking(stage.cluster.install([node], later=True))
    stage.restore()
    stage.say(f"broker {node} has the later version")
