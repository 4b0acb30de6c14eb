"""The running program of a client: one command at a time is answered; reports of records come at any time."""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final

import msgspec

from core.client_settings import ClientSettings, SessionSpec
from core.cluster import CLUSTER_ID
from core.errors import InquestError
from core.session import Acked, Delivery, Failed, Unknown
from harness.clients.command import protocol as p
from harness.processes.child import Child, start, tail
from harness.processes.user_program import environment

GRACE_S: Final = 5.0
"""How much longer than the time of a command its answer may take: then the program stands still."""
TICK_S: Final = 0.1
LOOK_S: Final = 1.0
"""How often what waits for an answer looks whether one may still come."""
BOOTSTRAP: Final = "bootstrap.servers"
END_S: Final = 2.0
"""How long the program may take to end, once its input has."""


class ClientLost(InquestError):
    """The program of a client ended, stands still, or writes what is not the protocol. The message says
    which, in words that begin with "the client"."""


class Speaker:
    """A program that was started. Commands are given by one thread.

    log: its standard error is appended there; None = it is that of this process, and the program stays in the
    group of this process.

    The time of a command is counted in ticks of this process: while a fault pauses both, it stands.
    """

    def __init__(self, command: Sequence[str], log: Path | None = None) -> None:
        """Raises: OSError, where it cannot be started."""
        self._log = log
        self._id = 0
        self._answer: p.Answer | None = None
        self._wanted = -1
        self._sends: dict[int, list[Delivery | None]] = {}
        """Sends that lack reports."""
        self._wrong = ""
        self._left_s: float | None = None
        """Of the command under way; None = there is none."""
        self._clock = threading.Lock()
        self._closed = threading.Event()
        program = start(command, log=log, env=environment(), own_session=log is not None)
        self._child = Child(program, "the client", p.Answer, self._hear)
        threading.Thread(target=self._watch, daemon=True).start()

    def open(self, args: Mapping[str, str], spec: SessionSpec, client: ClientSettings) -> p.Answer:
        """The answer to `open`. args: those of an endpoint. Raises: ClientLost."""
        if client.consumer is not None:
            consumer = msgspec.structs.replace(client.consumer, auto_commit=False)
            client = msgspec.structs.replace(client, consumer=consumer)
        security = {name: value for name, value in args.items() if name not in (BOOTSTRAP, CLUSTER_ID)}
        where = {"version": p.VERSION, "bootstrap": args[BOOTSTRAP], "security": security}
        return self.call(p.Open, spec.deadline_s, **where, client=client)

    def call(self, verb: type[p.Command], seconds: float, **fields: Any) -> p.Answer:
        """Give a command, and its answer. Raises: ClientLost."""
        self._id += 1
        self._answer, self._wanted = None, self._id
        self._allow(seconds + GRACE_S)
        self._child.tell(verb(id=self._id, timeout_ms=round(seconds * 1000), **fields))
        self._await()
        self._allow(None)
        self._wanted = -1
        answer: p.Answer | None = self._heard()
        if answer is None or self._wrong or self._child.error:
            raise self.lost()
        return answer

    def _await(self) -> None:
        """Wait for the answer, or for what makes it impossible. Where a shell was killed, what it started may
        hold its output open: then no line and no end of it wakes who waits."""

        def done() -> bool:
            return self._heard() is not None or bool(self._wrong)

        while not self._child.until(done, LOOK_S) and not self._child.trouble():
            pass

    def send(self, records: list[p.RecordToSend], seconds: float) -> list[Delivery | None]:
        """Give records to the client; what is known of each, at any moment."""
        self._id += 1
        results: list[Delivery | None] = [None] * len(records)
        self._sends[self._id] = results
        self._allow(seconds + GRACE_S)
        self._child.tell(p.SendRecords(id=self._id, timeout_ms=round(seconds * 1000), records=records))
        self._allow(None)
        return results

    def lost(self) -> ClientLost:
        """Why the program is of no use any more, with the last line of its log. It is killed."""
        why = self._wrong or self._child.trouble()
        self._kill()
        self._child.wait(END_S)
        words = "" if self._log is None else tail(self._log).strip().rpartition("\n")[2]
        return ClientLost(f"{why}; its last line: {words[:200]}" if words else why)

    def refused(self, why: str) -> ClientLost:
        """The program is lost because of what it answered."""
        self._wrong = self._wrong or why
        return self.lost()

    def end(self) -> None:
        """End its input, and the program itself where it does not end; idempotent, never raises."""
        if not self._closed.is_set():
            self._closed.set()
            self._child.end_input()
            self._child.until(lambda: False, END_S)
            self._kill()
        self._child.end(END_S)

    def _kill(self) -> None:
        """The program, and what it started where that is in a session of its own: a shell may end, and leave
        the client that it started."""
        self._child.strike()
        if self._log is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)

    def _heard(self) -> p.Answer | None:
        return self._answer

    def _hear(self, line: p.Answer) -> None:
        if line.reports and (beside := line.beside_reports()):
            self._wrong = self._wrong or (
                f"the client's line with reports of the send {line.id} has {', '.join(beside)}, too: reports"
                " stand alone"
            )
        elif line.reports and (self._wrong or not self._take_reports(line)):
            self._wrong = self._wrong or f"the client reports twice, or no record, of the send {line.id}"
        elif line.outcome is not None:
            if line.id != self._wanted or self._answer is not None:
                self._wrong = self._wrong or f"the client answers {line.id}, which nothing asked"
            self._answer = line
        elif not line.reports:
            self._wrong = (
                self._wrong or f"the client wrote a line with neither outcome nor reports: {line.id}"
            )

    def _take_reports(self, line: p.Answer) -> bool:
        """Whether they were awaited."""
        results = self._sends.get(line.id, [])
        now = monotonic_ns()
        for report in line.reports:
            if report.record >= len(results) or results[report.record] is not None:
                return False
            results[report.record] = _delivery(report, now)
        if None not in results:
            del self._sends[line.id]
        return True

    def _allow(self, seconds: float | None) -> None:
        with self._clock:
            self._left_s = seconds

    def _tick(self) -> bool:
        """Whether the time of a command is up."""
        with self._clock:
            if self._left_s is None:
                return False
            self._left_s -= TICK_S
            return self._left_s <= 0

    def _watch(self) -> None:
        """Kill the program where a command takes too long: what waits for it, or writes to it, continues."""
        while not self._closed.wait(TICK_S):
            if self._tick():
                self._wrong = self._wrong or "the client stands still: it did not answer in time"
                self._kill()
                return


def _delivery(report: p.Report, now: int) -> Delivery:
    if report.outcome is p.CommandOutcome.OK:
        return Acked(report.offset, now)
    kind = Failed if report.outcome is p.CommandOutcome.FAILED else Unknown
    return kind(report.code or "UNKNOWN")
