"""Runs on real brokers, made again: which anomaly classes they show, and how often.

The faults of a repeat are the same and begin at the same times; what brokers and clients do meanwhile is not
the same. So a class that a run shows is a matter of rates: a smaller run counts as failing only where enough
of its repeats show the class.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkers.catalogue import ANOMALIES
from core.op import Phase
from harness.compose import record
from harness.explore.shrink import ShrinkCase
from harness.run.progress import Display
from history.run_folder import Run
from history.verdict import Verdict


@dataclass(slots=True)
class Repeats:
    """Repeats of runs, recorded into `results`; only one that showed `anomaly` stays there, the newest.

    runs: most repeats of one case. needed: the number of them that must show the class. judge: writes the
    verdict into a run folder. entered: learns the phases of each repeat.
    """

    anomaly: str
    runs: int
    needed: int
    results: Path
    judge: Callable[[Run], Verdict]
    entered: Callable[[Phase], None] = lambda _: None
    kept: Run | None = None
    unknown: int = 0
    """Repeats that showed nothing and left something undecided, as where a busy machine fails the warm-up."""

    def fails(self, case: ShrinkCase, anomaly: str) -> bool:
        """Whether enough repeats show the class; no more are made than it takes to know.

        Raises: see `harness.compose.record`; KeyboardInterrupt, where the user interrupted a repeat.
        """
        assert anomaly == self.anomaly
        seen = 0
        for made in range(1, self.runs + 1):
            seen += self._shows(case)
            if seen == self.needed or seen + self.runs - made < self.needed:
                break
        return seen >= self.needed

    def rate(self, case: ShrinkCase) -> int:
        """How many of `runs` further repeats show the class."""
        return sum(self._shows(case) for _ in range(self.runs))

    def _shows(self, case: ShrinkCase) -> bool:
        display = Display(entered=self.entered)
        recorded = record(case.config, steps=case.steps, results=self.results, display=display)
        run = recorded.run
        if recorded.interrupted:
            shutil.rmtree(run.folder)
            raise KeyboardInterrupt
        verdict = self.judge(run)
        if self.anomaly not in classes(verdict):
            shutil.rmtree(run.folder)
            self.unknown += verdict.valid == "unknown"
            return False
        if self.kept is not None:
            shutil.rmtree(self.kept.folder)
        self.kept = run
        return True


def classes(verdict: Verdict) -> list[str]:
    """Anomaly classes with forbidden findings and, of a control, the expected ones that were found; the most
    severe first."""
    found = {name for name, anomaly in verdict.anomalies.items() if anomaly.disallowed}
    found |= {name for name, was_found in verdict.expect.items() if was_found}
    return [name for name in ANOMALIES if name in found]
