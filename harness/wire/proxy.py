"""The proxy as the harness holds it: a program before the brokers, the rules in it, and what they did."""

import contextlib
import itertools
import subprocess
import threading
from collections.abc import Callable, Sequence

import msgspec

from core.errors import ClusterError
from core.wire import Rule, Seen
from harness.wire.child import Child, boot, process
from harness.wire.proxy_main import Add, Command, Release, Remove, Route, Routes, Told
from harness.wire.proxy_main import __name__ as PROGRAM

START_S = 20.0
CALL_S = 5.0
END_S = 5.0


class WireProxy:
    """A running proxy. Its methods may be called from any thread."""

    def __init__(self, routes: Sequence[Route], child: Child | None = None) -> None:
        """Returns when it listens. child: the program, which runs; None = a process is started. Raises:
        ClusterError, and nothing is left."""
        self._changed = threading.Condition()
        self._seen: list[Seen] = []
        self._done = self._asked = 0
        self._error = ""
        self._numbers = itertools.count(1)
        self._added: list[int] = []
        self._process = child or process(PROGRAM)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._call(Routes(tuple(routes), boot()), START_S)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Of its process, on the machine that it runs on."""
        return self._process.pid

    def number(self) -> int:
        """A number that no rule of this proxy has had."""
        return next(self._numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of all rules that were put in force."""
        return tuple(self._added)

    def add(self, rule: Rule) -> None:
        """Put a rule in force. Raises: ClusterError."""
        self._added.append(rule.number)
        self._call(Add(rule))

    def release(self, number: int) -> None:
        """Let go what a rule holds. Raises: ClusterError."""
        self._call(Release(number))

    def remove(self, number: int) -> None:
        """Take a rule back, and let go what it holds. Raises: ClusterError."""
        self._call(Remove(number))

    def seen(self, number: int | None = None, what: str = "") -> list[Seen]:
        """What a rule did so far, or all of them; all of it or of one kind."""
        with self._changed:
            return [one for one in self._seen if number in (None, one.rule) and what in ("", one.what)]

    def wait(self, number: int, what: str, seconds: float) -> Seen | None:
        """The first thing of a kind that a rule did; None, where it did none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.seen(number, what) or self.trouble(), seconds)
            return next(iter(self.seen(number, what)), None)

    def trouble(self) -> str:
        """Why it no longer works; "" = it does."""
        if self._error:
            return self._error
        ended = self._process.poll()
        return "" if ended is None else f"the proxy of the wire has ended with exit code {ended}"

    def stop(self) -> None:
        """End it; idempotent, never raises."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # of an engine that answers no more
                self._process.wait(END_S)
        self._reader.join(END_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _call(self, command: Command, seconds: float = CALL_S) -> None:
        """Have a command carried out. Raises: ClusterError."""
        assert self._process.stdin is not None
        with self._changed:
            self._asked += 1
            number = self._asked
            try:
                self._process.stdin.write(msgspec.json.encode(command) + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:
                raise ClusterError(self.trouble() or f"the proxy of the wire: {error}") from error
            self._changed.wait_for(lambda: self._done >= number or self.trouble(), seconds)
            if self._done < number:
                raise ClusterError(
                    self.trouble() or f"the proxy of the wire did not answer within {seconds:g} s"
                )

    def _read(self) -> None:
        """Take in what it tells, until it ends."""
        assert self._process.stdout is not None
        decode: Callable[[bytes], Told] = msgspec.json.Decoder(Told).decode
        for line in self._process.stdout:
            told = decode(line)
            with self._changed:
                if told.seen is not None:
                    self._seen.append(told.seen)
                self._done = max(self._done, told.done)
                self._error = self._error or told.error
                self._changed.notify_all()
        self._process.wait()
        with self._changed:
            self._changed.notify_all()
