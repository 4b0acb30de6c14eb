"""Workloads: what the clients of a run do. One file each; file name = registry key = CLI value (a
hyphen for an underscore). `specs` is no workload: it has the session settings that they share.

A workload says which clients there are (`plans`) and what each of them is asked to do (`ops`, a pure
generator); the client loop (`harness.client`) does it. A workload imports no client, no clock and no
thread. Its docstring is its user documentation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.config import RunConfig
from harness.generator import Planned, Slot
from harness.op import TopicPartition
from harness.session import SessionSpec
from workloads import (
    copier,
    fencing,
    fresh_topic,
    groups,
    queue,
    send_modes,
    transactions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A named way to use the cluster.

    topics: topic → number of partitions, made before the clients start. plans: the session settings
    of each slot (`process` is filled in when a process starts). ops: the schedule of one process of a
    slot; where it ends, the slot goes on with a new process.
    """

    name: str
    doc: str
    topics: Callable[[RunConfig], dict[str, int]]
    plans: Callable[[RunConfig], tuple[SessionSpec, ...]]
    ops: Callable[[RunConfig, SessionSpec, Slot], Iterator[Planned]]

    def tps(self, config: RunConfig) -> tuple[TopicPartition, ...]:
        """All partitions of the workload's topics."""
        topics = self.topics(config).items()
        return tuple(TopicPartition(topic, p) for topic, count in topics for p in range(count))


def _registered(module: Any) -> Workload:
    return Workload(
        name=module.__name__.rpartition(".")[2].replace("_", "-"),
        doc=module.__doc__ or "",
        topics=module.topics,
        plans=module.plans,
        ops=module.ops,
    )


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in map(
        _registered, (queue, transactions, copier, fresh_topic, fencing, groups, send_modes)
    )
}
"""Every workload by name."""
