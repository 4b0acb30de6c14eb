"""Headless Chromium over its DevTools pipe: open a page, ask it, picture it. No network, no driver.

Protocol: JSON messages that end with a zero byte, on the file descriptors 3 (to the browser) and 4.
"""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
DEADLINE_S = 60.0
Json = dict[str, Any]


def chromium() -> str | None:
    """Path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One browser process."""

    def __init__(self, program: str, profile: Path) -> None:
        low_down, self._to = os.pipe()
        self._from, low_up = os.pipe()
        # out of the way of 3 and 4, where the shell puts them for Chromium
        down, up = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (low_down, low_up))
        self._answers: dict[int, queue.Queue[Json]] = {}
        self._ids = itertools.count(1)
        self.events: list[Json] = []
        self._changed = threading.Condition()
        command = f"exec {program} {' '.join(FLAGS)} --user-data-dir={profile} about:blank"
        self._process = subprocess.Popen(
            ["bash", "-c", f"{command} 3<&{down} 4>&{up} {down}<&- {up}>&-"],
            pass_fds=(down, up),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (low_down, low_up, down, up):
            os.close(end)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with os.fdopen(self._from, "rb") as pipe:
            held = b""
            while data := pipe.read1(1 << 16):
                *messages, held = (held + data).split(b"\0")
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers.pop(message["id"]).put(message)
                    else:
                        with self._changed:
                            self.events.append(message)
                            self._changed.notify_all()

    def call(self, method: str, session: str = "", **params: Any) -> Json:
        """One command and its result."""
        number = next(self._ids)
        answer: queue.Queue[Json] = queue.Queue()
        self._answers[number] = answer
        message: Json = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        result = answer.get(timeout=DEADLINE_S)
        if "error" in result:
            raise AssertionError(f"{method}: {result['error']}")
        value: Json = result["result"]
        return value

    def wait(self, found: Callable[[Json], bool], since: int = 0) -> Json:
        """The first event, to come or past from number `since` on, that is the one."""
        deadline = time.monotonic() + DEADLINE_S
        with self._changed:
            while True:
                for event in self.events[since:]:
                    if found(event):
                        return event
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError("the browser did not get there in time")

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError, queue.Empty, AssertionError):
            self.call("Browser.close")
        os.close(self._to)
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(DEADLINE_S)


class Page:
    """One open page with its own size, theme and storage."""

    def __init__(self, browser: Browser, path: Path, width: int, scheme: str, script: bool) -> None:
        self._browser = browser
        self._context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self._context)[
            "targetId"
        ]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.resize(width)
        self.media(scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._script = script
        self._load("Page.navigate", url=path.as_uri())

    def _load(self, method: str, **params: Any) -> None:
        """A command that loads a document.

        Its answer may come while the old document still stands, and an event of that one (or of about:blank)
        after the answer: a document is known by its loader.
        """
        old = self.call("Page.getFrameTree")["frameTree"]["frame"]
        before = len(self._browser.events)
        new = self.call(method, **params).get("loaderId")
        is_mine = self._mine("Page.lifecycleEvent")

        def loaded(event: Json) -> bool:
            if not is_mine(event) or event["params"]["frameId"] != old["id"]:
                return False
            loader: str = event["params"]["loaderId"]
            is_new = loader == new if new else loader != old["loaderId"]
            return is_new and bool(event["params"]["name"] == "load")

        self._browser.wait(loaded, since=before)
        if self._script:
            self.until("document.documentElement.dataset.ready !== undefined")

    def reload(self) -> None:
        """Load the page again and wait until its script has run."""
        self._load("Page.reload")

    def _mine(self, method: str) -> Callable[[Json], bool]:
        return lambda event: event.get("sessionId") == self._session and event["method"] == method

    def call(self, method: str, **params: Any) -> Json:
        """A command to this page."""
        return self._browser.call(method, self._session, **params)

    def resize(self, width: int) -> None:
        """Width of the window in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def media(self, scheme: str, medium: str = "") -> None:
        """Prefer a colour scheme; show as for a medium (`print`)."""
        self.call(
            "Emulation.setEmulatedMedia",
            media=medium,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def ask(self, expression: str) -> Any:
        """Value of a JavaScript expression, promises awaited. Works without the page's scripts."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.ask(condition):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {condition}")
            self.ask("new Promise((done) => setTimeout(done, 20))")

    def press(self, key: str) -> None:
        """One key, as a keyboard sends it."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowRight": 39, "+": 187}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def complaints(self) -> list[str]:
        """What the console, the log and the policy had to say against the page."""
        found = []
        for event in list(self._browser.events):
            if event.get("sessionId") != self._session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(json.dumps(params["args"])[:500])
            elif event["method"] == "Log.entryAdded":
                found.append(f"{params['entry']['level']}: {params['entry']['text']}")
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, itself and data left out."""
        return [
            event["params"]["request"]["url"]
            for event in list(self._browser.events)
            if self._mine("Network.requestWillBeSent")(event)
            and not event["params"]["request"]["url"].startswith(("file:", "data:", "blob:"))
        ]

    def picture(self, path: Path, whole: bool = True, clip: Json | None = None) -> None:
        """Write a PNG of the page, or of a part of it."""
        more: Json = {"clip": {**clip, "scale": 1}} if clip else {}
        result = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **more)
        path.write_bytes(base64.b64decode(result["data"]))

    def close(self) -> None:
        """Close the page and forget its storage."""
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)


@contextlib.contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, scheme: str = "light", script: bool = True
) -> Iterator[Page]:
    """A page of a report, closed at the end."""
    page = Page(browser, path, width, scheme, script)
    try:
        yield page
    finally:
        page.close()
