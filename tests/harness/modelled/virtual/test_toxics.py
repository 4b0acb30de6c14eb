"""Toxics at the level of messages: what each does to times and connections, and what curing gives back."""

import random

import pytest

from core.capabilities import Cut, Direction, Toxic
from core.errors import ClusterError
from harness.modelled.virtual.network import VirtualConnection
from harness.modelled.virtual.proxies import Proxies
from harness.modelled.virtual.toxics import BATCH, HEADER, NUMBER, RECORD, Pipe, size_of
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import Heartbeat
from model.protocol.messages import Produce, ProduceResponse
from tests.harness.modelled.virtual.one_node import MS, OneNode


def pipe(*toxics: Toxic, now: int = 0) -> Pipe:
    made = Pipe(random.Random(1))
    for toxic in toxics:
        made.add(toxic, now)
    return made


def toxic(type_: str, *, downstream: bool = True, **attributes: int) -> Toxic:
    return Toxic(type=type_, attributes=attributes, downstream=downstream)


# ---- one direction


def test_without_toxics_a_message_comes_at_once() -> None:
    assert pipe().take(7, 100) == 7
    assert pipe().closes is None
    assert not pipe().closes_when_cured


def test_latency_is_added_to_each_message_and_not_to_those_behind_it() -> None:
    made = pipe(toxic("latency", latency=200))
    assert [made.take(now, 100) for now in (0, 10, 5 * MS)] == [200 * MS, 200 * MS + 10, 205 * MS]


def test_jitter_spreads_latency_both_ways_and_keeps_the_order() -> None:
    apart = pipe(toxic("latency", latency=200, jitter=50))
    delays = [apart.take(now, 1) - now for now in range(0, 200_000 * MS, 1000 * MS)]  # type: ignore[operator]
    assert 150 * MS <= min(delays) < 160 * MS
    assert 240 * MS < max(delays) < 250 * MS
    close = pipe(toxic("latency", latency=200, jitter=50))
    times = [close.take(now, 1) for now in range(200)]
    assert times == sorted(times)  # type: ignore[type-var]
    assert len(set(times)) < len(times)


def test_bandwidth_is_a_queue() -> None:
    made = pipe(toxic("bandwidth", rate=20))
    assert made.take(0, 2_000) == 100 * MS
    assert made.take(50 * MS, 200) == 110 * MS
    assert made.take(500 * MS, 20) == 501 * MS


def test_a_rate_of_nothing_is_no_limit() -> None:
    assert pipe(toxic("bandwidth", rate=0)).take(3, 10_000) == 3


@pytest.mark.parametrize(("size", "slices"), [(1, 1), (96, 1), (97, 2), (192, 2), (400, 8)])
def test_a_message_is_there_with_its_last_slice(size: int, slices: int) -> None:
    made = pipe(toxic("slicer", average_size=64, size_variation=32, delay=1000))
    assert made.take(0, size) == (slices - 1) * MS
    assert made.take(0, 1) == slices * MS


def test_timeout_drops_what_comes_and_closes_once_nothing_comes() -> None:
    made = pipe(toxic("timeout", timeout=1000), now=5 * MS)
    assert made.closes == 1005 * MS
    assert made.take(400 * MS, 10) is None
    assert made.closes == 1400 * MS
    assert made.closes_when_cured


def test_a_timeout_of_nothing_closes_only_when_it_is_taken_away() -> None:
    made = pipe(toxic("timeout", timeout=0))
    assert made.take(0, 10) is None
    assert made.closes is None
    assert made.closes_when_cured


@pytest.mark.parametrize("wait", [0, 300])
def test_reset_waits_for_a_message_and_drops_it(wait: int) -> None:
    made = pipe(toxic("reset_peer", timeout=wait))
    assert (made.closes, made.closes_when_cured) == (None, False)
    assert (made.take(50 * MS, 10), made.closes) == (None, (50 + wait) * MS)
    assert (made.take(60 * MS, 10), made.closes) == (None, (50 + wait) * MS)


def test_limit_lets_whole_messages_through_and_closes_at_its_last_byte() -> None:
    made = pipe(toxic("limit_data", bytes=500))
    assert (made.take(1, 300), made.closes) == (1, None)
    assert (made.take(2, 200), made.closes) == (2, 2)
    assert made.take(3, 1) is None


def test_limit_drops_the_message_that_it_cuts() -> None:
    made = pipe(toxic("limit_data", bytes=500))
    assert made.take(1, 499) == 1
    assert made.take(2, 2) is None
    assert made.closes == 2


