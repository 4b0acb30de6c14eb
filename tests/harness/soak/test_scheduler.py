"""What a session runs next: its order, its budget, what it repeats."""

import msgspec
import pytest

from harness.nights.session_log import (
    AnomalyCount,
    Attempt,
    PlannedRun,
    RunBegun,
    RunResult,
    SessionStarted,
    SoakSession,
    State,
)
from harness.soak.matrix import Matrix, parse
from harness.soak.scheduler import (
    ATTEMPTS_MAX,
    OVERHEAD_S,
    TRIES,
    canary_of,
    choose,
    expected_s,
    failing,
    given_up,
    seed_of,
)
from tests.harness.nights.made_sessions import LOST, TORN, canary, outcome, task

MATRIX = parse(
    """
workloads = ["queue", "transactions"]
nemeses = ["none", "kill"]
presets = ["safe"]
canary = ["acks1", "read-uncommitted"]
[settings]
duration_s = 20
""",
    "m.toml",
)
UNRECOVERED = AnomalyCount(name="not-recovered", count=1, disallowed=1)
AT = "2026-03-01T22:00:00.000+00:00"


def session(
    name: str = "20260301T220000Z",
    runs: list[tuple[PlannedRun, RunResult | None]] | None = None,
    *,
    budget_s: float = 1800.0,
    matrix: Matrix = MATRIX,
) -> SoakSession:
    started = SessionStarted(
        at=AT, seed=5, budget_s=budget_s, canary="acks1", matrix=matrix.model_dump(mode="json")
    )
    made = SoakSession(name=name, started=started)
    for number, (what, came) in enumerate(runs or [], 1):
        begun = RunBegun(at=AT, spent_s=0, number=number, task=what, command=[])
        made.attempts.append(Attempt(begun=begun, outcome=came))
        made.spent_s += came.seconds if came else 0
    return made


def played(under_way: SoakSession, repeats: list[PlannedRun], seconds: float = 60.0) -> list[PlannedRun]:
    """All runs of a session in which every run takes so long."""
    made = []
    while (choice := choose(under_way, repeats, MATRIX)) is not None:
        begun = RunBegun(at=AT, spent_s=under_way.spent_s, number=choice.number, task=choice.task, command=[])
        under_way.attempts.append(Attempt(begun=begun, outcome=outcome(seconds=seconds)))
        under_way.spent_s += seconds
        made.append(choice.task)
    return made


def test_failing_runs_first_then_the_canary_then_the_matrix() -> None:
    repeats = [task(seed=seed, why="repeat") for seed in (1, 2, 3)]
    made = played(session(budget_s=600), repeats)
    assert [what.why for what in made] == ["repeat"] * 3 + ["canary"] + ["matrix"] * 6
    assert [what.seed for what in made[:3]] == [1, 2, 3]
    assert made[3].preset == "acks1"
    assert len({(what.workload, what.nemesis) for what in made[4:8]}) == 4


def test_repetitions_take_half_of_the_budget_at_most() -> None:
    repeats = [task(seed=seed, why="repeat") for seed in range(50)]
    made = played(session(budget_s=600), repeats)
    assert [what.why for what in made] == ["repeat"] * 5 + ["canary"] + ["matrix"] * 4


def test_no_run_is_started_that_does_not_fit() -> None:
    assert len(played(session(budget_s=599), [])) == 9
    assert len(played(session(budget_s=600), [])) == 10
    assert played(session(budget_s=20 + OVERHEAD_S - 1), []) == []
    assert len(played(session(budget_s=20 + OVERHEAD_S), [])) == 1


def test_seeds_follow_from_the_session_and_the_number() -> None:
    made = played(session(budget_s=600), [])
    assert [what.seed for what in made] == [seed_of(5, number) for number in range(1, 11)]
    assert len({what.seed for what in made}) == 10
    assert seed_of(6, 1) != seed_of(5, 1)


