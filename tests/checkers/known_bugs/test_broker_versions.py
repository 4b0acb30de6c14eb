"""Which versions brokers had at a moment: an upgrade changes them one after the other."""

from collections.abc import Sequence

import pytest

from checkers.known_bugs.broker_versions import BrokerVersions, broker_versions
from history.events import Event, FaultFailed, FaultHealed, FaultStarted, HealFailed
from tests.histories.fault_events import begun

NEW = (4, 4)
S = 1_000_000_000


def fault(kind: str, begin_s: int, end_s: int, *nodes: int, number: int = 0) -> FaultStarted:
    """A fault of the family `upgrade`."""
    return begun(f"upgrade:{kind}", begin_s, end_s, number=number, nodes=nodes)


def failed(kind: str, begin_s: int, end_s: int, why: str = "NoEffect: late") -> FaultFailed:
    """One that was not whole: some nodes may have changed."""
    return FaultFailed(begin_ns=begin_s * S, ns=end_s * S, fault=9, name=f"upgrade:{kind}", why=why)


def part(begin_s: int, *nodes: int) -> FaultStarted:
    """What it hit before it failed."""
    return begun("restart:rolling", begin_s, 12, number=9, nodes=nodes)


def healed(begin_s: int, end_s: int, number: int = 0) -> FaultHealed:
    return FaultHealed(begin_ns=begin_s * S, ns=end_s * S, fault=number)


def versions(*events: Event, upgrade: str = "4.4.0") -> BrokerVersions:
    """Of a cluster of three brokers."""
    config = {"brokers": 3, "kafka": {"version": "4.1.2", "upgrade": upgrade}}
    return broker_versions(config, events)


ALL = fault("whole", 10, 20, 1, 2, 3)
NOTHING = "NoTarget: nodes 1, 2 and 3: the first version is there already; tried 40 times in 20 s"
NOT_HEALED = HealFailed(ns=22 * S, fault=0, name="upgrade:mixed", why="slow")
KILL = begun("kill:one", 1e-9, 2e-9, nodes=(1, 2, 3))


@pytest.mark.parametrize(
    ("events", "some_before", "some_since"),
    [  # at 5, 15 and 25 s
        ([], "yes yes yes", "no no no"),
        ([ALL], "yes yes no", "no yes yes"),
        ([fault("rolling", 10, 20, 4, 5, 6, 1, 2, 3)], "yes yes no", "no yes yes"),
        ([fault("one@controller", 10, 20, 2)], "yes yes yes", "no yes yes"),
        ([fault("one", 2, 3, 2), fault("rolling", 10, 20, 1, 3)], "yes yes no", "yes yes yes"),
        ([failed("rolling", 10, 12)], "yes yes yes", "no yes yes"),
        ([failed("rolling", 2, 4), fault("finalize", 13, 14, 1, 2, 3)], "yes no no", "yes yes yes"),
        ([ALL, fault("back", 22, 24, 3, 2, 1)], "yes yes yes", "no yes no"),
        ([fault("one", 2, 3, 2), fault("back", 10, 14, 2)], "yes yes yes", "yes no no"),
        ([ALL, fault("back", 22, 26, 3, 2, 1)], "yes yes yes", "no yes yes"),
        ([ALL, failed("back", 22, 24)], "yes yes yes", "no yes yes"),
        ([ALL, failed("back", 22, 24, NOTHING)], "yes yes no", "no yes yes"),
        ([failed("rolling", 10, 12, NOTHING)], "yes yes yes", "no no no"),
        ([ALL, failed("finalize", 22, 24)], "yes yes no", "no yes yes"),
        # What failed says whom it hit: brokers, or an isolated controller alone.
        ([part(10, 1), failed("one", 8, 12)], "yes yes yes", "no yes yes"),
        ([part(10, 4), failed("one", 8, 12)], "yes yes yes", "no no no"),
        ([part(10, 1), healed(12, 12, 9), failed("one", 8, 12)], "yes yes yes", "no yes yes"),
        ([part(10, 1), healed(12, 12, 9), failed("mixed", 8, 12)], "yes yes yes", "no no no"),
        ([part(10, 1), failed("mixed", 8, 12)], "yes yes yes", "no yes yes"),
        ([fault("mixed", 10, 20, 1)], "yes yes yes", "no yes yes"),
        ([fault("mixed", 10, 20, 1), healed(21, 22)], "yes yes yes", "no yes no"),
        ([fault("mixed", 10, 20, 1), healed(21, 26)], "yes yes yes", "no yes yes"),
        ([fault("mixed", 10, 20, 1), NOT_HEALED, healed(23, 24)], "yes yes yes", "no yes yes"),
        ([fault("one", 2, 3, 1), fault("mixed", 10, 20, 2), healed(21, 22)], "yes yes yes", "yes yes yes"),
        (
            [fault("one", 2, 3, 1), fault("mixed", 4, 6, 2), fault("rolling", 7, 9, 3)],
            "yes no no",
            "yes yes yes",
        ),
        ([KILL], "yes yes yes", "no no no"),
    ],
)
def test_what_brokers_may_have_at_a_moment(
    events: Sequence[Event], some_before: str, some_since: str
) -> None:
    found = versions(*events)
    moments = (5 * S, 15 * S, 25 * S)
    assert [found.some_before(NEW, ns) for ns in moments] == [one == "yes" for one in some_before.split()]
    assert [found.some_since(NEW, ns) for ns in moments] == [one == "yes" for one in some_since.split()]
    assert found.some_before(NEW)
    assert found.some_since(NEW)


def test_a_version_on_one_side_of_both_needs_no_moment() -> None:
    found = versions(ALL)
    assert all(found.some_before((4, 5), ns) and not found.some_since((4, 5), ns) for ns in (0, 25 * S))
    assert all(found.some_since((4, 1), ns) and not found.some_before((4, 1), ns) for ns in (0, 25 * S))


def test_one_version_is_that_of_all_times() -> None:
    found = versions(ALL, upgrade="")
    assert found.some_before(NEW, 25 * S)
    assert not found.some_since(NEW, 25 * S)


def test_brokers_whose_version_is_not_on_record_have_none() -> None:
    found = broker_versions({"brokers": 3}, [ALL])
    assert not found.some_before(NEW, 25 * S)
    assert not found.some_since(NEW, 25 * S)
