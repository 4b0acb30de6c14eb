"""A session that was broken off goes on: what is made again, what counts, and whose folders are touched."""

import os
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from core.errors import ConfigError
from harness.nights import session_log as sessions_of
from harness.nights.session_log import (
    FILE,
    FOLDER,
    PlannedRun,
    RunEnded,
    RunResult,
    SessionPaused,
    SoakSession,
    owner,
    read,
    sessions,
)
from harness.soak import runs
from harness.soak.matrix import Matrix, parse
from history.events import Recorder
from history.jsonl import Appender
from history.run_folder import Run
from tests.harness.nights.made_sessions import by_hand, outcome
from tests.harness.soak.fakes import NOW, TEXT, FakeClock, Fakes, request


def test_a_crash_in_the_middle_of_a_run_is_resumed(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, dies_at=4)
    with pytest.raises(KeyboardInterrupt):
        fakes.go(request(tmp_path))
    (session,) = sessions(tmp_path)
    broken = session.attempts[-1]
    assert (broken.outcome, session.ended) == (None, None)
    folder = by_hand(tmp_path, "20260301T220500Z-broken", owner=owner(session.name, broken.begun))
    (folder / "verdict.json").unlink()

    again = Fakes(tmp_path)
    assert again.go(request(tmp_path)) == 0
    (session,) = sessions(tmp_path)
    assert again.made[0].task == broken.begun.task
    assert again.made[0].command == broken.begun.command
    assert again.made[0].number == broken.begun.number
    assert not folder.exists()
    numbers = [attempt.begun.number for attempt in session.runs]
    assert numbers == list(range(1, len(numbers) + 1))
    whole = Fakes(tmp_path / "whole")
    whole.go(request(tmp_path / "whole"))
    made = [attempt.begun.task for attempt in session.runs]
    assert made == [begun.task for begun in whole.made][: len(made)]


def test_the_budget_counts_what_was_used_before_the_crash(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, dies_at=8)
    with pytest.raises(KeyboardInterrupt):
        fakes.go(request(tmp_path))
    again = Fakes(tmp_path, clock=FakeClock(origin=9e9, now=fakes.clock.now))  # the machine was started again
    again.go(request(tmp_path))
    assert len(again.made) == 3  # seven of ten were made
    (session,) = sessions(tmp_path)
    assert session.spent_s == 600.0


@pytest.mark.parametrize(("gone_s", "left"), [(0.0, 3), (1.0, 2), (36_000.0, 2)])
def test_the_run_that_was_under_way_counts_as_long_as_it_can_have_taken(
    tmp_path: Path, gone_s: float, left: int
) -> None:
    fakes = Fakes(tmp_path, dies_at=8)
    with pytest.raises(KeyboardInterrupt):
        fakes.go(request(tmp_path))
    again = Fakes(tmp_path, clock=FakeClock(now=fakes.clock.now + gone_s))
    again.go(request(tmp_path))
    assert len(again.made) == left


def test_a_run_whose_last_line_was_lost_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Fakes(tmp_path, dies_at=2).go(request(tmp_path))
    (session,) = sessions(tmp_path)
    begun = session.attempts[-1].begun
    mark = owner(session.name, begun)
    folder = by_hand(tmp_path, "20260301T220500Z-done", exit_code=1, valid=False, owner=mark)
    written = sessions_of.timestamp(begun.at) + 50.0
    os.utime(folder / "verdict.json", (written, written))
    again = Fakes(tmp_path)
    assert again.go(request(tmp_path)) == 1
    (session,) = sessions(tmp_path)
    adopted = session.attempts[1].outcome
    assert adopted is not None
    assert (adopted.state, adopted.folder, adopted.seconds) == ("anomaly", folder.name, 50.0)
    assert again.made[0].number == 3
    assert (folder / "report.html").exists()


