"""A judge as its parent, and as those who ask it, see it.

    with JudgeProcess(master) as judge:             # it gets warm in the background
        failed = judged(run, judge.socket, print)   # the verdict is in the folder
        indexed(results, judge.socket)              # and so is the index

A process that has the socket may ask: a soak gives it to its runs (`SOCKET`). Its parent starts a judge that
died again (`JudgeProcess.alive`); the process that had asked it judges.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from core import errors
from core.op import Phase
from core.programs import program
from core.terminal import say
from harness.judging.words import Answer, Done, Going, Index, JudgeError, JudgeRequest, Request
from harness.processes.child import end, start
from history.run_folder import Run

SOCKET: Final = "INQUEST_JUDGE"
"""Variable of runs: the socket of their soak's judge."""
FEW: Final = 2
"""Processors that a cluster under test needs for itself."""
NONE: Final = "no judge can be started ({}); each run is judged by its own command"
END_S: Final = 10.0
"""How long a judge may take to end."""


class JudgeProcess:
    """A judge. master: see `checkers.api.check`. Raises: OSError, where none can be started."""

    def __init__(self, master: str | None = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="inquest-judge-")  # of this user alone
        self._master = master
        self.socket = f"{self._folder}/socket"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _start(self) -> "subprocess.Popen[bytes]":
        Path(self.socket).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(self.socket)  # who asks before the judge has started waits, and learns if it dies
            listener.listen()
            master = [] if self._master is None else [self._master]
            command = program("harness.judging.main", str(listener.fileno()), *master)
            log = Path(self._folder, "log")
            return start(command, log=log, lines=False, pass_fds=(listener.fileno(),))

    @property
    def pid(self) -> int:
        """Process id; 0 = it died and could not be started again."""
        return 0 if self._process is None else self._process.pid

    def alive(self) -> None:
        """Start it again, if it has died. Where it cannot be started, one line says so, and who asks finds
        none until it can."""
        known = self._process is None
        if self._process is not None and self._process.poll() is None:
            return
        self._end()
        try:
            self._process = self._start()
        except OSError as error:
            if not known:
                say(NONE.format(error))

    def _end(self) -> None:
        """End it, and once what is left of its process group: a JVM that was starting does not end with its
        parent. Later its number may be another's."""
        process, self._process = self._process, None
        if process is not None:
            end(process, END_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End it, with its session."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "JudgeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def judge_if_any(master: str | None) -> JudgeProcess | None:
    """A judge. None, and a line that says why: none can be started; who makes a run judges it."""
    try:
        return JudgeProcess(master)
    except OSError as error:
        say(NONE.format(error))
        return None


class WarmJudge:
    """The judge of a command that makes runs: its soak's (`SOCKET`), or one of its own. That starts while the
    first run heals: then no fault is in force that a busy machine would change. (With more than two
    processors, while the faults are.)

    wanted: else there is none. master: see `checkers.api.check`.
    """

    def __init__(self, *, wanted: bool, master: str | None = None) -> None:
        self._given = os.environ.get(SOCKET, "") if wanted else ""
        self._wanted = wanted and not self._given
        self._master = master
        self._own: JudgeProcess | None = None

    @property
    def socket(self) -> str:
        """Where it listens; "" = there is none."""
        return self._given if self._own is None else self._own.socket

    def entered(self, phase: Phase) -> None:
        """A run has entered this phase."""
        begins = Phase.FAULTS if len(os.sched_getaffinity(0)) > FEW else Phase.HEAL
        if self._own is not None:
            self._own.alive()
        elif self._wanted and phase >= begins:
            self._own = judge_if_any(self._master)
            self._wanted = self._own is not None

    def __enter__(self) -> "WarmJudge":
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.end()


def judged(run: Run, where: str, tell: Callable[[str], None]) -> str | None:
    """Have the judge at this socket judge a run folder: why Spark could not be started, "" = it ran. None: no
    judge is there, or it died. tell: receives how far the work is, in words.

    Raises: what `checkers.api.check` raises.
    """
    answer = _asked(where, JudgeRequest(str(run.folder.absolute())), tell)
    if not isinstance(answer, JudgeError):
        return answer
    if answer.errno is not None:
        raise OSError(answer.errno, answer.why, answer.file)
    raise getattr(errors, answer.kind, OSError)(answer.why)


def indexed(results: Path, where: str) -> bool:
    """Have the judge at this socket make the index of a results folder; False: no judge is there, or it died.

    Raises: InquestError, with what kept it from that.
    """
    answer = _asked(where, Index(str(results.absolute())), lambda _: None)
    if isinstance(answer, JudgeError):
        raise errors.InquestError(answer.why)
    return answer is not None


def _asked(where: str, request: Request, tell: Callable[[str], None]) -> str | JudgeError | None:
    """`Done.spark_failed`, or what was refused; None: no judge is there, or it died."""
    refused: JudgeError | None = None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(where)
            connection.sendall(msgspec.json.encode(request) + b"\n")
            for line in connection.makefile("rb"):
                answer = msgspec.json.decode(line, type=Answer)
                match answer:
                    case Done():
                        return answer.spark_failed
                    case Going():
                        tell(answer.text)
                    case JudgeError():
                        refused = answer
    except OSError:
        return None
    return refused
