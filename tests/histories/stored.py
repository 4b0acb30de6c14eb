"""Simulated runs that tests keep: whole configs of regressions, and how soon a bug has to show."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from core.config import RunConfig

FOLDER = Path(__file__).parent


def config(name: str) -> RunConfig:
    """A config of `configs.json`: all settings, so that no default and no registry can change the run."""
    configs = json.loads((FOLDER / "configs.json").read_text())
    return RunConfig.model_validate(configs[name])


class Pin(NamedTuple):
    """first: the number of the first run that showed the bug, when it was measured. within: so many runs may
    pass before one shows it: three times as many, at least ten."""

    first: int
    within: int

    def numbers(self) -> Iterator[int]:
        """The numbers of the runs to try, the measured one before others."""
        yield self.first
        yield from (number for number in range(self.within) if number != self.first)


def pins() -> dict[str, Pin]:
    """Of every planted bug that a run can show."""
    found = json.loads((FOLDER / "pins.json").read_text())
    return {name: Pin(**pin) for name, pin in found.items()}
