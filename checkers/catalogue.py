"""Every anomaly class by name, and whether a run permits a finding of it.

`allowed` never looks at how many findings there are, and a known bug never makes one allowed.
"""

from dataclasses import replace
from typing import Final

from checkers.allowed import Answer, Ground, ground
from checkers.checks import CHECKS
from checkers.engine.check import AnomalyClass
from checkers.engine.findings import Kind
from checkers.logs.classes import CLASSES
from core.config import RunConfig

ANOMALIES: Final[dict[str, AnomalyClass]] = {
    **{name: kind for check in CHECKS.values() for name, kind in check.anomalies.items()},
    **CLASSES,
}
"""Identifier -> class: those of the checks, the most severe first, then those that only logs show."""

INFORMATIONAL: Final = frozenset({"offset-reuse", "int-send-skip", "G1c-ww", "G0", "G0-realtime"})
"""Classes that are legal in every configuration."""


def permission(here: Ground, kind: Kind) -> Answer:
    """Whether a finding of this kind is permitted on this ground, and why."""
    return ANOMALIES[kind.name].rule(replace(here, excuse=kind.excuse), kind.variant)


def allowed(config: RunConfig, kind: Kind) -> Answer:
    """Whether a finding of this kind is permitted in a run with this configuration, and why."""
    return permission(ground(config), kind)
