"""Nights of soak in which neither runs nor clocks are real.

Not here: files of nights (`tests.nights`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.night import Begun, Log, Night, Outcome, Task, nights
from harness.soak.matrix import parse
from harness.soak.nightly import Soak
from harness.soak.opening import Wish, open_night, pick_up
from tests.nights import outcome

TEXT = """
workloads = ["queue", "transactions"]
nemeses = ["none", "kill"]
presets = ["safe"]
canary = "acks1"
[settings]
duration_s = 20
"""
MATRIX = parse(TEXT, "m.toml")
NOW = datetime(2026, 3, 1, 22, tzinfo=UTC)


def now() -> str:
    """The calendar before any run was made."""
    return NOW.isoformat(timespec="milliseconds")


@dataclass
class Fakes:
    """A clock that runs make go on and nothing else, and what runs come to. dies_at: the soak dies in this
    run. origin: what the monotonic clock says when the calendar says NOW."""

    results: Path
    comes_to: Callable[[Task], Outcome] = lambda _: outcome(seconds=60)
    dies_at: int = 0
    stops_at: int = 0
    origin: float = 1000.0
    now: float = 0.0
    made: list[Begun] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    indexes: int = 0

    def make(self, begun: Begun) -> Outcome:
        self.made.append(begun)
        if len(self.made) == self.dies_at:
            raise KeyboardInterrupt
        came = self.comes_to(begun.task)
        self.now += came.seconds
        return came

    def wall(self) -> str:
        return (NOW + timedelta(seconds=self.now)).isoformat(timespec="milliseconds")

    def rebuilt(self) -> None:
        self.indexes += 1

    def soak(self, wish: Wish) -> tuple[Soak, Log, bool]:
        _, log, night, resumed = open_night(wish, self.wall)
        soak = Soak(
            results=self.results, night=night, log=log, matrix=wish.matrix,
            command=lambda task: ["inquest", str(task.seed)], make=self.make,
            asked=lambda: 0 < self.stops_at <= len(self.made), clock=lambda: self.origin + self.now,
            wall=self.wall, say=self.said.append, rebuilt=self.rebuilt,
        )  # fmt: skip
        return soak, log, resumed

    def go(self, wish: Wish) -> int:
        """One call of `inquest soak`, which may die."""
        soak, log, resumed = self.soak(wish)
        try:
            if resumed:
                pick_up(soak, lambda number: self.results / str(number))
            earlier = [n for n in nights(self.results) if n.name < soak.night.name]
            return soak.run(earlier)
        finally:
            log.close()


def wish(results: Path, **more: object) -> Wish:
    values = {"results": results, "budget_s": 600.0, "matrix": MATRIX, "seed": 5} | more
    return Wish(**values)  # type: ignore[arg-type]


def whys(night: Night) -> list[str]:
    return [attempt.begun.task.why for attempt in night.attempts]
