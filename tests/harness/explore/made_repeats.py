"""Repeats on real brokers without brokers: what each of them shows follows from its case and a list.

made = MadeRuns(["lost-write", "", ClusterError("no broker")])
monkeypatch.setattr("harness.explore.repeats.record", made.record)
Repeats(..., judge=made.judge)
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from core.config import RunConfig
from harness.compose import RecordedRun, create_folder
from history.run_folder import Run
from history.verdict import Anomaly, Verdict
from nemesis.types import PlannedFault
from tests.histories.report_runs import make_verdict

INTERRUPTED = "interrupted"
UNKNOWN = "unknown"
Answer = str | BaseException
"""What a repeat shows: a class, "" = none, `UNKNOWN`, `INTERRUPTED` = the user ended it; or a raised one."""


class MadeRuns:
    """Each repeat takes the next answer; behind the last one, `later` says what its faults show."""

    def __init__(
        self, answers: Sequence[Answer], later: Callable[[Sequence[PlannedFault]], Answer] = lambda _: ""
    ) -> None:
        self.answers = list(answers)
        self.later = later
        self.cases: list[tuple[RunConfig, tuple[PlannedFault, ...]]] = []
        self._shows: dict[Path, str] = {}

    def record(
        self, config: RunConfig, *, steps: Sequence[PlannedFault], results: Path, **_: Any
    ) -> RecordedRun:
        """As `harness.compose.record`."""
        self.cases.append((config, tuple(steps)))
        answer = self.answers.pop(0) if self.answers else self.later(steps)
        if isinstance(answer, BaseException):
            raise answer
        run = create_folder(config, results)
        self._shows[run.folder] = answer
        return RecordedRun(run=run, interrupted=answer == INTERRUPTED)

    def judge(self, run: Run) -> Verdict:
        """As the check of a run."""
        shows = self._shows[run.folder]
        return shown(*[shows] * (shows not in ("", UNKNOWN)), valid=UNKNOWN if shows == UNKNOWN else True)

    def steps_of(self, run: Run) -> int:
        """How many faults the run of this folder had."""
        return len(self.cases[list(self._shows).index(run.folder)][1])


def shown(*classes: str, **changes: Any) -> Verdict:
    """A verdict with a forbidden finding of each class."""
    anomalies = {
        name: Anomaly(title=name, literature="", meaning="", count=1, disallowed=1, allowed=False, why="")
        for name in classes
    }
    return make_verdict(anomalies=anomalies, **changes)
