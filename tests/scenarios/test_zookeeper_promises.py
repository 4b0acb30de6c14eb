"""The scenarios of the ZooKeeper era are broken by planted bugs, and by an ensemble that does not keep its
promises.
"""

from collections.abc import Callable
from typing import Any

import pytest

from model.protocol.zookeeper_messages import SetData, ZkResult
from model.zookeeper import zk_isr_manager
from model.zookeeper.zookeeper import ZkSession, ZooKeeper
from scenarios.registry import CHAPTERS
from tests.scenarios.test_planted_bugs import ALL, BROKEN, true

CHAPTERS_OF_THE_ERA = ("controller", "controller-epochs", "leader-writes")


def writes_whatever_the_version(patch: pytest.MonkeyPatch) -> None:
    conditional: Callable[[ZooKeeper, int, SetData], ZkResult] = ZooKeeper._set

    def whatever(zk: ZooKeeper, session: int, op: SetData) -> ZkResult:
        return conditional(zk, session, op._replace(version=-1))

    patch.setattr(ZooKeeper, "_set", whatever)


def keeps_ephemeral_znodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ZooKeeper, "close", lambda zk, session: zk.sessions.pop(session, None))


def hears_sessions_that_are_over(patch: pytest.MonkeyPatch) -> None:
    heard = ZooKeeper.heard

    def again(zk: ZooKeeper, now: int, session: int, seen: int = 0) -> bool:
        zk.sessions.setdefault(session, ZkSession(60_000, now))
        return heard(zk, now, session, seen)

    patch.setattr(ZooKeeper, "heard", again)


def tells_one_watcher(patch: pytest.MonkeyPatch) -> None:
    fire: Any = ZooKeeper._fire

    def first(zk: ZooKeeper, watches: dict[str, dict[int, None]], path: str) -> None:
        for session in list(watches.get(path, {}))[1:]:
            del watches[path][session]
        fire(zk, watches, path)

    patch.setattr(ZooKeeper, "_fire", first)


def tells_each_change_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(zk_isr_manager, "BLACK_OUT_MS", 0)


def tells_only_after_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(zk_isr_manager, "INTERVAL_MS", 10**9)


BROKEN_PROMISES: tuple[tuple[str, Callable[[pytest.MonkeyPatch], None]], ...] = (
    ("controller-election", keeps_ephemeral_znodes),
    ("controller-election", tells_one_watcher),
    ("controller-session", keeps_ephemeral_znodes),
    ("state-decided-again", writes_whatever_the_version),
    ("controller-session-over", hears_sessions_that_are_over),
    ("deleted-controller", writes_whatever_the_version),
    ("deposed-leader-writes", writes_whatever_the_version),
    ("isr-change-notifications", tells_each_change_at_once),
    ("isr-change-notifications", tells_only_after_silence),
    ("herd", tells_one_watcher),
)


@pytest.mark.parametrize(("name", "promise"), BROKEN_PROMISES)
def test_a_broken_promise_breaks_the_table(
    name: str, promise: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert true(ALL[name])
    promise(monkeypatch)
    assert not true(ALL[name])


def test_every_scenario_of_the_era_can_be_broken() -> None:
    broken = {name for name, _ in (*BROKEN, *BROKEN_PROMISES)}
    assert {s.name for key in CHAPTERS_OF_THE_ERA for s in CHAPTERS[key].scenarios} <= broken
