"""From a run with a finding to a smallest one that still has it (delta debugging).

The shrinker first leaves out faults (Zeller's ddmin, TSE 2002), then shortens the run and reduces cluster
and load, one setting at a time, as long as the run still has a finding of the same class. It starts again
until it can leave out nothing more. Every try is a whole run of the same seed, judged by the same checks; on
real brokers several (`harness.explore.repeats`), since what they show is a matter of rates.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from checkers.catalogue import ANOMALIES
from core.capabilities import Upgradable
from core.config import RunConfig, run_config
from core.errors import ConfigError, InquestError
from core.systems import KafkaSection
from harness.explore.explained import explained_by
from harness.explore.trial import checked
from harness.explore.trial import findings as forbidden
from harness.modelled.virtual.run import simulate
from nemesis.execute import needs
from nemesis.schedule import GAP_S, Times
from nemesis.types import PlannedFault

LEAST_HOLD_S: Final = 0.5
CALM_S: Final = 0.5
SMALLER: Final[dict[str, tuple[Any, ...]]] = {
    "controllers": (0,),
    "brokers": (3,),
    "partitions": (1, 2, 3),
    "producers": (1, 2),
    "home_producers": (0,),
    "consumers": (0, 1),
    "batch_max": (1, 3),
    "abort_share": (0.0,),
    "rate": (2.0, 5.0, 10.0, 20.0),
}
"""Smaller values of each setting, tried from the left as long as they are smaller than the present one."""


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What was left out (`shrunk.json`).

    of: the original run. anomaly: the class that every smaller run kept. tries: candidates, each with its
    repeats; also those that no run can have. steps: planned faults before and after. settings: name on the
    command line → before and after. whole: all smaller runs were tried; else something ended it: the time
    budget, the user, an error. undecided: smaller runs that may show the class, or not: that is unknown.
    rate: how many repeats of the smallest run show the class, of how many; None = it repeats to the byte.
    """

    of: str
    anomaly: str
    tries: int
    steps: tuple[int, int]
    settings: dict[str, tuple[Any, Any]]
    whole: bool
    undecided: int = 0
    rate: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """In words."""
        faults = f"{self.steps[0]} → {self.steps[1]} faults"
        settings = [f"{name} {_plain(old)} → {_plain(new)}" for name, (old, new) in self.settings.items()]
        rest = "" if self.whole else " (stopped early; more may be left out)"
        shown = f"; {self.rate[0]} of {self.rate[1]} repeats show it" if self.rate else ""
        many = self.undecided
        open_ = f"; {many} smaller run{'s are' if many > 1 else ' is'} undecided" if many else ""
        return f"{self.anomaly}, {', '.join([faults, *settings])}{shown}{open_}{rest}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


@dataclass(frozen=True, slots=True)
class ShrinkCase:
    """A run to try."""

    config: RunConfig
    steps: tuple[PlannedFault, ...]


def findings(case: ShrinkCase, *, known: bool = False) -> list[str]:
    """Classes of forbidden or, in a control, expected findings of a run, in the catalogue's order. known:
    with those that a known weakness of Kafka explains. A simulation that fails has none."""
    try:
        done = simulate(case.config, steps=case.steps)
    except Exception:  # noqa: BLE001 (a fault of the model, or of its cluster, is another failure)
        return []
    tally = checked(done)
    refused = forbidden(done, tally)
    explained = [] if known else explained_by(done.weak, done.journals, refused)
    found = {one.name for one in refused if one not in explained}
    found |= {f.name for f in tally.findings} & set(case.config.expect)
    return [name for name in ANOMALIES if name in found]


def in_simulation(case: ShrinkCase, anomaly: str, *, known: bool = False) -> bool:
    """Whether the simulated run shows the class. known: see `findings`."""
    return anomaly in findings(case, known=known)


