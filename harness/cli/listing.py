"""The lists of `inquest list`: one line for each entry of a registry (in full: docs/catalogue.md)."""

from collections.abc import Callable

from core.config import PRESETS


def first_line(doc: str) -> str:
    """The first sentence of a docstring."""
    return doc.strip().partition("\n")[0]


def workloads() -> dict[str, str]:
    """Workloads."""
    from workloads.registry import WORKLOADS

    return {name: first_line(workload.doc) for name, workload in WORKLOADS.items()}


def nemeses() -> dict[str, str]:
    """Nemeses."""
    from nemesis.registry import NEMESES

    return {name: first_line(nemesis.doc) for name, nemesis in NEMESES.items()}


def checks() -> dict[str, str]:
    """Checks."""
    from checkers.checks import CHECKS

    return {name: check.claim for name, check in CHECKS.items()}


def anomalies() -> dict[str, str]:
    """Anomaly classes."""
    from checkers.catalogue import ANOMALIES

    return {name: anomaly.title for name, anomaly in ANOMALIES.items()}


def presets() -> dict[str, str]:
    """Presets."""
    return {
        name: ", ".join(f"{key}={value}" for key, value in settings.items()) or "the defaults"
        for name, settings in PRESETS.items()
    }


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "workloads": workloads,
    "nemeses": nemeses,
    "checks": checks,
    "anomalies": anomalies,
    "presets": presets,
}
