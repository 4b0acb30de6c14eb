"""Composition root: a config → a recorded and sealed run folder.

The only module that knows all registries: it looks names up, refuses what cannot work before
anything is started, builds the cluster, hands everything to the interpreter and seals.

Not here: the phases (`harness.interpreter`), checking and reporting (`harness.cli` calls them).
"""

import importlib
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

import nemesis as nemeses
from harness import simulated
from harness.cluster import Cluster, Linked
from harness.config import ConfigError, RunConfig
from harness.interpreter import Interpreter, Load
from harness.op import Phase
from harness.planning import BoundNemesis, names_of, slots_of
from harness.progress import Display
from harness.recorder import Interrupts, Recorder
from harness.seal import seal
from harness.session import drive
from harness.store import OWNER, RESULTS, Run, write_atomically
from workloads import WORKLOADS, Workload

SYSTEMS: dict[str, str] = {"kafka": "harness.cluster.kafka:KafkaCluster"}
"""Systems under test in real time: name → `module:factory`, called as `factory(config, run_dir) ->
Cluster`. The simulated one has no clock of this machine and is run by `harness.simulated`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run that was recorded and sealed. `interrupted`: the user asked for its end; where that came
    after the final reads, the recording is whole all the same."""

    run: Run
    interrupted: bool


def plan(config: RunConfig) -> tuple[Workload, tuple[nemeses.Step, ...]]:
    """The workload and the planned faults of a config.

    Raises: ConfigError, where a name is unknown (the known ones are listed), or a setting would be
    without effect.
    """
    if config.workload not in WORKLOADS:
        raise ConfigError(f"unknown workload {config.workload!r}; known: {', '.join(WORKLOADS)}")
    known = (*SYSTEMS, simulated.SIMULATED)
    if config.sut not in known:
        raise ConfigError(f"unknown system under test {config.sut!r}; known: {', '.join(known)}")
    if config.commit != "transaction" and config.workload != "copier":
        raise ConfigError(
            f"commit {config.commit!r} is a setting of the workload copier; "
            f"it is without effect in {config.workload}"
        )
    workload = WORKLOADS[config.workload]
    steps = nemeses.plan(config.nemesis, config, names_of(workload, config))
    simulated.check(config, steps)
    return workload, steps


def record(config: RunConfig, *, results: Path = RESULTS, display: Display) -> Recorded:
    """Make one run: start the system, load it, hurt it, read it back, seal the history.

    Raises: ConfigError, ClusterError, OSError (results folder), KeyboardInterrupt (before anything
    was recorded). In each case nothing is left running.
    """
    workload, steps = plan(config)
    run = create_folder(config, results)
    if config.sut == simulated.SIMULATED:
        return _simulated(config, run, steps, display)
    try:
        interpreter = _prepare(config, run, workload, steps, display)
    except BaseException:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    try:
        with interpreter.interrupts:
            interpreter.execute()
            display.status("sealing")
            seal(run)
    except BaseException as error:
        # Nothing was recorded, or nothing that is worth it: the clients refused their settings.
        if interpreter.phase is Phase.SETUP or isinstance(error, ConfigError):
            shutil.rmtree(run.folder, ignore_errors=True)
        raise
    finally:
        interpreter.recorder.close()
        display.close()
    point_latest(run)
    return Recorded(run=run, interrupted=interpreter.interrupts.asked.is_set())


def record_shrunk(
    config: RunConfig,
    steps: Sequence[nemeses.Step],
    shrunk: msgspec.Struct,
    results: Path,
    display: Display,
) -> Run:
    """A simulated run with these faults, not those that its config plans, and what it was shrunk from.

    Raises: ConfigError, OSError.
    """
    run = create_folder(config, results)
    write_atomically(run.shrunk, msgspec.json.encode(shrunk))
    return _simulated(config, run, steps, display).run


def _simulated(
    config: RunConfig, run: Run, steps: Sequence[nemeses.Step], display: Display
) -> Recorded:
    """Simulate into a new run folder; it is removed where that fails."""
    display.status("simulating")
    try:
        done = simulated.record(config, steps, run)
        seal(run)
    except BaseException:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    finally:
        display.close()
    display.say(f"{done.simulated_s:.1f} s simulated")
    point_latest(run)
    return Recorded(run=run, interrupted=False)


def _prepare(
    config: RunConfig,
    run: Run,
    workload: Workload,
    steps: tuple[nemeses.Step, ...],
    display: Display,
) -> Interpreter:
    cluster: Cluster = _load(SYSTEMS[config.sut])(config, run.folder)
    if lacking := nemeses.missing(steps, cluster):
        raise ConfigError(f"nemesis {config.nemesis!r} needs a system that is {', '.join(lacking)}")
    if Linked in nemeses.needs(steps) and isinstance(cluster, Linked):
        drive(cluster.use_proxies())
    write_atomically(run.schedule, b"".join(msgspec.json.encode(step) + b"\n" for step in steps))
    return Interpreter(
        run=run,
        config=config,
        cluster=cluster,
        load=_load_of(workload, config),
        nemesis=BoundNemesis(steps, names_of(workload, config)),
        recorder=Recorder(run.events),
        interrupts=Interrupts(),
        display=display,
        versions=versions(config),
        wall=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


def create_folder(config: RunConfig, results: Path) -> Run:
    """A new run folder with its config. Raises ConfigError where it cannot be written."""
    try:
        return _create_folder(config, results)
    except OSError as error:
        raise ConfigError(f"the results folder {results} cannot be written: {error}") from None


def _create_folder(config: RunConfig, results: Path) -> Run:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    slug = "".join(c if c.isalnum() or c in "-." else "-" for c in config.nemesis)[:60]
    base = f"{stamp}-{config.workload}-{slug}-{config.seed}"
    results.mkdir(parents=True, exist_ok=True)
    name, number = base, 1
    while (results / name).exists():
        number += 1
        name = f"{base}-{number}"
    run = Run(results / name)
    for folder in (run.folder, run.journal, run.cluster):
        folder.mkdir()
    if owner := os.environ.get(OWNER):
        write_atomically(run.owner, owner)
    write_atomically(run.config, config.model_dump_json(indent=2) + "\n")
    return run


def point_latest(run: Run) -> None:
    """Make `latest` beside the run folder point to it."""
    temporary = run.folder.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(run.folder.name)
    os.replace(temporary, run.folder.with_name("latest"))


def versions(config: RunConfig) -> dict[str, str]:
    """Versions of everything that a finding may depend on."""
    packages = ("kafka-inquest", "confluent-kafka", "pyspark", "pyarrow", "numpy")
    found = {name: version(name) for name in packages}
    return {"kafka": config.kafka, "python": platform.python_version(), **found}


def _load_of(workload: Workload, config: RunConfig) -> Load:
    return Load(
        topics=workload.topics(config),
        tps=workload.tps(config),
        slots=slots_of(workload, config),
    )


def _load(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    factory: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return factory
