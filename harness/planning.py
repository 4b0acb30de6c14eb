"""What a config means for the clients and faults of a run, before anything is started.

Not here: refusing configs (`harness.run`), drawing steps (`nemesis.schedule`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import nemesis as nemeses
from harness.cluster import Clients, ClientSlot, Cluster, Roles
from harness.config import RunConfig
from harness.session import Clock
from workloads import Workload


@dataclass(frozen=True, slots=True)
class BoundNemesis:
    """A plan and the names of this run, as the interpreter and the simulation want them."""

    steps: Sequence[nemeses.Step]
    names: nemeses.Names

    def stage(
        self, cluster: Cluster, clients: Clients, clock: Clock, stopping: Callable[[], bool]
    ) -> nemeses.Stage:
        """Where the faults of this run act."""
        return nemeses.Stage(cluster=cluster, clients=clients, clock=clock, stopping=stopping)

    async def inject(
        self, stage: nemeses.Stage, step: nemeses.Step, roles: Roles
    ) -> nemeses.Injected:
        """See `nemesis.inject`."""
        return await nemeses.inject(stage, step, roles, self.names)

    async def heal(self, stage: nemeses.Stage, injected: nemeses.Injected) -> None:
        """See `nemesis.heal`."""
        await nemeses.heal(stage, injected)

    async def heal_all(self, stage: nemeses.Stage) -> None:
        """See `nemesis.heal_all`."""
        await nemeses.heal_all(stage)


def slots_of(workload: Workload, config: RunConfig) -> tuple[ClientSlot, ...]:
    """The loading clients of a run."""
    return tuple(
        ClientSlot(
            slot=plan.slot,
            transactional_id=plan.transactional_id or "",
            group=plan.group or "",
            produces=plan.acks is not None,
        )
        for plan in workload.plans(config)
    )


def names_of(workload: Workload, config: RunConfig) -> nemeses.Names:
    """What the workload uses, so that targets can be found."""
    clients = slots_of(workload, config)
    return nemeses.Names(
        data=workload.tps(config),
        transactional_ids=tuple(sorted({c.transactional_id for c in clients} - {""})),
        groups=tuple(sorted({c.group for c in clients} - {""})),
        clients=clients,
    )
