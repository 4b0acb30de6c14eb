"""Connections to one chosen broker by Kafka's raw protocol (schemas by kio), synchronous.

A client library asks any broker and retries; a fault harness has to know what *this* broker says now.
One connection per exchange, one deadline for all of it, no retries.

TLS and SASL (`sasl`) use the settings by which librdkafka reaches the same listeners.
"""

import itertools
import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.protocol import Payload, RequestPayload

from core.cluster import Address, Security
from core.errors import ConfigError, InquestError
from harness.brokers.admin.sasl import Sasl, ScramRefused, sasl
from harness.protocol.encoding import Values, request_frame
from harness.protocol.frames import FrameError, Splitter
from harness.protocol.payloads import decode_response, in_version, request_type, response_type
from harness.protocol.schemas import unknown_names

R = TypeVar("R", bound=Payload)

RECEIVE: Final = 1 << 16
"""Bytes that one read from a socket takes at most."""
_ids = itertools.count(1)

_TLS: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_SASL: Final = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})
SECURITY_SETTINGS: Final = _TLS | _SASL
"""What these connections can honour, by librdkafka's names, beside the protocol."""


class AdminError(InquestError):
    """The broker did not answer in time, hung up, or refused. `code` is Kafka's error, if it sent one."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.none) -> None:
        super().__init__(message)
        self.code = code


def check(what: str, code: ErrorCode, message: str | None = "") -> None:
    """Raises: AdminError, where Kafka's code is an error."""
    if code != ErrorCode.none:
        raise AdminError(f"{what}: {code.name.upper()} {message or ''}".strip(), code)


