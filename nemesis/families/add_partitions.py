"""The nemesis `add-partitions`: topics get further partitions, under load."""

from functools import partial

from core.capabilities import Growable
from core.generator import source
from core.op import TopicPartition
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

MOST = 2
"""Most partitions that a topic gets at once."""
TAKEN_S = 5.0
"""The controller makes partitions in a fraction of a second."""
LED_S = 10.0
"""How long brokers have to agree on who leads the new ones."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    more = source(step.seed, "aim").randint(1, MOST)
    # What is written from a topic has as many partitions, and gets its own first.
    topics = [*dict.fromkeys(tp.topic for tp in view.names.data)][::-1]
    have = {
        topic: 1 + max((tp.partition for tp in view.roles.leaders if tp.topic == topic), default=-1)
        for topic in topics
    }
    if not have or not all(have.values()):
        raise NoTarget("no broker tells of the workload's topics")
    count = max(have.values()) + more
    tps = tuple(TopicPartition(topic, n) for topic in topics for n in range(have[topic], count))
    told = ", ".join(f"{topic} (it had {have[topic]})" for topic in topics)
    return AimedFault(step=step, tps=tps, text=f"topics got {count} partitions: {told}")


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoEffect, where a new partition has no leader."""
    assert isinstance(env.cluster, Growable)
    counts = {tp.topic: tp.partition + 1 for tp in hit.tps}  # the last one of each topic
    await env.cluster.add_partitions(counts, TAKEN_S)
    if why := await env.until(partial(_unled, env, hit), LED_S):
        raise NoEffect(why)
    await env.clients.grow(hit.tps)


async def _unled(env: Environment, hit: AimedFault) -> str:
    """ "" where all new partitions have a leader."""
    leaders = (await env.cluster.roles()).leaders
    return next((f"no node leads {tp}" for tp in hit.tps if leaders.get(tp, -1) < 0), "")


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Kafka takes no partition away."""


ADD_PARTITIONS = Nemesis(
    name="add-partitions",
    doc="""\
Topics get further partitions, under load.

Operators do that where a topic has become too small (`kafka-topics --alter --partitions`). Every topic of the
workload gets 1 or 2 more by one CreatePartitions. Once they are led, producers and those that assign
partitions by hand end their process, and the next one works on all partitions. Members of groups
continue: their clients see it in the metadata (every 5 s, on real brokers), and the group rebalances. Healing
takes nothing back.

What Kafka does: the controller places the new replicas; keys go to other partitions from then on, which no
workload here relies on. A group has no committed offset for a new partition. Its members begin where
`auto.offset.reset` says: with `earliest`, as all clients here have it, at the first record; with `latest`,
Kafka's default, behind the records that came before the group knew of the partition, which no member is
ever given (KAFKA-12478).

What it tends to show: with `latest`, records never given to a group (allowed there). Else nothing: loss,
repetition or reordering on old or new partitions is not allowed.""",
    colour="#6699CC",
    needs=(Growable,),
    kinds={
        "all": FaultKind(
            doc="each topic of the workload gets 1 or 2 partitions", targeted=False, hold=Hold.BRIEF
        )
    },
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