@dataclass(slots=True)
class Shrinker:
    """`shrink` goes from a failing case to a smallest one. say: gets a line for each smaller case. shows:
    whether a case shows the class, None = that is unknown. whole: nothing has ended it early. stopped_by:
    what a try raised, if that ended it."""

    anomaly: str
    budget_s: float
    say: Callable[[str], None]
    shows: Callable[[ShrinkCase, str], bool | None] = in_simulation
    clock: Callable[[], float] = time.monotonic
    tries: int = 0
    whole: bool = True
    stopped_by: BaseException | None = None
    _until: float = field(init=False)
    _known: dict[bytes, bool] = field(default_factory=dict)
    _undecided: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.budget_s

    def over(self) -> bool:
        """Whether no more cases are tried: the time is used up, or a try was interrupted or failed."""
        self.whole = self.whole and self.clock() < self._until
        return not self.whole

    def fails(self, case: ShrinkCase) -> bool:
        """Whether the case shows the class; each case is tried until that is known."""
        key = case.config.model_dump_json().encode() + msgspec.json.encode(case.steps)
        if key not in self._known:
            self.tries += 1
            shows = self.shows(case, self.anomaly)
            if shows is None:
                self._undecided.add(key)
                return False
            self._known[key] = shows
        return self._known[key]

    def shrink(self, case: ShrinkCase) -> ShrinkCase:
        """A case that still fails and from which no single part can be left out; when the time is used up, or
        a try is interrupted or fails, the smallest so far."""
        before: ShrinkCase | None = None
        while case != before and not self.over():
            before = case
            case = self._fewer_steps(case)
            case = self._as_far_as_possible(case, _shorter)
            case = self._as_far_as_possible(case, _smaller)
        return case

    def summary(
        self, of: str, before: ShrinkCase, after: ShrinkCase, rate: tuple[int, int] | None = None
    ) -> Shrunk:
        """What was left out; rate: see `Shrunk`."""
        return Shrunk(
            of=of,
            anomaly=self.anomaly,
            tries=self.tries,
            steps=(len(before.steps), len(after.steps)),
            settings=changed(before.config, after.config),
            whole=self.whole,
            undecided=len(self._undecided - self._known.keys()),
            rate=rate,
        )

    def _first_that_fails(self, case: ShrinkCase, candidates: Iterable[ShrinkCase]) -> ShrinkCase | None:
        """The first candidate that fails; None = none does, or no more are tried."""
        for candidate in candidates:
            if self.over():
                return None
            try:
                fails = candidate != case and self.fails(candidate)
            except (KeyboardInterrupt, InquestError, OSError) as error:
                self.stopped_by, self.whole = error, False  # the smallest so far may have cost hours
                return None
            if fails:
                self._tell(case, candidate)
                return candidate
        return None

    def _as_far_as_possible(
        self, case: ShrinkCase, candidates: Callable[[ShrinkCase], Iterator[ShrinkCase]]
    ) -> ShrinkCase:
        while (smaller := self._first_that_fails(case, candidates(case))) is not None:
            case = smaller
        return case

    def _fewer_steps(self, case: ShrinkCase) -> ShrinkCase:
        """Zeller's ddmin over the planned faults."""
        parts = 2
        while case.steps and not self.over():
            size = max(1, len(case.steps) // parts)
            without = (case.steps[:at] + case.steps[at + size :] for at in range(0, len(case.steps), size))
            candidates = (ShrinkCase(_changing(case.config, steps), numbered(steps)) for steps in without)
            smaller = self._first_that_fails(case, candidates)
            if smaller is not None:
                case, parts = smaller, max(parts - 1, 2)
            elif size == 1:
                break
            else:
                parts = min(2 * parts, len(case.steps))
        return case

    def _tell(self, before: ShrinkCase, after: ShrinkCase) -> None:
        words = [f"{len(after.steps)} fault{'s' * (len(after.steps) != 1)}", f"{after.config.duration_s:g} s"]
        words += [f"{n} {_plain(new)}" for n, (_, new) in changed(before.config, after.config).items()]
        self.say(f"{self.tries} tries: {', '.join(words)}")


def numbered(steps: Sequence[PlannedFault]) -> tuple[PlannedFault, ...]:
    """With dense ids, by start."""
    return tuple(msgspec.structs.replace(step, fault=n) for n, step in enumerate(steps))


def _changing(config: RunConfig, steps: Sequence[PlannedFault]) -> RunConfig:
    """Without the version to change to, where no fault does: no run has one for nothing."""
    if not config.has(KafkaSection) or Upgradable in needs(steps):
        return config
    section = config.section(KafkaSection)
    if not section.upgrade:
        return config
    return config.model_copy(update={config.sut: section.model_copy(update={"upgrade": ""})})


def changed(before: RunConfig, after: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, by their names on the command line: before and after."""
    old, new = before.short(), after.short()
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def _with(
    case: ShrinkCase, steps: tuple[PlannedFault, ...] | None = None, **settings: Any
) -> ShrinkCase | None:
    """The case with other settings; None, where they exclude each other."""
    given = case.config.model_dump(mode="json") | settings
    given["isolation"] = case.config.isolation
    try:
        config = run_config(given)
    except ConfigError:
        return None
    return ShrinkCase(config, case.steps if steps is None else steps)


def _shorter(case: ShrinkCase) -> Iterator[ShrinkCase]:
    """Faults that start sooner and last shorter, and a run that ends soon after them."""
    ends = _ends(case)
    end = max(ends, default=0.0) + CALM_S
    found = [_with(case, duration_s=max(1.0, min(end, case.config.duration_s)))]
    for n, step in enumerate(case.steps):
        if step.hold_s > 2 * LEAST_HOLD_S:
            shorter = msgspec.structs.replace(step, hold_s=max(LEAST_HOLD_S, round(step.hold_s / 2, 3)))
            found.append(_with(case, (*case.steps[:n], shorter, *case.steps[n + 1 :])))
        before = case.steps[n - 1].at_s if n else 0.0
        gap = min([step.at_s - before - CALM_S, *_gaps(case.steps, ends, n)])
        if gap > CALM_S:
            later = (msgspec.structs.replace(s, at_s=round(s.at_s - gap, 3)) for s in case.steps[n:])
            found.append(_with(case, (*case.steps[:n], *later)))
    yield from filter(None, found)


def _ends(case: ShrinkCase) -> list[float]:
    """When each fault is planned to end, in seconds."""
    times = Times.of(case.config)
    return [times.in_force(step) + step.hold_s for step in case.steps]


def _gaps(steps: Sequence[PlannedFault], ends: Sequence[float], n: int) -> list[float]:
    """By how much the faults from `n` on can begin sooner until one of a family overlaps itself: of each
    family that has some on both sides, seconds, as `nemesis.written` wants them."""
    earlier = {step.family: end for step, end in zip(steps[:n], ends[:n], strict=True)}
    later = {step.family: step.at_s for step in reversed(steps[n:])}
    return [later[family] - earlier[family] - GAP_S for family in earlier.keys() & later.keys()]


def _smaller(case: ShrinkCase) -> Iterator[ShrinkCase]:
    """Fewer and smaller parts of the cluster and of the load."""
    now = case.config.model_dump(mode="json")
    for name, values in SMALLER.items():
        for value in values:
            if now[name] > value:
                candidate = _with(case, **{name: value})
                if candidate is not None:
                    yield candidate
