"""One run of a session: its process, its outcome, and what is kept of its folder.

The process has its own session of the operating system, so that Ctrl-C reaches it only through the soak. A
guard kills it when the soak dies, so that a resumed session never meets a run of its past.

A folder belongs to a run if the file `soak` in it says so, and not otherwise: a person may perform the same
run by hand in the same results folder. Nothing without that mark is removed. Of a failing run all files stay,
of a passing one its verdict and its configuration. An exit code counts only together with a verdict that says
the same: a process that ends with 1 and no verdict has found nothing.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import resolve_name
from pathlib import Path
from types import MappingProxyType

import msgspec

from core.config import RunConfig
from core.errors import ExitCode, InquestError, located
from core.programs import environment, program
from core.terminal import say
from harness.judging.process import SOCKET, JudgeProcess, indexed
from harness.nights import page
from harness.nights.session_log import (
    FAILING,
    FOLDER,
    STATES,
    PlannedRun,
    RunBegun,
    RunResult,
    SoakSession,
    State,
    owner,
)
from harness.processes import guard
from harness.processes.child import start, tail
from harness.processes.interrupts import Interrupts
from harness.soak.matrix import config_of
from harness.soak.systems import Named
from harness.systems import backend_of
from history.jsonl import being_written
from history.run_folder import Run
from history.verdict import Verdict

COMMAND: list[str] = program(resolve_name("..cli.main", __package__))
"""How `inquest` is called."""
SLACK_S = 300.0
"""For starting the cluster and for the check, added to all deadlines of a run."""
PATIENCE_S = 120.0
"""After SIGINT a run may heal, seal and check for this long; then SIGKILL ends it."""
POLL_S = 0.1
TAIL_LINES, LINE_MOST = 3, 300
RELEASE_S = 30.0
"""How long a run whose soak died may still write to its folder."""
NOTHING: Mapping[str, str] = MappingProxyType({})
_HIDDEN = ("GITHUB_STEP_SUMMARY",)
"""Variables that are not for single runs: the session writes one summary."""


@dataclass(kw_only=True)
class Performer:
    """What a session does to the world, and tests do not: its runs, the time, the index.

    options: words for every `inquest run`. named: what names of clients and clusters mean. judge: of all
    runs; None = each judges itself.
    """

    results: Path
    options: Sequence[str] = ()
    named: Named = field(default_factory=Named)
    interrupts: Interrupts
    judge: JudgeProcess | None = None
    _building: threading.Thread | None = field(default=None, init=False)

    @property
    def stopped(self) -> bool:
        """A person wants the session to end."""
        return self.interrupts.asked.is_set()

    def command(self, task: PlannedRun) -> list[str]:
        """The command line of a run."""
        words = [*COMMAND, "run", "--workload", task.workload, "--nemesis", task.nemesis]
        words += ["--preset", task.preset, "--seed", str(task.seed)]
        words += ["--results", str(self.results), *self.options]
        for name, value in task.settings.items():
            words += ["--set", f"{name}={msgspec.json.encode(value).decode()}"]
        return words

    def perform(self, session: SoakSession, begun: RunBegun) -> RunResult:
        """Perform a run in its own process, and clear up what it left. Raises: OSError."""
        config = config_of(begun.task)
        log = log_of(self.results, session, begun.number)
        mark = owner(session.name, begun)
        since = time.monotonic()
        words = [*begun.command, "--owner", mark]
        given = {**self.named.variables(begun.task.client, begun.task.cluster)}
        if self.judge is not None:
            self.judge.alive()
            given[SOCKET] = self.judge.socket
        code, late = run(words, log, bound_s(config), self.interrupts, given)
        seconds = round(time.monotonic() - since, 3)
        folder = folder_of(mark, self.results)
        if late or code < 0:
            for line in release(folder, config):
                say(f"left behind by run {begun.number}: {line}")
        result = result_of(code, seconds=seconds, folder=folder, log=log, late=late)
        if self.stopped and result.state == "error":  # it did not get the time; it is repeated
            result = msgspec.structs.replace(result, state="interrupted")
        if not whole(begun.task, result):
            log.unlink(missing_ok=True)
        return result

    def rebuild(self) -> None:
        """Have the index of the results folder made: by the judge, beside the next run; without one here and
        now. An error in it does not end a session; it is reported."""
        self.rebuilt()
        if self.judge is None:
            self._build()
        else:
            self._building = threading.Thread(target=self._build, daemon=True)
            self._building.start()

    def rebuilt(self) -> None:
        """Wait until the index is as the last call of `rebuild` wanted it."""
        if self._building is not None:
            self._building.join()

    def _build(self) -> None:
        try:
            if self.judge is None or not indexed(self.results, self.judge.socket):
                page.build(self.results)
        except InquestError as error:
            say(f"no index: {error}")
        except Exception as error:  # noqa: BLE001 - the runs matter more than the picture of them
            say(f"no index: {located(error)}")

    def monotonic(self) -> float:
        """Seconds."""
        return time.monotonic()

    def moment(self) -> str:
        """Now, as `at` is written."""
        return datetime.now(UTC).isoformat(timespec="milliseconds")


def log_of(results: Path, session: SoakSession, number: int) -> Path:
    """The file with the output of a run; kept for runs whose folder stays whole."""
    return results / FOLDER / session.name / f"{number:04}.log"


def bound_s(config: RunConfig) -> float:
    """Seconds after which a run counts as hung."""
    return (
        config.duration_s
        + config.recovery_deadline_s
        + config.final_reads_s
        + config.transaction_timeout_s
        + 6 * config.verb_deadline_s
        + SLACK_S
    )


def run(
    words: Sequence[str],
    log: Path,
    limit_s: float,
    interrupts: Interrupts,
    given: Mapping[str, str] = NOTHING,
) -> tuple[int, bool]:
    """Run a command to its end: its exit code (negative: a signal), and whether it took too long.

    log: file that gets its output. given: variables for it.

    Raises: OSError, where no process can be started.
    """
    log.unlink(missing_ok=True)
    env = {**{name: value for name, value in environment().items() if name not in _HIDDEN}, **given}
    process = start([*guard.GATE, *words], log=log, lines=False, env=env)
    interrupts.first = interrupts.second = lambda: _interrupt(process)
    try:
        held = guard.kill(process.pid)
        try:
            _open(process)
            if interrupts.asked.is_set():  # while the process was starting
                _interrupt(process)
            return _await(process, limit_s, interrupts)
        finally:
            _kill(process)
            held.dismiss()
    finally:
        _kill(process)


def _open(process: "subprocess.Popen[bytes]") -> None:
    """Let a process through its gate."""
    assert process.stdin is not None
    with suppress(OSError), process.stdin as gate:  # it has ended
        gate.write(b"\n")


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """The first SIGINT lets the run heal, seal and check; the second kills its clients."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)


