"""Options of the command line: how `--set` reads values, what several of them say together, and how soon help
answers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.text import Text

from core.config import Application, RunConfig
from core.errors import ConfigError, UsageError
from core.extensions import APP, CLUSTER, EFFECTS
from harness.cli import main
from harness.cli.settings import setting
from harness.compose import plan
from harness.external import named
from harness.external.file import AppPart
from tests.harness.cli.bad_input import refused
from tests.histories.folders import write_run
from tests.histories.random_history import simulate

HEAVY = ("pydantic", "pyspark", "pandas", "pyarrow", "confluent_kafka", "docker", "numpy", "msgspec")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("era=0.10", "0.10"),
        ("era=2.4", "2.4"),
        ('simulated={"era":"0.10"}', {"era": "0.10"}),
        ("workload=7", "7"),
        ("acks=1", 1),
        ("rate=2.5", 2.5),
        ("idempotent=false", False),
        ('client_settings={"producer.retries":"0"}', {"producer.retries": "0"}),
        ("isolation=read_committed", "read_committed"),
        ("nemesis=a=b", "a=b"),
    ],
)
def test_a_value_is_json_where_its_setting_is_no_text(text: str, value: object) -> None:
    name, read = setting(text)
    assert name == text.partition("=")[0]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["era", "=3", ""])
def test_a_setting_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--set takes name=value"):
        setting(text)


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, harness.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(HEAVY) & set(loaded)


def helps(command: Any) -> Iterator[str]:
    """The help texts of a command, of its options, and of the commands below it."""
    yield from (text for one in (command, *command.params) if (text := getattr(one, "help", None)))
    for below in getattr(command, "commands", {}).values():
        yield from helps(below)


def test_help_shows_all_of_its_text() -> None:
    """Rich drops what it takes for markup, such as [@target]."""
    found = list(helps(typer.main.get_command(main.app)))
    assert any("local[4]" in text for text in found)
    assert [text for text in found if Text.from_markup(text).plain != text] == []


@pytest.mark.sampled(43)
def test_a_check_needs_no_pandas(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", simulate(3, portable=False).tables()).folder
    code = "import sys; from harness.cli.main import app; app(sys.argv[1:], standalone_mode=False)"
    code += "; print('pandas' in sys.modules)"
    command = [sys.executable, "-c", code, "check", str(run), "--engine", "process"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """The configs of the runs that `inquest run` would make."""
    for variable in (APP, EFFECTS, CLUSTER):
        monkeypatch.setenv(variable, "")
    configs: list[RunConfig] = []
    monkeypatch.setattr(main, "_run", lambda config, *_, **__: configs.append(config))
    return configs


def run(*words: str) -> None:
    main.app(["run", "--sut", "model", "--engine", "process", *words], standalone_mode=False)


FILTER = ("--set", 'app={"shape":"filter"}')
EFFECT: dict[str, Any] = {"output": "", "effects": True}


@pytest.mark.parametrize(
    ("words", "app"),
    [
        (FILTER, {"shape": "filter"}),
        (
            (*FILTER, "--in", "orders", "--out", "bills"),
            {"shape": "filter", "input": "orders", "output": "bills"},
        ),
        ((*FILTER, "--effects", "true"), {"shape": "filter", **EFFECT}),
        (
            (*FILTER, "--set", 'app={"group":"g"}', "--in", "x"),
            {"shape": "filter", "group": "g", "input": "x"},
        ),
        (("--in", "x", "--set", 'app={"input":"y"}'), {"input": "y"}),
        (("--effects", "true", "--in", "x"), {"input": "x", **EFFECT}),
        (("--effects", "true", "--set", 'app={"effects":true}'), EFFECT),
    ],
)
def test_each_option_says_its_part_of_an_application(
    made: list[RunConfig], words: tuple[str, ...], app: dict[str, Any]
) -> None:
    run("--app", "true", *words)
    assert [config.app for config in made] == [Application(**app)]


@pytest.mark.parametrize("app", ['{"effects":false,"output":"x"}', "null"])
def test_effects_that_no_run_would_ask_for_are_refused(made: list[RunConfig], app: str) -> None:
    with pytest.raises(UsageError, match="--effects: --set app"):
        run("--app", "true", "--effects", "true", "--set", f"app={app}")
    assert not made


PLAIN: dict[str, Any] = {"command": "true", "in": "orders", "out": "bills", "shape": "filter"}
SHOWN: dict[str, Any] = {"command": "true", "effects": "true"}
BILLS: dict[str, Any] = {"input": "orders", "output": "bills"}


@pytest.mark.parametrize(
    ("file", "words", "app"),
    [
        (PLAIN, (), {**BILLS, "shape": "filter"}),
        (PLAIN, ("--set", 'app={"shape":"one-to-one"}'), BILLS),
        (PLAIN, ("--out", "x"), {"input": "orders", "output": "x", "shape": "filter"}),
        (PLAIN, ("--app", "false"), {**BILLS, "shape": "filter"}),
        (PLAIN, ("--effects", "true"), {"input": "orders", "shape": "filter", **EFFECT}),
        (SHOWN, FILTER, {"shape": "filter", **EFFECT}),
        (SHOWN, ("--app", "false"), EFFECT),
        (SHOWN, ("--out", "x"), {"output": "x"}),
    ],
)
def test_options_lie_over_the_application_of_a_file(
    made: list[RunConfig],
    monkeypatch: pytest.MonkeyPatch,
    file: dict[str, Any],
    words: tuple[str, ...],
    app: dict[str, Any],
) -> None:
    monkeypatch.setattr(named, "load", lambda: SimpleNamespace(app=AppPart.model_validate(file)))
    monkeypatch.setattr(named, "of_cluster", lambda: {"sut": "external"})
    main.app(["run", "--sut", "external", "--engine", "process", *words], standalone_mode=False)
    assert [config.app for config in made] == [Application(**app)]


def test_a_part_of_no_application_is_refused(made: list[RunConfig]) -> None:
    with pytest.raises(UsageError, match="give --app COMMAND"):
        run("--in", "orders")
    assert not made


def test_a_variable_names_a_program_and_does_not_ask_for_it(
    made: list[RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/applications.md: a line that repeats a run has the setting, and not the command."""
    again = ("--workload", "application", "--set", 'app={"input":"orders"}')
    monkeypatch.setenv(APP, "")
    run(*again)
    with pytest.raises(ConfigError, match="name the program with --app, or in INQUEST_APP"):
        plan(made.pop())
    monkeypatch.setenv(APP, "true")
    run()
    run(*again)
    assert [config.app for config in made] == [None, Application(input="orders")]
    assert [plan(config).workload.name for config in made] == ["queue", "application"]


def test_no_hidden_option_is_proposed() -> None:
    near = refused(["run", "--ownr", "x"], said=["No such option: --ownr (Possible options: ", "--owned)"])
    assert "--owner" not in near.err
    assert "--set" not in refused(["soak", "--era", "0.10"], said=["No such option: --era"]).err
