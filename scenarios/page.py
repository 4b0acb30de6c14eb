"""docs/model: the mechanisms of the model, a page a chapter, each with its tables, from the scenarios."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

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
COMPARED: Final = "Compared with Kafka: each cell that a client can ask for, by `inquest model contract`."


def pages() -> Mapping[str, str]:
    """Name of a file in docs/model → its content: the index, and a page for each chapter."""
    return {"index.md": index(), **{f"{key}.md": chapter(key) for key in CHAPTERS}}


def index() -> str:
    """The list of all pages and tables."""
    return "\n".join(_index()) + "\n"


def _index() -> Iterator[str]:
    yield HEAD
    tables = list(chain.from_iterable(one.scenarios for one in CHAPTERS.values()))
    compared = sum(not scenario.not_played for scenario in tables)
    yield f"{len(tables)} tables. {compared} are compared with a real broker; these are set in bold."
    yield ""
    for key, one in CHAPTERS.items():
        yield f"- [{one.title}]({key}.md)"
        for scenario in one.scenarios:
            title = scenario.title if scenario.not_played else f"**{scenario.title}**"
            yield f"  - [{title}]({key}.md#{scenario.name})"


def chapter(key: str) -> str:
    """The page of a chapter."""
    return "\n".join(_chapter(key)) + "\n"


def _chapter(key: str) -> Iterator[str]:
    one = CHAPTERS[key]
    yield from (f"# {one.title}", "", f"{GENERATED} [All chapters](index.md).", "", one.about)
    for scenario in one.scenarios:
        yield from _section(scenario)


def _section(scenario: AnyScenario) -> Iterator[str]:
    yield from ("", f'<a id="{scenario.name}"></a>', "", f"## {scenario.title}", "")
    yield scenario.about
    yield from ("", f"Source: {scenario.source}", "")
    yield from (f"Not compared with Kafka: {scenario.not_played}." if scenario.not_played else COMPARED, "")
    headings = ["", "step", *scenario.columns]
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for number, row in enumerate(play(scenario), 1):
        yield _line(number, row)


def _line(number: int, row: PlayedStep) -> str:
    return f"| {' | '.join((str(number), row.says, *row.stated))} |"
