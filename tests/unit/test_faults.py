"""Executing a plan: faults are held as long as planned, failures are told, healing always happens."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import events as ev
from harness.cluster import Roles
from harness.faults import FaultThread
from harness.recorder import Recorder
from harness.session import Clock


@dataclass(frozen=True)
class Step:
    fault: int
    at_s: float
    hold_s: float
    name: str = "test:one@random"


@dataclass(frozen=True)
class Injected:
    step: Step
    nodes: tuple[int, ...] = (1,)
    text: str = "node 1 was hit"
    colour: str = "#000000"
    slots: tuple[int, ...] = (4,)


@dataclass
class Nemesis:
    steps: list[Step]
    fail: Callable[[str, int], None] = lambda _verb, _fault: None
    done: list[tuple[str, int]] = field(default_factory=list)
    takes_s: float = 0.0
    """How long putting a fault in force takes, in stages of 10 ms."""
    stages: int = 0

    def stage(
        self, cluster: Any, clients: Any, clock: Clock, stopping: Callable[[], bool]
    ) -> tuple[Clock, Callable[[], bool]]:
        return clock, stopping

    async def inject(self, stage: Any, step: Step, roles: Roles) -> Injected:
        self.fail("inject", step.fault)
        clock, stopping = stage
        while self.stages < self.takes_s / 0.01 and not stopping():
            self.stages += 1
            await clock.sleep(0.01)
        self.done.append(("inject", step.fault))
        return Injected(step)

    async def heal(self, stage: Any, injected: Injected) -> None:
        self.fail("heal", injected.step.fault)
        self.done.append(("heal", injected.step.fault))

    async def heal_all(self, stage: Any) -> None:
        self.fail("heal_all", -1)
        self.done.append(("heal_all", -1))


class Slow:
    """A cluster that takes its time to say who leads."""

    async def roles(self) -> Roles:
        time.sleep(0.2)
        return Roles(ns=0)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "events.jsonl")


def execute(nemesis: Nemesis, recorder: Recorder, length_s: float = 5.0) -> str:
    nobody: Any = None
    cluster: Any = Slow()
    thread = FaultThread(nemesis, cluster, nobody, recorder, length_s)
    thread.start()
    deadline = time.monotonic() + 10
    while not thread.done and time.monotonic() < deadline:
        time.sleep(0.01)
    thread.stop()
    return thread.heal_all()


def events(tmp_path: Path) -> list[ev.Event]:
    return ev.decode((tmp_path / "events.jsonl").read_bytes())


def test_a_fault_is_held_from_when_it_is_in_force(recorder: Recorder, tmp_path: Path) -> None:
    execute(Nemesis([Step(0, 0.0, 0.1)]), recorder)
    started, healed = events(tmp_path)
    assert isinstance(started, ev.FaultStarted)
    assert isinstance(healed, ev.FaultHealed)
    assert healed.begin_ns - started.ns >= 0.09e9
    assert started.ns - started.begin_ns >= 0.2e9
    assert (started.nodes, started.slots) == ((1,), (4,))


def test_a_fault_of_many_stages_leaves_off_when_the_phase_ends(
    recorder: Recorder, tmp_path: Path
) -> None:
    nobody: Any = None
    cluster: Any = Slow()
    nemesis = Nemesis([Step(0, 0.0, 1.0)], takes_s=60.0)
    thread = FaultThread(nemesis, cluster, nobody, recorder, 5.0)
    thread.start()
    deadline = time.monotonic() + 10
    while nemesis.stages < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    begin = time.monotonic()
    thread.stop()
    assert time.monotonic() - begin < 5
    assert 3 <= nemesis.stages < 1000
    assert thread.heal_all() == ""
    assert [type(event) for event in events(tmp_path)] == [ev.FaultStarted, ev.FaultHealed]


def test_a_sleep_of_a_fault_ends_at_once_when_it_is_to_leave_off(recorder: Recorder) -> None:
    class Sleeper(Nemesis):
        async def inject(self, stage: Any, step: Step, roles: Roles) -> Injected:
            self.stages = 1
            await stage[0].sleep(60.0)
            return await super().inject(stage, step, roles)

    nobody: Any = None
    cluster: Any = Slow()
    nemesis = Sleeper([Step(0, 0.0, 1.0)])
    thread = FaultThread(nemesis, cluster, nobody, recorder, 5.0)
    thread.start()
    deadline = time.monotonic() + 10
    while not nemesis.stages and time.monotonic() < deadline:
        time.sleep(0.01)
    begin = time.monotonic()
    thread.stop()
    assert time.monotonic() - begin < 5


def test_a_fault_never_outlasts_the_phase(recorder: Recorder, tmp_path: Path) -> None:
    begin = time.monotonic()
    execute(Nemesis([Step(0, 0.0, 60.0)]), recorder, length_s=0.5)
    assert time.monotonic() - begin < 5
    assert isinstance(events(tmp_path)[-1], ev.FaultHealed)


def test_a_fault_that_finds_no_target_is_told_and_the_plan_goes_on(
    recorder: Recorder, tmp_path: Path
) -> None:
    def fail(verb: str, fault: int) -> None:
        if (verb, fault) == ("inject", 0):
            raise LookupError("no leader")

    nemesis = Nemesis([Step(0, 0.0, 0.1), Step(1, 0.1, 0.1)], fail)
    assert execute(nemesis, recorder) == ""
    first = events(tmp_path)[0]
    assert isinstance(first, ev.FaultFailed)
    assert "no leader" in first.why
    assert nemesis.done == [("inject", 1), ("heal", 1), ("heal_all", -1)]


def test_what_could_not_be_taken_back_of_a_fault_that_failed_is_on_record(
    recorder: Recorder, tmp_path: Path
) -> None:
    def fail(verb: str, _fault: int) -> None:
        if verb == "inject":
            error = OSError("kill of 3 failed")
            error.add_note("taking back what had been done failed: node 1 is down")
            raise error

    execute(Nemesis([Step(0, 0.0, 0.1)], fail), recorder)
    (failed,) = events(tmp_path)
    assert isinstance(failed, ev.FaultFailed)
    assert failed.why == (
        "OSError: kill of 3 failed; taking back what had been done failed: node 1 is down"
    )


def test_a_fault_that_could_not_be_healed_stays_in_force_until_heal_all(
    recorder: Recorder, tmp_path: Path
) -> None:
    def fail(verb: str, _fault: int) -> None:
        if verb == "heal":
            raise OSError("stuck")

    assert execute(Nemesis([Step(0, 0.0, 0.1)], fail), recorder) == ""
    kinds = [type(event) for event in events(tmp_path)]
    assert kinds == [ev.FaultStarted, ev.Note, ev.Note, ev.FaultHealed]


def test_what_cannot_be_healed_at_all_is_said(recorder: Recorder) -> None:
    def fail(verb: str, _fault: int) -> None:
        if verb != "inject":
            raise OSError("stuck")

    assert "stuck" in execute(Nemesis([Step(0, 0.0, 0.1)], fail), recorder)


def test_a_family_never_overlaps_itself_also_where_a_fault_came_late(recorder: Recorder) -> None:
    steps = [
        Step(0, 0.0, 0.3, "one:a@random"),
        Step(1, 0.25, 0.1, "one:b@random"),  # while 0 is in force, because that took 0.2 s to make
        Step(2, 0.25, 0.1, "other:a@random"),
    ]
    nemesis = Nemesis(steps, takes_s=0.2)
    assert execute(nemesis, recorder) == ""
    at = {what: n for n, what in enumerate(nemesis.done)}
    assert at["heal", 0] < at["inject", 1] < at["heal", 1]
    assert at["inject", 0] < at["inject", 2] < at["heal", 0]
