import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.reaper import start_reaper


@pytest.fixture(autouse=True)
def _no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


def reaper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cluster.reaper", "some-run"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_dismissed_it_ends_without_a_word() -> None:
    with reaper() as process:
        _, err = process.communicate(b"done\n", timeout=30)
        assert err == b""
    assert process.returncode == 0


def test_an_end_without_dismissal_makes_it_act() -> None:
    with reaper() as process:
        _, err = process.communicate(b"", timeout=30)
    assert process.returncode == 1
    assert b"left behind by some-run: no Docker engine answers" in err


def test_it_lives_in_its_own_session_and_dismissal_is_idempotent() -> None:
    handle = start_reaper("some-run")
    assert os.getsid(handle.pid) == handle.pid != os.getsid(0)
    handle.dismiss()
    handle.dismiss()
    with pytest.raises(ProcessLookupError):
        os.kill(handle.pid, 0)


def test_dismissing_one_that_was_killed_is_no_error() -> None:
    handle = start_reaper("some-run")
    os.kill(handle.pid, signal.SIGKILL)
    handle.dismiss()
