"""The command that the user named for the instances of an application, for this process and its children.

`--app` puts it into a variable of the environment, as `--client` does: no recording brings a command.
"""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.errors import ConfigError
from core.extensions import APP

SETTINGS: Final[Mapping[str, object]] = {
    "workload": "application",
    "nemesis": "client:crash@member,client:pause@member,kill",
    "producers": 2,
    "home_producers": 2,
    "rate": 10.0,
    "batch_max": 20,
}
"""What a run of an application has where the user says nothing else: some 100 records a second, which a
simple program can follow."""


def name(command: str) -> None:
    """Name the command. Raises: ConfigError, where it cannot be started."""
    os.environ[APP] = command
    words()


def words() -> list[str]:
    """The command. Raises: ConfigError, where none is named, or it cannot be started."""
    given = os.environ.get(APP, "")
    try:
        found = shlex.split(given)
    except ValueError as error:
        raise ConfigError(f"--app {given!r}: {error}") from None
    if not found:
        raise ConfigError(
            f"workload application: name the program with --app, or in {APP}; no recording brings one"
        )
    if shutil.which(found[0]) is None:
        why = "cannot be executed" if Path(found[0]).exists() else "no such program"
        raise ConfigError(f"--app {found[0]}: {why}")
    return found
