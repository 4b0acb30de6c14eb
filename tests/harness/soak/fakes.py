"""Soak sessions in which neither runs nor clocks are real."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.nights.session_log import PlannedRun, RunBegun, RunResult, SoakSession
from harness.processes.interrupts import Interrupts
from harness.soak.matrix import parse
from harness.soak.runs import Performer
from harness.soak.session import SessionUnderWay, SoakRequest, open_session
from tests.harness.nights.made_sessions import outcome

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


@dataclass
class FakeClock:
    """Only runs advance it. origin: what the monotonic clock says when the calendar says NOW."""

    now: float = 0.0
    origin: float = 1000.0


@dataclass
class Fakes(Performer):
    """Performs nothing. dies_at: the soak dies in this run. stops_at: a person stops it after this one."""

    results: Path
    comes_to: Callable[[PlannedRun], RunResult] = lambda _: outcome(seconds=60)
    dies_at: int = 0
    stops_at: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    made: list[RunBegun] = field(default_factory=list)
    indexes: int = 0
    interrupts: Interrupts = field(default_factory=Interrupts, kw_only=True)

    @property
    def stopped(self) -> bool:
        return 0 < self.stops_at <= len(self.made)

    def command(self, task: PlannedRun) -> list[str]:
        return ["inquest", str(task.seed)]

    def perform(self, session: SoakSession, begun: RunBegun) -> RunResult:
        self.made.append(begun)
        if len(self.made) == self.dies_at:
            raise KeyboardInterrupt
        came = self.comes_to(begun.task)
        self.clock.now += came.seconds
        return came

    def rebuild(self) -> None:
        self.indexes += 1

    def monotonic(self) -> float:
        return self.clock.origin + self.clock.now

    def moment(self) -> str:
        return (NOW + timedelta(seconds=self.clock.now)).isoformat(timespec="milliseconds")

    def open(self, wanted: SoakRequest) -> SessionUnderWay:
        return open_session(wanted, self)

    def go(self, wanted: SoakRequest) -> int:
        """One call of `inquest soak`, which may die."""
        under_way = self.open(wanted)
        try:
            return under_way.run()
        finally:
            under_way.file.close()


def request(results: Path, **more: object) -> SoakRequest:
    values = {"results": results, "budget_s": 600.0, "matrix": MATRIX, "seed": 5} | more
    return SoakRequest(**values)  # type: ignore[arg-type]


def whys(session: SoakSession) -> list[str]:
    return [attempt.begun.task.why for attempt in session.attempts]
