"""Leaders by the log of ZooKeeper: each rule fires at one that no controller of Kafka chooses or leaves."""

from pathlib import Path
from typing import Any

import pytest

from checkers.engine.check import Tally
from checkers.logs import accept_leaders
from history.reader import History
from tests.checkers.logs.test_accept_controllers import HELD_UP, UNTOUCHED, later, of_settings
from tests.checkers.logs.test_accept_controllers import judged as by_controllers
from tests.checkers.logs.test_accept_znodes import (
    FIRST,
    SECOND,
    STATE,
    THIRD,
    TOPIC,
    TP,
    Rows,
    change,
    log,
    put,
    state,
)

FIRST_LEADS = "first-live-in-sync-leads"


def judged(rows: Rows, events: Any = UNTOUCHED, history: History | None = None) -> Tally:
    """What the rules about leaders say."""
    return by_controllers(rows, events, accept_leaders, history)


def found(rows: Rows, events: Any = UNTOUCHED, history: History | None = None) -> dict[str, int]:
    """What is refused."""
    return dict(+judged(rows, events, history).refused)


def test_what_kafka_writes_is_accepted_and_each_rule_is_asked() -> None:
    tally = judged(log())
    assert (dict(tally.asked), tally.in_logs) == (
        {"first-live-in-sync-leads": 3, "gone-leads-nothing": 1},
        [],
    )


# ---- who is chosen


def create(leader: int, isr: list[int]) -> dict[str, Any]:
    """The partition's first state."""
    return change(8, FIRST, "create", STATE, state(8, FIRST, leader, 0, isr)["data"])


def test_the_first_one_in_sync_that_lives_is_chosen() -> None:
    rows = [row for row in log() if row["zxid"] <= 10]
    assert found([*rows, state(11, SECOND, 3, 1, [2, 3], by=2)]) == {"first-live-in-sync-leads": 1}
    assert found([*rows, state(11, SECOND, 2, 1, [2, 3], by=2)]) == {}
    assert not judged([*rows, state(11, SECOND, 1, 1, [1, 2], by=2)]).asked[FIRST_LEADS] - 1, "no choice"


def test_who_has_no_znode_is_not_chosen() -> None:
    """Broker 1, whose znode went before the controller took office."""
    rows = [row for row in log() if row["zxid"] <= 10]
    none = state(11, SECOND, -1, 1, [1, 2, 3], by=2)
    back = state(12, SECOND, 1, 2, [1, 2, 3], by=2)
    assert found([*rows, none, back]) == {"first-live-in-sync-leads": 1}


def test_a_first_state_names_the_first_one_that_lives() -> None:
    """Brokers that came before the controller took office are known to it."""
    rows = [row for row in log() if row["zxid"] <= 8]
    begun = [row for row in rows if row["path"] != STATE]
    assert found([*begun, create(2, [1, 2, 3])]) == {"first-live-in-sync-leads": 1}
    assert found([*begun, create(2, [2, 3])]) == {}


def test_what_a_controller_may_not_have_heard_is_free() -> None:
    """Broker 2 comes under a controller in office, and is in sync."""
    rows = [row for row in log() if row["zxid"] <= 8 and row["path"] not in (STATE, "/brokers/ids/2")]
    came = change(9, SECOND, "create", "/brokers/ids/2", {}, owner=SECOND)
    first = change(10, FIRST, "create", STATE, state(10, FIRST, 3, 0, [2, 3])["data"])
    rows = [row | {"data": '{"partitions":{"0":[2,3]}}'} if row["path"] == TOPIC else row for row in rows]
    assert found([*rows, came, first]) == {}
    assert found([*rows, came, first | {"ms": 38_999}]) == {}
    assert found([*rows, came, first | {"ms": 39_000}]) == {"first-live-in-sync-leads": 1}
    assert found([*rows, came, first | {"ms": 39_000}], ()) == {}, "ZooKeeper may have been down"


def test_one_that_leaves_the_in_sync_replicas_is_passed_over() -> None:
    """It is shutting down: its znode stands still."""
    rows = [row for row in log() if row["zxid"] <= 10]
    assert found([*rows, state(11, SECOND, 3, 1, [3], by=2)]) == {}


def test_one_that_was_out_of_sync_is_passed_over() -> None:
    rows = [row for row in log() if row["zxid"] <= 8]
    shrunk = state(9, FIRST, 1, 0, [1, 3])
    ends = [row for row in log() if row["zxid"] in (9, 10)]
    ends = [row | {"zxid": row["zxid"] + 1} for row in ends]
    assert found([*rows, shrunk, *ends, state(12, SECOND, 3, 1, [3], by=2)]) == {}


def test_one_that_a_reassignment_removes_is_passed_over() -> None:
    rows = [row for row in log() if row["zxid"] <= 10]
    moved = {"partitions": {"0": [2, 3, 1]}, "removing_replicas": {"0": [2]}}
    topic = change(10, SECOND, "set", TOPIC, moved)
    led = state(11, SECOND, 3, 1, [2, 3], by=2)
    assert found([*rows, topic, led]) == {}
    assert found([*rows, led]) == {"first-live-in-sync-leads": 1}