def _await(process: subprocess.Popen[bytes], limit_s: float, interrupts: Interrupts) -> tuple[int, bool]:
    asked, late, end = False, False, time.monotonic() + limit_s
    while process.poll() is None:
        if not asked and (interrupts.asked.is_set() or time.monotonic() >= end):
            asked, late, end = True, not interrupts.asked.is_set(), time.monotonic() + PATIENCE_S
            if late:
                _interrupt(process)
        elif time.monotonic() >= end:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    return _kill(process), late


def _kill(process: subprocess.Popen[bytes]) -> int:
    """Kill the process with its group, if it still runs; its exit code."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def folder_of(owner: str, results: Path) -> Path | None:
    """The folder of a run (see `session_log.owner`); None: it made none, or has removed it."""
    return next((path for path in sorted(results.glob("*")) if is_of(path, owner)), None)


def is_of(path: Path, owner: str) -> bool:
    """Whether this is the folder of this run, and no link to one."""
    try:
        return not path.is_symlink() and Run(path).owner.read_bytes() == owner.encode()
    except (OSError, ValueError):  # not there; a name that no file can have
        return False


def verdict_of(folder: Path | None) -> Verdict | None:
    """The verdict in a folder; None, where it is missing or damaged."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode(Run(folder).verdict.read_bytes(), type=Verdict)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def result_of(code: int, *, seconds: float, folder: Path | None, log: Path, late: bool = False) -> RunResult:
    """The result of a run whose process ended with `code`. late: the soak ended it, as it took too long."""
    verdict = verdict_of(folder)
    name = folder.name if folder is not None else ""
    error = _error(code, verdict, log, late=late, seconds=seconds)
    state: State = "error" if error else STATES[code]
    if verdict is None or (error and not late):
        return RunResult(state=state, code=code, seconds=seconds, folder=name, error=error)
    return RunResult.of(verdict, state, code=code, seconds=seconds, folder=name, error=error)


def _error(code: int, verdict: Verdict | None, log: Path, *, late: bool, seconds: float) -> str:
    """Why the run counts as an error of the harness, "" = it does not."""
    if late:
        return f"the soak ended it after {seconds:.0f} s: it took too long"
    if code == ExitCode.INTERRUPTED and verdict is None:
        return ""
    if code not in STATES:
        how = f"signal {-code} ended it" if code < 0 else f"it ended with exit code {code}"
        return f"{how}: {_tail(log)}"
    if verdict is None:
        return f"exit code {code} without a verdict: {_tail(log)}"
    if code not in (ExitCode.INTERRUPTED, verdict.exit_code):
        return f"exit code {code}, but its verdict says {verdict.exit_code}: {_tail(log)}"
    return ""


def _tail(log: Path) -> str:
    """The last lines of the output of a run."""
    lines = tail(log).splitlines()
    return " / ".join(line.strip()[:LINE_MOST] for line in lines[-TAIL_LINES:] if line.strip())


def whole(task: PlannedRun, result: RunResult) -> bool:
    """Whether all files of a run stay: it failed, is an error, found something, or is a canary."""
    kept = (*FAILING, "error")
    return task.why == "canary" or result.state in kept or bool(result.forbidden)


def reduce(folder: Path) -> None:
    """Remove all files of a run but its verdict and configuration; none, where it has no verdict. Idempotent.

    The mark of its owner goes last, so that a later call can finish what a crash interrupted.
    """
    if verdict_of(folder) is None:
        return
    run = Run(folder)
    for path in folder.iterdir():
        if path in (run.verdict, run.config, run.owner):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    run.owner.unlink(missing_ok=True)


def tidy(results: Path, session: SoakSession, begun: RunBegun, result: RunResult) -> None:
    """Reduce the folder of a run that passed, if the folder is that run's; idempotent."""
    name = result.folder
    if not name or Path(name).name != name or whole(begun.task, result):
        return
    if is_of(results / name, owner(session.name, begun)):
        reduce(results / name)


def quiet(folder: Path) -> bool:
    """Wait until no process records into a folder; false, where one still does after `RELEASE_S`."""
    deadline = time.monotonic() + RELEASE_S
    while being_written(Run(folder).events):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True


def release(folder: Path | None, config: RunConfig) -> list[str]:
    """Remove what an ended run may have left in the Docker engine; returns a sentence for each thing that
    could not be removed."""
    return [] if folder is None else backend_of(config).release(folder.name, config)
