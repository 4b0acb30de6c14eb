"""The scenarios of docs/model, played on a real broker and by the model at once.

The same steps drive two stages; one has real brokers. After each step the cells of the table are
read from both by the same requests, and have to become equal. A scenario is played on a version of Kafka
where its table is right for that version, by the model (`applies`); else it tells of brokers of another time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, NamedTuple

from core.errors import UsageError
from harness.contract.cells import HIDDEN, Aliases, hidden_columns, row
from harness.contract.differences import known_cells, without_known
from harness.contract.stage import PACE
from harness.contract.versions import Version, version_of
from harness.processes.waiting import NotYet
from scenarios.drivers.cluster import ClusterStage, lone
from scenarios.framework import AnyScenario, cell
from scenarios.registry import CHAPTERS

PAUSE_S: Final = 0.1
LOOKS: Final = 100
"""Looks at cells, one each `PAUSE_S`, after which they have come to rest if none of these looks changed them.
They are counted, not timed: a broker that is late with its answers is late with what they tell."""
DEADLINE_S: Final = 120.0
"""Cells that still change then are compared as they are."""

SCENARIOS: Final[Mapping[str, AnyScenario]] = {
    scenario.name: scenario for chapter in CHAPTERS.values() for scenario in chapter.scenarios
}
"""All of docs/model by name."""
PLAYED: Final = tuple(name for name, scenario in SCENARIOS.items() if not scenario.not_played)

Real = Callable[[ClusterStage], ClusterStage]
"""Makes the stage with real brokers: of the same kind as the model's, with the same brokers and settings."""


class CellDifference(NamedTuple):
    """Cells of one step are not equal. step: from 1 on. real, modelled: the cells that differ, by heading."""

    scenario: str
    step: int
    says: str
    real: Mapping[str, str]
    modelled: Mapping[str, str]

    @property
    def text(self) -> str:
        """In words."""
        cells = [f"    {h}: Kafka {self.real[h]}, model {self.modelled[h]}" for h in self.real]
        return "\n".join([f"scenario {self.scenario}, step {self.step}: {self.says}", *cells])


@dataclass(slots=True)
class ScenarioComparison:
    """What was played. cells: how many were compared. skipped: scenarios of brokers of another time.
    unplayable: scenarios that these brokers cannot be made to play, with the reason."""

    played: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unplayable: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    cells: int = 0
    seconds: float = 0.0
    differences: list[CellDifference] = field(default_factory=list)

    @property
    def text(self) -> str:
        """One line."""
        return (
            f"{len(self.played)} scenarios of {len(SCENARIOS)}, {self.steps} steps, {self.cells} cells, "
            f"{len(self.differences)} differences; {len(self.skipped)} are of brokers of another time, "
            f"{len(SCENARIOS) - len(PLAYED) + len(self.unplayable)} are not played; {self.seconds:.0f} s"
        )


def stage_of(scenario: AnyScenario, version: Version) -> ClusterStage:
    """A scenario's stage, in the era of a version of Kafka; its clients speak the scenario's transaction
    version, if the brokers do."""
    stage: ClusterStage = scenario.stage()
    spoken = min(stage.settings.era.client_transaction_version, version.transaction_versions[-1])
    return stage.again(replace(stage.settings, era=version.era_of(spoken)))


def applies(scenario: AnyScenario, version: Version) -> bool:
    """Whether the model, with brokers of this version, shows the scenario's table as it stands."""
    stage: Any = stage_of(scenario, version)
    try:
        for step in scenario.steps(stage):
            _, *stated = (" ".join(text.split()) for text in step.split("|"))
            if [cell(stage.look(name)) for name in scenario.columns.values()] != stated:
                return False
    except AssertionError:  # a driver's: what the step waits for does not happen
        return False
    return True


