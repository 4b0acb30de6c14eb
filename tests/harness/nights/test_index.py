"""The index: tables, rates, what a session is called; everything from outside is text."""

import os
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

import msgspec
import pandas as pd
import pytest

from harness.nights import cards, github, page, shares
from harness.nights import totals as totals_module
from harness.nights.headline import SessionView
from harness.nights.session_log import FILE, FOLDER, AnomalyCount, RunEnded, SoakSession, Tested, sessions
from harness.nights.totals import Totals, totals
from harness.nights.trend import SESSIONS_MAX
from harness.nights.trend import build as build_trend
from history.jsonl import Appender
from history.tasks import Here
from history.verdict import Anomaly, ResultWord
from tests.harness.nights.made_sessions import (
    LOST,
    MATRIX,
    SKIPPED,
    TORN,
    by_hand,
    canary,
    hostile,
    many,
    outcome,
    task,
    write,
)

UNRECOVERED = AnomalyCount(name="not-recovered", count=1, disallowed=1)
FIRST, SECOND, THIRD = (f"2026030{day}T220000Z" for day in (1, 2, 3))
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}<b>"


def two_sessions(results: Path) -> list[SoakSession]:
    write(
        results,
        FIRST,
        [
            (canary(), outcome()),
            (task(seed=1), outcome("anomaly", LOST, folder="one")),
            (task(seed=2), outcome("valid", SKIPPED, available=0.9, recovery_s=3.0)),
            (task("queue", "none", seed=3), outcome()),
            (task(seed=4), outcome("error")),
        ],
    )
    write(
        results,
        SECOND,
        [
            (task(seed=1, why="repeat"), outcome("anomaly", LOST, TORN)),
            (canary(), outcome()),
            (task(seed=5), outcome(available=0.8, recovery_s=5.0)),
            (task(seed=6), outcome(available=1.0, recovery_s=7.0)),
            (task(seed=7), None),
        ],
        over=False,
    )
    return sessions(results)


def groups(results: Path) -> list[dict[str, Any]]:
    return come_to(results).groups


def come_to(results: Path) -> Totals:
    return totals(results, Here())


def wilson(many: int, of: int) -> tuple[float, float]:
    """The interval by its formula."""
    z = NormalDist().inv_cdf(0.975)
    p = many / of
    centre = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * (p * (1 - p) / of + z * z / (4 * of * of)) ** 0.5
    return centre - half, centre + half


