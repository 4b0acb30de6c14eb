"""Programs of the user's that a run starts: how they are named, and what they find in their environment.

An option puts each into a variable of the environment, for this process and its children, as files of
extensions are named (`core.extensions`): no run folder brings a command, so that no recording of a stranger's
starts a program here.
"""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from core.programs import BASE


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProgram:
    """A program. variable: names it, as words of a command line. option: of the command line that sets the
    variable. needed_by: what cannot run without. tried: whether it is looked for when it is named; else who
    runs it says what is wrong."""

    variable: str
    option: str
    needed_by: str
    tried: bool = True

    def name(self, command: str) -> None:
        """Name the command. Raises: ConfigError, as `words` does."""
        os.environ[self.variable] = command
        self.words()

    def words(self) -> list[str]:
        """The command. Raises: ConfigError, where none is named, or it cannot be started."""
        given = os.environ.get(self.variable, "")
        try:
            found = shlex.split(given)
        except ValueError as error:
            raise ConfigError(f"{self.option} {given!r}: {error}") from None
        if not found:
            raise ConfigError(
                f"{self.needed_by}: name the program with {self.option}, or in {self.variable}; no recording"
                " brings one"
            )
        if self.tried and shutil.which(found[0]) is None:
            why = "cannot be executed" if Path(found[0]).exists() else "no such program"
            raise ConfigError(f"{self.option} {found[0]}: {why}")
        return found


def environment() -> dict[str, str]:
    """The environment of the program: the user's, without the folder of this code, whose packages have names
    that its own may have."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [part for part in path if part and part != str(BASE)]
    others = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**others, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})}
