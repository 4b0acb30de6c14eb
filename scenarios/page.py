"""docs/model.md: the mechanisms of the model, each with its table, from the scenarios."""

from collections.abc import Iterator
from typing import Any

from scenarios.framework import PlayedStep, Scenario, play
from scenarios.registry import CHAPTERS

HEAD = """# The model, mechanism by mechanism

Generated from the scenarios (`scenarios/`) by `make catalogue`: do not edit.

Each section explains one mechanism of Kafka as `model/` has it, with a table: what happens in each step, and
what is so after it. The tests play every step on the model and compare every cell; messages move only where
a step says so, and no time passes on its own.
From *The controller of the ZooKeeper era* on whole clusters play: there everything that is sent arrives and
is answered before the step has ended, except what the step holds.

LEO: log end offset, the offset that the next record will have. HW: high watermark, below it everything
is committed. Remote LEO: what a leader knows of a follower's log end, "?" = nothing yet. AR, ISR: all
replicas of a partition, and those in sync. ELR: eligible leader replicas. Epochs: (leader epoch, its first
offset). "down": the process does not run.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    for key, chapter in CHAPTERS.items():
        yield f"- [{chapter.title}](#{key})"
        yield from (f"  - [{s.title}](#{s.name})" for s in chapter.scenarios)
    for key, chapter in CHAPTERS.items():
        yield from ("", f'<a id="{key}"></a>', "", f"## {chapter.title}", "", chapter.about)
        for scenario in chapter.scenarios:
            yield from _section(scenario)


def _section(scenario: Scenario[Any]) -> Iterator[str]:
    yield from ("", f'<a id="{scenario.name}"></a>', "", f"### {scenario.title}", "")
    yield scenario.about
    yield from ("", f"Source: {scenario.source}", "")
    headings = ["", "step", *scenario.columns]
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for number, row in enumerate(play(scenario), 1):
        yield _line(number, row)


def _line(number: int, row: PlayedStep) -> str:
    return f"| {' | '.join((str(number), row.says, *row.stated))} |"
