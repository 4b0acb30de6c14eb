"""What came of an exploration: as JSON, as a table, as an exit code.

Not here: how it was found (`hunt`).
"""

import math
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from model.mutants import MUTANTS

AS_IT_SHOULD_BE, NOT_SO = 0, 1
WIDE = 160
"""Columns of the table where the output is no terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run worth repeating. config: settings besides the defaults."""

    seed: int
    why: str
    config: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Clean:
    """Seeds without planted bugs."""

    seeds: int = 0
    simulated_s: float = 0.0
    failures: list[Run] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Found:
    """What came of a mutant. hunted: whether some run shows it; the others are in scenarios only.
    anomaly: the class that gave it away. seeds: runs that were made, the finding one included;
    simulated_s: their length. broke: runs in which an invariant of the model did not hold, or that crashed:
    that alone is no find. run: the one that found it."""

    hunted: bool = True
    found: bool = False
    anomaly: str | None = None
    seeds_to_detection: int | None = None
    seeds: int = 0
    simulated_s: float = 0.0
    broke: int = 0
    run: Run | None = None

    @property
    def missed(self) -> bool:
        """It was looked for in vain."""
        return self.hunted and not self.found

    @property
    def rate(self) -> float | None:
        """Finds in a hundred simulated seconds, judged by this one; None = not found."""
        return round(100 / self.simulated_s, 3) if self.found and self.simulated_s else None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Everything."""

    clean: Clean
    mutants: dict[str, Found]

    @property
    def code(self) -> int:
        """0 where every seed is clean and every mutant that some run shows was found, else 1."""
        well = not self.clean.failures and not any(one.missed for one in self.mutants.values())
        return AS_IT_SHOULD_BE if well else NOT_SO

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "clean": {
                "seeds": self.clean.seeds,
                "failures": [_run(run) for run in self.clean.failures],
            },
            "mutants": {
                name: {
                    "hunted": one.hunted,
                    "found": one.found,
                    "class": one.anomaly,
                    "seeds_to_detection": one.seeds_to_detection,
                    "simulated_s": one.simulated_s,
                    "rate": one.rate,
                    "seeds": one.seeds,
                    "broke": one.broke,
                    "run": None if one.run is None else _run(one.run),
                }
                for name, one in self.mutants.items()
            },
        }

    def show(self) -> None:
        """Print it for people: all columns, also where the output is no terminal."""
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
            table.add_row(
                name, MUTANTS[name].area, one.anomaly or otherwise,
                str(one.seeds_to_detection or one.seeds), f"{one.simulated_s:.0f}",
                "" if one.rate is None else f"{one.rate:.2f}", style="red" if one.missed else None,
            )  # fmt: skip
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


def _run(run: Run) -> dict[str, Any]:
    return {"seed": run.seed, "why": run.why, "config": run.config}
