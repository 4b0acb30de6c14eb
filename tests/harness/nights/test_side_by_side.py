"""Systems side by side: which runs count, rates with their intervals, a page of its own."""

from pathlib import Path
from typing import Any

import pytest

from harness.nights import page, totals
from harness.nights.session_log import AnomalyCount, PlannedRun, RunResult, Tested
from harness.nights.side_by_side import ALL, SideBySide
from history.tasks import Here
from tests.harness.nights.made_sessions import LOST, MATRIX, TORN, canary, outcome, task, write
from tests.harness.nights.test_index import FIRST, HANGS, PLANTED, SECOND, THIRD

COMPARING: dict[str, Any] = MATRIX | {"systems": [{}, {}]}
NOT_BACK = AnomalyCount(name="not-recovered", count=1, disallowed=1)
OLD, NEW = (Tested(system="kafka", version=one, client="librdkafka") for one in ("3.9.2", "4.4.0"))


def run(
    seed: int, tested: Tested, *found: Any, nemesis: str = "kill", **more: Any
) -> tuple[PlannedRun, RunResult]:
    return task(nemesis=nemesis, seed=seed), outcome(
        "anomaly" if found else "valid", *found, tested=tested, **more
    )


def side(results: Path) -> SideBySide:
    return totals.totals(results, Here()).side


@pytest.mark.sampled(11)
def test_a_cell_counts_the_runs_of_a_system_under_a_nemesis(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [
        (canary(), outcome("anomaly", LOST, tested=OLD)),
        run(1, OLD, available=0.5), run(2, NEW, LOST, available=1.0, recovery_s=2.0),
        run(3, OLD, nemesis="pause"), run(4, NEW, HANGS, recovery_s=4.0),
        (task(seed=5, why="repeat"), outcome("anomaly", LOST, tested=NEW)),
        (task(seed=6), outcome("error")), run(7, PLANTED, LOST),
    ], matrix=COMPARING)  # fmt: skip
    write(tmp_path, SECOND, [(canary(), outcome()), run(8, OLD, TORN)])  # it compares nothing
    found = side(tmp_path)
    assert found.columns == [("kafka", "3.9.2", "librdkafka"), ("kafka", "4.4.0", "librdkafka")]
    assert [*found.rows] == [ALL, "kill", "pause"]
    old, new = found.rows["kill"]
    assert old is not None
    assert new is not None
    assert (old.judged, old.forbidden, old.available, old.recovery_s) == (1, 0, 0.5, None)
    assert (new.judged, new.forbidden, new.open, new.available, new.recovery_s) == (2, 2, 1, 1.0, 3.0)
    assert (old.recovered, new.recovered) == (0, 2)
    write(tmp_path, THIRD, [run(9, OLD, recovery_s=1.0), run(9, NEW)], matrix=COMPARING)
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert "back after 1.0 s in 1/3" in shown  # OLD, all nemeses
    assert "back after 3.0 s in 2/3" in shown
    assert found.rows["pause"][1] is None
    every = found.rows[ALL][0]
    assert every is not None
    assert every.judged == 2
    # Wilson, 0 of 2 and 2 of 2: z²/(n+z²) with z = 1.96
    assert [every.low, every.high] == pytest.approx([0.0, 0.6576], abs=1e-4)
    assert [new.low, new.high] == pytest.approx([0.3424, 1.0], abs=1e-4)


@pytest.mark.sampled(6)
def test_a_bug_is_met_in_so_many_runs_and_after_so_long(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [
        (canary(), outcome("anomaly", TORN, tested=OLD)),  # it knows where to look
        run(1, OLD, seconds=50.0), run(2, NEW, TORN, seconds=30.0), run(3, NEW, TORN, LOST, seconds=20.0),
        (task(seed=4, why="repeat"), outcome("anomaly", TORN, tested=OLD)),
    ], matrix=COMPARING)  # fmt: skip
    write(tmp_path, SECOND, [
        run(5, OLD, seconds=7.0), run(6, OLD, TORN, seconds=9.0), run(7, NEW, seconds=8.0),
    ], matrix=COMPARING)  # fmt: skip
    found = side(tmp_path).met
    assert [*found] == [("lost-write", ""), ("KAFKA-17754", "KAFKA-17754")]
    lost, torn = ([(cell.runs, cell.judged, cell.first_s) for cell in row] for row in found.values())
    assert torn == [(1, 3, 50.0 + 7.0 + 9.0), (2, 3, 30.0)]
    assert lost == [(0, 3, 66.0), (1, 3, 30.0 + 20.0)]
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert "1/3" in shown
    assert "after 1 min" in shown
    assert "not in 1 min" in shown


