"""Messages of one connection keep their order, whatever is cut and mended meanwhile."""

import random

import pytest

from core.capabilities import Cut, Direction
from harness.modelled.virtual.network import VirtualConnection
from tests.harness.modelled.virtual.one_node import MS, OneNode

CUTS = {one: Cut(node=1, direction=one) for one in Direction}
TO_NODE = CUTS[Direction.IN]


def test_what_is_on_its_way_when_the_link_is_cut_arrives_before_what_was_sent_later() -> None:
    bench = OneNode()
    connection = bench.connect()
    bench.ask(connection, "sent before")
    bench.scheduler.at(100, bench.network.cut, [TO_NODE])
    bench.scheduler.at(120, bench.ask, connection, "sent after")
    bench.until(500)
    assert bench.texts() == ([], [])
    bench.network.mend([TO_NODE])
    bench.until(2000)
    assert bench.texts()[0] == ["sent before", "sent after"]


def test_what_follows_a_lost_message_waits_for_it() -> None:
    """The link is mended while the second message is still on its way: it must not pass the first."""

    def came(*cuts: int) -> list[tuple[int, int]]:
        bench = OneNode()
        connection = bench.connect()
        for number in (1, 2):
            bench.ask(connection, number)
        for at in cuts:
            bench.scheduler.at(at, bench.network.cut, [TO_NODE])
            bench.scheduler.at(at + 2, bench.network.mend, [TO_NODE])
        bench.until(2000)
        return bench.came

    (_, first), (_, second) = came()
    assert second > first + 1
    again = came(first - 1)
    assert [number for number, _ in again] == [1, 2]
    assert again[0][1] > second


@pytest.mark.parametrize("seed", range(60))
def test_any_cuts_keep_the_order_of_requests_and_of_answers(seed: int) -> None:
    rng = random.Random(seed)
    bench = OneNode()
    connections = [bench.connect() for _ in range(2)]
    asked: list[tuple[int, int]] = []

    def ask(number: int) -> None:
        at = number % 2
        asked.append((at, number))
        bench.ask(connections[at], (at, number))

    now = 0
    for number in range(40):
        now += rng.choice((20, 300, 1000, 200 * MS))
        bench.scheduler.at(now, ask, number)
        if rng.random() < 0.4:
            cut = [CUTS[rng.choice(list(Direction))]]
            bench.scheduler.at(now + rng.randrange(900), bench.network.cut, cut)
            bench.scheduler.at(now + 900 + rng.choice((1, 200, 2000, 500 * MS)), bench.network.mend, cut)
    bench.until(60_000)
    for had in bench.texts():
        assert sorted(had) == sorted(asked), "none is lost"
        for at in range(2):
            assert [one for one in had if one[0] == at] == [one for one in asked if one[0] == at]


BOTH = list(CUTS.values())


def closed_with_messages_that_wait(bench: OneNode) -> VirtualConnection:
    """At 1 s a client gives up a connection over which an answer and a second request wait, behind cuts."""
    connection = bench.connect()
    bench.ask(connection, "first")
    bench.network.cut([CUTS[Direction.OUT]])
    bench.until(100)
    bench.network.cut([TO_NODE])
    bench.ask(connection, "second")
    bench.until(1000)
    assert bench.texts() == (["first"], []), "its answer waits"
    bench.network.close(connection)
    return connection


@pytest.mark.parametrize("order", [BOTH, BOTH[::-1]])
def test_a_late_request_arrives_whichever_direction_is_mended_first(order: list[Cut]) -> None:
    bench = OneNode()
    closed_with_messages_that_wait(bench)
    for one in order:
        bench.network.mend([one])
    bench.until(5000)
    assert bench.texts() == (["first", "second"], [])


@pytest.mark.parametrize(("died", "came"), [(False, ["first", "second"]), (True, ["first"])])
def test_a_late_request_does_not_reach_the_next_process(died: bool, came: list[str]) -> None:
    """The connection was to the one that died, also where the request is on its way by then."""
    bench = OneNode()
    connection = closed_with_messages_that_wait(bench)
    bench.network.mend(BOTH)
    assert connection.there.under_way
    if died:
        bench.network.reset(1)
    bench.until(5000)
    assert bench.texts()[0] == came


def test_a_closed_connection_is_forgotten_with_its_last_request() -> None:
    bench = OneNode()
    connection = closed_with_messages_that_wait(bench)
    bench.network.mend(BOTH)
    assert connection in bench.network._connections
    bench.until(5000)
    assert bench.network._connections == []
