"""docs/model: the mechanisms of the model, a page a chapter, each with its tables, from the scenarios."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from scenarios.framework import AnyScenario, PlayedStep, play
from scenarios.registry import CHAPTERS

GENERATED: Final = "Generated from the scenarios (`scenarios/`) by `make catalogue`: do not edit."
HEAD: Final = f"""# The model, mechanism by mechanism

{GENERATED}

Each section of these pages explains one mechanism of Kafka as `model/` has it, with a table: what happens in
each step, and what is so after it. The tests play every step on the model and compare every cell; messages
move only where a step says so, and no time passes on its own.
From *The controller of the ZooKeeper era* on whole clusters play: there everything that is sent arrives and
is answered before the step has ended, except what the step holds.

LEO: log end offset, the offset that the next record will have. HW: high watermark, below it everything
is committed. Remote LEO: what a leader knows of a follower's log end, "?" = nothing yet. AR, ISR: all
replicas of a partition, and those in sync. ELR: eligible leader replicas. Epochs: (leader epoch, its first
offset). "down": the process does not run.
"""


class ComparedTables(NamedTuple):
    """What `inquest model contract` compares with brokers of a version of Kafka. hidden: names of tables →
    headings that no request tells, which are not compared."""

    kafka: str
    hidden: Mapping[str, Sequence[str]]

    def link(self, scenario: AnyScenario, place: str) -> str:
        """To a table: in bold where it is compared, with what is not. place: of its chapter's page."""
        link = f"[{scenario.title}]({place}#{scenario.name})"
        if scenario.name not in self.hidden:
            return link
        without = ", ".join(self.hidden[scenario.name])
        return f"**{link}**" + (f" (without {without})" if without else "")

    def said(self, scenario: AnyScenario) -> str:
        """In a sentence."""
        by = "by `inquest model contract`"
        if scenario.not_played:
            return f"Not compared with Kafka: {scenario.not_played}."
        if scenario.name not in self.hidden:
            return f"Compared with Kafka, {by}, but not with {self.kafka}: its brokers are of another time."
        without = ", ".join(self.hidden[scenario.name])
        but = f" but those of {without}, which no request tells" if without else ""
        return f"Compared with Kafka, {by}: each cell{but}."


def pages(compared: ComparedTables) -> Mapping[str, str]:
    """Name of a file in docs/model → its content: the index, and a page for each chapter."""
    return {"index.md": index(compared), **{f"{key}.md": chapter(key, compared) for key in CHAPTERS}}


def index(compared: ComparedTables) -> str:
    """The list of all pages and tables."""
    return "\n".join(_index(compared)) + "\n"


def _index(compared: ComparedTables) -> Iterator[str]:
    yield HEAD
    tables = list(chain.from_iterable(one.scenarios for one in CHAPTERS.values()))
    earlier = sum(not one.not_played and one.name not in compared.hidden for one in tables)
    yield (
        f"{len(tables)} tables. {len(compared.hidden)} are compared with brokers of Kafka {compared.kafka}; "
        "these are set in bold, with the columns that no request tells and that are not compared. "
        f"{earlier} more are compared with brokers of another time."
    )
    yield ""
    for key, one in CHAPTERS.items():
        yield f"- [{one.title}]({key}.md)"
        for scenario in one.scenarios:
            yield f"  - {compared.link(scenario, f'{key}.md')}"


def chapter(key: str, compared: ComparedTables) -> str:
    """The page of a chapter."""
    return "\n".join(_chapter(key, compared)) + "\n"


def _chapter(key: str, compared: ComparedTables) -> Iterator[str]:
    one = CHAPTERS[key]
    yield from (f"# {one.title}", "", f"{GENERATED} [All chapters](index.md).", "", one.about)
    for scenario in one.scenarios:
        yield from _section(scenario, compared)


def _section(scenario: AnyScenario, compared: ComparedTables) -> Iterator[str]:
    yield from ("", f'<a id="{scenario.name}"></a>', "", f"## {scenario.title}", "")
    yield scenario.about
    yield from ("", f"Source: {scenario.source}", "")
    yield from (compared.said(scenario), "")
    headings = ["", "step", *scenario.columns]
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for number, row in enumerate(play(scenario), 1):
        yield _line(number, row)


def _line(number: int, row: PlayedStep) -> str:
    return f"| {' | '.join((str(number), row.says, *row.stated))} |"