def test_findings_are_grouped_with_their_rates_open_ones_first(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    lost, torn = groups(tmp_path)
    assert (lost["name"], lost["known_bug"], lost["open"]) == ("lost-write", "", True)
    assert (torn["name"], torn["known_bug"], torn["open"]) == ("torn-txn", "KAFKA-17754", False)
    assert (lost["newest"], lost["newest_of"]) == (1, 3)
    assert (lost["all"], lost["all_of"]) == (2, 5)
    assert (lost["fresh"], lost["fresh_of"]) == (1, 4)  # a repetition is no sample
    assert lost["rate"] == 0.25
    assert (lost["low"], lost["high"]) == pytest.approx(wilson(1, 4))
    assert (lost["first"], lost["last"]) == (FIRST, SECOND)
    assert (torn["fresh"], torn["fresh_of"], torn["rate"]) == (0, 4, 0.0)


@pytest.mark.sampled(10)
def test_a_planted_bug_is_a_group_with_rates_of_its_own_and_no_open_finding(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [
        (canary(), outcome()), (task(seed=1), outcome("anomaly", LOST, tested=PLANTED)),
        (task(seed=2), outcome("anomaly", LOST, TORN, tested=PLANTED)),
        (task(seed=3), outcome("anomaly", LOST)), (task(seed=4), outcome()), (task(seed=5), outcome()),
    ])  # fmt: skip
    found = {(one["name"], one["planted"]): one for one in groups(tmp_path)}
    assert [(place, one["open"], one["all"], one["all_of"], one["rate"]) for place, one in found.items()] == [
        (("lost-write", ""), True, 1, 3, pytest.approx(1 / 3)),
        (("lost-write", "keep-tail"), False, 2, 2, 1.0),
        (("torn-txn", "keep-tail"), False, 1, 2, 0.5),
    ]
    (session,) = sessions(tmp_path)
    summary = github.render(tmp_path, session)
    assert "| lost\\-write | **open** | queue x kill x safe | Kafka | 1/3 |" in summary
    where = "queue x kill x safe | simulated 4.3, the simulated client"
    assert f"| lost\\-write | planted bug keep\\-tail | {where} | 2/2 |" in summary
    assert f"| torn\\-txn | known bug KAFKA\\-17754 | {where} | 1/2 |" in summary
    rates = page.render(tmp_path).partition('<tbody id="group-rows">')[2].partition("</tbody>")[0]
    assert [rates.count(word) for word in ("✕ open", "planted: keep-tail", "known: KAFKA-17754")] == [1, 1, 1]


@pytest.mark.sampled(10)
def test_a_rate_is_of_one_system(tmp_path: Path) -> None:
    older = msgspec.structs.replace(REAL, version="3.9.2")
    write(tmp_path, FIRST, [(canary(), outcome()), *(
        (task(seed=seed), outcome("anomaly", LOST, tested=tested) if lost else outcome(tested=tested))
        for seed, tested, lost in ((1, older, True), (2, older, True), (3, REAL, False), (4, REAL, True))
    ), (task(seed=5), outcome(tested=msgspec.structs.replace(REAL, client="java")))])  # fmt: skip
    found = {one["version"]: one for one in groups(tmp_path)}
    told = ("all", "newest_of", "all_of", "rate")
    assert [found["3.9.2"][name] for name in told] == [2, 2, 2, 1.0]
    assert [found["4.3.1"][name] for name in told] == [1, 2, 2, 0.5]
    assert (found["3.9.2"]["low"], found["3.9.2"]["high"]) == pytest.approx(wilson(2, 2))
    assert "<td>Kafka 3.9.2<br>" in page.render(tmp_path)


@pytest.mark.sampled(10)
def test_a_cluster_that_did_not_recover_is_a_group_and_no_open_finding(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [
        (canary(), outcome()), (task(seed=1), outcome("not-recovered", UNRECOVERED)),
        (task(seed=2), outcome("anomaly", TORN)),
    ])  # fmt: skip
    assert {group["name"]: group["open"] for group in groups(tmp_path)} == {
        "not-recovered": False, "torn-txn": False,
    }  # fmt: skip
    shown = page.render(tmp_path)
    assert "✕ open" not in shown
    assert re.search(r'<th scope="row" class="nowrap">not-recovered</th>\s*<td.*! Did not recover', shown)
    (session,) = sessions(tmp_path)
    assert "| not\\-recovered | not recovered |" in github.render(tmp_path, session)


REAL = Tested(system="kafka", version="4.3.1", client="librdkafka")
PLANTED = Tested(system="simulated", version="4.3", client="the simulated client", planted="keep-tail")
HANGS = AnomalyCount(name="hanging-txn", count=1, disallowed=1, known_bug="KAFKA-17754")


@pytest.mark.sampled(14)
def test_a_row_is_a_bug_and_a_column_a_system(tmp_path: Path) -> None:
    older = msgspec.structs.replace(REAL, version="3.9.1")
    write(tmp_path, FIRST, [
        (task(seed=1), outcome("anomaly", TORN, HANGS, tested=REAL)),
        (task("transactions", "none", seed=2), outcome("anomaly", TORN, tested=REAL)),
        (task(seed=3), outcome(tested=older)),
        (task(seed=4), outcome("error")),
    ])  # fmt: skip
    found = come_to(tmp_path).findings
    assert [(one.system, one.version, one.judged) for one in found.columns] == [
        ("kafka", "3.9.1", 1), ("kafka", "4.3.1", 2),
    ]  # fmt: skip
    (row,) = found.rows
    assert (row.finding, row.names, row.runs) == ("KAFKA-17754", ("hanging-txn", "torn-txn"), (0, 2))
    assert not row.open
    assert not found.compared
    shown = page.render(tmp_path)
    assert "New since" not in shown
    assert "2/2" in shown
    assert "0/1" in shown


@pytest.mark.sampled(8)
def test_a_class_with_findings_of_two_bugs_is_in_the_row_of_each(tmp_path: Path) -> None:
    both = AnomalyCount(name="torn-txn", count=4, disallowed=3, known_bug="KAFKA-17754, KAFKA-20734")
    write(tmp_path, FIRST, [(task(seed=1), outcome("anomaly", both)), (task(seed=2), outcome())])
    found = come_to(tmp_path)
    assert [(row.finding, row.names, row.runs, row.open) for row in found.findings.rows] == [
        (bug, ("torn-txn",), (1,), False) for bug in ("KAFKA-17754", "KAFKA-20734")
    ]
    assert [(one["known_bug"], one["all"], one["all_of"]) for one in found.groups] == [
        ("KAFKA-17754", 1, 2), ("KAFKA-20734", 1, 2),
    ]  # fmt: skip
    assert [(row["runs"], row["findings"]) for row in found.allowed] == [(1, 1)]
    assert page.render(tmp_path).count("torn-txn 3</span>") == 1


@pytest.mark.sampled(13)
def test_what_the_newest_session_found_first_comes_first(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [(task(seed=1), outcome("anomaly", LOST, SKIPPED, tested=REAL))])
    write(tmp_path, SECOND, [
        (task(seed=2), outcome("anomaly", LOST, tested=REAL)),
        (task(seed=3), outcome("anomaly", TORN, tested=REAL)),
    ])  # fmt: skip
    found = come_to(tmp_path).findings
    assert [(row.finding, row.new) for row in found.rows] == [("KAFKA-17754", True), ("lost-write", False)]
    assert [row.finding for row in found.new] == ["KAFKA-17754"]
    shown = page.render(tmp_path)
    assert shown.index("New since the last session") < shown.index("All findings")
    assert shown.count('<span class="tag new">new</span>') == 1
    write(tmp_path, THIRD, [(task(seed=2), outcome("anomaly", LOST, tested=REAL))])
    assert come_to(tmp_path).findings.new == []
    assert "Nothing: an earlier session has every finding" in page.render(tmp_path)


@pytest.mark.sampled(8)
def test_a_planted_bug_is_no_open_finding_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, FIRST, [
        (task(seed=1), outcome("anomaly", LOST, tested=PLANTED)), (task(seed=2), outcome("anomaly", LOST)),
    ])  # fmt: skip
    theirs, planted = come_to(tmp_path).findings.rows
    assert (theirs.planted, theirs.open) == ("", True)
    assert (planted.planted, planted.open) == ("keep-tail", False)
    shown = page.render(tmp_path)
    assert shown.count("planted bug keep-tail") == 1, "of the row"
    assert shown.count("planted bug</span> keep-tail") == 2, "of the column, and of the run"
    assert '<span class="tag neutral">simulated 4.3</span>' in shown


