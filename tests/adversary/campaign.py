"""Many histories: what differed, and what they covered."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.adversary.compare import broken, differences, shrunk, text
from tests.adversary.metamorphic import CHANGES, changed
from tests.adversary.rows import Recorded, answer, whole_answer
from tests.adversary.runs import recorded

CHANGED = 3
"""Of so many histories one is also changed in a way that changes no verdict."""
WHOLE = 100
"""Of so many recorded runs one is also checked the public way."""


@dataclass(slots=True)
class Result:
    """What a campaign found. wrong: kind of difference -> number; shown: some, in words."""

    histories: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)
    classes: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Result") -> None:
        """Add another one."""
        self.histories += other.histories
        self.wrong += other.wrong
        self.shown += other.shown
        self.classes += other.classes
        self.verdicts += other.verdicts
        self.struck += other.struck

    def summary(self) -> str:
        """In words."""
        lines = ["histories with a finding of the class: " + _counts(self.classes)]
        lines.append("verdicts: " + _counts(self.verdicts))
        lines.append("bugs that struck and showed: " + _counts(self.struck))
        lines.append("differences: " + (_counts(self.wrong) or "none"))
        return "\n".join(lines)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {many}" for name, many in counter.most_common())


def campaign(first: int, many: int, portable: bool, shown: int) -> Result:
    """Histories with the seeds from `first` on. shown: differences to shrink, at most."""
    result = Result()
    for seed in range(first, first + many):
        made = recorded(seed, portable=portable)
        said = answer(made)
        result.histories += 1
        result.classes.update({str(key[0]) for key in said.findings})
        result.verdicts[str(said.valid)] += 1
        result.struck.update(bug for bug, _ in made.promises)
        name = [*CHANGES][seed // CHANGED % len(CHANGES)]
        if found := differences(made, said):
            _noted(result, made, found, differences, shown)
        if seed % CHANGED == 0 and (found := changed(made, name, said)):
            _noted(result, made, found, partial(_changed, name), shown)
        if not portable and seed % WHOLE == 0 and (found := _by_files(made)):
            _noted(result, made, found, _by_files, shown)
    return result


def _changed(name: str, made: Recorded) -> list[str]:
    return changed(made, name, answer(made))


def _noted(
    result: Result, made: Recorded, found: list[str], wrong: Callable[[Recorded], list[str]], shown: int
) -> None:
    result.wrong["".join(letter for letter in found[0] if not letter.isdigit())[:60]] += 1
    if len(result.shown) < shown:
        kind = "portable" if made.portable else "recorded"
        small = made if broken(made, answer(made)) else shrunk(made, wrong)
        said = "\n".join(found)
        result.shown.append(f"--- {kind} history of seed {made.seed}\n{said}\n{text(small)}\n")


def _by_files(made: Recorded) -> list[str]:
    """What the public way says otherwise."""
    one, other = answer(made), whole_answer(made)
    same = (one.valid, one.code, one.forbidden, one.statuses) == (
        other.valid,
        other.code,
        other.forbidden,
        other.statuses,
    )
    return [] if same else [f"with files: {other}, in memory: {one}"]
