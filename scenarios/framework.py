"""Scenarios: a mechanism explained step by step, and the explanation executed.

A scenario is a story in the words of a textbook with a table: what happens in each step, and what log
ends, high watermarks, in-sync sets, epochs or states are after it. The stated rows are plain text; `play`
drives the model through the steps and puts the actual row beside each stated one. docs/model is made of
them.

To add one, write into the module of its chapter a generator that drives a stage and yields what happened
and the row after it. Its docstring is the explanation, its name the anchor on the page:

    @scenario(
        "The second fetch round",
        source="KIP-…",
        stage=lambda: PartitionStage((1, 2)),
        columns="LEO 1 | HW 1 | produce",
    )
    def second_fetch(s: PartitionStage) -> Steps:
        \"""The high watermark is …\"""
        s.produce("m0", to=1)
        yield "A producer sends m0 to broker 1. | 1 | 0 | waits"
        s.fetch(2).answer(2)
        yield "Broker 2 fetches it. | 1 | 0 | waits"

A stage is any object that holds the state machines and on which every message lies still until a step
delivers it; time passes only where a step says so. `drivers.partition` has one partition on a few
brokers. `look` of the stage says what a column shows (`cell`: how that is written). Where a table calls
a column otherwise than the stage does, its heading and the stage's name are both given: "commit = end".
Where a story goes otherwise in another era, one generator of steps takes the rows that differ, and the stage
of each scenario has its era.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar, get_type_hints

BETWEEN_BROKERS: Final = "it holds messages between brokers"
SEVERAL_BROKERS: Final = "it needs several brokers, and the cluster of the comparison has one"
LOST_POWER: Final = "its brokers lose power, and what a real one has not flushed is not known"
OTHER_BROKERS: Final = "its brokers are older than all that are compared, or have a feature off"


class Stage(Protocol):
    """See the module."""

    not_played: ClassVar[str]
    """Why real brokers cannot take the place of the model's in its scenarios; "" = they can."""

    def look(self, column: str) -> object:
        """What a column shows now."""


S = TypeVar("S")
StageT = TypeVar("StageT", bound=Stage)

Steps = Iterator[str]
"""What happened, and the cells of the stated row, apart by `|`."""


def look(columns: Mapping[str, Callable[[S, str], object]], stage: S, name: str) -> object:
    """What a column shows: the function of the first pattern that its name matches, called with the stage
    and what the pattern's group matched ("" without a group).

    Raises: KeyError: there is no such column.
    """
    for pattern, show in columns.items():
        if found := re.fullmatch(pattern, name):
            return show(stage, "".join(found.groups("")))
    raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Generic[StageT]):
    """See the module. `name` is unique. `about`: what is explained, paragraphs apart by an empty line.
    `source`: KIP, JIRA issue, paper or Kafka's own class. `columns`: heading -> the stage's name of it.
    `not_played`: why `inquest model contract` does not compare it with real brokers, "" = it does."""

    name: str
    title: str
    about: str
    source: str
    stage: Callable[[], StageT]
    columns: Mapping[str, str]
    steps: Callable[[StageT], Steps]
    not_played: str


AnyScenario = Scenario[Any]
"""One of any stage."""


def scenario(
    title: str, *, source: str, stage: Callable[[], StageT], columns: str, not_played: str = ""
) -> Callable[[Callable[[StageT], Steps]], Scenario[StageT]]:
    """Makes a scenario of its steps, see the module. not_played: see `Scenario`; of a kind of stage that no
    real broker plays it is the stage's."""
    pairs = (heading.partition(" = ") for heading in _cells(columns))
    names = {heading: name or heading for heading, _, name in pairs}

    def made(steps: Callable[[StageT], Steps]) -> Scenario[StageT]:
        (kind,) = (hint for name, hint in get_type_hints(steps).items() if name != "return")
        return Scenario(
            name=steps.__name__.replace("_", "-"),
            title=title,
            about=inspect.getdoc(steps) or "",
            source=source,
            stage=stage,
            columns=names,
            steps=steps,
            not_played=kind.not_played or not_played,
        )

    return made


@dataclass(frozen=True, slots=True)
class Chapter:
    """Scenarios of one subject, in the order in which they are to be read."""

    title: str
    about: str
    scenarios: tuple[AnyScenario, ...]

    @classmethod
    def of(cls, module: ModuleType) -> Self:
        """A module's: its docstring is a line with the title, and what the chapter is about."""
        title, _, about = inspect.cleandoc(module.__doc__ or "").partition("\n")
        found = (value for value in vars(module).values() if isinstance(value, Scenario))
        return cls(title.removesuffix("."), about.strip(), tuple(found))


class PlayedStep(NamedTuple):
    """One step as it was played."""

    says: str
    stated: tuple[str, ...]
    actual: tuple[str, ...]


def play(scenario: Scenario[StageT]) -> Iterator[PlayedStep]:
    """Play a scenario on a new stage, row by row; what is wrong in it is where `stated` is not `actual`.

    Raises: what the model raises.
    """
    stage = scenario.stage()
    for step in scenario.steps(stage):
        says, *stated = _cells(step)
        actual = tuple(cell(stage.look(name)) for name in scenario.columns.values())
        yield PlayedStep(says, tuple(stated), actual)


def _cells(row: str) -> list[str]:
    return [" ".join(text.split()) for text in row.split("|")]


def cell(value: object) -> str:
    """A value as it stands in a table: None is "–", an error or a state its name, a set or sequence its
    members in order with spaces between, True "yes"."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name
        case str():
            return value
        case set() | frozenset():
            return " ".join(cell(one) for one in sorted(value)) or "–"
        case Collection():
            return " ".join(cell(one) for one in value) or "–"
        case _:
            return str(value)
