"""Every anomaly class by name, and whether a run permits a finding of it.

`allowed` never looks at how many findings there are, and a known bug never makes one allowed.
"""

from collections.abc import Iterable
from typing import Final

from checkers.allowed import Answer, FaultInForce, Producing, ground
from checkers.checks import CHECKS
from checkers.engine.check import AnomalyClass
from checkers.logs.classes import CLASSES
from core.config import RunConfig

ANOMALIES: Final[dict[str, AnomalyClass]] = {
    **{name: kind for check in CHECKS.values() for name, kind in check.anomalies.items()},
    **CLASSES,
}
"""Identifier -> class: those of the checks, the most severe first, then those that only logs show."""

INFORMATIONAL: Final = frozenset({"offset-reuse", "int-send-skip", "G1c-ww", "G0", "G0-realtime"})
"""Classes that are legal in every configuration."""


def allowed(
    config: RunConfig, faults: Iterable[FaultInForce], producers: Iterable[Producing], name: str, variant: str
) -> Answer:
    """Whether the configuration, the executed faults and the producers permit a finding, and why."""
    return ANOMALIES[name].rule(ground(config, faults, producers), variant)
