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
CALL_S = 5.0
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
    """A running server with one proxy for each broker. One call at a time."""

    def __init__(self, program: str, api: int, routes: Mapping[int, Route]) -> None:
        """Start it; api: its own port. Raises: ClusterError, and nothing is left."""
        self._api = api
        self._routes = dict(routes)
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "harness.cluster.proxies", program, str(api)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ClusterError(f"toxiproxy was not started: {error}") from error
        try:
            self._wait_until_up()
            for node, route in self._routes.items():
                proxy = {
                    "name": _name(node),
                    "listen": f"127.0.0.1:{route.listen}",
                    "upstream": f"127.0.0.1:{route.upstream}",
                    "enabled": True,
                }
                self._call("POST", "/proxies", proxy)
        except BaseException:
            self.stop()
            raise

    def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics to the links of these brokers; connections that exist are hit as well.

        Raises: ClusterError; some may have been added by then.
        """
        for node in nodes:
            for toxic in toxics:
                self._call(
                    "POST",
                    f"/proxies/{_name(node)}/toxics",
                    {
                        "type": toxic.type,
                        "stream": "downstream" if toxic.downstream else "upstream",
                        "attributes": toxic.attributes,
                    },
                )

    def cure(self, nodes: Sequence[int]) -> None:
        """Take all toxics of these brokers back; ones without proxies are passed over.

        Raises: ClusterError, after every toxic was tried; what is named may still be in force.
        """
        failed = []
        for node in nodes:
            if node not in self._routes:
                continue
            try:
                held = self._call("GET", f"/proxies/{_name(node)}")["toxics"]
            except ClusterError as error:
                failed.append(str(error))
                continue
            for toxic in held:
                try:
                    self._call("DELETE", f"/proxies/{_name(node)}/toxics/{toxic['name']}")
                except ClusterError as error:
                    failed.append(str(error))
        if failed:
            raise ClusterError("; ".join(failed))

    def trouble(self) -> str:
        """Why the proxies no longer work; "" = they do."""
        ended = self._guard.poll()
        return "" if ended is None else f"toxiproxy has ended with exit code {ended}"

    def stop(self) -> None:
        """End the server; idempotent, never raises."""
        stdin = self._guard.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(OSError):
                stdin.close()
        try:
            self._guard.wait(END_S)
        except subprocess.TimeoutExpired:
            self._guard.terminate()
            self._guard.wait()

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            if self._guard.poll() is not None:
                raise ClusterError(f"{self.trouble()} while starting (port {self._api} taken?)")
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
        sys.stdin.buffer.read()
        server.kill()

    threading.Thread(target=watch, daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