def test_lines_of_older_versions_say_what_was_asked_for(tmp_path: Path) -> None:
    settings = {"sut": "simulated", "era": "2.4", "mutant": "keep-tail"}
    write(tmp_path, FIRST, [(task(seed=1, settings=settings), outcome()), (task(seed=2), outcome())])
    assert {(one.system, one.version, one.planted) for one in come_to(tmp_path).findings.columns} == {
        ("kafka", "", ""), ("simulated", "2.4", "keep-tail"),
    }  # fmt: skip


@pytest.mark.sampled(6)
def test_runs_have_the_words_of_reports(tmp_path: Path) -> None:
    config = {"sut": "simulated", "simulated": {"era": "0.10", "mutant": ""}}
    by_hand(tmp_path, config=config, expect={"lost-write": True})
    write(tmp_path, FIRST, [
        (canary(), outcome(fired=True)), (task(seed=1), outcome("anomaly", TORN)),
        (task(seed=2), outcome("error")), (task(seed=3), outcome(result="not exercised")),
        (task(seed=4), None), (task(seed=5), outcome(result="a word of a newer version")),
    ])  # fmt: skip
    runs = come_to(tmp_path).shown
    assert sorted(runs["word"]) == [
        "control fired", "control fired", "error", "known bugs only", "not exercised", "under way",
        "valid",
    ]  # fmt: skip
    shown = page.render(tmp_path)
    for word in (
        "✓ Control fired",
        "✕ Known bugs only",
        "○ Not exercised",
        "! Harness error",
        "simulated 0.10",
    ):
        assert word in shown


