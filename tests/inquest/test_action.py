"""The GitHub Action: what action.yml names exists, and its script does in a job what it says."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.harness.cli.test_workflows import options_of
from tests.waiting import until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "action"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
FLOWS = ROOT / ".github" / "workflows"
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
    given = {
        name.removeprefix("INPUT_").lower(): value for name, value in run["env"].items() if "INPUT_" in name
    }
    for name, value in given.items():  # no input is part of a command of the shell
        assert value == f"${{{{ inputs.{name} }}}}"
    assert not any("${{" in step.get("run", "") for step in STEPS)
    assert {f"--{name}" for name in given} - {"--settings", "--artifact"} <= options_of("run")


def using(action: str, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps that use an action of GitHub's."""
    return [step for step in steps if step.get("uses", "").startswith(f"actions/{action}@")]


def test_outputs_that_steps_use_are_there() -> None:
    written = re.findall(r"steps\.(\w+)\.outputs\.([\w-]+)", (FOLDER / "action.yml").read_text())
    scripts = {"install": (FOLDER / "install").read_text(), "run": (FOLDER / "run.py").read_text()}
    of_others = {("python", "python-path"), ("restored", "cache-matched-key")}
    assert {step["id"] for step in STEPS if "id" in step} == {step for step, _ in written}
    for step, name in set(written) - of_others:
        assert name in scripts[step], name


def test_the_job_keeps_its_own_python_and_java() -> None:
    """Its later steps, and the program of `client`."""
    (python,) = using("setup-python", STEPS)
    assert python["with"]["update-environment"] is False  # setup-java knows no such thing
    (java,) = using("setup-java", STEPS)
    assert java["if"] == "inputs.java != ''"
    assert ACTION["inputs"]["java"].get("default", "") == ""


def test_what_is_uploaded_has_each_run_once() -> None:
    """results/latest is a link to the newest run, and upload-artifact follows links."""
    jobs = [job for path in FLOWS.glob("*.yml") for job in yaml.safe_load(path.read_text())["jobs"].values()]
    uploads = using("upload-artifact", [*STEPS, *(step for each in jobs for step in each["steps"])])
    assert len(uploads) >= 4
    for upload in uploads:
        whole, *without = upload["with"]["path"].splitlines()
        assert without == [f"!{whole}latest/**"]


