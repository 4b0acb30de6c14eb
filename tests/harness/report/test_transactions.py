"""The transactions around a finding: whose, from when to when, what of them the readers were given."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.op import Outcome
from harness.report import inputs
from harness.report.drawing import around
from harness.report.evidence import transactions
from harness.report.evidence.choice import ChosenExamples
from history.verdict import Fault
from tests.histories import report_histories
from tests.histories.report_findings import CLIENT_FAULT, TXNS, anomalous, transactional
from tests.histories.report_histories import ns
from tests.histories.report_runs import FAULTS, Folder, clean


def built(folder: Folder, tmp_path: Path) -> ChosenExamples[transactions.TransactionTimeline]:
    read = inputs.read(folder.write(tmp_path / "run"))
    found = transactions.build(read)
    assert read.gaps == []
    return found


def lanes(timeline: transactions.TransactionTimeline, kind: str) -> dict[str, list[int]]:
    """Ops by lane."""
    return {lane.label: [b.op for b in lane.bars] for lane in timeline.lanes if lane.kind == kind}


def test_a_torn_transaction_stands_among_those_of_its_id(tmp_path: Path) -> None:
    timeline = built(anomalous(), tmp_path).shown["torn-txn", 0]
    assert lanes(timeline, "txn") == {"inquest-2": [2210, 2214, 2230, 2231, 2232]}
    assert lanes(timeline, "partition") == {"queue-1": [2210], "queue-4": [2210, 2214]}
    assert lanes(timeline, "reader").keys() == {"consumer 12 RC", "consumer 13 RU"}
    assert {row.op: row.fate for row in timeline.rows if row.subject} == {2210: "committed", 2214: "unknown"}
    assert {row.op: row.records for row in timeline.rows}[2210] == [("queue-1", 1), ("queue-4", 1)]
    assert timeline.shown == [("read_committed", 1, 3), ("read_uncommitted", 1, 3)]


def test_a_transaction_that_was_never_over_ends_with_its_process(tmp_path: Path) -> None:
    timeline = built(anomalous(), tmp_path).shown["torn-txn", 0]
    bar = next(bar for bar in timeline.lanes[0].bars if bar.op == 2214)
    assert [bar.begin, bar.end] == pytest.approx([49.0, 59.1])
    assert not bar.completed
    assert [row.op for row in timeline.rows if not row.completed] == [2214]


def test_the_window_holds_the_subjects_and_a_part_to_either_side(tmp_path: Path) -> None:
    timeline = built(transactional(), tmp_path).shown["eos-duplicate", 0]
    begin, end = TXNS[2230]["begin"], TXNS[2232]["begin"] + TXNS[2232]["took"]
    assert begin - 1 < timeline.begin < begin
    assert end < timeline.end < end + 1


def test_a_zombie_is_a_subject_beside_its_successor(tmp_path: Path) -> None:
    timeline = built(transactional(), tmp_path).shown["zombie-write", 0]
    subjects = {bar.op: bar.style for bar in timeline.lanes[0].bars if bar.subject}
    assert subjects == {2230: "ok", 2231: "info"}


def test_twins_of_one_id_have_lanes_of_their_own(tmp_path: Path) -> None:
    folder = transactional()
    rows = folder.tables["processes"].to_pylist()
    for row in rows:
        if row["process"] == 36:
            row["slot"] = 8
    folder.tables["processes"] = report_histories.table("processes", rows)
    timeline = built(folder, tmp_path).shown["zombie-write", 0]
    found = lanes(timeline, "txn")
    assert found == {"inquest-2, client 2": [2231], "inquest-2, client 8": [2230, 2232]}


@pytest.mark.parametrize("name", ["hanging-txn", "stuck-lso"])
def test_what_hangs_is_found_where_the_last_stable_offset_stands(name: str, tmp_path: Path) -> None:
    timeline = built(transactional(), tmp_path).shown[name, 0]
    assert [row.op for row in timeline.rows if row.subject] == [2214]
    assert [(row.producer_id, row.start) for row in timeline.opened] == [(2004, 20)]
    assert timeline.shown == [("read_committed", 0, 2), ("read_uncommitted", 2, 2)]


def test_findings_that_name_no_transaction_have_no_timeline(tmp_path: Path) -> None:
    found = built(transactional(), tmp_path)
    assert {name for name, _ in found.shown} == {
        "hanging-txn",
        "stuck-lso",
        "aborted-read",
        "eos-duplicate",
        "zombie-write",
    }
    assert built(clean(), tmp_path / "clean") == ChosenExamples()


def test_timelines_are_bounded_and_the_same_one_is_drawn_once(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    torn = folder.verdict.anomalies["torn-txn"]
    one = msgspec.structs.replace(torn.examples[0], ops=torn.examples[0].ops[:1])
    others = [
        msgspec.structs.replace(one, ops=[msgspec.structs.replace(one.ops[0], op=op)])
        for op in range(2200, 2210)
    ]
    many = msgspec.structs.replace(torn, examples=[one, one, *others])
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies={"torn-txn": many, "G1c": many})
    found = built(folder, tmp_path)
    assert len(found.shown) == transactions.TIMELINES_MAX
    assert found.same == {("torn-txn", 1): 0, ("G1c", 1): 0}


def test_a_crowded_lane_keeps_the_subjects_and_counts_the_rest(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.ops is not None
    changes: dict[int, dict[str, int]] = {
        op: {
            "process": 4,
            "txn": 1,
            "outcome": Outcome.OK,
            "invoke_ns": ns(48.0 + op / 1e4),
            "complete_ns": ns(48.0 + op / 1e4 + 1e-4),
        }
        for op in range(200)
    }
    folder.ops = report_histories.changed(folder.ops, changes)
    timeline = built(folder, tmp_path).shown["torn-txn", 0]
    bars = timeline.lanes[0].bars
    assert len(bars) == transactions.BARS_MAX
    assert {2210, 2214} <= {bar.op for bar in bars}
    assert len(timeline.rows) == transactions.ROWS_MAX
    assert timeline.left_out == transactions.BARS_MAX - transactions.ROWS_MAX


def test_faults_of_clients_stand_behind_their_lanes_alone(tmp_path: Path) -> None:
    timeline = built(anomalous(), tmp_path).shown["torn-txn", 0]

    def behind(faults: list[Fault]) -> dict[str, list[str]]:
        drawing = around.transactions(timeline, faults)
        behind_all = [band.name for band in drawing.behind]
        return {each.label: behind_all + [band.name for band in each.behind] for each in drawing.strips}

    assert behind([CLIENT_FAULT]) == {
        "inquest-2": [CLIENT_FAULT.name],
        "queue-1": [],
        "queue-4": [],
        "consumer 12 RC": [],
        "consumer 13 RU": [],
    }
    assert set(map(tuple, behind([FAULTS[2]]).values())) == {(FAULTS[2].name,)}


def test_bars_stay_on_their_axis_and_say_what_they_are(tmp_path: Path) -> None:
    found = built(transactional(), tmp_path)
    for timeline in found.shown.values():
        drawing = around.transactions(timeline, [*FAULTS, CLIENT_FAULT])
        bars: list[Any] = [bar for each in drawing.strips for bar in each.bars]
        assert bars
        assert all(bar.x <= drawing.axis.length and bar.x + bar.width >= 0 for bar in bars)
    told = [bar.text for lane in found.shown["eos-duplicate", 0].lanes for bar in lane.bars]
    assert "op 2230, process 36, committed; records to queue-1 (1)" in told
