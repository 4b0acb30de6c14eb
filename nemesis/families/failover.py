"""The nemesis `failover`: a second death, before the cluster is whole after the first one."""

from functools import partial

from core.capabilities import Killable, Partitionable
from core.config import RunConfig
from core.generator import source
from core.internal_topics import TRANSACTION_TOPIC
from core.systems import ExternalSection
from nemesis.families.partition import MENDED, cut, ordered, unfed
from nemesis.families.process import REVIVED, kill, mend_and_revive, revive
from nemesis.targets import TARGETS, described, find, listed, unfed_by_zookeeper, unnamed
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
    WorkloadNames,
)

COORDINATOR = "txn-coordinator"
LAG = "replica.lag.time.max.ms"
LAG_MS = 15_000
"""Least time that a follower that lags has to stay in sync: two elections and what lies between."""
WHOLE_S = 2.0
"""All replicas of the partition have this long to be in sync, and its clients to be at work; then others have
their turn, and it is tried again."""
BUSY_S = 0.5
"""A client is at work if it got a record acknowledged so long ago at most."""
LAG_S = 1.0
"""How long the follower lags before the first coordinator dies: meanwhile requests arrive."""
ELECTED_S = 15.0
"""A leader that was killed has a successor within the session timeout (3 s) and little more."""
SERVE_S = 2.0
"""How long a coordinator lives on if no client of it gets a record acknowledged."""
RECOVERS_S = (1.0, 4.0)
"""When after its start a broker recovers its logs and registers."""
ANSWERS_S = 20.0
"""A broker answers about 5 s after its start."""
SUCCESSOR_S = 4.0
RECOVERING_S = 5.0
LAGGING_S = 12.0
"""About what it takes until each kind is in force."""


def _refuses(config: RunConfig) -> str:
    if why := unfed_by_zookeeper(config):
        return why
    given = config.broker_settings.get(LAG, "3000")
    if given.isdecimal() and int(given) >= LAG_MS:
        return ""
    where = "the cluster's brokers" if config.has(ExternalSection) else "broker_settings"
    return (
        f"a follower that lags has to stay in sync for {LAG_MS // 1000} s: set {LAG} of {where} to 30000, "
        "Kafka's default"
    )


def _lacks(kind: str, target: str, names: WorkloadNames) -> str:
    if kind == "lagging" and target != COORDINATOR:
        return f"use for it at {target}: it takes {COORDINATOR}"
    return unnamed(target, names)


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    aim = find(step.target, source(step.seed, "aim"), view, answering=True, brokers=True)
    first = described(aim.node, view, aim.role)
    if step.kind == "recovering":
        text = f"{first} was killed (SIGKILL), started, and killed again while it recovered"
        return AimedFault(step=step, nodes=(aim.node,), text=text)
    named = aim.role.partition(" of ")[2]
    data = {str(tp): tp for tp in view.names.data}
    log = view.roles.coordinating(TRANSACTION_TOPIC, named)
    tp = log if step.target == COORDINATOR else data[named]
    assert tp is not None  # `find` saw who coordinates the id
    replicas = view.roles.replicas.get(tp, ())
    order = [aim.node, *(node for node in replicas if node != aim.node)]
    if len(order) < 3:
        raise NoTarget(f"{tp} has {len(order)} replicas: none is left when two die")
    if step.kind == "successor":
        text = f"{first} was killed (SIGKILL), and node {order[1]} as soon as it led {tp}"
        return AimedFault(step=step, nodes=tuple(order[:2]), text=text, tps=(tp,))
    *dying, last = order
    cuts = ordered({one for node in dying for one in unfed(node, [last])})
    text = (
        f"node {last}, an in-sync follower of {tp}, could not fetch from {listed(dying)}; then those were "
        f"killed (SIGKILL) one after the other, each while it coordinated, {first} first, so that node "
        f"{last} leads"
    )
    return AimedFault(step=step, nodes=tuple(dying), cuts=cuts, tps=(tp,), text=text)


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoTarget, NoEffect."""
    if hit.step.kind == "recovering":
        await _kill_twice(env, hit)
    else:
        await _kill_in_turn(env, hit)


async def _kill_twice(env: Environment, hit: AimedFault) -> None:
    await kill(env, hit)
    await revive(env, hit)
    moment = source(hit.step.seed, "moment")
    if moment.random() < 0.5:  # while it recovers its logs and registers
        await env.clock.sleep(moment.uniform(*RECOVERS_S))
    elif why := await env.until(partial(_not_answering, env, hit), ANSWERS_S):  # before it is in sync
        raise NoEffect(why)
    if env.stopping():
        raise NoEffect(f"the phase of faults ended before node {hit.nodes[0]} could be killed again")
    await kill(env, hit)


async def _not_answering(env: Environment, hit: AimedFault) -> str:
    silent = sorted(set(hit.nodes) - set((await env.cluster.roles()).answering))
    return f"node {silent[0]} does not answer, {ANSWERS_S:g} s after its start" if silent else ""


async def _kill_in_turn(env: Environment, hit: AimedFault) -> None:
    if why := await env.until(partial(_not_whole, env, hit), WHOLE_S):
        raise NoTarget(why)
    if hit.cuts:
        await cut(env, hit)
        await env.clock.sleep(LAG_S)
    for node, before in zip(hit.nodes, (0, *hit.nodes), strict=False):
        if before:
            await _take_over(env, hit, node)
        if env.stopping():
            ended = f"the phase of faults ended before node {node} could be killed"
            raise NoEffect(ended) if before or hit.cuts else NoTarget(ended)
        await kill(env, hit, node)
    if hit.cuts:
        await _take_over(env, hit, _lagging(hit))


async def _take_over(env: Environment, hit: AimedFault, node: int) -> None:
    """Wait until a node leads, and where it is one that others lag behind, until it has served."""
    if why := await env.until(partial(_not_led, env, hit, node), ELECTED_S):
        raise NoEffect(why)
    if hit.cuts and node != _lagging(hit):
        await env.until(partial(_not_served, env, hit, env.clock.now_ns()), SERVE_S)


def _lagging(hit: AimedFault) -> int:
    (node,) = {one.peer for one in hit.cuts}
    assert node is not None
    return node


async def _not_whole(env: Environment, hit: AimedFault) -> str:
    (tp,) = hit.tps
    roles = await env.cluster.roles()
    if lagging := sorted(set(roles.replicas.get(tp, ())) - set(roles.isr.get(tp, ()))):
        return f"replicas {lagging} of {tp} are not in sync"
    if why := await _not_led(env, hit, hit.nodes[0]):
        return why
    busy_ns = env.clock.now_ns() - round(BUSY_S * 1e9)
    return await _not_served(env, hit, busy_ns) if hit.cuts else ""


async def _not_led(env: Environment, hit: AimedFault, node: int) -> str:
    (tp,) = hit.tps
    leader = (await env.cluster.roles()).leaders.get(tp, -1)
    return "" if leader == node else f"node {node} does not lead {tp}, but {leader}"


async def _not_served(env: Environment, hit: AimedFault, since_ns: int) -> str:
    """ "" if a client of these coordinators got a record acknowledged since then."""
    (tp,) = hit.tps
    roles = await env.cluster.roles()
    ids = {one.slot: one.transactional_id for one in env.clients.slots if one.transactional_id}
    mine = [slot for slot, name in ids.items() if roles.coordinating(TRANSACTION_TOPIC, name) == tp]
    if any(env.clients.acked_ns(slot) >= since_ns for slot in mine):
        return ""
    return f"no record of clients {mine} was acknowledged"


FAILOVER = Nemesis(
    name="failover",
    healings=(MENDED, REVIVED),
    doc="""\
