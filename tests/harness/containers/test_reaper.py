import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import ClusterError
from harness.containers import engine
from harness.containers import reaper as module
from harness.containers.reaper import reap, start_reaper
from harness.processes.reaper import Reaper

IMPATIENT = """
import sys
from harness.containers import reaper
reaper.DEADLINE_S = 1.0
sys.exit(reaper.main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


def reaper(copies: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "some-run", str(copies)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """A folder with the copy of a node's data."""
    folder = tmp_path / "copies"
    (folder / "1").mkdir(parents=True)
    return folder


def test_dismissed_it_ends_without_a_word(copies: Path) -> None:
    with reaper(copies) as process:
        _, err = process.communicate(b"done\n", timeout=30)
        assert err == b""
    assert process.returncode == 0
    assert copies.exists()


@pytest.mark.sampled(2)
def test_an_end_without_dismissal_makes_it_act(copies: Path) -> None:
    with reaper(copies) as process:
        _, err = process.communicate(b"", timeout=30)
    assert process.returncode == 1
    assert b"left behind by some-run: no Docker engine answers" in err
    assert not copies.exists()


def test_it_lives_in_its_own_session_and_dismissal_is_idempotent(tmp_path: Path) -> None:
    handle = start_reaper("some-run", tmp_path)
    assert os.getsid(handle.pid) == handle.pid != os.getsid(0)
    handle.dismiss()
    handle.dismiss()
    with pytest.raises(ProcessLookupError):
        os.kill(handle.pid, 0)


def test_dismissing_one_that_was_killed_is_no_error(tmp_path: Path) -> None:
    handle = start_reaper("some-run", tmp_path)
    os.kill(handle.pid, signal.SIGKILL)
    handle.dismiss()


def test_told_to_act_it_sees_an_end_without_dismissal() -> None:
    program = "import sys; sys.exit(sys.stdin.buffer.read() != b'')"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        Reaper(process).act()
        assert process.wait(30) == 0


class Rounds:
    """An engine that, round by round, fails to remove (text) and finds what is left (or fails)."""

    def __init__(self, *rounds: tuple[list[str], list[str] | ClusterError]) -> None:
        self.rounds = list(rounds)
        self.found: list[str] | ClusterError = []

    def clear(self, _run: str) -> list[str]:
        failed, self.found = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return failed

    def leftovers(self, _run: str) -> list[str]:
        if isinstance(self.found, ClusterError):
            raise self.found
        return self.found


def reaped(rounds: Rounds, monkeypatch: pytest.MonkeyPatch, deadline_s: float = 30.0) -> list[str]:
    monkeypatch.setattr(engine, "clear", rounds.clear)
    monkeypatch.setattr(engine, "leftovers", rounds.leftovers)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    monkeypatch.setattr(module, "DEADLINE_S", deadline_s)
    return reap("some-run")


def test_it_goes_on_while_the_engine_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(
        (["container 1: timed out"], ClusterError("the engine does not list")),
        (["container 1: timed out"], ["broker-1"]),
        ([], []),
        ([], ["a network that appeared late"]),
        ([], []),
    )
    assert reaped(rounds, monkeypatch) == []
    assert len(rounds.rounds) == 1


@pytest.mark.parametrize(
    ("failed", "found", "told"),
    [
        (["container 1: timed out"], ["broker-1"], ["container 1: timed out"]),
        ([], ["broker-1"], ["broker-1"]),
        ([], ClusterError("the engine does not list"), ["the engine does not list"]),
    ],
)
def test_what_is_left_at_the_deadline_is_told(
    failed: list[str], found: list[str] | ClusterError, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reaped(Rounds((failed, found)), monkeypatch, 0.05) == told
