"""What the workflows call exists: targets of make, modules, commands and their options."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from harness.cli.main import app

ROOT = Path(__file__).parents[3]
FLOWS = ROOT / ".github" / "workflows"
NIGHTLY = (FLOWS / "nightly.yml").read_text()


def commands(flow: str) -> Iterator[list[str]]:
    """The words of each command of a workflow; what a shell would put in is X."""
    for line in re.findall(r"run: (.+)", flow):
        known = re.sub(r"\$\(\(.*?\)\)|\$\{\w+:\+([^}]*)\}|\$\w+", r"\1X", line)
        yield shlex.split(known)


def problem(words: list[str]) -> str:
    """Why a command cannot be carried out; "" = it can."""
    match words:
        case ["make", target, *_]:
            known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return "" if target in known else f"no target {target}"
        case [".venv/bin/python", "-m", module, *_]:
            return "" if find_spec(module) else f"no module {module}"
        case [".venv/bin/inquest", *given]:
            names = given[:2] if given[0] in ("recording", "model", "bugs") else given[:1]
            options = options_of(*names)
            wrong = [word for word in given if word.startswith("--") and word not in options]
            return f"no options {wrong} of {' '.join(names)}" if wrong or not options else ""
        case [script]:
            return "" if (ROOT / script).is_file() else f"no file {script}"
    return f"unknown: {words}"


def options_of(*names: str) -> set[str]:
    """Of a command of `inquest`; empty where there is none."""
    command = typer.main.get_command(app)
    for name in names:
        command = command.commands.get(name)  # type: ignore[attr-defined]
    return {option for param in command.params for option in param.opts} if command else set()


@pytest.mark.parametrize("flow", sorted(path.name for path in FLOWS.glob("*.yml")))
def test_each_command_can_be_carried_out(flow: str) -> None:
    found = list(commands((FLOWS / flow).read_text()))
    assert found
    assert [said for words in found if (said := problem(words))] == []


@pytest.mark.parametrize(
    "line",
    [
        "make no-such-target",
        ".venv/bin/python -m tests.no_such_module",
        ".venv/bin/inquest explode",
        ".venv/bin/inquest soak --no-such-option 1",
        ".ci/none",
    ],
)
def test_what_cannot_be_carried_out_is_found(line: str) -> None:
    (words,) = commands(f"- run: {line}\n")
    assert problem(words)


def test_a_night_asks_the_model_explores_new_seeds_and_compares_with_a_spark_cluster() -> None:
    said = [" ".join(words) for words in commands(NIGHTLY)]
    newest, before, held = [line for line in said if line.startswith("make contract")]
    assert "SEED" not in newest + before + held  # it is drawn
    assert "HELD=1" in held
    assert ("KAFKA" in newest, "KAFKA=4.3.1" in before) == (False, True)
    (explore,) = [line for line in said if "inquest model explore" in line]
    assert "--first X --mutants all" in explore  # by the number of the night
    soak, start, compare, stop = [
        next(at for at, line in enumerate(said) if words in line)
        for words in ("inquest soak", "make spark-cluster", "tests.spark.largest", "make spark-cluster-stop")
    ]
    assert soak < start < compare < stop


def test_each_job_has_a_cache_of_its_own() -> None:
    """Of jobs that share a key the first one to end fills the cache, and what the others need is fetched in
    every run."""
    keys = [
        (flow.name, job, key)
        for flow in FLOWS.glob("*.yml")
        for job, body in re.findall(r"^  ([a-z-]+):\n((?:    .*\n|\n)+)", flow.read_text(), re.MULTILINE)
        for key in re.findall(r"path: ~/.cache/inquest\n +key: (.+)", body)
    ]
    assert {(flow, job) for flow, job, _ in keys} >= {("ci.yml", "test"), ("nightly.yml", "soak")}
    assert all("${{ github.workflow }}-${{ github.job }}-" in key for _, _, key in keys), keys


def made(*words: str) -> "subprocess.CompletedProcess[str]":
    """What `make` would do."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "-n", *words], cwd=ROOT, env=alone, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", ["test-run", "soak", "help"])
def test_make_refuses_a_variable_that_it_does_not_know(target: str) -> None:
    ended = made(target, "PRSET=acks1", "SEED=1", "DURATON=20")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "unknown variable DURATON PRSET: make knows NEMESIS " in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_make_takes_each_variable_that_its_own_text_or_a_page_gives() -> None:
    texts = [ROOT / "Makefile", ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *FLOWS.glob("*.yml")]
    given = {
        name
        for path in texts
        for line in path.read_text().splitlines()
        if re.search(r"\bmake |\$\(MAKE\)|## ", line)
        for name in re.findall(r"\b([A-Z][A-Z_]+)=", line)
    }
    assert {"PRESET", "BUDGET", "RUN", "VERSIONS", "MASTER", "COMMAND", "PART"} <= given
    ended = made("help", *(f"{name}=1" for name in sorted(given)))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_make_prepares_docker_for_kafka_only() -> None:
    assert "inquest setup" in made("test-run").stdout
    assert "inquest setup" in made("test-run", "SUT=kafka").stdout
    for other in ("simulated", "model", "simulatd"):
        assert "inquest setup" not in made("test-run", f"SUT={other}").stdout