@pytest.mark.sampled(5)
def test_a_failing_run_has_a_card_with_what_broke(tmp_path: Path) -> None:
    many(tmp_path, sessions=4, runs=8)
    made = cards.build(tmp_path, come_to(tmp_path))
    assert 0 < len(made) <= cards.CARDS_MAX
    assert made[0].headline == "Records were never given to a group, 2 times"
    assert all(card.result in (ResultWord.ANOMALY, ResultWord.KNOWN_BUGS) for card in made)
    drawing = made[0].drawing
    assert drawing is not None
    assert [strip.label for strip in drawing.strips] == ["faults", "found"]
    (mark,) = {box.x for box in drawing.strips[-1].bars}
    assert mark == 12.5
    (tmp_path / made[0].folder).write_text("{")
    assert len(cards.build(tmp_path, come_to(tmp_path))) == len(made) - 1


def test_a_list_is_broken_after_its_commas_only() -> None:
    assert page.commas("kill:one@leader,<b>") == "kill:one@leader,<wbr>&lt;b&gt;"


def test_rates_leave_out_what_was_interrupted_or_chosen_for_what_it_does(tmp_path: Path) -> None:
    entries = [
        {"workload": "queue", "nemesis": "kill", "preset": "safe", "settings": {"brokers": 5}},
        {"workload": "queue", "nemesis": "pause", "preset": "safe", "seed": 9},
        {"workload": "queue", "nemesis": "none", "preset": "safe", "seed": None, "settings": {}},
    ]
    runs = [
        (task("queue", nemesis, seed=seed, why=why), came)
        for nemesis in ("kill", "pause", "none")
        for seed, why, came in (
            (1, "matrix", outcome("anomaly", LOST)), (2, "matrix", outcome()),
            (3, "matrix", outcome("interrupted", LOST, judged=True)),
            (9, "explicit", outcome("anomaly", LOST)), (5, "repeat", outcome("anomaly", LOST)),
        )
    ]  # fmt: skip
    write(tmp_path, FIRST, runs, matrix=MATRIX | {"runs": entries})
    found = {group["nemesis"]: (group["fresh"], group["fresh_of"], group["all_of"])
             for group in groups(tmp_path)}  # fmt: skip
    assert found == {"kill": (1, 2, 5), "pause": (1, 2, 5), "none": (2, 3, 5)}


@pytest.mark.parametrize("entries", [None, 5, [5], [{}], "text"])
def test_a_matrix_that_is_none_does_not_break_the_index(tmp_path: Path, entries: object) -> None:
    write(tmp_path, FIRST, [(task(why="explicit"), outcome("anomaly", LOST))],
          matrix={"runs": entries})  # fmt: skip
    assert groups(tmp_path)[0]["fresh_of"] == 1


