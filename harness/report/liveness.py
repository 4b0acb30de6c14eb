"""What each fault cost, for a table: the verdict's figures beside the faults.

Not here: how they are measured (`checkers.liveness`), the stalls' lanes (`lanes`).
"""

from dataclasses import dataclass

from harness.verdict import Fault, FaultLiveness, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault with what it cost; `cost` None: not measured."""

    fault: Fault
    cost: FaultLiveness | None


def rows(verdict: Verdict) -> list[Row]:
    """One row a fault in order of time; none, where liveness was not measured for any."""
    costs = {cost.fault: cost for cost in verdict.liveness.faults}
    if not costs:
        return []
    faults = sorted(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault))
    return [Row(fault=fault, cost=costs.get(fault.fault)) for fault in faults]
