"""Notices of changed in-sync replicas by the log of ZooKeeper: each rule fires at what Kafka never does."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.check import Tally
from checkers.logs import accept_notices
from history.events import ClockJumped
from history.reader import History
from tests.checkers.logs.test_accept_controllers import HELD_UP, UNTOUCHED, later, of_settings
from tests.checkers.logs.test_accept_controllers import judged as by_controllers
from tests.checkers.logs.test_accept_znodes import FIRST, SECOND, THIRD, Rows, change, log, state, without

NOTICE = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}


def judged(rows: Rows, events: Any = UNTOUCHED, history: History | None = None) -> Tally:
    """What the rules about notices say."""
    return by_controllers(rows, events, accept_notices, history)


def found(rows: Rows, events: Any = UNTOUCHED, history: History | None = None) -> dict[str, int]:
    """What is refused."""
    return dict(+judged(rows, events, history).refused)


def notice(zxid: int, ms: int, session: int = THIRD) -> dict[str, Any]:
    """A leader tells of the partition."""
    path = f"/isr_change_notification/isr_change_{zxid}"
    return change(zxid, session, "create", path, NOTICE, ms=ms)


def read(zxid: int, ms: int, of: int, session: int = SECOND) -> dict[str, Any]:
    """The notice of another zxid is deleted."""
    return change(zxid, session, "delete", f"/isr_change_notification/isr_change_{of}", None, ms=ms)


def begun() -> Rows:
    """Broker 3 leads, and has changed the in-sync replicas at 14 s; broker 2 is controller since 10 s."""
    return [row for row in log() if row["zxid"] <= 14]


def test_what_kafka_writes_is_accepted_and_each_rule_is_asked() -> None:
    tally = judged(log())
    assert (tally.in_logs, tally.doubts, set(tally.asked)) == ([], [], set(accept_notices.CHECKS))


def test_a_change_is_asked_as_soon_as_its_notice_is_there() -> None:
    """A run that ends before the time is up asks of the others nothing."""
    rows = [*begun(), notice(15, 20_000)]
    assert judged(rows).asked["in-sync-change-noticed"] == 1
    assert not judged(begun()).asked["in-sync-change-noticed"]
    assert found([*begun(), later(15, 91_000)]) == {}
    assert found([*begun(), later(15, 92_000)]) == {"in-sync-change-noticed": 1}
    assert found([*begun(), notice(15, 91_501), later(16, 95_000)]) == {"in-sync-change-noticed": 1}
    assert found([*begun(), later(15, 92_000)], ()) == {}, "ZooKeeper may have been down"


# ---- held back


def changed_again(ms: int) -> Rows:
    """After a notice at 20 s, the leader changes the in-sync replicas at 22 s and gives notice of it."""
    again = state(16, THIRD, 3, 2, [3, 1], by=2) | {"ms": 22_000}
    return [*begun(), notice(15, 20_000), again, notice(17, ms)]


def test_a_notice_waits_for_5_s_without_a_change() -> None:
    assert found(changed_again(26_000)) == {"in-sync-notice-held-back": 1}
    assert found(changed_again(27_000)) == {}
    assert judged(changed_again(27_000)).asked["in-sync-notice-held-back"] == 1


def test_the_first_notice_of_a_session_and_one_after_60_s_may_come_at_once() -> None:
    assert found([*begun(), notice(15, 14_100)]) == {}
    late = state(16, THIRD, 3, 2, [3, 1], by=2) | {"ms": 79_000}
    assert found([*begun(), notice(15, 20_000), late, notice(17, 80_100)]) == {}


def test_a_change_that_the_leader_may_not_know_yet_is_left_aside() -> None:
    """Its write was not answered yet, and the notice is of an earlier one."""
    again = [state(16 + n, THIRD, 3, 2, isr, by=2) for n, isr in enumerate(([3, 1], [3, 1, 2]))]
    first, second = again[0] | {"ms": 22_000}, again[1] | {"ms": 27_900}
    assert found([*begun(), notice(15, 20_000), first, second, notice(18, 28_000)]) == {}
    before = state(14, THIRD, 3, 2, [3], by=2) | {"ms": 19_990}
    rows = [*without(14)(begun()), before, notice(15, 20_000), first, notice(18, 23_000)]
    assert found(rows) == {}, "the first one may be why it is named"


def test_a_notice_whose_answer_was_lost_is_sent_again() -> None:
    """Kafka creates it once more when it has a connection again, as it changes the in-sync replicas then."""
    again = state(16, THIRD, 3, 2, [3, 1], by=2) | {"ms": 25_900}
    rows = [*begun(), notice(15, 20_000), again]
    assert found([*rows, notice(17, 26_000)]) == {}
    assert found([*rows, notice(17, 27_000)]) == {"in-sync-notice-held-back": 1}, "not as it has one"
    other = {"partitions": [{"topic": topic, "partition": 0} for topic in ("t", "u")]}
    assert found([*rows, notice(17, 26_000) | {"data": json.dumps(other)}]) == {"in-sync-notice-held-back": 1}
    late = [*begun(), notice(15, 20_000), again | {"ms": 35_900}, notice(17, 36_000)]
    assert found(late) == {"in-sync-notice-held-back": 1}, "its session would have ended"


def test_a_change_that_no_notice_named_yet_may_be_why_a_partition_is_named() -> None:
    """The process stood still before it knew of its write, and another thread gave a notice."""
    other = notice(15, 20_000) | {"data": json.dumps({"partitions": [{"topic": "u", "partition": 0}]})}
    again = state(16, THIRD, 3, 2, [3, 1], by=2) | {"ms": 24_900}
    assert found([*begun(), other, again, notice(17, 25_200)]) == {}
    assert found([*begun(), notice(15, 20_000), again, notice(17, 27_200)]) == {"in-sync-notice-held-back": 1}


def test_who_is_controller_too_is_not_asked() -> None:
    """One session writes for both."""
    taken = [
        change(14, SECOND, "delete", "/controller", None),
        change(14, THIRD, "create", "/controller", {"brokerid": 3}, owner=THIRD),
    ]
    rows = changed_again(26_000)
    assert found([*rows[: len(begun())], *taken, *rows[len(begun()) :]]) == {}


def test_where_the_clock_jumped_no_time_is_asked() -> None:
    jump = ClockJumped(before_ns=0, ns=1, wall_s=-3.0)
    assert found(changed_again(26_000), (*UNTOUCHED, jump)) == {}


# ---- read


def long_in_office() -> Rows:
    """The same, 40 s later: broker 2 is controller for long."""
    return [row if row["zxid"] <= 10 else row | {"ms": row["ms"] + 40_000} for row in begun()]


def test_the_controller_reads_a_notice_in_time() -> None:
    rows = [*long_in_office(), notice(15, 60_000)]
    assert found([*rows, later(16, 91_000)]) == {"in-sync-notice-read": 1}
    assert found([*rows, read(16, 91_000, of=15)]) == {"in-sync-notice-read": 1}
    assert found([*rows, read(16, 89_000, of=15), later(17, 120_000)]) == {}
    assert found([*rows, later(16, 91_000)], ()) == {}, "ZooKeeper may have been down"


@pytest.mark.parametrize(("settings", "more_s"), HELD_UP)
def test_a_controller_that_waits_for_answers_reads_it_later(
    tmp_path: Path, settings: dict[str, Any], more_s: int
) -> None:
    """It removes a broker that is paused, and is gone."""
    history = of_settings(tmp_path, settings)
    rows = [row if row["zxid"] <= 10 else row | {"ms": row["ms"] + 200_000} for row in begun()]
    for late_ms, refused in ((-100, {}), (100, {"in-sync-notice-read": 1})):
        deleted = read(16, 250_000 + 1000 * more_s + late_ms, of=15)
        some = [*rows, notice(15, 220_000), deleted, later(17, 400_000)]
        assert found(some, history=history) == refused


def test_no_other_session_deletes_it() -> None:
    rows = [*begun(), notice(15, 20_000)]
    assert found([*rows, read(16, 21_000, of=15)]) == {}
    assert found([*rows, read(16, 21_000, of=15, session=THIRD)]) == {"in-sync-notice-read": 1}
    assert found([*rows, read(16, 21_000, of=15, session=FIRST)]) == {"in-sync-notice-read": 1}


@pytest.mark.parametrize("office_ms", [31_000, 70_000])
def test_a_controller_that_comes_or_goes_meanwhile_may_leave_it(office_ms: int) -> None:
    """Before 1.0 one that takes office reads what is there as something comes to it."""
    rows = [row for row in long_in_office() if row["path"] != "/controller"]
    taken = change(15, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND, ms=office_ms)
    ends = change(17, SECOND, "delete", "/controller", None, ms=80_000)
    rows = sorted([*rows, taken], key=lambda row: row["ms"])
    told = notice(16, 60_000)
    assert found(sorted([*rows, told, later(18, 120_000)], key=lambda row: row["ms"])) == {}
    if office_ms < 60_000:
        assert found([*rows, told, ends, later(18, 120_000)]) == {}
