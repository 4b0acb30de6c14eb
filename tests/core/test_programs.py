"""Child processes import this code, and nothing that lies in the current folder."""

import ast
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from core import programs
from core.programs import BASE, environment, program

ROOT = Path(__file__).parents[2]
HOSTILE = 'raise SystemExit("a stranger\'s module ran")\n'


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with modules that have the names of the standard library's and of the rooms."""
    for name in ("json", "signal", "msgspec", "site_of_nobody"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    for room in ("core", "history", "harness", "model", "nemesis"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_modules_of_the_current_folder_are_not_imported(foreign: Path) -> None:
    words = program("harness.containers.reaper", "no-run", str(foreign / "none"))
    ended = subprocess.run(
        words, env=environment(), input="done\n", capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    plain = [word for word in words if word != "-P"]  # what the option keeps out
    assert "a stranger's module ran" in run(plain, environment()).stderr


def test_an_empty_part_of_the_path_does_not_mean_the_current_folder(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(BASE), ""]))
    assert environment()["PYTHONPATH"] == str(BASE)


def test_a_source_tree_that_is_not_installed_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "BASE", Path("/tree"))
    monkeypatch.setenv("PYTHONPATH", "/own")
    assert environment()["PYTHONPATH"] == os.pathsep.join(["/tree", "/own"])
    monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"] == "/tree"


def test_an_installation_is_not_put_before_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "BASE", Path(site.getsitepackages()[0]))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "PYTHONPATH" not in environment()
    monkeypatch.setenv("PYTHONPATH", "/own")
    assert environment()["PYTHONPATH"] == "/own"


@pytest.mark.sampled(24)
def test_no_command_is_written_out_anywhere_else() -> None:
    """Every child process of Python goes through `program`."""
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for room in ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness")
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value == "-m"
    ]
    assert [place.partition(":")[0] for place in found] == ["core/programs.py"], found
    assert sys.executable in program("x")
