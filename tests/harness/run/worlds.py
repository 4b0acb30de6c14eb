"""Two worlds for the run program: real time with the cluster in memory, and virtual time with the model.

A test that asks for a `world` (a whole run) or a `time_` (a runtime) runs in both.
"""

import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from core.config import RunConfig, run_config
from core.op import Phase
from core.runtime import Runtime, run_blocking
from core.systems import SYSTEMS
from harness.clients.pool import ClientPool
from harness.clients.worker_process import WorkerProcess
from harness.compose import plan
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.scheduler import Scheduler, VirtualRuntime
from harness.modelled.virtual.worker_task import Lines, WorkerTask
from harness.processes.interrupts import Interrupts
from harness.processes.real_time import RealRuntime
from harness.run.guide import Guide
from harness.run.program import RunProgram
from harness.run.progress import silent
from history import events as ev
from history import journal as j
from history.run_folder import Run
from tests.memory.cluster import MemoryCluster
from tests.memory.system import MEMORY

T = TypeVar("T")

SMALL: dict[str, Any] = {
    "seed": 3,
    "duration_s": 1,
    "partitions": 2,
    "producers": 1,
    "home_producers": 0,
    "consumers": 1,
    "rate": 40,
    "nemesis": "none",
    "verb_deadline_s": 2,
    "recovery_deadline_s": 20,
    "transaction_timeout_s": 1,
    "final_deadline_s": 20,
}


class Ended(Guide):
    """The phase of faults ends at once. why: it does."""

    def __init__(self, why: str) -> None:
        self.why = why

    def over(self, in_force: Sequence[str]) -> str:
        return self.why


@dataclass
class Watched:
    """Events in memory; `on` is called after each, from whichever thread wrote it."""

    on: Callable[[ev.Event], None]
    events: list[ev.Event] = field(default_factory=list)
    broken: str = ""

    def write(self, event: ev.Event) -> None:
        self.events.append(event)
        self.on(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def phases(self) -> list[Phase]:
        return [event.phase for event in self.of(ev.PhaseStarted)]


class Time(Protocol):
    """A runtime, and how a test waits in it."""

    runtime: Runtime

    def wait(self, work: Coroutine[object, None, T]) -> T:
        """The result of one coroutine."""


class RealTime:
    """Threads and the wall clock."""

    def __init__(self) -> None:
        self.runtime = RealRuntime()

    def wait(self, work: Coroutine[object, None, T]) -> T:
        return run_blocking(work)


class VirtualTime:
    """The scheduler."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.runtime = VirtualRuntime(self.scheduler)

    def wait(self, work: Coroutine[object, None, T]) -> T:
        done = self.scheduler.spawn(work)
        assert self.scheduler.run(done, limit=self.scheduler.now + 10**9)
        result: Any = done.value
        return cast("T", result)


TIMES: dict[str, type[RealTime] | type[VirtualTime]] = {"real": RealTime, "virtual": VirtualTime}


class _World:
    """One run: `begin` builds everything, `run` makes it.

    on: called after each event, from whichever thread wrote it. guide: see `RunProgram`.
    """

    sut = ""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.run_folder = Run(tmp_path / "run")
        self.on: Callable[[ev.Event], None] = lambda _: None
        self.guide = Guide()
        self.recorder = Watched(lambda event: self.on(event))

    def config(self, **settings: Any) -> RunConfig:
        return run_config({**SMALL, "sut": self.sut, **settings})

    def program(self, config: RunConfig, stable_s: float) -> RunProgram:
        world: Any = self
        return RunProgram(
            plan(config),
            world.cluster,
            world.clients,
            world.runtime,
            self.recorder,
            silent(),
            ev.RunStarted(ns=0, wall="", run="run", versions={}),
            logs=self.run_folder.cluster,
            evidence=self.run_folder.evidence,
            stable_s=stable_s,
            guide=self.guide,
        )


class RealWorld(_World):
    """Threads, worker processes, the cluster in memory."""

    sut = "memory"

    def begin(self, **settings: Any) -> "RealWorld":
        self._config = self.config(**settings)
        for folder in (self.run_folder.journal, self.run_folder.cluster):
            folder.mkdir(parents=True)
        self.run_folder.config.write_text(self._config.model_dump_json())
        self.interrupts = Interrupts()
        self.runtime = RealRuntime(self.interrupts)
        self.cluster = MemoryCluster(self._config, self.run_folder.folder)
        endpoint = self.cluster.endpoint()
        self.clients = ClientPool(
            plan(self._config).names.clients,
            lambda slot: WorkerProcess(self.run_folder, slot, endpoint),
            self.runtime,
        )
        return self

    def run(self, *, stable_s: float = 0.3) -> list[ev.Event]:
        run_blocking(self.program(self._config, stable_s).run())
        return self.recorder.events

    def interrupt(self) -> None:
        self.interrupts.asked.set()

    def kill_client(self, slot: int) -> None:
        handle = self.clients.handles[slot]
        assert isinstance(handle, WorkerProcess)
        handle.strike()

    def journals(self) -> dict[int, list[j.Line]]:
        return {int(path.stem): j.read(path) for path in self.run_folder.journal.glob("*.jsonl")}


class VirtualWorld(_World):
    """The scheduler, tasks, the model."""

    sut = "simulated"

    def begin(self, **settings: Any) -> "VirtualWorld":
        self._config = self.config(**settings)
        self.scheduler = Scheduler()
        self.runtime = VirtualRuntime(self.scheduler)
        self.cluster = SimulatedCluster(self._config, self.scheduler)
        self._lines: dict[int, Lines[j.Line]] = {}
        self.clients = ClientPool(
            plan(self._config).names.clients,
            lambda slot: WorkerTask("run", slot, self._config, self.runtime, self.cluster, self._lines),
            self.runtime,
        )
        return self

    def run(self, *, stable_s: float = 0.3) -> list[ev.Event]:
        done = self.scheduler.spawn(self.program(self._config, stable_s).run())
        assert self.scheduler.run(done, limit=10**9)
        return self.recorder.events

    def interrupt(self) -> None:
        self.runtime.interrupted = True

    def kill_client(self, slot: int) -> None:
        handle = self.clients.handles[slot]
        handle.strike()
        assert handle.ended == -signal.SIGKILL

    def journals(self) -> dict[int, list[j.Line]]:
        return {process: journal.lines for process, journal in self._lines.items()}


WORLDS: dict[str, type[RealWorld] | type[VirtualWorld]] = {"real": RealWorld, "virtual": VirtualWorld}


def register_memory() -> None:
    """The cluster in memory as system `memory`, as `python -m tests.memory` does."""
    SYSTEMS.setdefault("memory", MEMORY)
