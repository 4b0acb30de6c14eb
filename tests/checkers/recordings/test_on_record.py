"""Checks claim no more than a recording can hold: near misses with the same rows and less on record."""

from pathlib import Path
from typing import Any

import pytest

from checkers.checks import CHECKS
from checkers.verdict.summary import NOT_ON_RECORD
from core.config import run_config
from tests.checkers.recordings import imported
from tests.checkers.recordings.test_contradictions import moved, process
from tests.checkers.recordings.test_formats import (
    GIVEN,
    GONE,
    START,
    STOP,
    acked,
    consumed,
    data,
    found,
    lines_of,
    op,
    records,
    text,
    verdict_of,
)
from tests.checkers.recordings.test_formats import committed as commit_line
from tests.histories.folders import check_run

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


# Groups ------------------------------------------------------------------------------------------


def members(*facts: str) -> str:
    """Of the group g, process 1 begins at offset 1 and commits 4; process 2 of no group reads everything."""
    mine = op(1, 50, reads=records(("b", 1), ("c", 2), ("d", 3)), commits=committed(4))
    every = op(2, 60, reads=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)))
    return text(holds("commits", *facts), process(1, group="g", acks=None), SENT, mine, every)


def test_what_a_group_was_not_given_is_a_skip_where_every_poll_is_on_record(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "jsonl", members("from_start"))
    assert (found(verdict), verdict.anomalies["group-skip"].count) == (["group-skip"], 1)


def test_what_a_group_was_not_given_is_open_where_some_poll_may_not_be_on_record(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "jsonl", members())
    assert (verdict.anomalies, verdict.valid) == ({}, "unknown")
    assert verdict.checks["group-delivery"].status == "unknown"
    assert verdict.checks["group-delivery"].why.startswith("1 of the records below the offsets")


def test_a_group_that_was_given_everything_is_valid_without_the_start(tmp_path: Path) -> None:
    reads = op(1, 50, reads=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)), commits=committed(4))
    lines = text(holds("commits"), process(1, group="g", acks=None), SENT, reads)
    verdict = verdict_of(tmp_path, "jsonl", lines)
    assert (found(verdict), verdict.valid) == ([], True)


def test_that_a_partition_has_one_owner_is_not_claimed_of_an_import(tmp_path: Path) -> None:
    """No format has the generation of an assignment, and two members may well have one after the other."""
    given = [
        {"line": "assignment", "process": n, "ns": 20 + n, "kind": "assigned",
         "partitions": [{"topic": "t", "partition": 0}]}
        for n in (1, 2)
    ]  # fmt: skip
    reads = op(1, 50, reads=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)), commits=committed(4))
    named = [process(n, group="g", acks=None) for n in (1, 2)]
    lines = text(holds("from_start", "positions", "commits"), *named, SENT, *given, reads)
    verdict = verdict_of(tmp_path, "jsonl", lines)
    check = verdict.checks["group-delivery"]
    assert (found(verdict), verdict.valid, check.status) == ([], True, "valid")
    assert "each partition belongs to one member" not in check.claim
    assert (
        "Whether each partition belonged to one member is not judged: no import has the generations"
        in check.claim
    )


@pytest.mark.parametrize(
    ("settings", "claimed"), [({}, True), ({"imported": {"format": "jsonl"}, "sut": "imported"}, False)]
)
def test_of_an_own_run_it_is_claimed(settings: dict[str, Any], claimed: bool) -> None:
    claim = CHECKS["group-delivery"].claim_of(run_config({"seed": 7, **settings}))
    assert ("each partition belongs to one member" in claim) is claimed


def two_members(*reads: int) -> list[str]:
    """A producer of six records, and two consumers of one group: the first one has 0 to 2 and commits 3, is
    revoked, and the second one has these of the others, and commits 6."""
    producer = lines_of(START, *(acked(str(n), n) for n in range(6)), STOP)
    first = (START, GIVEN, *(data(str(n), n) for n in range(3)), consumed(3), commit_line(3), GONE, STOP)
    second = (START, GIVEN, *(data(str(n), n) for n in reads), consumed(len(reads)), commit_line(6), STOP)
    return [producer, lines_of(*first), lines_of(*second)]


@pytest.mark.parametrize(
    ("options", "reads", "forbidden"),
    [
        ({}, (3, 4, 5), []),
        ({"from_start": True}, (3, 4, 5), []),
        ({"one_group": True}, (3, 4, 5), []),
        ({"one_group": True, "from_start": True}, (3, 4, 5), []),
        ({"one_group": True, "from_start": True}, (4, 5), ["group-skip", "lost-write"]),
        ({"one_group": True}, (4, 5), []),
        ({"from_start": True}, (4, 5), ["lost-write"]),
    ],
)
def test_consumers_are_members_of_one_group_only_where_that_is_known(
    tmp_path: Path, options: dict[str, bool], reads: tuple[int, ...], forbidden: list[str]
) -> None:
    verdict = verdict_of(tmp_path, "verifiable", *two_members(*reads), **options)
    assert found(verdict) == forbidden
    assert "crashed" not in {check.status for check in verdict.checks.values()}
    asked = verdict.checks["group-delivery"].why != NOT_ON_RECORD
    assert asked == options.get("one_group", False)


