"""A night of soak: `nights/<utc>/night.jsonl`, one JSON line an event, written as it happens.

Written by the soak, read by it (what to repeat, how to go on after a crash) and by the index of the
results folder. A line says all that the index needs: it stays true when run folders are gone. Lines
that a crash cut off or that are damaged are left out and counted.

Not here: choosing and making runs (`harness.soak`), how nights look (`harness.report.index`).
"""

import fcntl
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

FOLDER = "nights"
FILE = "night.jsonl"

Why = Literal["repeat", "canary", "explicit", "matrix"]
State = Literal["valid", "anomaly", "unknown", "not-recovered", "silent", "error", "interrupted"]
STATES: dict[int, State] = {
    0: "valid", 1: "anomaly", 2: "unknown", 3: "not-recovered", 4: "silent", 130: "interrupted",
}  # fmt: skip
"""Exit code of a run that has a verdict -> its state. Everything else is an error of the harness."""
FAILING: tuple[State, ...] = ("anomaly", "unknown", "not-recovered", "silent")
"""States that are tried again in later nights."""
NOT_RECOVERED = "not-recovered"
"""The class of finding that is a state and an exit code of its own, and no open finding."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to be made. settings: by name, besides the five; `of`: `night/number` of the run
    that it repeats."""

    why: Why
    workload: str
    nemesis: str
    preset: str
    seed: int
    settings: dict[str, Any] = {}
    of: str = ""

    @property
    def key(self) -> tuple[str, str, str, int, bytes]:
        """What makes two runs the same one."""
        settings = msgspec.json.encode(self.settings, order="deterministic")
        return self.workload, self.nemesis, self.preset, self.seed, settings


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly class of a run. known_bug: id, where all its forbidden findings bear its signature."""

    name: str
    count: int
    disallowed: int
    known_bug: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run.

    code: exit code of the process (negative: a signal ended it). folder: name of the run folder, ""
    without one. seconds: of the process. error: why it is an error. available: share of the phase of
    faults, recovery_s: seconds, both None where not known. judged: it has a verdict. fired: of a
    control, whether all was found that it has to find (None: no control, or no verdict).
    """

    state: State
    code: int
    seconds: float
    folder: str = ""
    judged: bool = False
    summary: str = ""
    error: str = ""
    anomalies: list[Found] = []
    available: float | None = None
    recovery_s: float | None = None
    fired: bool | None = None

    @property
    def open(self) -> list[Found]:
        """Forbidden findings of no known bug; that a cluster did not recover is told apart."""
        return [f for f in self.forbidden if not f.known_bug and f.name != NOT_RECOVERED]

    @property
    def forbidden(self) -> list[Found]:
        """All forbidden findings."""
        return [found for found in self.anomalies if found.disallowed]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """First line. at: UTC, ISO 8601. matrix: as it was read. canary: preset that has to fire."""

    at: str
    seed: int
    budget_s: float
    canary: str
    matrix: dict[str, Any]
    format: int = 1


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="run-begun", tag_field="event"):
    """A run is about to be started. spent_s: seconds of the night until now; command: its arguments."""

    at: str
    spent_s: float
    number: int
    task: Task
    command: list[str]


def owner(night: str, begun: Begun) -> str:
    """What the folder of this run says of itself (`store.OWNER`); a run made again has another."""
    return f"{night}/{begun.number}/{begun.at}"


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="run-ended", tag_field="event"):
    """A run is over, and this came of it."""

    at: str
    spent_s: float
    number: int
    outcome: Outcome


class Paused(msgspec.Struct, frozen=True, kw_only=True, tag="interrupted", tag_field="event"):
    """The night was interrupted by a person; it can be resumed."""

    at: str
    spent_s: float


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed", tag_field="event"):
    """The night goes on after an interruption or a crash. spent_s: what was used up before."""

    at: str
    spent_s: float


class Over(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="event"):
    """Last line: the night ran to its end. code: exit code of the soak."""

    at: str
    spent_s: float
    code: int


Event = Started | Begun | Ended | Paused | Resumed | Over
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Event)


class Log:
    """Appends events to a night, which it holds locked. Each event is one unbuffered write.

    Raises: BlockingIOError, where another process writes to it; OSError.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(self._handle).st_size
            if size and os.pread(self._handle, 1, size - 1) != b"\n":
                os.write(self._handle, b"\n")  # half a line of a crash: it stays one line
        except BaseException:
            os.close(self._handle)
            raise

    def write(self, event: Event) -> None:
        """Append one event. Raises: OSError (disk full)."""
        data = _ENCODER.encode(event) + b"\n"
        if os.write(self._handle, data) != len(data):
            raise OSError(f"{FILE} could not be written whole (disk full?)")

    def close(self) -> None:
        """Let the night go."""
        os.close(self._handle)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A run of a night; outcome None: it is under way, or the soak died with it."""

    begun: Begun
    outcome: Outcome | None = None
    ended_at: str = ""


