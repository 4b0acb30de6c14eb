"""Where a consumer reads on from after an op that did not end well, where moves are not on record."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings.test_contradictions import moved
from tests.checkers.recordings.test_formats import found, op, records, text, verdict_of

VALUES = [(chr(97 + n), n) for n in range(9)]
SENDS = op(0, 10, sends=records(*VALUES))
EVERY = op(2, 90, reads=records(*VALUES))


def polls(*ops: tuple[str, range], facts: tuple[str, ...] = ("from_start",)) -> str:
    """Process 1 polls these offsets, an op each with its outcome."""
    recording = {"line": "recording", "format": 1, "on_record": list(facts)}
    own = [
        {**op(1, 20 + 2 * n, reads=records(*(VALUES[o] for o in offsets))), "outcome": outcome}
        for n, (outcome, offsets) in enumerate(ops)
    ]
    return text(recording, SENDS, *own, EVERY)


FIRST = ("ok", range(3))


@pytest.mark.parametrize("outcome", ["info", "fail"])
@pytest.mark.parametrize(
    ("then", "forbidden"),
    [
        (range(6, 9), []),  # the op took place: it reads on behind it
        (range(3, 9), []),  # it did not: it reads on before it
        (range(7, 9), ["poll-skip"]),
        (range(4, 9), ["poll-skip"]),
        (range(2, 9), ["nonmonotonic-poll"]),
    ],
)
def test_a_consumer_reads_on_from_before_or_behind_an_op_in_doubt(
    tmp_path: Path, outcome: str, then: range, forbidden: list[str]
) -> None:
    lines = polls(FIRST, (outcome, range(3, 6)), ("ok", then))
    assert found(verdict_of(tmp_path, "jsonl", lines)) == forbidden


@pytest.mark.parametrize(
    ("ops", "forbidden"),
    [
        ([("info", range(3, 5)), ("info", range(5, 7)), ("ok", range(7, 9))], []),
        ([("info", range(3, 5)), ("info", range(5, 7)), ("ok", range(5, 9))], []),
        ([("info", range(3, 5)), ("info", range(5, 7)), ("ok", range(3, 9))], []),
        ([("info", range(3, 5)), ("info", range(3, 7)), ("ok", range(7, 9))], []),
        ([("info", range(3, 5)), ("info", range(5, 7)), ("ok", range(6, 9))], ["poll-skip"]),
        ([("info", range(4, 5)), ("ok", range(3, 9))], ["poll-skip"]),
        ([("info", range(2, 5)), ("ok", range(5, 9))], ["nonmonotonic-poll"]),
        ([("ok", range(3, 6)), ("info", range(6, 7)), ("ok", range(3, 9))], ["nonmonotonic-poll"]),
    ],
)
def test_each_of_several_ops_in_doubt_may_have_taken_place(
    tmp_path: Path, ops: list[tuple[str, range]], forbidden: list[str]
) -> None:
    assert found(verdict_of(tmp_path, "jsonl", polls(FIRST, *ops))) == forbidden


@pytest.mark.parametrize(("rewinds", "forbidden"), [(False, []), (True, ["poll-skip"])])
def test_where_moves_are_on_record_they_decide(tmp_path: Path, rewinds: bool, forbidden: list[str]) -> None:
    lines = polls(FIRST, ("info", range(3, 6)), ("ok", range(6, 9)), facts=("from_start", "positions"))
    rewind: list[dict[str, Any]] = [moved(1, 23, "rewind")] * rewinds
    head, sends, first, doubt, *rest = lines.splitlines()
    lines = "\n".join([head, sends, first, doubt, *text(*rewind).splitlines(), *rest])
    assert found(verdict_of(tmp_path, "jsonl", lines)) == forbidden
