"""The results folder in a browser: `inquest serve`, read-only, on the loopback only.

Serves files that are in the folder when all links are followed, and plain listings of its folders; the
index is built again where a verdict, a report or a night has changed. Requests that name another host are
refused, so that no page of the web can read results by a name that it points to this machine.

Not here: the pages (`harness.report`).
"""

import html
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from harness.night import FILE, FOLDER
from harness.recorder import recording
from harness.store import write_atomically

HOST = "127.0.0.1"
INDEX = "index.html"
NAMES = ("127.0.0.1", "localhost")
TEXT = "text/plain; charset=utf-8"
TYPES = {
    ".html": "text/html; charset=utf-8", ".json": "application/json", ".xml": "application/xml",
    ".jsonl": TEXT, ".log": TEXT, ".txt": TEXT, ".toml": TEXT, ".png": "image/png",
}  # fmt: skip
"""Content types by suffix; everything else is bytes."""
OURS = (INDEX, "report.html")
"""Pages whose own, stricter policy names the digests of their scripts."""
COMMON = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGES = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    f"img-src data: blob:; {COMMON}"
)
OTHERS = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; {COMMON}"

Stamp = frozenset[tuple[str, int, int, bool]]


class ServeError(Exception):
    """It cannot be served. The message says why and what to do."""


class Shelf:
    """The results folder. render: makes the page of the index."""

    def __init__(self, results: Path, render: Callable[[Path], str]) -> None:
        self.root = results.resolve()
        self._render = render
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._page = b""

    def index(self) -> bytes:
        """The index of what is there now; it is written to the folder too, where that can be."""
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._page = self._render(self.root).encode()
                self._stamp = stamp
                with suppress(OSError):  # a folder that is read-only is served all the same
                    write_atomically(self.root / INDEX, self._page)
            return self._page

    def _stamp_now(self) -> Stamp:
        """All verdicts and nights with time and size, and whether a soak still writes to a night; which
        reports and outputs of runs there are."""
        found = []
        for path in (*self.root.glob("*/verdict.json"), *self.root.glob(f"{FOLDER}/*/{FILE}")):
            with suppress(OSError):
                about = path.stat()
                live = path.name == FILE and recording(path)
                found.append((str(path), about.st_mtime_ns, about.st_size, live))
        links = (*self.root.glob("*/report.html"), *self.root.glob(f"{FOLDER}/*/*.log"))
        found += [(str(path), 0, 0, False) for path in links]
        return frozenset(found)

    def find(self, address: str) -> Path | None:
        """The file or folder of the path of an address, None where there is none inside of the results
        folder."""
        text = unquote(address, errors="surrogateescape")
        if "\0" in text:
            return None
        try:
            path = (self.root / text.lstrip("/")).resolve(strict=True)
        except (OSError, RuntimeError):  # not there; a loop of links
            return None
        return path if path == self.root or self.root in path.parents else None


class Handler(BaseHTTPRequestHandler):
    """One request. GET and HEAD only."""

    shelf: Shelf
    server_version = "inquest"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with content."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer without content."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")
        if (host[0] if host[2].isdigit() else host[2]) not in NAMES:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
            return
        try:
            address = urlsplit(self.path).path
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if address in ("/", f"/{INDEX}"):
            self._index(body=body)
            return
        path = self.shelf.find(address)
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif path.is_dir():
            if not address.endswith("/"):
                self._redirect(path)
            else:
                self._send(listing(self.shelf.root, path), TYPES[".html"], OTHERS, body=body)
        elif path.is_file():
            self._file(path, body=body)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _index(self, *, body: bool) -> None:
        try:
            page = self.shelf.index()
        except Exception as error:  # noqa: BLE001 - a browser gets an answer, whatever is in the folder
            print(f"inquest: no index: {error!r}", file=sys.stderr, flush=True)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            self._send(page, TYPES[".html"], PAGES, body=body)

    def _file(self, path: Path, *, body: bool) -> None:
        try:
            file = path.open("rb")
        except OSError:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            kind = TYPES.get(path.suffix, "application/octet-stream")
            policy = PAGES if path.name in OURS else OTHERS
            size = os.fstat(file.fileno()).st_size
            self._head(HTTPStatus.OK, kind, policy, size)
            if body:
                copyfileobj(_Limited(file, size), self.wfile)

    def _send(self, data: bytes, kind: str, policy: str, *, body: bool) -> None:
        self._head(HTTPStatus.OK, kind, policy, len(data))
        if body:
            self.wfile.write(data)

    def _head(self, status: HTTPStatus, kind: str, policy: str, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self._common(policy)
        self.end_headers()

    def _common(self, policy: str) -> None:
        for name, value in {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-cache",
        }.items():
            self.send_header(name, value)

    def _redirect(self, folder: Path) -> None:
        self.send_response(HTTPStatus.MOVED_PERMANENTLY)
        place = folder.relative_to(self.shelf.root).as_posix()
        self.send_header("Location", f"/{quote(os.fsencode(place))}/")
        self.send_header("Content-Length", "0")
        self._common(OTHERS)
        self.end_headers()

    def _refuse(self, status: HTTPStatus) -> None:
        self._head(status, TEXT, OTHERS, len(status.phrase) + 1)
        if self.command != "HEAD":
            self.wfile.write(f"{status.phrase}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: it is one person's own browser."""


class _Limited:
    """A file up to the length that was announced: a log may grow meanwhile."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, most: int = -1) -> bytes:
        """The next bytes."""
        wanted = self._left if most < 0 else min(most, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data


def listing(root: Path, folder: Path) -> bytes:
    """A plain page with the names in a folder."""
    place = folder.relative_to(root).as_posix()
    lines = [
        f'<li><a href="./{quote(os.fsencode(name))}">{html.escape(name)}</a></li>'
        for name in _names(folder)
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" '
        f'content="light dark"><title>{html.escape(place)}</title>'
        "<style>body{font:15px/1.6 system-ui,sans-serif;margin:2rem}</style>"
        f'<h1>{html.escape(place)}</h1><ul><li><a href="../">up</a></li>{"".join(lines)}</ul>'
    ).encode("utf-8", "replace")


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(f"{p.name}{'/' if p.is_dir() else ''}" for p in folder.iterdir())
    return []


class Server(ThreadingHTTPServer):
    """The server; a browser that hangs up is no error."""

    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say what is not a lost connection."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"inquest: a request failed: {error!r}", file=sys.stderr, flush=True)


def server(results: Path, port: int) -> Server:
    """A server that listens, and does not serve yet.

    Raises: ServeError, where there is no such folder or the port is taken or refused.
    """
    from harness.report.index import render

    if not results.is_dir():
        raise ServeError(f"there is no results folder {results}; `inquest run` makes one")
    handler = type("Bound", (Handler,), {"shelf": Shelf(results, render)})
    try:
        return Server((HOST, port), handler)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ServeError(f"port {port} of {HOST}: {why}; give another one with --port") from None
