"""Runs on real brokers, made again: which anomaly classes they show, and how often.

The faults of a repeat are the same and begin at the same times; what brokers and clients do meanwhile is not
the same. So a class that a run shows is a matter of rates: a smaller run counts as failing only where enough
of its repeats show the class.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkers.catalogue import ANOMALIES
from core.errors import ClusterError, ConfigError
from core.op import Phase
from harness.compose import plan, record
from harness.explore.shrink import ShrinkCase
from harness.run.progress import Display
from history.run_folder import Run
from history.verdict import Verdict, bugs_of

FAILURES_MOST: Final = 3
"""Repeats in a row whose cluster failed: as many say that the next one would fail too."""


@dataclass(slots=True)
class Repeats:
    """Repeats of runs, recorded into `results`; `latest` there stays as it is. Only one that showed `anomaly`
    stays, the newest of the newest case that fails.

    known_bug: of the class in the original's verdict, see `same_finding`. runs: most repeats of one case.
    needed: the number of them that must show the class. judge: writes the verdict into a run folder. entered:
    learns the phases of each repeat. say: gets a line for each repeat whose cluster failed: it is unknown
    what that one would have shown. Its folder stays, where the cluster had come up.
    """

    anomaly: str
    runs: int
    needed: int
    results: Path
    judge: Callable[[Run], Verdict]
    entered: Callable[[Phase], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    known_bug: str = ""
    kept: Run | None = None
    rate: tuple[int, int] = (0, 0)
    """How many repeats of the case of `kept` show the class, of how many."""
    unknown: int = 0
    """Repeats that showed nothing and left something undecided, as where a busy machine fails the warm-up."""
    _failures: int = 0

    def fails(self, case: ShrinkCase, anomaly: str) -> bool | None:
        """Whether enough repeats show the class; no more are made than it takes to know. None = it depends on
        what unknown repeats would have shown. A case that no run can have does not fail.

        Raises: see `harness.compose.record`; ClusterError, where clusters failed in a row; KeyboardInterrupt,
        where the user interrupted a repeat.
        """
        assert anomaly == self.anomaly
        if _refused(case):
            return False
        seen, shown, before = 0, None, self.unknown
        try:
            for made in range(1, self.runs + 1):
                if run := self._repeat(case):
                    _remove(shown)
                    seen, shown = seen + 1, run
                if seen == self.needed:
                    self._keep(shown)
                    self.rate, shown = (seen, made), None
                    return True
                if seen + self.runs - made < self.needed:
                    break
        finally:
            _remove(shown)
        possible = seen + self.unknown - before + self.runs - made
        return None if possible >= self.needed else False

    def measure(self, case: ShrinkCase) -> None:
        """Make `runs` further repeats of the case of `kept`: `rate` is theirs alone. Raises: see `fails`."""
        seen = 0
        for made in range(1, self.runs + 1):
            if run := self._repeat(case):
                self._keep(run)
                seen += 1
            self.rate = (seen, made)

    def _keep(self, run: Run | None) -> None:
        _remove(self.kept)
        self.kept = run

    def _repeat(self, case: ShrinkCase) -> Run | None:
        """A repeat that shows the class; None = it does not."""
        display = Display(entered=self.entered)
        try:
            recorded = record(
                case.config, steps=case.steps, results=self.results, latest=False, display=display
            )
        except ClusterError as error:
            self._failures += 1
            if self._failures == FAILURES_MOST:
                raise
            self.say(f"a repeat failed and counts as unknown: {error}")
            self.unknown += 1
            return None
        self._failures = 0
        try:
            if recorded.interrupted:
                raise KeyboardInterrupt
            verdict = self.judge(recorded.run)
        except BaseException:
            _remove(recorded.run)
            raise
        if same_finding(verdict, self.anomaly, self.known_bug):
            return recorded.run
        _remove(recorded.run)
        self.unknown += verdict.valid == "unknown"
        return None


def _refused(case: ShrinkCase) -> bool:
    try:
        plan(case.config, case.steps)
    except ConfigError:
        return True
    return False


def _remove(run: Run | None) -> None:
    if run is not None:
        shutil.rmtree(run.folder)


def same_finding(verdict: Verdict, anomaly: str, known_bug: str) -> bool:
    """Whether a repeat shows the class as the original did: open, or with one of the known bugs of it.
    known_bug: of the class in the original's verdict."""
    if anomaly not in classes(verdict):
        return False
    bugs, wanted = set(bugs_of(known_bug_of(verdict, anomaly))), set(bugs_of(known_bug))
    return bool(bugs & wanted) if wanted else not bugs


def known_bug_of(verdict: Verdict, anomaly: str) -> str:
    """Of a class; "" = it is open, or was not found."""
    found = verdict.anomalies.get(anomaly)
    return found.known_bug if found is not None else ""


def classes(verdict: Verdict) -> list[str]:
    """Anomaly classes with forbidden findings and, of a control, the expected ones that were found; the most
    severe first."""
    found = {name for name, anomaly in verdict.anomalies.items() if anomaly.disallowed}
    found |= {name for name, was_found in verdict.expect.items() if was_found}
    return [name for name in ANOMALIES if name in found]