def test_passed_runs_are_reduced_also_where_the_crash_came_before(tmp_path: Path) -> None:
    def comes_to(task: PlannedRun) -> RunResult:
        name = f"20260301T220500Z-{task.seed}"
        (session,) = sessions(tmp_path)
        by_hand(tmp_path, name, owner=owner(session.name, session.attempts[-1].begun))
        return outcome("anomaly" if task.nemesis == "kill" else "valid", folder=name)

    fakes = Fakes(tmp_path, comes_to)
    fakes.go(request(tmp_path))
    (session,) = sessions(tmp_path)
    for attempt in session.attempts:
        task = attempt.begun.task
        whole = task.why == "canary" or task.nemesis == "kill"
        folder = tmp_path / f"20260301T220500Z-{task.seed}"
        assert (folder / "verdict.json").exists()
        assert (folder / "report.html").exists() == whole
    file = tmp_path / FOLDER / session.name / FILE
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))  # not over
    passed = next(a for a in session.attempts if a.begun.task.nemesis == "none")
    folder = tmp_path / f"20260301T220500Z-{passed.begun.task.seed}"
    (folder / "report.html").write_text("")
    (folder / "soak").write_text(owner(session.name, passed.begun))
    Fakes(tmp_path, comes_to).go(request(tmp_path))
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "verdict.json"]


def reaping(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """Folders whose containers were removed; none is, in fact."""
    reaped: list[Path | None] = []

    def release(folder: Path | None, _: object) -> list[str]:
        reaped.append(folder)
        return []

    monkeypatch.setattr(runs, "release", release)
    return reaped


@pytest.mark.parametrize("recorded_into", [False, True])
@pytest.mark.parametrize("judged", [False, True])
def test_a_run_made_by_hand_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: bool, recorded_into: bool
) -> None:
    reaped = reaping(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        Fakes(tmp_path, dies_at=2).go(request(tmp_path))
    (session,) = sessions(tmp_path)
    task = session.attempts[-1].begun.task
    folder = by_hand(tmp_path, f"20260301T220130Z-by-hand-{task.seed}",
                     config=msgspec.structs.asdict(task), seed=task.seed)  # fmt: skip
    if not judged:
        (folder / "verdict.json").unlink()
    before = sorted(folder.rglob("*"))
    recorder = Recorder(Run(folder).events) if recorded_into else None
    again = Fakes(tmp_path)
    assert again.go(request(tmp_path)) == 0
    if recorder is not None:
        recorder.close()
        before.append(Run(folder).events)
    assert sorted(folder.rglob("*")) == sorted(before)
    assert [path for path in reaped if path is not None] == []
    assert again.made[0].task == task


def test_the_run_of_the_crash_that_is_still_recorded_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reaped = reaping(monkeypatch)
    monkeypatch.setattr(runs, "RELEASE_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        Fakes(tmp_path, dies_at=2).go(request(tmp_path))
    (session,) = sessions(tmp_path)
    mark = owner(session.name, session.attempts[-1].begun)
    folder = by_hand(tmp_path, "20260301T220130Z-mine", owner=mark)
    (folder / "verdict.json").unlink()
    recorder = Recorder(Run(folder).events)
    again = Fakes(tmp_path)
    try:
        assert again.go(request(tmp_path)) == 0
    finally:
        recorder.close()
    assert (folder / "journal").exists()
    assert reaped == []
    assert folder.name in capsys.readouterr().err


@pytest.mark.parametrize("how", ["..", "a link", "another run's", "../outside", "a\0b", "x" * 300])
def test_only_the_folder_of_the_run_itself_is_reduced(tmp_path: Path, how: str) -> None:
    results = tmp_path / "results"
    with pytest.raises(KeyboardInterrupt):
        Fakes(results, dies_at=2).go(request(results))
    (session,) = sessions(results)
    begun = session.attempts[-1].begun
    mark = owner(session.name, begun)
    outside = by_hand(tmp_path, "outside", owner=mark)
    theirs = by_hand(results, "another run's", owner=owner("another session", begun))
    (results / "a link").symlink_to(outside)
    passed = RunEnded(at=begun.at, spent_s=120, number=2, outcome=outcome(folder=how))
    log = Appender(results / FOLDER / session.name / FILE)
    log.append(passed)
    log.close()
    assert Fakes(results).go(request(results)) == 0
    assert (outside / "report.html").exists()
    assert (theirs / "report.html").exists()


def test_an_interrupted_session_is_resumed_by_the_same_command(tmp_path: Path) -> None:
    def comes_to(task: PlannedRun) -> RunResult:
        return outcome("interrupted") if len(fakes.made) == 3 else outcome()

    fakes = Fakes(tmp_path, comes_to, stops_at=3)
    assert fakes.go(request(tmp_path)) == 130
    (session,) = sessions(tmp_path)
    assert session.paused
    assert session.ended is None
    again = Fakes(tmp_path)
    assert again.go(request(tmp_path, seed=None)) == 0
    assert again.made[0].task == fakes.made[2].task
    (session,) = sessions(tmp_path)
    assert not session.paused


def test_a_run_that_kills_the_soak_twice_is_an_error_and_the_session_goes_on(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Fakes(tmp_path, dies_at=1).go(request(tmp_path))
    assert Fakes(tmp_path).go(request(tmp_path)) == 4  # it was the canary
    (session,) = sessions(tmp_path)
    outcomes = [attempt.outcome for attempt in session.runs]
    assert outcomes[0] is not None
    assert outcomes[0].state == "error"
    assert len(outcomes) > 3


def broken(tmp_path: Path) -> SoakSession:
    with pytest.raises(KeyboardInterrupt):
        Fakes(tmp_path, dies_at=2).go(request(tmp_path))
    return sessions(tmp_path)[-1]


OTHER = parse(TEXT.replace("duration_s = 20", "duration_s = 21"), "m.toml")


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"seed": 6}, "seed"), ({"budget_s": 601.0}, "budget"), ({"matrix": OTHER}, "matrix")],
)
def test_a_session_is_not_resumed_as_another_one(
    tmp_path: Path, changed: dict[str, float | Matrix], said: str
) -> None:
    session = broken(tmp_path)
    with pytest.raises(ConfigError, match=f"{session.name}.*{said}.*--new"):
        Fakes(tmp_path).open(request(tmp_path, **changed))
    other = Fakes(tmp_path).open(request(tmp_path, new=True, **changed))
    other.file.close()
    assert not other.resumed
    assert other.session.name != session.name


