"""Words of a verdict: what a run comes to, in one sentence; why that is not more."""

from collections.abc import Sequence
from typing import Final

from checkers.catalogue import INFORMATIONAL
from checkers.checks.isolation import READ_UNCOMMITTED
from core.first_few import few_of
from core.op import Phase
from history.events import Interrupted, PhaseStarted
from history.reader import History
from history.verdict import Anomaly, Fault, Verdict, bugs_of

DOUBTS: Final = 8
"""Doubts of one check that a verdict has in words."""
NOT_ON_RECORD: Final = "the recording does not hold what it needs"
"""Why a check was not asked of an imported recording."""


def interruption(history: History) -> str:
    """When the user ended the run, and what that leaves open; "" = no one did."""
    phase = None
    for event in history.events:
        if isinstance(event, PhaseStarted):
            phase = event.phase
        elif isinstance(event, Interrupted):
            during = f", in the phase {phase.name.lower()}" if phase is not None else ""
            left = ""
            if phase is None or phase <= Phase.FINAL:
                when = "during" if phase is Phase.FINAL else "before"
                left = f", {when} the final reads: lost records cannot be ruled out"
            return f"interrupted at {history.seconds(event.ns):.1f} s{during}{left}"
    return ""


def first_doubts(doubts: Sequence[str]) -> list[str]:
    """Not more than a reader looks at."""
    return few_of(doubts, DOUBTS)


def _first(reasons: Sequence[str]) -> str:
    """The first of several reasons, and how many more there are."""
    return reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")


def _usual(name: str, anomaly: Anomaly) -> bool:
    """Every log has some: legal everywhere, or what a reader at read_uncommitted is there to see."""
    return name in INFORMATIONAL or anomaly.why == READ_UNCOMMITTED


def _count(many: float, one: str) -> str:
    return f"{many:.0f} {one}{'s' * (many != 1)}"


def _idle(faults: Sequence[Fault]) -> str:
    """How many of them took no effect, and how many did not reach what they are for."""
    idle = [fault for fault in faults if fault.idle]
    hollow = sum(fault.without_effect for fault in idle)
    told = f", {hollow} without effect" if hollow else ""
    wanted_facts = dict.fromkeys(name for fault in idle for name in fault.wanted)
    if wanted_facts and len(idle) == len(faults):
        return f"{told}, and none reached {' or '.join(wanted_facts)}"
    missed = len(idle) - hollow
    return told + (
        f", {missed} did not reach what {'it is' if missed == 1 else 'they are'} for" if missed else ""
    )


def _bugs(names: Sequence[str]) -> str:
    return f"known bug{'s' * (len(names) != 1)} {', '.join(names)}"


def summary(verdict: Verdict, interrupted: str) -> str:
    """The verdict in one sentence. interrupted: see `interruption`."""
    bad = {name: a for name, a in verdict.anomalies.items() if a.disallowed}
    told = ", ".join(f"{name} ({a.disallowed})" for name, a in bad.items())
    legal = ", ".join(
        f"{name} ({a.count})" for name, a in verdict.anomalies.items() if a.allowed and not _usual(name, a)
    )
    also = f"; allowed here: {legal}" if legal else ""
    missing = [name for name, found in verdict.expect.items() if not found]
    beside = f"; not decided: {_first(verdict.unknown)}" if verdict.unknown else ""
    if bad:
        bugs = {bug for a in bad.values() for bug in bugs_of(a.known_bug)}
        known = f"; all match {_bugs(sorted(bugs))}" if all(a.known_bug for a in bad.values()) else ""
        cut = "the run was interrupted; " if verdict.interrupted else ""
        return f"{cut}found {told}, which this configuration forbids{known}{beside}{also}"
    if missing:
        return f"this control had to find {', '.join(missing)} and did not{beside}{also}"
    if verdict.valid == "unknown" and interrupted:
        return f"{interrupted}; no forbidden anomaly until then{also}"
    if verdict.valid == "unknown":
        first = _first(verdict.unknown)
        return f"no forbidden anomaly found, but not everything could be decided: {first}{also}"
    if verdict.unmet:
        lacks = "; ".join(f"{one.text} ({one.why})" for one in verdict.unmet)
        return f"no forbidden anomaly found, but the run does not meet {lacks}{also}"
    s = verdict.stats
    fired = f"; the control found {', '.join(verdict.expect)}, as it must" if verdict.expect else ""
    under = f" under {_count(s['faults'], 'fault')}" if s["faults"] else ""
    unasked = [name for name, check in verdict.checks.items() if check.why == NOT_ON_RECORD]
    left = f"; not on record, so not judged: {', '.join(unasked)}" if unasked else ""
    return (
        f"no forbidden anomaly in {_count(s['ops'], 'op')}, {_count(s['records acknowledged'], 'record')}"
        f" acknowledged and {s['records read']:.0f} read{under}{_idle(verdict.faults)}{also}{fired}"
        f"{left}"
    )
