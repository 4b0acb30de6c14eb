"""The command `inquest` as a subprocess, on the cluster in memory."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from core.op import Phase
from history.run_folder import Run
from tests.harness.cli.bad_input import Ended

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240.0
"""A session of `inquest soak` is several runs, each with its check; a busy machine takes its time."""
STARTED: list["Inquest"] = []
"""The commands that this test has started: `conftest.py` ends what a failed test leaves running."""


class Inquest:
    """One invocation. file_limit: most bytes of any file it may write (a full disk). module: what is
    run in place of `inquest`. around: added to the environment."""

    def __init__(
        self,
        *words: str,
        file_limit: int | None = None,
        module: str = "tests.memory",
        around: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        def limit() -> None:
            # A shell that starts the tests behind it has SIGINT ignored, by all that they start too.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env={**os.environ, **around},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=limit,
        )
        STARTED.append(self)

    def wait(self, deadline_s: float = DEADLINE_S) -> Ended:
        """Its end; fails where that takes too long."""
        try:
            out, err = self.process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
            raise AssertionError(f"inquest did not end:\n{out}\n{err}") from None
        return Ended(self.process.returncode, out, err)

    def end(self) -> None:
        """SIGKILL to its process group, if it still runs; its pipes are closed."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        with self.process:
            pass


def inquest(*words: str, file_limit: int | None = None, module: str = "tests.memory") -> Ended:
    """Run a command to its end."""
    return Inquest(*words, file_limit=file_limit, module=module).wait()


def arguments(results: Path, *more: str) -> list[str]:
    """A short run on the cluster in memory, checked without Spark. Whoever waits for a deadline to pass sets
    his own: these are long enough for a busy machine."""
    settings = {
        "verb_deadline_s": 2,
        "recovery_deadline_s": 30,
        "transaction_timeout_s": 2,
        "producers": 2,
        "home_producers": 0,
        "consumers": 2,
    }
    words = ["run", "--results", str(results), "--engine", "process"]
    for option in ("sut memory", "seed 11", "duration 2", "nemesis none"):
        words += f"--{option}".split()
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return [*words, *more]


def the_run(results: Path) -> Run | None:
    """The one run folder of a results folder, once it is there."""
    folders = [p for p in results.glob("2*") if p.is_dir()] if results.is_dir() else []
    return Run(folders[0]) if folders else None


def reached(results: Path, phase: Phase) -> Run | None:
    """The run, once it has entered a phase."""
    run = the_run(results)
    if run is None or not run.events.exists():
        return None
    wanted = '"event":"phase","ns":'
    for line in run.events.read_text().splitlines():
        if wanted in line and line.endswith(f'"phase":{int(phase)}}}'):
            return run
    return None


def in_force(results: Path) -> Run | None:
    """The run, once one of its faults is in force."""
    run = the_run(results)
    return run if run and run.events.exists() and '"event":"fault"' in run.events.read_text() else None


def workers_of(results: Path) -> list[int]:
    """Process ids of workers that write into this results folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"harness.clients.worker_main" in words and any(str(results).encode() in w for w in words):
                found.append(int(entry.name))
    return found


def verdict(run: Run) -> dict[str, Any]:
    """verdict.json."""
    loaded: dict[str, Any] = json.loads(run.verdict.read_text())
    return loaded
