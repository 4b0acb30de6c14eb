"""The phases of a run: the same promises in real and in virtual time."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.cluster import Cluster, NodeEnd, OpenTransaction, Roles
from core.errors import ClusterError, ConfigError, EndsMissed
from core.op import Isolation, Phase, TopicPartition
from harness.clients.database import Database
from harness.clients.pool import Loss
from harness.run import program
from harness.run.guide import Guide
from harness.run.planning import RunPlan, planned
from harness.run.program import RunProgram
from history import events as ev
from history import journal as j
from nemesis.types import PlannedFault
from tests.harness.run.worlds import Ended, RealWorld, VirtualWorld

World = RealWorld | VirtualWorld
KILL = {"nemesis": "kill:one@random", "duration_s": 2, "fault_s": 0.5, "calm_s": 0.2}
WHOLE = [phase for phase in Phase if phase < Phase.SEAL]
HELD = OpenTransaction(topic="queue", partition=1, producer_id=4, producer_epoch=1, start=3)


def of(events: Sequence[ev.Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def phases(events: Sequence[ev.Event]) -> list[Phase]:
    return [event.phase for event in of(events, ev.PhaseStarted)]


def when(phase: Phase, act: Callable[[], None]) -> Callable[[ev.Event], None]:
    """Act once a phase has begun."""

    def on(event: ev.Event) -> None:
        if isinstance(event, ev.PhaseStarted) and event.phase is phase:
            act()

    return on


async def fails(_: object) -> None:
    raise ClusterError("port is already allocated")


def dies(world: World, end: NodeEnd) -> Callable[[], None]:
    """A node ends, and nobody had asked for it."""
    told: list[NodeEnd] = []

    async def ended() -> list[NodeEnd]:
        new = told[:]
        told.clear()
        return new

    setattr(world.cluster, "ended", ended)  # noqa: B010 - a method of the instance alone

    def act() -> None:
        told.append(end)

    return act


async def does_nothing(_: object) -> None:
    return


def test_a_run_goes_through_all_phases_and_its_readers_reach_the_ends(world: World) -> None:
    events = world.begin(**KILL).run()
    assert phases(events) == WHOLE
    (recovered,) = of(events, ev.Recovered)
    assert recovered.recovered
    started, healed = of(events, ev.FaultStarted), of(events, ev.FaultHealed)
    assert started
    assert {fault.fault for fault in healed} == {fault.fault for fault in started}
    (bounds,) = of(events, ev.BoundsListed)
    assert (bounds.stable, bounds.why) == (True, "")
    journals = world.journals()
    readers = [lines for lines in journals.values() if opened(lines).slot >= len(SLOTS)]
    for lines in readers:
        level = opened(lines).slot - len(SLOTS)
        seen = {(e.topic, e.partition): e.offset for e in lines if isinstance(e, j.EndSeen)}
        wanted = {(t, p): end for t, p, at, _, end in bounds.rows if at == level}
        assert {tp: seen.get(tp, 0) for tp in wanted} == wanted
    assert len(readers) == 2
    assert not of(events, ev.Note)
    assert not of(events, ev.WorkerLost)
    assert not of(events, ev.Interrupted)


SLOTS = (0, 1)
"""Those of the load clients: one producer, one consumer."""


def opened(lines: list[j.Line]) -> j.JournalHeader:
    header = lines[0]
    assert isinstance(header, j.JournalHeader)
    return header


def test_the_ends_are_final_once_they_have_not_changed_for_a_while(world: World) -> None:
    events = world.begin().run(stable_s=0.7)
    (closing,) = [e for e in of(events, ev.PhaseStarted) if e.phase is Phase.QUIESCE]
    (bounds,) = of(events, ev.BoundsListed)
    assert bounds.stable
    assert bounds.ns - closing.ns >= 0.7e9


@pytest.mark.parametrize(("removed", "starts"), [(True, [{0}, {3}]), (False, [{0}])])
def test_with_retention_the_beginnings_are_listed_again_after_the_final_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starts: list[set[int]], *, removed: bool
) -> None:
    monkeypatch.setattr(program, "removes", lambda _: removed)  # the model has no retention
    world = VirtualWorld(tmp_path).begin()
    listed = world.cluster.offsets

    async def offsets(tps: Any, isolation: Any) -> dict[TopicPartition, tuple[int, int]]:
        reading = Phase.FINAL in phases(world.recorder.events)
        return {tp: (3 * reading, end) for tp, (_, end) in (await listed(tps, isolation)).items()}

    setattr(world.cluster, "offsets", offsets)  # noqa: B010 - a method of the instance alone
    bounds = of(world.run(), ev.BoundsListed)
    assert [{row[3] for row in one.rows} for one in bounds] == starts
    assert len({(one.ns, tuple(row[4] for row in one.rows)) for one in bounds}) == 1


@pytest.mark.parametrize(("acks", "waits_s"), [(1, 2.15), (-1, 0.3)])
def test_ends_are_final_once_no_high_watermark_can_stand_still_below_acknowledged_records(
    tmp_path: Path, acks: int, waits_s: float
) -> None:
    settings = {"acks": acks, "idempotent": acks == -1, "broker_settings": {"replica.lag.time.max.ms": "100"}}
    events = VirtualWorld(tmp_path).begin(**settings).run(stable_s=0.3)
    (closing,) = [e for e in of(events, ev.PhaseStarted) if e.phase is Phase.QUIESCE]
    (bounds,) = of(events, ev.BoundsListed)
    assert bounds.stable
    assert waits_s <= (bounds.ns - closing.ns) / 1e9 < waits_s + 1.5


@pytest.mark.parametrize(("acks", "recorded"), [(0, True), (1, True), (-1, False)])
def test_leader_epochs_are_on_record_where_leaders_alone_acknowledge(
    tmp_path: Path, acks: int, *, recorded: bool
) -> None:
    events = VirtualWorld(tmp_path).begin(acks=acks, idempotent=acks == -1).run()
    looks = of(events, ev.RolesSeen)
    assert looks
    assert {bool(look.epochs) for look in looks} == {recorded}


def test_a_fault_that_cannot_be_healed_is_recorded_and_never_blamed_on_the_cluster(world: World) -> None:
    world.begin(**KILL, recovery_deadline_s=2)
    setattr(world.cluster, "revive", fails)  # noqa: B010 - a method of the instance alone
    events = world.run()
    *single, everything = of(events, ev.HealFailed)
    assert single
    assert {failed.name for failed in single} == {"kill:one@random"}
    assert all("port is already allocated" in failed.why for failed in (*single, everything))
    assert everything.fault == -1
    assert [why for event in events if (why := ev.incomplete(event))] == [
        f"not everything could be healed: {everything.why}"
    ]
    assert not of(events, ev.Recovered)
    assert not of(events, ev.BoundsListed)
    assert phases(events)[-2:] == [Phase.QUIESCE, Phase.COLLECT]


def test_what_heals_waits_also_once_the_faults_were_stopped(tmp_path: Path) -> None:
    world = VirtualWorld(tmp_path).begin()
    made = world.program(world.config(), stable_s=0.3)
    made._stop_faults.set()
    passed = []
    for env in (made._faults.stage, made._faults.stage.to_heal()):
        begin = env.clock.now_ns()
        assert world.scheduler.run(world.scheduler.spawn(env.clock.sleep(5)), limit=10**9)
        passed.append((env.stopping(), round((env.clock.now_ns() - begin) / 1e9)))
    assert passed == [(True, 0), (False, 5)]


def test_a_cluster_that_does_not_come_back_has_not_recovered(world: World) -> None:
    world.begin(**KILL, recovery_deadline_s=2)
    setattr(world.cluster, "revive", does_nothing)  # noqa: B010 - a method of the instance alone
    events = world.run()
    (recovered,) = of(events, ev.Recovered)
    assert not recovered.recovered
    assert recovered.seconds >= 2
    assert "do not all agree" in recovered.why
    assert not [note for note in of(events, ev.Note) if note.incomplete]


def test_a_cluster_that_does_not_come_back_names_the_nodes_that_ended(world: World) -> None:
    world.begin(**KILL, recovery_deadline_s=2)
    setattr(world.cluster, "revive", does_nothing)  # noqa: B010 - a method of the instance alone
    end = NodeEnd(node=2, exit_code=1, log=("ERROR halting",))
    world.on = when(Phase.RECOVER, dies(world, end))
    events = world.run()
    (recovered,) = of(events, ev.Recovered)
    assert not recovered.recovered
    assert recovered.why.endswith("; node 2 ended on its own with exit code 1; its last line: ERROR halting")
    assert [seen.end for seen in of(events, ev.NodeEnded)] == [end]


@pytest.mark.parametrize(
    ("error", "heals", "unseen"),
    [
        (ClusterError("no answer"), True, 0),  # a look that succeeds later sees what this one did not
        (ClusterError("no answer"), False, 1),
        (EndsMissed("no answer"), True, 1),
    ],
)
def test_nodes_that_could_not_be_watched_are_on_record(
    world: World, error: ClusterError, heals: bool, unseen: int
) -> None:
    world.begin(**KILL)
    told: list[ClusterError] = []
    answers = False

    async def ended() -> list[NodeEnd]:
        if not answers and not (told and isinstance(error, EndsMissed)):
            told.append(error)
            raise error
        return []

    def answer() -> None:
        nonlocal answers
        answers = heals

    setattr(world.cluster, "ended", ended)  # noqa: B010 - a method of the instance alone
    world.on = when(Phase.RECOVER, answer)
    events = world.run()
    assert told
    assert [event.why for event in of(events, ev.EndsUnseen)] == ["no answer"] * unseen
    assert phases(events) == WHOLE


@pytest.mark.parametrize("phase", [Phase.WARMUP, Phase.FAULTS])
@pytest.mark.parametrize("signal", [0, 9])
def test_an_end_that_healing_undoes_is_on_record(world: World, phase: Phase, signal: int) -> None:
    end = NodeEnd(node=1, exit_code=128 + signal if signal else 3, signal=signal)
    world.begin(**KILL)
    world.on = when(phase, dies(world, end))
    events = world.run()
    assert [seen.end for seen in of(events, ev.NodeEnded)] == [end]
    (recovered,) = of(events, ev.Recovered)
    assert recovered.recovered
    assert phases(events) == WHOLE


def test_a_node_that_is_killed_from_outside_after_the_healing_is_not_blamed_on_the_cluster(
    world: World,
) -> None:
    world.begin(recovery_deadline_s=60)
    setattr(world.cluster, "revive", does_nothing)  # noqa: B010 - a method of the instance alone
    world.on = when(Phase.RECOVER, dies(world, NodeEnd(node=2, exit_code=137, signal=9)))
    events = world.run()
    assert not of(events, ev.Recovered)
    (note,) = of(events, ev.Note)
    assert note.incomplete
    assert "something sent it SIGKILL" in note.text
    begun = of(events, ev.PhaseStarted)
    assert begun[-1].ns - begun[0].ns < 30e9


def test_a_heal_that_failed_breaks_the_run_also_where_the_cluster_is_whole(world: World) -> None:
    honest: list[Any] = []

    async def fails_and_works(nodes: Sequence[int]) -> None:
        await honest[0](nodes)
        raise ClusterError("port is already allocated")

    world.begin(**KILL)
    cluster: Any = world.cluster
    honest.append(cluster.revive)
    cluster.revive = fails_and_works
    events = world.run()
    assert of(events, ev.HealFailed)[-1].fault == -1
    assert not of(events, ev.Recovered)


def test_a_run_without_any_client_left_breaks(world: World) -> None:
    world.begin(nemesis="none", duration_s=60)

    def kill_all() -> None:
        for slot in SLOTS:
            world.kill_client(slot)

    world.on = when(Phase.FAULTS, kill_all)
    events = world.run()
    assert sorted(lost.slot for lost in of(events, ev.WorkerLost)) == list(SLOTS)
    (note,) = of(events, ev.Note)
    assert (note.text, note.incomplete) == ("all clients were lost", True)
    assert not of(events, ev.Recovered)
    begun = of(events, ev.PhaseStarted)
    assert begun[-1].ns - begun[0].ns < 50e9


def test_what_runs_the_cluster_is_not_the_cluster(world: World) -> None:
    async def trouble() -> str:
        return "the Docker engine is gone"

    world.begin(**KILL, recovery_deadline_s=2)
    setattr(world.cluster, "revive", does_nothing)  # noqa: B010 - methods of the instance alone
    setattr(world.cluster, "trouble", trouble)  # noqa: B010
    events = world.run()
    (note,) = of(events, ev.Note)
    assert (note.text, note.incomplete) == ("the Docker engine is gone", True)
    assert not of(events, ev.Recovered)


def test_evidence_that_is_missing_breaks_no_run(world: World) -> None:
    asked = []

    async def take_evidence(into: Path) -> list[str]:
        asked.append((into, world.recorder.events[-1]))
        return ["node 2: the engine does not answer"]

    world.begin(**KILL)
    setattr(world.cluster, "take_evidence", take_evidence)  # noqa: B010
    events = world.run()
    ((into, last),) = asked
    assert into == world.run_folder.evidence
    assert isinstance(last, ev.PhaseStarted)
    assert last.phase is Phase.COLLECT
    (missing,) = of(events, ev.EvidenceMissing)
    assert missing.why == "node 2: the engine does not answer"
    assert not of(events, ev.Note)


def test_a_finding_ends_the_faults_before_their_time_and_the_run_as_always(world: World) -> None:
    world.begin(**{**KILL, "duration_s": 600})
    world.guide = Ended("on a finding: duplicate: a record stands twice")
    events = world.run()
    assert phases(events) == WHOLE
    (note,) = of(events, ev.Note)
    assert note.text == "the faults ended before their time, on a finding: duplicate: a record stands twice"
    assert not note.incomplete
    begun = of(events, ev.PhaseStarted)
    assert begun[-1].ns - begun[0].ns < 600e9


class Asked(Guide):
    """Decides when it was asked often enough."""

    def __init__(self, steps: Sequence[PlannedFault]) -> None:
        self.steps, self.asked, self.held = steps, 0, 0
        self.in_force: set[str] = set()

    def faults(self, plan: RunPlan, cluster: Cluster) -> Sequence[PlannedFault] | None:
        self.asked += 1
        return self.steps if self.asked > 5 else None

    def over(self, in_force: Sequence[str]) -> str:
        self.in_force.update(in_force)
        return "the test is done" if self.in_force and not in_force else ""

    def done(self) -> bool:
        self.held += 1
        return self.held > 5


@pytest.mark.sampled(16)
def test_a_guide_decides_when_faults_begin_and_end_and_when_the_run_does(world: World) -> None:
    steps = planned(world.config(**{**KILL, "duration_s": 600, "calm_s": 500})).steps
    world.begin(duration_s=600)
    world.guide = guide = Asked(steps)
    events = world.run()
    assert phases(events) == WHOLE
    assert (guide.asked, guide.held) == (6, 6)
    assert [fault.name for fault in of(events, ev.FaultStarted)] == ["kill:one@random"]
    (note,) = of(events, ev.Note)
    assert (note.text, note.incomplete) == ("the faults ended before their time, the test is done", False)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("held", ["faults", "done"])
def test_an_interrupt_ends_what_a_guide_holds(world: World, held: str) -> None:
    world.begin()
    world.guide = guide = Asked(())

    def interrupt() -> bool:
        world.interrupt()
        return False

    setattr(guide, held, lambda *_: interrupt() or None)
    events = world.run()
    assert len(of(events, ev.Interrupted)) == 1
    assert (Phase.FAULTS in phases(events)) == (held == "done")
    assert Phase.FINAL not in phases(events)


def test_an_interrupted_run_heals_and_ends_without_final_reads(world: World) -> None:
    world.begin(**{**KILL, "duration_s": 60, "calm_s": 0.0, "fault_s": 30.0})

    def on(event: ev.Event) -> None:
        if isinstance(event, ev.FaultStarted):
            world.interrupt()

    world.on = on
    events = world.run()
    assert len(of(events, ev.Interrupted)) == 1
    started, healed = of(events, ev.FaultStarted), of(events, ev.FaultHealed)
    assert len(started) == len(healed) == 1
    assert Phase.RECOVER not in phases(events)
    assert Phase.FINAL not in phases(events)
    assert phases(events)[-3:] == [Phase.HEAL, Phase.QUIESCE, Phase.COLLECT]
    assert all(handle.ended is not None for handle in world.clients.handles)


def test_a_run_whose_events_cannot_be_written_is_broken_off(world: World) -> None:
    world.begin(duration_s=60)

    def disk_full() -> None:
        world.recorder.broken = "events.jsonl: No space left on device"

    world.on = when(Phase.FAULTS, disk_full)
    events = world.run()
    (note,) = of(events, ev.Note)
    assert note.incomplete
    assert "No space left" in note.text
    assert Phase.FINAL not in phases(events)


def with_database(made: RunProgram, database: Database) -> RunProgram:
    made.database = database
    return made


def test_rows_that_cannot_be_counted_end_the_run_in_order(world: World, tmp_path: Path) -> None:
    database = Database(tmp_path / "rows.sqlite", "plain", busy_s=0.01)
    holding = sqlite3.connect(tmp_path / "rows.sqlite", isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    begun: Any = world.begin(nemesis="none")
    make = begun.program
    begun.program = lambda config, stable_s: with_database(make(config, stable_s), database)
    events = world.run()
    holding.close()
    (note,) = [note.text for note in of(events, ev.Note) if note.incomplete]
    assert note == "the rows of the database cannot be counted: database is locked"
    assert phases(events)[-2:] == [Phase.QUIESCE, Phase.COLLECT]


def test_a_client_that_died_without_a_fault_is_lost_and_not_waited_for(world: World) -> None:
    world.begin(consumers=2)
    world.on = when(Phase.FAULTS, lambda: world.kill_client(2))
    events = world.run()
    (lost,) = of(events, ev.WorkerLost)
    assert lost.slot == 2
    (recovered,) = of(events, ev.Recovered)
    assert recovered.recovered
    assert phases(events) == WHOLE


@pytest.mark.parametrize(
    ("status", "whole"), [(os.EX_UNAVAILABLE, True), (os.EX_CONFIG, True), (os.EX_SOFTWARE, False)]
)
def test_a_program_of_the_user_s_that_is_lost_is_no_fault_of_the_harness(
    world: World, status: int, whole: bool
) -> None:
    """Also where it cannot be started again."""
    world.begin()
    clients: Any = world.clients
    losses, gone = clients.losses, [Loss(1, status, "it is gone", "it is gone")]

    def found() -> list[Loss]:
        own: list[Loss] = losses()
        return own + ([gone.pop()] if gone and world.recorder.phases[-1] is Phase.FAULTS else [])

    clients.losses = found
    events = world.run()
    (lost,) = of(events, ev.WorkerLost)
    assert (lost.slot, lost.status, lost.why) == (1, status, "it is gone")
    incomplete = [note.text for note in of(events, ev.Note) if note.incomplete]
    assert incomplete == ([] if whole else ["client 1 of the harness failed: it is gone"])


def busy(lines: list[j.Line]) -> list[int]:
    """Times of the lines of a process."""
    return [line.ns for line in lines if not isinstance(line, j.Polled)]


def test_a_crashed_client_is_started_again_as_a_new_process(world: World) -> None:
    settings = {"duration_s": 3, "fault_s": 0.5, "calm_s": 0.3, "producers": 2}
    world.begin(workload="transactions", nemesis="client:crash-in-transaction", **settings)
    events = world.run()
    started, healed = of(events, ev.FaultStarted), of(events, ev.FaultHealed)
    assert started
    assert len(healed) == len(started)
    assert not of(events, ev.WorkerLost)
    (recovered,) = of(events, ev.Recovered)
    assert recovered.recovered
    by_slot: dict[int, list[list[j.Line]]] = {}
    for _, lines in sorted(world.journals().items()):
        by_slot.setdefault(opened(lines).slot, []).append(lines)
    for fault in started:
        (slot,) = fault.slots
        died = [one for one in by_slot[slot] if not isinstance(one[-1], j.Closed)]
        assert died
        assert all(any(isinstance(line, j.Invoked) for line in one) for one in died)
        assert len(by_slot[slot]) > len(died)


@pytest.mark.sampled(10)
def test_a_paused_client_stands_still_and_continues(world: World) -> None:
    settings = {"duration_s": 5, "fault_s": 1.0, "calm_s": 0.3}
    events = world.begin(nemesis="client:pause", **settings).run()
    pause, heal = of(events, ev.FaultStarted)[0], of(events, ev.FaultHealed)[0]
    (slot,) = pause.slots
    times = [t for one in world.journals().values() if opened(one).slot == slot for t in busy(one)]
    answered = [ns for ns in times if pause.ns + 50_000_000 < ns < heal.begin_ns]
    assert len(answered) <= 1  # a virtual one may have begun the op in which it then stands still
    assert [ns for ns in times if ns > heal.begin_ns]
    assert not of(events, ev.WorkerLost)


def test_transactions_that_hold_an_end_back_are_named(world: World) -> None:
    world.begin()
    cluster: Any = world.cluster
    honest = cluster.offsets

    async def held(
        tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        found: dict[TopicPartition, tuple[int, int]] = await honest(tps, isolation)
        tp = TopicPartition("queue", 1)
        if isolation is Isolation.READ_COMMITTED and tp in found:
            found[tp] = (found[tp][0], found[tp][1] - 1)
        return found

    async def open_transactions(tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        return [HELD] if list(tps) == [TopicPartition("queue", 1)] else []

    cluster.offsets, cluster.open_transactions = held, open_transactions
    events = world.run()
    (bounds,) = of(events, ev.BoundsListed)
    assert not bounds.stable
    assert "the last stable offset of queue-1 is" in bounds.why
    (named,) = of(events, ev.TransactionsOpen)
    assert named.rows == (HELD,)


def noted_stop(world: World) -> list[bool]:
    """Grows whenever the cluster is stopped."""
    stopped: list[bool] = []
    cluster: Any = world.cluster
    honest = cluster.stop

    async def stop() -> None:
        stopped.append(True)
        await honest()

    cluster.stop = stop
    return stopped


def test_a_cluster_that_does_not_start_is_stopped(world: World) -> None:
    world.begin()
    stopped = noted_stop(world)

    async def start() -> None:
        await world.runtime.until(lambda: False, 0.1)
        raise ClusterError("broker 1 never came up")

    cluster: Any = world.cluster
    cluster.start = start
    with pytest.raises(ClusterError, match="never came up"):
        world.run()
    assert stopped == [True]
    assert all(handle.ended is not None for handle in world.clients.handles)


@pytest.mark.sampled(13)
def test_the_cluster_is_stopped_also_where_a_client_cannot_be_ended(world: World) -> None:
    world.begin()
    stopped = noted_stop(world)
    clients: Any = world.clients
    end = clients.end

    def fail() -> None:
        end()
        raise OSError("no")

    clients.end = fail
    with pytest.raises(OSError, match="no"):
        world.run()
    assert stopped == [True]


def test_a_harness_task_that_fails_ends_the_run(world: World) -> None:
    async def offsets(*_: object) -> dict[TopicPartition, tuple[int, int]]:
        raise ConfigError("a bug")

    world.begin(duration_s=60)
    cluster: Any = world.cluster
    cluster.offsets = offsets
    with pytest.raises(ConfigError, match="a bug"):
        world.run()


@pytest.mark.parametrize("phase", [Phase.WARMUP, Phase.FAULTS, Phase.RECOVER])
def test_a_run_ends_once_a_broker_of_another_cluster_answers_the_harness(world: World, phase: Phase) -> None:
    cluster: Any = world.begin(duration_s=60).cluster
    roles = cluster.roles
    strangers: dict[int, str] = {}

    async def mixed_up() -> Roles:
        now: Roles = await roles()
        return replace(now, strangers=dict(strangers))

    cluster.roles = mixed_up
    world.on = when(phase, lambda: strangers.update({2: "another"}))
    if phase is Phase.RECOVER:
        world.guide = Ended("enough")
    events = world.run()
    (wrong,) = of(events, ev.WrongClusterSeen)
    assert (wrong.slot, wrong.text) == (-1, "a broker of cluster another answers at the address of node 2")
    assert ev.incomplete(wrong) == wrong.text
    assert phases(events)[-1] is Phase.COLLECT
    assert not of(events, ev.BoundsListed)


@pytest.mark.sampled(6)
def test_a_run_ends_once_a_broker_of_another_cluster_answers_a_client(world: World) -> None:
    world.begin(duration_s=60)
    clients: Any = world.clients
    losses = clients.losses
    met = [Loss(1, os.EX_PROTOCOL, "ended with status 76", "b is a broker of cluster B, and not of A")]

    def found() -> list[Loss]:
        own: list[Loss] = losses()
        return own + ([met.pop()] if met and world.recorder.phases[-1] is Phase.FAULTS else [])

    clients.losses = found
    events = world.run()
    (wrong,) = of(events, ev.WrongClusterSeen)
    assert (wrong.slot, wrong.text) == (1, "client 1: b is a broker of cluster B, and not of A")
    assert not of(events, ev.BoundsListed)
    assert not [note for note in of(events, ev.Note) if note.incomplete]
