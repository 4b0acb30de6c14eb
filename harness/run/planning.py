"""What a run is to do, before anything is started: its workload, the names in use, its planned faults."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.cluster import ClientSlot
from core.config import RunConfig
from nemesis.types import PlannedFault, WorkloadNames
from workloads.registry import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that is known of a run before it starts."""

    config: RunConfig
    workload: Workload
    names: WorkloadNames
    steps: Sequence[PlannedFault]


def names_of(workload: Workload, config: RunConfig) -> WorkloadNames:
    """What the workload uses, so that targets can be found."""
    clients = tuple(
        ClientSlot(
            slot=plan.slot,
            transactional_id=plan.transactional_id or "",
            group=plan.group or "",
            produces=plan.acks is not None,
        )
        for plan in workload.plans(config)
    )
    return WorkloadNames(
        data=workload.tps(config),
        transactional_ids=tuple(sorted({c.transactional_id for c in clients} - {""})),
        groups=tuple(sorted({c.group for c in clients} - {""})),
        clients=clients,
    )
