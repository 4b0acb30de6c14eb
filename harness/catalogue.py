"""docs/catalogue.md, made from the registries (`make catalogue`; a test keeps it up to date).

Not here: the short lists of `inquest list` (`harness.listing`).
"""

from collections.abc import Iterator

from checkers.catalogue import ANOMALIES, CHECKS
from checkers.known_bugs import KNOWN_BUGS
from harness.config import PRESETS
from nemesis import NEMESES
from workloads import WORKLOADS


def catalogue() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Catalogue"
    yield ""
    yield "Generated from the registries by `make catalogue`: do not edit."
    yield ""
    yield "## Workloads"
    for name, workload in WORKLOADS.items():
        yield from ("", f"### {name}", "", workload.doc.strip())
    yield from ("", "## Nemeses")
    for name, nemesis in NEMESES.items():
        yield from ("", f"### {name}", "", nemesis.doc.strip())
        if nemesis.kinds:
            yield from ("", "| kind | what |", "|---|---|")
            yield from (f"| {kind} | {value.doc} |" for kind, value in nemesis.kinds.items())
        if nemesis.targets:
            yield from ("", "| target | what |", "|---|---|")
            yield from (f"| {target} | {what} |" for target, what in nemesis.targets.items())
    yield from ("", "## Presets", "", "| preset | sets | must find |", "|---|---|---|")
    for name, settings in PRESETS.items():
        sets = ", ".join(f"{key} = {value}" for key, value in settings.items() if key != "expect")
        must = ", ".join(settings.get("expect", ())) or "nothing"
        yield f"| {name} | {sets or 'the defaults'} | {must} |"
    yield from ("", "## Checks", "", "| check | claim |", "|---|---|")
    yield from (f"| {name} | {check.claim} |" for name, check in CHECKS.items())
    yield from ("", "## Anomalies", "", "| anomaly | name in the literature | meaning |")
    yield "|---|---|---|"
    for name, anomaly in ANOMALIES.items():
        yield f"| {name} | {anomaly.literature or '—'} | {anomaly.meaning} |"
    yield from ("", "## Known bugs", "", "| id | what | evidence that labels a finding |")
    yield "|---|---|---|"
    yield from (f"| {name} | {bug.title} | {bug.evidence} |" for name, bug in KNOWN_BUGS.items())


if __name__ == "__main__":
    print(catalogue(), end="")
