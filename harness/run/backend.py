"""A system under test as the harness makes, asks and removes it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.cluster import ServedCluster
from core.config import RunConfig
from harness.run.planning import RunPlan
from harness.run.progress import Display
from history.run_folder import Run


def _honours_all(config: RunConfig) -> str:
    return ""


def _has_no_share_groups(config: RunConfig) -> str:
    return f"workload {config.workload}: it needs share groups; sut=kafka, model and simulated have them"


def _no_advice(names: Sequence[str]) -> str:
    return ""


def _leaves_nothing(run: str, config: RunConfig) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What the entry of a system in `core.systems.SYSTEMS` names. It has one of `cluster` and `record`."""

    capabilities: Callable[[RunConfig], Collection[type]]
    """Those of `core.capabilities.CAPABILITIES` that a cluster with this config has."""
    cluster: Callable[[RunConfig, Path], ServedCluster] | None = None
    """A cluster in real time by config and run folder; nothing is started. Raises: ClusterError."""
    record: Callable[[RunPlan, Run, Display], None] | None = None
    """Makes a run in virtual time, writes it into its new folder and seals it. Raises: OSError."""
    refusal: Callable[[RunConfig], str] = _honours_all
    """Which setting it cannot honour, and what to do; "" = it honours all."""
    share_groups: Callable[[RunConfig], str] = _has_no_share_groups
    """Why it has no share groups (KIP-932), where the workload needs one; "" = it has some."""
    lacking: Callable[[Sequence[str]], str] = _no_advice
    """By names of capabilities that a fault needs and this cluster lacks: what would give it them."""
    release: Callable[[str, RunConfig], list[str]] = _leaves_nothing
    """Removes what a run of this name may have left behind; what stayed, in sentences."""