A second death, before the cluster is whole after the first one.

`successor` kills the next leader as soon as it leads, `recovering` the same broker again as it comes back.
`lagging` goes after what a transaction coordinator knows. A follower of its log cannot fetch for some
seconds; it stays in sync for replica.lag.time.max.ms, so that nothing that it misses is committed. The
coordinator is killed; its successor loads all of its log, that tail included, and is killed too, once clients
of it got records acknowledged. Then the one that lagged leads. Every election is clean.

What Kafka does: a partition with two of three replicas down stays readable, and refuses writes
(min.insync.replicas) until one is back. A broker that is killed while it recovers starts over. A coordinator
that has loaded its log acts upon what is not committed yet: it tells a producer that a partition is in its
transaction, or sends markers. The one that lagged knows nothing of that
([the report](findings/uncommitted-transaction-state.md)).

What it tends to show: errors in taking over twice; acknowledged records of an acknowledged commit that no
reader at read_committed gets, an aborted record that becomes visible, a transaction with one half
aborted. `lagging` is refused with ZooKeeper, and where a follower that lags leaves the in-sync replicas too
soon: set replica.lag.time.max.ms of brokers to 30000, Kafka's default (`broker_settings`; on a cluster that
you have, there). Let clients wait for its end (verb_deadline_s 20, transaction_timeout_s 30): they give up
before a coordinator answers otherwise.""",
    colour="#661100",
    needs=(Partitionable, Killable),
    kinds={
        "successor": FaultKind(
            doc="the target, and the next leader as soon as it leads",
            brokers=3,
            apply_s=SUCCESSOR_S,
            reaches=("leader-moved", "coordinator-moved"),
        ),
        "recovering": FaultKind(
            doc="the target, and again once it was started: while it recovers its logs, or when it answers "
            "and is not in sync yet",
            brokers=2,
            apply_s=RECOVERING_S,
            reaches=("leader-moved", "coordinator-moved"),
        ),
        "lagging": FaultKind(
            doc="the coordinator and its successor, while another in-sync replica of their log lags",
            hold=Hold.BRIEF,
            brokers=4,
            drawn_from=5,
            refuses=_refuses,
            apply_s=LAGGING_S,
            reaches=("leader-moved", "coordinator-moved"),
        ),
    },
    targets={target: TARGETS[target] for target in ("leader", COORDINATOR)},
    effect=Effect(_aim, _apply, mend_and_revive),
    lacks=_lacks,
    in_random=False,
)
