"""Each format: what is found in a recording with an anomaly, silence on its clean twin, what is left open."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from checkers.api import check_history
from checkers.recordings.files import opened
from checkers.recordings.formats import ImportRequest, import_config, record_lines
from checkers.verdict.repeat import repro
from checkers.verdict.summary import NOT_ON_RECORD
from core.errors import ConfigError, HistoryError, UsageError
from history.reader import load
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.recordings import imported
from tests.histories.folders import check_run


def verdict_of(tmp_path: Path, format: str, *contents: str | bytes, **options: bool) -> Verdict:
    run, _ = imported(tmp_path, format, *contents, **options)
    return check_run(run)


def found(verdict: Verdict) -> list[str]:
    return sorted(name for name, anomaly in verdict.anomalies.items() if anomaly.disallowed)


def jepsen(*ops: str) -> str:
    """Invocations and completions: `process f value => type value`."""
    lines = []
    for op in ops:
        process, f, rest = op.split(" ", 2)
        asked, _, done = rest.partition(" => ")
        lines.append(f"{{:process {process}, :type :invoke, :f :{f}, :value {asked}}}")
        if done:
            type_, value = done.split(" ", 1)
            lines.append(f"{{:process {process}, :type :{type_}, :f :{f}, :value {value}}}")
    return "\n".join(line.replace("{:", f"{{:index {n}, :time {n * 10}, :") for n, line in enumerate(lines))


SENT = ("0 send [[:send 1 7]] => ok [[:send 1 [0 7]]]", "0 send [[:send 1 8]] => ok [[:send 1 [1 8]]]")
ALL_READ = "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8]]}]]"


def test_jepsen_a_clean_history_is_valid_and_says_what_was_not_judged(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "jepsen", jepsen(*SENT, ALL_READ))
    assert (verdict.valid, verdict.unknown, found(verdict)) == (True, [], [])
    assert "not on record, so not judged: " in verdict.summary
    idle = {name: check.why for name, check in verdict.checks.items() if check.status == "unasked"}
    lacks = {name for name, why in idle.items() if why == NOT_ON_RECORD}
    of_groups = {"group-offsets", "group-delivery", "exactly-once", "copy-order", "fencing"}
    assert lacks == {"stability", "recovery", "compaction", *of_groups}
    assert idle.keys() - lacks == {"atomicity", "share-groups", "dead-letters"}


@pytest.mark.parametrize(
    ("ops", "anomalies"),
    [
        ((*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[1 8]]}]]"), ["lost-write"]),
        (
            (*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8] [2 7]]}]]"),
            ["duplicate", "int-nonmonotonic-poll"],
        ),
        ((*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8] [2 9]]}]]"), ["phantom-read"]),
        (
            (*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[0 8] [1 7]]}]]"),
            ["duplicate", "inconsistent-offsets", "int-nonmonotonic-poll"],
        ),
        (
            ("0 send [[:send 1 7]] => fail [[:send 1 7]]", "1 poll [[:poll]] => ok [[:poll {1 [[0 7]]}]]"),
            ["aborted-read"],
        ),
        ((*SENT, ALL_READ, "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8]]}]]"), ["nonmonotonic-poll"]),
    ],
)
def test_jepsen_anomalies(tmp_path: Path, ops: tuple[str, ...], anomalies: list[str]) -> None:
    verdict = verdict_of(tmp_path, "jepsen", jepsen(*ops))
    assert found(verdict) == anomalies
    assert verdict.exit_code == 1


def test_jepsen_a_record_that_no_poll_reached_is_undecided(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "jepsen", jepsen(*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[0 7]]}]]"))
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert [reason.split(":")[0] for reason in verdict.unknown] == ["durability"]


@pytest.mark.sampled(2)
def test_jepsen_assigning_and_subscribing_move_positions(tmp_path: Path) -> None:
    again = "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8]]}]]"
    moved = jepsen(*SENT, ALL_READ, "1 assign [2] => ok [2]", "1 assign [1] => ok [1]", again)
    assert found(verdict_of(tmp_path, "jepsen", moved)) == []
    subscribed = jepsen(*SENT, "1 subscribe [1] => ok [1]", ALL_READ, again)
    (tmp_path / "b").mkdir()
    assert found(verdict_of(tmp_path / "b", "jepsen", subscribed)) == []
    rewound = jepsen(*SENT, ALL_READ, "1 assign [1] => ok [1]", again)
    (tmp_path / "c").mkdir()
    assert found(verdict_of(tmp_path / "c", "jepsen", rewound)) == ["nonmonotonic-poll"]
    (tmp_path / "d").mkdir()
    seeking = rewound.replace(
        ":type :invoke, :f :assign", ":seek-to-beginning? true, :type :invoke, :f :assign"
    )
    assert found(verdict_of(tmp_path / "d", "jepsen", seeking)) == []


def test_jepsen_gzip_and_the_nemesis(tmp_path: Path) -> None:
    nemesis = "{:index 90, :time 5, :process :nemesis, :type :info, :f :kill, :value [n1 {:a #{:b}}]}"
    content = jepsen(*SENT, ALL_READ) + "\n" + nemesis
    run, recording = imported(tmp_path, "jepsen", gzip.compress(content.encode()))
    assert (recording.ops, recording.refused) == (3, 0)
    assert check_history(load(run)).counts == {}


def test_a_line_that_cannot_be_read_leaves_the_verdict_unknown(tmp_path: Path) -> None:
    lines = jepsen(*SENT, ALL_READ).splitlines()
    run, recording = imported(tmp_path, "jepsen", "\n".join([lines[0], "{:index", *lines[2:]]))
    assert "line 2: the form does not end" in recording.reasons[0]
    assert "never completed" in recording.reasons[1]
    assert recording.refused == 2
    verdict = check_run(run)
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert "line 2" in verdict.unknown[0]


def test_an_op_whose_completion_is_missing_is_in_doubt_until_the_next_one(tmp_path: Path) -> None:
    lines = jepsen(*SENT, ALL_READ).splitlines()
    verdict = verdict_of(tmp_path, "jepsen", "\n".join([lines[0], *lines[2:]]))
    assert (found(verdict), verdict.valid) == ([], "unknown")


def test_what_rests_on_a_missing_line_is_not_forbidden(tmp_path: Path) -> None:
    lines = jepsen(*SENT, "1 poll [[:poll]] => ok [[:poll {1 [[0 7] [1 8] [2 7]]}]]").splitlines()
    damaged = "\n".join([*lines[:2], "{:a", "{:b", *lines[4:]])  # the second send is not on record
    verdict = verdict_of(tmp_path, "jepsen", damaged)
    assert found(verdict) == ["duplicate", "int-nonmonotonic-poll"]
    assert (verdict.anomalies["phantom-read"].allowed, verdict.exit_code) == (True, 1)


def op(process: int, begin: int, **more: Any) -> dict[str, Any]:
    return {"line": "op", "process": process, "outcome": "ok", "begin_ns": begin, "end_ns": begin + 1, **more}


def records(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": 0, "value": value, "offset": offset} for value, offset in pairs]


def text(*lines: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, lines))


WHOLE = {"line": "recording", "format": 1, "on_record": ["final_reads", "positions", "commits"]}
END = [
    {"line": "end", "topic": "t", "partition": 0, "isolation": level, "end": 2}
    for level in ("read_committed", "read_uncommitted")
]
REACHED = {"line": "reached", "process": 1, "ns": 90, "topic": "t", "partition": 0, "offset": 2}


@pytest.mark.parametrize(
    ("read", "anomalies", "valid"),
    [
        ([("a", 0), ("b", 1)], [], True),
        ([("a", 0)], ["lost-write"], False),
        ([("b", 1)], ["lost-write"], False),
    ],
)
def test_lines_with_final_reads_decide_what_was_lost(
    tmp_path: Path, read: list[tuple[str, int]], anomalies: list[str], valid: bool
) -> None:
    sends = [op(0, 10, sends=records(("a", 0))), op(0, 20, sends=records(("b", 1)))]
    final = op(1, 50, reads=records(*read), final=True)
    verdict = verdict_of(tmp_path, "jsonl", text(WHOLE, *sends, final, REACHED, *END))
    assert (found(verdict), verdict.valid) == (anomalies, valid)


def test_lines_without_a_first_line_decide_no_loss(tmp_path: Path) -> None:
    sends = [op(0, 10, sends=records(("a", 0))), op(0, 20, sends=records(("b", 1)))]
    verdict = verdict_of(tmp_path, "jsonl", text(*sends, op(1, 50, reads=records(("b", 1)))))
    assert (found(verdict), verdict.valid) == ([], "unknown")


def test_lines_of_groups_and_commits(tmp_path: Path) -> None:
    member = [{"line": "process", "process": n, "group": "g", "acks": None} for n in (1, 2)]
    given = {"line": "assignment", "process": 2, "ns": 70, "kind": "assigned"}
    given["partitions"] = [{"topic": "t", "partition": 0}]
    sends = op(0, 10, sends=records(("a", 0), ("b", 1)))
    commits = [{"topic": "t", "partition": 0, "offset": 2}]
    first = op(1, 50, reads=records(("a", 0), ("b", 1)), commits=commits)
    again = op(2, 80, reads=records(("a", 0)))
    verdict = verdict_of(tmp_path, "jsonl", text(WHOLE, *member, sends, first, given, again))
    assert "group-duplicate" in found(verdict)
    (tmp_path / "b").mkdir()
    verdict = verdict_of(tmp_path / "b", "jsonl", text(WHOLE, *member, sends, first, given))
    assert "group-duplicate" not in found(verdict)


def lines_of(*events: tuple[str, dict[str, Any]]) -> str:
    return text(*({"timestamp": 1_000 + n, "name": name, **more} for n, (name, more) in enumerate(events)))


def acked(value: str, offset: int) -> tuple[str, dict[str, Any]]:
    return "producer_send_success", {
        "topic": "t",
        "partition": 0,
        "key": None,
        "value": value,
        "offset": offset,
    }


def data(value: str, offset: int) -> tuple[str, dict[str, Any]]:
    return "record_data", {"topic": "t", "partition": 0, "key": None, "value": value, "offset": offset}


def consumed(count: int) -> tuple[str, dict[str, Any]]:
    return "records_consumed", {"count": count, "partitions": []}


START: tuple[str, dict[str, Any]] = ("startup_complete", {})
STOP: tuple[str, dict[str, Any]] = ("shutdown_complete", {})
SIGTERM: tuple[str, dict[str, Any]] = ("shutdown_requested", {})
GONE = ("partitions_revoked", {"partitions": [{"topic": "t", "partition": 0}]})
GIVEN = ("partitions_assigned", {"partitions": [{"topic": "t", "partition": 0}]})


def committed(offset: int) -> tuple[str, dict[str, Any]]:
    return "offsets_committed", {
        "offsets": [{"topic": "t", "partition": 0, "offset": offset}],
        "success": True,
    }


TOTALS = ("tool_data", {"sent": 3, "acked": 2, "target_throughput": -1, "avg_throughput": 1.0})


@pytest.mark.parametrize(
    ("read", "anomalies", "valid"),
    [
        ([data("0", 0), data("1", 1)], [], True),
        ([data("1", 1)], ["group-skip", "lost-write"], False),
        ([data("0", 0)], [], "unknown"),
        ([data("0", 0), data("1", 1), data("2", 2)], [], True),
        ([data("0", 0), data("1", 1), data("3", 2)], ["phantom-read"], False),
        ([data("0", 1), data("1", 0)], ["inconsistent-offsets", "int-nonmonotonic-poll"], False),
    ],
)
def test_verifiable_producers_and_consumers(
    tmp_path: Path, read: list[tuple[str, dict[str, Any]]], anomalies: list[str], valid: Any
) -> None:
    failed = (
        "producer_send_error",
        {"topic": "t", "key": None, "value": "2", "exception": "x", "message": "y"},
    )
    producer = lines_of(START, acked("0", 0), failed, acked("1", 1), STOP, TOTALS)
    until = [consumed(len(read)), committed(read[-1][1]["offset"] + 1)]
    consumer = lines_of(START, GIVEN, *read, *until, SIGTERM, GONE, STOP)
    verdict = verdict_of(tmp_path, "verifiable", consumer, producer, from_start=True, one_group=True)
    assert (found(verdict), verdict.valid) == (anomalies, valid)


def test_verifiable_without_data_of_records_is_undecided(tmp_path: Path) -> None:
    producer = lines_of(START, acked("0", 0), acked("1", 1), STOP)
    consumer = lines_of(START, GIVEN, consumed(2), committed(2), STOP)
    verdict = verdict_of(tmp_path, "verifiable", producer, consumer, from_start=True)
    assert (found(verdict), verdict.valid) == ([], "unknown")


def test_a_value_that_two_producers_sent_is_not_judged(tmp_path: Path) -> None:
    producer = lines_of(START, acked("0", 0), STOP)
    other = lines_of(START, acked("0", 1), STOP)
    consumer = lines_of(START, GIVEN, data("0", 0), data("0", 1), consumed(2), STOP)
    verdict = verdict_of(tmp_path, "verifiable", producer, other, consumer, from_start=True)
    assert (found(verdict), verdict.valid) == ([], "unknown")
    assert "sent twice" in verdict.unknown[0]


def test_settings_that_an_import_does_not_have(tmp_path: Path) -> None:
    request = ImportRequest(format="jepsen", files=[tmp_path / "x"])
    assert import_config(request, {"acks": 1, "idempotent": False}).acks == 1
    for name in ("sut", "seed", "workload", "imported"):
        with pytest.raises(UsageError, match=name):
            import_config(request, {name: 1})
    with pytest.raises(ConfigError):
        import_config(request, {"acks": 7})
    for settings in ({"cleanup.policy": "compact"}, {"cleanup.policy": "compact,delete"}):
        with pytest.raises(UsageError, match="compacted topics"):
            import_config(request, {"topic_settings": settings})
    with pytest.raises(UsageError, match="compacted topics"):
        import_config(request, {"broker_settings": {"log.cleanup.policy": "compact"}})
    kept = {"cleanup.policy": "delete", "retention.ms": "1000"}
    assert import_config(request, {"topic_settings": kept}).topic_settings == kept
    asked = ImportRequest(
        format="verifiable", files=[tmp_path / "p", tmp_path / "c"], from_start=True, clock_error_s=0.25
    )
    assert repro(import_config(asked, {"acks": 1}), Run(tmp_path)) == (
        f"inquest recording import verifiable {tmp_path}/p {tmp_path}/c --from-start --clock-error 0.25"
        " --set acks=1 --set idempotent=false --set isolation=read_uncommitted"
    )
    with pytest.raises(UsageError, match="known: jepsen"):
        import_config(ImportRequest(format="x", files=[]), {})
    with pytest.raises(HistoryError, match="No such file"), opened(tmp_path / "x"):
        pass


def test_lines_in_memory_become_a_run_folder_or_nothing(tmp_path: Path) -> None:
    sent = {"topic": "t", "partition": 0, "value": "a", "offset": 0}
    op = {"line": "op", "process": 0, "outcome": "ok", "begin_ns": 1, "end_ns": 2, "sends": [sent]}
    run = record_lines([op], tmp_path / "mine", acks=1, idempotent=False)
    assert json.loads(run.config.read_text())["acks"] == 1
    assert [json.loads(line) for line in (run.folder / "recording.jsonl").read_text().splitlines()] == [op]
    with pytest.raises(FileExistsError):
        record_lines([op], run.folder)
    assert run.config.exists()
    with pytest.raises(HistoryError, match="line 2: "):
        record_lines([op, {"line": "oops"}], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_lines_in_memory_leave_a_folder_that_there_is_as_it_is(tmp_path: Path) -> None:
    sent = {"topic": "t", "partition": 0, "value": "a", "offset": 0}
    op = {"line": "op", "process": 0, "outcome": "ok", "begin_ns": 1, "end_ns": 2, "sends": [sent]}
    kept = tmp_path / "results" / "config.json"
    kept.parent.mkdir()
    kept.write_text("foreign")
    for lines in ([op], [{"line": "oops"}]):
        with pytest.raises(FileExistsError):
            record_lines(lines, kept.parent)
        assert [(path, path.read_text()) for path in kept.parent.iterdir()] == [(kept, "foreign")]
    with pytest.raises(HistoryError):
        record_lines([{"line": "oops"}], kept.parent / "new")
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("value", ["\ud800", object(), {object(): 1}])
def test_lines_in_memory_with_a_value_that_json_has_not_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(HistoryError, match="line 2: "):
        record_lines([{"line": "recording"}, {"line": "op", "process": value}], tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