def test_the_output_of_one_member_leaves_open_what_others_were_given(tmp_path: Path) -> None:
    producer, _, second = two_members(3, 4, 5)
    verdict = verdict_of(tmp_path, "verifiable", producer, second, one_group=True)
    assert (found(verdict), verdict.checks["group-delivery"].status) == ([], "unknown")


def test_a_skipped_record_that_no_client_read_is_shown_as_it_was_sent(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "verifiable", *two_members(4, 5), one_group=True, from_start=True)
    (example,) = verdict.anomalies["group-skip"].examples
    assert "at offset 3, was never given to group consumers" in example.sentence
    assert example.sentence.endswith("op 4 had sent it.")


# Final readers -----------------------------------------------------------------------------------

ENDS = [
    {"line": "end", "topic": "t", "partition": 0, "isolation": level, "end": 4}
    for level in ("read_committed", "read_uncommitted")
]
NOT_FINAL = "process 1 reached an end, and read t-0 in an op that is not final, below its final reads"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([(0, 4, True)], ""),
        ([(0, 2, True), (2, 4, True)], ""),
        ([(0, 4, False), (0, 4, True)], ""),  # it went back to the start
        ([(0, 4, False)], NOT_FINAL),
        ([(0, 2, False), (2, 4, True)], NOT_FINAL),
    ],
)
def test_who_reached_an_end_without_final_reads_is_damage(
    tmp_path: Path, parts: list[tuple[int, int, bool]], why: str
) -> None:
    values = [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    reads = []
    for n, (begin, end, final) in enumerate(parts):
        reads.append(moved(1, 50 + 2 * n, "seek"))
        reads.append(op(1, 50 + 2 * n, reads=records(*values[begin:end]), final=final))
    reached = {"line": "reached", "process": 1, "ns": 90, "topic": "t", "partition": 0, "offset": 4}
    lines = text(holds("final_reads"), process(1, acks=None), SENT, *reads, reached, *ENDS)
    run, recording = imported(tmp_path, "jsonl", lines)
    assert [reason.split(": ", 2)[2] for reason in recording.reasons] == [why] * bool(why)
    verdict = check_run(run)
    assert (found(verdict), verdict.valid) == ([], "unknown" if why else True)


def test_a_final_reader_that_was_given_nothing_reached_an_end(tmp_path: Path) -> None:
    reached = {"line": "reached", "process": 1, "ns": 90, "topic": "t", "partition": 0, "offset": 4}
    lines = text(holds("final_reads"), process(1, acks=None), SENT, op(1, 50, final=True), reached, *ENDS)
    assert found(verdict_of(tmp_path, "jsonl", lines)) == ["lost-write"]


# Transactions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "end", "level", "forbidden", "status"),
    [
        ("info", None, 4, [], "unknown"),
        ("info", 45, 4, [], "unknown"),
        ("fail", 45, 4, ["stuck-lso"], "invalid"),
        ("info", None, 5, [], "valid"),
    ],
)
def test_a_transaction_in_doubt_may_have_been_open_when_the_ends_were_listed(
    tmp_path: Path, outcome: str, end: int | None, level: int, forbidden: list[str], status: str
) -> None:
    unsure = {"topic": "t", "partition": 0, "value": "e", "outcome": "info"}
    txn = {**op(3, 40, sends=[unsure], txn=True), "outcome": outcome, "end_ns": end}
    ends = [{**ENDS[0], "end": level}, {**ENDS[1], "end": 5}]
    final = op(1, 60, reads=records(("a", 0), ("b", 1), ("c", 2), ("d", 3)), final=True)
    reached = {"line": "reached", "process": 1, "ns": 90, "topic": "t", "partition": 0, "offset": level}
    settings = [process(1, acks=None), process(3, transactional_id="x", isolation=None)]
    lines = text(holds("final_reads"), *settings, SENT, txn, final, reached, *ends)
    verdict = verdict_of(tmp_path, "jsonl", lines)
    assert (found(verdict), verdict.checks["stability"].status) == (forbidden, status)


# What a lost record rests on ---------------------------------------------------------------------


@pytest.mark.parametrize("txn", [False, True])
def test_a_lost_record_names_the_poll_that_passed_it_where_there_were_no_final_reads(
    tmp_path: Path, txn: bool
) -> None:
    sent = op(0, 10, sends=records(("a", 0), ("b", 1), ("c", 2)), txn=txn)
    rest = [op(1, 50, reads=records(("c", 2)))]
    if txn:
        rest.append(op(2, 70, reads=records(("a", 0), ("b", 1))))
    settings = [process(0, transactional_id="x"), process(2, acks=None, isolation="read_uncommitted")]
    verdict = verdict_of(tmp_path, "jsonl", text(holds("from_start"), *settings * txn, sent, *rest))
    first, _ = verdict.anomalies["lost-write"].examples
    seen = "op 2 had read it at offset 0, yet " if txn else ""
    level = " at read_committed" if txn else ""
    passed = "and op 1 was given a later record of its partition, at offset 2."
    assert first.sentence.endswith(f"; {seen}no poll on record returned it{level}, {passed}")
