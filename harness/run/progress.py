"""What a person sees during a run: lasting lines, and one status line on a terminal."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status
from rich.text import Text

from core.op import Phase
from core.terminal import printable

PLAIN_S = 5.0
"""Without a terminal the status is printed as a line, at most this often."""
RATE_S = 5.0
"""Rates are those of this time before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """What the status line says. at_s: on the run's clock. seconds: of the phase so far; of_s: how long it
    lasts (`planned`) or may last at most, 0 = not known. acked, read: records; unknown: ops whose outcome is
    not known. faults: in force. brokers: answer, of `of_brokers`."""

    phase: str
    at_s: float
    seconds: float
    of_s: float
    planned: bool
    acked: int
    read: int
    unknown: int
    faults: Sequence[str]
    brokers: int
    of_brokers: int


@dataclass(slots=True)
class StatusLine:
    """Progress in one line, what matters most first: a narrow terminal shows its beginning."""

    _acked: deque[tuple[float, int]] = field(default_factory=deque)

    def text(self, now: RunProgress) -> str:
        """Phase, time, faults in force, brokers that answer, records by now and in a second."""
        limit = f"/{now.of_s:.0f} s" if now.planned else f" s, at most {now.of_s:.0f} s"
        parts = [
            f"{now.phase} {now.seconds:.0f}{limit if now.of_s else ' s'}",
            *now.faults,
            f"brokers {now.brokers}/{now.of_brokers}",
            f"acked {self._rate(now):.0f}/s, {short(now.acked)} in all",
            f"read {short(now.read)}",
        ]
        if now.unknown:
            parts.append(f"unknown {now.unknown}")
        return " · ".join(parts)

    def _rate(self, now: RunProgress) -> float:
        seen = self._acked
        while len(seen) > 1 and seen[1][0] <= now.at_s - RATE_S:
            seen.popleft()
        seen.append((now.at_s, now.acked))
        since, before = seen[0]
        return (now.acked - before) / (now.at_s - since) if now.at_s > since else 0.0


def short(count: int) -> str:
    """A number in three or four figures: `812`, `15.3 k`, `1.2 M`."""
    for unit, size in ((" M", 1_000_000), (" k", 1_000)):
        if count >= 10 * size or (size > 1_000 and count >= size):
            return f"{count / size:.1f}{unit}"
    return str(count)


class Display:
    """Lasting lines and a status. Rich on a terminal, plain lines elsewhere. entered: learns of phases."""

    def __init__(
        self, console: Console | None = None, entered: Callable[[Phase], None] = lambda _: None
    ) -> None:
        self.entered = entered
        self.console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._printed = 0.0

    def say(self, text: str) -> None:
        """A lasting line."""
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def status(self, text: str) -> None:
        """Replace the status."""
        self.refresh(lambda: text)

    def refresh(self, text: Callable[[], str]) -> None:
        """Replace the status, where it is time to."""
        if self.console.is_terminal:
            if self._status is None:
                self._status = self.console.status("")
                self._status.start()
            self._status.update(Text(printable(text()), no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._printed >= PLAIN_S:
            self._printed = time.monotonic()
            self.say(text())

    def close(self) -> None:
        """Take the status away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class SimulatedStatus(Display):
    """The status of a run in virtual time, on another display; its lasting lines are not shown."""

    def __init__(self, shown: Display) -> None:
        super().__init__(shown.console)
        self._shown = shown

    def say(self, text: str) -> None:
        """Nothing: what the program says of its cluster is about no machine."""

    def refresh(self, text: Callable[[], str]) -> None:
        """Seconds in it are those of the simulation."""
        self._shown.refresh(lambda: f"simulating {text()}")


def silent() -> Display:
    """A display that shows nothing."""
    return Display(Console(quiet=True, force_terminal=False))
