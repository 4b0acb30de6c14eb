"""Controllers by the log of ZooKeeper: each rule fires at what no controller of Kafka does."""

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, cast

import pytest

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import LogGround
from checkers.engine.pipeline import kinds_of
from checkers.logs import accept_controllers
from checkers.logs.zookeeper_log import zookeeper_log
from checkers.logs.zookeeper_time import STILL_MS, ZooKeeperTime
from core.cluster import NodeEnd
from core.config import run_config
from history.events import ClockJumped, EndsUnseen, Event, FaultFailed, FaultStarted, NodeEnded
from history.evidence import Evidence
from history.reader import History
from history.run_folder import Run
from tests.checkers.logs.made import tables
from tests.checkers.logs.test_accept_znodes import FIRST, SECOND, THIRD, Rows, change, log, refused

ZOOKEEPER = 4


def fault(*nodes: int) -> FaultStarted:
    """Something is done to these nodes."""
    return FaultStarted(begin_ns=0, ns=1, fault=0, name="kill:one", nodes=nodes, text="", colour="")


UNTOUCHED = (fault(1),)
"""A run in which nothing was done to ZooKeeper."""


def judged(
    rows: Rows,
    events: tuple[Event, ...] = UNTOUCHED,
    module: ModuleType = accept_controllers,
    history: History | None = None,
) -> Tally:
    """What the rules of a module say of a run with these events."""
    tally = Tally(ground=LogGround(kinds_of(module.CHECKS), unclean=False))
    run = WholeRun(
        tables={},
        known=None,  # type: ignore[arg-type]
        events=events,
        ask=None,  # type: ignore[arg-type]
        evidence=Evidence(tables({"znodes": rows})),
        history=history,
    )
    module.join(run, tally)
    return tally


def of_settings(folder: Path, settings: dict[str, Any]) -> History:
    """A run of which nothing but its settings counts."""
    run = Run(folder)
    run.config.write_text(run_config({"seed": 1, **settings}).model_dump_json())
    return cast("History", SimpleNamespace(run=run))


def waits(kafka: str, seconds: int, **more: Any) -> dict[str, Any]:
    """A run of some version whose controllers wait longer for answers than others."""
    return {"kafka": kafka, "broker_settings": {"controller.socket.timeout.ms": f"{seconds}000"}, **more}


HELD_UP: Final = [
    ({"kafka": "0.11.0.3"}, 0),
    (waits("0.11.0.3", 11), 20),
    (waits("0.11.0.3", 11, brokers=5), 40),
    (waits("1.1.1", 31), 60),
    (waits("2.4.1", 31), 0),
]
"""Settings of runs, and for how many seconds longer than in others their controllers may do nothing."""


def found(
    rows: Rows, events: tuple[Event, ...] = UNTOUCHED, history: History | None = None
) -> dict[str, int]:
    """What is refused."""
    return dict(+judged(rows, events, history=history).refused)


def until(zxid: int) -> Rows:
    """The log up to there."""
    return [row for row in log() if row["zxid"] <= zxid]


def later(zxid: int, ms: int) -> dict[str, Any]:
    """A change that says nothing of controllers."""
    return change(zxid, FIRST + 9, "create", f"/brokers/topics/u{zxid}", {}, ms=ms)


def test_what_kafka_writes_is_accepted_and_each_rule_is_asked() -> None:
    assert found(log()) == {}
    assert set(judged(log()).asked) == set(accept_controllers.CHECKS)


def test_the_epoch_of_the_controller_rises_by_one_and_by_its_session() -> None:
    rows = log()
    (epoch,) = [row for row in rows if (row["zxid"], row["path"]) == (10, "/controller_epoch")]
    for wrong in ({"data": "3"}, {"session": THIRD}):
        assert refused([row | wrong if row is epoch else row for row in rows]) == {
            "controller-epoch-rises": 1
        }


def test_the_controller_is_the_broker_of_its_session() -> None:
    rows = log()
    (taken,) = [row for row in rows if (row["zxid"], row["path"]) == (10, "/controller")]
    wrong = [row | {"data": '{"brokerid":3}'} if row is taken else row for row in rows]
    assert found(wrong) == {"controller-names-its-broker": 1}
    unregistered = [row for row in rows if row["path"] != "/brokers/ids/2"]
    assert found(unregistered) == {}
    assert judged(unregistered).asked["controller-names-its-broker"] == 1


# ---- there soon is another one


LEFT = until(9)
"""The controller is gone at 9 s, brokers 2 and 3 stay."""


def test_a_controller_that_no_live_broker_follows() -> None:
    assert found([*LEFT, later(10, 40_000)]) == {"controller-succeeds": 1}
    (one,) = judged([*LEFT, later(10, 40_000)]).in_logs
    assert one.nodes == (2, 3)


