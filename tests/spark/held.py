"""The command `inquest`, held in one stage of its work.

    python -m tests.spark.held STAGE MARKER SECONDS WORDS…

STAGE: of `core.progress.ProgressStage`, or `report`. There, its first task makes the file MARKER and
waits so long.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from checkers.engine.spark_workers import SparkWorkers
from core.progress import ProgressStage
from harness import report
from harness.cli import main


class Held:
    """A task that waits."""

    def __init__(self, marker: str, seconds: float, work: Callable[[int], object]) -> None:
        self.marker, self.seconds, self.work = marker, seconds, work

    def __call__(self, number: int) -> object:
        """Wait, in task 0."""
        if number == 0:
            Path(self.marker).touch()
            time.sleep(self.seconds)
        return self.work(number)


class Killing:
    """A task that does its work and then kills the JVM of its executor, before it has answered; once: where
    the file MARKER is not there yet."""

    def __init__(self, marker: str, work: Callable[[int], object]) -> None:
        self.marker, self.work = marker, work

    def __call__(self, number: int) -> object:
        """What the work answers, but for the first time."""
        answer = self.work(number)
        if number == 0 and not Path(self.marker).exists():
            Path(self.marker).touch()
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            os.kill(int(daemon[1]), signal.SIGKILL)
            time.sleep(600)
        return answer


def hold(where: str, marker: str, seconds: float) -> None:
    """Hold this process there."""
    mapped = SparkWorkers.map

    def holding(workers: Any, stage: ProgressStage, work: Callable[[int], object]) -> list[object]:
        return mapped(workers, stage, Held(marker, seconds, work) if stage.name == where else work)

    setattr(SparkWorkers, "map", holding)  # noqa: B010
    if where == "report":
        setattr(report, "build", lambda _: Held(marker, seconds, int)(0))  # noqa: B010


if __name__ == "__main__":
    from tests.spark import held  # tasks find the class there, not in the program

    held.hold(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    main.main(partial(main.app, sys.argv[4:]))
