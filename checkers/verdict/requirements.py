"""What a user requires of a run beside a valid verdict: `recovery<=10s,served>=75%,reached:fenced`.

Words are separated by commas. `exercised`: what the nemesis is for was reached. `reached:FACT`: a fact of
`checkers.faults.reached`. Else a quantity of `QUANTITIES`, its comparison and a bound with its unit.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from checkers.faults.reached import FACTS
from core.errors import ConfigError
from core.secrets import shown
from history.verdict import Requirement, Verdict

Measured = tuple[float | None, str, str]
"""A number, None = it is not known, and what it says of the run: words before the number and after it."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a run. comparison: `<=` or `>=`. unit: `s` or `%`."""

    comparison: str
    unit: str
    meaning: str
    measured: Callable[[Verdict], Measured]

    def holds(self, number: float, bound: float) -> bool:
        """Whether the number is on the right side of the bound."""
        return number <= bound if self.comparison == "<=" else number >= bound

    def shown(self, number: float, bound: float) -> str:
        """The number, rounded to its own side of the bound."""
        met, texts = self.holds(number, bound), (f"{number:.{digits}f}" for digits in range(1, 7))
        return next((one for one in texts if self.holds(float(one), bound) == met), f"{number}")


def _recovery(verdict: Verdict) -> Measured:
    """Seconds of the fault that took longest; where one is not known to have ended, that one."""
    names = {fault.fault: fault.name for fault in verdict.faults}
    costs = [
        (cost.back_s if cost.recovered_s is None else cost.recovered_s, cost)
        for cost in verdict.liveness.faults
    ]
    if not costs:
        return None, "no fault was healed under load", ""
    for seconds, cost in costs:
        if seconds is None:
            return None, f"no recovery from fault {cost.fault} ({names.get(cost.fault, '')}) was seen", ""
    worst, of = max((seconds or 0.0, cost.fault) for seconds, cost in costs)
    many = f"the slowest of {len(costs)}" if len(costs) > 1 else "the only one"
    return worst, f"fault {of} ({names.get(of, '')}) took ", f" s, {many}"


def _share(number: float | None, what: str, lacks: str) -> Measured:
    return (None, lacks, "") if number is None else (100 * number, f"{what} ", " %")


def _in_doubt(verdict: Verdict) -> Measured:
    ops = verdict.stats.get("ops", 0)
    share = verdict.stats.get("info", 0) / ops if ops else None
    return _share(share, "of all ops", "there was no op")


QUANTITIES: Final[Mapping[str, Quantity]] = {
    "recovery": Quantity("<=", "s", "from healing a fault until every partition acknowledges again, of each",
                         _recovery),
    "served": Quantity(">=", "%", "of the time under faults: at most 1 s after an acknowledgement",
                       lambda one: _share(one.liveness.under_faults, "of the time under faults",
                                          "no fault was in force under load")),
    "available": Quantity(">=", "%", "the same of the whole phase of faults",
                          lambda one: _share(one.liveness.available, "of the phase of faults",
                                             "the phase of faults is not on record")),
    "in-doubt": Quantity("<=", "%", "of all ops: those that ended in doubt",
                         _in_doubt),
}  # fmt: skip
WHOLE: Final = 100
"""Per cent: a greater share cannot be met, or cannot be missed."""
_COMPARED = re.compile(r"([a-z-]+)\s*(<=|>=)\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([a-z%]*)")


def required(words: str, verdict: Verdict) -> list[Requirement]:
    """Each requirement, and whether the run meets it: what is not known is not met. Raises: ConfigError."""
    return [_required(word, verdict) for word in _words(words)]


def refuse(words: str) -> None:
    """Raises: ConfigError, which names the first word that says nothing."""
    for word in _words(words):
        if word.startswith("reached:"):
            fact = word.removeprefix("reached:")
            if fact not in FACTS:
                known = ", ".join(FACTS)
                raise ConfigError(f"require: unknown fact {shown(fact)}{_near(fact, FACTS)}; known: {known}")
        elif word != "exercised":
            _compared(word)


def _words(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")] if words.strip() else []


def _compared(word: str) -> tuple[Quantity, float]:
    """The quantity of a word, and its bound. Raises: ConfigError."""
    forms = ", ".join(f"{name}{one.comparison}N{one.unit}" for name, one in QUANTITIES.items())
    match = _COMPARED.fullmatch(word)
    if match is None:
        raise ConfigError(f"require: {shown(word)} is none of {forms}, reached:FACT, exercised")
    name, comparison, bound, unit = match.groups()
    quantity = QUANTITIES.get(name)
    if quantity is None:
        raise ConfigError(f"require: unknown quantity {shown(name)}{_near(name, QUANTITIES)}; known: {forms}")
    if (comparison, unit) != (quantity.comparison, quantity.unit):
        raise ConfigError(f"require: {shown(word)}: write {name}{quantity.comparison}{bound}{quantity.unit}")
    if unit == "%" and float(bound) > WHOLE:
        raise ConfigError(f"require: {shown(word)}: a share is at most {WHOLE} %")
    return quantity, float(bound)


def _near(word: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _required(word: str, verdict: Verdict) -> Requirement:
    if word == "exercised":
        known = not verdict.faults or any(fault.known_to_reach for fault in verdict.faults)
        return Requirement(text=word, met=verdict.exercised and known, why=_exercise(verdict))
    if word.startswith("reached:"):
        facts = verdict.reached or []
        told = f"reached: {', '.join(facts) or 'nothing'}"
        return Requirement(text=word, met=word.removeprefix("reached:") in facts, why=told)
    quantity, bound = _compared(word)
    number, before, after = quantity.measured(verdict)
    if number is None:
        return Requirement(text=word, met=False, why=before)
    told = f"{before}{quantity.shown(number, bound)}{after}"
    return Requirement(text=word, met=quantity.holds(number, bound), why=told)


def _exercise(verdict: Verdict) -> str:
    if not verdict.stats.get("records acknowledged", 0) and not verdict.stats.get("records read", 0):
        return "no record was acknowledged or read"
    if not verdict.faults:
        return "there was no fault"
    reached = sum(fault.known_to_reach for fault in verdict.faults)
    return f"{reached} of {len(verdict.faults)} faults are known to have reached what they are for"
