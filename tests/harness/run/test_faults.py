"""Executing a plan: faults are held as long as planned, failures are recorded, healing always happens.

The nemeses are real, the cluster only notes what they do to it; each test runs in real and in virtual time.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from core.cluster import Cluster, Roles
from core.load_clients import Clients
from core.runtime import Runtime
from harness.run.faults import Faults, _part
from history import events as ev
from nemesis.registry import NEMESES
from nemesis.types import AimedFault, Environment, NoEffect, NoTarget, PlannedFault, WorkloadNames
from tests.harness.run.worlds import RealTime, VirtualTime

Time = RealTime | VirtualTime
Fail = Callable[[str], None]


def step(
    fault: int, at_s: float, hold_s: float, name: str = "kill:one@random", seed: int = 1
) -> PlannedFault:
    family, _, rest = name.partition(":")
    kind, _, target = rest.partition("@")
    return PlannedFault(
        fault=fault, name=name, family=family, kind=kind, target=target, at_s=at_s, hold_s=hold_s, seed=seed
    )


class Noting:
    """Cluster and clients in one: three brokers, which can be killed, paused and revived.

    roles_s: how long it takes to say who leads. kill_s: how long killing takes. fail: called with each verb.
    """

    nodes = (1, 2, 3)
    brokers = (1, 2, 3)
    slots = ()

    def __init__(
        self, runtime: Runtime, *, roles_s: float = 0.2, kill_s: float = 0.0, fail: Fail = lambda _: None
    ) -> None:
        self.runtime = runtime
        self.roles_s = roles_s
        self.kill_s = kill_s
        self.fail = fail
        self.done: list[str] = []
        self.stopping: Callable[[], bool] = lambda: False
        self.controller = -1
        self.asked: Callable[[], object] = lambda: None

    async def roles(self) -> Roles:
        await self.runtime.until(lambda: False, self.roles_s)
        self.asked()
        return Roles(ns=0, answering=self.brokers, agreed=True, controller=self.controller)

    async def _do(self, verb: str, seconds: float = 0.0) -> None:
        self.fail(verb)
        if seconds:
            await self.runtime.until(self.stopping, seconds)
        self.done.append(verb)

    async def kill(self, nodes: Sequence[int]) -> None:
        await self._do("kill", self.kill_s)

    async def revive(self, nodes: Sequence[int]) -> None:
        await self._do("revive")

    async def pause(self, nodes: Sequence[int]) -> None:
        await self._do("pause")

    async def resume(self, nodes: Sequence[int]) -> None:
        await self._do("resume")

    async def restart(self, slots: Sequence[int]) -> None:
        """There are no clients."""


class Execution:
    """A plan under way."""

    def __init__(
        self,
        time_: Time,
        steps: list[PlannedFault],
        length_s: float = 5.0,
        *,
        serves: Callable[[], bool] = lambda: True,
        **cluster: Any,
    ) -> None:
        self.serves = serves
        self.runtime = time_.runtime
        self.wait = time_.wait
        self.events: list[ev.Event] = []
        self.cluster = Noting(self.runtime, **cluster)
        self.stop = self.runtime.signal()
        self.cluster.stopping = self.stop.is_set
        environment = Environment(
            cluster=cast("Cluster", self.cluster),
            clients=cast("Clients", self.cluster),
            clock=self.runtime.clock(self.stop),
            stopping=self.stop.is_set,
            healing_clock=self.runtime.clock(self.runtime.signal()),
        )
        self.begin = self.runtime.now_ns()
        self.acked_ns = 0
        self.faults = Faults(
            steps, WorkloadNames(), environment, self.events.append, self._acknowledged, length_s
        )
        self.task = self.runtime.spawn("faults", self.faults.run())

    def _acknowledged(self) -> int:
        """When a record was last acknowledged: now, while the cluster serves."""
        if self.serves():
            self.acked_ns = self.runtime.now_ns()
        return self.acked_ns

    def until(self, condition: Callable[[], bool]) -> None:
        assert self.wait(self.runtime.until(condition, 20))

    def end(self) -> str:
        """Once the plan has ended: heal everything; what could not be healed."""
        self.wait(self.task.join())
        return self.wait(self.faults.heal_all())

    def broken_off(self) -> tuple[str, float]:
        """Stop now; what could not be healed, and the seconds that it took."""
        begin = self.runtime.now_ns()
        self.stop.set()
        unhealed = self.end()
        return unhealed, (self.runtime.now_ns() - begin) / 1e9

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def failing(*verbs: str, times: int = 1000) -> Fail:
    """These verbs fail, so many times in all."""
    left = [times]

    def fail(verb: str) -> None:
        if verb in verbs and left[0]:
            left[0] -= 1
            raise OSError(f"{verb} is stuck")

    return fail


def test_a_fault_is_held_from_when_it_is_in_force(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 0.1)])
    assert run.end() == ""
    started, healed = run.events
    assert isinstance(started, ev.FaultStarted)
    assert isinstance(healed, ev.FaultHealed)
    assert healed.begin_ns - started.ns >= 0.09e9
    assert started.ns - started.begin_ns >= 0.2e9  # finding its target took that long
    assert (started.name, started.colour) == ("kill:one@random", NEMESES["kill"].colour)
    assert len(started.nodes) == 1
    assert "was killed" in started.text
    assert run.faults.in_force == ()


def test_a_fault_that_takes_long_leaves_off_when_the_phase_ends(time_: Time) -> None:
    begun: list[str] = []
    run = Execution(time_, [step(0, 0.0, 1.0)], kill_s=600.0, fail=begun.append)
    run.until(lambda: begun == ["kill"])
    unhealed, seconds = run.broken_off()
    assert unhealed == ""
    assert seconds < 50
    assert [type(event) for event in run.events] == [ev.FaultStarted, ev.FaultHealed]


def test_a_plan_that_waits_for_its_next_fault_ends_at_once(time_: Time) -> None:
    run = Execution(time_, [step(0, 600.0, 1.0)])
    run.wait(run.runtime.until(lambda: False, 0.1))
    unhealed, seconds = run.broken_off()
    assert (unhealed, run.events) == ("", [])
    assert seconds < 50


def test_a_fault_in_force_is_healed_where_the_plan_is_broken_off(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 600.0)], length_s=600.0)
    run.until(lambda: bool(run.faults.in_force))
    assert run.faults.in_force == ("kill:one@random",)
    unhealed, seconds = run.broken_off()
    assert unhealed == ""
    assert seconds < 50
    assert isinstance(run.events[-1], ev.FaultHealed)


def test_a_fault_never_outlasts_the_phase(time_: Time) -> None:
    begin = time_.runtime.now_ns()
    run = Execution(time_, [step(0, 0.0, 600.0)], length_s=0.5)
    assert run.end() == ""
    assert time_.runtime.now_ns() - begin < 50e9
    assert isinstance(run.events[-1], ev.FaultHealed)


def test_a_fault_that_finds_no_target_is_recorded_and_the_plan_continues(time_: Time) -> None:
    steps = [step(0, 0.0, 0.1, "kill:one@controller"), step(1, 0.1, 0.1)]
    run = Execution(time_, steps, length_s=1.9)
    assert run.end() == ""
    started, healed, failed = run.events
    assert isinstance(failed, ev.FaultFailed)
    assert "NoTarget" in failed.why
    assert re.search(r"; tried \d+ times in \d+ s$", failed.why)
    assert (started.fault, healed.fault) == (1, 1)  # type: ignore[union-attr]


def test_a_fault_is_tried_for_a_while_and_not_for_ever() -> None:
    steps = [step(0, 0.0, 0.1, "kill:one@controller")]
    run = Execution(VirtualTime(), steps, length_s=60.0)
    assert run.end() == ""
    (failed,) = run.events
    assert isinstance(failed, ev.FaultFailed)
    assert 20e9 <= failed.ns < 22e9


def test_a_fault_that_finds_its_target_later_is_made_then(time_: Time) -> None:
    run = Execution(
        time_, [step(0, 0.0, 0.1, "kill:one@controller"), step(1, 0.0, 0.1, "pause:short@random")]
    )
    run.until(lambda: bool(run.of(ev.FaultHealed)))  # the other fault comes and goes meanwhile
    run.cluster.controller = 2
    assert run.end() == ""
    assert [(event.fault, event.nodes) for event in run.of(ev.FaultStarted)][1] == (0, (2,))
    assert run.of(ev.FaultFailed) == []


def test_a_fault_that_is_still_tried_when_the_run_stops_has_failed(time_: Time) -> None:
    tries: list[int] = []
    run = Execution(time_, [step(0, 0.0, 0.1, "kill:one@controller")], length_s=600.0)
    run.cluster.asked = lambda: tries.append(1)
    run.until(lambda: len(tries) > 1)
    run.broken_off()
    (failed,) = run.events
    assert isinstance(failed, ev.FaultFailed)
    assert "NoTarget" in failed.why


def test_what_could_not_be_taken_back_of_a_fault_that_failed_is_on_record(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 0.1)], fail=failing("kill", "revive", times=2))
    assert run.end() == ""
    started, failed, healed = run.events
    assert isinstance(failed, ev.FaultFailed)
    assert failed.why == (
        "OSError: kill is stuck; taking back what had been done of kill:one@random failed: revive is stuck"
    )
    assert isinstance(started, ev.FaultStarted)
    assert isinstance(healed, ev.FaultHealed)  # with all else
    assert (started.fault, failed.fault, healed.fault) == (0, 0, 0)


def test_a_fault_that_fails_half_way_was_in_force_until_it_was_taken_back(time_: Time) -> None:
    """What it cut off before it failed has a fault that explains it."""
    run = Execution(time_, [step(0, 0.0, 0.1)], fail=failing("kill", times=1))
    assert run.end() == ""
    started, healed, failed = run.events
    assert isinstance(started, ev.FaultStarted)
    assert isinstance(healed, ev.FaultHealed)
    assert isinstance(failed, ev.FaultFailed)
    assert (started.begin_ns, len(started.nodes)) == (failed.begin_ns, 1)
    assert started.text.startswith("made in part, perhaps: ")
    assert "kill is stuck" in started.text
    assert started.begin_ns < started.ns <= healed.ns <= failed.ns
    assert run.faults.in_force == ()


STUCK = OSError("stuck")


@pytest.mark.parametrize(
    ("name", "error", "part"),
    [
        ("kill:one@leader", STUCK, "kill:one@leader"),
        ("restart:rolling", NoEffect("late"), "restart:rolling"),
        ("unclean:lagging@leader", NoEffect("not alone"), "unclean:lagging@leader"),
        ("failover:recovering@leader", NoEffect("silent"), "failover:recovering@leader"),
        ("disk:write-errors@leader", STUCK, "disk:write-errors@leader"),
        ("recreate-topics:away@leader", STUCK, "kill:one@leader"),
        ("recreate-topics:away@leader", NoEffect("unled"), "kill:one@leader"),
        ("upgrade:whole", NoEffect("late"), "restart:rolling"),
        ("upgrade:mixed@leader", STUCK, "restart:graceful@leader"),
        ("power:majority@leader", STUCK, "power:majority@leader"),  # logs may have been cut
        ("power:all", NoEffect("nothing was lost"), "kill:all"),
        ("blink:one@leader", STUCK, "blink:one@leader"),  # of an extension
        ("blink:one@leader", NoTarget("none"), ""),
        ("restart:rolling", NoTarget("none"), ""),
        ("upgrade:finalize", STUCK, ""),
        ("elections:shuffle", NoEffect("none moved"), ""),
        ("delete-records:all@leader", STUCK, ""),
    ],
)
def test_what_a_fault_that_failed_has_done_is_on_record_under_the_name_of_that(
    name: str, error: Exception, part: str
) -> None:
    assert _part(AimedFault(step=step(0, 0.0, 0.1, name), nodes=(1,), text="x"), error) == part


def test_topics_that_were_not_remade_and_no_broker_that_was_killed_for_it_leave_nothing_on_record() -> None:
    hit = AimedFault(step=step(0, 0.0, 0.1, "recreate-topics:all"), text="x")
    assert _part(hit, STUCK) == ""


def test_a_fault_that_could_not_be_healed_stays_in_force_until_all_is_healed(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 0.1)], fail=failing("revive", times=2))
    assert run.end() == ""
    kinds = [type(event) for event in run.events]
    assert kinds == [ev.FaultStarted, ev.HealFailed, ev.HealFailed, ev.FaultHealed]
    failed = run.of(ev.HealFailed)[0]
    assert (failed.fault, failed.name, failed.why) == (0, "kill:one@random", "revive is stuck")


def test_what_cannot_be_healed_at_all_is_said(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 0.1)], fail=failing("revive"))
    assert "revive is stuck" in run.end()
    assert run.of(ev.FaultHealed) == []
    assert [failed.fault for failed in run.of(ev.HealFailed)] == [0, 0, -1]
    assert run.faults.in_force == ("kill:one@random",)


@pytest.mark.parametrize("late", [0.0, 0.2])
def test_a_family_never_overlaps_itself_also_where_a_fault_came_late(time_: Time, late: float) -> None:
    steps = [
        step(0, 0.0, 2.0, "kill:one@random"),
        step(1, 0.25, 0.1, "kill:all"),  # while 0 is in force, because that took a while to make
        step(2, 0.25, 0.1, "pause:short@random"),
    ]
    run = Execution(time_, steps, roles_s=0.05, kill_s=late)
    assert run.end() == ""
    at = {(type(event), event.fault): n for n, event in enumerate(run.events)}  # type: ignore[union-attr]
    started, healed = ev.FaultStarted, ev.FaultHealed
    assert at[started, 0] < at[healed, 0] < at[started, 1] < at[healed, 1]
    assert at[started, 0] < at[started, 2] < at[healed, 0]


def test_a_fault_waits_until_the_cluster_serves(time_: Time) -> None:
    begin = time_.runtime.now_ns()
    run = Execution(
        time_, [step(0, 0.0, 0.1)], serves=lambda: time_.runtime.now_ns() - begin >= 0.5e9, roles_s=0.0
    )
    assert run.end() == ""
    (started,) = run.of(ev.FaultStarted)
    assert started.begin_ns - begin >= 0.5e9


def test_a_fault_waits_for_the_healing_of_one_that_keeps_the_cluster_from_serving(time_: Time) -> None:
    verbs: list[str] = []

    def serves() -> bool:
        return verbs.count("kill") == verbs.count("revive")

    steps = [step(0, 0.0, 1.0), step(1, 0.8, 0.2, "pause:short@random")]
    run = Execution(time_, steps, serves=serves, roles_s=0.0, fail=verbs.append)
    assert run.end() == ""
    assert verbs[:4] == ["kill", "revive", "pause", "resume"]
    assert not run.of(ev.FaultFailed)


def test_faults_on_a_cluster_that_never_serves_again_fail(time_: Time) -> None:
    run = Execution(time_, [step(0, 0.0, 0.1), step(1, 0.2, 0.1)], length_s=0.5, serves=lambda: False)
    assert run.end() == ""
    assert [failed.fault for failed in run.of(ev.FaultFailed)] == [0, 1]
    assert all("no record was acknowledged" in failed.why for failed in run.of(ev.FaultFailed))
    assert not run.of(ev.FaultStarted)


def test_a_pause_ends_when_another_fault_ends_the_node() -> None:
    same = {False: 0, True: 0}
    for seed in range(8):
        steps = [step(0, 0.0, 3.0, "pause:long@random"), step(1, 1.0, 0.5, seed=seed)]
        run = Execution(VirtualTime(), steps)
        assert run.end() == ""
        paused, killed = run.of(ev.FaultStarted)
        (end,) = (one for one in run.of(ev.FaultHealed) if one.fault == 0)
        ends_it = paused.nodes == killed.nodes
        same[ends_it] += 1
        assert (end.ns == killed.ns, end.ns >= 3e9) == (ends_it, not ends_it)
        assert run.faults.in_force == ()
    assert all(same.values())


def test_a_pause_lasts_where_it_is_not_known_whether_a_kill_reached_the_node() -> None:
    steps = [step(0, 0.0, 3.0, "pause:long@random"), step(1, 1.0, 0.5, "kill:all")]
    run = Execution(VirtualTime(), steps, fail=failing("kill", "revive", times=2))
    assert run.end() == ""
    (end,) = (one for one in run.of(ev.FaultHealed) if one.fault == 0)
    assert end.ns >= 3e9


@pytest.mark.parametrize("length_s", [0.5, 600.0])
def test_a_fault_that_never_got_its_turn_is_on_record(time_: Time, length_s: float) -> None:
    """One of its family was in force until the faults ended; the last one was not due yet then."""
    steps = [step(0, 0.0, 600.0), step(1, 0.1, 0.1), step(2, 500.0, 0.1)]
    run = Execution(time_, steps[: 2 + (length_s > 500)], length_s=length_s)
    run.until(lambda: bool(run.of(ev.FaultHealed)) or run.runtime.now_ns() - run.begin >= 0.4e9)
    if length_s > 500:
        run.broken_off()
    assert run.end() == ""
    (failed,) = run.of(ev.FaultFailed)
    assert (failed.fault, failed.why) == (1, "NoTarget: the phase of faults ended before its turn")
    assert [one.fault for one in run.of(ev.FaultStarted)] == [0]
