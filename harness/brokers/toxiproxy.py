"""Toxiproxy in front of the brokers' client listeners, so that the links of clients can be made bad.

One server per run, on the loopback, held by a guard (`harness.processes.guard`): it ends with the harness,
however that ends. Proxies and toxics are those of the package toxiproxy-python. This module adds what
the package lacks: a time-out for each call, the server's own words in every error, a server that is
replaced where a toxic cannot be removed, and more than one server in a process.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import requests
import toxiproxy.api
from toxiproxy import Proxy, Toxiproxy

from core.capabilities import Toxic
from core.errors import ClusterError
from harness.processes import guard
from harness.processes.cache import cache_folder, locked
from harness.processes.commands import output
from harness.processes.waiting import NotYet, not_yet, until

VERSION = "2.12.0"
PROGRAM = "toxiproxy-server"
SOURCE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
INSTEAD = f"or put {PROGRAM} {VERSION} on the PATH"
BUILD_S = 600.0
READY_S = 10.0
CALL_S = 3.0
POLL_S = 0.02


def found() -> str | None:
    """The server's program: on the PATH, else the one that was built; None where there is none."""
    built = _built()
    return shutil.which(PROGRAM) or (str(built) if built.exists() else None)


def ensure() -> str:
    """The server's program, built where it has to be (20 s, once).

    Raises: ClusterError, with what to install.
    """
    with locked("toxiproxy"):
        return found() or _build()


def _built() -> Path:
    return cache_folder() / f"{PROGRAM}-{VERSION}"


def _build() -> str:
    go = shutil.which("go")
    if go is None:
        raise ClusterError(
            f"no toxiproxy: put {PROGRAM} {VERSION} on the PATH "
            "(https://github.com/Shopify/toxiproxy/releases), or install Go, to have it built"
        )
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        output(
            [go, "install", SOURCE],
            BUILD_S,
            f"toxiproxy was not built (go install {SOURCE})",
            environment={**os.environ, "GOBIN": folder},
            lines=1,
            instead=f"; {INSTEAD}",
        )
        os.replace(Path(folder) / "server", _built())
    return str(_built())


class Route(NamedTuple):
    """Ports on the loopback: where clients dial, and where the proxy leads them."""

    listen: int
    upstream: int


class ToxiproxyServer:
    """A running server with one proxy for each broker. One call at a time.

    A toxic that is added to or removed from a connection whose client reads nothing (it was paused)
    blocks its proxy for good. `cure` then replaces the whole server: every link works again, but all
    connections are lost.
    """

    def __init__(self, program: str, api: int, routes: Mapping[int, Route]) -> None:
        """Start it; api: the port of its own API. Raises: ClusterError, and nothing is left."""
        self._program = program
        self._api = api
        self._routes = dict(routes)
        self._held: dict[int, list[Toxic]] = {node: [] for node in routes}
        self._proxies: dict[int, Proxy] = {}
        self._stopped = False
        self._guard = self._start()

    def _start(self) -> guard.Guard:
        """A server with all proxies and no toxics. Raises: ClusterError, and nothing is left."""
        if self._stopped:
            raise ClusterError("toxiproxy was stopped")
        command = [self._program, "-host", "127.0.0.1", "-port", str(self._api)]
        try:
            held = guard.hold(command, {"LOG_LEVEL": "error"})
        except OSError as error:
            raise ClusterError(f"toxiproxy was not started: {error}") from error
        try:
            until(READY_S, POLL_S, lambda: self._must_be_up(held))
            for node, route in self._routes.items():
                with _calls(self._api) as server:
                    self._proxies[node] = server.create(
                        name=f"broker-{node}",
                        listen=f"127.0.0.1:{route.listen}",
                        upstream=f"127.0.0.1:{route.upstream}",
                        enabled=True,
                    )
        except BaseException:
            held.release()
            raise
        return held

    def _must_be_up(self, held: guard.Guard) -> None:
        """Raises: NotYet; ClusterError, where the server has ended."""
        if held.ended is not None:
            raise ClusterError(f"toxiproxy ended with exit code {held.ended} while starting")
        with not_yet(ClusterError), _calls(self._api) as server:
            if server.version() is None:
                raise NotYet("toxiproxy does not listen")

    def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics to the links of these brokers; connections that exist are hit as well.

        Raises: ClusterError; some may have been added by then.
        """
        for node, toxic in product(nodes, toxics):
            if node not in self._routes:
                raise ClusterError(f"no proxy stands in front of node {node}")
            self._held[node].append(toxic)  # before the call: one that fails may be in force all the same
            stream = "downstream" if toxic.downstream else "upstream"
            with _calls(self._api):
                self._proxies[node].add_toxic(type=toxic.type, stream=stream, attributes=toxic.attributes)

    def cure(self, nodes: Sequence[int]) -> None:
        """Remove all toxics of these brokers; nodes without a proxy are ignored. A server that has
        ended is replaced in any case: without it no client reaches any broker.

        Raises: ClusterError; some may still be in force, and the next call tries again.
        """
        ill = [node for node in nodes if self._held.get(node)]
        if self.trouble():
            self._replace(ill)
            return
        try:
            for node in ill:
                with _calls(self._api):
                    for toxic in self._proxies[node].toxics():
                        self._proxies[node].destroy_toxic(toxic)
        except ClusterError:
            self._replace(ill)
        for node in ill:
            self._held[node] = []

    def _replace(self, ill: Sequence[int]) -> None:
        """Start a new server, with the toxics of all brokers but these. Raises: ClusterError; where
        no server could be started, everything is held as before."""
        self._guard.release()
        self._guard = self._start()
        others = {node: held for node, held in self._held.items() if node not in ill}
        self._held = {node: [] for node in self._routes}
        for node, toxics in others.items():
            self.poison([node], toxics)

    def trouble(self) -> str:
        """Why the proxies no longer work; "" = they do."""
        ended = self._guard.ended
        return "" if ended is None else f"toxiproxy has ended with exit code {ended}"

    def stop(self) -> None:
        """End the server; idempotent, never raises."""
        self._stopped = True
        self._guard.release()


class _Session(requests.Session):
    """The HTTP calls of toxiproxy-python: bounded, never through a proxy of the environment, and
    answered by ClusterError where the server refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.headers["Connection"] = "close"  # the next call may go to another server

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["timeout"] = CALL_S
        answer = super().request(*args, **kwargs)
        if answer.status_code >= 300:
            asked = f"{answer.request.method} {answer.request.path_url}"
            raise ClusterError(f"toxiproxy refused {asked}: {answer.text.strip()}")
        return answer


_one_server = threading.Lock()


@contextmanager
def _calls(api: int) -> Iterator[Toxiproxy]:
    """The server at this port, for calls in this block: the package keeps the address of one server
    for the whole process. Raises: ClusterError."""
    with _one_server, _Session() as session:
        toxiproxy.api.requests = session
        server = Toxiproxy()
        server.update_api_consumer("127.0.0.1", api)
        try:
            yield server
        except (requests.RequestException, KeyError, TypeError, ValueError) as error:
            raise ClusterError(f"toxiproxy at port {api}: {error!r}") from error