def test_toxics_are_a_chain_and_what_came_before_the_end_comes_through_first() -> None:
    made = pipe(toxic("limit_data", bytes=100), toxic("bandwidth", rate=1), toxic("latency", latency=7))
    assert made.take(0, 60) == 67 * MS
    assert made.take(0, 60) is None
    assert made.closes == 67 * MS


def test_sizes_are_those_of_fields_and_payloads() -> None:
    assert size_of(Heartbeat("group", 3, "member")) == HEADER + NUMBER + 5 + NUMBER + 6
    answer = ProduceResponse({("t", 0): (KafkaError.NONE, 17)})
    assert size_of(answer) == HEADER + NUMBER + NUMBER + (NUMBER + 1 + NUMBER) + 3 * NUMBER

    def produce(*payloads: bytes) -> int:
        return size_of(Produce(-1, {("t", 0): RecordBatch(0, 0, payloads)}))

    assert produce(b"x" * 100) - produce(b"") == 100
    assert produce(b"", b"") - produce(b"") == RECORD
    assert produce() > HEADER + BATCH


# ---- connections


class Bench(OneNode):
    """Clients' connections to node 1, through its proxy."""

    def __init__(self) -> None:
        super().__init__()
        self.proxies = Proxies(self.network, self.scheduler, self.draws)

    def poison(self, *toxics: Toxic) -> None:
        self.proxies.poison([1], toxics)

    def until_severed(self, connection: VirtualConnection) -> None:
        """To the moment when a proxy has closed it and its client does not know yet."""
        while not connection.severed:
            assert self.scheduler.now < 10_000 * MS
            self.scheduler.run(limit=self.scheduler.now + 1)
            self.scheduler.now += 1
        assert not connection.closed


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_toxics_nothing_is_drawn_or_held(bench: Bench) -> None:
    before = bench.draws.getstate()
    connection = bench.connect()
    bench.ask(connection, "a")
    bench.until(10)
    bench.poison(toxic("latency", latency=100, jitter=10))
    bench.proxies.cure([1])
    calls = bench.scheduler.events
    bench.ask(connection, "b")
    bench.until(20)
    assert bench.texts() == (["a", "b"], ["a", "b"])
    assert bench.draws.getstate() == before
    assert bench.scheduler.events == calls + 3  # there, back, and the end of waiting


def test_latency_on_answers_leaves_requests_alone(bench: Bench) -> None:
    bench.poison(toxic("latency", latency=200))
    bench.ask(bench.connect(), "a")
    bench.until(1000)
    (_, came), (_, answered) = bench.came[0], bench.answers[0]
    assert came < MS
    assert 200 * MS < answered - came < 201 * MS


def test_latency_on_requests_holds_them_on_connections_that_existed(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("latency", downstream=False, latency=200))
    bench.ask(connection, "a")
    bench.until(1000)
    assert 200 * MS < bench.came[0][1] < 201 * MS
    assert bench.answers[0][1] - bench.came[0][1] < MS


def test_what_was_held_goes_on_at_once_and_in_order_when_cured(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("bandwidth", downstream=False, rate=1))
    for text in "abc":
        bench.ask(connection, text)
    bench.until(10)
    assert bench.came == []
    bench.proxies.cure([1])
    bench.ask(connection, "d")
    bench.until(1000)
    assert bench.texts() == (list("abcd"), list("abcd"))
    assert bench.came[-1][1] < 12 * MS
    assert bench.broke == []


def test_a_request_that_is_held_arrives_though_its_client_has_given_up(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("latency", downstream=False, latency=200))
    bench.ask(connection, "a")
    bench.until(50)
    bench.network.close(connection)
    bench.until(1000)
    assert bench.texts() == (["a"], [])


def test_reset_on_answers_breaks_the_connection_after_the_request_arrived(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("reset_peer", timeout=0))
    bench.until(100)
    assert bench.broke == []
    bench.ask(connection, "a")
    bench.until(200)
    assert bench.texts() == (["a"], [])
    assert [number for number, _ in bench.broke] == [connection.number]
    assert 100 * MS < bench.broke[0][1] < 103 * MS
    bench.ask(connection, "b")
    bench.until(300)
    assert bench.texts() == (["a"], [])


@pytest.mark.parametrize(("kind", "ms"), [("reset_peer", 50), ("timeout", 1000)])
def test_requests_are_lost_and_their_connection_is_closed_in_time(bench: Bench, kind: str, ms: int) -> None:
    connection = bench.connect()
    bench.poison(toxic(kind, downstream=False, timeout=ms))
    bench.ask(connection, "a")
    bench.until(ms - 1)
    assert bench.broke == []
    bench.until(ms + 50)
    assert bench.came == []
    assert ms * MS < bench.broke[0][1] < (ms + 1) * MS


