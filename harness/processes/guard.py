"""A guard: a shell that acts for this process as soon as this process has ended, by whatever death.

The guard waits on its stdin, a pipe that only this process holds open: the kernel closes it even after
a SIGKILL. It runs in a session of its own, where no Ctrl-C reaches it.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

END_S = 10.0
"""How long a guard may take to end after its release."""
STOP_S = 2.0
"""How long the kernel may take to stop the threads of a process."""
BEGAN = 19
"""Where a process's stat says when it began, counted behind its name."""

HOLD = """
exec 3<&0
"$@" 3<&- </dev/null >/dev/null 2>&1 & held=$!
{ read -r _ <&3; kill -KILL $held; } & watch=$!
wait $held; code=$?
kill $watch
exit $code
"""
PAUSE = 'trap "" PIPE; kill -s STOP -- "$1" || exit 1; echo stopped; read -r _; kill -s CONT -- "$1"'
"""It must outlive a harness that dies before it reads what the guard reports."""
REMOVE = 'read -r _; rm -rf -- "$1"'
KILL = 'read -r _; kill -s KILL -- "-$1"'
GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""Before a command: it begins as soon as it gets a line, and not at all if the harness dies before."""


class Guard:
    """A running guard, made by `hold`, `kill`, `pause` or `remove`."""

    def __init__(
        self, script: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Raises: OSError, where no shell can be started."""
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Process id of the guard, and of its process group."""
        return self._shell.pid

    @property
    def ended(self) -> int | None:
        """Exit code of a guard that has ended; None while it runs."""
        return self._shell.poll()

    def reports(self) -> bool:
        """Whether the guard has done the first half of its work; waits for that."""
        assert self._shell.stdout is not None
        return bool(self._shell.stdout.readline())

    def release(self) -> None:
        """Let it do the second half of its work now, and end; idempotent."""
        self._close()
        try:
            self._shell.wait(END_S)
        except subprocess.TimeoutExpired:
            self.dismiss()

    def dismiss(self) -> None:
        """End it without the second half of its work; idempotent."""
        if self.ended is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._shell.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def hold(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Guard:
    """Run a command until the guard is released or this process ends; then it gets SIGKILL.

    Its output is discarded. The guard ends with it, and has its exit code (128 + signal for one that
    died by a signal, 127 for one that is not there). environment: added to that of this process.
    """
    return Guard(HOLD, command, environment)


def remove(folder: Path) -> Guard:
    """Remove a folder when the guard is released or this process ends. Raises: OSError."""
    return Guard(REMOVE, [str(folder.resolve())])


def kill(group: int) -> Guard:
    """SIGKILL to a process group when the guard is released or this process ends. Raises: OSError."""
    return Guard(KILL, [str(group)])


def pause(pid: int) -> Guard:
    """SIGSTOP to a process, and to its group where it leads one; SIGCONT when the guard is released or this
    process ends.

    Returns when all threads have stopped: the kernel stops them some time after it took the signal.

    Raises: ProcessLookupError, where there is no such process; TimeoutError, where it does not stop; OSError.
    """
    target = _target(pid)
    guard = Guard(PAUSE, [str(target)])
    try:
        if not guard.reports():
            raise ProcessLookupError(f"process {pid} could not be stopped: it is gone")
        deadline = time.monotonic() + STOP_S
        while not (stopped(pid) and all(stopped(member) for member in members(pid))):
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {pid} still runs {STOP_S:g} s after SIGSTOP")
            time.sleep(0.001)
    except BaseException:
        guard.release()
        raise
    return guard


def signal_to(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, and to its group where it leads one; no-op where it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(_target(pid), number)


def _target(pid: int) -> int:
    """What `kill` is given: a negative number means a group."""
    try:
        return -pid if os.getpgid(pid) == pid else pid
    except ProcessLookupError:
        return pid


def members(leader: int) -> list[int]:
    """The other processes of the group that a process leads, but those that have ended, the oldest first;
    none where it leads none."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if name.isdecimal() and int(name) != leader and os.getpgid(int(name)) == leader:
                began = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[BEGAN])
                found.append((began, int(name)))
    return [pid for _, pid in sorted(found) if not ended(pid)]


def ended(pid: int) -> bool:
    """Whether all threads of a process have ended, awaited or not."""
    states = _states(pid)
    return states is not None and all(state in "ZX" for state in states)


def stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped, or the process has ended.

    Raises: ProcessLookupError, where there is no such process.
    """
    states = _states(pid)
    if states is None:
        return False
    if not states:
        raise ProcessLookupError(f"process {pid} could not be stopped: it is gone")
    return all(state in "TtZX" for state in states)


def _states(pid: int) -> list[str] | None:
    """Of the threads of a process, in the kernel's letters; none of one that is gone; None = a thread ended
    meanwhile: look again."""
    try:
        return [
            stat.read_text().rpartition(")")[2].split()[0]
            for stat in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except (FileNotFoundError, ProcessLookupError):
        return None
