"""The proxy as a process, between a client and a broker that answers everything."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v2.request import InitProducerIdRequest
from kio.schema.init_producer_id.v2.response import InitProducerIdResponse
from kio.schema.types import TransactionalId
from kio.static.primitive import i32Timedelta

from core.errors import ClusterError
from core.wire import Action, WireRule
from harness.protocol.frames import Splitter, correlation_id
from harness.protocol.payloads import decode_response
from harness.wire.proxy import WireProxy
from harness.wire.proxy_main import ProxyRoute
from tests.harness.protocol.kio_frames import encode_request
from tests.harness.wire.fake_broker import FakeBroker, fake_broker

NODE = 3
WAIT_S = 10.0


class Client:
    """A client that sends InitProducerId requests."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._splitter = Splitter()
        self._got: list[bytes] = []

    def send(self, *numbers: int, of: str = "txn") -> None:
        """Requests with these correlation ids, of this transactional id, at once."""
        timeout = i32Timedelta.parse(timedelta(seconds=60))
        request = InitProducerIdRequest(transactional_id=TransactionalId(of), transaction_timeout=timeout)
        self.socket.sendall(b"".join(encode_request(request, number, "client") for number in numbers))

    def answer(self) -> bytes:
        """The next response. Raises: OSError, where the connection ends."""
        while not self._got:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            self._got += self._splitter.feed(data)
        return self._got.pop(0)

    def number(self) -> int:
        """Correlation id of the next response."""
        return correlation_id(self.answer())


def dialled(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeBroker]:
    with fake_broker() as made:
        yield made


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def proxy(broker: FakeBroker, port: int) -> Iterator[WireProxy]:
    made = WireProxy([ProxyRoute(node=NODE, listen=port, host="127.0.0.1", port=broker.port)])
    yield made
    made.stop()


@pytest.fixture
def client(proxy: WireProxy, port: int) -> Iterator[Client]:
    made = Client(dialled(port))
    yield made
    made.socket.close()


def rule(proxy: WireProxy, action: Action, **settings: object) -> int:
    number = proxy.number()
    proxy.add(WireRule(**{"number": number, "api": "init_producer_id", "action": action, **settings}))  # type: ignore[arg-type]
    return number


@pytest.mark.sampled(6)
def test_without_rules_requests_and_responses_pass_in_order(client: Client) -> None:
    for number in (1, 2, 3):
        client.send(number)
    assert [client.number() for _ in range(3)] == [1, 2, 3]


