"""A simulated run: the same workloads, nemeses and phases, in virtual time and in memory.

    done = simulate(config)        # the same config and seed: the same journals, to the byte

Not here: the model and its scheduler (`harness.simulation`), checking, files (`harness.simulated`).
"""

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import nemesis as nemeses
from harness import events as ev
from harness import journal as j
from harness.bounds import open_ends
from harness.config import RunConfig
from harness.faults import Faults
from harness.op import Isolation, Phase, TopicPartition
from harness.planning import BoundNemesis, names_of
from harness.simulation.clients import SimClients, VirtualClock
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.invariants import Broken, Invariants
from harness.simulation.invariants_end import unfinished
from harness.simulation.looks import look
from harness.simulation.recovery import stuck_clients, unrecovered
from harness.simulation.scheduler import Future, Scheduler
from harness.simulation.trace import Tracing
from harness.trace import Trace
from workloads import WORKLOADS, Workload

LIMIT_S = 3600
"""Virtual seconds besides the phase of faults after which a run that does not end is a fault of the
simulator."""
WARMUP_S = 60
STABLE_US = 1_000_000
COLLECT_EVERY = 100_000
"""Objects made between two collections of garbage. A run makes many and few of them cyclic: with Python's
own 700, collecting takes a sixth of the time."""
LOOK_US = 50_000


@dataclass(slots=True, kw_only=True)
class Simulated:
    """A run that is over. `journals`: (name, lines) of each process. `calls`: of the scheduler.

    broken: safety invariants that did not hold, oldest first (empty also where they were not looked at).
    unfinished: what the cluster has left undone at the end, in sentences.
    """

    config: RunConfig
    journals: list[tuple[str, list[j.Line]]]
    events: list[ev.Event]
    steps: Sequence[nemeses.Step]
    simulated_s: float
    calls: int
    cluster: SimulatedCluster
    broken: list[Broken] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    trace: Trace | None = None


