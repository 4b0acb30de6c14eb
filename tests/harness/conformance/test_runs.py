"""Whole runs with a client's program on brokers of the model: each broken one has its verdict."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import ExitCode

pytestmark = pytest.mark.slow
BROKEN = [sys.executable, str(Path(__file__).with_name("broken_client.py"))]
LOST = "UNKNOWN: no forbidden anomaly found, but not everything could be decided"


def inquest(tmp_path: Path, *words: str, client: str = "") -> tuple[int, str]:
    """Exit code, and everything that was written."""
    command = [sys.executable, "-m", "harness.cli.main", *words]
    environment = {**os.environ, "INQUEST_CLIENT": client}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run(tmp_path: Path, kind: str, workload: str, nemesis: str, *words: str) -> tuple[int, str]:
    few = ("--set", "home_producers=2", "--set", "producers=2", "--set", "consumers=2")
    where = ("--sut", "model", "--results", str(tmp_path), "--engine", "process", "--seed", "5")
    what = ("--workload", workload, "--nemesis", nemesis, "--client", shlex.join([*BROKEN, *kind.split()]))
    return inquest(tmp_path, "run", *where, *what, "--duration", "8", *few, *words)


@pytest.mark.sampled(19)
@pytest.mark.parametrize(
    ("kind", "workload", "nemesis", "code", "said"),
    [
        (
            "early",
            "queue",
            "kill@leader",
            ExitCode.ANOMALY,
            "ANOMALY: found ",
        ),  # which one depends on the moment
        ("twice", "queue", "none", ExitCode.ANOMALY, "first duplicate"),
        ("commits", "transactions", "none", ExitCode.ANOMALY, "first aborted-read"),
        ("dies", "queue", "none", ExitCode.UNKNOWN, "were lost: the client has ended with exit code 3"),
        ("hangs", "queue", "none", ExitCode.UNKNOWN, "were lost: the client stands still"),
        ("garbage", "queue", "none", ExitCode.UNKNOWN, "were lost: the client wrote something else"),
        ("wrong-id", "queue", "none", ExitCode.UNKNOWN, "were lost: the client answers 999999"),
        ("none", "transactions", "kill", ExitCode.VALID, "VALID: no forbidden anomaly"),
    ],
)
def test_each_client_has_its_verdict(
    tmp_path: Path, kind: str, workload: str, nemesis: str, code: ExitCode, said: str
) -> None:
    ended, output = run(tmp_path, kind, workload, nemesis)
    assert ended == code, output
    assert said in output


@pytest.mark.sampled(48)
@pytest.mark.parametrize("after", [40, 10**9])
def test_a_client_that_stands_still_while_its_twin_works_is_told(tmp_path: Path, after: int) -> None:
    kind = f"starves {after} {tmp_path / 'first'}"
    short = ("--set", "recovery_deadline_s=10")
    ended, output = run(tmp_path, kind, "queue", "none", *short)
    if after == 40:
        assert ended == ExitCode.ANOMALY, output
        assert "ANOMALY: found stalled-client (1), which" in output
        assert "given nothing since, although they poll" in output
    else:
        assert ended == ExitCode.VALID, output


@pytest.mark.sampled(8)
def test_no_recording_starts_a_client(tmp_path: Path) -> None:
    """A recorded run names the kind of its clients, and no command; the person who repeats it does."""
    ended, output = run(tmp_path, "none", "queue", "none", "--set", "duration_s=1")
    assert ended == ExitCode.VALID, output
    folder = str((tmp_path / "latest").resolve())
    recorded = "".join(file.read_text(errors="replace") for file in Path(folder).glob("*.json*"))
    assert '"clients": "command"' in recorded
    assert "broken_client" not in recorded
    ended, output = inquest(tmp_path, "recording", "replay", folder, "--results", str(tmp_path))
    assert ended == ExitCode.USAGE
    assert "clients=command: name the program with --client, or in INQUEST_CLIENT" in output
