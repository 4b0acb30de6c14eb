"""A program that the harness holds by its standard input and output: a process of this machine, or one in a
container (`harness.containers.sidecar`). It ends with its standard input, so none outlives the harness.

    child = Child(start(program("harness.wire.proxy_main")), "the proxy", ProxyLine, self._hear)
    child.call(Add(rule), 5.0)     # returns when the program has carried it out

Commands go in and lines come out, one JSON object each. What the program does about it: `parent`.
"""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Generic, Protocol, TypeVar

import msgspec

from core.errors import ClusterError
from core.programs import environment
from harness.processes import guard

JOIN_S: Final = 5.0
"""How long the last lines of a program that has ended may take."""
TAIL_BYTES: Final = 16_384


class Program(Protocol):
    """A running program, as `subprocess.Popen` has it."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    @property
    def pid(self) -> int:
        """Its process, as the machine that it runs on numbers it."""

    def poll(self) -> int | None:
        """Exit code (negative: signal); None = it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Exit code, once it has ended. Raises: subprocess.TimeoutExpired."""

    def kill(self) -> None:
        """End it at once."""


class ChildLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a program's standard output; programs add fields of their subject."""

    done: int = 0
    """How many commands it has carried out since it started."""
    error: str = ""
    """Why it cannot do its work."""


class CountedLine(Protocol):
    """What `Child` reads of a line: see `ChildLine`."""

    @property
    def done(self) -> int:
        """How many commands are carried out."""

    @property
    def error(self) -> str:
        """Why the program cannot do its work."""


L = TypeVar("L", bound=CountedLine)


def start(
    command: Sequence[str],
    *,
    log: Path | None = None,
    lines: bool = True,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    own_session: bool = True,
) -> "subprocess.Popen[bytes]":
    """Start a process in a session of its own, where no Ctrl-C reaches it.

    log: its standard error is appended to it; None = it is that of this process. lines: standard output
    brings lines; else it goes to the log, and nowhere without one. pass_fds: it inherits them. env: None =
    that of a program of this code. own_session: False = it stays in the group of this process, and is paused
    and killed with it.

    Raises: OSError.
    """
    with contextlib.ExitStack() as stack:
        errors = None if log is None else stack.enter_context(log.open("ab"))
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if lines else errors or subprocess.DEVNULL,
            stderr=errors,
            start_new_session=own_session,
            pass_fds=pass_fds,
            env=environment() if env is None else env,
        )


def end(program: Program, seconds: float) -> None:
    """End the input of a program, and the program itself where it has not ended after this time; idempotent,
    never raises."""
    end_input(program)
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # of an engine that answers no more
            program.wait(seconds)


def end_input(program: Program) -> None:
    """End the input of a program; idempotent, never raises."""
    assert program.stdin is not None
    with contextlib.suppress(OSError):
        program.stdin.close()


def tail(log: Path) -> str:
    """The end of a log; "" where there is none; where it cannot be read, the reason."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return str(error)


class Child(Generic[L]):
    """A running program and its lines. Its methods may be called from any thread."""

    def __init__(self, program: Program, name: str, kind: type[L], hear: Callable[[L], None]) -> None:
        """name: in sentences. kind: of its lines. hear: takes each line, before those who wait look."""
        self._program, self._name = program, name
        self._changed, self._sending = threading.Condition(), threading.Lock()
        self._commands = self._done = 0
        self._error = ""
        self._paused: guard.Guard | None = None
        decode = msgspec.json.Decoder(kind).decode
        self._reader = threading.Thread(target=self._read, args=(decode, hear), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process, on the machine that it runs on."""
        return self._program.pid

    @property
    def ended(self) -> int | None:
        """Exit code (negative: signal), None while it runs."""
        return self._program.poll()

    @property
    def error(self) -> str:
        """Why it cannot do its work, as it said; "" = it said nothing."""
        return self._error

    @property
    def paused(self) -> guard.Guard | None:
        """Who continues it if the harness dies; None = it is not paused."""
        return self._paused

    def trouble(self) -> str:
        """Why it no longer works; "" = it does."""
        if self._error:
            return self._error
        ended = self.ended
        return "" if ended is None else f"{self._name} has ended with exit code {ended}"

    def tell(self, command: msgspec.Struct) -> int:
        """Send a command; its number, counted from 1. No error where the program has ended."""
        assert self._program.stdin is not None
        with self._sending:
            self._commands += 1
            with contextlib.suppress(OSError, ValueError):  # its pipe is broken, or closed
                self._program.stdin.write(msgspec.json.encode(command) + b"\n")
                self._program.stdin.flush()
            return self._commands

    def call(self, command: msgspec.Struct, seconds: float) -> None:
        """Have a command carried out. Raises: ClusterError, where it is not in time."""
        number = self.tell(command)
        if not self.until(lambda: self._done >= number, seconds):
            raise ClusterError(self.trouble() or f"{self._name} did not answer within {seconds:g} s")

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until lines have made a condition true; false, where they did not in time or never will."""
        with self._changed:
            self._changed.wait_for(lambda: condition() or self.trouble(), seconds)
            return condition()

    def pause(self) -> None:
        """SIGSTOP to a process of this machine, and to its group; both continue when the harness dies. No-op
        where it is paused.

        Returns when it stands still. Raises: OSError, where it has ended, or its guard cannot be started.
        """
        if self._paused is None:
            self._paused = guard.pause(self.pid)

    def resume(self) -> None:
        """SIGCONT. No-op where it is not paused, or has ended."""
        held, self._paused = self._paused, None
        if held is not None:
            self.signal(signal.SIGCONT)  # even if the guard was killed
            held.release()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to a process of this machine, and to its group; no-op where it has ended."""
        if self.ended is None:
            guard.signal_to(self.pid, number)

    def strike(self) -> None:
        """SIGKILL, without waiting. A handler of signals must not wait: the code that it interrupted may hold
        the lock of `Popen.poll`."""
        self._program.kill()

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for its end: its exit code, None = it runs after this time. No lines come after it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._program.wait(seconds)
            self._reader.join(JOIN_S)
            return code
        return None

    def close(self) -> None:
        """Wait for its end, and release its pipes and its guard; idempotent."""
        self.wait()
        self.resume()
        end_input(self._program)

    def end_input(self) -> None:
        """End its input: it does what is left to do, and ends; idempotent."""
        end_input(self._program)

    def end(self, seconds: float) -> None:
        """End it, by force after this time; idempotent, never raises."""
        end(self._program, seconds)
        self._reader.join(JOIN_S)

    def _read(self, decode: Callable[[bytes], L], hear: Callable[[L], None]) -> None:
        """Take in what it says, until it ends."""
        assert self._program.stdout is not None
        with self._program.stdout as output:
            for text in output:
                with self._changed:
                    self._take(text, decode, hear)
                    self._changed.notify_all()
        self._program.wait()
        with self._changed:
            self._changed.notify_all()

    def _take(self, text: bytes, decode: Callable[[bytes], L], hear: Callable[[L], None]) -> None:
        try:
            line = decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if text.endswith(b"\n"):  # else it was cut off by the program's death
                why = f"{self._name} wrote something else than a line: {text[:80]!r} ({str(error)[:200]!r})"
                self._error = self._error or why
            return
        hear(line)
        self._done = max(self._done, line.done)
        self._error = self._error or line.error
