"""Hosts whose clocks are apart: what two processes did is in an order only where their times say so."""

from pathlib import Path
from typing import Any

import pytest

from core.config import recorded_config
from history.reader import load
from tests.checkers.recordings import imported
from tests.checkers.recordings.test_formats import (
    GIVEN,
    GONE,
    START,
    STOP,
    acked,
    committed,
    consumed,
    data,
    found,
    lines_of,
    text,
)
from tests.histories.folders import check_run
from tests.oracle import anomalies

Event = tuple[str, dict[str, Any]]
PRODUCER = lines_of(START, *(acked(str(n), n) for n in range(6)), STOP)
IN_DOUBT = "offsets_committed", {**committed(0)[1], "success": False}


def at(begin: int, *events: Event) -> str:
    """Lines of one process from this millisecond on, one after the other."""
    return text(*({"timestamp": begin + n, "name": name, **more} for n, (name, more) in enumerate(events)))


def polled(*offsets: int) -> tuple[Event, ...]:
    return *(data(str(n), n) for n in offsets), consumed(len(offsets))


def first(begin: int) -> str:
    """It is given the partition, commits 3 in the seventh millisecond, and loses the partition."""
    return at(begin, START, GIVEN, *polled(0, 1, 2), committed(3), GONE, STOP)


def second(begin: int, *offsets: int) -> str:
    """It is given the partition in the second millisecond, and goes on from the lowest of these offsets."""
    return at(begin, START, GIVEN, *polled(*offsets), committed(6), STOP)


def classes(tmp_path: Path, *files: str, clock_error_s: float | None = None) -> list[str]:
    options = {"one_group": True, "from_start": True, "clock_error_s": clock_error_s}
    run, recording = imported(tmp_path, "verifiable", PRODUCER, *files, **options)
    assert recording.reasons == []
    verdict, history = check_run(run), load(run)
    tables = {**history.tables, **{name: history.whole(name) for name in ("sends", "reads")}}
    config = recorded_config(run.config)
    keys = anomalies.findings(tables, portable=False, config=config, f=history.names.f)
    counts = {name: one.count for name, one in verdict.anomalies.items() if name.startswith("group-")}
    assert counts == {name: sum(key[0] == name for key in keys) for name in counts}
    assert {str(key[0]) for key in keys} == counts.keys()
    return found(verdict)


BOTH, ON = (0, 1, 2, 3, 4, 5), (3, 4, 5)


@pytest.mark.parametrize(
    ("offsets", "second_at", "error_s", "expected"),
    [
        (ON, 2000, None, []),
        (ON, 1700, None, []),  # its clock is behind, or that of the first one is ahead
        (BOTH, 2000, None, []),  # the other one's commit may have come later
        (BOTH, 5900, None, []),
        (BOTH, 6100, None, ["group-duplicate"]),
        (BOTH, 2000, 2.0, []),
        (BOTH, 2000, 0.5, ["group-duplicate"]),
        (BOTH, 2000, 0.0, ["group-duplicate"]),
        (BOTH, 1006, 0.0, []),  # times are cut to milliseconds
        (BOTH, 1008, 0.0, ["group-duplicate"]),
    ],
)
def test_a_commit_came_before_another_process_was_given_the_partition_only_by_more_than_the_clocks_are_apart(
    tmp_path: Path, offsets: tuple[int, ...], second_at: int, error_s: float | None, expected: list[str]
) -> None:
    assert classes(tmp_path, first(1000), second(second_at, *offsets), clock_error_s=error_s) == expected


@pytest.mark.parametrize("error_s", [None, 0.0])
def test_what_one_process_did_is_in_order_whatever_the_clocks(tmp_path: Path, error_s: float | None) -> None:
    once = (START, GIVEN, *polled(0, 1, 2), committed(3), GONE, GIVEN)
    assert classes(tmp_path / "a", at(1000, *once, *polled(3), STOP), clock_error_s=error_s) == []
    again = at(1000, *once, *polled(0, 1, 2), STOP)
    assert classes(tmp_path / "b", again, clock_error_s=error_s) == ["group-duplicate"]


def test_lines_of_one_moment_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    events = (START, GIVEN, *polled(0, 1, 2), committed(3), GONE, GIVEN, *polled(0), STOP)
    frozen = text(*({"timestamp": 1000, "name": name, **more} for name, more in events))
    assert classes(tmp_path, frozen) == ["group-duplicate"]


@pytest.mark.parametrize(
    ("doubt_at", "error_s", "expected"),
    [
        (20_000, 0.0, ["group-duplicate"]),  # it came after the read
        (20_000, None, ["group-duplicate"]),
        (8_000, None, []),  # it may have come before the read
        (8_000, 0.0, []),
        (12_000, None, []),
        (12_000, 0.0, ["group-duplicate"]),
    ],
)
def test_a_commit_in_doubt_excuses_what_it_may_have_come_before(
    tmp_path: Path, doubt_at: int, error_s: float | None, expected: list[str]
) -> None:
    third = at(doubt_at, START, IN_DOUBT, STOP)
    assert classes(tmp_path, first(1000), second(10_000, *BOTH), third, clock_error_s=error_s) == expected


@pytest.mark.parametrize(
    ("put_back_at", "error_s", "expected"),
    [(900, 0.0, ["group-duplicate"]), (900, None, []), (1100, 0.0, []), (1100, None, [])],
)
def test_a_commit_that_went_back_excuses_where_it_may_have_come_after(
    tmp_path: Path, put_back_at: int, error_s: float | None, expected: list[str]
) -> None:
    third = at(put_back_at, START, committed(0), STOP)
    assert classes(tmp_path, first(1000), second(10_000, *BOTH), third, clock_error_s=error_s) == expected
