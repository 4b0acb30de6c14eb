"""Run folders after their runs: which one it was, what came of it, what is kept.

A folder is known by the file in it that names the night, the run and when it was begun, and by nothing
else: a person may make the same run by hand in the same results folder. Without that mark nothing is
removed. A failing run is kept whole; of a passing one its verdict and its configuration are. An exit
code counts only together with a verdict that says the same: a process that dies with 1 has found nothing.

Not here: making runs (`launch`), the night's file (`harness.night`).
"""

import shutil
import time
from pathlib import Path

import msgspec

from harness.config import RunConfig
from harness.night import FAILING, STATES, Found, Outcome, State, Task
from harness.recorder import recording
from harness.store import Run
from harness.verdict import Verdict

TAIL_LINES, LINE_MOST = 3, 300
RELEASE_S = 30.0


def folder_of(owner: str, results: Path) -> Path | None:
    """The folder that a run made (owner: `night.owner`). None: it made none, or has removed it."""
    if not results.is_dir():
        return None
    for path in sorted(results.iterdir()):
        if is_of(path, owner):
            return path
    return None


def is_of(path: Path, owner: str) -> bool:
    """Whether this is a folder, no link to one, and made for this run."""
    try:
        return not path.is_symlink() and Run(path).owner.read_bytes() == owner.encode()
    except (OSError, ValueError):  # not there; a name that no file can have
        return False


def verdict_of(folder: Path | None) -> Verdict | None:
    """The verdict in a folder, None where there is none that can be read."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode(Run(folder).verdict.read_bytes(), type=Verdict)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def outcome(
    code: int, *, seconds: float, folder: Path | None, log: Path, late: bool = False
) -> Outcome:
    """What came of a run whose process ended with `code`; late: it was ended for taking too long."""
    verdict = verdict_of(folder)
    name = folder.name if folder is not None else ""
    error = _error(code, verdict, log, late=late, seconds=seconds)
    if verdict is None or (error and not late):
        state: State = "error" if error else "interrupted"
        return Outcome(state=state, code=code, seconds=seconds, folder=name, error=error)
    return Outcome(
        state="error" if error else STATES[code],
        code=code,
        seconds=seconds,
        folder=name,
        judged=True,
        summary=verdict.summary,
        error=error,
        anomalies=[
            Found(name=cls, count=a.count, disallowed=a.disallowed, known_bug=a.known_bug)
            for cls, a in verdict.anomalies.items()
        ],
        available=verdict.liveness.available,
        recovery_s=verdict.recovery_s,
        fired=all(verdict.expect.values()) if verdict.expect and not error else None,
    )


def _error(code: int, verdict: Verdict | None, log: Path, *, late: bool, seconds: float) -> str:
    """Why this is an error of the harness, "" = it is none."""
    if late:
        return f"it took longer than {seconds:.0f} s, and was ended"
    if code == 130 and verdict is None:
        return ""
    if code not in STATES:
        how = f"signal {-code} ended it" if code < 0 else f"it ended with exit code {code}"
        return f"{how}: {_tail(log)}"
    if verdict is None:
        return f"exit code {code} without a verdict: {_tail(log)}"
    if code not in (130, verdict.exit_code):
        return f"exit code {code}, but its verdict says {verdict.exit_code}: {_tail(log)}"
    return ""


def _tail(log: Path) -> str:
    """The last words of a run."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return " / ".join(line.strip()[:LINE_MOST] for line in lines[-TAIL_LINES:] if line.strip())


def whole(task: Task, result: Outcome) -> bool:
    """Whether all of a run is kept: it failed, it is an error, it found something, or it is a canary."""
    kept = (*FAILING, "error")
    return task.why == "canary" or result.state in kept or bool(result.forbidden)


def reduce(folder: Path) -> None:
    """Leave verdict and configuration of a run only; idempotent. Without a verdict nothing is removed.

    The mark of its owner goes last, so that what a crash broke off can be finished.
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


def quiet(folder: Path) -> bool:
    """Wait until nobody records into a folder any more; whether it came to that in time."""
    deadline = time.monotonic() + RELEASE_S
    while recording(Run(folder).events):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True


def discard(folder: Path) -> None:
    """Remove the folder of a run that a crash broke off, unless somebody still records into it."""
    if quiet(folder):
        shutil.rmtree(folder, ignore_errors=True)


def release(folder: Path | None, config: RunConfig) -> list[str]:
    """Remove what an ended run may have left in the Docker engine; what stayed, as sentences."""
    if folder is None or config.sut != "kafka":
        return []
    from harness.cluster.reaper import reap

    return reap(folder.name)
