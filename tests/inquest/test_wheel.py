"""The wheel: one package, and a command that works without the repository."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from core.config import run_config
from harness.compose import record
from harness.run.progress import Display
from hatch_build import inside_package

ROOT = Path(__file__).parents[2]
ROOMS = ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness")
BUILD = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return folder / built.stdout.strip()


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder of an environment with the wheel and the packages of this one, but not the repository."""
    folder = wheel.parent / "env"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "base.pth").write_text(f"{Path(pa.__file__).parents[1]}\n")
    python = folder / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
        capture_output=True,
    )
    return folder


def inquest(installed: Path, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [installed / "bin" / "inquest", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.sampled(24)
@pytest.mark.slow
def test_the_wheel_takes_one_import_name_and_holds_every_file(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "inquest",
        f"{wheel.name.split('-py3')[0]}.dist-info",
    }
    assert all(f"inquest/{room}/__init__.py" in names for room in ROOMS)
    assert "inquest/docker/kafka/Dockerfile" in names
    tracked = subprocess.run(
        ["git", "ls-files", *ROOMS, "docker"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    for name in tracked.stdout.split():  # none where this is no clone
        assert f"inquest/{name}" in names


@pytest.mark.sampled(11)
@pytest.mark.slow
def test_the_installed_command_makes_the_run_that_the_repository_makes(
    installed: Path, tmp_path: Path
) -> None:
    chosen = [
        "--sut",
        "simulated",
        "--seed",
        "3",
        "--duration",
        "3",
        "--set",
        "rate=20",
        "--engine",
        "process",
    ]
    out = inquest(installed, tmp_path, "run", *chosen)
    assert out.startswith("VALID: ")
    (folder,) = (tmp_path / "results").glob("*-3-*")
    config = run_config({"sut": "simulated", "seed": 3, "duration_s": 3, "rate": 20})
    here = record(config, results=tmp_path / "here", display=Display()).run
    for journal in sorted(here.journal.iterdir()):
        assert (folder / "journal" / journal.name).read_bytes() == journal.read_bytes()
    assert inquest(installed, tmp_path, "check", "results/latest").startswith("VALID: ")
    assert inquest(installed, tmp_path, "report", "results/latest").strip().endswith("report.html")


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_importing_it_leaves_the_names_of_others_alone(installed: Path, tmp_path: Path) -> None:
    """A program with modules of its own that have the rooms' names."""
    for room in ROOMS:
        (tmp_path / f"{room}.py").write_text("OWN = True\n")
    program = "".join(f"import {room}; assert {room}.OWN\n" for room in ROOMS)
    program += "import inquest.checkers.api, inquest.harness.cli.main, core; assert core.OWN\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(installed / "bin" / "python"), "-c", program]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)


@pytest.mark.sampled(14)
@pytest.mark.slow
def test_nothing_of_the_current_folder_runs(installed: Path, tmp_path: Path) -> None:
    """Brokers, clients and Spark's workers of an installed command, in a folder with modules of others."""
    for name in ("json", "signal", "inquest", *ROOMS):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder ran')\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [
        str(installed / "bin" / "inquest"),
        "run",
        "--sut",
        "model",
        "--nemesis",
        "none",
        "--duration",
        "1",
    ]
    done = subprocess.run(
        [*command, "--set", "home_producers=0", "--set", "rate=20", "--master", "local[1]"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("VALID: ")


def test_only_imports_of_rooms_are_written_anew() -> None:
    kept = "import corekit\nfrom .core import x\n# from core.op import\n"
    source = "from core.op import (\n    Op,\n)\nfrom core import op\n"
    made = "from inquest.core.op import (\n    Op,\n)\nfrom inquest.core import op\n"
    assert inside_package(source + kept, ROOMS, "m") == made + kept
    with pytest.raises(SyntaxError, match=r"m line 1: write `from … import`, not `import core\.op`"):
        inside_package("import core.op\n", ROOMS, "m")
