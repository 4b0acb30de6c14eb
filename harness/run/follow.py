"""Looking at a run while it records: findings that are final already (docs/early.md).

A look reads all journals again and judges them in this process. Between two looks `Following` waits at least
ten times as long as the last one took, so that looking takes little of the machine from clients and nemesis.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import msgspec

from checkers.early import EarlyFinding, Identity, early_findings
from core.config import RunConfig
from harness.run.guide import Guide
from history import jsonl
from history.prefix import so_far
from history.run_folder import Run
from nemesis.types import PlannedFault

PAUSE_S: Final = 2.0
"""Shortest time between two looks."""
PAUSE_SHARE: Final = 10.0
"""How many times as long as the last look the next pause lasts."""

_PLANNED = msgspec.json.Decoder(PlannedFault)


@dataclass(slots=True)
class Follower:
    """Looks at the journals of a run that another program, or thread, is recording."""

    run: Run
    config: RunConfig
    _seen: set[Identity] = field(default_factory=set)

    def look(self) -> list[EarlyFinding]:
        """The final findings that no earlier look has shown. Raises: HistoryError, OSError."""
        if not self.run.events.exists():
            return []
        found = early_findings(so_far(self.run), self.config, power=self._power())
        fresh = [one for one in found if one.identity not in self._seen]
        self._seen.update(one.identity for one in fresh)
        return fresh

    def _power(self) -> bool:
        """Whether a loss of power is planned, or has come already."""
        planned: list[PlannedFault] = []
        if self.run.schedule.exists():
            planned = jsonl.decode(self.run.schedule.read_bytes(), _PLANNED, str(self.run.schedule))
        return any(step.family == "power" for step in planned)


class Following(Guide):
    """Looks at a run from a thread of its own, from `with` to the end of the block.

    said: takes a line for people.
    """

    def __init__(self, run: Run, config: RunConfig, said: Callable[[str], None]) -> None:
        self._follower, self._said = Follower(run, config), said
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._found = ""

    def found(self) -> str:
        """The first finding that nothing permits, in one sentence; "" = none so far."""
        return self._found

    def over(self, in_force: Sequence[str]) -> str:
        """See `Guide`: a finding ends the faults."""
        return f"on a finding: {self._found}" if self._found else ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        pause = PAUSE_S
        while not self._stop.wait(pause):
            begin = time.monotonic()
            try:
                forbidden = [one for one in self._follower.look() if not one.allowed]
            except Exception as error:  # noqa: BLE001 (the verdict at the end needs no look)
                self._said(f"--fail-fast has stopped looking: {error}")
                return
            if forbidden:
                self._found = f"{forbidden[0].identity[0]}: {forbidden[0].sentence}"
                return
            pause = max(PAUSE_S, PAUSE_SHARE * (time.monotonic() - begin))
