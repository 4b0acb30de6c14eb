"""Run folders after their runs: what a run came to, what is kept of it, and which folder is its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.night import Begun, Outcome, State
from harness.soak.keep import discard, folder_of, outcome, reduce, whole
from harness.verdict import Anomaly
from tests import nights
from tests.nights import LOST, by_hand, canary, task

LOST_WRITE = Anomaly(
    title="", literature="", meaning="", count=3, disallowed=2, allowed=False, why="",
    known_bug="KAFKA-1",
)  # fmt: skip


def judged(tmp_path: Path, code: int, exit_code: int | None = None, **more: Any) -> Outcome:
    """The outcome of a process that ended with `code` and left a verdict that says `exit_code`."""
    log = tmp_path / "log"
    log.write_text("starting\nTraceback\nModuleNotFoundError: no module\n")
    late = more.pop("late", False)
    folder = None if exit_code is None else by_hand(tmp_path, exit_code=exit_code, **more)
    return outcome(code, seconds=5.0, folder=folder, log=log, late=late)


@pytest.mark.parametrize(
    ("code", "state"),
    [(0, "valid"), (1, "anomaly"), (2, "unknown"), (3, "not-recovered"), (4, "silent")],
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
def test_a_code_without_a_verdict_is_an_error_never_a_finding_never_a_pass(
    tmp_path: Path, code: int
) -> None:
    found = judged(tmp_path, code)
    assert (found.state, found.judged, found.anomalies) == ("error", False, [])
    assert "ModuleNotFoundError" in found.error


@pytest.mark.parametrize(("code", "exit_code"), [(0, 1), (1, 0), (70, 1), (64, 0), (-9, 1)])
def test_a_verdict_that_says_something_else_is_an_error(
    tmp_path: Path, code: int, exit_code: int
) -> None:
    found = judged(tmp_path, code, exit_code, anomalies={"lost-write": LOST_WRITE})
    assert (found.state, found.judged, found.anomalies) == ("error", False, [])


def test_a_damaged_verdict_is_an_error(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (folder / "verdict.json").write_text('{"run": ')
    assert outcome(0, seconds=1, folder=folder, log=tmp_path / "none").state == "error"


def test_an_interrupted_run(tmp_path: Path) -> None:
    assert judged(tmp_path, 130).state == "interrupted"
    found = judged(tmp_path, 130, 130, anomalies={"lost-write": LOST_WRITE})
    assert found.state == "interrupted"
    assert found.forbidden


def test_a_run_that_took_too_long_is_an_error_and_keeps_what_it_found(tmp_path: Path) -> None:
    found = judged(tmp_path, 130, 130, late=True, anomalies={"lost-write": LOST_WRITE})
    assert (found.state, len(found.forbidden)) == ("error", 1)
    assert "longer than 5 s" in found.error


def test_what_is_kept_whole() -> None:
    states: list[State] = ["anomaly", "unknown", "not-recovered", "silent", "error"]
    assert all(whole(task(), nights.outcome(state)) for state in states)
    assert whole(canary(), nights.outcome("valid"))
    assert whole(task(), nights.outcome("interrupted", LOST))
    assert not whole(task(), nights.outcome("valid"))
    assert not whole(task(), nights.outcome("valid", nights.SKIPPED))
    assert not whole(task(), nights.outcome("interrupted"))


def test_a_reduced_run_has_its_verdict_and_its_configuration(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    before = (folder / "verdict.json").read_bytes()
    for _ in range(2):
        reduce(folder)
        assert sorted(p.name for p in folder.iterdir()) == ["config.json", "verdict.json"]
    assert (folder / "verdict.json").read_bytes() == before


def test_nothing_is_removed_without_a_verdict(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (folder / "verdict.json").write_text("{")
    reduce(folder)
    assert (folder / "journal" / "0.jsonl").exists()
    reduce(tmp_path / "none")


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    what = task(seed=42)
    at = "2026-03-01T10:15:00.400+00:00"
    begun = Begun(at=at, spent_s=0, number=1, task=what, command=[])
    assert folder_of(begun, tmp_path / "none", ()) is None
    older = by_hand(tmp_path, "20260301T101459Z-queue-kill-42")
    assert folder_of(begun, tmp_path, ()) is None
    other = by_hand(tmp_path, "20260301T101501Z-queue-kill-43")
    (other / "config.json").write_text(json.dumps({"seed": 43}))
    (tmp_path / "latest").symlink_to(older)
    (tmp_path / "zz").mkdir()
    assert folder_of(begun, tmp_path, ()) is None
    mine = by_hand(tmp_path, "20260301T101500Z-queue-kill-42")
    assert folder_of(begun, tmp_path, ()) == mine
    assert folder_of(begun, tmp_path, {mine.name}) is None


def test_a_broken_folder_is_discarded(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    discard(folder)
    assert not folder.exists()
