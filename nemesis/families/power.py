"""The nemesis `power`: nodes lose what was not flushed to disk."""

from core.cluster import Powered
from nemesis.families.process import aim_down, revive
from nemesis.targets import TARGETS
from nemesis.types import AimedFault, ClusterView, Effect, Environment, Kind, Nemesis, PlannedFault


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    return aim_down(step, view, ("lost power", "lost power"))


async def _lose_power(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Powered)
    env.down.append(hit)
    await env.cluster.lose_power(hit.nodes)


POWER = Nemesis(
    name="power",
    doc="""\
Brokers lose power, and are started again later: the tail of their logs that was not flushed is gone.

Only where the system under test can do it: the simulated one. The page cache of a container is its
host's, and survives it.

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
    kinds={"one": Kind(doc="the target", weight=3), "all": Kind(doc="all nodes at once", targeted=False)},
    targets=TARGETS,
    effect=Effect(_aim, _lose_power, revive),
    in_random=False,
)
