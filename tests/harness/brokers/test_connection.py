"""Connections to one broker over TLS and with SASL PLAIN, against a small server that speaks both."""

import io
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponseBroker
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64Timedelta
from kio.static.protocol import ResponsePayload

from core.cluster import Address, Security, SecurityProtocol
from core.errors import ClusterError, ConfigError
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, Brokers

NODE = 7
PASSWORD = "open sesame"


@dataclass
class Scripted:
    """A broker that answers Metadata, once a client has authenticated where `password` is set."""

    password: str = ""
    mechanisms: tuple[str, ...] = ("PLAIN",)
    tls: ssl.SSLContext | None = None
    cluster: str | None = None
    address: Address = field(default_factory=lambda: Address("localhost", 0))

    def serve(self, plain: socket.socket) -> None:
        with plain if self.tls is None else self.tls.wrap_socket(plain, server_side=True) as client:
            known = not self.password
            while frame := self._frame(client):
                key = int.from_bytes(frame[:2])
                if key == 17:
                    _, at = entity_reader(SaslHandshakeRequest.__header_schema__)(frame, 0)
                    wanted = entity_reader(SaslHandshakeRequest)(frame, at)[0].mechanism
                    self._answer(client, frame, self._shaken(wanted))
                elif key == 36:
                    _, at = entity_reader(SaslAuthenticateRequest.__header_schema__)(frame, 0)
                    said = entity_reader(SaslAuthenticateRequest)(frame, at)[0].auth_bytes
                    known = said == f"\0alice\0{self.password}".encode()
                    self._answer(client, frame, self._authenticated(known))
                elif known:
                    self._answer(client, frame, self._metadata())
                else:
                    return  # as Kafka does: it hangs up on a client that did not authenticate

    def _frame(self, client: socket.socket) -> bytes:
        size = client.recv(4)
        got = b""
        while size and len(got) < int.from_bytes(size):
            part = client.recv(int.from_bytes(size) - len(got))
            if not part:
                return b""  # the client hung up
            got += part
        return got

    def _answer(self, client: socket.socket, frame: bytes, response: ResponsePayload) -> None:
        body = io.BytesIO()
        correlation = i32(int.from_bytes(frame[4:8]))
        header = response.__header_schema__(correlation_id=correlation)
        entity_writer(type(header))(body, header)
        entity_writer(type(response))(body, response)
        client.sendall(struct.pack(">i", body.tell()) + body.getvalue())

    def _shaken(self, wanted: str) -> SaslHandshakeResponse:
        good = wanted in self.mechanisms
        code = ErrorCode.none if good else ErrorCode.unsupported_sasl_mechanism
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def _authenticated(self, known: bool) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.none if known else ErrorCode.sasl_authentication_failed,
            error_message=None if known else "Invalid username or password",
            auth_bytes=b"",
            session_lifetime=i64Timedelta.parse(timedelta()),
        )

    def _metadata(self) -> MetadataResponse:
        broker = MetadataResponseBroker(node_id=BrokerId(NODE), host="localhost", port=i32(1), rack=None)
        return MetadataResponse(
            throttle_time=i32Timedelta.parse(timedelta()),
            controller_id=BrokerId(NODE),
            brokers=(broker,),
            cluster_id=self.cluster,
            topics=(),
        )