def step(script: str, folder: Path, **variables: str) -> tuple[int, dict[str, str]]:
    """Exit code and outputs of a script in a job."""
    outputs = folder / "GITHUB_OUTPUT"
    environment = {**os.environ, "GITHUB_OUTPUT": str(outputs), **variables}
    command = [str(FOLDER / script)] if script == "install" else [sys.executable, str(FOLDER / script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, dict(line.split("=", 1) for line in outputs.read_text().splitlines())


PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin"
echo "$0" >"$3/python"
printf '#!/bin/sh\necho "$@" >"%s/pip"\n' "$3" >"$3/bin/pip"
chmod +x "$3/bin/pip"
"""


@pytest.mark.parametrize("named", [True, False])
def test_inquest_is_installed_with_the_python_of_its_own_or_the_jobs(tmp_path: Path, named: bool) -> None:
    mine, theirs = tmp_path / "mine" / "python3", tmp_path / "theirs" / "python3"
    for program in (mine, theirs):
        program.parent.mkdir()
        program.write_text(PYTHON)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = {"PATH": f"{theirs.parent}:{os.environ['PATH']}", "XDG_CACHE_HOME": "/kept", "RUNNER_OS": "Linux"}
    given = {"RUNNER_TEMP": str(tmp_path), "PYTHON": str(mine) * named, **path}
    code, outputs = step("install", tmp_path, **given)
    assert code == 0
    assert (tmp_path / "inquest" / "python").read_text().strip() == str(mine if named else theirs)
    assert (tmp_path / "inquest" / "pip").read_text().split()[-1] == str(ROOT)
    assert outputs["cache-folder"] == "/kept/inquest"
    assert outputs["cache"].startswith("inquest-Linux-")
    other = step("install", tmp_path, **given, INPUT_INSTALL="another")[1]
    assert other["cache"] != outputs["cache"]


INQUEST = """
import os, sys
from pathlib import Path
cache = Path(os.environ["CACHE_FOLDER"])
for name in os.environ["MADE"].split():
    (cache / name).parent.mkdir(parents=True, exist_ok=True)
    (cache / name).write_text("made")
print("VALID: nothing\\nreport:", os.environ["PAGE"])
sys.exit(int(os.environ["CODE"]))
"""


def judged(folder: Path, made: str = "", page: str = "none", code: int = 0) -> dict[str, str]:
    """The outputs of a step whose run leaves this in its cache, and prints this report."""
    (folder / "inquest").mkdir(exist_ok=True)
    (folder / "inquest" / "__init__.py").touch()  # before the package that is installed
    (folder / "inquest" / "__main__.py").write_text(INQUEST)
    cache = {"CACHE_FOLDER": str(folder / "cache"), "CACHE": "inquest-Linux-7-", "INPUT_ARTIFACT": "mine"}
    said = {"MADE": made, "PAGE": page, "CODE": str(code), "PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory(dir=folder) as job_folder:
        ended, outputs = step("run.py", Path(job_folder), **cache, **said)
    assert ended == code
    return outputs


@pytest.mark.sampled(5)
def test_a_report_that_could_not_be_built_is_no_path(tmp_path: Path) -> None:
    assert judged(tmp_path)["report"] == ""
    assert judged(tmp_path, page="results/none/report.html")["report"] == "results/none/report.html"


@pytest.mark.sampled(5)
def test_each_step_has_an_artefact_of_another_name(tmp_path: Path) -> None:
    first, second = judged(tmp_path)["artifact"], judged(tmp_path, code=64)["artifact"]
    assert first != second
    assert all(re.fullmatch(r"mine-[0-9a-f]{8}", name) for name in (first, second))


@pytest.mark.sampled(13)
def test_the_cache_is_saved_again_where_the_run_added_to_it(tmp_path: Path) -> None:
    """A saved cache never changes: its key says what is in it, and another content has another key."""
    assert judged(tmp_path, "jars.lock")["cache-key"] == ""
    few = judged(tmp_path, "kafka/4.3.1/a.jar ivy/b.jar spark-1.jsa", code=1)["cache-key"]
    assert few.startswith("inquest-Linux-7-")
    assert judged(tmp_path, "jars.lock ivy/c.jar")["cache-key"] == few
    more = judged(tmp_path, "kafka/4.4.0/a.jar")["cache-key"]
    assert len({few, more, judged(tmp_path, "code/5f/x.py")["cache-key"]}) == 3
    assert judged(tmp_path, "kafka/4.4.1/a.jar", code=70)["cache-key"] == ""  # it may be half of it


HEALS = """
import signal, sys
from pathlib import Path
def heard(number, _):
    Path("heard").open("a").write(signal.Signals(number).name + " ")
    if number == signal.SIGTERM:
        print("UNKNOWN: interrupted", flush=True)
        sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, heard)
Path("up").touch()
while True:
    signal.pause()
"""


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.sampled(2)
def test_a_job_that_is_cancelled_lets_its_run_heal_and_has_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "inquest").mkdir()
    (tmp_path / "inquest" / "__init__.py").touch()
    (tmp_path / "inquest" / "__main__.py").write_text(HEALS)
    said = {"GITHUB_OUTPUT": str(tmp_path / "outputs"), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(FOLDER / "run.py")]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **said},
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        until(lambda: (tmp_path / "up").exists(), "the run begins")
        os.killpg(running.pid, signal.SIGINT)  # as a terminal; a runner signals the process alone
        until(lambda: text_of(tmp_path / "heard") == "SIGINT ", "the run hears of it")
        running.terminate()
        output, _ = running.communicate()
    assert (running.returncode, output) == (130, "UNKNOWN: interrupted\n")
    assert (tmp_path / "heard").read_text() == "SIGINT SIGTERM "
    assert "exit-code=130\n" in (tmp_path / "outputs").read_text()


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


@pytest.mark.sampled(22)
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
