"""The lines of docs/client-protocol.md for a client in Python: what no library has to know.

A subclass has a method for each verb. It takes the command and the seconds that it may take, and returns what
its answer holds beside `outcome`. `send` returns nothing: it calls `report` for each record, at any time.
`Failed` means that a command had no effect; any other exception leaves it unknown.
"""

import base64
import json
import os
import sys
import threading


class Failed(Exception):
    """The command had no effect, and never will. The first argument is Kafka's name of the error."""


class LinesClient:
    """One client. `report` and `happened` may be called by any thread."""

    def __init__(self) -> None:
        self._reports: dict[int, list[dict]] = {}
        self._events: list[dict] = []
        self._writing = threading.Lock()

    def report(self, send: int, record: int, outcome: str, offset: int = -1, code: str = "") -> None:
        """What is known of a record of a send."""
        with self._writing:
            found = {"record": record, "outcome": outcome, "offset": offset, "code": code}
            self._reports.setdefault(send, []).append(found)

    def happened(self, event: str, **fields: object) -> None:
        """An event for the next answer."""
        with self._writing:
            self._events.append({"event": event, **fields})

    def failure(self, error: Exception) -> dict:
        """What an answer says of an exception of the library. A call that is left behind holds its client."""
        if isinstance(error, TimeoutError):
            return {"code": "_TIMED_OUT", "fatal": True}
        return {"code": type(error).__name__, "message": str(error)[:500]}

    def serve(self) -> None:
        """Answer commands until standard input ends."""
        for line in sys.stdin:
            command = json.loads(line)
            answer = self._answer(command)
            with self._writing:
                lines = [{"id": send, "reports": some} for send, some in self._reports.items()]
                if command["verb"] != "send":
                    lines.append({"id": command["id"], **answer, "events": self._events})
                    self._events = []
                self._reports = {}
            sys.stdout.write("".join(json.dumps(one) + "\n" for one in lines))
            sys.stdout.flush()
        os._exit(0)  # not even a library that still waits for a broker may hold it

    def _answer(self, command: dict) -> dict:
        try:
            made = getattr(self, command["verb"])(command, command["timeout_ms"] / 1000)
        except Failed as error:
            return {"outcome": "failed", "code": str(error.args[0]), "message": str(error)[:500]}
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            outcome = "failed" if command["verb"] == "open" else "unknown"
            return {"outcome": outcome, **self.failure(error)}
        return {"outcome": "ok", **(made or {})}


def value(record: dict) -> bytes:
    """The bytes of a record to send."""
    return base64.b64decode(record["value"])


def polled(topic: str, partition: int, offset: int, value: bytes) -> dict:
    """A record as a poll returns it."""
    text = base64.b64encode(value).decode()
    return {"topic": topic, "partition": partition, "offset": offset, "value": text}


def bounded(seconds: float, call, *arguments, **named):
    """What a call returns that has no time-out of its own. Raises: TimeoutError, and what the call raises."""
    results, errors = [], []

    def run() -> None:
        try:
            results.append(call(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]
