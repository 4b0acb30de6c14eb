"""What a recording says against itself is damage, with its place; what it does not say is no finding."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checkers.recordings import imported
from tests.checkers.recordings.test_formats import (
    ALL_READ,
    END,
    GIVEN,
    SENT,
    START,
    STOP,
    acked,
    committed,
    consumed,
    data,
    found,
    jepsen,
    lines_of,
    op,
    records,
    text,
    verdict_of,
)
from tests.histories.folders import check_run

SENDS = op(0, 10, sends=records(("a", 0), ("b", 1)))
READS = op(1, 50, reads=records(("a", 0), ("b", 1)))
KNOWN = {"line": "recording", "format": 1, "on_record": ["from_start", "positions"]}


def process(number: int, **settings: Any) -> dict[str, Any]:
    return {"line": "process", "process": number, **settings}


def moved(number: int, ns: int, kind: str) -> dict[str, Any]:
    partitions = [{"topic": "t", "partition": 0}]
    return {"line": "assignment", "process": number, "ns": ns, "kind": kind, "partitions": partitions}


# The line format --------------------------------------------------------------------------------

BAD_LINES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no producer, and sends": ([process(0, acks=None), SENDS], "does not produce"),
    "no consumer, and reads": ([process(1, isolation=None), READS], "does not consume"),
    "commits without a group": (
        [{**READS, "commits": [{"topic": "t", "partition": 0, "offset": 2}]}], "no group"),
    "a field that ops do not have": ([{**SENDS, "transaction": True}], "transaction"),
    "a field that records do not have": ([op(0, 10, sends=[{**records(("a", 0))[0], "key": 1}])], "key"),
    "a field that processes do not have": ([process(0, isolation_level="read_committed")], "isolation_level"),
    "a field that ends do not have": ([{**END[0], "hw": 3}], "hw"),
    "a log that ends before it starts": ([{**END[0], "start": 9, "end": 5}], "starts at 9"),
    "another end of the same log": ([END[0], {**END[0], "end": 7}], "another end"),
    "an acknowledged record that failed": (
        [op(0, 10, sends=[{**records(("a", 0))[0], "outcome": "fail"}])], "outcome 'fail'"),
    "an acknowledged record in doubt": (
        [op(0, 10, sends=[{**records(("a", 0))[0], "outcome": "info"}])], "outcome 'info'"),
    "an op that failed with an acknowledged record": (
        [{**op(0, 10, sends=records(("a", 0))), "outcome": "fail"}], "outcome 'fail'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_LINES)
def test_lines_that_contradict_are_named_and_never_valid(tmp_path: Path, name: str) -> None:
    bad, said = BAD_LINES[name]
    clean = [op(5, 10, sends=records(("c", 2))), op(6, 50, reads=records(("a", 0), ("b", 1), ("c", 2)))]
    run, recording = imported(tmp_path, "jsonl", text(KNOWN, *clean, *bad))
    assert recording.refused == 1
    assert said in recording.reasons[0]
    verdict = check_run(run)
    assert verdict.valid == "unknown"


GOOD_LINES: dict[str, list[dict[str, Any]]] = {
    "a producer that does not read": [process(0, isolation=None), SENDS, READS],
    "a consumer that does not send": [process(1, acks=None), SENDS, READS],
    "an aborted transaction with acknowledged records": [
        {**SENDS, "outcome": "fail", "txn": True}, op(5, 20, sends=records(("c", 2))),
        op(1, 50, reads=records(("c", 2)))],
    "the same end twice": [SENDS, READS, *END, *END],
    "ends of two levels": [SENDS, READS, *END],
    "a record in doubt": [
        op(0, 10, sends=[{"topic": "t", "partition": 0, "value": "z", "outcome": "info"}, *SENDS["sends"]]),
        READS],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD_LINES)
def test_lines_that_do_not_contradict_are_taken(tmp_path: Path, name: str) -> None:
    _, recording = imported(tmp_path, "jsonl", text(KNOWN, *GOOD_LINES[name]))
    assert recording.reasons == []


def test_a_key_twice_in_one_object_is_damage(tmp_path: Path) -> None:
    line = json.dumps(SENDS).replace('"offset": 1', '"offset": 7, "offset": 1')
    _, recording = imported(tmp_path, "jsonl", "\n".join([json.dumps(READS), line]))
    (reason,) = recording.reasons
    assert reason.endswith("line 2: the key 'offset' stands twice in one object")


ABORTED = {**SENDS, "outcome": "fail", "txn": True}


@pytest.mark.parametrize(
    ("settings", "refused", "result"),
    [
        ([process(1, isolation_level="read_uncommitted")], 2, "unknown"),  # the line, and its process's op
        (
            [process(1, isolation_level="read_uncommitted"), process(1, isolation="read_uncommitted")],
            1,
            "unknown",
        ),
        ([process(2, isolation_level="read_uncommitted")], 1, False),  # of another process
        ([process(1)], 0, False),
    ],
)
def test_who_has_settings_that_could_not_be_read_is_not_judged_by_others(
    tmp_path: Path, settings: list[dict[str, Any]], refused: int, result: object
) -> None:
    clean = [op(5, 20, sends=records(("c", 2))), op(6, 50, reads=records(("c", 2)))]
    run, recording = imported(tmp_path, "jsonl", text(KNOWN, *settings, ABORTED, READS, *clean))
    assert recording.refused == refused
    verdict = check_run(run)
    assert verdict.valid == result
    assert [name for name, one in verdict.anomalies.items() if one.disallowed] == ["aborted-read"] * (
        result is False
    )


def rewound(*kinds: str) -> str:
    """A consumer that read two records in an op that failed, moved as `kinds` say, and read them again."""
    failed = {**READS, "outcome": "fail"}
    again = op(1, 80, reads=records(("a", 0), ("b", 1)))
    return text(KNOWN, SENDS, failed, *(moved(1, 60, kind) for kind in kinds), again)


def test_a_rewind_after_an_op_that_failed_is_no_finding(tmp_path: Path) -> None:
    assert found(verdict_of(tmp_path, "jsonl", rewound("rewind"))) == []


def test_a_consumer_that_goes_back_without_a_rewind_is_found(tmp_path: Path) -> None:
    assert found(verdict_of(tmp_path, "jsonl", rewound())) == ["nonmonotonic-poll"]


def test_a_rewind_after_an_op_that_stands_explains_nothing(tmp_path: Path) -> None:
    again = op(1, 80, reads=records(("a", 0), ("b", 1)))
    lines = text(KNOWN, SENDS, READS, moved(1, 60, "rewind"), again)
    assert found(verdict_of(tmp_path, "jsonl", lines)) == ["nonmonotonic-poll"]


def test_a_rewind_does_not_excuse_what_the_next_op_leaves_out(tmp_path: Path) -> None:
    other = op(2, 90, reads=records(("a", 0), ("b", 1)))
    lines = text({**KNOWN, "on_record": ["positions"]}, SENDS, op(1, 20, reads=records(("a", 0))),
                 {**op(1, 50, reads=records(("b", 1))), "outcome": "fail"}, moved(1, 60, "rewind"),
                 op(1, 80, reads=records(("c", 2))), op(5, 15, sends=records(("c", 2))), other)  # fmt: skip
    assert found(verdict_of(tmp_path, "jsonl", lines)) == ["poll-skip"]


def steps(*settings: dict[str, Any], facts: list[str]) -> str:
    """Process 1 goes back; process 2 skips."""
    sends = op(0, 10, sends=records(("a", 0), ("b", 1), ("c", 2)))
    back = [
        op(1, 20, reads=records(("a", 0), ("b", 1))),
        op(1, 30, reads=records(("a", 0), ("b", 1), ("c", 2))),
    ]
    skip = [op(2, 20, reads=records(("a", 0))), op(2, 30, reads=records(("c", 2)))]
    return text({**KNOWN, "on_record": facts}, *settings, sends, *back, *skip)


BOTH = ["nonmonotonic-poll", "poll-skip"]


@pytest.mark.parametrize(
    ("groups", "facts", "forbidden"),
    [
        ((), ["from_start"], BOTH),
        ((1,), ["from_start"], ["poll-skip"]),
        ((2,), ["from_start"], ["nonmonotonic-poll"]),
        ((1, 2), ["from_start"], []),
        ((1, 2), ["from_start", "positions"], BOTH),
    ],
)
def test_members_of_groups_move_only_where_positions_are_not_on_record(
    tmp_path: Path, groups: tuple[int, ...], facts: list[str], forbidden: list[str]
) -> None:
    settings = [process(number, group="g") for number in groups]
    verdict = verdict_of(tmp_path, "jsonl", steps(*settings, facts=facts))
    assert found(verdict) == forbidden
    assert {"nonmonotonic-poll", "poll-skip"} <= verdict.anomalies.keys()


# Jepsen -----------------------------------------------------------------------------------------

AGAIN = "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8]]}]]"


@pytest.mark.parametrize(
    ("subscriber", "forbidden"), [(1, []), (2, ["nonmonotonic-poll"]), (None, ["nonmonotonic-poll"])]
)
def test_a_subscription_excuses_its_own_process_alone(
    tmp_path: Path, subscriber: int | None, forbidden: list[str]
) -> None:
    subscribes = [f"{subscriber} subscribe [1] => ok [1]"] if subscriber else []
    ops = [*SENT, *subscribes, "1 poll [[:poll]] => ok [[:poll {1 [[0 7]]}]]", ALL_READ]
    assert found(verdict_of(tmp_path, "jepsen", jepsen(*ops))) == forbidden


def test_a_process_that_is_text_is_not_the_nemesis(tmp_path: Path) -> None:
    content = jepsen(*SENT, ALL_READ)
    phantom = '{:index 90, :type :info, :process "1", :f :poll, :value [[:poll {1 [[5 99]]}]]}'
    _, recording = imported(tmp_path, "jepsen", f"{content}\n{phantom}")
    (reason,) = recording.reasons
    assert "line 7" in reason
    assert "process" in reason


# Kafka's tools ----------------------------------------------------------------------------------

PRODUCED = lines_of(START, acked("0", 0), acked("1", 1), acked("2", 2), STOP)


def consumer(*events: tuple[str, dict[str, Any]]) -> str:
    return lines_of(START, GIVEN, *events, STOP)


def of(count: int, *shown: int) -> tuple[str, dict[str, Any]]:
    partitions = [{"topic": "t", "partition": 0, "count": each} for each in shown]
    return "records_consumed", {"count": count, "partitions": partitions}


ALL = (data("0", 0), data("1", 1), data("2", 2))
POLLS: dict[str, tuple[tuple[tuple[str, dict[str, Any]], ...], str]] = {
    "a record is not shown": ((ALL[0], ALL[2], consumed(3)), "a poll of 3 records, and 2 lines"),
    "a record too many": ((*ALL, consumed(2)), "a poll of 2 records, and 3 lines"),
    "no record of the second poll": ((ALL[0], consumed(1), consumed(2)), "a poll of 2 records, and 0 lines"),
    "no record of the first poll": ((consumed(1), *ALL[1:], consumed(2)), "an earlier poll"),
    "commits without the end of the poll": ((*ALL, committed(3)), "records_consumed of the poll before"),
    "assigned without the end of the poll": (
        (*ALL, GIVEN, consumed(0)),
        "records_consumed of the poll before",
    ),
}


@pytest.mark.parametrize("name", POLLS)
def test_polls_whose_records_are_not_all_there(tmp_path: Path, name: str) -> None:
    events, said = POLLS[name]
    run, recording = imported(tmp_path, "verifiable", PRODUCED, consumer(*events), from_start=True)
    assert recording.refused == 1
    assert said in recording.reasons[0]
    verdict = check_run(run)
    assert (found(verdict), verdict.valid) == ([], "unknown")


@pytest.mark.parametrize(
    "events",
    [
        (*ALL, consumed(3), committed(3)),
        (*ALL, of(3, 3)),
        (*ALL, of(9, 2, 1)),  # --max-messages: the tool shows some of what it was returned
        (consumed(0), *ALL, consumed(3), consumed(0)),
        ALL,  # it was killed before it could say that the poll ended
    ],
)
def test_polls_whose_records_are_all_there(tmp_path: Path, events: tuple[Any, ...]) -> None:
    run, recording = imported(tmp_path, "verifiable", PRODUCED, consumer(*events), from_start=True)
    assert recording.reasons == []
    assert found(check_run(run)) == []


def test_a_damaged_record_within_a_poll_is_no_skip(tmp_path: Path) -> None:
    lines = consumer(*ALL, consumed(3)).splitlines()
    lines[3] = lines[3][:-9]
    run, recording = imported(tmp_path, "verifiable", PRODUCED, "\n".join(lines), from_start=True)
    assert recording.refused == 2  # the line, and the poll that says that it is missing
    verdict = check_run(run)
    assert (found(verdict), verdict.valid) == ([], "unknown")
    assert verdict.anomalies["int-poll-skip"].allowed


def test_a_skip_within_a_poll_of_a_whole_recording_is_found(tmp_path: Path) -> None:
    events = (ALL[0], ALL[2], consumed(2))
    verdict = verdict_of(tmp_path, "verifiable", PRODUCED, consumer(*events), from_start=True)
    assert "int-poll-skip" in found(verdict)
