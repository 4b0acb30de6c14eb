"""What an export holds says what the history says; what it cannot say is named."""

from pathlib import Path
from typing import Any

import pytest

from checkers.api import check_portable
from checkers.recordings.export import Exported, events_of
from history.reader import load
from tests.checkers.recordings import imported
from tests.checkers.recordings.test_clocks import PRODUCER, at, polled
from tests.checkers.recordings.test_contradictions import moved, process
from tests.checkers.recordings.test_formats import (
    GIVEN,
    GONE,
    START,
    STOP,
    committed,
    found,
    op,
    records,
    text,
)
from tests.checkers.recordings.test_on_record import holds
from tests.checkers.recordings.test_round_trip import exported
from tests.histories.folders import check_run

VALUES = [(chr(97 + n), n) for n in range(6)]
SENDS = op(0, 10, sends=records(*VALUES))
UNSAFE = "of producers with acks 0 or 1, or without idempotence: this format takes each for acks=all"


def compared(tmp_path: Path, format: str, *contents: str, **options: Any) -> tuple[list[str], list[str]]:
    """Forbidden classes of an import, and of its export."""
    tmp_path.mkdir(exist_ok=True)
    run, recording = imported(tmp_path, format, *contents, **options)
    assert recording.reasons == []
    (tmp_path / "portable.json").write_text(exported(load(run), "portable"))
    (answer,) = check_portable(tmp_path / "portable.json")
    verdict = answer["by_config"]["assign+ww"]
    bad = [] if verdict["valid"] is True else list(verdict["anomalies"])
    again, recording = imported(tmp_path / "again", "jepsen", exported(load(run), "jepsen"))
    assert recording.reasons == []
    assert set(found(check_run(again))) <= set(bad)
    return found(check_run(run)), bad


def notes(tmp_path: Path, *lines: dict[str, Any]) -> Exported:
    run, _ = imported(tmp_path, "jsonl", text(*lines))
    return events_of(load(run))


# Assignments -------------------------------------------------------------------------------------


def test_what_a_group_gave_between_ops_explains_the_poll_behind_it(tmp_path: Path) -> None:
    once = (START, GIVEN, *polled(0, 1, 2), GONE, GIVEN, *polled(0, 1, 2), committed(3))
    consumer = at(1000, *once, *polled(3, 4, 5), committed(6), STOP)
    files = (PRODUCER, consumer)
    assert compared(tmp_path / "a", "verifiable", *files, from_start=True) == ([], [])
    again = at(1000, START, GIVEN, *polled(0, 1, 2), *polled(0, 1, 2), *polled(3, 4, 5), STOP)
    back = ["nonmonotonic-poll"]
    assert compared(tmp_path / "b", "verifiable", PRODUCER, again, from_start=True) == (back, back)


@pytest.mark.parametrize("kind", ["assigned", "seek", "reset", "manual"])
@pytest.mark.parametrize("ns", [25, 30, 31])
def test_a_move_between_ops_is_one_of_the_op_that_reads_behind_it(tmp_path: Path, kind: str, ns: int) -> None:
    first, again = op(1, 20, reads=records(*VALUES)), op(1, 30, reads=records(*VALUES[2:]))
    left = [moved(1, ns, "revoked")] * (kind == "manual")  # it had the partition, and has it again
    gone = [{**moved(1, ns, kind), "partitions": []}] * (kind == "manual")
    move = moved(1, ns, kind)
    lines = [holds("from_start", "positions"), SENDS, first, *left, *gone, move, again]
    assert compared(tmp_path, "jsonl", text(*lines)) == ([], [])
    run, _ = imported(tmp_path / "b", "jsonl", text(*lines[:3], again))
    assert found(check_run(run)) == ["nonmonotonic-poll"]


def test_a_move_of_another_partition_or_behind_the_last_read_explains_nothing(tmp_path: Path) -> None:
    first, again = op(1, 20, reads=records(*VALUES)), op(1, 30, reads=records(*VALUES[2:]))
    other = {**moved(1, 25, "assigned"), "partitions": [{"topic": "u", "partition": 0}]}
    lines = [holds("from_start", "positions"), SENDS, first, other, again, moved(1, 40, "revoked")]
    back = ["nonmonotonic-poll"]
    assert compared(tmp_path / "a", "jsonl", text(*lines)) == (back, back)
    left = notes(tmp_path / "b", *lines).left_out
    assert left == ["2 changes of assignments, of partitions that their process did not read afterwards"]


