"""What decides about the phase of faults beside the plan: a subclass of `Guide`, mostly nothing."""

from collections.abc import Sequence
from typing import Self

from core.cluster import Cluster
from harness.run.planning import RunPlan
from nemesis.types import PlannedFault


class Guide:
    """The faults are those of the plan, and last their time. A run uses it as a context manager, and asks the
    others again and again."""

    alone = True
    """Whether all topics of the cluster are the run's. Else others are neither waited for nor read."""

    def faults(self, plan: RunPlan, cluster: Cluster) -> Sequence[PlannedFault] | None:
        """The faults of the run, once all clients work; None = that is not decided yet."""
        return plan.steps

    def over(self, in_force: Sequence[str]) -> str:
        """Why the phase of faults is to end before its time, "" = it is not. in_force: names of faults."""
        return ""

    def done(self) -> bool:
        """Whether the run may end, once its cluster has recovered."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
