"""What does not answer, or stands still, ends no run in a wrong verdict and holds none up: in real time."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unanswered
from core.op import Phase
from core.systems import SYSTEMS
from harness.clients.worker_process import WorkerProcess
from harness.run import program
from history import events as ev
from tests.harness.run.test_program import KILL, of, phases, when
from tests.harness.run.worlds import RealWorld
from tests.memory.system import MEMORY

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealWorld:
    monkeypatch.setitem(SYSTEMS, "memory", MEMORY)
    return RealWorld(tmp_path)


def hang(world: RealWorld, *, told: str = "") -> threading.Event:
    """What runs the cluster does not answer where a node is to be started. told: what `trouble` says."""
    over = threading.Event()

    async def revive(_: Sequence[int]) -> None:
        over.wait(60)

    async def trouble() -> str:
        return told

    setattr(world.cluster, "revive", revive)  # noqa: B010 - methods of the instance alone
    setattr(world.cluster, "trouble", trouble)  # noqa: B010
    return over


def began(events: Sequence[ev.Event], phase: Phase) -> int:
    return next(e.ns for e in events if isinstance(e, ev.PhaseStarted) and e.phase is phase)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("told", ["", "the Docker engine does not answer"])
def test_a_heal_that_does_not_end_is_given_up_and_the_load_with_it(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    monkeypatch.setattr(program, "HEAL_S", 600.0 if told else 1.0)
    monkeypatch.setattr(program, "ASKED_S", 0.5)
    world.begin(**KILL)
    over = hang(world, told=told)
    try:
        events = world.run()
    finally:
        over.set()
    assert began(events, Phase.QUIESCE) - began(events, Phase.HEAL) < 20e9
    failed = of(events, ev.HealFailed)[-1]
    assert (failed.fault, told in failed.why) == (-1, True)
    assert [why for event in events if (why := ev.incomplete(event))]
    assert not of(events, ev.Recovered)
    assert phases(events)[-2:] == [Phase.QUIESCE, Phase.COLLECT]
    assert all(handle.ended is not None for handle in world.clients.handles)
    missing = [event.why for event in of(events, ev.EvidenceMissing)]
    assert missing == ([told] if told else [])


@pytest.mark.sampled(5)
def test_an_interrupt_ends_the_wait_for_a_heal(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "HEAL_S", 600.0)
    monkeypatch.setattr(program, "ASKED_S", 1.0)
    world.begin(**KILL)
    over = hang(world)
    world.on = when(Phase.HEAL, threading.Timer(0.5, world.interrupt).start)
    try:
        events = world.run()
    finally:
        over.set()
    assert began(events, Phase.QUIESCE) - began(events, Phase.HEAL) < 20e9
    assert of(events, ev.Interrupted)


@pytest.mark.sampled(19)
def test_one_call_that_is_not_answered_keeps_the_rest_from_being_tried(world: RealWorld) -> None:
    asked: list[str] = []

    def silent(name: str) -> Callable[[Any], Any]:
        async def verb(_: object) -> None:
            asked.append(name)
            raise Unanswered("the engine does not answer")

        return verb

    world.begin(nemesis="none")
    for name in ("resume", "mend", "revive"):
        setattr(world.cluster, name, silent(name))
    events = world.run()
    assert asked == ["resume"]
    assert "nothing more of the cluster was tried" in of(events, ev.HealFailed)[-1].why


def stop(world: RealWorld, slot: int) -> Callable[[], None]:
    """SIGSTOP, from outside."""

    def act() -> None:
        handle = world.clients.handles[slot]
        assert isinstance(handle, WorkerProcess)
        os.kill(handle.pid, signal.SIGSTOP)

    return act


@pytest.mark.sampled(10)
def test_a_client_that_does_not_stop_is_lost_and_the_run_ends_in_order(world: RealWorld) -> None:
    world.begin(verb_deadline_s=1)
    world.on = when(Phase.QUIESCE, stop(world, 1))
    events = world.run()
    (lost,) = of(events, ev.WorkerLost)
    assert (lost.slot, lost.status) == (1, None)
    assert "did not stop in time" in lost.why
    assert phases(events)[-2:] == [Phase.FINAL, Phase.COLLECT]


@pytest.mark.sampled(10)
def test_a_client_that_stands_still_is_not_blamed_on_the_cluster(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SILENT_S", 2.0)
    world.begin(nemesis="none", verb_deadline_s=1, recovery_deadline_s=5)
    world.on = when(Phase.HEAL, stop(world, 0))
    events = world.run()
    assert not of(events, ev.Recovered)
    notes = [note.text for note in of(events, ev.Note) if note.incomplete]
    assert notes == ["clients [0] stand still: they have not reported for 2 s"]
    assert of(events, ev.WorkerLost)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_client_that_crashes_breaks_the_run(world: RealWorld, number: signal.Signals) -> None:
    world.begin(nemesis="none", duration_s=60)

    def crash() -> None:
        handle = world.clients.handles[0]
        assert isinstance(handle, WorkerProcess)
        os.kill(handle.pid, number)

    world.on = when(Phase.FAULTS, crash)
    events = world.run()
    (lost,) = of(events, ev.WorkerLost)
    assert (lost.slot, lost.status) == (0, -number)
    assert [n.text for n in of(events, ev.Note) if n.incomplete] == [
        f"client 0 of the harness failed: ended by {number.name}"
    ]
