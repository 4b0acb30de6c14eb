"""The nemesis `power`: nodes lose what was not flushed to disk."""

from dataclasses import replace

from core.capabilities import Powered
from core.errors import LogsKept
from nemesis.families.process import REVIVED, aim_down, revive
from nemesis.targets import TARGETS
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Nemesis,
    NoEffect,
    PlannedFault,
)

APPLY_S = 2.0
"""The logs of a real node are copied and cut."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    return aim_down(step, view, ("lost power", "lost power"), brokers=True)


async def _lose_power(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoEffect, where nothing was lost that might have been; ClusterError, where something may have
    been."""
    assert isinstance(env.cluster, Powered)
    env.ended.update(hit.nodes)
    try:
        lost = await env.cluster.lose_power(hit.nodes, hit.step.seed)
    except LogsKept as error:
        raise NoEffect(f"{hit.text}: {error}") from error
    if not lost and not env.cluster.flushes_each():
        raise NoEffect(f"{hit.text}: all that they had written was flushed")
    gone = (
        f"{lost} batches that were not flushed are gone" if lost else "each record was flushed, none is gone"
    )
    hit = replace(hit, text=f"{hit.text}: {gone}")
    env.hold_down(hit)
    return hit


POWER = Nemesis(
    name="power",
    healings=(REVIVED,),
    doc="""\
Brokers lose power, and are started again later: tails of their logs that were not flushed are gone.

Each log of a real broker loses the batches of its newest segment that its settings leave unflushed, or a
drawn end of them, which may begin inside a batch: those behind the recovery point, but none where each
record is flushed, no more than `flush.messages` - 1 records, and none older than `flush.ms` where a flusher
runs. A modelled broker loses all that was not flushed. The metadata log is flushed always (Raft). A power
loss that takes no batch has failed, unless each record is flushed (`log.flush.interval.messages` 1).

What Kafka does: it answers when enough replicas have a record in memory, and leaves flushing to the
operating system; replication is what keeps records. A broker that was not shut down in order comes
back with a shorter log. Since KIP-966 (4.1) the controller takes it out of the in-sync and eligible
replicas then, and a partition whose in-sync set is below the minimum commits nothing; before that the
last in-sync replica could come back short and lead.

What it tends to show: with all nodes at once, the loss of whatever was not flushed anywhere (allowed,
unless each record is flushed). With one node, on the protocol before KIP-966, the loss of records that
only the last in-sync replica had.""",
    colour="#8B3A62",
    needs=(Powered,),
    kinds={
        "one": FaultKind(doc="the target", weight=3, brokers_only=True, apply_s=APPLY_S),
        "majority": FaultKind(
            doc="the target and others, together a majority of the brokers",
            brokers=2,
            brokers_only=True,
            apply_s=APPLY_S,
        ),
        "all": FaultKind(doc="all nodes at once", targeted=False, apply_s=APPLY_S),
    },
    targets=TARGETS,
    effect=Effect(_aim, _lose_power, revive),
    in_random=False,
)
