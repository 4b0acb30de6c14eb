"""The nemesis `unclean`: a replica that misses records becomes leader."""

from core.capabilities import Killable, Partitionable
from core.config import RunConfig
from core.generator import source
from core.unclean_elections import HEEDED, SETTING, unheeded
from nemesis.families.partition import MENDED, cut, ordered, unfed
from nemesis.families.process import REVIVED, kill, mend_and_revive
from nemesis.targets import TARGETS, described, find, unfed_by_zookeeper, unreplicated
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Hold,
    Nemesis,
    NoEffect,
    NoTarget,
    PlannedFault,
)

SHRINK_S = 15.0
"""A leader without followers is alone in sync after 1 to 5 s (replica.lag.time.max.ms: 1000 on real brokers,
3000 in the model)."""
ALONE_S = 1.0
"""How long the leader continues alone before it dies: the load writes meanwhile."""
APPLY_S = 6.0


def _refuses(config: RunConfig) -> str:
    on = config.topic_settings.get(SETTING, str(config.unclean_leader_election)).lower()
    if on != "true":
        return "no replica that misses records may lead here: set unclean_leader_election to true"
    if made_on := unheeded(config):
        return f"{made_on}: KRaft's controller looks at {SETTING} since {HEEDED} (KAFKA-12670)"
    return unreplicated(config) or unfed_by_zookeeper(config)


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    aim = find(step.target, source(step.seed, "aim"), view, answering=True, brokers=True)
    roles = view.roles
    led = tuple(tp for tp in sorted(view.names.data) if roles.leaders.get(tp, -1) == aim.node)
    cuts = ordered(unfed(aim.node, view.brokers))
    if not cuts:
        raise NoTarget(f"{step.target}: node {aim.node} is the only broker")
    text = (
        f"no broker could fetch from {described(aim.node, view, aim.role)} until it was alone in "
        "sync; then it was killed (SIGKILL), so that replicas that miss records have to lead"
    )
    return AimedFault(step=step, nodes=(aim.node,), text=text, cuts=cuts, tps=led)


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoEffect, with the leader alive."""
    await cut(env, hit)
    why = await env.until(lambda: _not_alone(env, hit), SHRINK_S)
    if why:
        raise NoEffect(why)
    await env.clock.sleep(ALONE_S)
    if env.stopping():
        raise NoEffect("the phase of faults ended before the leader could be killed")
    await kill(env, hit)


async def _not_alone(env: Environment, hit: AimedFault) -> str:
    """Why no election would be unclean yet; "" where the leader is alone in sync somewhere."""
    (leader,) = hit.nodes
    roles = await env.cluster.roles()
    led = [tp for tp in hit.tps if roles.leaders.get(tp, -1) == leader]
    if any(roles.isr.get(tp) == (leader,) for tp in led):
        return ""
    if not led:
        return f"node {leader} is not known to lead any of {len(hit.tps)} partitions any more"
    sets = ", ".join(f"{tp} {list(roles.isr.get(tp, ()))}" for tp in led)
    return f"node {leader} is not alone in sync: {sets}"


UNCLEAN = Nemesis(
    name="unclean",
    healings=(MENDED, REVIVED),
    doc="""\
A replica that misses records becomes leader: an unclean election, made on purpose.

The other brokers cannot fetch from a leader any more, while every broker still hears the controllers
and none is fenced. The load writes on; after replica.lag.time.max.ms (1 s here, 3 s in the model) the
leader drops its followers from the in-sync set and acknowledges alone. Then it is killed.

What Kafka does: with unclean.leader.election.enable, a replica outside of the in-sync set leads
within a session timeout, and the old leader cuts its log back to the new one's when it returns. What
only it had is gone, acknowledged or not. Without that setting the partition waits for the old leader
and nothing is lost, so this nemesis is refused there. So it is with KRaft before 3.9, whose controller
does not look at the setting (KAFKA-12670), and with ZooKeeper, whose controller reaches brokers by the
links that are cut. Since Kafka 4.1 min.insync.replicas matters too: below it, replicas that left the
in-sync set stay eligible (KIP-966), miss nothing that is committed, and are elected cleanly; records can
only be lost with min.insync.replicas 1, or acks=1.

What it tends to show: records lost that were acknowledged, in whole tails of a partition; consumers
that have read what no longer exists; on versions before 2.0 replicas that differ for ever (KIP-279).
All of it is what the setting trades for availability: a control, not a bug.""",
    colour="#882255",
    needs=(Partitionable, Killable),
    kinds={
        "lagging": FaultKind(
            doc="the target is cut off from its followers until it is alone in sync, then killed",
            hold=Hold.LONG,
            brokers=2,
            apply_s=APPLY_S,
            reaches=("leader-moved",),
        )
    },
    targets={"leader": TARGETS["leader"]},
    effect=Effect(_aim, _apply, mend_and_revive),
    refuses=_refuses,
    in_random=False,
)
