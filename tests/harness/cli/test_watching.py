"""What a person sees while a check runs: how far it is, on a terminal alone."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from core.progress import Progress, ProgressStage, text_of
from tests.histories.folders import write_run
from tests.histories.random_history import simulate


def checked(run: Path, stderr: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "harness.cli.main", "check", str(run), "--engine", "process"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, "TERM": "xterm"})


@pytest.mark.sampled(48)
@pytest.mark.slow
def test_a_terminal_shows_how_far_the_check_is_and_a_pipe_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", simulate(3, portable=False).tables()).folder
    ours, terminal = pty.openpty()
    try:
        with_terminal = checked(run, terminal)
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(terminal)
        os.close(ours)
    assert "checking: 1 of 1 units, " in shown
    piped = checked(run, subprocess.PIPE)
    assert piped.stderr == b""
    assert piped.stdout == with_terminal.stdout


@pytest.mark.parametrize(
    ("sizes", "tasks", "done", "shown"),
    [
        ((1_500_000, 2_500_000), 1, 1_500_000, "sealing: 1 of 2 units, 1.5 of 4.0 M rows"),
        ((700, 800), 1, 800, "sealing: 1 of 2 units, 0.8 of 1.5 k rows"),
        ((7,), 0, 0, "sealing: 0 of 1 units, 0 of 7 rows"),
        ((0,), 1, 0, "sealing: 1 of 1 units, 0 of 0 rows"),
    ],
)
def test_progress_in_words(sizes: tuple[int, ...], tasks: int, done: int, shown: str) -> None:
    stage = ProgressStage(name="sealing", tasks="units", sizes=sizes)
    assert text_of(Progress(stage=stage, tasks=tasks, done=done)) == shown
