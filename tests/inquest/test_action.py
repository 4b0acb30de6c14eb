"""The GitHub Action: what action.yml names exists, and its script does in a job what it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.harness.cli.test_workflows import options_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "action"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SMALL = "rate=20\nhome_producers=0\n"
BROKEN = SMALL + "mutant=abort-answers-commit\nabort_share=0.9"


def test_its_scripts_and_inputs_and_outputs_are_there() -> None:
    scripts = re.findall(r"GITHUB_ACTION_PATH/([\w.]+)", "".join(step.get("run", "") for step in STEPS))
    assert scripts == ["install", "run.py"]
    assert all((FOLDER / name).is_file() for name in scripts)
    assert os.access(FOLDER / "install", os.X_OK)
    used = set(re.findall(r"inputs\.([a-z]+)", (FOLDER / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    page = (ROOT / "docs" / "ci.md").read_text()
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"`{name}`" in page, name
    (run,) = [step for step in STEPS if step.get("id") == "run"]
    for name, value in run["env"].items():  # no input is part of a command of the shell
        assert value == f"${{{{ inputs.{name.removeprefix('INPUT_').lower()} }}}}"
    assert not any("inputs." in step.get("run", "") for step in STEPS)
    options = {f"--{name.removeprefix('INPUT_').lower()}" for name in run["env"]} - {"--settings"}
    assert options <= options_of("run")


def job(folder: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Exit code, outputs, and the summary of the step that makes the run."""
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    given = {f"INPUT_{name.upper()}": value for name, value in inputs.items()}
    empty = {f"INPUT_{name.upper()}": "" for name in ACTION["inputs"]}
    environment = {**os.environ, **empty, **given, **{name: str(at) for name, at in files.items()}}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(FOLDER / "run.py")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    summary = files["GITHUB_STEP_SUMMARY"]
    return done.returncode, outputs, summary.read_text() if summary.exists() else ""


@pytest.mark.sampled(14)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "code", "verdict", "colour"),
    [
        ({"nemesis": "kill:one", "seed": "3"}, 0, "valid", "brightgreen"),
        ({"nemesis": "none", "workload": "transactions", "settings": BROKEN}, 1, "anomaly", "red"),
        ({"nemesis": "spider; exit 0"}, 64, "error", "lightgrey"),
    ],
)
def test_a_job_has_its_outputs_badge_and_summary(
    tmp_path: Path, inputs: dict[str, str], code: int, verdict: str, colour: str
) -> None:
    shared = {"sut": "simulated", "duration": "3", "settings": SMALL, "engine": "process", "results": "made"}
    ended, outputs, summary = job(tmp_path, **{**shared, **inputs})
    assert (ended, outputs["exit-code"], outputs["verdict"]) == (code, str(code), verdict)
    badge = json.loads((tmp_path / outputs["badge"]).read_text())
    assert badge == {"schemaVersion": 1, "label": "inquest", "message": verdict, "color": colour}
    assert bool(summary) == Path(tmp_path, outputs["report"]).is_file() == (code < 64)
    assert not summary or summary.lower().startswith(f"### {summary[4]} inquest: {verdict}")
