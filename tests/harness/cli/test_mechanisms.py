"""docs/mechanisms.md names only what there is, and each known schedule stands there."""

import shlex

import pytest

from checkers.checks import CHECKS
from checkers.logs.registry import LOG_CHECKS
from core.config import run_config
from harness.cli.mechanisms import OLDEST, Mechanism, page, parts, since
from harness.cli.settings import setting
from harness.compose import plan
from harness.contract.scenarios import SCENARIOS
from harness.reproduce.registry import REPRODUCTIONS
from tests.harness.cli.test_workflows import problem

EVERY = [one for part in parts() for one in part.mechanism]
CAPTURING = "--set capture=true"
COMMANDS = sorted({command for one in EVERY for command in one.commands})


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.title)
def test_a_mechanism_names_tables_and_judges(one: Mechanism) -> None:
    assert one.tables
    assert set(one.tables) <= SCENARIOS.keys()
    assert set(one.judged) <= CHECKS.keys() | LOG_CHECKS.keys()
    assert one.real or one.open
    assert one.judged or one.compared or not one.real


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.title)
def test_a_rule_about_captured_messages_stands_beside_a_command_that_captures(one: Mechanism) -> None:
    captured = any(CAPTURING in command for command in one.commands)
    assert captured or not [name for name in one.judged if name in LOG_CHECKS and LOG_CHECKS[name].ring == 4]


@pytest.mark.parametrize("one", [one for one in EVERY if one.compared], ids=lambda one: one.title)
def test_where_the_comparison_is_named_it_compares_a_table(one: Mechanism) -> None:
    assert not all(SCENARIOS[name].not_played for name in one.tables)


def test_the_in_sync_set_falls_below_the_minimum_only_where_a_controller_lives() -> None:
    (minimum,) = [one for one in EVERY if "min-isr" in one.tables]
    (down,) = [one for one in EVERY if "all-down-wait" in one.tables]
    runs = [command for one in (minimum, down) for command in one.commands if command.startswith("run ")]
    assert len(runs) == 3
    assert all("--set controllers=1" in command for command in runs)


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


def test_a_command_names_the_oldest_version_that_takes_it() -> None:
    assert since("run --nemesis kill") == OLDEST
    assert since("run --nemesis elections") == "2.4"
    assert since("run --preset share") == "4.1"
    lines = page().splitlines()
    (moved,) = {line for line in lines if "`inquest run --nemesis reassign`" in line}
    assert "`inquest run --nemesis reassign` (2.4 on)" in moved
    assert "`inquest run --nemesis kill` (" not in page()
    assert f"takes Kafka {OLDEST} to 4.4" in page()
    assert "not 2.0 to 2.3" in page()


def test_a_table_in_bold_says_what_is_not_compared() -> None:
    lines = page().splitlines()
    (remote,) = [line for line in lines if "replication.md#remote-leo" in line]
    assert "replication.md#remote-leo)** (without remote LEO 2, remote LEO 3, ISR at 1, of 3, at 2)" in remote


def test_the_page_has_each_once() -> None:
    lines = page().splitlines()
    assert sorted(line[4:] for line in lines if line.startswith("### ")) == sorted(one.title for one in EVERY)
