"""Scenarios: a mechanism explained step by step, and the explanation executed.

A scenario is a story in the words of a textbook with a table: what happens in each step, and what log
ends, high watermarks, in-sync sets, epochs or states are after it. The stated rows are plain text; `play`
drives the model through the steps and puts the actual row beside each stated one. docs/model.md is made of
them.

To add one, write a generator that drives a stage and yields (what happened, the row after it), and put it
into the tuple of its chapter (`model/scenarios/__init__.py` lists the chapters):

    def _second_fetch(s: Stage) -> Steps:
        s.produce("m0", to=1)
        yield "A producer sends m0 to broker 1.", "1 | 0 | waits"
        s.fetch(2).answer(2)
        yield "Broker 2 fetches it.", "1 | 0 | waits"

    Scenario(
        name="second-fetch", title="…", about="…", source="KIP-…",
        stage=lambda: Stage((1, 2)),
        columns={"LEO 1": leo(1), "HW 1": hw(1), "produce": produced},
        steps=_second_fetch,
    )

A stage is any object that holds the state machines and on which every message lies still until a step
delivers it; time passes only where a step says so. `drivers.partition` has one partition on a few
brokers. A cell is what the column's function makes of the stage (`cell` says how it is written).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")

Steps = Iterator[tuple[str, str]]
"""What happened, and the stated row: cells between `|`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Generic[S]):
    """See the module. `name` is unique. `about`: what is explained, paragraphs apart by an empty line.
    `source`: KIP, JIRA issue, paper or Kafka's own class. `columns`: heading -> what it shows."""

    name: str
    title: str
    about: str
    source: str
    stage: Callable[[], S]
    columns: Mapping[str, Callable[[S], object]]
    steps: Callable[[S], Steps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Scenarios of one subject, in the order in which they are to be read."""

    title: str
    about: str
    scenarios: tuple[Scenario[Any], ...]


class PlayedStep(NamedTuple):
    """One step as it was played."""

    says: str
    stated: tuple[str, ...]
    actual: tuple[str, ...]


def play(scenario: Scenario[S]) -> Iterator[PlayedStep]:
    """Play a scenario on a new stage, row by row; what is wrong in it is where `stated` is not `actual`.

    Raises: what the model raises.
    """
    stage = scenario.stage()
    for says, row in scenario.steps(stage):
        stated = tuple(text.strip() for text in row.split("|"))
        yield PlayedStep(says, stated, tuple(cell(show(stage)) for show in scenario.columns.values()))


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
