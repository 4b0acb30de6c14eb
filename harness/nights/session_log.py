"""The log of a session: `nights/<utc>/night.jsonl`, one JSON line an event, written as it happens.

The soak reads it to repeat failures and to resume after a crash; the index of the results folder shows it. A
line holds all that the index needs, so the log suffices when run folders are gone. The reader leaves damaged
lines out and counts them.
"""

import stat
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from core.errors import ExitCode
from core.presets import NamedSettings
from core.systems import SYSTEMS, planted_bug, runnable, versions
from harness.clients.registry import CLIENTS
from history.verdict import NOT_RECOVERED, ResultWord, Verdict, bugs_of

FOLDER = "nights"
FILE = "night.jsonl"
SIZE_MOST = 1 << 28
"""Bytes of a log: a hundred thousand runs."""

Why = Literal["repeat", "canary", "explicit", "matrix"]
State = Literal["valid", "anomaly", "unknown", "not-recovered", "silent", "unmet", "error", "interrupted"]
STATES: dict[int, State] = {
    ExitCode.VALID: "valid",
    ExitCode.ANOMALY: "anomaly",
    ExitCode.UNKNOWN: "unknown",
    ExitCode.NOT_RECOVERED: "not-recovered",
    ExitCode.SILENT: "silent",
    ExitCode.UNMET: "unmet",
    ExitCode.INTERRUPTED: "interrupted",
}
"""Exit code of a run that has a verdict → its state. Every other code is an error of the harness."""
RESULTS: dict[State, ResultWord] = {
    "valid": ResultWord.VALID,
    "anomaly": ResultWord.ANOMALY,
    "unknown": ResultWord.UNKNOWN,
    "not-recovered": ResultWord.NOT_RECOVERED,
    "silent": ResultWord.CONTROL_SILENT,
    "unmet": ResultWord.UNMET,
}
"""State of a run → its result, as far as the state says it."""
WORDS = frozenset(ResultWord)
"""Results that this version knows."""
FAILING: tuple[State, ...] = ("anomaly", "unknown", "not-recovered", "silent", "unmet")
"""States whose runs later sessions repeat."""


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to perform. settings: all others, by name. of: `session/number` of the run that it repeats.
    client, cluster: names of a program and of a file that the command line gave (`harness.soak.systems`)."""

    why: Why
    workload: str
    nemesis: str
    preset: str
    seed: int
    settings: NamedSettings = {}
    of: str = ""
    client: str = ""
    cluster: str = ""

    @property
    def key(self) -> tuple[str | int | bytes, ...]:
        """Equal for two plans of the same run."""
        settings = msgspec.json.encode(self.settings, order="deterministic")
        named = self.client, self.cluster
        return self.workload, self.nemesis, self.preset, self.seed, settings, *named


class AnomalyCount(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly class of a run, of what clients saw or of what brokers' logs show. known_bug: ids
    (`history.verdict.bugs_of`), where every forbidden finding has the signature of one."""

    name: str
    count: int
    disallowed: int
    known_bug: str = ""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was made on.

    system: its name. version: of Kafka (`4.1.2 → 4.4.0` where nodes changed), the era of the model, or the
    name of the user's cluster. client: the library, or the name of the user's program. planted: the bug in
    the system, "" = none. Of the others "" = not on record.
    """

    system: str = ""
    version: str = ""
    client: str = ""
    planted: str = ""

    @classmethod
    def of(cls, config: NamedSettings) -> "Tested":
        """By the config of a verdict, which may come from another person."""
        system = str(config.get("sut", ""))
        section = config.get(system)
        settings = section if isinstance(section, dict) else {}
        version = settings.get("version") or settings.get("era") or settings.get("format") or ""
        usual = SYSTEMS[system].clients if system in runnable() else ""
        kind = CLIENTS.get(str(config.get("clients") or usual))
        library = kind.client_library().name if kind is not None else ""
        shown = versions(str(version), str(settings.get("upgrade") or ""))
        return cls(system=system, version=shown, client=library, planted=planted_bug(config))


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run.

    code: exit code of the process (negative: a signal ended it). folder: name of the run folder, "" =
    none. seconds: of the process. error: why it counts as an error of the harness. available: served
    share of the phase of faults (`history.verdict.Liveness`); recovery_s: seconds; both None if unknown.
    judged: it has a verdict. fired: of a control, whether it found all that it has to find (None: no
    control, or no verdict). undecided: how many things the verdict could not decide, whatever it found
    beside them (an exit code says only the worst). unmet: likewise, how many requirements it does not
    meet. result: the verdict's word (`history.verdict.ResultWord`, or one of a newer version), "" = no
    verdict, or a line of an older version. tested: None = a line of an older version.
    """

    state: State
    code: int
    seconds: float
    folder: str = ""
    judged: bool = False
    summary: str = ""
    error: str = ""
    anomalies: list[AnomalyCount] = []
    available: float | None = None
    recovery_s: float | None = None
    fired: bool | None = None
    undecided: int = 0
    unmet: int = 0
    result: str = ""
    tested: Tested | None = None

    @classmethod
    def of(
        cls, verdict: Verdict, state: State, *, code: int, seconds: float, folder: str, error: str = ""
    ) -> "RunResult":
        """The result of a run with this verdict."""
        return cls(
            state=state,
            code=code,
            seconds=seconds,
            folder=folder,
            judged=True,
            summary=verdict.summary,
            error=error,
            anomalies=[
                AnomalyCount(name=name, count=a.count, disallowed=a.disallowed, known_bug=a.known_bug)
                for name, a in verdict.anomalies.items()
            ],
            available=verdict.liveness.available,
            recovery_s=verdict.recovery_s,
            fired=all(verdict.expect.values()) if verdict.expect and not error else None,
            undecided=len(verdict.unknown),
            unmet=len(verdict.unmet),
            result=verdict.result,
            tested=Tested.of(verdict.config),
        )

    def on(self, task: PlannedRun) -> "RunResult":
        """The same, made on a cluster and by clients that the command line named."""
        if self.tested is None or not (task.client or task.cluster):
            return self
        client, version = task.client or self.tested.client, task.cluster or self.tested.version
        tested = msgspec.structs.replace(self.tested, client=client, version=version)
        return msgspec.structs.replace(self, tested=tested)

    @property
    def word(self) -> str:
        """What the run came to, in a word or two: a `ResultWord`, or a state that no verdict has. Of a result
        that this version does not know, what the state says."""
        if self.state in ("error", "interrupted"):
            return self.state
        fired = self.state == "valid" and self.fired
        known = self.state == "anomaly" and bool(self.known_bugs)
        said = ResultWord.KNOWN_BUGS if known else ResultWord.CONTROL_FIRED if fired else RESULTS[self.state]
        return self.result if self.result in WORDS else said

    @property
    def open(self) -> list[AnomalyCount]:
        """Forbidden findings of no known bug, on a system without a planted one; "did not recover" is not
        among them."""
        if self.tested is not None and self.tested.planted:
            return []
        return [f for f in self.forbidden if not f.known_bug and f.name != NOT_RECOVERED]

    @property
    def forbidden(self) -> list[AnomalyCount]:
        """All forbidden findings."""
        return [found for found in self.anomalies if found.disallowed]

    @property
    def known_bugs(self) -> tuple[str, ...]:
        """The known bugs of the forbidden findings; empty, where one of these has none."""
        if not all(found.known_bug for found in self.forbidden):
            return ()
        return tuple(sorted({bug for found in self.forbidden for bug in bugs_of(found.known_bug)}))


class SessionStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """First line. at: UTC, ISO 8601. matrix: `Matrix` as JSON. canary: the preset that has to fire."""

    at: str
    seed: int
    budget_s: float
    canary: str
    matrix: NamedSettings
    format: int = 1


class RunBegun(msgspec.Struct, frozen=True, kw_only=True, tag="run-begun", tag_field="event"):
    """A run is about to start. spent_s: seconds of the budget that are used up. command: with arguments."""

    at: str
    spent_s: float
    number: int
    task: PlannedRun
    command: list[str]


def owner(session: str, begun: RunBegun) -> str:
    """The mark that this run writes into its folder (option `--owner`); a repetition has another one."""
    return f"{session}/{begun.number}/{begun.at}"


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag="run-ended", tag_field="event"):
    """A run has ended with this result."""

    at: str
    spent_s: float
    number: int
    outcome: RunResult


class SessionPaused(msgspec.Struct, frozen=True, kw_only=True, tag="interrupted", tag_field="event"):
    """A person interrupted the session; it can be resumed."""

    at: str
    spent_s: float


class SessionResumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed", tag_field="event"):
    """The session continues after an interruption or a crash. spent_s: what was used up before."""

    at: str
    spent_s: float


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="event"):
    """Last line: the session ran to its end. code: its exit code."""

    at: str
    spent_s: float
    code: int


