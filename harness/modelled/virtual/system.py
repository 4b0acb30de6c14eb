"""The simulated cluster as a system under test."""

from typing import Final

from core.cluster import capabilities_of
from core.config import RunConfig
from core.systems import SimulatedSection
from harness.modelled.shared.settings import refused_settings
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.run_folder import record
from harness.run.backend import Backend
from harness.run.planning import RunPlan
from harness.run.progress import Display
from history.run_folder import Run
from history.seal import seal


def refusal(config: RunConfig) -> str:
    """Which setting the simulation cannot honour, "" = it honours all."""
    its = config.section(SimulatedSection)
    return refused_settings(config, its.era, its.mutant)


def _record(plan: RunPlan, run: Run, display: Display) -> None:
    done = record(plan.config, plan.steps, run)
    seal(run)
    display.say(f"{done.simulated_s:.1f} s simulated")
    for one in done.broken:
        display.say(f"the model broke an invariant: {one.name}: {one.text}")
    for weak in done.weak:
        display.say(f"known weakness {weak.name}: {weak.text}")


SIMULATED: Final = Backend(
    record=_record, capabilities=lambda _: capabilities_of(SimulatedCluster), refusal=refusal
)
