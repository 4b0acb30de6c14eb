"""The client of examples/clients, broken in the way that its argument names (no test; the tests start it)."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "clients"))
from confluent_client import Client  # type: ignore[import-not-found]

AFTER = int(sys.argv[2]) if len(sys.argv) > 2 else 40
"""The number of the command at which a program breaks that first works."""


class Early(Client):  # type: ignore[misc]
    """Calls a record acknowledged as soon as it is sent."""

    def open(self, command: dict[str, Any], seconds: float) -> Any:
        if producer := command["client"]["producer"]:
            producer |= {"acks": 0, "idempotent": False}
        return super().open(command, seconds)


class Twice(Client):  # type: ignore[misc]
    """Is not idempotent, and sends every tenth record again, as if no answer had come."""

    def open(self, command: dict[str, Any], seconds: float) -> Any:
        if producer := command["client"]["producer"]:
            producer["idempotent"] = False
        return super().open(command, seconds)

    def send(self, command: dict[str, Any], seconds: float) -> None:
        super().send(command, seconds)
        super().send({"id": -1, "records": command["records"][::10]}, seconds)

    def report(self, send: int, *arguments: Any, **named: Any) -> None:
        if send >= 0:
            super().report(send, *arguments, **named)


class Commits(Client):  # type: ignore[misc]
    """Commits what it should abort."""

    def abort(self, command: dict[str, Any], seconds: float) -> None:
        self.commit(command, seconds)


class Names(Client):  # type: ignore[misc]
    """Names the offset before that of the record."""

    def report(self, send: int, record: int, outcome: str, offset: int = -1, code: str = "") -> None:
        super().report(send, record, outcome, max(-1, offset - 1), code)


class Quiet(Client):  # type: ignore[misc]
    """Tells no rebalance."""

    def happened(self, event: str, **fields: object) -> None:
        if event == "error":
            super().happened(event, **fields)


class Sure(Client):  # type: ignore[misc]
    """Calls each error `failed`."""

    def report(self, send: int, record: int, outcome: str, offset: int = -1, code: str = "") -> None:
        super().report(send, record, "failed" if outcome == "unknown" else outcome, offset, code)


class Starves(Client):  # type: ignore[misc]
    """One of several that poll gets nothing any more, after a while: the one that makes the file first."""

    _polls = 0
    _first = False

    def poll(self, command: dict[str, Any], seconds: float) -> Any:
        self._polls += 1
        if self._polls == 1:
            with suppress(FileExistsError), Path(sys.argv[3]).open("x"):
                self._first = True
        if self._first and self._polls > AFTER:
            time.sleep(min(seconds, 0.1))
            return {"records": []}
        return super().poll(command, seconds)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


BREAKS: dict[str, Callable[[], object]] = {
    "dies": lambda: sys.exit(3),
    "hangs": lambda: time.sleep(3600),
    "garbage": lambda: _say("connected to 3 brokers\n"),
    "wrong-id": lambda: _say('{"id": 999999, "outcome": "ok"}\n'),
}


class Breaks(Client):  # type: ignore[misc]
    """Works for a while."""

    def _answer(self, command: dict[str, Any]) -> Any:
        if command["id"] == AFTER:
            BREAKS[sys.argv[1]]()
        return super()._answer(command)


KINDS = {
    "early": Early,
    "twice": Twice,
    "commits": Commits,
    "names": Names,
    "quiet": Quiet,
    "sure": Sure,
    "starves": Starves,
    "none": Client,
    **dict.fromkeys(BREAKS, Breaks),
}

if __name__ == "__main__":
    KINDS[sys.argv[1]]().serve()