SessionEvent = SessionStarted | RunBegun | RunEnded | SessionPaused | SessionResumed | SessionEnded
_DECODER: msgspec.json.Decoder[SessionEvent] = msgspec.json.Decoder(SessionEvent)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try at a run. outcome None: it is under way, or the soak died in it."""

    begun: RunBegun
    outcome: RunResult | None = None


@dataclass(slots=True, kw_only=True)
class SoakSession:
    """A session, as its events describe it.

    attempts: by time; several with the same number, where a run was repeated after a crash. spent_s:
    seconds used up at the last event. damaged: how many lines could not be read.
    """

    name: str
    started: SessionStarted
    attempts: list[Attempt] = field(default_factory=list)
    spent_s: float = 0.0
    last_at: str = ""
    paused: bool = False
    ended: SessionEnded | None = None
    damaged: int = 0

    @property
    def runs(self) -> list[Attempt]:
        """The last attempt of each number, and earlier ones that found something forbidden."""
        last = {attempt.begun.number: place for place, attempt in enumerate(self.attempts)}
        return [
            attempt
            for place, attempt in enumerate(self.attempts)
            if last[attempt.begun.number] == place
            or (attempt.outcome is not None and attempt.outcome.forbidden)
        ]

    @property
    def results(self) -> list[tuple[PlannedRun, RunResult]]:
        """The runs that have ended, and their results."""
        return [(one.begun.task, one.outcome) for one in self.runs if one.outcome is not None]

    @property
    def canary(self) -> RunResult | None:
        """The result of the canary; None, as long as it has not ended."""
        return next((result for task, result in reversed(self.results) if task.why == "canary"), None)

    @property
    def fired(self) -> bool | None:
        """Whether the canary found what it has to find, whatever else it found. None: it has not ended, or
        reached no verdict, or one that leaves this open: a check crashed, or another cluster answered."""
        canary = self.canary
        if canary is None or canary.state in ("error", "interrupted"):
            return None
        if canary.fired is None and not canary.result:  # of an older version
            return canary.state in ("valid", "unknown")  # in which a silent one is never "unknown"
        return canary.fired

    @property
    def void(self) -> bool:
        """The canary did not fire, reached no verdict, or did not run before the session ended: other runs
        without findings prove nothing."""
        if self.fired is None:
            left_open = self.canary is not None and self.canary.state != "interrupted"
            return left_open or self.ended is not None
        return not self.fired

    @property
    def code(self) -> int:
        """Exit code of the session (docs/soak.md): 1 > 3 > 4 > 2 > 70 > 0, and 70 where there are errors
        and no verdict at all. Bugs that the matrix accepts are left out of it, and nothing else of the runs
        that found them. 130 comes from the soak itself."""
        everything = [result for _, result in self.results]
        if any(one.state == "error" for one in everything) and not any(one.judged for one in everything):
            return ExitCode.HARNESS
        states = set().union(*map(self._states, self.last), *map(self._found, everything))
        if "anomaly" in states:
            return ExitCode.ANOMALY
        if "not-recovered" in states:
            return ExitCode.NOT_RECOVERED
        if self.void or "silent" in states:
            return ExitCode.SILENT
        if "unknown" in states or not self.tested:
            return ExitCode.UNKNOWN
        if "unmet" in states:
            return ExitCode.UNMET
        return ExitCode.HARNESS if "error" in states else ExitCode.VALID

    @property
    def last(self) -> list[RunResult]:
        """The results of runs, without those that were repeated after an interruption."""
        last = {attempt.begun.number: attempt.outcome for attempt in self.attempts}
        return [result for result in last.values() if result is not None]

    @property
    def silent(self) -> int:
        """How many controls beside the canary did not find what they have to find."""
        last = {one.begun.number: one for one in self.attempts if one.begun.task.why != "canary"}
        return sum("silent" in self._states(one.outcome) for one in last.values() if one.outcome is not None)

    def _found(self, result: RunResult) -> set[State]:
        """What a run adds by its findings, also one that was interrupted and repeated."""
        names = {found.name for found in result.forbidden}
        states: set[State] = {"not-recovered"} if NOT_RECOVERED in names else set()
        if names - {NOT_RECOVERED} and not self.accepts(result):
            states.add("anomaly")
        return states

    def _states(self, result: RunResult) -> set[State]:
        """What the last attempt at a run adds beside its findings. Its own exit code says the worst alone:
        under an accepted bug may lie what it could not decide or does not show, or a control that stayed
        silent."""
        states: set[State] = {result.state} - ({"anomaly"} if self.accepts(result) else set())
        if result.undecided:
            states.add("unknown")
        if result.unmet:
            states.add("unmet")
        if result.fired is False:
            states.add("silent")
        return states

    def accepts(self, result: RunResult) -> bool:
        """All that the run found are known bugs that the matrix accepts, and perhaps a cluster that did not
        recover, which counts apart; it may have been cut short."""
        others = [found for found in result.forbidden if found.name != NOT_RECOVERED]
        found = result.state in ("anomaly", "interrupted", "error") and bool(others)
        return found and all(
            one.known_bug and set(bugs_of(one.known_bug)) <= set(self.accepted) for one in others
        )

    @property
    def accepted(self) -> tuple[str, ...]:
        """The known bugs that the matrix accepts."""
        return tuple(self.started.matrix.get("accept", ()))

    @property
    def tested(self) -> int:
        """How many runs have a verdict, without canaries."""
        return sum(result.judged and task.why != "canary" for task, result in self.results)

    def apply(self, event: SessionEvent) -> None:
        """Add the next event."""
        self.last_at = event.at
        if not isinstance(event, SessionStarted):
            self.spent_s = max(self.spent_s, event.spent_s)
        match event:
            case RunBegun():
                self.attempts.append(Attempt(begun=event))
            case RunEnded():
                for attempt in reversed(self.attempts):
                    if attempt.begun.number == event.number and attempt.outcome is None:
                        attempt.outcome = event.outcome
                        break
            case SessionPaused() | SessionResumed():
                self.paused = isinstance(event, SessionPaused)
            case SessionEnded():
                self.ended = event


def read(folder: Path) -> SoakSession | None:
    """The session of a folder; None, where its first line cannot be read.

    The folder may come from another person: a link, a pipe or a file of a size that no session has is none.
    """
    path = folder / FILE
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > SIZE_MOST:
            return None
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return None
    session, damaged = None, 0
    for line in filter(None, lines):
        try:
            event = _DECODER.decode(line)
            timestamp(event.at)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            damaged += 1
            continue
        if session is not None:
            session.apply(event)
        elif isinstance(event, SessionStarted):
            session = SoakSession(name=folder.name, started=event, last_at=event.at)
    if session is not None:
        session.damaged = damaged
    return session


def folders(results: Path) -> list[Path]:
    """The folders of sessions, oldest first."""
    return sorted(path for path in (results / FOLDER).glob("*") if path.is_dir())


def sessions(results: Path) -> list[SoakSession]:
    """All readable sessions of a results folder, oldest first."""
    return [session for session in map(read, folders(results)) if session is not None]


def size_of(folder: Path) -> int:
    """Bytes of the log in a folder; 0, where there is none."""
    try:
        return (folder / FILE).lstat().st_size
    except OSError:
        return 0


def timestamp(at: str) -> float:
    """An `at` as seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()
