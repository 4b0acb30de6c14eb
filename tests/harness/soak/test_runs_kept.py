"""Run folders after their runs: what a run came to, what is kept of it, and which folder is its own."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.config import run_config
from harness.compose import create_folder
from harness.nights.session_log import RunBegun, RunResult, State, owner
from harness.soak import runs
from harness.soak.runs import folder_of, quiet, reduce, result_of, whole
from history.events import Recorder
from history.run_folder import Run
from history.verdict import Anomaly
from tests.harness.nights import made_sessions
from tests.harness.nights.made_sessions import LOST, by_hand, canary, task

LOST_WRITE = Anomaly(
    title="", literature="", meaning="", count=3, disallowed=2, allowed=False, why="",
    known_bug="KAFKA-1",
)  # fmt: skip


def judged(tmp_path: Path, code: int, exit_code: int | None = None, **more: Any) -> RunResult:
    """The outcome of a process that ended with `code` and left a verdict that says `exit_code`."""
    log = tmp_path / "log"
    log.write_text("starting\nTraceback\nModuleNotFoundError: no module\n")
    late = more.pop("late", False)
    folder = None if exit_code is None else by_hand(tmp_path, exit_code=exit_code, **more)
    return result_of(code, seconds=5.0, folder=folder, log=log, late=late)


@pytest.mark.parametrize(
    ("code", "state"), [(0, "valid"), (1, "anomaly"), (2, "unknown"), (3, "not-recovered"), (4, "silent")]
)
def test_an_exit_code_with_its_verdict(tmp_path: Path, code: int, state: State) -> None:
    found = judged(tmp_path, code, code, anomalies={"lost-write": LOST_WRITE})
    assert (found.state, found.judged, found.error) == (state, True, "")
    assert found.folder == "20260301T101500Z-queue-kill-42"
    assert [(f.name, f.count, f.disallowed, f.known_bug) for f in found.anomalies] == [
        ("lost-write", 3, 2, "KAFKA-1")
    ]
    assert found.open == []
    assert found.recovery_s == 2.5


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 64, 70, -9, -11, 77])
def test_a_code_without_a_verdict_is_an_error_never_a_finding_never_a_pass(tmp_path: Path, code: int) -> None:
    found = judged(tmp_path, code)
    assert (found.state, found.judged, found.anomalies) == ("error", False, [])
    assert "ModuleNotFoundError" in found.error


@pytest.mark.parametrize(("code", "exit_code"), [(0, 1), (1, 0), (70, 1), (64, 0), (-9, 1)])
def test_a_verdict_that_says_something_else_is_an_error(tmp_path: Path, code: int, exit_code: int) -> None:
    found = judged(tmp_path, code, exit_code, anomalies={"lost-write": LOST_WRITE})
    assert (found.state, found.judged, found.anomalies) == ("error", False, [])


def test_a_damaged_verdict_is_an_error(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (folder / "verdict.json").write_text('{"run": ')
    assert result_of(0, seconds=1, folder=folder, log=tmp_path / "none").state == "error"


def test_an_interrupted_run(tmp_path: Path) -> None:
    assert judged(tmp_path, 130).state == "interrupted"
    found = judged(tmp_path, 130, 130, anomalies={"lost-write": LOST_WRITE})
    assert found.state == "interrupted"
    assert found.forbidden


def test_a_run_that_took_too_long_is_an_error_and_keeps_what_it_found(tmp_path: Path) -> None:
    found = judged(tmp_path, 130, 130, late=True, anomalies={"lost-write": LOST_WRITE})
    assert (found.state, len(found.forbidden)) == ("error", 1)
    assert "after 5 s: it took too long" in found.error


def test_what_is_kept_whole() -> None:
    states: list[State] = ["anomaly", "unknown", "not-recovered", "silent", "error"]
    assert all(whole(task(), made_sessions.outcome(state)) for state in states)
    assert whole(canary(), made_sessions.outcome("valid"))
    assert whole(task(), made_sessions.outcome("interrupted", LOST))
    assert not whole(task(), made_sessions.outcome("valid"))
    assert not whole(task(), made_sessions.outcome("valid", made_sessions.SKIPPED))
    assert not whole(task(), made_sessions.outcome("interrupted"))


def test_a_reduced_run_has_its_verdict_and_its_configuration(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    before = (folder / "verdict.json").read_bytes()
    for _ in range(2):
        reduce(folder)
        assert sorted(p.name for p in folder.iterdir()) == ["config.json", "verdict.json"]
    assert (folder / "verdict.json").read_bytes() == before


def test_a_reduction_that_a_crash_cut_short_can_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = by_hand(tmp_path, owner=OWNER)

    def dies(path: Path, ignore_errors: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            reduce(folder)
    assert folder_of(OWNER, tmp_path) == folder
    reduce(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "verdict.json"]


def test_nothing_is_removed_without_a_verdict(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (folder / "verdict.json").write_text("{")
    reduce(folder)
    assert (folder / "journal" / "0.jsonl").exists()
    reduce(tmp_path / "none")


BEGUN = RunBegun(at="2026-03-01T10:15:00.400+00:00", spent_s=0, number=3, task=task(seed=42), command=[])
OWNER = owner("20260301T101000Z", BEGUN)


def test_the_folder_of_a_run_is_the_one_that_says_so(tmp_path: Path) -> None:
    assert folder_of(OWNER, tmp_path / "none") is None
    by_hand(tmp_path, "20260301T101501Z-queue-kill-42")  # the same run, made by a person
    again = msgspec.structs.replace(BEGUN, at="2026-03-01T10:14:00.400+00:00")
    others = [owner("20260301T101000Z", again), owner("20260301T101000Z-2", BEGUN), f"{OWNER}0"]
    for number, other in enumerate(others):
        by_hand(tmp_path, f"20260301T10150{number}Z-other", owner=other)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").write_text(OWNER)
    assert folder_of(OWNER, tmp_path) is None
    mine = by_hand(tmp_path, "20260301T101504Z-queue-kill-42", owner=OWNER)
    (tmp_path / "20260301T101503Z-link").symlink_to(mine)
    assert folder_of(OWNER, tmp_path) == mine


def test_a_run_writes_down_whose_it_is(tmp_path: Path) -> None:
    config = run_config({"seed": 42})
    assert not create_folder(config, tmp_path).owner.exists()
    assert folder_of(OWNER, tmp_path) is None
    mine = create_folder(config, tmp_path, OWNER)
    assert folder_of(OWNER, tmp_path) == mine.folder


def test_a_folder_is_quiet_once_nobody_records_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RELEASE_S", 0.0)
    folder = by_hand(tmp_path)
    recorder = Recorder(Run(folder).events)
    try:
        assert not quiet(folder)
    finally:
        recorder.close()
    assert quiet(folder)


@pytest.mark.parametrize(
    ("code", "expect", "fired"),
    [
        (0, {"lost-write": True}, True),
        (2, {"lost-write": True}, True),
        (1, {"lost-write": True}, True),
        (1, {"lost-write": True, "torn-txn": False}, False),
        (4, {"lost-write": False}, False),
        (0, {}, None),
    ],
)
def test_whether_a_control_fired(
    tmp_path: Path, code: int, expect: dict[str, bool], fired: bool | None
) -> None:
    assert judged(tmp_path, code, code, expect=expect).fired is fired


def test_an_error_never_fired(tmp_path: Path) -> None:
    found = judged(tmp_path, 0, 0, late=True, expect={"lost-write": True})
    assert (found.state, found.fired) == ("error", None)
