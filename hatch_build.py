"""How a wheel is built: the rooms become subpackages of the one package `inquest`.

The rooms have short names (`core`, `model`, …), which other programs use, too. So a wheel does not
install them under these names: this hook copies them into `inquest/` and writes their imports of each
other as `from inquest.core.op import …`. Nothing else of the code changes: modules that name a module as
text take it from `__package__`. The image recipes lie beside the rooms, as in the repository. An editable
installation has the repository's folders as they are, and needs none of this.
"""

import ast
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "inquest"
DATA = ("docker",)
"""Folders without Python that the rooms read."""
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


class OnePackage(BuildHookInterface[Any]):
    """The hook (pyproject.toml, `tool.hatch.build.targets.wheel.hooks.custom`)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the package in a temporary folder. Raises: SyntaxError, for `import` of a room."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory(prefix="inquest-wheel-")
        rooms, made = self.config["rooms"], Path(self._made.name) / PACKAGE
        shutil.copytree(Path(self.root) / PACKAGE, made, ignore=LEFT_OUT)
        for name in (*rooms, *DATA):
            shutil.copytree(Path(self.root) / name, made / name, ignore=LEFT_OUT)
        for module in made.rglob("*.py"):
            source = module.read_text(encoding="utf-8")
            module.write_text(inside_package(source, rooms, str(module)), encoding="utf-8")
        build_data["force_include"][str(made)] = PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._made.cleanup()


def inside_package(source: str, rooms: Iterable[str], name: str) -> str:
    """The source of a module with its imports of rooms as imports of `inquest.<room>`.

    name: of the module, for messages. Raises: SyntaxError, for `import room`: a new name of the module
    would change the code that uses it.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in rooms:
                    why = f"write `from … import`, not `import {alias.name}`"
                    raise SyntaxError(f"{name} line {node.lineno}: {why}")
        elif isinstance(node, ast.ImportFrom) and _room(node) in rooms:
            before, after = f"from {node.module} ", f"from {PACKAGE}.{node.module} "
            lines[node.lineno - 1] = lines[node.lineno - 1].replace(before, after, 1)
    return "".join(lines)


def _room(node: ast.ImportFrom) -> str:
    """The top-level package of an import; "" of a relative one."""
    return "" if node.level else (node.module or "").partition(".")[0]