def simulate(
    config: RunConfig,
    *,
    run: str = "simulated",
    steps: Sequence[nemeses.Step] | None = None,
    invariants: bool = True,
    trace: bool = False,
) -> Simulated:
    """One run. steps: faults instead of the ones that the config plans. invariants: look at the safety
    invariants after every event. trace: keep all messages and states. Both change nothing of the run.

    Raises: ConfigError; AssertionError, where the run does not end.
    """
    with _seldom_collecting():
        return _Run(config, run, steps, invariants, trace).execute()


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(slots=True)
class _Run:
    config: RunConfig
    run: str
    wanted: Sequence[nemeses.Step] | None
    invariants: bool
    traced: bool
    events: list[ev.Event] = field(default_factory=list)
    scheduler: Scheduler = field(default_factory=Scheduler)
    stop: Future[None] = field(default_factory=Future)
    cluster: SimulatedCluster = field(init=False)
    clients: SimClients = field(init=False)
    workload: Workload = field(init=False)
    names: nemeses.Names = field(init=False)
    steps: Sequence[nemeses.Step] = field(init=False)

    def execute(self) -> Simulated:
        config = self.config
        workload = self.workload = WORKLOADS[config.workload]
        self.cluster = SimulatedCluster(config, self.scheduler)
        watched = Invariants(self.cluster) if self.invariants else None
        tracing = Tracing(self.cluster) if self.traced else None
        self.clients = SimClients(
            config,
            self.run,
            workload.plans(config),
            lambda spec, slot: workload.ops(config, spec, slot),
            workload.tps(config),
            self.cluster,
            self.stop,
        )
        self.names = names_of(workload, config)
        if self.wanted is None:
            self.steps = nemeses.plan(config.nemesis, config, self.names)
        else:
            self.steps = self.wanted
        done = self.scheduler.spawn(self._phases())
        limit = LIMIT_S + config.duration_s
        if not self.scheduler.run(done, limit=int(limit * 1e6)):
            raise AssertionError(f"{self.run} did not end within {limit:g} simulated seconds")
        return Simulated(
            config=config,
            journals=[(str(p), c.lines) for p, c in sorted(self.clients.journals.items())],
            events=self.events,
            steps=self.steps,
            simulated_s=self.scheduler.now / 1e6,
            calls=self.scheduler.events,
            cluster=self.cluster,
            broken=watched.broken if watched is not None else [],
            unfinished=unfinished(self.cluster),
            trace=tracing.trace() if tracing is not None else None,
        )

    # ---- phases

    async def _phases(self) -> None:
        self.events.append(ev.RunStarted(ns=self.scheduler.ns, wall="", run=self.run, versions={}))
        self._enter(Phase.SETUP)
        await self.cluster.start()
        for topic, partitions in self.workload.topics(self.config).items():
            await self.cluster.create_topic(topic, partitions, self.config.replication_factor, {})
        await self._load()
        await self._recover()
        self._enter(Phase.QUIESCE)
        self.stop.set(None)
        if not await self._until(lambda: all(s.done.done for s in self.clients.states), 60):
            self._note("clients did not end")
        bounds = await self._bounds()
        self._enter(Phase.FINAL)
        for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
            ends = {TopicPartition(t, p): end for t, p, at, _, end in bounds.rows if at == level}
            await self.clients.read_final(level, ends)
        self._enter(Phase.COLLECT)

    async def _load(self) -> None:
        """Warm up, and hurt the cluster under load; what was done to it is healed."""
        self._enter(Phase.WARMUP)
        over: Future[None] = Future()
        looking = self.scheduler.spawn(look(self.cluster, self.events.append, over))
        self.clients.begin()
        warm = lambda: not stuck_clients(self.clients, self.config, 1)  # noqa: E731
        if not await self._until(warm, WARMUP_S):
            self._note(f"warm-up: {stuck_clients(self.clients, self.config, 1)}")
        self._enter(Phase.FAULTS)
        halted: Future[None] = Future()
        faults = self._faults(halted)
        planned = self.scheduler.spawn(faults.run())
        await self.scheduler.sleep(int(self.config.duration_s * 1e6))
        halted.set(None)
        await planned
        self._enter(Phase.HEAL)
        await faults.heal_all()
        over.set(None)
        await looking

    def _faults(self, halted: Future[None]) -> Faults:
        clock = VirtualClock(self.scheduler, halted)
        stopping = lambda: halted.done  # noqa: E731
        stage = nemeses.Stage(
            cluster=self.cluster, clients=self.clients, clock=clock, stopping=stopping
        )
        return Faults(
            BoundNemesis(self.steps, self.names),
            self.cluster,
            stage,
            clock,
            self.events.append,
            self.config.duration_s,
            stopping,
        )

    async def _recover(self) -> None:
        self._enter(Phase.RECOVER)
        begin = self.scheduler.ns
        why = ""

        def recovered() -> bool:
            nonlocal why
            why = unrecovered(self.cluster, self.clients, self.config, begin)
            return not why

        well = await self._until(recovered, self.config.recovery_deadline_s)
        seconds = (self.scheduler.ns - begin) / 1e9
        self.events.append(
            ev.Recovered(ns=self.scheduler.ns, recovered=well, seconds=seconds, why=why)
        )

    async def _bounds(self) -> ev.BoundsListed:
        """As `harness.bounds`, in virtual time."""
        now = self.scheduler.now
        until = now + int((self.config.transaction_timeout_s + 1 + 5) * 1e6) + STABLE_US
        seen: tuple[tuple[str, int, int, int, int], ...] = ()
        since, stable = now, False
        tps: list[TopicPartition] = []
        while self.scheduler.now < until and not stable:
            tps = sorted(tp for tp in (await self.cluster.roles()).leaders if tp.topic[:2] != "__")
            rows = []
            ends: dict[tuple[TopicPartition, int], int] = {}
            for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
                for tp, (start, end) in (await self.cluster.offsets(tps, level)).items():
                    rows.append((tp.topic, tp.partition, int(level), start, end))
                    ends[tp, int(level)] = end
            if tuple(rows) != seen:
                seen, since = tuple(rows), self.scheduler.now
            whole = all((tp, 0) in ends and ends[tp, 0] == ends[tp, 1] for tp in tps)
            stable = whole and self.scheduler.now - since >= STABLE_US
            await self.scheduler.sleep(LOOK_US)
        bounds = ev.BoundsListed(ns=self.scheduler.ns, rows=seen, stable=stable)
        self.events.append(bounds)
        if held := open_ends(seen):
            rows_open = tuple(await self.cluster.open_transactions(held))
            self.events.append(ev.TransactionsOpen(ns=self.scheduler.ns, rows=rows_open))
        return bounds

    # ---- small things

    def _enter(self, phase: Phase) -> None:
        self.clients.phase = phase
        self.events.append(ev.PhaseStarted(ns=self.scheduler.ns, phase=phase))

    def _note(self, text: str) -> None:
        self.events.append(ev.Note(ns=self.scheduler.ns, text=text, incomplete=True))

    async def _until(self, done: Callable[[], bool], seconds: float) -> bool:
        ends = self.scheduler.now + int(seconds * 1e6)
        while not done() and self.scheduler.now < ends:
            await self.scheduler.sleep(LOOK_US)
        return done()
