"""The scenarios of the model: every stated table is what the model does, cell by cell."""

from dataclasses import replace
from typing import Any

import pytest

from scenarios.framework import PlayedStep, Scenario, play
from scenarios.registry import CHAPTERS

ALL = [scenario for chapter in CHAPTERS.values() for scenario in chapter.scenarios]
(SIMPLE,) = [scenario for scenario in ALL if scenario.name == "fetch-after-produce"]


def wrong(scenario: Scenario[Any], rows: list[PlayedStep]) -> str:
    """The steps whose row is not the stated one, with both rows under the headings."""
    headings = " | ".join(scenario.columns)
    return "\n".join(
        f"step {number}: {row.says}\n  columns  {headings}\n"
        f"  stated   {' | '.join(row.stated)}\n  actual   {' | '.join(row.actual)}"
        for number, row in enumerate(rows, 1)
        if row.stated != row.actual
    )


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_the_stated_table_is_what_the_model_does(scenario: Scenario[Any]) -> None:
    rows = list(play(scenario))
    assert rows, "a scenario without steps"
    if report := wrong(scenario, rows):
        pytest.fail(report, pytrace=False)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_every_step_says_something_and_the_table_moves(scenario: Scenario[Any]) -> None:
    rows = list(play(scenario))
    assert all(row.says.endswith((".", "?", ":", ".)")) and "|" not in row.says for row in rows)
    assert len({row.stated for row in rows}) > 1, "no cell ever changes"
    assert scenario.about.strip()
    assert scenario.source.strip()


def test_names_are_unique() -> None:
    names = [*CHAPTERS, *(scenario.name for scenario in ALL)]
    assert len(set(names)) == len(names)


def lie(step: str) -> str:
    says, row = step.split("|", 1)
    return f"{says}|{row.replace('1', '7')}"


def test_a_wrong_cell_is_reported_with_both_rows() -> None:
    lies = replace(SIMPLE, steps=lambda s: (lie(step) for step in SIMPLE.steps(s)))
    report = wrong(lies, list(play(lies)))
    assert "stated   7 |" in report
    assert "actual   1 |" in report


def test_a_row_with_a_cell_too_few_is_wrong() -> None:
    short = replace(SIMPLE, steps=lambda s: (step.rpartition("|")[0] for step in SIMPLE.steps(s)))
    assert all(row.stated != row.actual for row in play(short))


def test_a_column_that_the_stage_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="LEO of 1"):
        list(play(replace(SIMPLE, columns={"LEO of 1": "LEO of 1"})))