def test_a_controller_that_comes_in_time() -> None:
    taken = change(10, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND)
    assert found([*LEFT, taken | {"ms": 23_900}, later(11, 60_000)]) == {}
    assert found([*LEFT, taken | {"ms": 24_100}, later(11, 60_000)]) == {"controller-succeeds": 1}


@pytest.mark.parametrize(("settings", "more_s"), HELD_UP)
def test_who_was_the_controller_before_may_wait_for_answers(
    tmp_path: Path, settings: dict[str, Any], more_s: int
) -> None:
    history = of_settings(tmp_path, settings)
    taken = change(10, SECOND, "create", "/controller", {"brokerid": 2}, owner=SECOND)
    for early_ms, wrong in ((100, {}), (-100, {"controller-succeeds": 1})):
        rows = [*LEFT, taken | {"ms": 24_000 + 1000 * more_s - early_ms}, later(11, 200_000)]
        assert found(rows, history=history) == wrong


def test_brokers_whose_sessions_end_need_not_follow() -> None:
    """They may have stood still since the controller was gone."""
    gone = [
        change(10 + n, session, "delete", f"/brokers/ids/{broker}", None, ms=33_000)
        for n, (broker, session) in enumerate(((2, SECOND), (3, THIRD)))
    ]
    for rows in ([*LEFT, *gone, later(20, 60_000)], [*LEFT, later(20, 33_000)]):
        assert found(rows) == {}
        assert not judged(rows).asked["controller-succeeds"]
    only = [*LEFT, gone[0], later(20, 60_000)]
    assert [one.nodes for one in judged(only).in_logs] == [(3,)]


def test_a_broker_that_comes_later_need_not_follow() -> None:
    rows = [row for row in LEFT if row["path"] not in ("/brokers/ids/2", "/brokers/ids/3")]
    came = change(10, SECOND, "create", "/brokers/ids/2", {}, owner=SECOND)
    assert found([*rows, came, later(11, 60_000)]) == {}


# ---- time with ZooKeeper


@pytest.mark.parametrize(
    "event",
    [
        fault(1, ZOOKEEPER),
        FaultFailed(ns=1, fault=0, name="kill:one", why="OSError: no"),
        NodeEnded(ns=1, end=NodeEnd(node=ZOOKEEPER, exit_code=1)),
        EndsUnseen(ns=1, why="no"),
    ],
)
def test_where_zookeeper_may_have_been_down_silence_does_not_count(event: Event) -> None:
    rows = [*LEFT, later(10, 40_000)]
    assert found(rows, (event,)) == {}
    assert found(rows, ()) == {}
    ticks = [later(10 + n, 9_000 + STILL_MS * n) for n in range(1, 6)]
    assert found([*LEFT, *ticks], (event,)) == {"controller-succeeds": 1}


def test_one_leader_of_an_ensemble_was_up_all_the_time() -> None:
    def led(rows: Rows, epoch: int) -> Rows:
        return [row | {"zxid": row["zxid"] + (epoch << 32)} for row in rows]

    down = (fault(ZOOKEEPER),)
    assert found(led([*LEFT, later(10, 40_000)], 1), down) == {"controller-succeeds": 1}
    assert found([*led(LEFT, 1), *led([later(10, 40_000)], 2)], down) == {}


def test_where_the_clock_jumped_no_leader_of_an_ensemble_shows_how_much_time_passed() -> None:
    rows = [row | {"zxid": row["zxid"] + (1 << 32)} for row in [*LEFT, later(10, 40_000)]]
    jump = ClockJumped(before_ns=0, ns=1, wall_s=30.0)
    assert found(rows, (fault(ZOOKEEPER),)) == {"controller-succeeds": 1}
    assert found(rows, (fault(ZOOKEEPER), jump)) == {}


def test_time_is_counted_from_change_to_change() -> None:
    rows = [*LEFT, later(10, 19_000), later(11, 20_000)]
    known = zookeeper_log(Evidence(tables({"znodes": rows})))
    assert known is not None
    full, some = ZooKeeperTime(known, UNTOUCHED), ZooKeeperTime(known)
    assert (full.passed(9_000, 20_000), some.passed(9_000, 20_000)) == (11_000, 6_000)
    assert (full.after(9_000, 8_000), some.after(9_000, 5_500)) == (17_000, 19_500)
    assert (full.after(9_000, 11_001), some.after(9_000, 6_001)) == (None, None)
    assert (full.passed(11_000, 12_000), some.passed(18_000, 19_000)) == (1_000, 0)
