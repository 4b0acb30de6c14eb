"""A run while it is judged: its findings class by class, allowed or not, labelled, with examples.

Not here: the rules of allowing (`checkers.catalogue`), signatures (`checkers.known_bugs`), the
verdict as a whole (`checkers.verdict`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers.catalogue import ANOMALIES, AnomalyClass
from checkers.kernel_types import LOG, Finding
from checkers.known_bugs import KNOWN_BUGS, label
from checkers.lookup import Lookup
from checkers.rules import Answer, ground
from checkers.sealed import Sealed
from checkers.whole import Tally
from checkers.witness import EXAMPLES, example, fetch
from harness.config import RunConfig
from harness.verdict import Anomaly

LABELLED: Final = 256
"""Findings of one class that are looked at for signatures of known bugs; beyond, none is claimed."""

Answers = Mapping[tuple[str, str], Answer]
"""(class, variant) -> whether it is allowed here, and why."""


@dataclass(slots=True, kw_only=True)
class Judged:
    """One finding with what was decided about it."""

    finding: Finding
    allowed: bool
    why: str
    bug: str = ""


@dataclass(slots=True, kw_only=True)
class Case:
    """A run while it is judged.

    counts: exact, by (class, variant), without what is no anomaly of any client.
    """

    sealed: Sealed
    config: RunConfig
    tally: Tally
    seconds: float
    spark: bool
    lookup: Lookup = field(init=False)
    counts: Counter[tuple[str, str]] = field(init=False)
    judged: list[Judged] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lookup = Lookup(self.sealed)
        self.counts = Counter({key: n for key, n in self.tally.counts.items() if key[1] != LOG})


def sum_up(case: Case) -> dict[str, Anomaly]:
    """Every class that was found. Leaves its findings in `case.judged`, the worst first."""
    here = ground(case.config, case.lookup.faults)
    answers = {key: ANOMALIES[key[0]].rule(here, key[1]) for key in case.counts}
    found = [name for name in ANOMALIES if any(key[0] == name for key in case.counts)]
    judged = {name: _judged(case, answers, name) for name in found}
    fetch(case.lookup, [j.finding for each in judged.values() for j in each[:EXAMPLES]])
    case.judged = [j for each in judged.values() for j in each]
    return {name: _anomaly(case, answers, name, judged[name]) for name in found}


def _judged(case: Case, answers: Answers, name: str) -> list[Judged]:
    """The findings of a class that were kept: forbidden ones first, then unexplained, then early."""
    judged = []
    for finding in case.tally.findings:
        if finding.name == name and finding.variant != LOG:
            permitted, why = answers[name, finding.variant]
            judged.append(Judged(finding=finding, allowed=permitted, why=why))
    for each in [j for j in judged if not j.allowed][:LABELLED]:
        each.bug = label(case.lookup, each.finding, case.sealed.config)
    return sorted(judged, key=_order)


def _order(judged: Judged) -> tuple[bool, bool, bool, int, tuple[int, ...]]:
    at = judged.finding.at_ns
    return judged.allowed, bool(judged.bug), at < 0, at, judged.finding.key


def _anomaly(case: Case, answers: Answers, name: str, judged: Sequence[Judged]) -> Anomaly:
    kind: AnomalyClass = ANOMALIES[name]
    counts = {key: n for key, n in case.counts.items() if key[0] == name}
    disallowed = sum(n for key, n in counts.items() if not answers[key][0])
    reasons = dict.fromkeys(
        answers[key][1] for key in sorted(counts) if answers[key][0] == (not disallowed)
    )
    forbidden = [j for j in judged if not j.allowed]
    bugs = {j.bug for j in forbidden}
    # claimed for the class only where every single finding was kept, and bears it
    bug = bugs.pop() if len(bugs) == 1 and len(forbidden) == disallowed else ""
    return Anomaly(
        title=kind.title,
        literature=kind.literature,
        meaning=kind.meaning,
        count=sum(counts.values()),
        disallowed=disallowed,
        allowed=disallowed == 0,
        why="; ".join(reasons),
        known_bug=bug,
        known_bug_url=KNOWN_BUGS[bug].url if bug else "",
        examples=[
            example(case.lookup, j.finding, allowed=j.allowed, why=j.why, bug=j.bug)
            for j in judged[:EXAMPLES]
        ],
    )
