"""A guard acts when it is released, and when the process that has it dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes import guard
from tests.processes import alive, state
from tests.waiting import until

DEADLINE_S = 60.0


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def sleeper(note: Path) -> list[str]:
    """A command that notes its process id and sleeps."""
    return ["/bin/sh", "-c", 'echo $$ > "$0.part"; mv "$0.part" "$0"; exec sleep 600', str(note)]


def noted(note: Path) -> int:
    until(note.exists, "the command does not run")
    return int(note.read_text())


def test_what_is_held_ends_with_the_release(note: Path) -> None:
    held = guard.hold(sleeper(note))
    pid = noted(note)
    assert alive(pid)
    for _ in range(2):
        held.release()
    assert held.ended == 128 + signal.SIGKILL
    assert not alive(pid)


def test_a_guard_ends_with_what_it_holds_and_has_its_exit_code() -> None:
    held = guard.hold(["/bin/sh", "-c", "exit $CODE"], {"CODE": "3"})
    until(lambda: held.ended is not None, "the guard outlives its command")
    assert held.ended == 3
    held.release()
    missing = guard.hold(["/nowhere/at-all"])
    until(lambda: missing.ended is not None, "the guard outlives its command")
    assert missing.ended == 127
    missing.release()


@pytest.fixture
def sleeping() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that sleeps; it ends with the test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_paused_process_continues_with_the_release(sleeping: "subprocess.Popen[bytes]") -> None:
    paused = guard.pause(sleeping.pid)
    assert state(sleeping.pid) == "T"
    paused.release()
    until(lambda: state(sleeping.pid) == "S", "it does not continue")


def test_a_process_that_is_gone_cannot_be_paused(sleeping: "subprocess.Popen[bytes]") -> None:
    sleeping.kill()
    sleeping.wait()
    with pytest.raises(ProcessLookupError, match=f"process {sleeping.pid} could not be stopped"):
        guard.pause(sleeping.pid)


OWNER = """
import sys, time
from harness.processes import guard
pid, *command = sys.argv[1:]
held, paused = guard.hold(command), guard.pause(int(pid))
print(held.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("also_the_guard", [False, True])
def test_both_act_when_their_owner_is_killed(
    note: Path, sleeping: "subprocess.Popen[bytes]", also_the_guard: bool
) -> None:
    """The process that is held ends even if the guard died before."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(sleeping.pid), *sleeper(note)], stdout=subprocess.PIPE
    ) as owner:
        try:
            assert owner.stdout is not None
            shell = int(owner.stdout.readline())
            held = noted(note)
            assert state(sleeping.pid) == "T"
            if also_the_guard:
                os.kill(shell, signal.SIGKILL)
            assert alive(held)
        finally:
            owner.kill()
    until(lambda: not alive(held), "what was held outlives its owner")
    until(lambda: state(sleeping.pid) == "S", "what was paused does not continue")


REMOVER = """
import sys, time
from pathlib import Path
from harness.processes import guard
held = guard.remove(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_folder_is_removed_when_its_owner_is_killed_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "copies of 'it'"
    folder.mkdir()
    (folder / "disk").write_text("x")
    with subprocess.Popen([sys.executable, "-c", REMOVER, str(folder)], stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            owner.stdout.readline()
            assert folder.exists()
        finally:
            owner.kill()
    until(lambda: not folder.exists(), "the folder outlives its owner")
    assert tmp_path.exists()


def test_a_folder_is_removed_with_the_release(tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    guard.remove(folder).release()
    assert not folder.exists()


def test_a_guard_acts_even_if_its_owner_died_before_reading_its_report(
    sleeping: "subprocess.Popen[bytes]",
) -> None:
    unread, report = os.pipe()
    os.close(unread)
    with subprocess.Popen(
        ["/bin/sh", "-c", guard.PAUSE, "sh", str(sleeping.pid)],
        stdin=subprocess.DEVNULL,
        stdout=report,
        stderr=subprocess.DEVNULL,
    ) as shell:
        os.close(report)
    assert shell.returncode == 0
    until(lambda: state(sleeping.pid) == "S", "it does not continue")


def test_a_group_is_killed_at_the_release_and_not_at_a_dismissal() -> None:
    for let_go, ends in ((guard.Guard.dismiss, False), (guard.Guard.release, True)):
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as held:
            try:
                it = guard.kill(held.pid)
                for _ in range(2):
                    let_go(it)
                assert it.ended is not None
                if ends:
                    assert held.wait(DEADLINE_S) == -signal.SIGKILL
                assert (held.poll() is not None) == ends
            finally:
                held.kill()


def test_what_is_behind_a_gate_begins_with_a_line_only(tmp_path: Path) -> None:
    for line, begins in ((b"", False), (b"\n", True)):
        made = tmp_path / str(begins)
        with subprocess.Popen([*guard.GATE, "touch", str(made)], stdin=subprocess.PIPE) as process:
            process.communicate(line)
        assert (process.returncode == 0, made.exists()) == (begins, begins)
