"""When lines say that something happened: ops that never ended, clocks that err, and who was where then."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings.test_contradictions import process
from tests.checkers.recordings.test_formats import found, op, records, text, verdict_of

KNOWN = {"line": "recording", "format": 1, "on_record": ["from_start"]}


def begun(
    number: int, begin: int, outcome: str = "info", end: int | None = None, **more: Any
) -> dict[str, Any]:
    return {**op(number, begin, **more), "outcome": outcome, "end_ns": end}


# Ops that never ended ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "end", "forbidden"),
    [
        ("info", None, []),
        ("info", 11, ["offset-realtime-inversion"]),
        ("ok", 11, ["offset-realtime-inversion"]),
    ],
)
def test_when_an_op_that_never_ended_was_acknowledged_is_not_known(
    tmp_path: Path, outcome: str, end: int | None, forbidden: list[str]
) -> None:
    first = begun(0, 10, outcome, end, sends=records(("a", 1)))
    later = begun(2, 12, "ok", 20, sends=records(("b", 0)))
    reads = op(1, 50, reads=records(("b", 0), ("a", 1)))
    assert found(verdict_of(tmp_path, "jsonl", text(KNOWN, first, later, reads))) == forbidden


@pytest.mark.parametrize(("end", "forbidden"), [(None, []), (11, ["G1c-realtime"])])
def test_when_an_op_that_never_ended_read_is_not_known(
    tmp_path: Path, end: int | None, forbidden: list[str]
) -> None:
    reads = begun(1, 10, "info", end, reads=records(("a", 0)))
    sends = begun(0, 15, "ok", 16, sends=records(("a", 0)))
    verdict = verdict_of(tmp_path, "jsonl", text(KNOWN, reads, sends))
    assert found(verdict) == forbidden


def test_what_an_op_that_never_ended_read_is_shown_at_an_unknown_time(tmp_path: Path) -> None:
    sends = [op(0, 10, sends=records(("a", 0), ("b", 1))), op(5, 10, sends=records(("c", 2)))]
    reads = begun(1, 30, reads=records(("a", 0), ("c", 2), ("b", 1)))
    verdict = verdict_of(tmp_path, "jsonl", text(KNOWN, *sends, reads))
    assert "int-nonmonotonic-poll" in found(verdict)
    for anomaly in verdict.anomalies.values():
        assert [example.at_s for example in anomaly.examples] == [None] * len(anomaly.examples)


def test_a_process_whose_only_op_never_ended_has_a_journal_that_is_whole(tmp_path: Path) -> None:
    sends = begun(0, 10, sends=[*records(("a", 0)), {"topic": "t", "partition": 0, "value": "b"}])
    reads = begun(1, 50, reads=records(("a", 0)))
    other = op(2, 60, reads=records(("a", 0), ("b", 1)))
    verdict = verdict_of(tmp_path, "jsonl", text(KNOWN, process(0), process(1), sends, reads, other))
    assert (found(verdict), verdict.valid) == ([], True)
