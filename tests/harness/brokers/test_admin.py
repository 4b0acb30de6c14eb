import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from kio.schema.errors import ErrorCode

from core.cluster import Address
from core.errors import ClusterError
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers, check

Serve = Callable[[socket.socket], None]


@contextmanager
def broker(serve: Serve) -> Iterator[int]:
    """A port on which each connection is served by `serve` in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                with suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def at(*ports: int) -> Brokers:
    """Brokers 1, 2, … at these ports of the loopback."""
    return Brokers({n: Address("127.0.0.1", port) for n, port in enumerate(ports, 1)})


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def drip(connection: socket.socket) -> None:
    connection.recv(1)
    connection.sendall(struct.pack(">i", 1000))
    for _ in range(1000):
        connection.sendall(b"x")
        time.sleep(0.05)


def garbage(connection: socket.socket) -> None:
    connection.recv(1)
    connection.sendall(struct.pack(">i", 8) + b"\0" * 8)


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.close()


@pytest.mark.parametrize("serve", [silent, drip])
def test_the_deadline_covers_the_whole_exchange(serve: Serve) -> None:
    with broker(serve) as port:
        begun = time.monotonic()
        with at(port).connect(1, 0.4) as connection, pytest.raises(AdminError, match=r"timed out|deadline"):
            protocol.view(connection)
        assert 0.3 < time.monotonic() - begun < 20


@pytest.mark.parametrize(("serve", "words"), [(garbage, "unreadable"), (hang_up, "closed|reset")])
def test_a_broken_answer_is_an_admin_error(serve: Serve, words: str) -> None:
    with broker(serve) as port, at(port).connect(1, 5) as connection, pytest.raises(AdminError, match=words):
        protocol.view(connection)


def test_a_closed_port_is_an_admin_error() -> None:
    with socket.socket() as closed:  # bound by nobody else meanwhile, and nobody listens
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(AdminError, match="refused"), at(closed.getsockname()[1]).connect(1, 30):
            pass


def test_once_there_is_enough_the_slow_are_not_waited_for_long() -> None:
    with broker(silent) as slow:
        questions = {"quick": (1, lambda _: 1), "slow": (1, lambda c: protocol.view(c))}
        begun = time.monotonic()
        assert broker_views.ask(at(slow), questions, lambda got: "quick" in got, 20) == {"quick": 1}
        assert broker_views.GRACE_S <= time.monotonic() - begun < 20
        begun = time.monotonic()
        assert broker_views.ask(at(slow), questions) == {"quick": 1}
        assert time.monotonic() - begun >= broker_views.ASK_S


def test_a_request_goes_from_one_silent_broker_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_views, "CALL_S", 0.2)
    asked: list[BrokerConnection] = []

    def request(connection: BrokerConnection) -> None:
        asked.append(connection)
        if len(asked) < 3:
            protocol.view(connection)

    with broker(silent) as one, broker(hang_up) as two:
        broker_views.anywhere(at(one, two), request, 5)
        assert len(asked) == 3
        asked.clear()
        begun = time.monotonic()
        with pytest.raises(ClusterError, match="no broker served the request in time"):
            broker_views.anywhere(at(one), _view, 0.5)
        assert time.monotonic() - begun < 20


def _view(connection: BrokerConnection) -> None:
    protocol.view(connection)


@pytest.mark.parametrize(
    ("code", "final"), [(ErrorCode.invalid_config, True), (ErrorCode.preferred_leader_not_available, False)]
)
def test_a_refusal_is_final_unless_it_may_pass(code: ErrorCode, final: bool) -> None:
    asked: list[BrokerConnection] = []

    def request(connection: BrokerConnection) -> None:
        asked.append(connection)
        check("t-0", code)

    words = "Kafka refused: t-0" if final else "no broker served the request in time: t-0"
    with broker(silent) as port, pytest.raises(ClusterError, match=words):
        broker_views.anywhere(at(port), request, 0.3)
    assert (len(asked) == 1) == final


def test_roles_of_a_cluster_that_is_silent_broken_or_gone_come_in_time() -> None:
    with broker(silent) as one, broker(garbage) as two, broker(hang_up) as three:
        begun = time.monotonic()
        roles = broker_views.roles(at(one, two, three))
        assert time.monotonic() - begun < 20
    assert roles.answering == ()
    assert not roles.agreed
    assert roles.controller == -1