def test_the_expected_time_is_learnt_from_runs_of_the_workload_else_of_all() -> None:
    what = task("queue", settings={"duration_s": 20})
    assert expected_s(what, []) == 20 + OVERHEAD_S
    runs: list[tuple[PlannedRun, RunResult | None]] = [
        (task("transactions", settings={"duration_s": 30}), outcome(seconds=s)) for s in (40, 50, 90)
    ]
    assert expected_s(what, session(runs=runs).attempts) == 20 + 20
    runs.append((task("queue", settings={"duration_s": 20}), outcome(seconds=27)))
    runs.append((task("queue", settings={"duration_s": 20}), outcome("error", seconds=1)))
    for state in ("interrupted", "error"):
        cut: RunResult = outcome(state, judged=True, seconds=1)
        runs.append((task("queue", settings={"duration_s": 20}), cut))
    assert expected_s(what, session(runs=runs).attempts) == 20 + 7


def test_the_run_that_was_under_way_is_made_again_with_the_same_arguments() -> None:
    broken = task(seed=77, settings={"duration_s": 20})
    for came in (None, outcome("interrupted", seconds=9)):
        under_way = session(runs=[(canary(), outcome()), (broken, came)])
        choice = choose(under_way, [], MATRIX)
        assert choice is not None
        assert (choice.number, choice.task) == (2, broken)


def test_a_run_that_the_soak_does_not_survive_is_given_up() -> None:
    under_way = session(runs=[(canary(), outcome()), (task(seed=77), None)])
    assert not given_up(under_way, 2)
    under_way.attempts += [under_way.attempts[-1]] * (ATTEMPTS_MAX - 1)
    assert given_up(under_way, 2)


def test_a_repetition_is_made_once() -> None:
    what = task(seed=1, why="repeat")
    under_way = session(runs=[(what, outcome("anomaly", LOST))])
    choice = choose(under_way, [what], MATRIX)
    assert choice is not None
    assert choice.task.why == "canary"


def test_explicit_runs_come_after_the_canary_and_keep_their_seed() -> None:
    matrix = MATRIX.model_copy(
        update={
            "runs": parse(
                """
workloads = ["queue"]
nemeses = ["kill"]
presets = ["safe"]
canary = "acks1"
[[runs]]
workload = "queue"
nemesis = "pause"
preset = "safe"
seed = 99
settings = {brokers = 5}
""",
                "m.toml",
            ).runs
        }
    )
    under_way = session(runs=[(canary(), outcome())], matrix=matrix)
    choice = choose(under_way, [], matrix)
    assert choice is not None
    assert (choice.task.why, choice.task.seed) == ("explicit", 99)
    assert choice.task.settings == {"duration_s": 20, "brokers": 5}
    under_way = session(runs=[(canary(), outcome()), (choice.task, outcome())], matrix=matrix)
    after = choose(under_way, [], matrix)
    assert after is not None
    assert after.task.why == "matrix"


def test_what_failed_before_open_findings_first_then_newest_session_first_each_once() -> None:
    older = session(
        "20260301T220000Z",
        [
            (canary(seed=1), outcome("silent")),
            (task(seed=2), outcome("anomaly", LOST)),
            (task(seed=3), outcome("not-recovered")),
            (task(seed=4), outcome("error")),
            (task(seed=5), outcome("valid")),
        ],
    )
    newer = session(
        "20260302T220000Z",
        [
            (task(seed=6), outcome("anomaly", TORN)),
            (task(seed=7), outcome("unknown")),
            (task(seed=8), outcome("anomaly", LOST)),
            (task(seed=2, why="repeat"), outcome("anomaly", LOST)),
            (task(seed=9), outcome("interrupted", LOST)),
            (task(seed=10), outcome("interrupted")),
        ],
    )
    found = failing([older, newer])
    assert [what.seed for what in found] == [8, 2, 9, 7, 3, 6]
    assert {what.why for what in found} == {"repeat"}
    assert found[1].of == "20260302T220000Z/4"


def test_an_older_open_finding_comes_before_newer_ones_of_known_bugs() -> None:
    older = session("20260301T220000Z", [(task(seed=1), outcome("anomaly", LOST))])
    newer = session(
        "20260302T220000Z",
        [
            (task(seed=2), outcome("anomaly", TORN)),
            (task(seed=3), outcome("anomaly", TORN, LOST)),
            (task(seed=4), outcome("not-recovered", UNRECOVERED)),
        ],
    )
    assert [what.seed for what in failing([older, newer])] == [3, 1, 4, 2]


