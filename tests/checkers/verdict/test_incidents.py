"""What happened without being planned: the finding node-died, what stays undecided, and the first lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.checks import CHECKS
from checkers.verdict.incidents import ALL, incidents
from core.cluster import NodeEnd
from core.config import RunConfig, run_config
from core.op import Phase
from harness.report.wording import INCIDENTS_MAX, incident_lines
from history import events as ev
from history.events import Event
from history.run_folder import Run
from history.verdict import ResultWord, Verdict
from tests.checkers.verdict.test_judged_run import history
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.oracle import anomalies as oracle
from tests.oracle.incidents import EVERY, unknown
from workloads.registry import WORKLOADS

S = 1_000_000_000
EVERY_CHECK = set(CHECKS)
PHASES = [
    ev.PhaseStarted(ns=at * S, phase=phase)
    for at, phase in ((1, Phase.WARMUP), (10, Phase.FAULTS), (60, Phase.HEAL), (62, Phase.RECOVER))
]
QUIESCED = ev.PhaseStarted(ns=70 * S, phase=Phase.QUIESCE)
HALTED = NodeEnd(node=2, exit_code=1, log=("INFO a", "ERROR Shutdown broker because all log dirs failed"))
KILLED = NodeEnd(node=2, exit_code=137, signal=9)


def judged(folder: Path, *events: Event, **config: Any) -> Verdict:
    sealed = write_run(
        folder, history().tables(), settings=config, events=(STARTED, *PHASES, *events, RECOVERED, QUIESCED)
    )
    return check_run(sealed)


def unknowns(verdict: Verdict) -> set[str]:
    return {name for name, check in verdict.checks.items() if check.status == "unknown"}


@pytest.mark.parametrize(
    ("config", "watched"),
    [
        ({}, True),
        ({"sut": "external", "external": {"watched": True}}, True),
        ({"sut": "external", "external": {"watched": False}}, False),
    ],
)
def test_what_was_not_watched_is_not_claimed(tmp_path: Path, config: dict[str, Any], watched: bool) -> None:
    verdict = judged(tmp_path / "run", **config)
    claim = verdict.checks["recovery"].claim
    assert verdict.checks["recovery"].status == "valid"
    assert ("No node ends on its own, and after the faults" in claim) is watched
    assert ("Which nodes ended on their own was not watched." in claim) is not watched
    assert "no client stands still." in claim


@pytest.mark.parametrize(
    "end",
    [
        HALTED,
        NodeEnd(node=1, exit_code=0),
        NodeEnd(node=3, exit_code=3, log=("java.lang.OutOfMemoryError: Java heap space",)),
        NodeEnd(node=1, exit_code=134, signal=6, log=("# SIGSEGV (0xb) at pc=0x0",)),
    ],
)
def test_a_node_that_ended_on_its_own_is_a_finding_with_code_and_log(tmp_path: Path, end: NodeEnd) -> None:
    verdict = judged(tmp_path / "run", ev.NodeEnded(ns=12 * S, end=end))
    assert (verdict.valid, verdict.exit_code) == (False, 1)
    assert "node-died (1)" in verdict.summary
    (example,) = verdict.anomalies["node-died"].examples
    assert f"Node {end.node} ended on its own, with exit code {end.exit_code}" in example.sentence
    assert all(line in example.sentence for line in end.log)
    assert example.at_s == 12.0
    assert unknowns(verdict) == set()
    (first,) = incident_lines(verdict)
    assert first.startswith(f"at 12.0 s node {end.node} ended on its own with exit code {end.exit_code}")


def test_the_last_four_lines_of_a_node_are_told(tmp_path: Path) -> None:
    end = NodeEnd(node=2, exit_code=1, log=tuple(f"line {n}" for n in range(6)))
    (example,) = judged(tmp_path / "run", ev.NodeEnded(ns=12 * S, end=end)).anomalies["node-died"].examples
    assert "Its log ends: line 2 / line 3 / line 4 / line 5" in example.sentence


def test_a_nodes_last_errors_are_told_where_it_has_some(tmp_path: Path) -> None:
    end = NodeEnd(node=2, exit_code=1, log=("… ERROR one", "… FATAL two", *(f"line {n}" for n in range(6))))
    (example,) = judged(tmp_path / "run", ev.NodeEnded(ns=12 * S, end=end)).anomalies["node-died"].examples
    assert "Its last errors: … ERROR one / … FATAL two" in example.sentence
    assert "line 5" not in example.sentence


@pytest.mark.parametrize(
    ("end", "checks"),
    [
        (KILLED, {"recovery"}),
        (NodeEnd(node=2, exit_code=143, signal=15), {"recovery"}),
        (NodeEnd(node=2, exit_code=137, signal=9, oom_killed=True), {"recovery"}),
        (NodeEnd(node=2, exit_code=1, disk_full=True), {"recovery"}),
        (NodeEnd(node=2, exit_code=-9, signal=9, own_program=True), {"recovery"}),
        (NodeEnd(node=2, exit_code=70, own_program=True), EVERY_CHECK),
        (NodeEnd(node=2, exit_code=70, own_program=True, disk_full=True), EVERY_CHECK),
    ],
)
def test_a_node_that_was_ended_from_outside_leaves_unknown_what_rests_on_it(
    tmp_path: Path, end: NodeEnd, checks: set[str]
) -> None:
    verdict = judged(tmp_path / "run", ev.NodeEnded(ns=12 * S, end=end))
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert unknowns(verdict) == checks
    assert f"node {end.node} ended" in verdict.summary
    assert incident_lines(verdict)[0].startswith("at 12.0 s node 2 ended with exit code")


def test_power_losses_permit_that_a_node_refuses_its_metadata(tmp_path: Path) -> None:
    power = begun("power:all", 11, nodes=(1, 2, 3))
    died = ev.NodeEnded(ns=15 * S, end=HALTED)
    assert judged(tmp_path / "a", power, died).anomalies["node-died"].allowed
    one = begun("kill:all", 11, nodes=(1, 2, 3))
    assert not judged(tmp_path / "b", one, died).anomalies["node-died"].allowed


@pytest.mark.parametrize(
    ("node", "at_s", "log", "permitted"),
    [
        (2, 15, (), True),
        (2, 20, (), True),  # healed, and not yet in sync
        (2, 22, (), True),
        (2, 23, (), False),  # it was back
        (2, 10, (), False),  # before
        (3, 15, (), False),  # it kept its power
        (3, 15, ("FATAL Exiting because log truncation is not allowed for partition orders-0",), True),
        (3, 10, ("FATAL Exiting because log truncation is not allowed for partition orders-0",), False),
    ],
)
def test_a_loss_of_power_is_a_reason_for_the_node_that_lost_it_until_it_is_back(
    tmp_path: Path, node: int, at_s: int, log: tuple[str, ...], *, permitted: bool
) -> None:
    """Nodes 1 and 2 lose their power from 11 s to 18 s; a look of 22 s names all in sync again."""
    power = both(begun("power:…", 11, 12, nodes=(1, 2)), 18)
    looks = [
        ev.RolesSeen(
            ns=at * S,
            leaders={"orders-0": leader},
            isr={"orders-0": isr},
            controller=3,
            answering=(1, 2, 3),
            agreed=True,
        )
        for at, leader, isr in ((2, 1, (1, 2, 3)), (13, 3, (3,)), (22, 3, (1, 2, 3)))
    ]
    died = ev.NodeEnded(ns=at_s * S, end=NodeEnd(node=node, exit_code=1, log=log))
    found = judged(tmp_path / "run", *looks, *power, died).anomalies["node-died"]
    assert (found.count, found.allowed) == (1, permitted)


UNREGISTERED = NodeEnd(
    node=2,
    exit_code=1,
    log=(
        "ERROR [BrokerLifecycleManager id=2] Shutting down because we were unable to register with the"
        " controller quorum.",
        "INFO App info kafka.server for 2 unregistered",
    ),
)


def fault(
    number: int,
    nodes: tuple[int, ...],
    begin: float,
    end: float,
    name: str = "partition:isolate@leader",
    slots: tuple[int, ...] = (),
) -> list[Event]:
    return both(begun(name, begin, number=number, nodes=nodes, slots=slots), end)


HINDERED = [
    ([*fault(0, (2,), 30, 71)], {}, True),  # the node
    ([*fault(0, (1, 3), 30, 71)], {}, True),  # of three voters two
    ([*fault(0, (1,), 30, 80), *fault(1, (3,), 60, 80)], {}, True),  # both at a time
    ([*fault(0, (2,), 30, 65), *fault(1, (1, 3), 92, 95)], {}, True),  # no 30 s of calm in between
    ([*fault(0, (), 30, 71)], {}, True),  # the whole cluster
    ([*fault(0, (2,), 30, 69)], {}, False),  # 31 s of calm
    ([*fault(0, (1,), 30, 99)], {}, False),  # a majority is left
    ([*fault(0, (1,), 30, 65), *fault(1, (3,), 65, 99)], {}, False),  # one after the other
    ([*fault(0, (2,), 5, 39)], {}, False),  # before it started
    ([*fault(0, (), 30, 99, slots=(1,))], {}, False),  # a client's
    ([*fault(0, (1, 2, 3), 30, 99, "links:latency@all")], {}, False),  # of what lies before brokers
    ([*fault(0, (2,), 30, 99, "partition:clients-requests@random")], {}, False),
    ([*fault(0, (), 30, 99, "add-partitions:all")], {}, False),  # of whole brokers
    ([*fault(0, (2,), 30, 71, "wire:markers")], {}, True),  # between brokers
    ([], {}, False),
    (
        [*fault(0, (2,), 5, 85)],
        {"broker_settings": {"initial.broker.registration.timeout.ms": "20000"}},
        True,
    ),
    (
        [*fault(0, (2,), 5, 79)],
        {"broker_settings": {"initial.broker.registration.timeout.ms": "20000"}},
        False,
    ),
    ([*fault(0, (4, 5), 30, 99)], {"controllers": 3}, True),  # of the controllers
    ([*fault(0, (1, 3), 30, 99)], {"controllers": 3}, False),  # brokers have no vote
]


@pytest.mark.parametrize(("faults", "config", "explained"), HINDERED)
def test_a_broker_that_could_not_register_is_permitted_where_faults_kept_it_from_that(
    tmp_path: Path, faults: list[Event], config: dict[str, Any], *, explained: bool
) -> None:
    """It gives up at 100 s, 60 s after its start; 30 s suffice for a quorum that works."""
    died = ev.NodeEnded(ns=100 * S, end=UNREGISTERED)
    verdict = judged(tmp_path / "run", *faults, died, **config)
    assert "unable to register with the controller quorum" in incident_lines(verdict)[0]
    settings = RunConfig(seed=7, **config)
    expected = oracle.findings(history().tables(), portable=False, events=[*faults, died], config=settings)
    assert {key for key in expected if key[0] == "node-died"} == (
        {("node-died", -1, 2, 0)} if explained else set()
    )
    if explained:
        assert (verdict.valid, verdict.anomalies["node-died"].allowed) == (True, True)
    else:
        assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
        assert unknowns(verdict) == {"recovery"}


def test_a_broker_that_fails_otherwise_under_such_a_fault_is_not_permitted(tmp_path: Path) -> None:
    died = ev.NodeEnded(ns=100 * S, end=HALTED)
    verdict = judged(tmp_path / "run", *fault(0, (2,), 30, 99), died)
    assert (verdict.exit_code, verdict.anomalies["node-died"].disallowed) == (1, 1)


EXPIRED = NodeEnd(
    node=2,
    exit_code=1,
    log=(
        "… ERROR kafka.server.KafkaServer - [KafkaServer id=2] Fatal error during KafkaServer startup.",
        "org.apache.zookeeper.KeeperException$SessionExpiredException: Session expired for /brokers/ids",
        "… INFO kafka.server.KafkaServer - [KafkaServer id=2] shut down completed",
        "… ERROR kafka.Kafka$ - Exiting Kafka.",
    ),
)
NOT_BACK = ev.Recovered(ns=69 * S, recovered=False, seconds=7.0, why="x-0 has in-sync replicas [1, 3] only")


def answering(at_s: float, *nodes: int) -> ev.RolesSeen:
    return ev.RolesSeen(ns=int(at_s * S), leaders={}, isr={}, controller=1, answering=nodes, agreed=True)


@pytest.mark.parametrize("faults", [[], fault(0, (2,), 11, 30), fault(0, (1, 2, 3), 11, 30)])
def test_a_broker_whose_session_expired_while_it_started_leaves_recovery_open(
    tmp_path: Path, faults: list[Event]
) -> None:
    """A busy machine lets a session expire as well as a fault does."""
    died = ev.NodeEnded(ns=40 * S, end=EXPIRED)
    verdict = judged(tmp_path / "run", *faults, died)
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert unknowns(verdict) == {"recovery"}
    told = "node 2 ended on its own with exit code 1: its session with ZooKeeper expired while it started"
    assert told in incident_lines(verdict)[0]
    assert any(told in reason for reason in verdict.unknown)
    events = [*faults, died]
    found = oracle.findings(history().tables(), portable=False, events=events, config=RunConfig(seed=7))
    assert not any(key[0] == "node-died" for key in found)


@pytest.mark.parametrize(
    "log",
    [
        EXPIRED.log[1:],  # in mid-run
        (*EXPIRED.log[1:], EXPIRED.log[0]),
        (EXPIRED.log[0], *EXPIRED.log[2:]),
        (EXPIRED.log[0], "java.lang.IllegalStateException", *EXPIRED.log[1:]),
        (EXPIRED.log[0], "java.lang.OutOfMemoryError: Java heap space", *EXPIRED.log[1:]),
    ],
)
def test_a_broker_that_ended_otherwise_while_its_session_expired_is_a_finding(
    tmp_path: Path, log: tuple[str, ...]
) -> None:
    died = ev.NodeEnded(ns=40 * S, end=NodeEnd(node=2, exit_code=1, log=log))
    verdict = judged(tmp_path / "run", died)
    assert (verdict.exit_code, verdict.anomalies["node-died"].disallowed) == (1, 1)
    events = [died]
    found = oracle.findings(history().tables(), portable=False, events=events, config=RunConfig(seed=7))
    assert ("node-died", -1, 2, 0) in found


@pytest.mark.parametrize(
    ("events", "open_"),
    [
        ([ev.NodeEnded(ns=40 * S, end=EXPIRED)], True),
        ([answering(39, 1, 2, 3), ev.NodeEnded(ns=40 * S, end=EXPIRED), answering(41, 1, 3)], True),
        ([ev.NodeEnded(ns=40 * S, end=EXPIRED), answering(50, 1, 2, 3)], False),  # started again
        ([ev.NodeEnded(ns=40 * S, end=EXPIRED), answering(69.5, 1, 2, 3)], True),  # too late
        (
            [
                ev.NodeEnded(ns=40 * S, end=EXPIRED),
                answering(50, 1, 2, 3),
                ev.NodeEnded(ns=55 * S, end=EXPIRED),
            ],
            True,
        ),
        ([ev.NodeEnded(ns=69 * S + 1, end=EXPIRED)], False),  # after that was decided
    ],
)
def test_a_cluster_may_not_recover_without_a_broker_whose_session_expired(
    tmp_path: Path, events: list[Event], *, open_: bool
) -> None:
    sealed = write_run(
        tmp_path / "run", history().tables(), events=(STARTED, *PHASES, *events, NOT_BACK, QUIESCED)
    )
    verdict = check_run(sealed)
    assert unknowns(verdict) >= ({"recovery"} if open_ else set())
    assert ("not-recovered" in verdict.anomalies) is not open_
    assert verdict.recovered is (None if open_ else False)
    assert verdict.exit_code == (2 if open_ else 3)
    assert verdict.result is (ResultWord.UNKNOWN if open_ else ResultWord.NOT_RECOVERED)
    if open_:
        assert any(f"without node 2: {NOT_BACK.why}" in reason for reason in verdict.unknown)


@pytest.mark.parametrize("hindered", [False, True])
def test_a_cluster_may_not_recover_without_a_broker_that_could_not_register(
    tmp_path: Path, hindered: bool
) -> None:
    """Whether faults kept it from the controllers, or the machine was too slow: nothing starts it again."""
    faults = fault(0, (2,), 5, 55) if hindered else []
    ended = ev.NodeEnded(ns=58 * S, end=UNREGISTERED)
    for again, open_ in (((), True), ((answering(60, 1, 2, 3),), False)):
        events = (STARTED, *PHASES, *faults, ended, *again, NOT_BACK, QUIESCED)
        verdict = check_run(write_run(tmp_path / f"{open_}", history().tables(), events=events))
        assert ("not-recovered" in verdict.anomalies) is not open_
        assert verdict.exit_code == (2 if open_ else 3)


def test_a_cluster_whose_brokers_all_started_has_to_recover(tmp_path: Path) -> None:
    sealed = write_run(tmp_path / "run", history().tables(), events=(STARTED, *PHASES, NOT_BACK, QUIESCED))
    verdict = check_run(sealed)
    assert (verdict.exit_code, verdict.recovered) == (3, False)


def test_a_heal_that_failed_is_unknown_whatever_the_recovery_says(tmp_path: Path) -> None:
    failed = ev.HealFailed(ns=61 * S, why="revive node 1: port is already allocated")
    verdict = judged(tmp_path / "a", failed)
    assert (verdict.valid, verdict.exit_code, verdict.recovered) == ("unknown", 2, True)
    assert unknowns(verdict) == set(CHECKS)
    assert "port is already allocated" in verdict.summary
    told = "not everything could be healed: revive node 1: port is already allocated"
    assert told in incident_lines(verdict)[0]
    again = ev.HealFailed(ns=30 * S, fault=0, name="kill:one@leader", why="slow")
    later = judged(tmp_path / "b", again)
    assert (later.valid, len(later.incidents)) == (True, 1)


@pytest.mark.parametrize(
    ("jump", "text"),
    [
        (ev.ClockJumped(before_ns=1, ns=20 * S, wall_s=-3.5), "set back by 3.5 s"),
        (ev.ClockJumped(before_ns=1, ns=20 * S, wall_s=4.0), "set forward by 4.0 s"),
        (ev.ClockJumped(before_ns=1, ns=20 * S, wall_s=4.0, suspended_s=4.0), "the machine slept for 4.0 s"),
    ],
)
def test_a_clock_that_jumped_leaves_open_what_rests_on_time_outs(
    tmp_path: Path, jump: ev.ClockJumped, text: str
) -> None:
    verdict = judged(tmp_path / "run", jump)
    assert (verdict.exit_code, unknowns(verdict)) == (2, {"recovery", "stability"})
    assert text in incident_lines(verdict)[0]


def test_a_small_step_of_the_clock_moves_no_time_out(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", ev.ClockJumped(before_ns=1, ns=20 * S, wall_s=-0.49))
    assert (verdict.valid, incident_lines(verdict)) == (True, [])


def test_a_run_whose_nodes_were_not_watched_does_not_claim_that_none_ended(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", ev.EndsUnseen(ns=20 * S, why="the engine does not answer"))
    assert (verdict.exit_code, unknowns(verdict)) == (2, {"recovery"})
    assert "one may have ended on its own: the engine does not answer" in incident_lines(verdict)[0]


def test_missing_evidence_stands_in_the_first_lines_and_takes_no_check_of_clients(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", ev.EvidenceMissing(ns=80 * S, why="node 2: no such file"))
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    assert incident_lines(verdict) == ["at 80.0 s evidence is missing: node 2: no such file"]


def lost(slots: Any, at_s: float) -> list[Event]:
    return [ev.WorkerLost(ns=int(at_s * S), slot=n, why="ended by SIGKILL", status=-9) for n in slots]


SETTINGS = {"workload": "queue", "producers": 2, "home_producers": 1, "consumers": 2}


def deserted(events: Sequence[Event]) -> dict[int, frozenset[str]]:
    """When a role of `SETTINGS` was without clients (ns), and what that leaves open."""
    found = incidents([*PHASES, QUIESCED, *events], run_config({"seed": 7, **SETTINGS}))
    return {one.ns: one.checks for one in found if "all clients of a role" in one.text}


@pytest.mark.parametrize(("last_s", "checks"), [(49.0, set(CHECKS)), (55.0, {"recovery"}), (71.0, None)])
def test_a_role_lasts_as_long_as_its_last_client(last_s: float, checks: set[str] | None) -> None:
    *others, last = slots_of(produces=True)
    assert others
    found = deserted([*lost(others, 15.0), *lost([last], last_s)])
    assert found == ({} if checks is None else {int(last_s * S): checks})


def slots_of(*, produces: bool) -> list[int]:
    plans = WORKLOADS["queue"].plans(run_config({"seed": 7, **SETTINGS}))
    return [plan.slot for plan in plans if (plan.acks is not None) is produces]


@pytest.mark.sampled(35)
@pytest.mark.parametrize(
    ("produces", "at_s", "checks"),
    [
        (True, 15.0, set(CHECKS)),  # 5 s into 50 s of faults
        (True, 49.0, set(CHECKS)),
        (True, 51.0, {"recovery"}),  # less than a fifth of the phase
        (True, 65.0, {"recovery"}),
        (True, 69.9, {"recovery"}),
        (True, 70.0, set()),  # the load was over
        (False, 15.0, {"recovery", "poll-order"}),
        (False, 51.0, {"recovery"}),
    ],
)
def test_a_role_without_any_client_was_not_under_load(
    tmp_path: Path, produces: bool, at_s: float, checks: set[str]
) -> None:
    slots = slots_of(produces=produces)
    verdict = judged(tmp_path / "a", *lost(slots, at_s), **SETTINGS)
    assert unknowns(verdict) == checks
    assert verdict.exit_code == (2 if checks else 0)
    some = judged(tmp_path / "b", *lost(slots[1:], at_s), **SETTINGS)
    assert (some.valid, unknowns(some)) == (True, set())
    assert len(some.incidents) == bool(slots[1:])


@pytest.mark.sampled(19)
@pytest.mark.parametrize(
    ("status", "checks"), [(69, {"recovery"}), (78, {"recovery"}), (-9, set()), (None, set())]
)
def test_whether_a_program_of_the_user_s_is_to_blame_is_not_known(
    tmp_path: Path, status: int | None, checks: set[str]
) -> None:
    (slot, *_) = slots_of(produces=True)
    event = ev.WorkerLost(ns=15 * S, slot=slot, why="--client ./client: Text file busy", status=status)
    verdict = judged(tmp_path / "run", event, **SETTINGS)
    assert unknowns(verdict) == checks
    (incident,) = verdict.incidents
    assert incident.text == f"client {slot} was lost: --client ./client: Text file busy"


def test_final_readers_are_no_clients() -> None:
    """Clients that were lost alike are one incident, and each reader is one."""
    end, config = ev.PhaseStarted(ns=80 * S, phase=Phase.FINAL), run_config({"seed": 7, **SETTINGS})
    levels = [("", 1), ("", 2), ("read_uncommitted", 4), ("read_committed", 5)]
    gone = [
        ev.WorkerLost(ns=81 * S, slot=slot, why="ended by SIGKILL", status=-9, level=level)
        for level, slot in levels
    ]
    assert [one.text for one in incidents([*PHASES, QUIESCED, end, *gone], config)] == [
        "clients 1, 2 were lost: ended by SIGKILL",
        "the final reader at read_uncommitted was lost: ended by SIGKILL",
        "the final reader at read_committed was lost: ended by SIGKILL",
    ]


@pytest.mark.parametrize(
    ("produces", "role"), [(True, "producers without transactions"), (False, "consumers without a group")]
)
def test_a_role_is_told_by_what_its_clients_do(tmp_path: Path, produces: bool, role: str) -> None:
    verdict = judged(tmp_path / "run", *lost(slots_of(produces=produces), 15.0), **SETTINGS)
    assert any(role in one.text for one in verdict.incidents)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("reached", range(len(PHASES) + 1))
def test_of_a_run_that_broke_off_nobody_knows_how_long_a_role_was_needed(reached: int) -> None:
    config = run_config({"seed": 7, **SETTINGS})
    phases = [*PHASES, QUIESCED]
    for events in ([*phases[:reached]], [*phases[:reached], *phases[reached + 1 :]]):
        found = incidents([*events, *lost(range(5), 15.0)], config)
        deserted = {one.ns for one in found if "all clients of a role" in one.text}
        needed = {event.phase for event in events} >= {Phase.FAULTS, Phase.HEAL, Phase.QUIESCE}
        assert deserted == ({15 * S} if needed else set())


def test_many_incidents_are_counted(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", *(ev.NodeEnded(ns=n * S, end=KILLED) for n in range(10, 20)))
    assert len(verdict.incidents) == 10
    lines = incident_lines(verdict)
    assert len(lines) == INCIDENTS_MAX + 1
    assert lines[-1] == "6 more, see the report"


@pytest.mark.parametrize(("planned", "valid"), [(0, True), (2, "unknown")])
def test_planned_faults_of_which_none_came_prove_nothing(tmp_path: Path, planned: int, valid: object) -> None:
    folder = tmp_path / "run"
    judged(folder)
    Run(folder).schedule.write_text('{"fault":0}\n' * planned)
    verdict = check_run(Run(folder))
    assert verdict.valid == valid
    assert ("none of the 2 planned faults came into force" in verdict.summary) is bool(planned)


ENDS = st.builds(
    NodeEnd,
    node=st.integers(1, 3),
    exit_code=st.sampled_from([0, 1, 70, 134, 137, 143]),
    signal=st.sampled_from([0, 1, 2, 3, 6, 9, 11, 15]),
    oom_killed=st.booleans(),
    disk_full=st.booleans(),
    own_program=st.booleans(),
    log=st.sampled_from([(), HALTED.log, EXPIRED.log, EXPIRED.log[1:], UNREGISTERED.log]),
)
WHEN = st.integers(0, 80).map(lambda at: at * S)
STATUS = st.sampled_from([None, -9, 69, 70, 76, 78])
EVENTS = st.lists(
    st.one_of(
        st.builds(ev.NodeEnded, ns=WHEN, end=ENDS),
        st.builds(
            ev.HealFailed, ns=WHEN, fault=st.sampled_from([-1, 0]), name=st.just("x"), why=st.just("y")
        ),
        st.builds(ev.ClockJumped, before_ns=WHEN, ns=WHEN, wall_s=st.just(2.0)),
        st.builds(ev.EndsUnseen, ns=WHEN, why=st.just("u")),
        st.builds(
            ev.BoundsListed,
            ns=WHEN,
            rows=st.just(()),
            stable=st.booleans(),
            moving=st.sampled_from(["", "m"]),
        ),
        st.builds(ev.WorkerLost, ns=WHEN, slot=st.integers(0, 4), why=st.just("z"), status=STATUS),
        st.builds(ev.Interrupted, ns=WHEN),
    ),
    max_size=8,
)


@pytest.mark.sampled(5)
@given(EVENTS, st.sampled_from(["queue", "transactions", "copier", "groups"]))
@settings(deadline=None)
def test_kernel_and_oracle_agree_on_what_events_leave_open(found: list[Event], workload: str) -> None:
    config = run_config({"seed": 7, **SETTINGS, "workload": workload})
    events = [*PHASES, QUIESCED, *sorted(found, key=lambda event: event.ns)]
    roles: dict[tuple[bool, bool, str], list[int]] = {}
    for plan in WORKLOADS[workload].plans(config):
        key = (plan.acks is not None, bool(plan.transactional_id), plan.group or "")
        roles.setdefault(key, []).append(plan.slot)
    expected = unknown(events, roles)
    told = set[str]().union(*(one.checks for one in incidents(events, config)))
    if any(map(ev.incomplete, events)):
        told |= ALL
    assert told == (set(ALL) if EVERY in expected else expected)


@pytest.mark.sampled(21)
@given(st.lists(st.builds(ev.NodeEnded, ns=WHEN, end=ENDS), max_size=6))
@settings(deadline=None, max_examples=25)
def test_kernel_and_oracle_agree_on_nodes_that_died(tmp_path_factory: Any, ends: list[ev.NodeEnded]) -> None:
    tables = history().tables()
    verdict = judged(tmp_path_factory.mktemp("run") / "run", *ends)
    expected = {key for key in oracle.findings(tables, portable=False, events=ends) if key[0] == "node-died"}
    found = verdict.anomalies.get("node-died")
    assert (found.count if found else 0) == len(expected)
