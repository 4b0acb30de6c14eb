"""`inquest demo`: what it promises, and what it answers where that does not happen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.config import RunConfig
from core.errors import ExitCode
from harness.cli.demo import demo
from history.events import RolesSeen
from history.reader import read_events
from history.run_folder import Run

LINES_MOST = 30


@pytest.mark.sampled(48)
def test_a_loss_is_found_explained_and_absent_today(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.cli.main", "demo", "--results", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines) <= LINES_MOST) == (0, True)
    (lost,) = (at for at, line in enumerate(lines) if line.startswith("ANOMALY: found lost-write"))
    assert lines[lost + 1].startswith("first lost-write: Record ")
    (why,) = (at for at, line in enumerate(lines) if line.startswith("Why: "))
    (valid,) = (at for at, line in enumerate(lines) if line.startswith("VALID: "))
    assert lost < why < valid
    assert "node 1 was elected cleanly in epoch 2" in done.stderr  # as the explanation says
    first, _ = sorted(tmp_path.glob("2*"))
    assert len(list(tmp_path.glob("2*/report.html"))) == 2
    roles = [event for event in read_events(Run(first)) if isinstance(event, RolesSeen)]
    led = [(each.leaders["queue-1"], each.answering) for each in roles]
    assert (3, (1,)) in led, "broker 3 leads, and is dead"
    assert led.index((3, (1,))) < led.index((1, (1,)))


@pytest.mark.parametrize(
    ("before", "today", "answer"),
    [
        (ExitCode.ANOMALY, ExitCode.VALID, ExitCode.VALID),
        (ExitCode.VALID, ExitCode.VALID, ExitCode.SILENT),
        (ExitCode.ANOMALY, ExitCode.ANOMALY, ExitCode.SILENT),
        (ExitCode.UNKNOWN, ExitCode.VALID, ExitCode.SILENT),
    ],
)
def test_a_demonstration_that_shows_nothing_is_no_success(
    before: ExitCode, today: ExitCode, answer: ExitCode
) -> None:
    def perform(config: RunConfig) -> int:
        return before if config.title.endswith("era 0.10") else today

    assert demo(perform) == answer
