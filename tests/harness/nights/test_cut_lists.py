"""What the index and the summary of a session leave out is counted or said."""

from pathlib import Path

import pytest

from harness.nights import cards, github, page
from harness.nights.session_log import sessions
from history.verdict import Anomaly
from tests.harness.nights.made_sessions import by_hand, canary, outcome, task, write

NAME = "20260301T220000Z"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("most", "left"), [(2, "… and 1 more"), (3, "")])
def test_errors_of_a_session_that_are_left_out_are_counted(
    most: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "ROWS_MAX", most)
    failed = [(task(seed=n), outcome("error")) for n in range(3)]
    write(tmp_path, NAME, [(canary(), outcome(fired=True)), *failed])
    lines = github.render(tmp_path, sessions(tmp_path)[-1]).splitlines()
    assert sum(line.startswith("- Error of the harness") for line in lines) == most
    assert [line for line in lines if line.startswith("…")] == [left] * bool(left)


@pytest.mark.sampled(5)
def test_cards_say_how_many_there_are_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "CARDS_MAX", 1)
    lost = Anomaly(title="", literature="", meaning="", count=2, disallowed=2, allowed=False, why="")
    for n in range(2):
        by_hand(
            tmp_path, f"2026030{n + 1}T101500Z-x", valid=False, exit_code=1, anomalies={"lost-write": lost}
        )
    shown = page.render(tmp_path)
    assert shown.count('class="card ') == 1
    assert "then the newest failing ones; 1 at most." in shown
