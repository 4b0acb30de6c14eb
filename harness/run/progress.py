"""What a person sees during a run: lasting lines, and one status line on a terminal."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.status import Status
from rich.text import Text

from core.op import Phase
from core.terminal import printable

PLAIN_S = 5.0
"""Without a terminal the status is printed as a line, at most this often."""


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
            self._status.update(Text(printable(text())))
        elif time.monotonic() - self._printed >= PLAIN_S:
            self._printed = time.monotonic()
            self.say(text())

    def close(self) -> None:
        """Take the status away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def silent() -> Display:
    """A display that shows nothing."""
    return Display(Console(quiet=True, force_terminal=False))