def test_a_held_request_and_all_behind_it_wait_and_keep_their_order(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    held = rule(proxy, Action.HOLD, transactional_id="held")
    client.send(10, of="other")
    client.send(11, of="held")
    client.send(12, of="other")
    assert client.number() == 10
    assert proxy.wait(held, "caught", WAIT_S)
    assert not {11, 12} & {header.correlation_id for header in broker.requests}
    proxy.release(held)
    assert [client.number() for _ in range(2)] == [11, 12]
    answered = proxy.wait(held, "answered", WAIT_S)
    assert answered is not None
    assert (answered.node, answered.api, answered.client_id, answered.error) == (
        NODE,
        "init_producer_id",
        "client",
        0,
    )


def test_a_detached_request_reaches_the_broker_after_its_client_was_reset(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    held = rule(proxy, Action.DETACH)
    client.send(20)
    with pytest.raises(ConnectionResetError):
        client.answer()
    assert not broker.received(20, seconds=0)
    proxy.release(held)
    assert broker.received(20)
    assert proxy.wait(held, "delivered", WAIT_S)
    assert proxy.wait(held, "answered", WAIT_S)


def test_what_is_held_reaches_the_broker_also_after_the_client_has_closed(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    held = rule(proxy, Action.HOLD)
    client.send(25)
    assert proxy.wait(held, "caught", WAIT_S)
    client.socket.close()
    proxy.release(held)
    assert broker.received(25)


def test_a_step_lets_go_a_request_and_the_next_one_its_answer(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    held = rule(proxy, Action.HOLD, times=0, answers=True)
    client.send(260)
    assert proxy.wait(held, "caught", WAIT_S)
    assert not broker.received(260, seconds=0)
    proxy.release(held)
    assert broker.received(260)
    assert proxy.wait(held, "answered", WAIT_S)
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.answer()
    client.socket.settimeout(WAIT_S)
    proxy.release(held)
    assert client.number() == 260
    client.send(261)
    assert proxy._child.until(lambda: len(proxy.seen(held, "caught")) == 2, WAIT_S)
    proxy.remove(held)
    assert client.number() == 261


def test_what_is_lost_never_arrives_and_its_client_is_reset(
    proxy: WireProxy, port: int, broker: FakeBroker
) -> None:
    held = rule(proxy, Action.HOLD, times=0, answers=True)
    with ExitStack() as ends:
        asking, answered, other = (Client(ends.enter_context(dialled(port))) for _ in range(3))
        _lose(proxy, held, asking, answered, broker)
        other.send(272)
        assert other.number() == 272


def _lose(proxy: WireProxy, held: int, asking: Client, answered: Client, broker: FakeBroker) -> None:
    answered.send(270)
    assert proxy.wait(held, "caught", WAIT_S)
    proxy.release(held)
    assert proxy.wait(held, "answered", WAIT_S)
    asking.send(271)
    assert proxy._child.until(lambda: len(proxy.seen(held, "caught")) == 2, WAIT_S)
    proxy.lose(held)
    for client in (asking, answered):
        with pytest.raises(ConnectionResetError):
            client.answer()
    proxy.remove(held)
    assert not broker.received(271, seconds=0)
    assert [one.correlation_id for one in proxy.seen(held, "lost")] == [271]


def test_a_rule_that_is_removed_lets_go_what_it_holds(proxy: WireProxy, client: Client) -> None:
    held = rule(proxy, Action.HOLD)
    client.send(30)
    assert proxy.wait(held, "caught", WAIT_S)
    proxy.remove(held)
    assert client.number() == 30
    client.send(31)
    assert client.number() == 31


def test_a_hold_ends_in_time_or_by_the_next_request_of_a_kind(
    proxy: WireProxy, client: Client, port: int
) -> None:
    timed = rule(proxy, Action.HOLD, seconds=0.05)
    client.send(35)
    assert client.number() == 35
    proxy.remove(timed)
    rule(proxy, Action.HOLD, until_api="init_producer_id", transactional_id="a")
    client.send(36, of="a")
    other = Client(dialled(port))
    other.send(37, of="b")
    assert other.number() == 37
    other.send(38, of="a")
    assert other.number() == 38
    other.socket.close()
    assert client.number() == 36


def test_a_dropped_request_never_arrives(
    proxy: WireProxy, client: Client, broker: FakeBroker, port: int
) -> None:
    rule(proxy, Action.DROP_REQUEST)
    client.send(40)
    with pytest.raises(ConnectionResetError):
        client.answer()
    again = Client(dialled(port))
    again.send(41)
    assert again.number() == 41
    again.socket.close()
    assert not broker.received(40, seconds=0)


@pytest.mark.parametrize(("action", "number"), [(Action.DROP_REQUEST, 45), (Action.CUT, 47)])
def test_what_comes_behind_the_end_of_a_connection_is_lost(
    proxy: WireProxy, client: Client, broker: FakeBroker, port: int, action: Action, number: int
) -> None:
    rule(proxy, action)
    client.send(number, number + 1)
    with pytest.raises(ConnectionResetError):
        client.answer()
    again = Client(dialled(port))
    again.send(49)
    assert again.number() == 49
    again.socket.close()
    assert broker.received(number, seconds=10 if action is Action.CUT else 0) is (action is Action.CUT)
    assert not broker.received(number + 1, seconds=0)


def test_a_cut_request_arrives_and_its_client_is_reset(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    cut = rule(proxy, Action.CUT)
    client.send(50)
    with pytest.raises(ConnectionResetError):
        client.answer()
    assert broker.received(50)
    assert proxy.wait(cut, "answered", WAIT_S)


def test_after_a_dropped_response_the_connection_is_silent(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    dropped = rule(proxy, Action.DROP_RESPONSE)
    client.send(60)
    client.send(61)
    assert broker.received(61)
    assert proxy.wait(dropped, "answered", WAIT_S)
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.answer()


def test_delayed_responses_come_in_order(proxy: WireProxy, client: Client, broker: FakeBroker) -> None:
    late = rule(proxy, Action.DELAY_RESPONSE)
    client.send(70)
    client.send(71)
    assert broker.received(71)
    assert proxy.wait(late, "answered", WAIT_S)
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.answer()
    client.socket.settimeout(WAIT_S)
    proxy.release(late)
    assert [client.number() for _ in range(2)] == [70, 71]


def test_a_response_that_comes_after_its_rule_was_removed_does_not_wait(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    late = rule(proxy, Action.DELAY_RESPONSE)
    broker.answers.clear()
    try:
        client.send(75)
        assert broker.received(75)
        proxy.remove(late)
    finally:
        broker.answers.set()
    client.send(76)
    assert [client.number() for _ in range(2)] == [75, 76]
    answered = proxy.wait(late, "answered", WAIT_S)
    assert answered is not None
    assert answered.correlation_id == 75


def test_a_refused_request_is_answered_in_its_turn(
    proxy: WireProxy, client: Client, broker: FakeBroker
) -> None:
    rule(proxy, Action.REFUSE, error=int(ErrorCode.coordinator_not_available), transactional_id="refused")
    client.send(80)
    client.send(81, of="refused")
    assert client.number() == 80
    answer = client.answer()
    assert correlation_id(answer) == 81
    response = decode_response(answer, InitProducerIdResponse)
    assert (response.error_code, response.producer_id) == (ErrorCode.coordinator_not_available, -1)
    assert not broker.received(81, seconds=0)


def test_skipped_requests_pass_and_no_more_than_the_wanted_number_is_taken(
    proxy: WireProxy, client: Client
) -> None:
    held = rule(proxy, Action.DELAY_RESPONSE, skip=1, times=1, seconds=0.01)
    for number in (90, 91, 92):
        client.send(number)
    assert [client.number() for _ in range(3)] == [90, 91, 92]
    assert [(one.correlation_id, one.skipped) for one in proxy.seen(held, "caught")] == [(91, 1)]


def test_a_rule_takes_the_next_request_once_its_time_to_skip_is_over(
    proxy: WireProxy, client: Client
) -> None:
    waiting = rule(proxy, Action.DELAY_RESPONSE, skip=4, skip_s=60, seconds=0.01)
    hasty = rule(proxy, Action.DELAY_RESPONSE, skip=4, skip_s=1e-9, seconds=0.01)
    client.send(93)
    assert client.number() == 93
    assert [(one.correlation_id, one.skipped) for one in proxy.seen(hasty, "caught")] == [(93, 0)]
    assert proxy.seen(waiting) == []
    proxy.remove(waiting)  # it would take a request of another test


@pytest.mark.parametrize(
    "settings",
    [{"client_id": "x"}, {"nodes": (1,)}, {"versions": (3, 4)}, {"group": "g"}, {"partition": ("t", 0)}],
)
def test_what_does_not_fit_passes(proxy: WireProxy, client: Client, settings: dict[str, object]) -> None:
    held = rule(proxy, Action.HOLD, **settings)
    client.send(95)
    assert client.number() == 95
    assert proxy.seen(held) == []


@pytest.mark.sampled(5)
def test_requests_from_an_exempt_address_pass_by_all_rules(broker: FakeBroker) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        free = int(probe.getsockname()[1])
    route = ProxyRoute(
        node=NODE, bind="127.0.0.2", listen=free, host="127.0.0.1", port=broker.port, exempt="127.0.0.2"
    )
    between = WireProxy([route])
    ends = [
        socket.create_connection(("127.0.0.2", free), WAIT_S, (source, 0))
        for source in ("127.0.0.2", "127.0.0.3")
    ]
    try:
        held = rule(between, Action.HOLD, times=0)
        own, other = (Client(end) for end in ends)
        own.send(1)
        other.send(2)
        assert own.number() == 1
        assert between.wait(held, "caught", WAIT_S)
        between.remove(held)
        assert other.number() == 2
        assert [seen.correlation_id for seen in between.seen(held, "caught")] == [2]
    finally:
        between.stop()
        for end in ends:
            end.close()


def test_bytes_that_are_no_frame_end_their_connection_only(client: Client, port: int) -> None:
    client.socket.sendall(b"\xff\xff\xff\xff nonsense")
    with pytest.raises(ConnectionResetError):
        client.answer()
    other = Client(dialled(port))
    other.send(99)
    assert other.number() == 99
    other.socket.close()


@pytest.mark.sampled(5)
def test_a_port_that_is_taken_is_told(broker: FakeBroker) -> None:
    with pytest.raises(ClusterError, match=str(broker.port)):
        WireProxy([ProxyRoute(node=1, listen=broker.port, host="127.0.0.1", port=1)])


def test_a_request_that_comes_before_the_broker_is_reached_is_not_lost(proxy: WireProxy, port: int) -> None:
    """Transports of Python before 3.11.4 begin to read after `connection_made`, even if that paused them."""
    for number in range(1000, 1100):  # no other test has these
        client = Client(dialled(port))
        client.send(number)
        assert client.number() == number
        client.socket.close()
