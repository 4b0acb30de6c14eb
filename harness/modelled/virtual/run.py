"""A simulated run: the run program in virtual time and in memory.

done = simulate(config)        # the same config and seed: the same journals, to the byte
"""

import contextlib
import gc
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.config import RunConfig
from harness.clients.database import IN_MEMORY, database_of
from harness.clients.pool import ClientPool
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.invariants.end import unfinished
from harness.modelled.virtual.invariants.observer import Broken, Invariants
from harness.modelled.virtual.invariants.weaknesses import Marker, Weakness
from harness.modelled.virtual.scheduler import Scheduler, VirtualRuntime
from harness.modelled.virtual.tracer import Tracing
from harness.modelled.virtual.worker_task import Lines, WorkerTask
from harness.run.planning import RunPlan, planned
from harness.run.program import RunProgram
from harness.run.progress import Display, silent
from history import events as ev
from history import journal as j
from history.trace import Trace
from nemesis.types import PlannedFault

LIMIT_S = 3600
"""Virtual seconds beyond the phase of faults after which a run that does not end is a fault of the
simulator."""
COLLECT_EVERY = 200_000
"""Objects made between two collections of garbage. A run makes many and few of them cyclic: with Python's
own 700, collecting takes a sixth of the time."""


@dataclass(slots=True, kw_only=True)
class Simulated:
    """A simulated run that has ended. `journals`: (name, lines) of each process. `calls`: of the scheduler.

    broken: safety invariants that did not hold, oldest first (empty also where they were not looked at).
    weak: those that did not hold because of a known weakness of Kafka. left_out: markers that a coordinator
    left out (KAFKA-20734), whether or not that did harm: producer id, epoch, partition.
    unfinished: what the cluster has left undone at the end, in sentences.
    """

    config: RunConfig
    journals: list[tuple[str, list[j.Line]]]
    events: list[ev.Event]
    steps: Sequence[PlannedFault]
    simulated_s: float
    calls: int
    cluster: SimulatedCluster
    broken: list[Broken] = field(default_factory=list)
    weak: list[Weakness] = field(default_factory=list)
    left_out: Collection[Marker] = ()
    unfinished: list[str] = field(default_factory=list)
    trace: Trace | None = None


def simulate(
    config: RunConfig,
    *,
    run: str = "simulated",
    steps: Sequence[PlannedFault] | None = None,
    invariants: bool = True,
    trace: bool = False,
    display: Display | None = None,
) -> Simulated:
    """One run. steps: faults instead of the ones that the config plans. invariants: look at the safety
    invariants after every event. trace: keep all messages and states. Both change nothing of the run.

    Raises: ConfigError; AssertionError, where the run does not end.
    """
    plan = planned(config) if steps is None else RunPlan(config, steps)
    with seldom_collecting():
        return _simulate(plan, run, display or silent(), invariants=invariants, trace=trace)


def _simulate(plan: RunPlan, run: str, display: Display, *, invariants: bool, trace: bool) -> Simulated:
    config, scheduler = plan.config, Scheduler()
    runtime = VirtualRuntime(scheduler)
    cluster = SimulatedCluster(config, scheduler)
    watched = Invariants(cluster) if invariants else None
    tracing = Tracing(cluster) if trace else None
    journals: dict[int, Lines[j.Line]] = {}
    database = database_of(config, IN_MEMORY)
    clients = ClientPool(
        plan.names.clients,
        lambda slot: WorkerTask(run, slot, config, runtime, cluster, journals, database),
        runtime,
    )
    recorder = Lines[ev.Event]()
    started = ev.RunStarted(ns=runtime.now_ns(), wall="", run=run, versions={})
    program = RunProgram(
        plan, cluster, clients, runtime, recorder, display, started,
        logs=Path(), evidence=Path(), database=database,
    )  # fmt: skip
    done = scheduler.spawn(program.run())
    limit = LIMIT_S + config.duration_s
    if not scheduler.run(done, limit=int(limit * 1e6)):
        raise AssertionError(f"{run} did not end within {limit:g} simulated seconds")
    undone = unfinished(cluster, watched.explained) if watched is not None else unfinished(cluster)
    return Simulated(
        config=config,
        journals=[(str(process), journals[process].lines) for process in sorted(journals)],
        events=recorder.lines,
        steps=plan.steps,
        simulated_s=scheduler.now / 1e6,
        calls=scheduler.events,
        cluster=cluster,
        broken=watched.broken if watched is not None else [],
        weak=watched.weak if watched is not None else [],
        left_out=watched.left_out if watched is not None else (),
        unfinished=undone,
        trace=tracing.trace() if tracing is not None else None,
    )


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Garbage is seldom collected in this block. Its end collects: where the run is garbage by then, each of
    its objects is visited once, and else again later."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