def test_of_each_known_bug_the_newest_run_is_kept() -> None:
    other = AnomalyCount(name="lost-write", count=1, disallowed=1, known_bug="KAFKA-15591")
    sessions = [
        session(f"2026030{day}T220000Z", [
            (task(seed=day), outcome("anomaly", TORN)),
            (task(seed=10 + day), outcome("anomaly", other)),
            (task(seed=20 + day), outcome("anomaly", other, TORN)),
            (task(seed=30 + day), outcome("anomaly", TORN, UNRECOVERED)),
        ])
        for day in (1, 2, 3)
    ]  # fmt: skip
    assert [what.seed for what in failing(sessions)] == [33, 32, 31, 3, 13, 23]


def repeated(*states: State) -> list[SoakSession]:
    """A run that failed, and what came of its repetitions, a session each."""
    first = session("20260301T220000Z", [(task(seed=1), outcome("anomaly", LOST))])
    later = [
        session(f"202603{day:02}T220000Z", [(task(seed=1, why="repeat"), outcome(state))])
        for day, state in enumerate(states, 2)
    ]
    return [first, *later]


def test_what_passed_each_of_the_last_times_is_not_made_again() -> None:
    assert TRIES == 3
    assert len(failing(repeated("valid", "valid"))) == 1
    assert failing(repeated("valid", "valid", "valid")) == []
    assert len(failing(repeated("valid", "error", "interrupted", "valid"))) == 1
    assert len(failing(repeated("valid", "valid", "anomaly", "valid", "valid"))) == 1
    back = failing([*repeated("valid", "valid", "valid", "anomaly")])
    assert [what.of for what in back] == ["20260305T220000Z/1"]
    assert len(failing([*repeated("valid", "valid", "valid"), session("20260309T220000Z")])) == 0


def test_a_finding_that_its_repetition_did_not_show_stays_open() -> None:
    sessions = repeated("valid")
    sessions.append(
        session("20260303T220000Z", [(task(seed=1, why="repeat"), outcome("anomaly", TORN)),
                                   (task(seed=2), outcome("unknown"))])
    )  # fmt: skip
    assert [what.seed for what in failing(sessions)] == [1, 2]


def test_repetitions_leave_the_canary_its_room() -> None:
    repeats = [task(seed=seed, why="repeat", settings={"duration_s": 20}) for seed in (1, 2)]
    for budget_s in range(60, 400, 10):
        made = played(session(budget_s=float(budget_s)), repeats, seconds=80.0)
        assert "canary" in {what.why for what in made}, budget_s
    assert played(session(budget_s=200), repeats)[0].why == "canary"
    assert played(session(budget_s=300), repeats)[0].why == "repeat"


def test_other_settings_are_another_run() -> None:
    runs = [(task(seed=1, settings=s), outcome("anomaly", LOST)) for s in ({}, {"brokers": 5}, {})]
    assert len(failing([session(runs=list(runs))])) == 2


@pytest.mark.parametrize(("sessions", "name"), [(0, "acks1"), (1, "read-uncommitted"), (2, "acks1")])
def test_canaries_take_turns(sessions: int, name: str) -> None:
    assert canary_of(MATRIX, [session()] * sessions) == name


def test_a_task_survives_its_file() -> None:
    what = task(settings={"broker_settings": {"a": "b"}, "rate": 1.5})
    again = msgspec.json.decode(msgspec.json.encode(what), type=PlannedRun)
    assert again == what
    assert again.key == what.key


def test_drawn_runs_take_turns_in_their_topologies_and_others_have_none() -> None:
    matrix = MATRIX.model_copy(update={"topologies": ({"brokers": 3}, {"brokers": 5})})
    under_way = session(matrix=matrix, budget_s=3600.0)
    brokers: list[tuple[str, int]] = []
    while (choice := choose(under_way, [task(seed=1, why="repeat")], matrix)) is not None:
        begun = RunBegun(at=AT, spent_s=0.0, number=choice.number, task=choice.task, command=[])
        under_way.attempts.append(Attempt(begun=begun, outcome=outcome()))
        under_way.spent_s += 60.0
        brokers.append((choice.task.why, choice.task.settings.get("brokers", 0)))
    drawn = [one for why, one in brokers if why == "matrix"]
    assert sorted(drawn[:2]) == sorted(drawn[2:4]) == [3, 5]
    assert {one for why, one in brokers if why != "matrix"} == {0}
