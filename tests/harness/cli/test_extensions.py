"""Extensions: files that a user names on the command line; the examples of docs/extending.md as printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import extensions
from core.errors import ConfigError
from core.programs import environment
from harness.report.inputs import read_verdict
from history.run_folder import Run
from tests.harness.cli.test_docs import DOCS, source_of

EXAMPLES = {
    "pairs.py": "workloads/pairs.py",
    "blink.py": "nemesis/families/blink.py",
    "late_answers.py": "checkers/checks/late_answers.py",
    "times.py": "checkers/logs/times.py",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the examples."""
    for name, printed in EXAMPLES.items():
        (tmp_path / name).write_text(source_of(printed))
    return tmp_path


@pytest.mark.sampled(48)
@pytest.mark.slow
def test_a_run_with_files_of_the_user_s_own(files: Path) -> None:
    words = "run --sut simulated --workload ./pairs.py --nemesis ./blink.py:BLINK@leader"
    words += " --check ./late_answers.py:CHECK --seed 3 --duration 6 --engine spark"
    command = [sys.executable, "-P", "-m", "inquest", *words.split()]
    done = subprocess.run(command, cwd=files, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VALID: no forbidden anomaly" in done.stdout
    (run,) = (folder for folder in (files / "results").iterdir() if not folder.is_symlink())
    verdict = read_verdict(Run(run))
    assert verdict.engine.startswith("Spark"), "its tasks are in processes that have to load the check"
    assert verdict.checks["late-answers"].status == "valid"
    assert {fault.name for fault in verdict.faults} == {"blink:one@leader"}
    assert f"{extensions.VARIABLE}=" in done.stdout, "the line that repeats the run names the files"


@pytest.mark.sampled(5)
@pytest.mark.slow
def test_the_examples_pass_mypy_and_ruff_as_they_are_printed(files: Path) -> None:
    settings = str(DOCS.parent / "pyproject.toml")
    for command in (
        ["ruff", "check", "--no-cache", "--config", settings],
        ["ruff", "format", "--no-cache", "--check", "--config", settings],
        ["mypy", "--config-file", settings, "--cache-dir", os.devnull],
    ):
        program = [sys.executable, "-m", *command, *sorted(EXAMPLES)]
        done = subprocess.run(
            program, cwd=files, env=environment() | {"MYPYPATH": str(DOCS.parent)}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("missing.py", "no such file"),
        ("pairs.py:Orders", "has no Orders"),
        ("broken.py", "broken.py: ZeroDivisionError"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    (files / "broken.py").write_text("1 / 0\n")
    monkeypatch.setenv(extensions.VARIABLE, "")
    with pytest.raises(ConfigError, match=said):
        extensions.extend("workloads", str(files / words))


def test_what_files_have_is_there_by_name(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(extensions.VARIABLE, "")
    assert extensions.extend("workloads", str(files / "pairs.py")) == "pairs"
    assert extensions.extend("nemeses", f"{files}/blink.py:BLINK") == "blink"
    assert set(extensions.extensions("workloads")) == {"pairs"}
    assert set(extensions.extensions("nemeses")) == {"blink"}
    assert extensions.extensions("checks") == {}
    assert "blink.py:BLINK" in extensions.assignment()
    monkeypatch.setenv(extensions.VARIABLE, "")
    assert extensions.assignment() == ""
