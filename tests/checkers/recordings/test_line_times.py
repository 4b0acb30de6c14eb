"""When lines say that something happened: ops that never ended, clocks that err, and who was where then."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings import imported
from tests.checkers.recordings.test_contradictions import moved, process
from tests.checkers.recordings.test_formats import found, op, records, text, verdict_of
from tests.histories.folders import check_run

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


# Times within a process --------------------------------------------------------------------------

READ = begun(1, 30, "ok", 40, reads=records(("a", 0)))
POSITIONS = {**KNOWN, "on_record": ["from_start", "positions"]}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        # Intervals of 10 to 20 and 21 to 30, each widened by 5.
        (
            [begun(0, 5, "ok", 25, sends=records(("a", 0))), begun(0, 16, "ok", 35, sends=records(("b", 1)))],
            "",
        ),
        (
            [begun(0, 5, "ok", 25, sends=records(("a", 0))), begun(0, 5, "ok", 25, sends=records(("b", 1)))],
            "",
        ),
        (
            [begun(0, 16, "ok", 35, sends=records(("a", 0))), begun(0, 5, "ok", 36, sends=records(("b", 1)))],
            "process 0 begins an op at 5 ns, before one that it began earlier, at 16 ns",
        ),
        (
            [begun(0, 5, "ok", 35, sends=records(("a", 0))), begun(0, 16, "ok", 34, sends=records(("b", 1)))],
            "process 0 ends an op at 34 ns, before what stands above it, at 35 ns",
        ),
        ([moved(1, 35, "assigned"), READ], ""),  # within the poll that follows
        ([READ, moved(1, 35, "assigned")], ""),  # within the poll before
        ([moved(1, 30, "assigned"), moved(1, 30, "revoked"), READ], ""),
        (
            [moved(1, 41, "assigned"), READ],
            "process 1 ends an op at 40 ns, before what stands above it, at 41 ns",
        ),
        ([READ, moved(1, 29, "assigned")], "process 1 is at 29 ns, before the op that it began at 30 ns"),
        (
            [READ, moved(1, 50, "assigned"), moved(1, 45, "revoked")],
            "process 1 is at 45 ns, before what stands above it, at 50 ns",
        ),
        ([begun(1, 30), moved(1, 50, "assigned")], "process 1 continues after an op that never ended"),
    ],
)
def test_times_of_a_process_do_not_go_back(tmp_path: Path, lines: list[dict[str, Any]], why: str) -> None:
    rest = [op(9, 60, sends=records(("z", 9)))]
    run, recording = imported(tmp_path, "jsonl", text(POSITIONS, *lines, *rest))
    assert [reason.split(": ", 2)[2] for reason in recording.reasons] == [why] * bool(why)
    assert "crashed" not in {check.status for check in check_run(run).checks.values()}


def test_ops_whose_intervals_were_widened_keep_their_order(tmp_path: Path) -> None:
    back = [
        begun(0, 5, "ok", 25, sends=records(("a", 1))),
        begun(0, 5, "ok", 25, sends=records(("b", 0))),
        op(1, 50, reads=records(("b", 0), ("a", 1))),
    ]
    assert found(verdict_of(tmp_path, "jsonl", text(KNOWN, *back))) == ["nonmonotonic-send"]


@pytest.mark.parametrize("at", [15, 25, 35])
def test_a_change_within_a_poll_explains_the_step_to_its_records(tmp_path: Path, at: int) -> None:
    sends = op(0, 5, sends=records(("a", 0), ("b", 1)))
    first, again = (begun(1, ns, "ok", ns + 10, reads=records(("a", 0))) for ns in (10, 30))
    lines = text(
        POSITIONS, sends, first, moved(1, at, "assigned"), again, op(2, 60, reads=records(("a", 0), ("b", 1)))
    )
    assert found(verdict_of(tmp_path, "jsonl", lines)) == []


@pytest.mark.parametrize("facts", [["from_start"], ["from_start", "positions"], ["positions"]])
@pytest.mark.parametrize(
    ("kinds", "then", "forbidden"),
    [
        (["seek"], 0, []),
        (["seek"], 3, []),
        ([], 0, ["nonmonotonic-poll"]),
        ([], 3, ["poll-skip"]),
        (["manual"], 0, ["nonmonotonic-poll"]),  # it keeps what it had, and its position
    ],
)
def test_a_seek_leads_anywhere(
    tmp_path: Path, facts: list[str], kinds: list[str], then: int, forbidden: list[str]
) -> None:
    values = [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    polls = [op(1, 20, reads=records(*values[:2])), op(1, 40, reads=records(*values[then:]))]
    given = [moved(1, 15, "manual"), polls[0], *(moved(1, 30, kind) for kind in kinds), polls[1]]
    every = op(2, 60, reads=records(*values))
    lines = text({**KNOWN, "on_record": facts}, op(0, 5, sends=records(*values)), *given, every)
    assert found(verdict_of(tmp_path, "jsonl", lines)) == forbidden
