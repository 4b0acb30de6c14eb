"""Workloads, nemeses and checks that are not part of this code: of files that a user names, of packages.

    extend("workloads", "./orders.py:Orders")    # then WORKLOADS["orders"], here and in every child process

Only what the person who starts Inquest names is loaded: no run folder can ask for a file. So a recorded run
with an extension is repeated only where the extension is named again.
"""

import functools
import importlib.util
import os
import re
import shlex
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from core.errors import ConfigError

Kind = Literal["workloads", "nemeses", "checks"]
VARIABLE: Final = "INQUEST_EXTENSIONS"
"""Names the files for this process and its children: `kind=path:attribute`, as words of a command line.
Packages name theirs as entry points of the groups `inquest.workloads`, `inquest.nemeses`,
`inquest.checks`."""

CLIENT: Final = "INQUEST_CLIENT"
"""Names the program that is the load client, as words of a command line (`harness.clients.command`)."""

APP: Final = "INQUEST_APP"
"""Names the application between two topics, as words of a command line (`harness.clients.application`)."""
EFFECTS: Final = "INQUEST_EFFECTS"
"""Names the command that prints what the world outside of Kafka shows of it."""

CLUSTER: Final = "INQUEST_CLUSTER"
"""Names the file of the cluster that is external (`harness.external`)."""
OWNED: Final = "INQUEST_CLUSTER_OWNED"
"""Set where that cluster may have topics and groups of others."""


def is_file(words: str) -> bool:
    """Whether these words of the command line name a file, `path.py` or `path.py:attribute`."""
    return words.partition(":")[0].endswith(".py")


def extend(kind: Kind, words: str) -> str:
    """Name a file for this process and its children, before a registry is imported; the name of what it has.

    Raises: ConfigError.
    """
    path, _, attribute = words.partition(":")
    found = f"{kind}={Path(path).resolve()}:{attribute}"
    os.environ[VARIABLE] = shlex.join(dict.fromkeys([*_named(), found]))
    return _name(kind, path, _loaded(path, attribute))


def extensions(kind: Kind) -> dict[str, Any]:
    """What files and packages have of a kind, by name. Raises: ConfigError."""
    found = {entry.name: entry.load() for entry in entry_points(group=f"inquest.{kind}")}
    for words in _named():
        of, _, where = words.partition("=")
        path, _, attribute = where.rpartition(":")
        if of == kind:
            made = _loaded(path, attribute)
            found[_name(kind, path, made)] = made
    return found


def load_checks() -> None:
    """Load the files of checks, in a process that unpickles what theirs hold. Raises: ConfigError."""
    for words in _named():
        of, _, where = words.partition("=")
        if of == "checks":
            _module(where.rpartition(":")[0])


def assignment() -> str:
    """The variables as they stand before a command that has to find the same files, program and cluster, "" =
    there are none."""
    given = [name for name in (VARIABLE, CLIENT, APP, EFFECTS, CLUSTER, OWNED) if os.environ.get(name)]
    return "".join(f"{name}={shlex.quote(os.environ[name])} " for name in given)


def _named() -> list[str]:
    return shlex.split(os.environ.get(VARIABLE, ""))


def _name(kind: Kind, path: str, made: Any) -> str:
    """A nemesis has a name; a workload and a check have that of their file."""
    return str(made.name) if kind == "nemeses" else Path(path).stem.replace("_", "-")


def _loaded(path: str, attribute: str) -> object:
    """The module of a file, or what it has by this name. Raises: ConfigError."""
    module = _module(str(Path(path).resolve()))
    if attribute and not hasattr(module, attribute):
        raise ConfigError(f"{path} has no {attribute}")
    made = getattr(module, attribute) if attribute else module
    return made() if isinstance(made, type) else made


@functools.cache
def _module(path: str) -> ModuleType:
    """The module of a file, loaded once, under a name that follows from its path: by that name a pickle finds
    its functions and classes, in each process that has loaded it. Raises: ConfigError."""
    name = f"inquest_extension_{re.sub(r'[^a-zA-Z0-9]', '_', path)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ConfigError(f"{path}: no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path}: {type(error).__name__}: {error}") from error
    return module
