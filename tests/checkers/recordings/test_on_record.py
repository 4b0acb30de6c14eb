"""Checks claim no more than a recording can hold: near misses with the same rows and less on record."""

from pathlib import Path
from typing import Any

import pytest

from checkers.verdict.judged_run import NOT_ON_RECORD
from tests.checkers.recordings.test_contradictions import process
from tests.checkers.recordings.test_formats import found, op, records, text, verdict_of

SENT = op(0, 10, sends=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)))


def holds(*facts: str) -> dict[str, Any]:
    return {"line": "recording", "format": 1, "on_record": list(facts)}


def committed(offset: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": 0, "offset": offset}]


# Copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"acks": None}])
def test_a_member_that_may_send_is_not_claimed_to_copy(tmp_path: Path, settings: dict[str, Any]) -> None:
    reads = op(1, 50, reads=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)), commits=committed(4))
    lines = text(holds("from_start", "commits"), process(1, group="g", **settings), SENT, reads)
    verdict = verdict_of(tmp_path, "jsonl", lines)
    assert (found(verdict), verdict.valid) == ([], True)
    check = verdict.checks["exactly-once"]
    assert (check.status, check.why) == ("unasked", NOT_ON_RECORD)
