"""The log around a finding: what stands at each offset is what the sealed records say."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.op import Isolation, Outcome
from harness.report import build, inputs
from harness.report.evidence import log_table
from harness.report.evidence.choice import ChosenExamples
from history import events as ev
from history.verdict import Anomaly, Example
from tests.histories import report_histories
from tests.histories.report_findings import anomalous, transactional
from tests.histories.report_histories import UNIT, History
from tests.histories.report_runs import Folder, clean


def folder_of(history: History, **classes: list[Example]) -> Folder:
    """A run with a history and examples by class (`_` for `-` in names)."""
    folder = clean(ops=50)
    assert folder.verdict is not None
    folder.tables = history.tables()
    anomalies = {
        name.replace("_", "-"): Anomaly(
            title=name,
            literature="",
            meaning="",
            count=len(examples),
            disallowed=len(examples),
            allowed=False,
            why="",
            examples=examples,
        )
        for name, examples in classes.items()
    }
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=anomalies)
    return folder


def example(partition: str, offsets: list[int], values: list[int], **more: Any) -> Example:
    return Example(
        sentence="", allowed=False, why="", partition=partition, offsets=offsets, values=values, **more
    )


def built(folder: Folder, tmp_path: Path) -> tuple[ChosenExamples[log_table.LogTable], list[str]]:
    read = inputs.read(folder.write(tmp_path / "run"))
    return log_table.build(read), read.gaps


def only(folder: Folder, tmp_path: Path) -> log_table.LogTable:
    found, gaps = built(folder, tmp_path)
    assert gaps == []
    assert len(found.shown) == 1
    return next(iter(found.shown.values()))


def plain(many: int, end: int = 60) -> History:
    """queue-0 with `many` records of process 3 from offset 0 on, all read."""
    history = History({"queue-0": (end, end)})
    for offset in range(many):
        history.send("queue-0", 3 << 32 | offset, offset, offset, 20.0)
        history.read_by_all("queue-0", 3 << 32 | offset, offset, 20.0)
    return history


def test_the_window_is_eight_offsets_to_either_side(tmp_path: Path) -> None:
    log = only(folder_of(plain(50), lost_write=[example("queue-0", [20], [3 << 32 | 20])]), tmp_path)
    assert [entry.offset for entry in log.entries] == list(range(12, 29))
    assert [entry.offset for entry in log.entries if entry.here] == [20]


def test_the_log_begins_at_its_begin_and_ends_at_its_end(tmp_path: Path) -> None:
    history = plain(12, end=12)
    log = only(folder_of(history, lost_write=[example("queue-0", [3, 10], [])]), tmp_path)
    assert [(e.offset, e.last) for e in log.entries if not e.gap] == [(n, n) for n in range(12)]
    assert [(e.offset, e.last, e.gap) for e in log.entries if e.gap] == [
        (12, 18, "after the end of the log, which is 12")
    ]


def test_what_an_entry_says_of_its_record(tmp_path: Path) -> None:
    history = plain(12)
    txn: dict[str, Any] = {"txn": 1}
    fates = [
        (txn, "committed", "ok"),
        (txn | {"op_outcome": Outcome.FAIL}, "aborted after an error", "fail"),
        (txn | {"op_outcome": Outcome.INFO}, "transaction unknown", "info"),
        ({"outcome": Outcome.INFO, "place": 15, "op_outcome": Outcome.INFO}, "unknown", "info"),
        ({"outcome": Outcome.FAIL, "place": 16}, "not written: its producer got a definite error", "fail"),
    ]
    for number, (more, _, _) in enumerate(fates):
        offset = 12 + number if "place" not in more else -1
        history.send("queue-0", 2 << 32 | number, offset, 40_000, 30.0, **more)
        history.read("queue-0", 2 << 32 | number, 12 + number, 13, 41, 30.1)
    folder = folder_of(history, duplicate=[example("queue-0", [14], [2 << 32 | 2])])
    by = {entry.offset: entry for entry in only(folder, tmp_path).entries}
    assert [(by[12 + n].fate, by[12 + n].style) for n in range(5)] == [f[1:] for f in fates]
    assert by[11].producer == "process 3 (client 1, inquest-1)"
    assert by[15].acked == "no acknowledgement"
    assert by[14].readers == ["RU 13"]
    assert by[11].readers == ["RC 12", "RU 13", "final RC", "final RU"]
    assert by[14].sent == pytest.approx(30.0)


def test_offsets_between_two_places_of_a_finding_are_said_to_be_left_out(tmp_path: Path) -> None:
    log = only(folder_of(plain(60), duplicate=[example("queue-0", [5, 50], [])]), tmp_path)
    assert [(e.offset, e.last, e.gap) for e in log.entries if e.gap] == [(14, 41, log_table.APART)]
    assert [e.offset for e in log.entries if e.here] == [5, 50]


def test_an_offset_with_several_values_shows_them_all(tmp_path: Path) -> None:
    log, _ = built(anomalous(), tmp_path)
    entries = log.shown["lost-write", 0].entries
    both = [entry for entry in entries if entry.offset == 5512]
    assert [(entry.value >> 32, entry.readers == []) for entry in both] == [(4, True), (7, False)]
    assert all(entry.marks == ["2 values at this offset"] for entry in both)


def test_a_value_at_several_offsets_names_the_others(tmp_path: Path) -> None:
    log, _ = built(transactional(), tmp_path)
    entries = [e for e in log.shown["duplicate", 0].entries if e.here]
    assert [(e.offset, e.marks, e.acked) for e in entries] == [
        (8, ["also at 15"], ""),
        (15, ["also at 8"], "acknowledged at 8"),
    ]


def test_a_record_without_any_offset_stands_at_the_end(tmp_path: Path) -> None:
    history = plain(30)
    history.send("queue-0", 4 << 32 | 9, -1, 31, 21.0)
    folder = folder_of(history, lost_write=[example("queue-0", [], [4 << 32 | 9])])
    log = only(folder, tmp_path)
    assert [(e.offset, e.acked, e.here) for e in log.entries] == [
        (-1, "acknowledged without an offset", True)
    ]


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ({"read_to": 60}, "the final reads returned no record here; it may hold a transaction marker"),
        ({"read_to": 20}, "unknown: the final reads stopped before this offset"),
        ({"start": 26, "read_to": 60}, "before the start of the log"),
    ],
)
def test_a_gap_is_explained_as_far_as_the_final_reads_tell(
    bound: dict[str, int], told: str, tmp_path: Path
) -> None:
    history = plain(24)
    history.send("queue-0", 3 << 32 | 26, 26, 50, 22.0)
    folder = folder_of(history, lost_write=[example("queue-0", [20], [])])
    row = {"tp": 0, "isolation": Isolation.READ_UNCOMMITTED, "start": 0, "end": 60, "complete": True}
    folder.tables["bounds"] = report_histories.table("bounds", [row | bound])
    gaps = [(e.offset, e.last, e.gap) for e in only(folder, tmp_path).entries if e.gap]
    assert (24, 25, told) in gaps


def test_an_example_within_the_log_of_another_of_its_class_gets_none(tmp_path: Path) -> None:
    examples = [example("queue-0", [offset], []) for offset in (10, 12, 40, 25)]
    found, _ = built(folder_of(plain(60), duplicate=examples, lost_write=examples[1:2]), tmp_path)
    assert set(found.shown) == {("duplicate", 0), ("lost-write", 0), ("duplicate", 2), ("duplicate", 3)}
    assert found.same == {("duplicate", 1): 0}


def test_the_logs_are_bounded_and_shared_out_among_the_classes(tmp_path: Path) -> None:
    history = History({"queue-0": (900, 900)})
    for offset in range(900):
        history.send("queue-0", 3 << 32 | offset, offset, 1, 20.0)
    many = [example("queue-0", [20 + 40 * n], []) for n in range(20)]
    found, _ = built(folder_of(history, duplicate=many, lost_write=many, torn_txn=many), tmp_path)
    assert len(found.shown) == log_table.TABLES_MAX
    assert {name: sum(key[0] == name for key in found.shown) for name, _ in found.shown} == {
        "duplicate": 8,
        "lost-write": 8,
        "torn-txn": 8,
    }
    assert len(found.missing) == 60 - log_table.TABLES_MAX


def test_offsets_beyond_the_first_few_are_counted(tmp_path: Path) -> None:
    folder = folder_of(plain(50), duplicate=[example("queue-0", [1, 9, 17, 25, 33, 41], [])])
    assert only(folder, tmp_path).left_out == 2


def test_a_stuck_partition_is_shown_where_its_last_stable_offset_stands(tmp_path: Path) -> None:
    folder = transactional()
    found, _ = built(folder, tmp_path)
    for name in ("hanging-txn", "stuck-lso"):
        assert [e.offset for e in found.shown[name, 0].entries if e.here] == [20]
    assert folder.events is not None
    folder.events = [e for e in folder.events if not isinstance(e, ev.TransactionsOpen)]
    found, _ = built(folder, tmp_path / "without")
    assert [e.offset for e in found.shown["stuck-lso", 0].entries if e.here] == [20]


def test_findings_of_no_known_partition_have_no_log(tmp_path: Path) -> None:
    folder = folder_of(plain(9), G0=[example("", [1], [1]), example("elsewhere-0", [1], [1])])
    found, gaps = built(folder, tmp_path)
    assert found == ChosenExamples()
    assert gaps == []


@pytest.mark.sampled(5)
def test_a_history_of_another_format_is_a_gap(tmp_path: Path) -> None:
    folder = folder_of(plain(30), lost_write=[example("queue-0", [20], [])])
    assert folder.names is not None
    folder.names["format"] = 1
    html = build(folder.write(tmp_path / "run")).read_text(encoding="utf-8")
    assert "history/names.json: format 1 is older" in html
    assert "nothing of the history is shown" in html


@pytest.mark.sampled(5)
def test_records_that_cannot_be_read_are_a_gap(tmp_path: Path) -> None:
    run = anomalous().write(tmp_path / "run")
    (run.history / "sends" / f"{UNIT}.parquet").write_bytes(b"PAR1 but not really")
    html = build(run).read_text(encoding="utf-8")
    assert f"history/sends/{UNIT}.parquet: " in html
    assert "the logs around findings are not shown" in html
    assert "the transactions around findings are not shown" in html
    assert "37 findings" in html


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["tps", "processes", "bounds"])
def test_small_tables_that_are_missing_are_a_gap(name: str, tmp_path: Path) -> None:
    run = anomalous().write(tmp_path / "run")
    run.table(name).unlink()
    html = build(run).read_text(encoding="utf-8")
    assert f"history/{name}.parquet: " in html
    assert "clients, logs, transactions are not shown" in html


def test_only_units_that_hold_the_partition_are_read(tmp_path: Path) -> None:
    folder = folder_of(plain(30), lost_write=[example("queue-0", [20], [])])
    assert folder.names is not None
    folder.names["units"] = [
        {"name": UNIT, "tps": [0, 5], "sends": 30, "reads": 120},
        {"name": "00001-00004", "tps": [1, 2, 3, 4], "sends": 1, "reads": 1},
    ]
    assert len(only(folder, tmp_path).entries) == 17, "the other unit has no file at all"