@pytest.mark.sampled(5)
def test_what_is_allowed_is_counted_and_no_finding(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    assert come_to(tmp_path).allowed == [{"name": "poll-skip", "runs": 1, "findings": 4}]
    assert "poll-skip" not in {group["name"] for group in groups(tmp_path)}


def test_the_numbers_of_a_session(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    first, second = (view.numbers for view in come_to(tmp_path).views)
    assert (first["runs"], first["failing"], first["errors"], first["open"]) == (4, 1, 1, 1)
    assert (first["available"], first["recovery_s"]) == (0.9, 3.0)
    assert (second["runs"], second["failing"], second["open"], second["known"]) == (4, 1, 1, 1)
    assert (second["available"], second["recovery_s"]) == pytest.approx((0.9, 6.0))


@pytest.mark.sampled(6)
def test_runs_made_by_hand_are_listed_and_not_counted(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    lost = Anomaly(title="", literature="", meaning="", count=2, disallowed=2, allowed=False, why="")
    by_hand(tmp_path, valid=False, exit_code=1, anomalies={"lost-write": lost})
    before = groups(tmp_path)
    assert [group["all_of"] for group in before] == [5, 5]
    runs = come_to(tmp_path).shown
    hand = runs[runs["session"] == ""].iloc[0]
    assert (hand["state"], hand["seed"], hand["workload"]) == ("anomaly", 42, "queue")
    assert hand["report"] == "20260301T101500Z-queue-kill-42/report.html"
    assert hand["at"].startswith("2026-03-01T10:15:00")
    assert [found["name"] for found in hand["classes"]] == ["lost-write"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": 5}', "\xff"])
def test_a_damaged_verdict_is_a_line_of_its_own(tmp_path: Path, content: str) -> None:
    folder = by_hand(tmp_path)
    (folder / "verdict.json").write_bytes(content.encode("latin-1"))
    runs = come_to(tmp_path).shown
    assert list(runs["state"]) == ["error"]
    assert folder.name in page.render(tmp_path)


def test_links_to_latest_and_to_runs_of_sessions_are_not_listed_twice(tmp_path: Path) -> None:
    folder = by_hand(tmp_path)
    (tmp_path / "latest").symlink_to(folder)
    write(tmp_path, FIRST, [(task(), outcome(folder=folder.name))])
    runs = come_to(tmp_path).shown
    assert len(runs) == 1
    assert runs.iloc[0]["report"] == f"{folder.name}/report.html"


def test_an_attempt_that_was_made_again_is_not_listed_as_made_by_hand(tmp_path: Path) -> None:
    folder = by_hand(tmp_path, exit_code=130)
    write(tmp_path, FIRST, [
        (task(seed=1), outcome("interrupted", judged=True, folder=folder.name)),
    ], over=False)  # fmt: skip
    (session,) = sessions(tmp_path)
    log = Appender(tmp_path / FOLDER / FIRST / FILE)
    log.append(msgspec.structs.replace(session.attempts[0].begun, spent_s=60.0))
    log.append(RunEnded(at=session.last_at, spent_s=120, number=1, outcome=outcome(folder="other")))
    log.close()
    runs = come_to(tmp_path).shown
    assert list(runs["state"]) == ["valid"]
    assert list(runs["session"]) == [FIRST]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_folder_whose_name_is_no_text_is_listed_and_linked(tmp_path: Path, damaged: bool) -> None:
    folder = by_hand(tmp_path)
    if damaged:
        (folder / "verdict.json").write_text("{")
    folder.rename(tmp_path / os.fsdecode(b"20260301T101500Z-\xff"))
    shown = page.build(tmp_path).read_text()
    assert 'href="./20260301T101500Z-%FF/report.html"' in shown


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_session_that_names_a_folder_that_cannot_be(tmp_path: Path, name: str) -> None:
    write(tmp_path, FIRST, [(task(), outcome("anomaly", LOST, folder=name))])
    assert "1 open finding" in page.render(tmp_path)


def viewed(results: Path, runs: list[Any], *, over: bool = True) -> SessionView:
    write(results, FIRST, runs, over=over)
    (view,) = come_to(results).views
    return view


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(canary(), outcome()), (task(), outcome())], ["Valid"]),
        ([(canary(), outcome("silent")), (task(), outcome())], ["Void"]),
        ([(canary(), outcome("silent")), (task(), outcome("anomaly", LOST))],
         ["Void", "1 open finding"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", LOST)),
          (task(seed=8), outcome("anomaly", LOST, TORN))],
         ["1 open finding", "1 known bug"]),
        ([(canary(), outcome()), (task(), outcome("unknown")), (task(seed=2), outcome("error"))],
         ["1 run unknown", "1 error of the harness"]),
        ([(canary(), outcome()), (task(), outcome("not-recovered")),
          (task(seed=2), outcome("not-recovered"))], ["2 runs did not recover"]),
        ([(canary(), outcome())], ["Nothing tested yet"]),
        ([(canary(), outcome()), (task(preset="acks0"), outcome("silent"))],
         ["1 control did not fire"]),
        ([(canary(), outcome("unknown", fired=True)), (task(), outcome())], ["1 run unknown"]),
        ([(canary(), outcome("anomaly", LOST, fired=True)), (task(), outcome())],
         ["1 open finding"]),
        ([(canary(), outcome("anomaly", LOST, fired=False)), (task(), outcome())],
         ["Void", "1 open finding"]),
        ([(canary(), outcome()), (task(), outcome("not-recovered", UNRECOVERED))],
         ["1 run did not recover"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", LOST, UNRECOVERED)),
          (task(seed=2), outcome("not-recovered", UNRECOVERED))],
         ["1 open finding", "2 runs did not recover"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", LOST, tested=PLANTED))],
         ["1 finding of planted bugs"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", TORN, undecided=2))],
         ["1 known bug", "1 run unknown"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", TORN, HANGS)),  # one bug, three nemeses
          *((task("queue", nemesis), outcome("anomaly", TORN)) for nemesis in ("power", "wire"))],
         ["1 known bug"]),
        ([(canary(), outcome()), (task(preset="acks1"), outcome("anomaly", TORN, fired=False)),
          (task(preset="acks0"), outcome("anomaly", TORN, fired=True))],
         ["1 known bug", "1 control did not fire"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", TORN, UNRECOVERED))],
         ["1 known bug", "1 run did not recover"]),
        ([(canary(), outcome()), (task(), outcome(result="not exercised")),
          (task(seed=2), outcome(result="not exercised"))], ["2 runs not exercised"]),
        ([(canary(), outcome()), (task(), outcome(result="not exercised")),
          (task(seed=2), outcome(result="valid"))], ["1 run not exercised"]),
        ([(canary(), outcome(result="control fired", fired=True)), (task(), outcome(result="valid")),
          (task(seed=2), outcome())], ["Valid"]),
        ([(canary(), outcome()), (task(), outcome("anomaly", LOST)),
          (task(seed=2), outcome(result="not exercised"))], ["1 open finding", "1 run not exercised"]),
    ],
)  # fmt: skip
@pytest.mark.sampled(8)
def test_the_headline(tmp_path: Path, runs: list[Any], said: list[str]) -> None:
    assert [part.word for part in viewed(tmp_path, runs).parts] == said


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("runs", "over", "word", "told"),
    [
        ([], True, "Void", "did not run"),
        ([], False, "Not yet valid", "has not run yet"),
        ([(canary(), None)], False, "Not yet valid", "has not run yet"),
        ([(canary(), None)], True, "Void", "did not run"),
        ([(canary(), outcome("interrupted"))], False, "Not yet valid", "interrupted"),
        ([(canary(), outcome("interrupted"))], True, "Void", "interrupted"),
        ([(canary(), outcome("error"))], False, "Void", "reached no verdict"),
        ([(canary(), outcome("silent"))], False, "Void", "did not fire"),
        ([(canary(), outcome("silent"))], True, "Void", "did not fire"),
        ([(canary(), outcome("unknown", fired=True))], True, "1 run unknown", "fired"),
        ([(canary(), outcome("unknown", result="unknown"))], False, "Void", "left open whether it fires"),
        ([(canary(), outcome())], False, "Valid", "fired"),
    ],
)
def test_valid_is_said_only_after_the_canary_fired(
    tmp_path: Path, runs: list[Any], over: bool, word: str, told: str
) -> None:
    tested = (task(seed=1, why="repeat"), outcome())
    view = viewed(tmp_path, [tested, *runs], over=over)
    assert (view.parts[0].word, view.fired) == (word, told)
    (session,) = sessions(tmp_path)
    shown = page.render(tmp_path)
    assert shown.count(f"acks1: {told}") == 2
    assert ("the canary found what it has to find" in shown) == (word == "Valid")
    assert ("did not find what it has to find" in shown) == (told == "did not fire")
    assert f"Canary acks1: {told}." in github.render(tmp_path, session)


def test_the_row_of_a_canary_has_what_it_fired_by(tmp_path: Path) -> None:
    clean, fired = (
        "no forbidden anomaly in 7 ops",
        "allowed here: lost-write (14); the control found lost-write",
    )
    summary = f"{clean}; {fired}"
    write(
        tmp_path,
        "20261101T000000Z-1",
        [(canary(), outcome(fired=True, summary=summary)), (task(), outcome(summary=summary))],
    )
    rows = page.render(tmp_path).partition('<tbody id="run-rows">')[2].partition("</tbody>")[0]
    assert (rows.count(f">{fired}<"), rows.count(f">{clean}<")) == (1, 1)


@pytest.mark.sampled(5)
def test_the_page_says_what_matters(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    shown = page.build(tmp_path).read_text()
    assert "1 open finding" in shown
    assert "unfinished" in shown
    assert "1 known bug<" in shown
    assert shown.count("<tr data-") == 10
    assert "it keeps verdict.json and config.json" in shown
    assert "http://" not in shown
    assert "https://" not in shown


@pytest.mark.sampled(6)
def test_an_empty_folder_has_an_index(tmp_path: Path) -> None:
    assert "No session yet" in page.render(tmp_path)
    by_hand(tmp_path)
    assert "by hand" in page.render(tmp_path)


@pytest.mark.sampled(5)
def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    hostile(tmp_path, HOSTILE)
    by_hand(tmp_path, "20260301T101500Z-<b>&\"'", summary=HOSTILE,
            config={"workload": HOSTILE, "nemesis": HOSTILE, "preset": HOSTILE})  # fmt: skip
    shown = page.render(tmp_path)
    assert HOSTILE not in shown
    assert "<script>alert" not in shown
    assert "<b>" not in shown
    assert "49" not in re.sub(r"<style>.*?</style>", "", shown, flags=re.S).replace("{{7*7}}", "")
    assert shown.count("<script>") == 1


def test_addresses_stay_below_the_folder() -> None:
    assert page.href("javascript:alert(1)") == "./javascript%3Aalert%281%29"
    assert page.href("a b/?#.html") == "./a%20b/%3F%23.html"


def test_the_trend_has_a_column_a_session_and_the_newest_are_shown(tmp_path: Path) -> None:
    many(tmp_path, sessions=4, runs=6)
    numbers = pd.DataFrame([view.numbers for view in come_to(tmp_path).views])
    trend = build_trend(numbers)
    assert trend is not None
    assert [row.label for row in trend.rows] == [
        "runs", "open", "known bugs", "available", "recovery",
    ]  # fmt: skip
    runs = trend.rows[0]
    assert len({column.x for column in runs.columns}) == 4
    assert all(0 <= c.y <= 40 and c.y + c.height <= 40.2 for r in trend.rows for c in r.columns)
    long = numbers.iloc[[0] * (SESSIONS_MAX + 5)]
    cut = build_trend(long)
    assert cut is not None
    assert cut.left_out == 5
    assert build_trend(numbers.head(0)) is None
    nearly = build_trend(numbers.assign(available=0.9997))
    assert nearly is not None
    available = nearly.rows[3]
    assert available.note == "99.97 %"
    assert all(column.title.endswith("available 99.97 %") for column in available.columns)
    assert {round(column.height, 1) for column in available.columns} == {38.0}


@pytest.mark.sampled(5)
def test_a_long_history_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shares, totals_module):
        monkeypatch.setattr(module, "RUNS_MAX", 3)
    two_sessions(tmp_path)
    shown = page.render(tmp_path)
    assert shown.count("<tr data-") == 3
    assert "7 older runs not shown" in shown


def test_the_step_summary(tmp_path: Path) -> None:
    session = two_sessions(tmp_path)[-1]
    text = github.render(tmp_path, session)
    assert "1 open finding" in text
    assert "| lost\\-write | **open** | queue x kill x safe | Kafka | 1/3 | 2/5 |" in text
    assert "known bug KAFKA\\-17754" in text


def test_the_step_summary_of_a_void_session_with_markup(tmp_path: Path) -> None:
    hostile(tmp_path, HOSTILE)
    (session,) = sessions(tmp_path)
    text = github.render(tmp_path, session)
    assert "Void" in text
    assert "did not fire" in text
    assert "<script>" not in text
