"""A poll in doubt may have been given records that are not on record: what nothing else lost is open then."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.api import check_portable
from core.config import recorded_config
from history.reader import load
from tests.checkers.recordings import imported
from tests.checkers.recordings.test_contradictions import process
from tests.checkers.recordings.test_formats import SENT, found, jepsen, op, records, text, verdict_of
from tests.checkers.recordings.test_on_record import committed, holds
from tests.histories.folders import check_run
from tests.oracle import anomalies

VALUES = [(chr(97 + n), n) for n in range(4)]
SENDS = op(0, 10, sends=records(*VALUES))
LAST = op(2, 50, reads=records(VALUES[3]))
BEHIND = "5 poll [[:poll]] => ok [[:poll {1 [[1 8]]}]]"


@pytest.mark.parametrize(
    ("doubt", "forbidden"),
    [
        ("1 txn [[:poll]] => info [[:poll]]", []),
        ("1 poll [[:poll]] => info [[:poll]]", []),
        ("1 poll [[:poll]]", []),
        ("1 txn [[:send 2 9] [:poll]] => info [[:send 2 9] [:poll]]", []),
        ("1 poll [[:poll]] => fail [[:poll]]", ["lost-write"]),
        ("1 poll [[:poll]] => ok [[:poll {}]]", ["lost-write"]),
        ("1 send [[:send 2 9]] => info [[:send 2 9]]", ["lost-write"]),
        ("1 assign [1] => info [1]", ["lost-write"]),
        ("1 crash nil => info nil", ["lost-write"]),
    ],
)
def test_jepsen_what_a_poll_in_doubt_may_have_taken_is_not_lost(
    tmp_path: Path, doubt: str, forbidden: list[str]
) -> None:
    verdict = verdict_of(tmp_path, "jepsen", jepsen(*SENT, doubt, BEHIND))
    assert found(verdict) == forbidden
    if not forbidden:
        assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
        assert verdict.unknown[0].startswith("durability: 1 of the committed records may be lost or not")


def test_jepsen_a_poll_in_doubt_has_nothing_of_later_records(tmp_path: Path) -> None:
    doubt = "1 poll [[:poll]] => info [[:poll]]"
    assert found(verdict_of(tmp_path, "jepsen", jepsen(doubt, *SENT, BEHIND))) == ["lost-write"]
    (tmp_path / "b").mkdir()
    later = jepsen(*SENT, BEHIND, doubt)  # what was polled before it was passed before it
    assert found(verdict_of(tmp_path / "b", "jepsen", later)) == ["lost-write"]


def portable(tmp_path: Path, outcome: str) -> list[str]:
    events: list[dict[str, Any]] = []
    for who, f, asked, type_, done in (
        (0, "send", [["send", "x", "a"]], "ok", [["send", "x", [0, "a"]]]),
        (0, "send", [["send", "x", "b"]], "ok", [["send", "x", [1, "b"]]]),
        (1, "poll", [["poll"]], outcome, [["poll"]]),
        (2, "poll", [["poll"]], "ok", [["poll", {"x": [[1, "b"]]}]]),
    ):
        for kind, value in (("invoke", asked), (type_, done)):
            index = len(events)
            events.append({"index": index, "process": who, "type": kind, "f": f, "value": value})
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"name": "a", "history": events}))
    (answer,) = check_portable(path)
    return list(answer["by_config"]["assign+ww"]["anomalies"])


def test_portable_such_a_record_was_not_seen_and_need_not_be_lost(tmp_path: Path) -> None:
    assert portable(tmp_path, "fail") == ["lost-write", "unseen"]
    assert portable(tmp_path, "info") == ["unseen"]


@pytest.mark.parametrize("end", [None, 45])
@pytest.mark.parametrize(
    ("outcome", "groups", "forbidden"),
    [
        ("info", ("g", "g"), []),
        ("info", (None, None), []),  # a client that continues has a new number
        ("info", ("g", "h"), ["lost-write"]),
        ("info", ("g", None), ["lost-write"]),
        ("fail", ("g", "g"), ["lost-write"]),
    ],
)
def test_lines_a_poll_in_doubt_is_one_of_its_group(
    tmp_path: Path, end: int | None, outcome: str, groups: tuple[str | None, ...], forbidden: list[str]
) -> None:
    own = [process(n, acks=None, group=group) for n, group in enumerate(groups, 1)]
    doubt = {**op(1, 30), "outcome": outcome, "end_ns": 45 if outcome == "fail" else end}
    verdict = verdict_of(tmp_path, "jsonl", text(holds("from_start"), *own, SENDS, doubt, LAST))
    assert found(verdict) == forbidden


@pytest.mark.parametrize(("outcome", "forbidden"), [("info", []), ("fail", ["lost-write", "poll-skip"])])
def test_a_consumer_may_go_on_behind_its_own_poll_in_doubt(
    tmp_path: Path, outcome: str, forbidden: list[str]
) -> None:
    first, last = op(1, 20, reads=records(VALUES[0])), op(1, 50, reads=records(VALUES[3]))
    doubt = {**op(1, 30), "outcome": outcome}
    for number, facts in enumerate((("from_start",), ("from_start", "positions"))):
        lines = text(holds(*facts), process(1, acks=None), SENDS, first, doubt, last)
        assert found(verdict_of(tmp_path / str(number), "jsonl", lines)) == forbidden


def skipping(doubt: dict[str, Any], *more: dict[str, Any], facts: tuple[str, ...] = ("from_start",)) -> str:
    """Process 1 of the group g has a poll in doubt, and process 2 of it reads the last record and commits 4;
    process 3 of no group reads everything."""
    own = [process(n, group="g") for n in (1, 2)]
    last, every = {**LAST, "commits": committed(4)}, op(3, 60, reads=records(*VALUES))
    return text(holds("commits", *facts), *own, *more, SENDS, doubt, last, every)


DOUBT = {**op(1, 30), "outcome": "info"}


@pytest.mark.parametrize(
    ("doubt", "forbidden"),
    [
        (DOUBT, 0),
        ({**DOUBT, "commits": committed(3)}, 0),
        ({**DOUBT, "end_ns": None}, 0),
        ({**DOUBT, "outcome": "fail"}, 3),
        ({**DOUBT, "outcome": "ok"}, 3),
        ({**DOUBT, "begin_ns": 52, "end_ns": 60}, 3),  # the group had passed them
        ({**DOUBT, "begin_ns": 1, "end_ns": 9}, 3),  # they had not been sent
        ({**DOUBT, "process": 3}, 3),  # of no group
        ({**DOUBT, "sends": [{"topic": "t", "partition": 1, "value": "z"}]}, 3),  # a send
    ],
)
def test_what_a_group_may_have_been_given_in_doubt_it_did_not_skip(
    tmp_path: Path, doubt: dict[str, Any], forbidden: int
) -> None:
    run, _ = imported(tmp_path, "jsonl", skipping(doubt))
    verdict = check_run(run)
    counts = {name: anomaly.count for name, anomaly in verdict.anomalies.items()}
    assert counts == ({"group-skip": forbidden} if forbidden else {})
    assert verdict.checks["group-delivery"].status == ("invalid" if forbidden else "unknown")
    history = load(run)
    tables = {**history.tables, **{name: history.whole(name) for name in ("sends", "reads")}}
    keys = anomalies.findings(tables, portable=False, config=recorded_config(run.config), f=history.names.f)
    assert sum(key[0] == "group-skip" for key in keys) == forbidden