@cache
def compared_tables(kafka: str) -> Mapping[str, tuple[str, ...]]:
    """Scenarios that are compared with brokers of a version of Kafka → headings of their tables that are
    not. Raises: UsageError, for a version that is too old, and for what is none."""
    version = version_of(kafka)
    those = {name: SCENARIOS[name] for name in PLAYED}
    return {
        name: hidden_columns(one, type(stage_of(one, version)))
        for name, one in those.items()
        if applies(one, version)
    }


def play_all(
    names: Iterable[str],
    version: Version,
    real: Callable[[str], Real],
    say: Callable[[str], None],
    comparison: ScenarioComparison,
) -> None:
    """Play those of the scenarios that apply. real: by the name of a scenario. comparison: gets
    what they bring.

    Raises: AdminError, ClusterError, NotYet.
    """
    began = time.monotonic()
    for name in names:
        scenario = SCENARIOS[name]
        if not applies(scenario, version):
            comparison.skipped.append(name)
            continue
        difference = play(scenario, version, real(name), comparison)
        comparison.played.append(name)
        if difference is not None:
            comparison.differences.append(difference)
            say(difference.text)
    comparison.seconds += time.monotonic() - began


def play(
    scenario: AnyScenario, version: Version, real: Real, comparison: ScenarioComparison
) -> CellDifference | None:
    """Play one, up to the first step with a difference."""
    modelled = stage_of(scenario, version)
    kind, played = type(modelled), real(modelled)
    steps = _steps(scenario, played)
    ours, theirs = Aliases(), Aliases()

    def look() -> tuple[str, ...]:
        cells = zip(scenario.columns.values(), row(scenario, kind, played), strict=True)
        return theirs.row(tuple(without_known(*one, version.kafka, known_cells()) for one in cells))

    for number, text in enumerate(scenario.steps(modelled), 1):
        says = " ".join(text.partition("|")[0].split())
        expected = ours.row(row(scenario, kind, modelled))
        if (failed := next(steps, "ended")) != "":
            return CellDifference(scenario.name, number, says, {"step": failed}, {"step": "comes to its end"})
        found = _settled(look, expected)
        comparison.steps += 1
        comparison.cells += sum(one != HIDDEN for one in expected)
        if found != expected:
            wrong = [n for n, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]
            heads = list(scenario.columns)
            return CellDifference(
                scenario.name,
                number,
                says,
                {heads[n]: found[n] for n in wrong},
                {heads[n]: expected[n] for n in wrong},
            )
    return None


def _steps(scenario: AnyScenario, stage: ClusterStage) -> Iterator[str]:
    """Plays a step each time; "", or why it does not come to its end."""
    try:
        for _ in scenario.steps(stage):
            yield ""
    except (AssertionError, NotYet) as error:  # a driver's: what the step waits for does not happen
        yield str(error) or "does not"


def _settled(look: Callable[[], tuple[str, ...]], expected: tuple[str, ...]) -> tuple[str, ...]:
    """The cells as soon as they are the expected ones; else when they have come to rest."""
    deadline = time.monotonic() + DEADLINE_S
    found, same = look(), 0
    while found != expected and same < LOOKS and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        before, found = found, look()
        same = same + 1 if found == before else 0
    return found


EXPIRATIONS: Final[Mapping[str, str]] = {
    "producer_id_expiration_ms": "producer.id.expiration.ms",
    "transactional_id_expiration_ms": "transactional.id.expiration.ms",
}
"""Settings of the model that scenarios change -> the broker's."""


def broker_settings(name: str) -> dict[str, str]:
    """Settings of brokers that a scenario needs, beside those of the cluster of the comparison."""
    settings = SCENARIOS[name].stage().settings
    usual = lone(era=settings.era)
    changed = {field: getattr(settings, field) for field in EXPIRATIONS}
    needed = {field: value for field, value in changed.items() if value != getattr(usual, field)}
    if replace(usual, **needed) != settings:
        raise UsageError(f"scenario {name} has settings that brokers cannot be given here")
    return {EXPIRATIONS[field]: str(value * PACE) for field, value in needed.items()}
