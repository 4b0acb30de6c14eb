"""The systems under test: one registry, and nothing else that knows their names.

    SYSTEMS["kafka"].record(plan, run, display)

To add a system: a `Cluster` with an endpoint, and one entry here (a test may put one in at run time).
"""

import importlib
import platform
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from core.client_settings import ClientLibrary
from core.cluster import ServedCluster
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
from history.events import Recorder
from history.run_folder import Run, write_atomically
from history.seal import seal


class System(ABC):
    """One kind of system under test.

    doc: one line for people. repeatable: a config and a schedule make the same journals, to the byte; such
    runs have a trace, and can be replayed and shrunk.
    """

    doc: str
    repeatable: bool = False

    @abstractmethod
    def cluster_type(self) -> type:
        """The type of its clusters, whose capability protocols say which nemeses it can have."""

    @abstractmethod
    def refusal(self, config: RunConfig) -> str:
        """Which setting it cannot honour, and what to do; "" = it honours all."""

    @abstractmethod
    def client_library(self) -> ClientLibrary:
        """The clients that load it: their defaults, and which settings they honour."""

    @abstractmethod
    def title(self, config: RunConfig) -> str:
        """What a run is made on, in two to six words."""

    @abstractmethod
    def record(self, plan: RunPlan, run: Run, display: Display) -> bool:
        """Make the run, and seal it into its new folder; whether the user interrupted it.

        Raises: ConfigError, where clients refuse their settings; ClusterError; OSError; KeyboardInterrupt,
        before anything was recorded. In each case nothing is left running, and a folder in which nothing
        was recorded is removed.
        """

    def release(self, run: str) -> list[str]:
        """Remove what a run of this name may have left behind; what stayed, in sentences."""
        return []


@dataclass(frozen=True, slots=True)
class RealSystem(System):
    """A system in real time, loaded by worker processes.

    cluster: `module:class`, imported when it is needed, called as `class(config, run_folder)`. refuses,
    leftovers: `module:function`, see `refusal` and `release`.
    """

    doc: str
    cluster: str
    name: Callable[[RunConfig], str]
    refuses: str = ""
    leftovers: str = ""

    def cluster_type(self) -> type:
        """See `System`."""
        found = _load(self.cluster)
        assert isinstance(found, type)
        return found

    def refusal(self, config: RunConfig) -> str:
        """See `System`."""
        if not self.refuses:
            return ""
        refuse: Callable[[RunConfig], str] = _load(self.refuses)
        return refuse(config)

    def client_library(self) -> ClientLibrary:
        """See `System`."""
        from harness.kafka.client.settings import LIBRDKAFKA

        return LIBRDKAFKA

    def title(self, config: RunConfig) -> str:
        """See `System`."""
        return self.name(config)

    def record(self, plan: RunPlan, run: Run, display: Display) -> bool:
        """See `System`."""
        interrupts = Interrupts()
        try:
            program, recorder = self._prepare(plan, run, display, interrupts)
        except BaseException:
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
        try:
            with interrupts:
                run_blocking(program.run())
                display.status("sealing")
                seal(run)
        except BaseException as error:
            # Nothing was recorded, or nothing that is worth it: the clients refused their settings.
            if program.phase is Phase.SETUP or isinstance(error, ConfigError):
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        finally:
            recorder.close()
        return interrupts.asked.is_set()

    def _prepare(
        self, plan: RunPlan, run: Run, display: Display, interrupts: Interrupts
    ) -> tuple[RunProgram, Recorder]:
        cluster: ServedCluster = self.cluster_type()(plan.config, run.folder)
        endpoint = cluster.endpoint()
        runtime = RealRuntime(interrupts)
        clients = ClientPool(plan.names.clients, lambda slot: WorkerProcess(run, slot, endpoint), runtime)
        interrupts.second = clients.strike
        write_atomically(run.schedule, jsonl.encode(plan.steps))
        recorder = Recorder(run.events)
        program = RunProgram(
            plan,
            cluster,
            clients,
            runtime,
            recorder,
            display,
            name=run.name,
            versions=versions(plan.config),
            wall=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"),
            logs=run.cluster,
        )
        return program, recorder

    def release(self, run: str) -> list[str]:
        """See `System`."""
        if not self.leftovers:
            return []
        remove: Callable[[str], list[str]] = _load(self.leftovers)
        return remove(run)


class SimulatedSystem(System):
    """The reference model in virtual time, in this process."""

    doc = "Kafka's reference model in virtual time, in one process; no Docker"
    repeatable = True

    def cluster_type(self) -> type:
        """See `System`."""
        from harness.simulation.cluster import SimulatedCluster

        return SimulatedCluster

    def refusal(self, config: RunConfig) -> str:
        """See `System`."""
        from harness.simulation.run_folder import refusal

        return refusal(config)

    def client_library(self) -> ClientLibrary:
        """See `System`."""
        from harness.simulation.client_runtime import MODELLED

        return MODELLED

    def title(self, config: RunConfig) -> str:
        """See `System`."""
        assert config.simulated is not None
        era, mutant = config.simulated.era, config.simulated.mutant
        return f"model, era {era}" + (f", mutant {mutant}" if mutant else "")

    def record(self, plan: RunPlan, run: Run, display: Display) -> bool:
        """See `System`."""
        from harness.simulation.run_folder import record

        display.status("simulating")
        try:
            done = record(plan.config, plan.steps, run)
            seal(run)
        except BaseException:
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
        display.say(f"{done.simulated_s:.1f} s simulated")
        return False


SYSTEMS: dict[str, System] = {
    "kafka": RealSystem(
        doc="real Kafka brokers in Docker containers",
        cluster="harness.kafka.cluster:KafkaCluster",
        name=lambda config: f"Kafka {config.kafka.version if config.kafka else ''}",
        refuses="harness.kafka.containers.jars:refusal",
        leftovers="harness.kafka.containers.reaper:reap",
    ),
    "simulated": SimulatedSystem(),
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
    return getattr(importlib.import_module(module), name)
