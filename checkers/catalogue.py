"""All checks, every anomaly class by name, and whether a run permits a finding of it.

`allowed` never looks at how many findings there are, and a known bug never makes one allowed.
"""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from checkers.allowed import Answer, Ground, ground
from checkers.checks import CHECKS
from checkers.engine.check import AnomalyClass, Check
from checkers.engine.findings import Finding, Kind
from checkers.logs.classes import CLASSES
from checkers.logs.registry import LOG_CHECKS
from core.config import RunConfig

ALL_CHECKS: Final[Mapping[str, Check]] = ChainMap(LOG_CHECKS, CHECKS)
"""Name -> check: those of the history, the most severe first, then those of evidence, in both registries."""

ANOMALIES: Final[dict[str, AnomalyClass]] = {
    **{name: kind for check in CHECKS.values() for name, kind in check.anomalies.items()},
    **CLASSES,
}
"""Identifier -> class: those of the checks, the most severe first, then those that only logs show."""

INFORMATIONAL: Final = frozenset(name for name, kind in ANOMALIES.items() if kind.informational)
"""Classes that are legal in every configuration."""


def check_of(finding: Finding | Kind) -> str:
    """The name of the check that found it."""
    return finding.check or next(name for name, one in CHECKS.items() if finding.name in one.anomalies)


def permission(here: Ground, kind: Kind) -> Answer:
    """Whether a finding of this kind is permitted on this ground, and why."""
    return ANOMALIES[kind.name].rule(replace(here, excuse=kind.excuse), kind.variant)


def allowed(config: RunConfig, kind: Kind) -> Answer:
    """Whether a finding of this kind is permitted in a run with this configuration, and why."""
    return permission(ground(config), kind)
