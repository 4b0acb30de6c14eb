"""A whole session with runs that are made up: written down, cut short, given up."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from harness.nights.session_log import FOLDER, AnomalyCount, PlannedRun, RunResult, sessions
from harness.soak.scheduler import failing
from harness.soak.session import ERRORS_MAX, budget_seconds
from tests.harness.nights.made_sessions import LOST, outcome
from tests.harness.soak.fakes import Fakes, request, whys


def test_a_whole_session(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    assert fakes.go(request(tmp_path)) == 0
    (session,) = sessions(tmp_path)
    assert whys(session) == ["canary"] + ["matrix"] * 9
    assert session.ended is not None
    assert (session.ended.code, session.spent_s, session.started.seed) == (0, 600.0, 5)
    assert fakes.indexes == 11  # before the first run, and after each
    assert [a.begun.command for a in session.attempts] == [
        ["inquest", str(a.begun.task.seed)] for a in session.attempts
    ]


def test_the_same_seed_makes_the_same_session(tmp_path: Path) -> None:
    tasks = []
    for name in ("a", "b"):
        fakes = Fakes(tmp_path / name)
        fakes.go(request(tmp_path / name))
        tasks.append([begun.task for begun in fakes.made])
    assert tasks[0] == tasks[1]


def test_a_silent_canary_makes_the_session_void(tmp_path: Path) -> None:
    def comes_to(task: PlannedRun) -> RunResult:
        return outcome("silent" if task.why == "canary" else "valid")

    assert Fakes(tmp_path, comes_to).go(request(tmp_path)) == 4
    (session,) = sessions(tmp_path)
    assert session.void
    assert "matrix" in whys(session)


def test_the_second_session_begins_with_what_failed_in_the_first(tmp_path: Path) -> None:
    bad: list[PlannedRun] = []

    def comes_to(task: PlannedRun) -> RunResult:
        if task.why == "matrix" and len(bad) < 2:
            bad.append(task)
            return outcome("anomaly", LOST)
        return outcome()

    assert Fakes(tmp_path, comes_to).go(request(tmp_path)) == 1
    assert Fakes(tmp_path, lambda _: outcome()).go(request(tmp_path, seed=6)) == 0
    first, second = sessions(tmp_path)
    assert whys(second)[:4] == ["repeat", "repeat", "canary", "matrix"]
    for attempt, task in zip(second.attempts, bad, strict=False):
        made = attempt.begun.task
        assert made.key == task.key
        assert made.of.startswith(first.name)


def test_a_session_that_fails_fast_ends_with_its_first_open_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = AnomalyCount(name="lost-write", count=1, disallowed=1)
    found = outcome("anomaly", lost, seconds=1)
    fakes = Fakes(tmp_path, lambda _: found if len(fakes.made) == 3 else outcome(seconds=1))
    assert fakes.go(request(tmp_path, fail_fast=True)) == 1
    assert len(fakes.made) == 3
    assert "an open finding: the session ends here" in capsys.readouterr().err


def test_errors_in_a_row_end_the_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fakes = Fakes(tmp_path, lambda _: outcome("error", seconds=1))
    assert fakes.go(request(tmp_path)) == 70
    assert len(fakes.made) == ERRORS_MAX
    assert "in a row" in capsys.readouterr().err


def test_single_errors_do_not(tmp_path: Path) -> None:
    def comes_to(task: PlannedRun) -> RunResult:
        return outcome("valid" if len(fakes.made) % 2 else "error")

    fakes = Fakes(tmp_path, comes_to)
    assert fakes.go(request(tmp_path)) == 70
    assert len(fakes.made) > ERRORS_MAX


def test_a_repetition_that_this_version_cannot_make_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.harness.nights.made_sessions import task, write

    gone = task(preset="gone-preset", seed=4)
    renamed = [task(nemesis="gone-nemesis", seed=seed) for seed in range(10, 10 + ERRORS_MAX)]
    refused = task("gone-workload", seed=5)
    kept = task(seed=8)
    bad = [gone, *renamed, refused, kept]
    write(tmp_path, "20200101T000000Z", [(one, outcome("anomaly")) for one in bad])
    assert len(failing(sessions(tmp_path))) == len(bad)
    fakes = Fakes(tmp_path)
    fakes.go(request(tmp_path))
    assert [begun.task.seed for begun in fakes.made if begun.task.why == "repeat"] == [8]
    said = capsys.readouterr().err.splitlines()
    assert any("gone-preset" in line and "20200101T000000Z/1" in line for line in said)
    assert sum("gone-nemesis" in line for line in said) == len(renamed)
    assert any("gone-workload" in line for line in said)
    assert "canary" in whys(sessions(tmp_path)[-1])


def test_a_budget_without_room_for_the_canary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"30 s.*canary"):
        Fakes(tmp_path).open(request(tmp_path, budget_s=30.0))
    assert not (tmp_path / FOLDER).exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        Fakes(tmp_path).open(request(tmp_path / "file" / "results"))


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("30m", 1800), ("8h", 28800), ("1h30m", 5400), ("1h1s", 3601)]
)
def test_budgets(text: str, value: float) -> None:
    assert budget_seconds(text) == value


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "5m3h", "1.5h", "long", "0x5m"])
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        budget_seconds(text)
