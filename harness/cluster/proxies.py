"""Toxiproxy in front of the brokers' client listeners, so that the links of clients can be made bad.

One server per run, on the loopback, started and ended by the harness. Between them stands a guard
(`python -m harness.cluster.proxies <program> <port>`): it holds the server as its child and waits on
its stdin, whose other end the harness has; however the harness ends, the server ends with it.

Spoken to over HTTP directly: the package toxiproxy-python keeps the server's address in a global,
has no time-outs, and raises KeyError where the server refuses.

Not here: which toxics make a fault (`nemesis.links`), who uses the proxies (`kafka`).
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.cluster import ClusterError, Toxic
from harness.cluster.cache import cache_folder, locked

VERSION = "2.12.0"
PROGRAM = "toxiproxy-server"
SOURCE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
BUILD_S = 600.0
READY_S = 10.0
CALL_S = 3.0
END_S = 10.0


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
        try:
            done = subprocess.run(
                [go, "install", SOURCE],
                env={**os.environ, "GOBIN": folder},
                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                check=False, timeout=BUILD_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ClusterError(f"toxiproxy was not built: {error}; {_instead()}") from error
        if done.returncode != 0:
            last = done.stderr.strip().rpartition("\n")[2]
            raise ClusterError(
                f"toxiproxy was not built (go install {SOURCE}): {last}; {_instead()}"
            )
        os.replace(Path(folder) / "server", _built())
    return str(_built())


def _instead() -> str:
    return f"or put {PROGRAM} {VERSION} on the PATH"


class Route(NamedTuple):
    """Ports on the loopback: where clients dial, and where the proxy leads them."""

    listen: int
    upstream: int


class Proxies:
    """A running server with one proxy for each broker. One call at a time.

    A toxic that is added to or taken from a connection whose client reads nothing (it was paused)
    blocks its proxy for good. Curing then replaces the whole server: what is healed is whole, at the
    price of all connections.
    """

    def __init__(self, program: str, api: int, routes: Mapping[int, Route]) -> None:
        """Start it; api: its own port. Raises: ClusterError, and nothing is left."""
        self._program = program
        self._api = api
        self._routes = dict(routes)
        self._held: dict[int, list[Toxic]] = {node: [] for node in routes}
        self._over = False
        self._guard = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        """A server with all proxies and no toxics. Raises: ClusterError, and nothing is left."""
        if self._over:
            raise ClusterError("toxiproxy was stopped")
        try:
            guard = subprocess.Popen(
                [sys.executable, "-m", "harness.cluster.proxies", self._program, str(self._api)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ClusterError(f"toxiproxy was not started: {error}") from error
        try:
            self._wait_until_up(guard)
            for node, route in self._routes.items():
                proxy = {
                    "name": _name(node),
                    "listen": f"127.0.0.1:{route.listen}",
                    "upstream": f"127.0.0.1:{route.upstream}",
                    "enabled": True,
                }
                self._call("POST", "/proxies", proxy)
        except BaseException:
            _end(guard)
            raise
        return guard

    def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics to the links of these brokers; connections that exist are hit as well.

        Raises: ClusterError; some may have been added by then.
        """
        for node in nodes:
            for toxic in toxics:
                self._add(node, toxic)

    def _add(self, node: int, toxic: Toxic) -> None:
        if node not in self._routes:
            raise ClusterError(f"no proxy stands in front of node {node}")
        body = {
            "type": toxic.type,
            "stream": "downstream" if toxic.downstream else "upstream",
            "attributes": toxic.attributes,
        }
        self._held[node].append(toxic)  # also where it fails: it may be in force all the same
        self._call("POST", f"/proxies/{_name(node)}/toxics", body)

    def cure(self, nodes: Sequence[int]) -> None:
        """Take all toxics of these brokers back; ones without proxies are passed over. A server that
        has ended is replaced, whoever is ill: through it nobody reaches any broker.

        Raises: ClusterError; some may still be in force, and the next call tries again.
        """
        ill = [node for node in nodes if self._held.get(node)]
        if self.trouble():
            self._replace(ill)
            return
        try:
            for node in ill:
                for toxic in self._call("GET", f"/proxies/{_name(node)}")["toxics"]:
                    self._call("DELETE", f"/proxies/{_name(node)}/toxics/{toxic['name']}")
        except ClusterError:
            self._replace(ill)
        for node in ill:
            self._held[node] = []

    def _replace(self, ill: Sequence[int]) -> None:
        """Start a new server, with the toxics of all brokers but these. Raises: ClusterError; where
        no server could be started, everything is held as before."""
        _end(self._guard)
        self._guard = self._start()
        others = {node: held for node, held in self._held.items() if node not in ill}
        self._held = {node: [] for node in self._routes}
        for node, toxics in others.items():
            self.poison([node], toxics)

    def trouble(self) -> str:
        """Why the proxies no longer work; "" = they do."""
        ended = self._guard.poll()
        return "" if ended is None else f"toxiproxy has ended with exit code {ended}"

    def stop(self) -> None:
        """End the server; idempotent, never raises."""
        self._over = True
        _end(self._guard)

    def _wait_until_up(self, guard: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + READY_S
        while True:
            if (ended := guard.poll()) is not None:
                raise ClusterError(f"toxiproxy ended with exit code {ended} while starting")
            try:
                self._call("GET", "/version")
                return
            except ClusterError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def _call(self, verb: str, path: str, body: object = None) -> Any:
        """One request; its answer, if it has one. Raises: ClusterError."""
        connection = http.client.HTTPConnection("127.0.0.1", self._api, timeout=CALL_S)
        try:
            connection.request(verb, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            if answer.status >= 300:
                raise ClusterError(f"toxiproxy refused {verb} {path}: {text.strip()}")
            return json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ClusterError(f"toxiproxy: {verb} {path}: {error!r}") from error
        finally:
            connection.close()


def _name(node: int) -> str:
    return f"broker-{node}"


def _end(guard: "subprocess.Popen[bytes]") -> None:
    if guard.stdin is not None and not guard.stdin.closed:
        with contextlib.suppress(OSError):
            guard.stdin.close()
    try:
        guard.wait(END_S)
    except subprocess.TimeoutExpired:
        guard.terminate()
        guard.wait()


def main(arguments: list[str]) -> int:
    """The guard: hold the server until stdin ends (or it ends by itself); its exit code."""
    program, port = arguments
    server = subprocess.Popen(
        [program, "-host", "127.0.0.1", "-port", port],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "error"},
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: server.kill())

    def watch() -> None:
        while os.read(0, 1024):
            pass
        server.kill()

    threading.Thread(target=watch, daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