@dataclass(slots=True, kw_only=True)
class Night:
    """A night as its events tell it.

    attempts: in order of time; a number stands here again where its run was made again. spent_s:
    seconds used up at the last event. damaged: lines that could not be read.
    """

    name: str
    started: Started
    attempts: list[Attempt] = field(default_factory=list)
    spent_s: float = 0.0
    last_at: str = ""
    paused: bool = False
    over: Over | None = None
    damaged: int = 0

    @property
    def runs(self) -> list[Attempt]:
        """The attempts that came to an end, or may still do: of a number that was begun again, the
        earlier ones only where they found something."""
        last = {attempt.begun.number: place for place, attempt in enumerate(self.attempts)}
        return [
            attempt
            for place, attempt in enumerate(self.attempts)
            if last[attempt.begun.number] == place
            or (attempt.outcome is not None and attempt.outcome.forbidden)
        ]

    @property
    def canary(self) -> Outcome | None:
        """What came of the canary, None: it has not been run to its end."""
        outcomes = [a.outcome for a in self.runs if a.begun.task.why == "canary" and a.outcome]
        return outcomes[-1] if outcomes else None

    @property
    def fired(self) -> bool | None:
        """Whether the canary found what it has to find, whatever else came of it. None: it was not run
        to its end, or came to no verdict."""
        canary = self.canary
        if canary is None or canary.state in ("error", "interrupted"):
            return None
        if canary.fired is None:  # of an older version; "unknown" comes after "silent"
            return canary.state in ("valid", "unknown")
        return canary.fired

    @property
    def void(self) -> bool:
        """The canary did not fire, came to no verdict, or the night ended without one: "valid" proves
        nothing here."""
        if self.fired is None:
            failed = self.canary is not None and self.canary.state == "error"
            return failed or self.over is not None
        return not self.fired

    @property
    def code(self) -> int:
        """Exit code of the night (docs/soak.md): 1 > 3 > 4 > 2 > 70 > 0, and 70 where nothing at all
        was judged. That it was interrupted is for the soak to say."""
        outcomes = [attempt.outcome for attempt in self.runs if attempt.outcome is not None]
        states = {outcome.state for outcome in outcomes}
        if "error" in states and not any(outcome.judged for outcome in outcomes):
            return 70
        if "anomaly" in states or any(
            found.name != NOT_RECOVERED for outcome in outcomes for found in outcome.forbidden
        ):
            return 1
        if "not-recovered" in states:
            return 3
        if self.void or "silent" in states:
            return 4
        if "unknown" in states or not self.tested:
            return 2
        return 70 if "error" in states else 0

    @property
    def tested(self) -> int:
        """Runs with a verdict, canaries left out."""
        return sum(
            attempt.outcome is not None
            and attempt.outcome.judged
            and attempt.begun.task.why != "canary"
            for attempt in self.runs
        )

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        self.last_at = event.at
        if not isinstance(event, Started):
            self.spent_s = max(self.spent_s, event.spent_s)
        match event:
            case Begun():
                self.attempts.append(Attempt(begun=event))
            case Ended():
                for attempt in reversed(self.attempts):
                    if attempt.begun.number == event.number and attempt.outcome is None:
                        attempt.outcome, attempt.ended_at = event.outcome, event.at
                        break
            case Paused() | Resumed():
                self.paused = isinstance(event, Paused)
            case Over():
                self.over = event
            case Started():
                pass


def read(folder: Path) -> Night | None:
    """The night of a folder; None where not even its first line can be read."""
    try:
        lines = (folder / FILE).read_bytes().split(b"\n")
    except OSError:
        return None
    night, damaged = None, 0
    for line in filter(None, lines):
        try:
            event = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            damaged += 1
            continue
        if night is not None:
            night.apply(event)
        elif isinstance(event, Started):
            night = Night(name=folder.name, started=event, last_at=event.at)
    if night is not None:
        night.damaged = damaged
    return night


def nights(results: Path) -> list[Night]:
    """All nights of a results folder that can be read, oldest first."""
    folders = sorted(p for p in (results / FOLDER).glob("*") if p.is_dir())
    return [night for night in map(read, folders) if night is not None]


def timestamp(at: str) -> float:
    """An `at` as seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()


def moment() -> str:
    """Now, as `at` is written."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
