"""A soak session from its first line to its last: `inquest soak`.

    code = soak(SoakRequest(results=Path("results"), matrix=load(None)))

It opens a session or resumes the unfinished one, performs run after run until the budget is used up, and
records each step before and after it. docs/soak.md describes it for users.
"""

import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, count
from pathlib import Path

import msgspec

from core.errors import ConfigError, ExitCode, InquestError
from core.files import written_into
from core.secrets import shown
from core.terminal import say
from harness.judging.process import judge_if_any
from harness.nights.session_log import (
    FILE,
    FOLDER,
    Attempt,
    PlannedRun,
    RunBegun,
    RunEnded,
    RunResult,
    SessionEnded,
    SessionEvent,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    SoakSession,
    owner,
    read,
    sessions,
    timestamp,
)
from harness.processes.interrupts import Interrupts
from harness.soak import runs, scheduler
from harness.soak.matrix import Matrix, canary_run, check_run, config_of
from harness.soak.systems import Named
from history.jsonl import Appender
from history.run_folder import Run

RESUME_S = 86_400.0
"""An unfinished session whose last step is older than this is not resumed."""
BUDGET_S = 1800.0
ERRORS_MAX = 5
"""This many errors of the harness in a row end the session: the next run would fail too."""
GIVEN_UP = RunResult(
    state="error",
    code=ExitCode.HARNESS,
    seconds=0.0,
    error="the soak process died in this run, more than once",
)
ENDINGS = {
    ExitCode.VALID: "nothing new; the canary fired",
    ExitCode.ANOMALY: "at least one run found something forbidden",
    ExitCode.UNKNOWN: "at least one run could not decide something",
    ExitCode.NOT_RECOVERED: "a cluster did not recover",
    ExitCode.UNMET: "at least one run does not meet what was required",
    ExitCode.SILENT: "a control did not find what it must find",
    ExitCode.HARNESS: "the harness failed",
    ExitCode.INTERRUPTED: "interrupted; the same command resumes it",
}
VOID = "void: the canary did not fire or did not run"
"""The ending, instead of that of its code, where a session proves nothing."""
BUDGET_MOST_S = 366 * 86_400.0
_DURATION = re.compile(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakRequest:
    """What the command line asks for. None: as in the session that is resumed; in a new one BUDGET_S, and
    a drawn seed. fail_fast: end after the first run with an open finding. options: words for every
    `inquest run`. named: what names of clients and clusters mean. spark: one process with a Spark session, on
    `master`, judges all runs."""

    results: Path
    matrix: Matrix
    budget_s: float | None = None
    seed: int | None = None
    new: bool = False
    fail_fast: bool = False
    options: Sequence[str] = ()
    named: Named = field(default_factory=Named)
    spark: bool = False
    master: str | None = None


def ending(code: ExitCode, session: SoakSession) -> str:
    """What a session came to: how many runs beside the canary have which result, which findings are open."""
    results = [result for task, result in session.results if task.why != "canary"]
    words = Counter(result.word for result in results)
    parts = [f"{many} {word}" for word, many in words.most_common()]
    bugs = sorted({bug for result in results for bug in result.known_bugs})
    known = f" ({', '.join(bugs)})" if bugs else ""
    new = Counter(found.name for result in results for found in result.open)
    found = f"; of no known bug: {', '.join(f'{name} in {n}' for name, n in new.items())}" if new else ""
    ran = "1 run" if len(results) == 1 else f"{len(results)} runs"
    untested = code == ExitCode.UNKNOWN and not session.tested
    said = "nothing was tested" if untested else ENDINGS[code]
    if code == ExitCode.SILENT and session.void:
        said = VOID
    return f"{ran}: {', '.join(parts) or 'none'}{known}{found}; {said}"


def soak(request: SoakRequest) -> int:
    """Open or resume a session and bring it to its end; the exit code (docs/soak.md).

    Raises: ConfigError; InquestError, where the file of the session cannot be written any more.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(immediate=False))
        judge = judge_if_any(request.master) if request.spark else None
        if judge is not None:
            stack.enter_context(judge)
        performer = runs.Performer(
            results=request.results,
            options=request.options,
            named=request.named,
            interrupts=interrupts,
            judge=judge,
        )
        under_way = open_session(request, performer)
        session = under_way.session
        resumed = ", resumed" if under_way.resumed else ""
        say(
            f"session {session.name}: seed {session.started.seed}, budget "
            f"{session.started.budget_s:.0f} s, canary {session.started.canary}{resumed}"
        )
        try:
            code = under_way.run()
            _summarise(request.results, session)
        except OSError as error:
            raise InquestError(f"the session could not be recorded: {error}") from None
        finally:
            under_way.file.close()
        performer.rebuild()  # once more: no process writes to the session now
        performer.rebuilt()
    say(f"session {session.name}: {ending(ExitCode(code), session)}")
    say(f"index: {request.results / 'index.html'}")
    return code


@dataclass(slots=True, kw_only=True)
class SessionUnderWay:
    """A session that this process performs. file: its open log."""

    request: SoakRequest
    performer: runs.Performer
    session: SoakSession
    file: Appender
    resumed: bool
    _start: float = 0.0
    """When the session would have begun, had it spent its time without a break."""

    def run(self) -> int:
        """Perform runs until the budget is used up; the exit code. The index then lacks the last line.

        Raises: OSError, where the log cannot be written any more.
        """
        self._start = self.performer.monotonic() - self.session.spent_s
        if self.resumed:
            self._pick_up()
        earlier = [one for one in sessions(self.request.results) if one.name < self.session.name]
        repeats = self._usable(scheduler.failing(earlier))
        self.performer.rebuild()
        while not self.performer.stopped and not self._hopeless():
            self.session.spent_s = self.spent_s
            chosen = scheduler.choose(self.session, repeats, self.request.matrix)
            if chosen is None:
                break
            self._one(chosen)
            self.performer.rebuild()
            if self.request.fail_fast and self._open_finding():
                say("an open finding: the session ends here (--fail-fast)")
                break
        if self.performer.stopped:
            self._write(SessionPaused(at=self.performer.moment(), spent_s=self.spent_s))
            return ExitCode.INTERRUPTED
        over = SessionEnded(at=self.performer.moment(), spent_s=self.spent_s, code=0)
        self.session.ended = over  # a session without a canary is void only once it has ended
        self._write(msgspec.structs.replace(over, code=self.session.code))
        return self.session.code

    @property
    def spent_s(self) -> float:
        """Seconds of the budget that are used up."""
        return round(self.performer.monotonic() - self._start, 3)

    def _one(self, chosen: scheduler.Choice) -> None:
        task = chosen.task
        begun = RunBegun(
            at=self.performer.moment(),
            spent_s=self.spent_s,
            number=chosen.number,
            task=task,
            command=self.performer.command(task),
        )
        say(
            f"run {chosen.number} ({task.why}): {task.workload} x {task.nemesis} x {task.preset}, "
            f"seed {task.seed}"
        )
        given_up = scheduler.given_up(self.session, chosen.number)
        self._write(begun)
        self._end(begun, GIVEN_UP if given_up else self.performer.perform(self.session, begun))

    def _end(self, begun: RunBegun, result: RunResult) -> None:
        """Record the result of a run, then remove the files of its folder that are not kept."""
        result = result.on(begun.task)
        at = self.performer.moment()
        self._write(RunEnded(at=at, spent_s=self.spent_s, number=begun.number, outcome=result))
        found = ", ".join(f"{f.name} ({f.disallowed})" for f in result.forbidden)
        why = f": {result.error or found}" if result.error or found else ""
        bugs = f" ({', '.join(result.known_bugs)})" if result.known_bugs else ""
        say(f"run {begun.number}: {result.word}{bugs} in {result.seconds:.0f} s{why}")
        runs.tidy(self.request.results, self.session, begun, result)

    def _open_finding(self) -> bool:
        last = self.session.attempts[-1].outcome
        return last is not None and bool(last.open)

    def _hopeless(self) -> bool:
        last = [attempt.outcome for attempt in self.session.attempts[-ERRORS_MAX:]]
        if len(last) < ERRORS_MAX or not all(o is not None and o.state == "error" for o in last):
            return False
        say(f"{ERRORS_MAX} errors of the harness in a row: the session ends here")
        return True

    def _usable(self, tasks: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those that this version can still perform."""
        usable = []
        for task in tasks:
            try:
                check_run(task, self.request.named)
            except ConfigError as error:
                say(f"run {task.of} cannot be repeated: {error}")
            else:
                usable.append(task)
        return usable

    def _pick_up(self) -> None:
        """Finish what a crash left: reduce the folders of passed runs; of the interrupted run record the
        verdict, if it reached one, or remove its folder."""
        for attempt in self.session.runs:
            if attempt.outcome is not None:
                runs.tidy(self.request.results, self.session, attempt.begun, attempt.outcome)
        now = self.performer.moment()
        last = scheduler.unfinished(self.session)
        broken = last if last is not None and last.outcome is None else None
        spent = self.session.spent_s
        if broken is not None:  # it used up as much of the budget as it can have taken
            gone = timestamp(now) - timestamp(broken.begun.at)
            most = scheduler.expected_s(broken.begun.task, self.session.attempts)
            spent += min(max(gone, 0.0), most)
        self._start = self.performer.monotonic() - spent
        self._write(SessionResumed(at=now, spent_s=spent))
        if broken is not None:
            self._settle(broken)

    def _settle(self, broken: Attempt) -> None:
        begun = broken.begun
        folder = runs.folder_of(owner(self.session.name, begun), self.request.results)
        if folder is not None and not runs.quiet(folder):
            say(f"run {begun.number} still records into {folder.name}: it is left alone")
            return
        verdict = runs.verdict_of(folder)
        for line in runs.release(folder, config_of(begun.task)):
            say(f"left behind by run {begun.number}: {line}")
        if folder is not None and verdict is not None:  # only the line about its end is missing
            seconds = max(Run(folder).verdict.stat().st_mtime - timestamp(begun.at), 0.0)
            log = runs.log_of(self.request.results, self.session, begun.number)
            result = runs.result_of(verdict.exit_code, seconds=seconds, folder=folder, log=log)
            self._end(begun, result)
        elif folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _write(self, event: SessionEvent) -> None:
        self.file.append(event)
        self.session.apply(event)


def open_session(request: SoakRequest, performer: runs.Performer) -> SessionUnderWay:
    """The unfinished session that made a step within the last day, else a new one.

    Raises: ConfigError, where another soak writes it; where its seed, budget or matrix are not those of the
    request; where the budget is too small; or where nothing can be written; OSError, where the disk is full.
    """
    now = performer.moment()
    try:
        with written_into(request.results, "the results folder"):
            opened = None if request.new else _resume(request, now)
            session, file = opened or _create(request, now)
    except BlockingIOError:
        raise ConfigError(
            "another soak is at work in this results folder (--new starts another session)"
        ) from None
    return SessionUnderWay(
        request=request, performer=performer, session=session, file=file, resumed=opened is not None
    )


def _resume(request: SoakRequest, now: str) -> tuple[SoakSession, Appender] | None:
    """The newest session, if it is unfinished and not too old, as its file is once no other soak writes to
    it."""
    found = sessions(request.results)
    if not found or found[-1].ended is not None:
        return None
    if timestamp(now) - timestamp(found[-1].last_at) >= RESUME_S:
        return None
    folder = request.results / FOLDER / found[-1].name
    file = Appender(folder / FILE)
    session = read(folder)
    if session is None or session.ended is not None:
        file.close()
        return None
    started = session.started
    same = {
        "seed": request.seed in (None, started.seed),
        "budget": request.budget_s in (None, started.budget_s),
        "matrix": request.matrix.model_dump(mode="json") == started.matrix,
    }
    if others := [name for name, is_same in same.items() if not is_same]:
        file.close()
        raise ConfigError(
            f"session {session.name} is unfinished and would be resumed, but its "
            f"{' and '.join(others)} differ from the given ones (--new starts another session)"
        )
    return session, file


def _create(request: SoakRequest, now: str) -> tuple[SoakSession, Appender]:
    canary = scheduler.canary_of(request.matrix, sessions(request.results))
    needed = scheduler.expected_s(canary_run(request.matrix, canary, 0), ())
    budget_s = BUDGET_S if request.budget_s is None else request.budget_s
    if budget_s < needed:
        raise ConfigError(f"a budget of {budget_s:.0f} s leaves no room for the canary ({needed:.0f} s)")
    seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
    started = SessionStarted(
        at=now, seed=seed, budget_s=budget_s, canary=canary, matrix=request.matrix.model_dump(mode="json")
    )
    stamp = datetime.fromisoformat(now).strftime("%Y%m%dT%H%M%SZ")
    folder = _new_folder(request.results / FOLDER, stamp)
    file = Appender(folder / FILE, new=True)
    file.append(started)
    return SoakSession(name=folder.name, started=started, last_at=now), file


def _new_folder(parent: Path, name: str) -> Path:
    """A new folder of this name, or with `-2`, `-3`… added where there is one already. Raises: OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    for one in chain([name], (f"{name}-{number}" for number in count(2))):
        with suppress(FileExistsError):
            (parent / one).mkdir()
            return parent / one
    raise AssertionError("numbers do not end")


def budget_seconds(text: str) -> float:
    """Seconds of `90s`, `30m`, `8h`, `1h30m`. Raises: ConfigError."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    seconds = 3600.0 * hours + 60.0 * minutes + rest
    if not 0 < seconds <= BUDGET_MOST_S:
        raise ConfigError(
            f"--budget wants a time such as 30m, 8h or 1h30m, a year at most, got {shown(text)}"
        )
    return seconds


def _summarise(results: Path, session: SoakSession) -> None:
    from harness.nights.github import render
    from harness.report.github import append

    try:
        append(lambda: render(results, session))
    except OSError as error:
        say(f"no step summary: {error}")