# Ops that ended in several ways ------------------------------------------------------------------


def sent(
    *outcomes: str, offsets: tuple[int | None, ...], outcome: str, end: int | None = 20
) -> dict[str, Any]:
    rows = []
    for n, (said, offset) in enumerate(zip(outcomes, offsets, strict=True)):
        rows.append({"topic": "t", "partition": 0, "value": VALUES[n][0], "outcome": said, "offset": offset})
    return {**op(0, 10, sends=rows), "outcome": outcome, "end_ns": end}


def read(*offsets: int) -> dict[str, Any]:
    return op(1, 50, reads=records(*(VALUES[n] for n in offsets)))


@pytest.mark.parametrize("end", [20, None])
@pytest.mark.parametrize("reads", [(0,), (0, 1)])
def test_a_record_that_failed_failed(tmp_path: Path, end: int | None, reads: tuple[int, ...]) -> None:
    line = sent("ok", "fail", offsets=(0, None), outcome="info", end=end)
    bad = ["aborted-read"] if 1 in reads else []
    assert compared(tmp_path, "jsonl", text(holds("from_start"), line, read(*reads))) == (bad, bad)


@pytest.mark.parametrize(
    ("outcomes", "offsets", "outcome", "reads", "bad"),
    [
        (("ok", "fail"), (0, None), "ok", (0,), []),
        (("ok", "fail"), (0, None), "fail", (0,), []),
        (("fail", "fail"), (None, None), "info", (1,), ["aborted-read"]),
        (("fail", "fail"), (None, None), "fail", (), []),
        (("ok", "info", "ok"), (0, None, 2), "ok", (0, 2), []),
        (("ok", "info", "ok"), (0, None, 2), "ok", (2,), ["lost-write"]),
        (("ok", "info", "ok"), (0, None, 2), "info", (2,), ["lost-write"]),
        (("ok", "info"), (None, None), "info", (0,), []),
        (("ok", "info"), (None, None), "info", (0, 1), []),
        (("info", "fail"), (None, None), "info", (0,), []),
    ],
)
def test_each_record_ends_as_it_ended(
    tmp_path: Path,
    outcomes: tuple[str, ...],
    offsets: tuple[int | None, ...],
    outcome: str,
    reads: tuple[int, ...],
    bad: list[str],
) -> None:
    line = sent(*outcomes, offsets=offsets, outcome=outcome)
    lines = text(holds("from_start"), line, read(*reads))
    here, there = compared(tmp_path, "jsonl", lines)
    assert (here, [name for name in there if name != "unseen"]) == (bad, bad)


def test_all_records_of_an_op_that_never_ended_failed(tmp_path: Path) -> None:
    line = sent("fail", "fail", offsets=(None, None), outcome="info", end=None)
    bad = ["aborted-read"]
    assert compared(tmp_path, "jsonl", text(holds("from_start"), line, read(1))) == (bad, bad)


def test_an_acknowledged_record_without_an_offset_was_acknowledged(tmp_path: Path) -> None:
    line = sent("ok", "info", offsets=(None, None), outcome="info")
    run, _ = imported(tmp_path, "jsonl", text(line, read()))
    (tmp_path / "portable.json").write_text(exported(load(run), "portable"))
    (answer,) = check_portable(tmp_path / "portable.json")
    assert answer["by_config"]["assign+ww"]["anomalies"] == ["unseen"]


# What the format cannot say ----------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": 0}, {"idempotent": False}])
def test_records_of_unsafe_producers_are_named(tmp_path: Path, settings: dict[str, Any]) -> None:
    lines = [holds("from_start"), process(0, **settings), process(3, **settings), SENDS, read(*range(6))]
    assert notes(tmp_path / "a", *lines).claimed == [f"6 records {UNSAFE}"]
    assert notes(tmp_path / "b", *lines[:1], *lines[2:]).claimed == []
