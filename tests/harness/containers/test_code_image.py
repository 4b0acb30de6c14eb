"""The image of programs in containers has what these import."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.containers import code_image
from harness.containers.images import RECIPES
from harness.modelled.real.node_main import __name__ as PROGRAM

IMPORTED = f"""
import sys
import {PROGRAM}
print("\\n".join(filter(None, (getattr(one, "__file__", None) for one in sys.modules.values()))))
"""


LACKING = """
import sys

class Lacking:
    def find_spec(name, path, target=None):
        if name.partition(".")[0] in {lacking}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Lacking)
"""


@pytest.mark.sampled(14)
def test_it_has_all_modules_that_a_node_imports() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    parent = RECIPES.parent
    rooms = [parent / name for name in ("core", "harness", "history", "model", "checkers", "nemesis")]
    loaded = {Path(line) for line in done.stdout.splitlines()}
    own = {path for path in loaded if any(room in path.parents for room in rooms)}
    assert parent / "harness" / "modelled" / "real" / "node_main.py" in own
    assert own <= {path for path, _ in code_image._sources()}


def needed(*packages: str) -> set[str]:
    """Distributions, with those that they require."""
    found: set[str] = {canonicalize_name(one) for one in packages}
    for one in packages:
        wanted = [Requirement(line) for line in metadata.requires(one) or ()]
        found |= needed(*(each.name for each in wanted if each.marker is None or each.marker.evaluate()))
    return found


@pytest.mark.sampled(14)
def test_it_has_all_packages_that_a_node_imports() -> None:
    """All others are not found. Those of the image may look for some, and do without."""
    there = needed(*code_image.PACKAGES)
    lacking = {
        name
        for name, distributions in metadata.packages_distributions().items()
        if not there & {canonicalize_name(one) for one in distributions}
    }
    own = {path.name for path in RECIPES.parent.iterdir()} | {"inquest"}
    assert "pydantic" in lacking
    imported = LACKING.format(lacking=lacking - own) + IMPORTED
    done = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.sampled(24)
def test_a_node_is_imported_where_nothing_else_is(tmp_path: Path) -> None:
    """Modules that read a file of the repository when they are imported cannot be among them."""
    for path, name in code_image._sources():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tmp_path / name)
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=tmp_path, env=there, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "harness" / "modelled" / "real" / "node_main.py") in done.stdout.splitlines()


def test_its_tag_follows_code_and_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_image.code_tag()
    assert before == code_image.code_tag()
    monkeypatch.setattr(code_image, "PLACES", ("core",))
    other = code_image.code_tag()
    monkeypatch.setattr(code_image, "PACKAGES", ("numpy",))
    assert len({before, other, code_image.code_tag()}) == 3
