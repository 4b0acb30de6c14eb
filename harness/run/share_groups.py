"""The share groups of a run (KIP-932): what they need before the clients start, and what is recorded of them
once all clients have ended."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from core import dead_letters
from core.capabilities import SharesGroups
from core.cluster import Cluster
from core.errors import ClusterError
from core.op import TopicPartition
from harness.run.planning import RunPlan
from history.events import DeadLettersListed, Event, ShareOffsetsListed

SAFETY: Final = ("min.insync.replicas", "unclean.leader.election.enable")
"""What a dead-letter queue has of the settings of the run's data."""


async def configure(cluster: Cluster, plan: RunPlan) -> None:
    """Make their dead-letter queues, and configure them. Raises: ClusterError, ConfigError."""
    if not (groups := plan.workload.share_groups(plan.config)):
        return
    assert isinstance(cluster, SharesGroups), "its backend says that it has share groups"
    data = plan.config.settings_of_topics()
    settings = {**{name: data[name] for name in SAFETY}, **dead_letters.QUEUE}
    for queue in queues(plan):
        await cluster.create_topic(queue, plan.config.partitions, plan.config.replication_factor, settings)
    await cluster.configure_groups(groups)


async def listed(
    cluster: Cluster, plan: RunPlan, run: str, tps: Sequence[TopicPartition], now: Callable[[], int]
) -> AsyncIterator[Event]:
    """Where they stand, then their dead letters: a group passes a record that it archives when the letter
    was written. run: name of the run, which its records bear."""
    groups = tuple(plan.workload.share_groups(plan.config))
    if not groups or not isinstance(cluster, SharesGroups):
        return
    found = await cluster.share_offsets(groups, tps)
    rows = tuple(sorted((group, *tp, offset) for (group, tp), offset in found.items()))
    yield ShareOffsetsListed(ns=now(), rows=rows)
    for queue in queues(plan):
        try:
            letters = await cluster.dead_letters(queue)
        except ClusterError as error:
            yield DeadLettersListed(ns=now(), rows=(), why=str(error))
            continue
        yield DeadLettersListed(ns=now(), rows=tuple(dead_letters.row(run, one) for one in letters))


def queues(plan: RunPlan) -> list[str]:
    """Their dead-letter queues."""
    groups = plan.workload.share_groups(plan.config).values()
    return sorted({its[dead_letters.TOPIC] for its in groups if dead_letters.TOPIC in its})