@contextmanager
def running(broker: Scripted) -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                plain.settimeout(10)
                with plain, suppress(OSError):
                    broker.serve(plain)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield Address("localhost", server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def ask(address: Address, security: Security) -> frozenset[int]:
    with Brokers({1: address}, security).connect(1, 5) as connection:
        return protocol.view(connection).brokers


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


Server = Callable[..., ssl.SSLContext]


@pytest.fixture
def server(authority: trustme.CA) -> Server:
    def context(*names: str, of_clients: bool = False) -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(*(names or ("localhost",))).configure_cert(made)
        if of_clients:
            made.verify_mode = ssl.CERT_REQUIRED
            authority.configure_trust(made)
        return made

    return context


def tls(**settings: str) -> Security:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Security(protocol=SecurityProtocol.SSL, settings=dotted)


def test_a_trusted_broker_answers_over_tls(server: Server, trusted: str) -> None:
    with running(Scripted(tls=server())) as address:
        assert ask(address, tls(ssl_ca_location=trusted)) == {NODE}
        assert ask(address, tls(ssl_ca_pem=Path(trusted).read_text())) == {NODE}


def test_a_broker_that_is_not_trusted_is_refused(server: Server) -> None:
    with running(Scripted(tls=server())) as address:
        with pytest.raises(AdminError, match=r"localhost:\d+: .*certificate verify failed"):
            ask(address, tls())
        assert ask(address, tls(enable_ssl_certificate_verification="false")) == {NODE}


def test_a_broker_of_another_name_is_refused_unless_names_are_not_checked(
    server: Server, trusted: str
) -> None:
    with running(Scripted(tls=server("broker.example"))) as address:
        with pytest.raises(AdminError, match=r"[Hh]ostname mismatch"):
            ask(address, tls(ssl_ca_location=trusted))
        unnamed = tls(ssl_ca_location=trusted, ssl_endpoint_identification_algorithm="none")
        assert ask(address, unnamed) == {NODE}


def test_a_client_certificate_is_shown_to_a_broker_that_asks_for_one(
    server: Server, trusted: str, authority: trustme.CA, tmp_path: Path
) -> None:
    own = authority.issue_cert("client")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    own.private_key_pem.write_to_path(key)
    for part in own.cert_chain_pems:
        part.write_to_path(chain, append=True)
    with running(Scripted(tls=server(of_clients=True))) as address:
        with pytest.raises(AdminError):
            ask(address, tls(ssl_ca_location=trusted))
        shown = tls(ssl_ca_location=trusted, ssl_certificate_location=str(chain), ssl_key_location=str(key))
        assert ask(address, shown) == {NODE}


def test_plaintext_to_a_tls_listener_and_tls_to_a_plain_one_are_errors(server: Server, trusted: str) -> None:
    with running(Scripted(tls=server())) as address, pytest.raises(AdminError):
        ask(address, Security())
    with (
        running(Scripted()) as address,
        pytest.raises(AdminError, match="timed out"),
        Brokers({1: address}, tls(ssl_ca_location=trusted)).connect(1, 0.5),
    ):
        pass


def plain(protocol: SecurityProtocol, **settings: str) -> Security:
    wanted = {"sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Security(protocol=protocol, settings=wanted | dotted)


@pytest.mark.parametrize("protocol", [SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL])
def test_sasl_plain_lets_in_who_knows_the_password(
    protocol: SecurityProtocol, server: Server, trusted: str
) -> None:
    context = server() if protocol.encrypted else None
    with running(Scripted(password=PASSWORD, tls=context)) as address:
        known = plain(protocol, sasl_password=PASSWORD, ssl_ca_location=trusted)
        assert ask(address, known) == {NODE}
        wrong = plain(protocol, sasl_password="guess", ssl_ca_location=trusted)
        with pytest.raises(AdminError, match="AUTHENTICATION_FAILED Invalid username") as error:
            ask(address, wrong)
        assert error.value.code is ErrorCode.sasl_authentication_failed
        with pytest.raises(ClusterError, match="Kafka refused: SASL PLAIN"):
            broker_views.anywhere(Brokers({1: address}, wrong), lambda _: None, 5)


def test_a_broker_without_plain_says_what_it_offers() -> None:
    security = plain(SecurityProtocol.SASL_PLAINTEXT, sasl_password=PASSWORD)
    with (
        running(Scripted(password=PASSWORD, mechanisms=("SCRAM-SHA-256",))) as address,
        pytest.raises(AdminError, match="the broker offers SCRAM-SHA-256"),
    ):
        ask(address, security)


@pytest.mark.parametrize(
    ("security", "words"),
    [
        (tls(ssl_keystore_location="x.jks"), "cannot honour ssl.keystore.location; they know"),
        (tls(ssl_ca_location="/nowhere.pem"), "TLS settings of admin connections: .*No such file"),
        (tls(ssl_ca_pem="no certificate"), "TLS settings of admin connections"),
        (
            Security(protocol=SecurityProtocol.SASL_SSL),
            "by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 only, not GSSAPI",
        ),
        (plain(SecurityProtocol.SASL_SSL), "needs sasl.username and sasl.password"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(security: Security, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Brokers({}, security)


def test_a_password_is_never_shown() -> None:
    assert PASSWORD not in repr(plain(SecurityProtocol.SASL_SSL, sasl_password=PASSWORD))


def test_addresses_as_text() -> None:
    assert str(Address("10.0.0.1", 9092)) == "10.0.0.1:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"


def test_a_broker_of_the_cluster_is_asked() -> None:
    with running(Scripted(cluster="A")) as address:
        brokers = Brokers({1: address}, cluster="A")
        assert broker_views.ask_all(brokers, protocol.view)[1].brokers == {NODE}
        assert brokers.strangers == {}


@pytest.mark.parametrize("named", ["B", None])
def test_a_broker_of_another_cluster_is_no_answer_and_is_remembered(named: str | None) -> None:
    with running(Scripted(cluster="A")) as own, running(Scripted(cluster=named)) as other:
        brokers = Brokers({1: own, 2: other}, cluster="A")
        assert broker_views.ask_all(brokers, protocol.view).keys() == {1}
        with (
            pytest.raises(AdminError, match=f"{other}: a broker of another cluster answered"),
            brokers.connect(2, 5),
        ):
            pass
    brokers.addresses = {}
    assert broker_views.roles(brokers).strangers == {2: str(named)}  # once is enough


def test_where_no_cluster_is_known_any_broker_is_asked() -> None:
    with running(Scripted(cluster="B")) as address:
        brokers = Brokers({1: address})
        assert broker_views.ask_all(brokers, protocol.view)[1].brokers == {NODE}
        assert brokers.strangers == {}