def test_what_a_proxy_took_before_it_closed_the_connection_arrives(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("latency", downstream=False, latency=100), toxic("limit_data", bytes=1))
    bench.ask(connection, "a")
    bench.until(90)
    bench.ask(connection, "b")  # held when the answer to the one before closes the connection
    bench.until(1000)
    assert bench.texts() == (["a", "b"], [])
    assert len(bench.broke) == 1


def test_limit_lets_answers_through_until_it_closes(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("limit_data", bytes=2 * size_of("a")))
    for text in "ab":
        bench.ask(connection, text)
    bench.until(100)
    assert bench.texts() == (["a", "b"], ["a", "b"])
    assert len(bench.broke) == 1
    assert bench.broke[0][1] >= bench.answers[-1][1]


def test_idle_connections_are_closed_by_a_timeout_as_well(bench: Bench) -> None:
    bench.connect()
    bench.poison(toxic("timeout", timeout=1000))
    bench.until(1100)
    assert len(bench.broke) == 1


def test_timeout_without_an_end_closes_when_cured_and_what_was_dropped_is_lost(bench: Bench) -> None:
    old = bench.connect()
    bench.poison(toxic("timeout", timeout=0))
    bench.ask(old, "a")
    bench.until(60_000)
    assert bench.texts() == (["a"], [])
    assert bench.broke == []
    bench.proxies.cure([1])
    new = bench.connect()
    bench.ask(new, "b")
    bench.until(61_000)
    assert bench.texts() == (["a", "b"], ["b"])
    assert [number for number, _ in bench.broke] == [old.number]


def test_answers_that_are_held_come_before_the_end_of_a_connection_closed_behind_them(bench: Bench) -> None:
    connection = bench.connect()
    bench.ask(connection, "a")
    bench.poison(toxic("latency", latency=200), toxic("timeout", downstream=False, timeout=100))
    bench.until(1000)
    assert bench.texts() == (["a"], ["a"])
    assert bench.broke[0][1] >= bench.answers[0][1] > 200 * MS


def test_a_request_behind_the_end_of_its_connection_is_lost(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("limit_data", bytes=1))
    bench.ask(connection, "a")
    bench.until_severed(connection)
    bench.ask(connection, "b")
    bench.until(100)
    assert bench.texts() == (["a"], [])
    assert len(bench.broke) == 1


def test_an_answer_behind_the_end_of_its_connection_is_lost(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("limit_data", downstream=False, bytes=size_of("a")))
    bench.silent = True
    bench.ask(connection, "a")
    bench.until_severed(connection)
    bench.network.answer(bench.messages[0], "a")
    bench.until(100)
    assert bench.texts() == (["a"], [])
    assert len(bench.broke) == 1


def test_neither_nodes_nor_the_harness_nor_other_nodes_clients_are_hit(bench: Bench) -> None:
    bench.proxies.poison([2], [toxic("reset_peer", timeout=0)])
    bench.ask(bench.connect(), "other node")
    bench.poison(toxic("timeout", downstream=False, timeout=0))
    bench.ask(bench.connect(process=-1), "harness")
    bench.ask(bench.connect(process=-1, client=3), "node")
    bench.until(100)
    assert sorted(bench.texts()[1]) == ["harness", "node", "other node"]


def test_a_cut_lies_behind_the_proxy_and_holds_what_has_come_through(bench: Bench) -> None:
    cuts = [Cut(node=1, direction=Direction.IN)]
    bench.poison(toxic("latency", downstream=False, latency=50))
    bench.network.cut(cuts)
    bench.ask(bench.connect(), "a")
    bench.until(100)
    bench.proxies.cure([1])
    assert bench.came == []
    bench.network.mend(cuts)
    bench.until(1000)
    assert bench.texts() == (["a"], ["a"])


def test_a_dead_server_ends_what_its_proxy_held(bench: Bench) -> None:
    connection = bench.connect()
    bench.poison(toxic("latency", downstream=False, latency=50))
    bench.ask(connection, "a")
    bench.until(10)
    bench.network.reset(1)
    bench.until(100)
    assert bench.came == []
    assert len(bench.broke) == 1


def test_a_refused_toxic_adds_none_of_its_company(bench: Bench) -> None:
    with pytest.raises(ClusterError, match="plague"):
        bench.poison(toxic("timeout", timeout=0), toxic("plague"))
    bench.ask(bench.connect(), "a")
    bench.until(100)
    assert bench.texts() == (["a"], ["a"])
