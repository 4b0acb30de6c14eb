"""The proxy as the harness holds it: a program before the brokers, the rules in it, and what they did."""

import itertools
from collections.abc import Sequence

from core.errors import ClusterError
from core.programs import program
from core.wire import Seen, WireRule
from harness.processes.child import Child, Program, start
from harness.processes.clocks import boot
from harness.wire.proxy_main import Add, Lose, ProxyLine, ProxyRoute, Release, Remove, Routes
from harness.wire.proxy_main import __name__ as PROGRAM

NAME = "the proxy of the wire"
START_S = 20.0
CALL_S = 5.0
END_S = 5.0


class WireProxy:
    """A running proxy. Its methods may be called from any thread."""

    def __init__(self, routes: Sequence[ProxyRoute], running: Program | None = None) -> None:
        """Returns when it listens. running: its program; None = a process is started. Raises: ClusterError,
        and nothing is left."""
        self._seen: list[Seen] = []
        self._numbers = itertools.count(1)
        self._added: list[int] = []
        try:
            running = running or start(program(PROGRAM))
        except OSError as error:
            raise ClusterError(f"{NAME} was not started: {error}") from error
        self._child = Child(running, NAME, ProxyLine, self._hear)
        try:
            self._child.call(Routes(tuple(routes), boot()), START_S)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Of its process, on the machine that it runs on."""
        return self._child.pid

    def number(self) -> int:
        """A number that no rule of this proxy has had."""
        return next(self._numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of all rules that were put in force."""
        return tuple(self._added)

    def add(self, rule: WireRule) -> None:
        """Put a rule in force. Raises: ClusterError."""
        self._added.append(rule.number)
        self._child.call(Add(rule), CALL_S)

    def release(self, number: int) -> None:
        """Let go what a rule holds. Raises: ClusterError."""
        self._child.call(Release(number), CALL_S)

    def lose(self, number: int) -> None:
        """What a rule holds never arrives: its connections break. Raises: ClusterError."""
        self._child.call(Lose(number), CALL_S)

    def remove(self, number: int) -> None:
        """Take a rule back, and let go what it holds. Raises: ClusterError."""
        self._child.call(Remove(number), CALL_S)

    def seen(self, number: int | None = None, what: str = "") -> list[Seen]:
        """What a rule did so far, or all of them; all of it or of one kind."""
        return [one for one in self._seen if number in (None, one.rule) and what in ("", one.what)]

    def wait(self, number: int, what: str, seconds: float) -> Seen | None:
        """The first thing of a kind that a rule did; None, where it did none in time."""
        self._child.until(lambda: bool(self.seen(number, what)), seconds)
        return next(iter(self.seen(number, what)), None)

    def trouble(self) -> str:
        """Why it no longer works; "" = it does."""
        return self._child.trouble()

    def stop(self) -> None:
        """End it; idempotent, never raises."""
        self._child.end(END_S)

    def _hear(self, line: ProxyLine) -> None:
        if line.seen is not None:
            self._seen.append(line.seen)