def test_what_is_not_asked_for_is_as_in_the_session(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Fakes(tmp_path, dies_at=2).go(request(tmp_path))
    Fakes(tmp_path).go(request(tmp_path, budget_s=None, seed=None))
    (session,) = sessions(tmp_path)
    assert session.ended is not None
    assert session.started.budget_s == 600


@pytest.mark.parametrize(("hours", "resumed"), [(48, True), (49, False)])
def test_a_session_is_as_old_as_its_last_step(tmp_path: Path, hours: int, resumed: bool) -> None:
    """It began, took a day, and stopped: what counts is how long ago it stopped."""
    begun = Fakes(tmp_path).open(request(tmp_path))
    pause = SessionPaused(at=(NOW + timedelta(hours=24.5)).isoformat(timespec="milliseconds"), spent_s=1.0)
    begun.file.append(pause)
    begun.file.close()
    later = Fakes(tmp_path)
    later.clock.now += 3600.0 * hours
    other = later.open(request(tmp_path))
    other.file.close()
    assert other.resumed == resumed == (other.session.name == begun.session.name)
    assert read(tmp_path / FOLDER / begun.session.name) is not None


def test_two_soaks_do_not_write_one_session(tmp_path: Path) -> None:
    first = Fakes(tmp_path).open(request(tmp_path))
    with pytest.raises(ConfigError, match=r"another soak.*--new"):
        Fakes(tmp_path).open(request(tmp_path))
    first.file.close()
