"""The systems under test: one registry, and nothing else that knows their names.

    SYSTEMS["kafka"].record(plan, run, display)

To add a system: a `Cluster` with an endpoint, and one entry here (a test may put one in at run time).
"""

import importlib
import platform
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from core.client_settings import ClientLibrary
from core.cluster import ServedCluster, capabilities_of
from core.config import RunConfig
from core.errors import ConfigError
from core.op import Phase
from core.runtime import run_blocking
from harness.clients.pool import ClientPool
from harness.clients.worker_process import WorkerProcess
from harness.processes.interrupts import Interrupts
from harness.processes.real_time import RealRuntime
from harness.run.planning import RunPlan
from harness.run.program import RunProgram
from harness.run.progress import Display
from history import jsonl
from history.events import Recorder, RunStarted
from history.run_folder import Run, write_atomically
from history.seal import seal

Early = AbstractContextManager[Callable[[], str]]
"""Gives a function that says why the phase of faults is to end before its time, "" = it is not."""
NEVER: Final[Early] = nullcontext(str)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One kind of system under test. A path is `module:name`, imported when it is needed; `.module` begins
    in `harness`.

    doc: one line for people. title: what a run is made on, in two to six words.
    cluster: path of what makes a cluster in real time, called with config and run folder; contained: of what
    makes one in containers, where a config may ask for them. kind, contained_kind: paths of the types of
    these clusters, "" = `cluster` is the type; their capability protocols say which nemeses it can have.
    refuses: path of the function for `refusal`. leftovers: path of the function for `release`.
    clients: path of the `ClientLibrary` that loads it: its defaults, and which settings it honours.
    repeatable: runs in virtual time: a config and a schedule make the same journals, to the byte; such runs
    have a trace, and can be replayed and shrunk.
    """

    doc: str
    title: Callable[[RunConfig], str]
    cluster: str
    contained: str = ""
    kind: str = ""
    contained_kind: str = ""
    refuses: str = ""
    leftovers: str = ""
    clients: str = ".clients.librdkafka.settings:LIBRDKAFKA"
    repeatable: bool = False

    def capabilities(self, config: RunConfig) -> frozenset[type]:
        """The capability protocols of the cluster that a config asks for."""
        found = self.contained_kind if self._in_containers(config) else self.kind
        return capabilities_of(_load(found or self.cluster))

    def _made(self, config: RunConfig) -> Callable[[RunConfig, Path], ServedCluster]:
        found: Callable[[RunConfig, Path], ServedCluster]
        found = _load(self.contained if self._in_containers(config) else self.cluster)
        return found

    def _in_containers(self, config: RunConfig) -> bool:
        return bool(self.contained) and config.model is not None and config.model.containers

    def client_library(self) -> ClientLibrary:
        """The clients that load it."""
        found: ClientLibrary = _load(self.clients)
        return found

    def refusal(self, config: RunConfig) -> str:
        """Which setting it cannot honour, and what to do; "" = it honours all."""
        return str(_load(self.refuses)(config)) if self.refuses else ""

    def release(self, run: str, config: RunConfig) -> list[str]:
        """Remove what a run of this name may have left behind; what stayed, in sentences."""
        if not self.leftovers or (self.contained and not self._in_containers(config)):
            return []
        return list(_load(self.leftovers)(run))

    def record(self, plan: RunPlan, run: Run, display: Display, *, ended_early: Early = NEVER) -> bool:
        """Make the run in its new folder; whether the user interrupted it. What judges it seals it.

        ended_early: for the time of the run, what `RunProgram` asks; a repeatable system does not.

        Raises: ConfigError, where clients refuse their settings; ClusterError; OSError; KeyboardInterrupt,
        before anything was recorded. In each case nothing is left running, and a folder in which nothing
        was recorded is removed.
        """
        if self.repeatable:
            return _simulate(plan, run, display)
        return self._record(plan, run, display, ended_early)

    def _record(self, plan: RunPlan, run: Run, display: Display, ended_early: Early) -> bool:
        interrupts = Interrupts()
        program: RunProgram | None = None
        try:
            with closing(Recorder(run.events)) as recorder:
                program = self._program(plan, run, display, interrupts, recorder)
                with interrupts, ended_early as program.ended_early:
                    run_blocking(program.run())
        except BaseException as error:
            # Nothing was recorded, or nothing that is worth it: the clients refused their settings.
            if program is None or program.phase is Phase.SETUP or isinstance(error, ConfigError):
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        return interrupts.asked.is_set()

    def _program(
        self, plan: RunPlan, run: Run, display: Display, interrupts: Interrupts, recorder: Recorder
    ) -> RunProgram:
        cluster: ServedCluster = self._made(plan.config)(plan.config, run.folder)
        endpoint = cluster.endpoint()
        runtime = RealRuntime(interrupts)
        clients = ClientPool(plan.names.clients, lambda slot: WorkerProcess(run, slot, endpoint), runtime)
        interrupts.second = clients.strike
        write_atomically(run.schedule, jsonl.encode(plan.steps))
        wall = datetime.now(UTC).isoformat(timespec="milliseconds")
        started = RunStarted(ns=runtime.now_ns(), wall=wall, run=run.name, versions=versions(plan.config))
        logs, evidence = run.cluster, run.evidence
        return RunProgram(
            plan, cluster, clients, runtime, recorder, display, started, logs=logs, evidence=evidence
        )


def _simulate(plan: RunPlan, run: Run, display: Display) -> bool:
    from harness.modelled.virtual.run_folder import record

    display.status("simulating")
    try:
        done = record(plan.config, plan.steps, run)
        seal(run)
    except BaseException:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    display.say(f"{done.simulated_s:.1f} s simulated")
    for one in done.broken:
        display.say(f"the model broke an invariant: {one.name}: {one.text}")
    for weak in done.weak:
        display.say(f"known weakness {weak.name}: {weak.text}")
    return False


def _model(config: RunConfig) -> str:
    assert config.simulated is not None
    era, mutant = config.simulated.era, config.simulated.mutant
    return f"model, era {era}" + (f", mutant {mutant}" if mutant else "")


def _served(config: RunConfig) -> str:
    assert config.model is not None
    era, mutant = config.model.era, config.model.mutant
    return f"model's brokers, era {era}" + (f", mutant {mutant}" if mutant else "")


SYSTEMS: dict[str, System] = {
    "kafka": System(
        doc="real Kafka brokers in Docker containers",
        title=lambda config: f"Kafka {config.kafka.version if config.kafka else ''}",
        cluster=".kafka.kraft:kafka_cluster",
        kind=".containers.cluster:ContainerCluster",
        refuses=".kafka.broker_settings:refusal",
        leftovers=".containers.reaper:reap",
    ),
    "model": System(
        doc="Kafka's reference model behind Kafka's own protocol, as processes, or as containers",
        title=_served,
        cluster=".modelled.real.cluster:ModelCluster",
        contained=".modelled.real.deployment:model_containers",
        contained_kind=".containers.cluster:ContainerCluster",
        refuses=".modelled.real.cluster:refusal",
        leftovers=".containers.reaper:reap",
    ),
    "simulated": System(
        doc="Kafka's reference model in virtual time, in one process; no Docker",
        title=_model,
        cluster=".modelled.virtual.cluster:SimulatedCluster",
        refuses=".modelled.virtual.run_folder:refusal",
        clients=".modelled.virtual.client_runtime:MODELLED",
        repeatable=True,
    ),
}


def system_of(config: RunConfig) -> System:
    """The system that a config names. Raises: ConfigError."""
    if config.sut not in SYSTEMS:
        raise ConfigError(f"unknown system under test {config.sut!r}; known: {', '.join(SYSTEMS)}")
    return SYSTEMS[config.sut]


def versions(config: RunConfig) -> dict[str, str]:
    """Versions of everything that a finding may depend on."""
    packages = ("kafka-inquest", "confluent-kafka", "pyspark", "pyarrow", "numpy")
    found = {name: version(name) for name in packages}
    return {"system": system_of(config).title(config), "python": platform.python_version(), **found}


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module, __package__), name)