def test_one_that_a_znode_reassigns_is_not_asked() -> None:
    """Up to 2.3 its assignment may have no order meanwhile."""
    rows = [row for row in log() if row["zxid"] <= 10]
    wanted = {"partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}
    asked = change(10, THIRD, "create", "/admin/reassign_partitions", wanted)
    assert found([*rows, asked, state(11, SECOND, 3, 1, [2, 3], by=2)]) == {}


def test_an_unclean_leader_and_the_writes_of_others_are_not_asked() -> None:
    rows = [row for row in log() if row["zxid"] <= 10]
    former = state(11, FIRST, 3, 1, [2, 3], by=1)
    assert not judged([*rows, former]).asked[FIRST_LEADS] - 1
    stranger = put(16, state(16, SECOND, 2, 3, [2], by=2))(log())
    assert found(stranger) == {}


# ---- who is gone


LEFT = [row for row in log() if row["zxid"] <= 10]
"""Broker 1 leads and is gone at 9 s, the controller with it; broker 2 is controller since 10 s."""
WROTE = change(20, SECOND, "set", "/controller_epoch", "2", ms=20_000)


def test_who_is_gone_leads_nothing_in_the_end() -> None:
    assert found([*LEFT, WROTE, later(21, 50_000)]) == {"gone-leads-nothing": 1}
    (one,) = judged([*LEFT, WROTE, later(21, 50_000)]).in_logs
    assert (one.log, "broker 1 was gone" in one.text) == (TP, True)
    late = state(21, SECOND, 2, 1, [2, 3], by=2) | {"ms": 45_000}
    assert found([*LEFT, WROTE, late]) == {"gone-leads-nothing": 1}
    assert found([*LEFT, WROTE, late | {"ms": 40_000}]) == {}


@pytest.mark.parametrize(("settings", "more_s"), HELD_UP)
def test_a_controller_that_waits_for_answers_elects_later(
    tmp_path: Path, settings: dict[str, Any], more_s: int
) -> None:
    """It removes a broker that is paused, and is gone, before it elects."""
    history = of_settings(tmp_path, settings)
    late = state(21, SECOND, 2, 1, [2, 3], by=2)
    for late_ms, refused in ((0, {}), (100, {"gone-leads-nothing": 1})):
        rows = [*LEFT, WROTE, late | {"ms": 40_000 + 1000 * more_s + late_ms}, later(22, 200_000)]
        assert found(rows, history=history) == refused


def test_a_leader_that_is_none_is_enough() -> None:
    none = state(11, SECOND, -1, 1, [2, 3], by=2)
    rows = [*LEFT, none, WROTE, later(21, 50_000)]
    assert found(rows) == {}
    assert judged(rows).asked["gone-leads-nothing"] == 1


@pytest.mark.parametrize(
    "more",
    [
        (),  # the controller writes nothing
        (WROTE, change(21, FIRST + 1, "create", "/brokers/ids/1", {}, owner=FIRST + 1, ms=39_000)),
        (WROTE, change(21, SECOND, "delete", "/controller", None, ms=39_000)),
        (WROTE, change(21, THIRD, "create", "/admin/delete_topics/t", ms=22_000)),
        (
            WROTE,
            change(21, SECOND, "delete", "/brokers/ids/2", None, ms=22_000),  # of its znode, not the session
            change(21, THIRD, "delete", "/brokers/ids/3", None, ms=22_000),
        ),
    ],
)
def test_where_something_else_may_be_why_nothing_is_asked(more: tuple[dict[str, Any], ...]) -> None:
    rows = [*LEFT, *more, later(30, 60_000)]
    assert found(rows) == {}
    assert not judged(rows).asked["gone-leads-nothing"]


def test_where_zookeeper_may_have_been_down_nothing_is_asked() -> None:
    assert found([*LEFT, WROTE, later(21, 50_000)], ()) == {}


def test_the_last_one_in_sync_is_left_by_a_controller_that_comes_later() -> None:
    """Before 2.3; one that was in office writes that there is no leader."""
    alone = [row | {"data": create(1, [1])["data"]} if row["path"] == STATE else row for row in LEFT]
    assert found([*alone, WROTE, later(21, 50_000)]) == {}
    in_office = [row for row in alone if row["zxid"] < 6 or row["path"] in (TOPIC, STATE)]
    taken = change(6, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND)
    for gone_ms, refused in ((9_000, {}), (35_000, {}), (37_000, {"gone-leads-nothing": 1})):
        gone = change(9, FIRST, "delete", "/brokers/ids/1", None, ms=gone_ms)
        wrote = [WROTE | {"ms": gone_ms + 11_000}, later(21, gone_ms + 41_000)]
        rows = [*in_office[:5], taken, *in_office[5:], gone, *wrote]
        assert found(rows) == refused, "one that takes office reads who lives a moment later"


def test_a_state_that_cannot_be_read_leaves_its_partition_open() -> None:
    rows = put(13, state(13, SECOND, 3, 2, [2, 3], by=2) | {"data": "{"})(log())
    assert {doubt.check for doubt in judged(rows).doubts} == {*accept_leaders.CHECKS}
