"""What losses of power and changes of leader excuse (docs/checks.md, section 6)."""

from typing import Any

import msgspec
import pytest

from checkers.run_windows import run_windows
from core.config import run_config
from history.events import Event, RolesSeen
from tests.adversary.excused import Said, said
from tests.checkers.test_windows import START, fault, lost, of_x, roles, seconds

TWO = roles(0, 1, 1, 2)
SHRUNK = [*fault("reassign:shrink", 20, 2, number=1, until=60), roles(22, 1, 1)]
POWER = fault("power:one", 40, 1, until=45)
SHORT = fault("power:one", 55, 1, until=60)


@pytest.mark.parametrize(
    ("settings", "events", "power"),
    [
        ({"replication_factor": 2}, [TWO, *POWER], []),
        ({"replication_factor": 2}, [TWO, *SHRUNK, *POWER], [(40, 41)]),  # one replica acknowledged
        ({"replication_factor": 2}, [TWO, *POWER, *fault("reassign:shrink", 50, 2, number=1)], []),
        ({}, [START, *SHRUNK, *POWER], []),  # two are left of three
        ({"min_insync_replicas": 3}, [START, *SHRUNK, *POWER], []),
        ({"min_insync_replicas": 3}, [START, *SHRUNK, *fault("power:majority", 40, 1, 3)], [(40, 41)]),
        ({"replication_factor": 2}, [TWO, *fault("reassign:shrink", 20, 2, number=1, until=29), *POWER], []),
        (
            {"replication_factor": 2},
            [TWO, *fault("reassign:shrink", 20, 2, number=1, until=31), roles(22, 1, 1), *POWER],
            [(40, 41)],
        ),
        ({"replication_factor": 2}, [TWO, *fault("reassign:shrink", 20, 3, number=1), *POWER], []),
        (
            {"replication_factor": 2, "topic_settings": {"min.insync.replicas": "3"}},
            [TWO, *fault("power:majority", 40, 1, 2)],
            [(40, 41)],
        ),
        ({"replication_factor": 1, "min_insync_replicas": 1}, [roles(0, 1, 1), *POWER], [(40, 41)]),
    ],
)
def test_no_more_replicas_acknowledge_than_there_are(
    settings: dict[str, Any], events: list[Event], power: list[tuple[int, int]]
) -> None:
    """Kafka before 3.7 acknowledges nothing with fewer replicas than min.insync.replicas."""
    assert seconds(of_x(events, kafka={"version": "3.7.0"}, **settings).power) == power
    old = seconds(of_x(events, kafka={"version": "3.6.2"}, **settings).power)
    assert old == (power if settings.get("min_insync_replicas") == 1 else [])


@pytest.mark.parametrize(
    ("upgraded", "limited"), [({"version": "3.6.2"}, False), ({"version": "3.6.2", "upgrade": "3.9.1"}, True)]
)
def test_one_version_that_acknowledges_with_fewer_replicas_is_enough(
    upgraded: dict[str, str], limited: bool
) -> None:
    windows = of_x([TWO, *SHRUNK, *POWER], replication_factor=2, kafka=upgraded)
    assert seconds(windows.power) == ([(40, 41)] if limited else [])


@pytest.mark.parametrize(
    ("topic", "setting"),
    [
        ("consumer_offsets", "offsets.topic"),
        ("transaction_state", "transaction.state.log"),
        ("share_group_state", "share.coordinator.state.topic"),
    ],
)
def test_internal_topics_have_copies_of_their_own(topic: str, setting: str) -> None:
    looks = [roles(0, 1, 1, 2, 3, **{topic: 1})]
    events = [*looks, *POWER]
    one = {"broker_settings": {f"{setting}.replication.factor": "1"}}
    for settings, expected in ((one, [(40, 41)]), ({}, [])):
        windows = run_windows({0: ("x", 0)}, events, run_config({"seed": 1, **settings}))
        assert seconds(windows[f"__{topic}"].power) == expected
        assert seconds(windows[0].power) == []


def test_a_loss_of_power_of_the_only_replica_takes_what_it_acknowledged() -> None:
    events = [TWO, *fault("reassign:shrink", 20, 2, number=1, until=100), roles(22, 1, 1), *SHORT]
    assert said(lost(3, 4), *events, replication_factor=2)["lost-write"] == {
        Said("all", "power", permitted=True)
    }
    found = said(lost(3, 4), TWO, roles(22, 1, 1), *SHORT, replication_factor=2)
    assert found["lost-write"] == {Said("all", "", permitted=False)}


@pytest.mark.parametrize(
    ("node", "looks", "excuse"),
    [
        (3, [roles(72, 1, 1, 2), roles(80, 1, 1, 2, 3)], ""),  # the disk of a follower
        (1, [roles(72, 2, 2, 3), roles(80, 2, 1, 2, 3)], ""),  # its successor had what consumers had read
        (1, [roles(72, 1, 1, 3), roles(80, 1, 1, 2, 3)], "power"),  # it leads again, with less
        (1, [roles(72, -1), roles(73, 2, 2, 3), roles(80, 2, 1, 2, 3)], "power"),
        (1, [], "power"),
    ],
)
def test_a_replica_in_sync_keeps_what_a_consumer_had_read(
    node: int, looks: list[RolesSeen], excuse: str
) -> None:
    """Records of a producer with acks=1, read at 52 s."""
    events = [START, *fault("power:one", 70, node, until=75), *looks]
    if not excuse:
        found = said(lost(3, 4, acks=1, read=True), *events)["lost-write"]
        assert found == {Said("read", "leader", permitted=False)}
        found = said(lost(3, 4, acks=1), *events)["lost-write"]
        assert found == {Said("1", "power", permitted=True)}
    else:
        found = said(lost(3, 4, acks=1, read=True), *events)["lost-write"]
        assert found == {Said("read", "power", permitted=True)}


def led(at: float, leader: int, epoch: int) -> RolesSeen:
    return msgspec.structs.replace(roles(at, leader, 1, 2, 3), epochs={"x-0": epoch})


@pytest.mark.parametrize(
    ("looks", "windows"),
    [
        ([led(0, 1, 4), led(55, 1, 7)], [(0, 0), (45, 65)]),  # another one may have led in between
        ([led(0, 1, 4), led(55, 1, 6)], [(0, 0), (45, 65)]),
        ([led(50, 1, 4), led(55, 1, 6)], [(0, 65)]),
        ([led(0, 1, 4), led(55, 1, 5)], [(0, 0)]),
        ([led(0, 1, 4), roles(55, 1, 1, 2)], [(0, 0)]),  # no epoch is on record
        ([roles(0, 1, 1, 2), led(55, 1, 6)], [(0, 0)]),
    ],
)
def test_a_leader_with_an_epoch_that_is_higher_by_more_than_one_may_have_been_replaced(
    looks: list[RolesSeen], windows: list[tuple[int, int]]
) -> None:
    assert seconds(of_x(looks).leader) == windows
    found = said(lost(3, 4, acks=1), *looks)["lost-write"]
    replaced = len(windows) > 1 or windows[0][1] > 0
    assert found == {Said("1", "leader" if replaced else "", permitted=replaced)}
