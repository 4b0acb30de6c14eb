"""The registry of workloads: every name that a run can be asked for.

A workload is a module. It says which clients a run has (`plans`) and what each of them does (`ops`, a pure
generator); the client loop (`harness.clients.executor`) does it. It imports no client, clock or thread.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.extensions import extensions
from core.generator import Planned, Slot
from core.op import TopicPartition
from workloads import (
    application,
    compacted,
    copier,
    fencing,
    fresh_topic,
    groups,
    queue,
    send_modes,
    share,
    sink,
    transactions,
)
from workloads.prefixed import prefixed_groups, prefixed_ops, prefixed_plans, prefixed_topics


class WorkloadModule(Protocol):
    """What a module of this package has to define; see `Workload`."""

    __name__: str
    __doc__: str | None

    def topics(self, config: RunConfig) -> dict[str, int]: ...  # noqa: D102

    def plans(self, config: RunConfig) -> tuple[SessionSpec, ...]: ...  # noqa: D102

    def ops(  # noqa: D102
        self, config: RunConfig, spec: SessionSpec, slot: Slot
    ) -> Iterator[Planned]: ...


def no_groups(config: RunConfig) -> dict[str, dict[str, str]]:
    """Of a workload without share groups."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A named way to use the cluster.

    topics: topic → number of partitions; the run creates them before its clients start. plans: the session
    settings of each slot (the run fills in `process` when a process starts). ops: the schedule of one process
    of a slot; where it ends, the slot continues with a new process. settings: those that it has and not every
    workload (`SETTINGS` of its module). preset: the one without whose settings it means nothing (`PRESET`
    there), "" = none. share_groups: the settings of its share groups (KIP-932), by Kafka's names; a
    run sets them before its clients start.
    """

    name: str
    doc: str
    topics: Callable[[RunConfig], dict[str, int]]
    plans: Callable[[RunConfig], tuple[SessionSpec, ...]]
    ops: Callable[[RunConfig, SessionSpec, Slot], Iterator[Planned]]
    settings: tuple[str, ...] = ()
    preset: str = ""
    share_groups: Callable[[RunConfig], dict[str, dict[str, str]]] = no_groups

    def tps(self, config: RunConfig) -> tuple[TopicPartition, ...]:
        """All partitions of the workload's topics."""
        topics = self.topics(config).items()
        return tuple(TopicPartition(topic, p) for topic, count in topics for p in range(count))


def workload_of(module: WorkloadModule) -> Workload:
    """The workload that a module defines, under the module's name."""
    return extension_of(module.__name__.rpartition(".")[2].replace("_", "-"), module)


def extension_of(name: str, made: WorkloadModule) -> Workload:
    """The workload of an extension: of its module, or of an object with the same functions."""
    return Workload(
        name=name,
        doc=made.__doc__ or "",
        topics=partial(prefixed_topics, made.topics),
        plans=partial(prefixed_plans, made.plans),
        ops=partial(prefixed_ops, made.ops),
        settings=getattr(made, "SETTINGS", ()),
        preset=getattr(made, "PRESET", ""),
        share_groups=partial(prefixed_groups, getattr(made, "share_groups", no_groups)),
    )


MODULES: tuple[WorkloadModule, ...] = (
    queue, transactions, copier, fresh_topic, fencing, groups, send_modes, compacted, sink, share,
)  # fmt: skip
WORKLOADS: dict[str, Workload] = {
    **{workload.name: workload for workload in map(workload_of, MODULES)},
    **{name: extension_of(name, made) for name, made in extensions("workloads").items()},
}
"""Every workload by name that needs nothing of the user's, extensions last."""
APPLICATION: Final = workload_of(application)
"""The workload that a program of the user's is part of: no matrix and no exploration has it."""


def every_workload() -> dict[str, Workload]:
    """Every workload by name."""
    return {**WORKLOADS, APPLICATION.name: APPLICATION}


def workload_named(name: str) -> Workload | None:
    """The workload of this name, None = there is none."""
    return every_workload().get(name)


def workload_of_run(config: RunConfig) -> Workload:
    """The workload of a run that was planned."""
    found = workload_named(config.workload)
    assert found is not None
    return found


def having(setting: str) -> tuple[str, ...]:
    """Names of the workloads that have a setting which not every workload has."""
    return tuple(name for name, workload in every_workload().items() if setting in workload.settings)


def modelled(*, share_groups: bool = True) -> tuple[str, ...]:
    """Names of the workloads that the reference model can serve. share_groups: its brokers have some."""
    config = RunConfig(seed=0)
    known = WORKLOADS.items()
    return tuple(name for name, workload in known if share_groups or not workload.share_groups(config))