@pytest.mark.sampled(10)
def test_the_page_says_how_many_runs_every_column_performed(tmp_path: Path) -> None:
    third = Tested(system="kafka", version="4.1.0", client="librdkafka")
    write(tmp_path, FIRST, [run(1, OLD), run(1, NEW), run(2, OLD, LOST), run(2, NEW)], matrix=COMPARING)
    assert "Each drawn run was performed on every column." in page.compared(totals.totals(tmp_path, Here()))
    write(tmp_path, SECOND, [run(1, NEW), run(1, third), run(3, NEW)], matrix=COMPARING)
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert "0 of 4 drawn runs were performed on every column" in shown
    write(tmp_path, THIRD, [run(1, one) for one in (OLD, NEW, third)], matrix=COMPARING)
    found = side(tmp_path)
    assert (found.everywhere, found.drawn) == (1, 5)


@pytest.mark.sampled(6)
def test_a_cell_without_a_share_of_time_begins_with_the_recovery(tmp_path: Path) -> None:
    runs = [run(1, OLD, recovery_s=3.1), run(2, NEW, recovery_s=3.1, available=0.5)]
    write(tmp_path, FIRST, runs, matrix=COMPARING)
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert '<span class="muted small">back after 3.1 s</span>' in shown
    assert "served 50 %, back after 3.1 s" in shown
    assert ">, back" not in shown


@pytest.mark.sampled(5)
def test_interrupted_runs_are_left_out_whatever_they_found(tmp_path: Path) -> None:
    cut = outcome("interrupted", LOST, tested=OLD, judged=True, seconds=5.0)
    write(tmp_path, FIRST, [
        (task(seed=1), cut), run(1, OLD, seconds=50.0), run(2, NEW, TORN, seconds=30.0),
        (task(seed=3), outcome("interrupted", tested=NEW, judged=True)),
    ], matrix=COMPARING, numbers=[1, 1, 2, 3])  # fmt: skip
    found = side(tmp_path)
    old, new = found.rows[ALL]
    assert old is not None
    assert new is not None
    assert [(one.judged, one.forbidden) for one in (old, new)] == [(1, 0), (1, 1)]
    cells = [(cell.runs, cell.judged, cell.first_s) for cell in found.met["KAFKA-17754", "KAFKA-17754"]]
    assert cells == [(0, 1, 50.0), (1, 1, 30.0)]
    assert [*found.met] == [("KAFKA-17754", "KAFKA-17754")]


@pytest.mark.sampled(6)
def test_that_a_cluster_did_not_recover_is_not_shown_as_open(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [run(1, OLD, NOT_BACK), run(2, NEW)], matrix=COMPARING)
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert "! did not recover" in shown
    assert "✕" not in shown
    write(tmp_path, SECOND, [run(3, OLD, LOST), run(4, NEW)], matrix=COMPARING)
    assert page.compared(totals.totals(tmp_path, Here())).count("✕ open") == 1


@pytest.mark.sampled(6)
def test_the_page_counts_the_sessions_that_compared(tmp_path: Path) -> None:
    for day, matrix in enumerate([MATRIX, COMPARING, COMPARING, MATRIX], 1):
        write(tmp_path, f"2026030{day}T220000Z", [run(1, OLD), run(2, NEW)], matrix=matrix)
    shown = page.compared(totals.totals(tmp_path, Here()))
    assert "4 runs in 2 sessions from 2026-03-02 22:00 to 2026-03-03 22:00." in shown


@pytest.mark.sampled(26)
def test_the_page_stands_alone_and_there_is_none_where_nothing_is_compared(tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    write(one, FIRST, [(canary(), outcome()), run(1, OLD)], matrix=COMPARING)
    evil = Tested(system="external", version="<script>alert(1)</script>", client="java")
    write(many, FIRST, [(canary(), outcome()), run(1, OLD), run(2, evil, LOST)], matrix=COMPARING)
    assert "Side by side" not in page.build(one).read_text()
    assert not (one / page.COMPARED).exists()
    index = page.build(many).read_text()
    assert 'href="./compared.html"' in index
    shown = (many / page.COMPARED).read_text()
    assert "1/1" in shown
    assert "✕ 1 open" in shown
    assert "2 runs in 1 session" in shown
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "href=" not in shown.replace('href="data:,"', "")
