"""docs/mechanisms.md names only what there is, and each known schedule stands there."""

import shlex

import pytest

from checkers.checks import CHECKS
from checkers.logs.registry import LOG_CHECKS
from core.config import run_config
from harness.cli.mechanisms import Mechanism, page, parts
from harness.cli.settings import setting
from harness.compose import plan
from harness.contract.scenarios import SCENARIOS
from harness.reproduce.registry import REPRODUCTIONS
from tests.harness.cli.test_workflows import problem

EVERY = [one for part in parts() for one in part.mechanism]
COMMANDS = sorted({command for one in EVERY for command in one.commands})


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.title)
def test_a_mechanism_names_tables_and_judges(one: Mechanism) -> None:
    assert one.tables
    assert set(one.tables) <= SCENARIOS.keys()
    assert set(one.judged) <= CHECKS.keys() | LOG_CHECKS.keys()
    assert one.real or one.open
    assert one.judged or not one.real


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_can_be_run(command: str) -> None:
    words = shlex.split(command)
    if words[:2] == ["bugs", "reproduce"]:
        assert words[2] in REPRODUCTIONS
        return
    if words[:2] == ["model", "contract"]:
        assert len(words) == 2
        return
    assert words[0] == "run"
    assert not problem([".venv/bin/inquest", *words])
    options = list(zip(words[1::2], words[2::2], strict=True))
    settings = dict(setting(value) for name, value in options if name == "--set")
    given = {name[2:]: value for name, value in options if name != "--set"}
    plan(run_config({"seed": 1, **given, **settings}))


def test_each_schedule_stands_there() -> None:
    assert {name for one in EVERY for name in one.reproductions} == REPRODUCTIONS.keys()


def test_the_page_has_each_once() -> None:
    lines = page().splitlines()
    assert sorted(line[4:] for line in lines if line.startswith("### ")) == sorted(one.title for one in EVERY)
