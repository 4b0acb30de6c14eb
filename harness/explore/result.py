"""The result of an exploration: as JSON, as a table, as an exit code."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from core.errors import ExitCode
from harness.explore.trial import Trial
from model.mutants.registry import MUTANTS

WIDE = 160
"""Columns of the table if the output is not a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToRepeat:
    """A run that shows something. config: the settings that differ from the defaults."""

    seed: int
    why: str
    config: dict[str, Any]

    @classmethod
    def of(cls, one: Trial) -> "RunToRepeat":
        """The run of a trial."""
        return cls(seed=one.seed, why="; ".join(one.failures), config=one.config)


@dataclass(slots=True, kw_only=True)
class CleanSeeds:
    """Seeds without planted bugs, and those of them that failed."""

    seeds: int = 0
    simulated_s: float = 0.0
    failures: list[RunToRepeat] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class MutantResult:
    """What the runs of a mutant came to.

    hunted: some run can show it; the others show in scenarios only. anomaly: the class that showed it.
    runs, simulated_s: how many runs and how long, the showing one included. broke: runs that broke an
    invariant of the model or crashed; that alone does not count as found. run: the one that showed it.
    """

    hunted: bool = True
    found: bool = False
    anomaly: str | None = None
    runs: int = 0
    simulated_s: float = 0.0
    broke: int = 0
    run: RunToRepeat | None = None

    def add(self, runs: int, simulated_s: float, broke: int) -> None:
        """Count the runs of a batch; those behind the run that showed the mutant do not count."""
        if not self.found:
            self.runs += runs
            self.simulated_s = round(self.simulated_s + simulated_s, 3)
            self.broke += broke

    def find(self, anomaly: str, last: Trial) -> None:
        """The run that was added last showed the mutant; of several the first counts."""
        if not self.found:
            self.found, self.anomaly, self.run = True, anomaly, RunToRepeat.of(last)

    @property
    def missed(self) -> bool:
        """No run showed it, although some could."""
        return self.hunted and not self.found

    @property
    def rate(self) -> float | None:
        """Expected finds in a hundred simulated seconds; None = not found."""
        return round(100 / self.simulated_s, 3) if self.found and self.simulated_s else None


@dataclass(slots=True, kw_only=True)
class Exploration:
    """All runs of one command."""

    clean: CleanSeeds
    mutants: dict[str, MutantResult]

    @property
    def code(self) -> int:
        """0 where every seed is clean and every mutant that some run can show was found, else 1."""
        as_expected = not self.clean.failures and not any(one.missed for one in self.mutants.values())
        return ExitCode.VALID if as_expected else ExitCode.ANOMALY

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "clean": {"seeds": self.clean.seeds, "failures": [asdict(run) for run in self.clean.failures]},
            "mutants": {
                name: {
                    "hunted": one.hunted,
                    "found": one.found,
                    "class": one.anomaly,
                    "seeds_to_detection": one.runs if one.found else None,
                    "simulated_s": one.simulated_s,
                    "rate": one.rate,
                    "seeds": one.runs,
                    "broke": one.broke,
                    "run": None if one.run is None else asdict(one.run),
                }
                for name, one in self.mutants.items()
            },
        }

    def show(self) -> None:
        """Print it for people: all columns, also if the output is not a terminal."""
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = WIDE
        if self.mutants:
            console.print(self._table())
        for line in self._lines():
            console.print(line, markup=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table("mutant", "area", "found by", box=None, header_style="bold")
        for title in ("seeds", "simulated s", "finds per 100 s"):
            table.add_column(title, justify="right")
        for name, one in self.mutants.items():
            broke = f", {one.broke} broke an invariant" if one.broke else ""
            otherwise = f"not found{broke}" if one.hunted else "no run (see docs/model.md)"
            rate = "" if one.rate is None else f"{one.rate:.2f}"
            numbers = (str(one.runs), f"{one.simulated_s:.0f}", rate)
            shown = one.anomaly or otherwise
            style = "red" if one.missed else None
            table.add_row(name, MUTANTS[name].area, shown, *numbers, style=style)
        return table

    def _lines(self) -> list[str]:
        clean = self.clean
        said = []
        if clean.seeds:
            said.append(
                f"{clean.seeds} seeds without planted bugs ({clean.simulated_s:.0f} simulated seconds): "
                + (f"{len(clean.failures)} failed" if clean.failures else "all clean")
            )
            said += [f"  seed {run.seed}: {run.why}" for run in clean.failures]
        if self.mutants:
            count = sum(one.found for one in self.mutants.values())
            share = math.floor(1000 * count / len(self.mutants)) / 10
            said.append(f"{count} of {len(self.mutants)} mutants found ({share:g} %)")
            scenarios = [name for name, one in self.mutants.items() if not one.hunted]
            if scenarios:
                said.append(f"in scenarios only, so not looked for: {', '.join(scenarios)}")
        return said
