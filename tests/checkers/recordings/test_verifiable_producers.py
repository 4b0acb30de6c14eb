"""What a producer of Kafka's own tools may have sent, where its output does not say it."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.run_tables import read
from harness.report import build
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.recordings import imported, imported_with
from tests.checkers.recordings.test_formats import GIVEN, START, STOP, acked, consumed, data, found, lines_of
from tests.histories.folders import check_run, write_run
from tests.histories.planted import random_history

Line = tuple[str, dict[str, Any]]


def consumer(*values: str) -> str:
    """Reads these from offset 0 on."""
    read = [data(value, offset) for offset, value in enumerate(values)]
    return lines_of(START, GIVEN, *read, consumed(len(values)), STOP)


@pytest.mark.parametrize(
    ("others", "values", "forbidden"),
    [
        ((), ("0", "1.0"), ["phantom-read"]),
        (((START,),), ("0", "1.0"), []),  # a producer that was killed at once, or an idle consumer
        (((START, STOP),), ("0", "1.0"), ["phantom-read"]),  # no producer ends so
        (((START,),), ("0", "1.0", "1.1"), []),
        (((START,),), ("0", "1.0", "2.0"), ["phantom-read"]),  # one producer has one prefix
        (((START,), (START,)), ("0", "1.0", "2.0"), []),
        (((START,),), ("0", "x"), ["phantom-read"]),
    ],
)
def test_a_tool_that_only_started_may_be_a_producer(
    tmp_path: Path, others: tuple[tuple[Line, ...], ...], values: tuple[str, ...], forbidden: list[str]
) -> None:
    files = [lines_of(START, acked("0", 0), STOP), consumer(*values), *(lines_of(*one) for one in others)]
    run, recording = imported(tmp_path, "verifiable", *files, from_start=True)
    assert recording.reasons == []
    assert found(check_run(run)) == forbidden


# Records in doubt --------------------------------------------------------------------------------


def failed(value: str) -> Line:
    told = {"topic": "t", "key": None, "value": value, "exception": "x", "message": "y"}
    return "producer_send_error", told


def verdict_with(tmp_path: Path, *files: str, **settings: object) -> Verdict:
    run, recording = imported_with(settings, tmp_path, "verifiable", *files, from_start=True)
    assert recording.reasons == []
    return check_run(run)


IDEMPOTENT: dict[str, object] = {"idempotent": True, "isolation": "read_committed"}


@pytest.mark.parametrize("settings", [{}, IDEMPOTENT])
@pytest.mark.parametrize(
    "values",
    [
        ("0", "1", "2", "3"),  # 1 and 2 are in doubt
        ("0", "2", "3"),
        ("0", "3", "1", "2"),  # 1 was sent before 3, yet when it was is not on record
    ],
)
def test_a_record_in_doubt_was_not_sent_after_those_that_were_acknowledged(
    tmp_path: Path, settings: dict[str, object], values: tuple[str, ...]
) -> None:
    sure = [acked("0", 0), failed("1"), failed("2"), acked("3", values.index("3"))]
    verdict = verdict_with(tmp_path, lines_of(START, *sure, STOP), consumer(*values), **settings)
    assert "nonmonotonic-send" not in found(verdict)
    assert "phantom-read" not in found(verdict)


@pytest.mark.parametrize(("order", "forbidden"), [(("1", "2"), []), (("2", "1"), ["int-nonmonotonic-send"])])
def test_records_in_doubt_of_one_idempotent_producer_are_in_order(
    tmp_path: Path, order: tuple[str, str], forbidden: list[str]
) -> None:
    sent = lines_of(START, acked("0", 0), failed("1"), failed("2"), STOP)
    verdict = verdict_with(tmp_path, sent, consumer("0", *order), **IDEMPOTENT)
    assert found(verdict) == forbidden


def test_two_consumers_read_records_in_doubt_in_any_order(tmp_path: Path) -> None:
    sent = lines_of(START, acked("0", 0), failed("1"), failed("2"), STOP)
    later = lines_of(START, GIVEN, data("2", 2), consumed(1), STOP)
    run, _ = imported_with(IDEMPOTENT, tmp_path, "verifiable", sent, later, consumer("0", "1", "2"))
    assert found(check_run(run)) == []


def test_records_in_doubt_of_producers_with_one_prefix_have_no_order(tmp_path: Path) -> None:
    sent = [lines_of(START, acked("0", 0)), lines_of(START, acked("5", 1))]
    verdict = verdict_with(tmp_path, *sent, consumer("0", "5", "7", "6"), **IDEMPOTENT)
    assert found(verdict) == []


def test_a_record_in_doubt_of_an_idempotent_producer_stands_once(tmp_path: Path) -> None:
    sent = lines_of(START, acked("0", 0), failed("1"), STOP)
    verdict = verdict_with(tmp_path, sent, consumer("0", "1", "1"), **IDEMPOTENT)
    assert "duplicate" in found(verdict)


# What tables and reports say -------------------------------------------------------------------


def test_a_record_in_doubt_makes_no_producer(tmp_path: Path) -> None:
    sent = [lines_of(START, acked(value, at), failed("7"), STOP) for at, value in enumerate(("0", "1"))]
    verdict = verdict_with(tmp_path, *sent, consumer("0", "1", "2", "3", "4"))
    assert [(one.count, one.produces) for one in verdict.clients] == [(2, True), (1, False)]
    page = (build(Run(tmp_path / "run"))).read_text()
    assert "2 processes, acks all, not idempotent" in page


def test_tables_have_null_for_what_an_import_does_not_know(tmp_path: Path) -> None:
    verdict_with(tmp_path, lines_of(START, acked("0", 0), STOP), consumer("0"))
    run = Run(tmp_path / "run")
    (sent,) = [row for table in read("sends", run) for row in table.to_pylist()]
    assert (sent["invoke_s"], sent["latency_s"], sent["offset"]) == (None, None, 0)
    assert sent["ack_s"] is not None
    (row,) = [row for table in read("runs", run) for row in table.to_pylist()]
    unknown = ("nemesis", "preset", "brokers", "duration_s", "started", "seed")
    assert {row[name] for name in unknown} == {None}
    assert (row["system"], row["workload"]) == ("imported", "imported")


def test_settings_of_another_version_hide_no_history(tmp_path: Path) -> None:
    verdict_with(tmp_path, lines_of(START, acked("0", 0), STOP), consumer("0"))
    plain = write_run(tmp_path / "plain", random_history(1)[0].tables())
    for run, timed in ((Run(tmp_path / "run"), False), (plain, True)):
        before = [row for table in read("runs", run) for row in table.to_pylist()]
        config = json.loads(run.config.read_bytes())
        run.config.write_text(json.dumps(config | {"a_setting_of_another_version": 1}))
        rows = [row for table in read("sends", run) for row in table.to_pylist()]
        assert {row["invoke_s"] is not None for row in rows} == {timed}
        assert [row for table in read("runs", run) for row in table.to_pylist()] == before != []
