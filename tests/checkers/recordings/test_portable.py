"""Portable histories: what the tables say of them, and one clear error for each kind of bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.api import check_portable
from checkers.recordings.portable_tables import PortableTables, cases
from core.errors import HistoryError
from core.op import AssignmentKind, Outcome
from history.tables import OPEN, TABLES

PROBES = Path(__file__).parents[3] / "tests" / "histories" / "probe.json"


def event(type_: str, process: int, f: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"index": 0, "type": type_, "process": process, "f": f, "value": value, **more}


def op(type_: str, process: int, f: str, value: Any, **more: Any) -> list[dict[str, Any]]:
    """Invocation and completion; the invocation carries the same value."""
    return [event("invoke", process, f, value), event(type_, process, f, value, **more)]


def one(tmp_path: Path, *events: dict[str, Any]) -> PortableTables:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"name": "case", "history": events}))
    (case,) = cases(path)
    if case.error:
        raise HistoryError(case.error)
    return case


def rows(case: PortableTables, table: str, *columns: str) -> list[Any]:
    found = [tuple(row[name] for name in columns) for row in case.tables[table].to_pylist()]
    return [row[0] for row in found] if len(columns) == 1 else found


def test_all_probe_cases_become_tables_of_the_right_schemas() -> None:
    found = list(cases(PROBES))
    assert len(found) == 20
    for case in found:
        assert case.kind == "probe"
        assert {name: table.schema for name, table in case.tables.items()} == TABLES
        assert len(case.ops) == case.tables["ops"].num_rows


def test_ops_are_ranked_by_completion_and_open_ones_come_last(tmp_path: Path) -> None:
    case = one(
        tmp_path,
        event("invoke", 3, "send", [["send", "x", "open"]]),
        event("invoke", 1, "send", [["send", "x", "late"]]),
        *op("ok", 2, "send", [["send", "x", [0, "early"]]]),
        event("ok", 1, "send", [["send", "x", [1, "late"]]]),
    )
    assert rows(case, "ops", "op", "process", "outcome", "invoke_ns", "complete_ns") == [
        (0, 2, Outcome.OK, 2_000, 3_000),
        (1, 1, Outcome.OK, 1_000, 4_000),
        (2, 3, Outcome.INFO, 0, OPEN),
    ]
    assert rows(case, "sends", "op", "outcome", "ack_ns") == [
        (0, Outcome.OK, 3_000),
        (1, Outcome.OK, 4_000),
        (2, Outcome.INFO, -1),
    ]


def test_a_value_is_identified_within_its_key_and_by_its_type(tmp_path: Path) -> None:
    case = one(
        tmp_path,
        *op("ok", 0, "txn", [["send", "x", [0, 1]], ["send", "x", [1, "1"]], ["send", 7, [0, 1]]]),
        *op("ok", 1, "poll", [["poll", {"7": [[0, 1]], "x": [[0, 1], [1, "1"], [2, "?"]]}]]),
    )
    assert rows(case, "tps", "topic", "partition") == [("7", 0), ("x", 0)]
    sent = rows(case, "sends", "tp", "value")
    assert len(set(sent)) == 3
    read = rows(case, "reads", "tp", "value")
    assert read[:3] == sent
    assert read[3] not in sent
    assert case.values[read[3][1]] == "?"
    assert [case.values[id_] for _, id_ in sent] == [1, 1, "1"]


@pytest.mark.parametrize(
    ("type_", "value", "more", "txn", "outcomes"),
    [
        ("ok", [["send", "x", [0, 1]]], {}, 0, [Outcome.OK]),
        ("ok", [["send", "x", 1]], {}, 0, [Outcome.OK]),
        ("fail", [["send", "x", [0, 1]]], {}, 0, [Outcome.FAIL]),
        ("info", [["send", "x", [0, 1]]], {}, 0, [Outcome.INFO]),
        ("info", [["send", "x", [0, 1]]], {"txn": False}, 0, [Outcome.OK]),
        ("info", [["send", "x", [0, 1]]], {"txn": True}, 1, [Outcome.OK]),
        ("info", [["send", "x", [0, 1]], ["send", "x", 2]], {}, 1, [Outcome.OK, Outcome.INFO]),
        ("fail", [["send", "x", [0, 1]], ["send", "x", 2]], {}, 1, [Outcome.OK, Outcome.FAIL]),
        ("info", [["send", "x", [0, 1]], ["send", "x", 2]], {"txn": False}, 0, [Outcome.OK, Outcome.INFO]),
    ],
)
def test_transactions_and_outcomes_of_records(
    tmp_path: Path, type_: str, value: list[Any], more: dict[str, Any], txn: int, outcomes: list[Outcome]
) -> None:
    case = one(tmp_path, *op(type_, 0, "send", value, **more))
    assert rows(case, "ops", "txn") == [txn]
    assert rows(case, "sends", "outcome") == outcomes


def test_an_offset_is_an_acknowledgement_also_of_an_op_that_failed_later(tmp_path: Path) -> None:
    case = one(
        tmp_path,
        *op("fail", 0, "send", [["send", "x", [4, "a"]]]),
        *op("info", 0, "send", [["send", "x", "b"]]),
    )
    assert rows(case, "sends", "offset", "ack_ns") == [(4, 1_000), (-1, -1)]


def test_place_of_a_record_without_offset_is_the_lowest_at_which_it_was_read(tmp_path: Path) -> None:
    case = one(
        tmp_path,
        *op("ok", 0, "txn", [["send", "x", [None, "a"]], ["send", "x", [3, "b"]]]),
        *op("ok", 0, "send", [["send", "x", "never read"]]),
        *op("ok", 1, "poll", [["poll", {"x": [[9, "a"], [5, "a"], [4, "b"]]}]]),
    )
    assert rows(case, "sends", "offset", "place") == [(-1, 5), (3, 3), (-1, -1)]
    assert rows(case, "reads", "pos", "offset") == [(0, 9), (1, 5), (2, 4)]


def test_assign_drops_the_positions_of_keys_that_it_does_not_list(tmp_path: Path) -> None:
    poll = [["poll", {"x": [[0, "a"]], "y": [[0, "b"]]}]]
    case = one(
        tmp_path,
        *op("ok", 0, "assign", ["x", "y"]),
        *op("ok", 0, "poll", poll),
        *op("fail", 0, "assign", ["x"]),
        *op("ok", 0, "poll", poll),
        *op("info", 0, "subscribe", ["x"]),
        *op("ok", 0, "poll", poll),
    )
    assert rows(case, "reads", "tp", "assignment") == [(0, 0)] * 3 + [(1, 0), (1, 0), (1, 1)]
    assert rows(case, "assignments", "tp", "op", "assignment", "kind") == [(1, 4, 1, AssignmentKind.MANUAL)]


def test_what_was_dropped_is_dropped_again(tmp_path: Path) -> None:
    """It may have been read in between, by a client that reads what nobody assigned."""
    read = op("ok", 0, "poll", [["poll", {"y": [[0, "b"]]}]])
    drop = op("ok", 0, "assign", ["x"])
    case = one(tmp_path, *read, *drop, *read, *drop, *read)
    assert rows(case, "reads", "assignment") == [0, 1, 2]


def test_a_rebalance_is_an_event_before_the_polls_of_its_op(tmp_path: Path) -> None:
    log = [{"type": "revoked", "keys": ["x"]}, {"type": "assigned", "keys": ["y"]}]
    polls = [["poll", {"x": [[1, "b"]]}], ["poll", {"x": [[0, "a"]]}]]
    case = one(
        tmp_path,
        *op("ok", 0, "poll", [["poll", {"x": [[0, "a"]]}]]),
        *op("ok", 0, "poll", polls, rebalance_log=log),
        *op("ok", 0, "poll", [["poll", {"x": [[0, "a"]]}]]),
    )
    assert rows(case, "reads", "assignment") == [0, 1, 1, 1]
    assert rows(case, "assignments", "tp", "op", "kind") == [
        (0, 1, AssignmentKind.REVOKED),
        (1, 1, AssignmentKind.ASSIGNED),
    ]


def test_an_info_op_without_value_keeps_what_was_invoked(tmp_path: Path) -> None:
    case = one(
        tmp_path,
        event("invoke", 0, "send", [["send", "x", "a"]]),
        event("info", 0, "send", None),
        *op("info", 1, "crash", None),
    )
    assert rows(case, "sends", "outcome") == [Outcome.INFO]
    assert [case.values[value] for value in rows(case, "sends", "value")] == ["a"]
    assert rows(case, "ops", "process", "n_sends") == [(0, 1), (1, 0)]


def test_keys_that_are_named_only_by_an_empty_poll_carry_no_records(tmp_path: Path) -> None:
    case = one(tmp_path, *op("ok", 0, "poll", [["poll", {"x": []}]]))
    assert (case.tables["tps"].num_rows, case.tables["reads"].num_rows) == (0, 0)


@pytest.mark.parametrize("layout", ["object", "indented", "array", "lines"])
def test_layouts_of_a_file(tmp_path: Path, layout: str) -> None:
    found = [{"name": name, "history": op("ok", 0, "crash", None)} for name in ("a", "b")]
    path = tmp_path / "file"
    if layout in ("object", "indented"):
        found = found[:1]
        path.write_text(json.dumps(found[0], indent=1 if layout == "indented" else None))
    else:
        lines = [json.dumps(case) for case in found]
        path.write_text("\n".join(lines) if layout == "lines" else f"[{','.join(lines)}]")
    assert [case.name for case in cases(path)] == [case["name"] for case in found]


def test_a_unit_case_is_named_but_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps({"name": "u", "kind": "unit", "history": [{"f": "nonsense"}]}))
    (case,) = cases(path)
    assert (case.kind, case.tables) == ("unit", {})


SEND = [["send", "x", "a"]]
BAD_EVENTS: dict[str, tuple[list[Any], list[str]]] = {
    "process is text": ([event("invoke", "0", "send", SEND)], ["history[0]", "int", "process"]),  # type: ignore[arg-type]
    "process is negative": ([event("invoke", -1, "send", SEND)], ["history[0]", ">= 0"]),
    "unknown f": ([event("invoke", 0, "append", SEND)], ["history[0]", "append"]),
    "unknown type": ([event("started", 0, "send", SEND)], ["history[0]", "started"]),
    "no process": ([{"index": 0, "type": "invoke", "f": "send"}], ["history[0]", "process"]),
    "not an object": ([[]], ["history[0]", "object"]),
    "poll in a send": ([event("invoke", 0, "send", [["poll"]])], ["history[0]", "poll"]),
    "offset is text": (op("ok", 0, "send", [["send", "x", ["0", "a"]]]), ["history[0]", "$.value[0][2]"]),
    "offset is negative": (op("ok", 0, "send", [["send", "x", [-3, "a"]]]), [">= 0"]),
    "value is a number with a point": (op("ok", 0, "send", [["send", "x", 1.5]]), ["float"]),
    "value is a truth value": (op("ok", 0, "send", [["send", "x", True]]), ["bool"]),
    "records are no pairs": (op("ok", 0, "poll", [["poll", {"x": [[0]]}]]), ["length 2"]),
    "records are no object": (op("ok", 0, "poll", [["poll", [[0, "a"]]]]), ["object"]),
    "completion without invocation": (
        [event("ok", 4, "send", SEND)],
        ["history[0]", "process 4 has no op invoked"],
    ),
    "invoked twice": (
        [event("invoke", 0, "send", SEND), event("invoke", 0, "poll", [["poll"]])],
        ["history[1]", "history[0] has not completed"],
    ),
    "another f": (
        [event("invoke", 0, "send", SEND), event("ok", 0, "txn", SEND)],
        ["history[1]", "f differs"],
    ),
    "another number of micro-ops": (
        [event("invoke", 0, "send", SEND), event("ok", 0, "send", [])],
        ["history[1]", "0 sends", "expected the 1"],
    ),
    "another value": (
        [event("invoke", 0, "send", SEND), event("ok", 0, "send", [["send", "x", [0, "b"]]])],
        ["history[1]", "in the same order"],
    ),
    "sent twice": (
        [*op("ok", 0, "send", SEND), *op("ok", 1, "send", SEND)],
        ["'a' of key 'x'", "history[0]", "history[2]"],
    ),
}


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_bad_event_is_named(tmp_path: Path, name: str) -> None:
    events, words = BAD_EVENTS[name]
    with pytest.raises(HistoryError) as caught:
        one(tmp_path, *events)
    message = str(caught.value)
    assert "case 'case'" in message
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"[{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b'{"name": "\xff", "history": []}', "utf-8"),
        (b"17", "object"),
        (b'{"history": []}', "name"),
        (b'{"name": "a"}', "history"),
        (b'{"name": 3, "history": []}', "name"),
        (b'{"name": "a", "history": {}}', "history"),
        (b'{"name": "a", "history": [' + b"[" * 2000 + b"]" * 2000 + b"]}", "too deeply"),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=words) as caught:
        check_portable(path)
    assert str(path) in str(caught.value)


GOOD = json.dumps({"name": "good", "history": op("ok", 0, "send", [["send", "x", [0, "a"]]])})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD + "\n" + GOOD, "two cases are called 'good'"),
        (GOOD + '\n{"name": ', "case 2"),
        (GOOD + '\n{"name": "bad", "history": [{}]}', "case 'bad': history[0]"),
        ("[" + GOOD + ',\n{"name": "bad", "history": [{]},\n{"name": "bad", "history": [0]}]', "line 2"),
        ("[" + GOOD + ',\n{"name": "cut", "hist', "line 2"),
    ],
)
def test_a_bad_case_is_named_and_the_others_are_judged(
    tmp_path: Path, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    good, *bad = check_portable(path)
    assert good["by_config"]["assign+ww"]["anomalies"] == ["unseen"]
    assert "error" not in good
    assert words in bad[0]["error"]
    assert {verdict["valid"] for one in bad for verdict in one["by_config"].values()} == {"unknown"}
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == ["not judged"] * len(bad)


def test_a_completion_may_hold_more_polls_than_its_invocation(tmp_path: Path) -> None:
    polls = [["poll", {"x": [[0, "a"]]}], ["poll", {"x": [[1, "b"]]}]]
    case = one(tmp_path, event("invoke", 0, "poll", [["poll"]]), event("ok", 0, "poll", polls))
    assert rows(case, "reads", "pos", "offset") == [(0, 0), (1, 1)]


def portable(tmp_path: Path, *ops: tuple[str, str, Any, Any]) -> Path:
    """A file with one case. ops: f, type, value of the invocation, value of the completion."""
    events = []
    for n, (f, type_, asked, done) in enumerate(ops):
        common = {"process": n, "f": f}
        events += [{**common, "type": "invoke", "value": asked}, {**common, "type": type_, "value": done}]
    for n, event in enumerate(events):
        event["index"] = n
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"name": "c", "history": events}))
    return path


ASKED: Any = [["send", "x", "a"]]
ACKED: Any = [["send", "x", [0, "a"]]]
EMPTY = ("poll", "ok", [["poll"]], [["poll", {"x": []}]])
READ = ("poll", "ok", [["poll"]], [["poll", {"x": [[0, "a"]]}]])


@pytest.mark.parametrize(
    ("ops", "valid"),
    [
        ([("send", "info", ASKED, ASKED)], "unknown"),
        ([("send", "fail", ASKED, ASKED)], "unknown"),
        ([EMPTY], "unknown"),
        ([("poll", "fail", [["poll"]], None)], "unknown"),
        ([("send", "fail", ASKED, ASKED), EMPTY], "unknown"),
        ([("assign", "ok", ["x"], ["x"])], "unknown"),
        ([("txn", "ok", [["poll"]], [["poll"]])], "unknown"),
        ([("send", "ok", ASKED, ACKED)], False),  # no poll shows it
        ([("send", "ok", ASKED, ACKED), READ], True),
        ([("send", "info", ASKED, ASKED), READ], True),
        ([("send", "fail", ASKED, ASKED), READ], False),
    ],
)
def test_a_case_that_shows_nothing_of_the_cluster_is_unknown(
    tmp_path: Path, ops: list[tuple[str, str, Any, Any]], valid: Any
) -> None:
    (answer,) = check_portable(portable(tmp_path, *ops))
    assert {config["valid"] for config in answer["by_config"].values()} == {valid}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"x": [[0, "a"]]}', '{"x": [[7, "phantom"]], "x": [[0, "a"]]}', "the key 'x' stands twice"),
        ('"index": 3', '"index": 3, "type": "ok", "type": "ok"', "history[3]: "),
        ('"index": 3', '"index": 3, "transaction": true', "transaction"),
        ('"name": "c"', '"name": "c", "name": "c"', "the key 'name' stands twice"),
    ],
)
def test_a_key_that_stands_twice_and_one_that_no_event_has_are_damage(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = portable(tmp_path, ("send", "ok", ASKED, ACKED), READ)
    text = path.read_text()
    assert [one.error for one in cases(path)] == [""]
    assert old in text
    path.write_text(text.replace(old, new))
    (case,) = cases(path)
    assert said in case.error


@pytest.mark.parametrize("content", ["[]", " [ ]\n", '{"name": "u", "kind": "unit", "history": []}'])
def test_a_file_without_a_case_that_can_be_judged_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "history.json"
    path.write_text(content)
    with pytest.raises(HistoryError, match="no case that can be judged"):
        check_portable(path)


def test_a_case_has_tables_without_nulls(tmp_path: Path) -> None:
    (case,) = cases(portable(tmp_path, ("send", "ok", ASKED, ACKED), READ))
    for name, table in case.tables.items():
        assert {column: table.column(column).null_count for column in table.column_names} == dict.fromkeys(
            table.column_names, 0
        ), name
