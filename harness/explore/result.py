"""The result of an exploration: as JSON, as a table, as an exit code."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from core.errors import ExitCode
from harness.explore.trial import Trial
from model.mutants.registry import AREA_OF

WIDE = 160
"""Columns of the table if the output is not a terminal."""


@dataclass(slots=True, kw_only=True)
class MutantResult:
    """The runs of a mutant, up to the first that shows it. hunted: some run of the era can show it;
    most of the others show in scenarios only, or in tests of the model."""

    hunted: bool = True
    trials: list[Trial] = field(default_factory=list)

    @property
    def anomaly(self) -> str:
        """The class that showed it, "" = none has."""
        return self.trials[-1].shows if self.trials else ""

    @property
    def simulated_s(self) -> float:
        """Of all runs, the showing one included."""
        return simulated_s(self.trials)

    @property
    def broke(self) -> int:
        """Runs that broke an invariant of the model or crashed; that alone does not count as found."""
        return sum(bool(one.broken or one.crashed) for one in self.trials)

    @property
    def missed(self) -> bool:
        """No run showed it, although some could."""
        return self.hunted and not self.anomaly

    @property
    def undone(self) -> bool:
        """The harness failed to make or to judge one of the runs, which might have shown it."""
        return any(one.harness for one in self.trials)

    @property
    def rate(self) -> float | None:
        """Expected finds in a hundred simulated seconds; None = not found."""
        return round(100 / self.simulated_s, 3) if self.anomaly and self.simulated_s else None


@dataclass(slots=True, kw_only=True)
class Exploration:
    """All runs of one command. seeds: asked for. clean: runs without planted bugs. interrupted: there would
    have been more of them, or of the mutants'."""

    clean: list[Trial]
    mutants: dict[str, MutantResult]
    seeds: int = 0
    interrupted: bool = False

    @property
    def failed(self) -> list[Trial]:
        """Runs without planted bugs that are not clean."""
        return [one for one in self.clean if one.failures]

    @property
    def weak(self) -> dict[str, list[Trial]]:
        """Runs without planted bugs in which a known weakness of Kafka did harm, by its name."""
        found: dict[str, list[Trial]] = {}
        for one in self.clean:
            for name in one.weak:
                found.setdefault(name, []).append(one)
        return dict(sorted(found.items()))

    @property
    def undone(self) -> list[tuple[str, Trial]]:
        """Runs that the harness failed to make or to judge, with their mutants ("" = none)."""
        runs = [("", one) for one in self.clean]
        runs += [(name, one) for name, found in self.mutants.items() for one in found.trials]
        return [(name, one) for name, one in runs if one.harness]

    @property
    def code(self) -> int:
        """130 if interrupted, 0 where every seed is clean and every mutant that some run can show was found;
        70 where only runs that the harness failed to make keep it from that, else 1."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        missed = [one for one in self.mutants.values() if one.missed]
        if any(one.of_the_run for one in self.failed) or any(not one.undone for one in missed):
            return ExitCode.ANOMALY
        return ExitCode.HARNESS if self.undone else ExitCode.VALID

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it. harness: only where there are such runs."""
        undone = [{"mutant": name, **_to_repeat(one)} for name, one in self.undone]
        return {
            **({"harness": undone} if undone else {}),
            "interrupted": self.interrupted,
            "clean": {
                "seeds": len(self.clean),
                "failures": [_to_repeat(one) for one in self.failed],
                "known": {name: [_known(one) for one in runs] for name, runs in self.weak.items()},
            },
            "mutants": {
                name: {
                    "hunted": one.hunted,
                    "found": bool(one.anomaly),
                    "class": one.anomaly or None,
                    "seeds_to_detection": len(one.trials) if one.anomaly else None,
                    "simulated_s": one.simulated_s,
                    "rate": one.rate,
                    "seeds": len(one.trials),
                    "broke": one.broke,
                    "run": _to_repeat(one.trials[-1]) if one.anomaly else None,
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
            otherwise = "not found" if one.trials else "no run yet"
            otherwise = f"{otherwise}{broke}" if one.hunted else "no run of this era"
            rate = "" if one.rate is None else f"{one.rate:.2f}"
            numbers = (str(len(one.trials)), f"{one.simulated_s:.0f}", rate)
            style = "red" if one.missed else None
            table.add_row(name, AREA_OF[name], one.anomaly or otherwise, *numbers, style=style)
        return table

    def _lines(self) -> list[str]:
        said = []
        failed = self.failed
        if self.clean:
            said.append(
                f"{len(self.clean)} seeds without planted bugs ({simulated_s(self.clean):.0f} simulated "
                f"seconds): {f'{len(failed)} failed' if failed else 'all clean'}"
            )
            said += [f"  seed {one.seed}: {one.why}" for one in failed]
            for name, runs in self.weak.items():
                seeds = " ".join(str(one.seed) for one in runs)
                said.append(f"known weakness {name}: in {len(runs)} seeds: {seeds}")
        said += [f"mutant {name}, seed {one.seed}: {one.why}" for name, one in self.undone if name]
        if self.interrupted:
            said.append(f"interrupted: {len(self.clean)} of {self.seeds} seeds without planted bugs were run")
        if self.mutants:
            count = sum(bool(one.anomaly) for one in self.mutants.values())
            share = math.floor(1000 * count / len(self.mutants)) / 10
            said.append(f"{count} of {len(self.mutants)} mutants found ({share:g} %)")
            scenarios = [name for name, one in self.mutants.items() if not one.hunted]
            if scenarios:
                said.append(f"shown by no run of this era, so not looked for: {', '.join(scenarios)}")
        return said


def simulated_s(trials: Iterable[Trial]) -> float:
    """Simulated seconds of all of them."""
    return round(sum(one.simulated_s for one in trials), 3)


def _known(one: Trial) -> dict[str, object]:
    """A run in which a known weakness did harm, with the findings that come from it."""
    return {"seed": one.seed, "config": one.config, "explained": one.explained}


def _to_repeat(one: Trial) -> dict[str, object]:
    """A run that shows something."""
    return {"seed": one.seed, "why": one.why, "config": one.config}
