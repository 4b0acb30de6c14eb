"""The house: each package's docstring maps exactly what the package holds, and few modules lie loose."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness")
PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("__init__.py")
)
LINE = re.compile(r"^(\w+)  +\S", re.MULTILINE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
LOOSE_MAX = 3
TWO_MEANINGS_MAX = 10


def contents(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def registered(name: str) -> set[str]:
    """Modules of a package that the registry of its room imports: their own docstrings document them."""
    registry = ROOT / name.partition("/")[0] / "registry.py"
    if not registry.exists():
        return set()
    found = set()
    for node in ast.walk(ast.parse(registry.read_text())):
        if isinstance(node, ast.ImportFrom):
            package = name.replace("/", ".")
            if node.module == package:
                found |= {alias.name for alias in node.names}
            elif (node.module or "").rpartition(".")[0] == package:
                found.add((node.module or "").rpartition(".")[2])
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_the_map_of_a_package_names_what_it_holds(name: str) -> None:
    package = ROOT / name
    documented = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    mapped = set(LINE.findall(documented))
    assert mapped <= contents(package)
    assert contents(package) - mapped <= registered(name)


def test_few_modules_lie_loose_in_harness() -> None:
    loose = {path.stem for path in (ROOT / "harness").glob("*.py")} - {"__init__"}
    assert len(loose) <= LOOSE_MAX


def test_few_class_names_have_two_meanings() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for name in CLASS.findall(path.read_text()):
            modules[name].append(path.relative_to(ROOT).as_posix())
    twice = {name: found for name, found in modules.items() if len(found) > 1}
    assert len(twice) <= TWO_MEANINGS_MAX, twice
