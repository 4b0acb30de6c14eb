"""What a controller of the time of ZooKeeper tells brokers: each rule fires at what Kafka never sends or
answers, and is silent on what it does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.check import Tally
from checkers.logs.orders import CHECKS, FENCED, TOLD, WRITTEN
from history.evidence import Evidence
from history.evidence_tables import ALL, FETCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from history.reader import History
from tests.checkers.logs.made import asked_nothing, of_all, tables
from tests.checkers.logs.test_accept_controllers import waits
from tests.checkers.logs.test_accept_znodes import FIRST, SECOND, THIRD, TOPIC, Rows, change, put, state
from tests.checkers.logs.test_lineage import sent

MS, SECOND_MS = 1_000_000, 1000
STALE = 11
Frames = list[dict[str, Any]]


class Seen:
    """Messages of brokers 1, 2 and 3. Times are seconds of the log of ZooKeeper, as its zxids are."""

    def __init__(self) -> None:
        self.frames: Frames = []
        self.orders: Frames = []
        self.gaps: Frames = []
        self.correlation = self.count = 0

    def frame(self, at: float, ends: tuple[int, int], answer: bool, api: int, **more: Any) -> int:
        ms = round(at * SECOND_MS)
        where = {"client": ends[0], "server": ends[1], "connection": 10 * ends[0] + ends[1]}
        said = {"answer": answer, "api": api, "correlation": self.correlation, "order": self.count}
        self.frames.append({"at_ns": ms * MS, "ms": ms, **where, **said, **more})
        self.count += 1
        return self.count - 1

    def order(self, at: float, ends: tuple[int, int], epoch: int, *states: Any, **more: Any) -> None:
        """A controller's request, and its answer 10 ms later. states: leader, leader epoch, in-sync set.
        more: error, None = there is no answer; api; broker_epoch; connection."""
        self.correlation += 1
        api, error = more.pop("api", LEADER_AND_ISR), more.pop("error", 0)
        ruler = {"controller": ends[0], "controller_epoch": epoch, "broker_epoch": more.pop("broker", None)}
        asked = self.frame(at, ends, False, api, **more)
        self.orders.append({"of": asked, "partition": -1, **ruler})
        for leader, leader_epoch, isr in states:
            its = {"leader": leader, "leader_epoch": leader_epoch, "isr": isr}
            self.orders.append({"of": asked, "topic": "t", "partition": 0, **its})
        if error is not None:
            told = self.frame(at + 0.01, ends, True, api, **more)
            self.orders.append({"of": told, "partition": -1, "error": error})

    def talk(self, first: int, last: int) -> None:
        """Each broker answers each other, second by second."""
        pairs = [(one, other) for one in (1, 2, 3) for other in (1, 2, 3) if one != other]
        for at in range(first, last):
            for ends in pairs:
                self.correlation += 1
                for answer in (False, True):
                    self.frame(at + 0.5, ends, answer, FETCH)

    def evidence(self, znodes: Rows) -> Evidence:
        """The tables, in the order of time."""
        by_time = sorted(self.frames, key=lambda row: (row["at_ns"], row["order"]))
        numbers = {row["order"]: number for number, row in enumerate(by_time)}
        frames = [row | {"number": numbers[row["order"]]} for row in by_time]
        orders = sorted((row | {"number": numbers[row["of"]]} for row in self.orders), key=_number)
        rows = {"frames": frames, "frame_parts": [], "orders": orders, "gaps": self.gaps}
        return Evidence(tables({**rows, "znodes": znodes}))


def _number(row: dict[str, Any]) -> int:
    return int(row["number"])


def seen() -> Seen:
    """What controllers told by the log (`znodes`): broker 1 until 9 s, broker 2 from 10 s on."""
    made = Seen()
    made.talk(0, 100)
    for broker in (2, 3):
        made.order(8.1, (1, broker), 1, (1, 0, [1, 2, 3]))
        made.order(8.2, (1, broker), 1, api=UPDATE_METADATA)
    made.order(11.1, (2, 3), 2, (2, 1, [2, 3]))
    made.order(13.1, (2, 3), 2, (3, 2, [2, 3]))
    made.order(13.2, (2, 1), 2, (3, 2, [2, 3]))
    return made


def znodes() -> Rows:
    """Broker 1 leads, and is the controller; it dies, and broker 2 is the controller and leads, and lets
    broker 3 lead. ZooKeeper is up all the time: something changes each 4 s."""
    ids = ((1, FIRST), (2, SECOND), (3, THIRD), (1, FIRST + 1))
    first = state(8, FIRST, 1, 0, [1, 2, 3]) | {"op": "create"}
    return [
        change(1, FIRST, "create", "/brokers"),
        change(2, FIRST, "create", "/controller_epoch", "0"),
        *(change(2 + n, own, "create", f"/brokers/ids/{n}", {}, owner=own) for n, own in ids[:3]),
        change(6, FIRST, "create", "/controller", {"brokerid": 1}, owner=FIRST),
        change(6, FIRST, "set", "/controller_epoch", "1", version=1),
        change(7, FIRST, "create", TOPIC, {"version": 1, "partitions": {"0": [1, 2, 3]}}),
        first,
        change(9, FIRST, "delete", "/brokers/ids/1", None),
        change(9, FIRST, "delete", "/controller", None),
        change(10, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND),
        change(10, SECOND, "set", "/controller_epoch", "2", version=2),
        state(11, SECOND, 2, 1, [2, 3], by=2),
        *(change(12, own, "create", f"/brokers/ids/{n}", {}, owner=own) for n, own in ids[3:]),
        state(13, SECOND, 3, 2, [2, 3], by=2),
        state(14, THIRD, 3, 2, [3], by=2),
        *(change(at, THIRD, "set", "/brokers/seqid", version=at) for at in range(16, 100, 4)),
        change(200, SECOND, "create", "/admin/delete_topics/other"),
    ]


def judged(made: Seen, rows: Rows | None = None, history: History | None = None) -> Tally:
    return of_all(CHECKS, made.evidence(znodes() if rows is None else rows), history)


def refused(made: Seen, rows: Rows | None = None, history: History | None = None) -> dict[str, int]:
    found = judged(made, rows, history)
    assert not found.doubts
    return dict(+found.refused)


def test_what_kafka_tells_is_accepted_and_each_rule_is_asked() -> None:
    made = seen()
    made.order(12, (1, 3), 1, error=STALE)
    found = judged(made)
    assert (found.in_logs, found.doubts) == ([], [])
    assert dict(found.asked) == {FENCED: 1, WRITTEN: 5, TOLD: 1}


def test_where_no_former_controller_orders_anything_nothing_is_to_be_fenced() -> None:
    assert not judged(seen()).asked[FENCED]


def test_without_messages_of_a_controller_nothing_is_asked() -> None:
    assert asked_nothing(judged(Seen()))
    assert asked_nothing(of_all(CHECKS, Evidence(tables({"znodes": znodes()}))))


# ---- order-fenced


@pytest.mark.parametrize("api", [LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA])
@pytest.mark.parametrize("error", [0, STALE, 77, None])
def test_a_broker_obeys_a_former_controller(api: int, error: int | None) -> None:
    """Over the connection that the former one had before: broker 3 has not started again."""
    made = seen()
    made.order(12, (1, 3), 1, api=api, error=error)
    found = judged(made)
    assert dict(+found.refused) == ({FENCED: 1} if error == 0 else {})
    assert found.asked[FENCED] == (error is not None)
    if error == 0:
        (one,) = found.in_logs
        assert one.nodes == (3,)
        assert one.text == (
            "node 3 did at 12.0000 s what node 1 ordered as the controller of epoch 1, and had answered one"
            " of epoch 2 (node 2) at 11.1100 s."
        )


@pytest.mark.parametrize(("at", "wrong"), [(11.05, False), (11.11, False), (11.111, False), (11.112, True)])
def test_an_order_that_was_under_way_meanwhile_is_in_no_order(at: float, wrong: bool) -> None:
    made = seen()
    made.order(at, (1, 3), 1)
    assert refused(made) == ({FENCED: 1} if wrong else {})


def test_an_order_that_the_newer_controller_was_refused_fences_none() -> None:
    made = Seen()
    made.order(5, (1, 3), 1)
    made.order(6, (2, 3), 2, error=77)
    made.order(7, (1, 3), 1)
    assert refused(made) == {}


@pytest.mark.parametrize(("brokers", "wrong"), [((4, 4), True), ((4, 5), False), ((-1, -1), False)])
def test_a_process_that_started_again_has_forgotten_the_epoch(brokers: tuple[int, int], wrong: bool) -> None:
    """The connection is new. The epoch of the registration, where orders name it, says that it is the same
    process; before Kafka 2.2 nothing does."""
    made = Seen()
    made.order(5, (1, 3), 1, broker=brokers[0])
    made.order(6, (2, 3), 2, broker=brokers[0])
    made.order(7, (1, 3), 1, broker=brokers[1], connection=77)
    assert refused(made) == ({FENCED: 1} if wrong else {})


# ---- order-from-state


@pytest.mark.parametrize(
    "wrong",
    [
        (1, 1, [2, 3]),  # another leader
        (2, 2, [2, 3]),  # another epoch
        (2, 1, [2, 3, 1]),  # another in-sync set
        (3, 2, [2, 3]),  # what is written later
    ],
)
def test_a_controller_tells_what_it_has_not_written(wrong: tuple[int, int, list[int]]) -> None:
    made = seen()
    made.order(11.3, (2, 1), 2, wrong)
    found = judged(made)
    assert dict(+found.refused) == {WRITTEN: 1}
    (one,) = found.in_logs
    assert (str(one.log), one.nodes) == ("t-0", (2,))
    later = wrong[0] == 3
    assert ("written 1.7 s later" in one.text) is later
    assert ("has leader 2" in one.text) is not later


@pytest.mark.parametrize(("at", "wrong"), [(12.994, True), (12.995, False)])
def test_a_state_may_have_the_time_of_a_moment_later(at: float, wrong: bool) -> None:
    made = seen()
    made.order(at, (2, 1), 2, (3, 2, [3, 2]))
    assert refused(made) == ({WRITTEN: 1} if wrong else {})


def test_what_the_log_may_lack_is_not_asked() -> None:
    """It ends before the order; or a topic of the name came later; or the topic is being deleted."""
    made = seen()
    made.order(300, (2, 3), 2, (1, 9, [1]))
    assert refused(made) == {}
    made = seen()
    made.order(12, (2, 3), 2, (-2, 1, [2, 3]))
    assert refused(made) == {}
    again = [*znodes(), change(201, SECOND, "create", "/brokers/topics/t", {"partitions": {"0": [1]}})]
    made = seen()
    made.order(12, (2, 3), 2, (9, 9, [2, 3]))
    assert judged(made, again).asked[WRITTEN] == 0


def test_a_state_that_cannot_be_read_leaves_its_partition_open() -> None:
    rows = put(13, state(13, SECOND, 3, 2, [2, 3], by=2) | {"data": "{"})(znodes())
    assert {doubt.check for doubt in judged(seen(), rows).doubts} == {WRITTEN}


def test_without_the_log_of_zookeeper_it_is_unknown_what_was_written() -> None:
    for rows in ([], znodes()[1:]):
        made = seen()
        made.order(12, (1, 3), 1, error=STALE)
        found = judged(made, rows)
        assert {doubt.check for doubt in found.doubts} == {WRITTEN, TOLD}
        assert found.asked[FENCED] == 1


# ---- leaders-are-told


def without(at: float) -> Seen:
    """The order to broker 3 of this time was not sent."""
    made = seen()
    gone = {
        row["order"] for row in made.frames if row["api"] != FETCH and at * 1000 <= row["ms"] < at * 1000 + 20
    }
    made.frames = [row for row in made.frames if row["order"] not in gone]
    made.orders = [row for row in made.orders if row["of"] not in gone]
    return made


def test_a_leader_that_is_not_told() -> None:
    made = without(13.1)
    found = judged(made)
    assert (found.asked[TOLD], dict(+found.refused)) == (1, {TOLD: 1})
    (one,) = found.in_logs
    assert (str(one.log), one.nodes) == ("t-0", (2,))
    assert "made node 3 the leader, with leader epoch 2, and did not tell it so within 30 s" in one.text
    made.order(43.1, (2, 3), 2, (3, 2, [3]))
    assert refused(made) == {TOLD: 1}
    made.order(42.9, (2, 3), 2, (3, 2, [3]))
    assert refused(made) == {}


@pytest.mark.parametrize(("seconds", "until"), [(1, 43), (31, 73)])
def test_a_controller_that_lost_an_answer_tells_it_later(tmp_path: Path, seconds: int, until: int) -> None:
    """It waits for that until its request times out, as the run has set it."""
    history = sent(tmp_path, settings=waits("2.8.2", seconds))
    for at, found in ((until - 0.1, {}), (until + 0.1, {TOLD: 1})):
        made = without(13.1)
        made.order(at, (2, 3), 2, (3, 2, [3]))
        assert refused(made, history=history) == found


def test_a_leader_that_learned_it_counts_also_where_the_log_ends_soon() -> None:
    for made, asked in ((seen(), 1), (without(13.1), 0)):
        found = judged(made, [row for row in znodes() if row["zxid"] < 20])
        assert (found.asked[TOLD], found.refused[TOLD]) == (asked, 0)


@pytest.mark.parametrize("told", [(3, 1, [2, 3]), (2, 1, [2, 3])])
def test_an_earlier_leader_epoch_is_not_enough(told: tuple[int, int, list[int]]) -> None:
    made = without(13.1)
    made.order(20, (2, 3), 2, told)
    assert refused(made).pop(TOLD) == 1


def ends(path: str) -> Callable[[Rows], Rows]:
    """A znode goes within the time."""
    return amid(change(30, SECOND, "delete", path, None))


def amid(row: dict[str, Any]) -> Callable[[Rows], Rows]:
    return lambda rows: sorted([*rows, row], key=lambda one: int(one["zxid"]))


@pytest.mark.parametrize(
    "wrong",
    [
        ends("/controller"),
        ends("/brokers/ids/2"),
        ends("/brokers/ids/3"),
        lambda rows: [row for row in rows if row["zxid"] < 40],  # the log ends
        lambda rows: [row for row in rows if not 20 < row["zxid"] < 100],  # ZooKeeper may have been down
        amid(change(30, SECOND, "create", "/admin/delete_topics/t")),
        amid(state(41, SECOND, 2, 3, [3, 2], by=2)),  # another one leads
        put(13, state(13, SECOND, 2, 2, [2, 3], by=2)),  # the controller tells itself
        put(13, state(13, SECOND, -1, 2, [2, 3], by=2)),
    ],
)
def test_where_one_of_them_does_not_last_nothing_is_asked(wrong: Callable[[Rows], Rows]) -> None:
    found = judged(without(13.1), wrong(znodes()))
    assert (found.asked[TOLD], found.refused[TOLD]) == (0, 0)


def later(rows: Frames, first: int, last: int) -> Frames:
    """Without the answers of some seconds."""
    return [row for row in rows if not (row["answer"] and first * 1000 <= row["ms"] < last * 1000)]


@pytest.mark.parametrize(
    ("missing", "asked"),
    [((20, 24), 1), ((20, 26), 0), ((0, 5), 1), ((5, 11), 0), ((38, 100), 0), ((0, 40), 0)],
)
def test_two_that_may_be_cut_off_from_each_other(missing: tuple[int, int], asked: int) -> None:
    made = without(13.1)
    made.frames = later(made.frames, *missing)
    made.orders = [row for row in made.orders if row["of"] in {one["order"] for one in made.frames}]
    assert judged(made).asked[TOLD] == asked


def test_a_leader_that_owes_an_answer_is_told_later() -> None:
    made = without(13.1)
    made.order(12, (2, 3), 2, error=None)
    assert judged(made).asked[TOLD] == 0


@pytest.mark.parametrize(("at", "answered"), [(11.05, True), (11.05, False), (11.2, True)])
def test_an_order_that_was_given_up_for_a_later_one_is_owed_no_more(at: float, answered: bool) -> None:
    """A controller sends a broker one order after the other: with the next one it waits no longer."""
    made = without(13.1)
    made.order(at, (2, 3), 2, error=None)
    if not answered:  # nor is the next one
        (last,) = [row["order"] for row in made.frames if row["api"] != FETCH and row["ms"] == 11_110]
        made.frames = [row for row in made.frames if row["order"] != last]
        made.orders = [row for row in made.orders if row["of"] != last]
    assert judged(made).refused[TOLD] == (at < 11.1 and answered)


@pytest.mark.parametrize(
    ("gap", "asked"),
    [
        ({"connection": ALL, "client": -1, "server": 0}, 0),
        ({"connection": 23, "client": 2, "server": 3}, 0),
        ({"connection": 31, "client": 3, "server": 1}, 1),
        ({"connection": ALL, "client": -1, "server": 0, "at_ns": 60_000 * MS}, 1),
    ],
)
def test_what_may_have_been_missed_is_not_asked_for(gap: dict[str, Any], asked: int) -> None:
    made = without(13.1)
    made.gaps = [{"at_ns": 0, "why": "bytes were not seen", **gap}]
    assert judged(made).asked[TOLD] == asked


def test_the_capture_has_to_be_as_long() -> None:
    for first, last in ((14, 100), (0, 42)):
        made = without(13.1)
        made.frames = [row for row in made.frames if first * 1000 <= row["ms"] < last * 1000]
        made.orders = [row for row in made.orders if row["of"] in {one["order"] for one in made.frames}]
        assert judged(made).asked[TOLD] == 0