class Brokers:
    """The brokers of one cluster, as the harness asks them: by node, at addresses of their own.

    cluster: id of the cluster, which each connection proves before anything else is asked on it: another
    program may have taken the port of a broker that is down. "" = the brokers of any cluster. strangers: the
    id of another cluster, by the node at whose address its broker answered. older: they may lack versions
    that requests here have, so each is asked first which it has.
    """

    def __init__(
        self,
        addresses: Mapping[int, Address],
        security: Security | None = None,
        *,
        cluster: str = "",
        older: bool = False,
    ) -> None:
        """Raises: ConfigError, for security settings that these connections cannot honour."""
        self.addresses = addresses
        self.cluster = cluster
        self._older = older
        self._newest: dict[int, Mapping[int, int]] = {}
        self.strangers: dict[int, str] = {}
        security = security or Security()
        self._tls = tls_context(security)
        self._sasl = sasl(security)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Numbers of all of them."""
        return tuple(self.addresses)

    @contextmanager
    def connect(self, node: int, deadline_s: float) -> "Iterator[BrokerConnection]":
        """A connection to one of them; `deadline_s` covers everything until it is closed.

        Raises: AdminError.
        """
        address = self.addresses[node]
        with ExitStack() as opened:
            try:
                made = opened.enter_context(closing(BrokerConnection(address, deadline_s)))
                if self._tls is not None:
                    made.secure(self._tls, address.host)
            except OSError as error:
                raise AdminError(f"{address}: {error}") from error
            if self._sasl is not None:
                made.authenticate(self._sasl)
            if self._older:
                made.newest = self._newest.get(node) or made.versions()
                self._newest[node] = made.newest
            if self.cluster:
                self._prove(node, made)
            yield made

    def _prove(self, node: int, made: "BrokerConnection") -> None:
        """Raises: AdminError, where the broker is one of another cluster, or does not answer."""
        found = made.cluster().cluster_id
        if found != self.cluster:
            self.strangers[node] = str(found)
            raise AdminError(f"{self.addresses[node]}: a broker of another cluster answered ({found})")


class BrokerConnection:
    """See `Brokers.connect`. newest: the newest version of each API that the broker has, by its key; None =
    it has those that it is asked with."""

    newest: Mapping[int, int] | None = None

    def __init__(self, address: Address, deadline_s: float) -> None:
        """Raises: OSError."""
        self._ends = time.monotonic() + deadline_s
        self._socket = socket.create_connection((address.host, address.port), timeout=deadline_s)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Continue over TLS with a broker of this name. Raises: OSError."""
        self._wait()
        self._socket = tls.wrap_socket(self._socket, server_hostname=host)

    def authenticate(self, credentials: Sasl) -> None:
        """By SASL. Raises: AdminError."""
        what = f"SASL {credentials.mechanism}"
        shaken = self.call(SaslHandshakeResponse, mechanism=credentials.mechanism)
        offered = ", ".join(shaken.mechanisms)
        check(what, shaken.error_code, f"(the broker offers {offered})")

        def exchange(said: bytes) -> bytes:
            answer = self.call(SaslAuthenticateResponse, auth_bytes=said)
            check(what, answer.error_code, answer.error_message)
            return answer.auth_bytes

        try:
            credentials.authenticate(exchange)
        except ScramRefused as error:
            raise AdminError(f"{what}: {error}") from error

    def cluster(self) -> MetadataResponse:
        """What the broker says of its cluster: the id, the brokers, and no topic. Raises: as `call`."""
        return self.call(MetadataResponse, topics=(), allow_auto_topic_creation=False)

    def versions(self) -> Mapping[int, int]:
        """See `newest`. Raises: as `call`."""
        answer = self.call(ApiVersionsResponse)
        check("ApiVersions", answer.error_code)
        return {int(one.api_key): int(one.max_version) for one in answer.api_keys}

    def call(self, response: type[R], /, **values: object) -> R:
        """Send a request and read its response. response: of the API, in the version of the request. values:
        of the request's fields (`harness.protocol.encoding`): this version must have each of them. A broker
        that has only earlier versions is asked with its newest one, which may lack some.

        Raises: AdminError; the connection is of no use afterwards.
        """
        assert not (strange := unknown_names(_request(response), values)), f"{response}: no {strange}"
        self.send(response, values)
        return self.receive(response)

    def send(self, response: type[Payload], values: Values) -> None:
        """Send a request. response, raises: as `call`. values: of any version; what this one does not have is
        left out."""
        kind = _request(self._spoken(response))
        try:
            self._wait()
            self._socket.sendall(request_frame(kind, values, next(_ids) & 0x7FFFFFFF, "inquest"))
        except OSError as error:
            raise AdminError(f"{kind.__name__}: {error}") from error

    def answered(self, within_s: float) -> bool:
        """Whether a response, or the end of the connection, comes within this time. Not with TLS, which may
        have read it already."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def receive(self, response: type[R]) -> R:
        """The response to the request that was sent. Raises: as `call`."""
        name = response.__name__
        try:
            answer = self._receive()
        except OSError as error:
            raise AdminError(f"{name}: {error}") from error
        except FrameError as error:
            raise AdminError(f"{name}: no response of Kafka's: {error}") from error
        try:
            return in_version(response, decode_response(answer, self._spoken(response)))
        except FrameError as error:
            raise AdminError(f"{name}: unreadable response: {error}") from error

    def _spoken(self, response: type[Payload]) -> type[Payload]:
        """The response in the version that the broker has. Raises: AdminError, where it has none."""
        if self.newest is None:
            return response
        newest = self.newest.get(response.__api_key__, -1)
        kind = response_type(response.__api_key__, min(response.__version__, newest))
        if kind is None:
            raise AdminError(f"{response.__name__}: this version of Kafka has no such request")
        return kind

    def _receive(self) -> bytes:
        """The next frame. Raises: OSError, FrameError."""
        splitter = Splitter()
        while True:
            self._wait()
            got = self._socket.recv(RECEIVE)
            if not got:
                raise ConnectionError("the broker closed the connection")
            if frames := splitter.feed(got):
                return frames[0]

    def _wait(self) -> None:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("deadline passed")
        self._socket.settimeout(left)


def _request(response: type[Payload]) -> type[RequestPayload]:
    """The request of an API in the version of a response."""
    kind = request_type(response.__api_key__, response.__version__)
    assert kind is not None, response
    return kind


def tls_context(security: Security) -> ssl.SSLContext | None:
    """The TLS settings of admin connections; None = without TLS.

    Raises: ConfigError, for a setting they cannot honour, or a file that cannot be read.
    """
    unknown = sorted(set(security.settings) - SECURITY_SETTINGS)
    if unknown:
        raise ConfigError(
            f"admin connections cannot honour {', '.join(unknown)}; they know "
            f"{', '.join(sorted(SECURITY_SETTINGS))}"
        )
    if not security.protocol.encrypted:
        return None
    given = security.settings
    try:
        place = given.get("ssl.ca.location")
        folder = place is not None and Path(place).is_dir()
        context = ssl.create_default_context(
            cafile=None if folder else place, capath=place if folder else None, cadata=given.get("ssl.ca.pem")
        )
        if certificate := given.get("ssl.certificate.location"):
            key, password = given.get("ssl.key.location"), given.get("ssl.key.password")
            context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS settings of admin connections: {error}") from error
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
