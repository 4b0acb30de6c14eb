"""Options of the command line: how `--set` reads values, and how soon help answers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text

from core.errors import ConfigError
from harness.cli.main import app
from harness.cli.settings import setting
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
    found = list(helps(typer.main.get_command(app)))
    assert any("local[4]" in text for text in found)
    assert [text for text in found if Text.from_markup(text).plain != text] == []


@pytest.mark.sampled(15)
def test_a_check_needs_no_pandas(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", simulate(3, portable=False).tables()).folder
    code = "import sys; from harness.cli.main import app; app(sys.argv[1:], standalone_mode=False)"
    code += "; print('pandas' in sys.modules)"
    command = [sys.executable, "-c", code, "check", str(run), "--engine", "process"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"
