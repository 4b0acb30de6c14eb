"""What a run is to do, before anything is started: its workload, the names in use, its planned faults."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from core.config import RunConfig
from core.errors import ConfigError, HistoryError
from core.files import read_small
from core.load_clients import ClientSlot
from core.op import Isolation
from harness.clients.application.instance import DRAIN_S, END_S
from harness.clients.executor import TXN_VERBS, VERBS
from history.run_folder import Run
from nemesis import schedule
from nemesis.types import PlannedFault, WorkloadNames
from nemesis.written import recorded
from workloads.registry import Workload, workload_of_run

OPEN_AND_CLOSE = 2
MARGIN_S = 2.0


@dataclass(frozen=True)
class RunPlan:
    """Everything that is known of a run before it starts."""

    config: RunConfig
    steps: Sequence[PlannedFault]

    @property
    def workload(self) -> Workload:
        """What the clients do."""
        return workload_of_run(self.config)

    @property
    def end_s(self) -> float:
        """How long a client may take to end when it is asked to: its op in hand makes all its calls, each up
        to its deadline, after a new session was opened, which is closed then."""
        transactional = any(plan.transactional_id for plan in self.workload.plans(self.config))
        verbs = TXN_VERBS if transactional else VERBS
        drain_s = DRAIN_S + END_S if self.config.app else 0.0
        return (verbs + OPEN_AND_CLOSE) * self.config.verb_deadline_s + MARGIN_S + drain_s

    @cached_property
    def names(self) -> WorkloadNames:
        """What the workload uses."""
        return names_of(self.config)


def planned(config: RunConfig, capabilities: Collection[type] | None = None) -> RunPlan:
    """The run with the faults that its config plans. capabilities: see `schedule.plan`. Raises:
    ConfigError."""
    return RunPlan(config, schedule.plan(config.nemesis, config, names_of(config), capabilities))


def recorded_steps(run: Run) -> tuple[PlannedFault, ...]:
    """The faults that a recorded run had planned. Raises: HistoryError."""
    try:
        return recorded(read_small(run.schedule))
    except ConfigError as error:
        raise HistoryError(f"{run.schedule}: {error}") from None


def names_of(config: RunConfig) -> WorkloadNames:
    """What the workload of a run uses, so that targets can be found."""
    workload = workload_of_run(config)
    clients = tuple(
        ClientSlot(
            slot=plan.slot,
            transactional_id=plan.transactional_id or "",
            group=plan.group or "",
            produces=plan.acks is not None,
            fed=plan.acks is None
            and (not plan.group or plan.share)
            and (plan.isolation is not Isolation.READ_COMMITTED or config.abort_share < 1),
            instance=config.app is not None and plan.group is not None,
        )
        for plan in workload.plans(config)
    )
    return WorkloadNames(
        data=workload.tps(config),
        transactional_ids=tuple(sorted({c.transactional_id for c in clients} - {""})),
        groups=tuple(sorted({c.group for c in clients} - {""})),
        share_groups=tuple(sorted(workload.share_groups(config))),
        clients=clients,
    )
