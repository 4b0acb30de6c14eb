"""The nemeses `kill` and `pause`: broker processes end, or stand still."""

from core.capabilities import Killable, Pausable, Powered, Restartable, Revivable
from core.config import RunConfig
from core.generator import source
from nemesis.families.partition import mend
from nemesis.targets import TARGETS, described, find, replicas
from nemesis.types import (
    Act,
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Hold,
    Nemesis,
    PlannedFault,
)


def _all_are_replicas(config: RunConfig) -> str:
    """Why no broker would live on."""
    if config.brokers > config.replication_factor:
        return ""
    more = config.replication_factor + 1
    return f"each broker has a replica of each partition: set brokers to {more} or more"


REPLICAS = FaultKind(
    doc="all replicas of one of the workload's partitions, while a coordinator lives on",
    targeted=False,
    hold=Hold.VERB,
    brokers=4,
    drawn_from=4,
    refuses=_all_are_replicas,
)


def aim_down(
    step: PlannedFault, view: ClusterView, what: tuple[str, str], *, brokers: bool = False
) -> AimedFault:
    """Nodes that go down: the target, with others, or all. what: happened to one, to several of them.
    brokers: only a broker is a target.

    Raises: NoTarget.
    """
    rng = source(step.seed, "aim")
    nodes = sorted(view.nodes)
    whose = ""
    if step.kind == "all":
        hit, role = nodes, ""
    elif step.kind == "replicas":
        tp, hit = replicas(rng, view)
        role, whose = f"leader of {tp}", f"all replicas of {tp}: "
    else:
        aim = find(step.target, rng, view, brokers=brokers)
        sort = sorted(view.brokers if aim.node in view.brokers else view.controllers)
        others = [node for node in sort if node != aim.node and node not in view.down]
        more = min(len(sort) // 2, len(others)) if step.kind == "majority" else 0
        hit, role = [aim.node, *sorted(rng.sample(others, more))], aim.role
    parts = [described(node, view, role if at == 0 else "") for at, node in enumerate(hit)]
    text = f"{whose}{', '.join(parts)} {what[len(hit) > 1]}"
    if step.kind == "all":
        text = f"all nodes at once: {text}"
    return AimedFault(step=step, nodes=tuple(sorted(hit)), text=text)


def _aim_kill(step: PlannedFault, view: ClusterView) -> AimedFault:
    return aim_down(step, view, ("was killed (SIGKILL)", "were killed (SIGKILL)"))


async def kill(env: Environment, hit: AimedFault, *nodes: int) -> None:
    """SIGKILL the nodes of a hit (or these of them, one stage of several), and hold them down."""
    assert isinstance(env.cluster, Killable)
    env.hold_down(hit, *nodes)
    await env.cluster.kill(nodes or hit.nodes)


async def revive(env: Environment, hit: AimedFault) -> None:
    """Start the nodes of a hit that are down, but for ones that another hit holds down."""
    assert isinstance(env.cluster, Killable | Restartable | Powered)
    held = env.held_down(other_than=hit)
    await env.cluster.revive([node for node in hit.nodes if node not in held])
    env.down[:] = [other for other in env.down if other != hit]


async def revive_held(env: Environment, hit: AimedFault) -> None:
    """Likewise, but only nodes that stages of the hit's fault still hold down."""
    for held in [one for one in env.down if one.step == hit.step]:
        await revive(env, held)


async def mend_and_revive(env: Environment, hit: AimedFault) -> None:
    """Mend the cuts of a hit, and start its nodes, also where mending fails."""
    try:
        await mend(env, hit)
    finally:
        await revive(env, hit)


def _aim_pause(step: PlannedFault, view: ClusterView) -> AimedFault:
    aim = find(step.target, source(step.seed, "aim"), view, answering=True)
    name = described(aim.node, view, aim.role)
    text = (
        f"{name} is paused, for {step.hold_s:g} s as planned"  # a file may say another length than the kind
    )
    return AimedFault(step=step, nodes=(aim.node,), text=text)


async def _pause(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Pausable)
    await env.cluster.pause(hit.nodes)


async def _resume(env: Environment, hit: AimedFault) -> None:
    assert isinstance(env.cluster, Pausable)
    await env.cluster.resume(hit.nodes)


def _revive_all(env: Environment) -> Act:
    assert isinstance(env.cluster, Revivable)
    return env.cluster.revive


def _resume_all(env: Environment) -> Act:
    assert isinstance(env.cluster, Pausable)
    return env.cluster.resume


REVIVED = Healing(
    at=HealingStage.NODES,
    needs=Revivable,
    what="revive",
    of="node",
    everyone=lambda env: env.cluster.nodes,
    act=_revive_all,
)
RESUMED = Healing(
    at=HealingStage.STILL,
    needs=Pausable,
    what="resume",
    of="node",
    everyone=lambda env: env.cluster.nodes,
    act=_resume_all,
)
KILL = Nemesis(
    name="kill",
    healings=(REVIVED,),
    doc="""\
Brokers are ended by SIGKILL, and started again later.

They get no chance to hand over or to flush, and keep their data.

What Kafka does: partitions of a dead leader get a new one from the in-sync replicas after the session
timeout (3 s here); the started broker recovers its logs, cuts them back to where it agrees with the
new leaders and joins the in-sync replicas again, which takes about 10 s. Without a majority nothing
can be elected; after all nodes at once the cluster is back some 12 s after the start. What was
written is in the page cache and survives: a killed process is not a power loss.

What it tends to show: loss of records acknowledged with acks=0 or acks=1; duplicates of producers
without idempotence, whose leader died between writing and answering; faults in loading the state of
producers, transactions and groups on the next coordinator. Nothing acknowledged may be lost with
acks=all and min.insync.replicas above 1, even when all nodes are killed at once.""",
    colour="#D55E00",
    needs=(Killable,),
    kinds={
        "one": FaultKind(doc="the target", weight=3),
        "majority": FaultKind(
            doc="the target and others, together a majority (of the isolated controllers, where it "
            "is one of them)",
            brokers=2,
        ),
        "all": FaultKind(doc="all nodes at once", targeted=False),
        "replicas": REPLICAS,
    },
    targets=TARGETS,
    effect=Effect(_aim_kill, kill, revive),
)

PAUSE = Nemesis(
    name="pause",
    healings=(RESUMED,),
    doc="""\
A broker stands still, then continues as if no time had passed.

So do a long garbage collection and a stalled virtual machine. Connections stay open, and what was
sent meanwhile is waiting when the broker wakes up.

What Kafka does: a pause shorter than the session timeout (3 s here) only delays. After a longer one
the broker was fenced and its partitions are led by others: it wakes up believing that it leads, may
answer the requests that were waiting for it, and learns the truth with the next answer of the
controller or of a peer. A paused controller is replaced by an election.

What it tends to show: zombies. Records lost that were acknowledged with acks=1 by a leader on waking
up; duplicates and reordering of producers without idempotence, because clients time out and send
again what the paused broker then still handles; transactions ended by a coordinator that is one no
more, and their fencing.""",
    colour="#E69F00",
    needs=(Pausable,),
    kinds={
        "short": FaultKind(doc="shorter than the session timeout: no broker is fenced", hold=Hold.SHORT),
        "long": FaultKind(
            doc="longer than the session timeout: the node is fenced meanwhile", hold=Hold.LONG, weight=2
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim_pause, _pause, _resume),
)
