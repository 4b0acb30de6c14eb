"""The nemesis `recreate-topics`: topics are deleted under load, and made again under their names."""

from collections.abc import Sequence

from core.capabilities import Killable, Remakable
from core.config import RunConfig
from core.generator import source
from core.op import TopicPartition
from nemesis.families.process import REVIVED, kill, revive
from nemesis.targets import TARGETS, described, find, has_zookeeper, listed
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
    NoEffect,
    NoTarget,
    PlannedFault,
)

DELETES = "delete.topic.enable"
GONE_S = 15.0
"""How long brokers have to forget topics; those that are down are not asked."""
MISSED_S = 1.0
"""How long clients work on topics that are not there."""
LED_S = 15.0
"""How long brokers have to agree on who leads the new partitions; one that is down is fenced in 3 s first."""
REFUSED = {
    "sink": "rows of its database remember offsets of the topic that is deleted",
    "share": "a share group remembers offsets of the topic that is deleted",
    "application": "the application would have to live through it",
    "fresh-topic": "its topics are made by its clients",
}


def _refuses(config: RunConfig) -> str:
    if why := REFUSED.get(config.workload):
        return f"not with the workload {config.workload}: {why}"
    if config.broker_settings.get(DELETES, "true").strip().lower() != "true":
        return f"brokers delete no topic: leave {DELETES} of broker_settings"
    if config.compacted:
        return "no check distinguishes what compaction and what the deletion removed: leave cleanup.policy"
    return ""


def _waits(config: RunConfig) -> str:
    """Why no topic is deleted while a broker is down."""
    if not has_zookeeper(config):
        return ""
    return "brokers with ZooKeeper delete a topic only once all of its replicas are up: set metadata to kraft"


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    topics = list(dict.fromkeys(tp.topic for tp in view.names.data))
    tps = tuple(sorted(tp for tp in view.roles.leaders if tp.topic in topics))
    if {tp.topic for tp in tps} != {*topics}:
        raise NoTarget("no broker tells of the workload's topics")
    text = f"topics were deleted, and made again: {', '.join(topics)}"
    if step.kind != "away":
        return AimedFault(step=step, tps=tps, text=text)
    found = find(step.target, source(step.seed, "aim"), view, answering=True, brokers=True)
    who = described(found.node, view, found.role)
    return AimedFault(step=step, nodes=(found.node,), tps=tps, text=f"{who} was killed; then {text}")


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoTarget, where none would be deleted now; ClusterError; NoEffect, where a new partition has
    no leader, or a client does not end its process."""
    if (down := sorted(env.held_down())) and (why := _waits(env.config)):
        raise NoTarget(f"another fault holds {listed(down)} down, and {why}")
    if hit.nodes:
        await kill(env, hit)
    counts: dict[str, int] = {}
    for tp in hit.tps:
        counts[tp.topic] = 1 + max(tp.partition, counts.get(tp.topic, 0) - 1)
    env.remaking.doomed.update(counts)
    await _remake(env)


async def _remake(env: Environment) -> None:
    """Delete what is to be deleted, make it again, let clients work on it; continues where it stopped."""
    assert isinstance(env.cluster, Remakable)
    remaking = env.remaking
    if remaking.doomed:
        await env.cluster.delete_topics(tuple(remaking.doomed), GONE_S)
        remaking.unmade.update(remaking.doomed)
        remaking.doomed.clear()
        await env.clock.sleep(MISSED_S)
    if late := await env.clients.rest(2 * env.config.verb_deadline_s):
        raise NoEffect(f"clients {', '.join(map(str, late))} do not end what they do")
    if why := await env.until(lambda: _make(env), LED_S):
        raise NoEffect(why)
    await _work(env)


async def _make(env: Environment) -> str:
    """Make topics that are gone; "" where all their partitions have a leader. A topic that is still being
    deleted counts as made when it is asked for, so it is asked for until it is led."""
    assert isinstance(env.cluster, Remakable)
    remaking = env.remaking
    factor, settings = env.config.replication_factor, env.config.settings_of_topics()
    for topic, count in remaking.unmade.items():
        await env.cluster.make_topic(topic, count, factor, settings, GONE_S)
    leaders = (await env.cluster.roles()).leaders
    for topic, count in tuple(remaking.unmade.items()):
        tps = [TopicPartition(topic, number) for number in range(count)]
        if all(leaders.get(tp, -1) >= 0 for tp in tps):
            del remaking.unmade[topic]
            remaking.made = True
    return f"no node leads all partitions of {', '.join(remaking.unmade)}" if remaking.unmade else ""


async def _work(env: Environment) -> None:
    """Let clients work on the topics that there are now."""
    remaking = env.remaking
    remaking.times += remaking.made
    remaking.made = False
    await env.clients.work(remaking.times)


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Start the broker; make what is still missing."""
    if hit.nodes:
        await revive(env, hit)
    if env.remaking.begun:
        await _remake(env)


def _remake_all(env: Environment) -> Act:
    async def act(_: Sequence[int]) -> None:
        await _remake(env)

    return act


REMADE = Healing(
    at=HealingStage.CLIENTS,
    needs=Remakable,
    what="make again",
    of="set of deleted topics",
    everyone=lambda env: range(env.remaking.begun),
    act=_remake_all,
)

RECREATE_TOPICS = Nemesis(
    name="recreate-topics",
    healings=(REVIVED, REMADE),
    doc="""\
Topics are deleted under load, and made again under their names.

Operators do that to empty a topic, or to give it fewer partitions; deployment tools do it unasked. All
topics of the workload are deleted by one DeleteTopics. Once no broker has them any more, clients still work
on them for a second; then they end their processes, topics with the same names, partitions and settings
are made, and the clients begin new processes. Kind `away`: a broker is killed before and started after,
and comes back with the logs of the deleted topics. With ZooKeeper a topic with a replica that is down is
not deleted until that is up again: `away` is refused there, and `all` waits until no fault holds one down.

What Kafka does (KIP-516): a topic is known by its id, and the new one has another. Brokers delete the logs
of the old one; one that was down finds on its start that an id is not the one in `partition.metadata`, and
puts those logs aside. Offsets begin at 0 again, leader epochs too. The coordinators of groups forget the
offsets of deleted topics. A transaction over a deleted partition ends without a marker there.

What it permits: the loss of everything that the old topic had. In verdicts and reports the old topic
has another name: `queue~1` is `queue` before its first deletion. What stood in it is still asked for
order, isolation, repetition and integrity, as far as clients saw it. What it tends to show: records of the
old topic in the new one; acknowledged records of the new one that a broker with old logs lacks; committed
offsets of the old topic, by which a group passes records of the new one. None of that is allowed. Kafka shows
the last one (4.4.0: 3 of 3 runs of `groups` under `away@group-coordinator`): who coordinates the group next
loads its offsets after the deletion, and removes none (known bug `deleted-topic-offsets`).""",
    colour="#AA4466",
    needs=(Remakable,),
    refuses=_refuses,
    kinds={
        "all": FaultKind(
            doc="each topic of the workload", targeted=False, hold=Hold.BRIEF, weight=2, apply_s=4.0
        ),
        "away": FaultKind(
            doc="each topic of the workload, while the target is down",
            brokers=2,
            brokers_only=True,
            apply_s=4.0,
            needs=(Killable,),
            refuses=_waits,
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
