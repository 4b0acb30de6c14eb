"""The results folder in a browser: `inquest serve`, read-only, on the loopback only.

Serves files whose path lies in the folder after all links are followed, and plain listings of folders. It
rebuilds the index, and the page of systems side by side, when a verdict, a report or a session has changed.
It refuses requests that name another host: otherwise a web page could point a name of its own to this machine
and read the results.
"""

import io
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from core.errors import UsageError
from core.terminal import say
from harness.nights.session_log import FILE, FOLDER
from history.jsonl import being_written
from history.run_folder import write_atomically
from history.storage import is_there

HOST = "127.0.0.1"
PORT_MOST = 65_535
INDEX, COMPARED = "index.html", "compared.html"
MADE = {"/": INDEX, f"/{INDEX}": INDEX, f"/{COMPARED}": COMPARED}
"""Addresses of pages that the server makes (`harness.nights.page.pages`), with their names."""
NAMES = ("127.0.0.1", "localhost")
TEXT = "text/plain; charset=utf-8"
OURS = (INDEX, "report.html")
"""Pages that name the digests of their scripts in a stricter policy of their own."""
COMMON = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGES = f"{COMMON}; script-src 'unsafe-inline'; img-src data: blob:"
OTHERS = f"{COMMON}; img-src data:; sandbox"
NOWHERE = f"{os.devnull}/none"

Stamp = frozenset[tuple[str, int, int, bool]]


class Handler(SimpleHTTPRequestHandler):
    """One request: GET and HEAD of files, folders and the index."""

    server: "Server"
    server_version = "inquest"
    sys_version = ""
    timeout = 30
    policy = OTHERS
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".xml": "application/xml",
        **dict.fromkeys((".jsonl", ".log", ".txt", ".toml"), TEXT),
    }

    def send_head(self) -> BinaryIO | io.BytesIO | None:
        """Send status and headers; returns the content."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            address = urlsplit(self.path).path
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return None
        if host not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        if address in MADE:
            return self._made(MADE[address])
        found = self.server.find(address)
        if found is not None and found.is_dir() and address.endswith("/"):
            return self.list_directory(str(found))  # its own index.html could be a link
        self.policy = PAGES if found is not None and found.name in OURS else OTHERS
        return super().send_head()

    def _made(self, name: str) -> io.BytesIO | None:
        try:
            page = self.server.pages().get(name)
        except Exception as error:  # noqa: BLE001 - a browser gets an answer, whatever is in the folder
            say(f"no index: {error!r}")
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return None
        if page is None:  # no session compares systems
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        self.policy = PAGES
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.extensions_map[".html"])
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return io.BytesIO(page)

    def translate_path(self, path: str) -> str:
        """The file or folder of an address; one that cannot exist, where the server may not show it."""
        return str(self.server.find(urlsplit(path).path) or NOWHERE)

    def end_headers(self) -> None:
        """Add what every answer has."""
        self.send_header("Content-Security-Policy", self.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the only reader is the person at the browser."""


class Server(ThreadingHTTPServer):
    """The results folder. render: makes the index and its pages, by name."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, results: Path, port: int, render: Callable[[Path], Mapping[str, str]]) -> None:
        super().__init__((HOST, port), Handler)
        self.root = results.resolve()
        self.render = render
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._pages: dict[str, bytes] = {}

    def pages(self) -> dict[str, bytes]:
        """The current pages by name. They are also written to the folder, where the folder is writable."""
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._pages = {name: page.encode() for name, page in self.render(self.root).items()}
                self._stamp = stamp
                for name, page in self._pages.items():
                    with suppress(OSError):
                        write_atomically(self.root / name, page)
            return self._pages

    def _stamp_now(self) -> Stamp:
        """Changes when the index has to: verdicts and sessions with time and size, whether a soak still
        writes to a session, and which reports and outputs of runs exist."""
        found = []
        for path in (*self.root.glob("*/verdict.json"), *self.root.glob(f"{FOLDER}/*/{FILE}")):
            with suppress(OSError):
                about = path.stat()
                live = path.name == FILE and being_written(path)
                found.append((str(path), about.st_mtime_ns, about.st_size, live))
        links = (*self.root.glob("*/report.html"), *self.root.glob(f"{FOLDER}/*/*.log"))
        found += [(str(path), 0, 0, False) for path in links]
        return frozenset(found)

    def find(self, address: str) -> Path | None:
        """The file or folder of an address, None where the results folder holds none."""
        text = unquote(address, errors="surrogateescape")
        try:
            path = (self.root / text.lstrip("/")).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there; a loop of links; no name of a file
            return None
        inside = path.is_relative_to(self.root) and (path.is_dir() or path.is_file())
        return path if inside else None

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors; a browser that hangs up is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            say(f"a request failed: {error!r}")


def server(results: Path, port: int) -> Server:
    """A server that listens, and does not serve yet.

    Raises: UsageError, where there is no such folder or the port is taken or refused.
    """
    from harness.nights.page import pages

    if not is_there(results) or not results.is_dir():
        raise UsageError(f"there is no results folder {results}; `inquest run` makes one")
    if not 0 <= port <= PORT_MOST:
        raise UsageError(f"--port {port}: a port is 0 to {PORT_MOST}")
    try:
        return Server(results, port, pages)
    except OSError as error:
        raise UsageError(f"port {port} of {HOST}: {error.strerror}; give another one with --port") from None
