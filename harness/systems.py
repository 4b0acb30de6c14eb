"""Runs of the systems under test: what the entries of `core.systems.SYSTEMS` name, found and used.

record(plan, run, display)
"""

import pkgutil
import platform
import shutil
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import resolve_name

import msgspec

from core.config import RunConfig
from core.errors import ConfigError
from core.known_names import unknown
from core.op import Phase
from core.runtime import run_blocking
from core.systems import SYSTEMS, System, runnable
from harness.clients.command.trial import library
from harness.clients.database import store_of
from harness.clients.pool import ClientPool
from harness.clients.registry import ClientKind, clients_of
from harness.clients.worker_process import WorkerProcess
from harness.processes.interrupts import Interrupts
from harness.processes.real_time import RealRuntime
from harness.run.backend import Backend
from harness.run.guide import Guide
from harness.run.planning import RunPlan
from harness.run.program import RunProgram
from harness.run.progress import Display
from history import jsonl
from history.events import Event, Recorder, RunStarted
from history.evidence import evidence_taken
from history.run_folder import Run, write_atomically
from history.seal import journals_listed


def system_of(config: RunConfig) -> System:
    """The system that a config names. Raises: ConfigError, where no run can have it."""
    if config.sut not in runnable():
        raise ConfigError(unknown("unknown system under test", config.sut, runnable()))
    return SYSTEMS[config.sut]


def backend_of(config: RunConfig) -> Backend:
    """The system that a config names, as the harness makes it. Raises: ConfigError."""
    found: Backend = pkgutil.resolve_name(resolve_name(system_of(config).backend, __package__))
    return found


def client_kind(config: RunConfig) -> ClientKind:
    """The load clients of a run. Raises: ConfigError, where its system cannot have those that it asks for."""
    system = system_of(config)
    kind = clients_of(config, system.clients)
    if system.repeatable and config.clients:
        raise ConfigError(f"clients: the system {config.sut} has its own, within it")
    if not system.repeatable and not kind.session:
        raise ConfigError(
            f"clients {config.clients}: they are not processes, and sut={config.sut} needs such"
        )
    return kind


def record(plan: RunPlan, run: Run, display: Display, *, guide: Guide | None = None) -> bool:
    """Make the run in its new folder; whether the user interrupted it. A backend seals what it makes
    in virtual time; what judges another run seals that.

    guide: see `RunProgram`; a repeatable system asks none.

    Raises: ConfigError, where clients refuse their settings; ClusterError; OSError; KeyboardInterrupt,
    before anything was recorded. In each case nothing is left running, and a folder in which nothing
    was recorded is removed.
    """
    backend = backend_of(plan.config)
    if backend.record is None:
        return _record(plan, run, display, guide or Guide())
    display.status("simulating")
    try:
        backend.record(plan, run, display)
    except BaseException:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    return False


def _record(plan: RunPlan, run: Run, display: Display, guide: Guide) -> bool:
    interrupts = Interrupts()
    program: RunProgram | None = None
    try:
        with closing(Recorder(run.events)) as recorder:
            program = _program(plan, run, display, interrupts, recorder, guide)
            with interrupts, guide:
                run_blocking(program.run())
            ns = program.runtime.now_ns()
            listed: list[Event] = [journals_listed(run, ns), *evidence_taken(run.evidence, ns)]
            for event in listed:
                recorder.write(event)
    except BaseException as error:
        # Nothing was recorded, or nothing that is worth it: the clients refused their settings.
        if program is None or program.phase is Phase.SETUP or isinstance(error, ConfigError):
            shutil.rmtree(run.folder, ignore_errors=True)
        raise
    return interrupts.asked.is_set()


def _program(
    plan: RunPlan, run: Run, display: Display, interrupts: Interrupts, recorder: Recorder, guide: Guide
) -> RunProgram:
    backend = backend_of(plan.config)
    assert backend.cluster is not None
    cluster = backend.cluster(plan.config, run.folder)

    def launched(slot: int) -> WorkerProcess:
        endpoint = cluster.endpoint()
        if not endpoint.factory:
            endpoint = msgspec.structs.replace(endpoint, factory=client_kind(plan.config).factory)
        return WorkerProcess(run, slot, endpoint)

    runtime = RealRuntime(interrupts)
    clients = ClientPool(plan.names.clients, launched, runtime)
    interrupts.second = clients.strike
    write_atomically(run.schedule, jsonl.encode(plan.steps))
    wall = datetime.now(UTC).isoformat(timespec="milliseconds")
    started = RunStarted(ns=runtime.now_ns(), wall=wall, run=run.name, versions=versions(plan.config))
    return RunProgram(
        plan, cluster, clients, runtime, recorder, display, started,
        logs=run.cluster, evidence=run.evidence, database=store_of(plan.config, run),
        guide=guide,
    )  # fmt: skip


def versions(config: RunConfig) -> dict[str, str]:
    """Versions of everything that a finding may depend on."""
    packages = ("kafka-inquest", "confluent-kafka", "pyspark", "pyarrow", "numpy")
    found = {name: version(name) for name in packages}
    client = {"client": library()} if config.clients == "command" and library() else {}
    return {"system": config.title, "python": platform.python_version(), **found, **client}
