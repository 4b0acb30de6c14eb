"""A simulated run: the same workloads, nemeses and phases, in virtual time and in memory.

    done = simulate(config)        # the same config and seed: the same journals, to the byte

Not here: the model and its scheduler (`harness.simulation`), checking, files (`harness.run`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import nemesis as nemeses
from harness import events as ev
from harness import journal as j
from harness.cluster import ClientSlot
from harness.config import RunConfig
from harness.faults import Faults
from harness.op import Isolation, Phase, TopicPartition
from harness.simulation.clients import SimClients, VirtualClock
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.scheduler import Future, Scheduler
from harness.simulation.session import BASE_NS
from workloads import WORKLOADS, Workload

LIMIT_S = 600
"""Virtual seconds after which a run that does not end is a fault of the simulator."""
STABLE_US = 1_000_000
LOOK_US = 50_000


@dataclass(slots=True, kw_only=True)
class Simulated:
    """A run that is over. `journals`: (name, lines) of each process."""

    config: RunConfig
    journals: list[tuple[str, list[j.Line]]]
    events: list[ev.Event]
    simulated_s: float
    calls: int
    cluster: SimulatedCluster
    workload: Workload


@dataclass(slots=True)
class _Bound:
    """A plan and the names of this run."""

    steps: Sequence[nemeses.Step]
    names: nemeses.Names

    def stage(self, *_: Any) -> Any:
        raise NotImplementedError

    async def inject(self, stage: Any, step: nemeses.Step, roles: Any) -> nemeses.Injected:
        return await nemeses.inject(stage, step, roles, self.names)

    async def heal(self, stage: Any, injected: nemeses.Injected) -> None:
        await nemeses.heal(stage, injected)

    async def heal_all(self, stage: Any) -> None:
        await nemeses.heal_all(stage)


@dataclass(slots=True)
class _Run:
    config: RunConfig
    run: str
    steps: Sequence[nemeses.Step] | None
    events: list[ev.Event] = field(default_factory=list)

    def execute(self) -> Simulated:
        config = self.config
        scheduler = Scheduler()
        cluster = SimulatedCluster(config, scheduler)
        workload = WORKLOADS[config.workload]
        plans = workload.plans(config)
        stop: Future[None] = Future()
        tps = workload.tps(config)
        clients = SimClients(
            config, self.run, plans, lambda spec, slot: workload.ops(config, spec, slot), tps,
            cluster, stop,
        )  # fmt: skip
        done = scheduler.spawn(self._phases(scheduler, cluster, clients, workload, stop))
        if not scheduler.run(done, limit=LIMIT_S * 1_000_000):
            raise AssertionError(f"{self.run} did not end within {LIMIT_S} simulated seconds")
        return Simulated(
            config=config,
            journals=[(str(p), c.lines) for p, c in sorted(clients.journals.items())],
            events=self.events,
            simulated_s=scheduler.now / 1e6,
            calls=scheduler.events,
            cluster=cluster,
            workload=workload,
        )

    async def _phases(
        self,
        scheduler: Scheduler,
        cluster: SimulatedCluster,
        clients: SimClients,
        workload: Workload,
        stop: Future[None],
    ) -> None:
        config = self.config

        def enter(phase: Phase) -> None:
            clients.phase = phase
            self.events.append(ev.PhaseStarted(ns=clients.clock.now_ns(), phase=phase))

        async def until(done: Callable[[], bool], seconds: float) -> bool:
            ends = scheduler.now + int(seconds * 1e6)
            while not done() and scheduler.now < ends:
                await scheduler.sleep(LOOK_US)
            return done()

        self.events.append(ev.RunStarted(ns=BASE_NS, wall="", run=self.run, versions={}))
        enter(Phase.SETUP)
        await cluster.start()
        for topic, partitions in workload.topics(config).items():
            await cluster.create_topic(topic, partitions, config.replication_factor, {})
        enter(Phase.WARMUP)
        clients.begin()
        await until(lambda: all(s.counters.ok_invoked_ns for s in clients.states), 60)
        enter(Phase.FAULTS)
        faults = self._faults(cluster, clients, workload, scheduler)
        halted: Future[None] = Future()
        clock = VirtualClock(scheduler, halted)
        plan = faults(clock, lambda: halted.done)
        over = scheduler.spawn(plan.run())
        await scheduler.sleep(int(config.duration_s * 1e6))
        halted.set(None)
        await over
        enter(Phase.HEAL)
        await plan.heal_all()
        enter(Phase.RECOVER)
        begin = clients.clock.now_ns()
        why = ""

        def recovered() -> bool:
            nonlocal why
            why = _unrecovered(cluster, clients, config, begin)
            return not why

        well = await until(recovered, config.recovery_deadline_s)
        now = clients.clock.now_ns()
        seconds = (now - begin) / 1e9
        self.events.append(ev.Recovered(ns=now, recovered=well, seconds=seconds, why=why))
        enter(Phase.QUIESCE)
        stop.set(None)
        await until(lambda: all(s.done.done for s in clients.states), 30)
        bounds = await self._bounds(scheduler, cluster, clients)
        self.events.append(bounds)
        enter(Phase.FINAL)
        for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
            ends = {TopicPartition(t, p): end for t, p, at, _, end in bounds.rows if at == level}
            await clients.read_final(level, ends)
        enter(Phase.COLLECT)

    def _faults(
        self,
        cluster: SimulatedCluster,
        clients: SimClients,
        workload: Workload,
        scheduler: Scheduler,
    ) -> Callable[[VirtualClock, Callable[[], bool]], Faults]:
        names = _names(workload, self.config, clients.slots)
        steps = self.steps
        if steps is None:
            steps = nemeses.plan(self.config.nemesis, self.config, names)
        bound = _Bound(steps, names)

        def made(clock: VirtualClock, stopping: Callable[[], bool]) -> Faults:
            stage = nemeses.Stage(cluster=cluster, clients=clients, clock=clock, stopping=stopping)
            return Faults(
                bound, cluster, stage, clock, self.events.append, self.config.duration_s, stopping
            )

        return made

    async def _bounds(
        self, scheduler: Scheduler, cluster: SimulatedCluster, clients: SimClients
    ) -> ev.BoundsListed:
        """As `harness.bounds`, in virtual time."""
        until = scheduler.now + int((self.config.transaction_timeout_s + 1 + 5) * 1e6) + STABLE_US
        seen: tuple[tuple[str, int, int, int, int], ...] = ()
        since, stable = scheduler.now, False
        while scheduler.now < until and not stable:
            tps = sorted(tp for tp in (await cluster.roles()).leaders if tp.topic[:2] != "__")
            rows = []
            ends: dict[tuple[TopicPartition, int], int] = {}
            for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
                for tp, (start, end) in (await cluster.offsets(tps, level)).items():
                    rows.append((tp.topic, tp.partition, int(level), start, end))
                    ends[tp, int(level)] = end
            if tuple(rows) != seen:
                seen, since = tuple(rows), scheduler.now
            whole = all((tp, 0) in ends and ends[tp, 0] == ends[tp, 1] for tp in tps)
            stable = whole and scheduler.now - since >= STABLE_US
            await scheduler.sleep(LOOK_US)
        return ev.BoundsListed(ns=clients.clock.now_ns(), rows=seen, stable=stable)


def simulate(
    config: RunConfig,
    *,
    run: str = "simulated",
    steps: Sequence[nemeses.Step] | None = None,
) -> Simulated:
    """One run. steps: faults instead of the ones that the config plans.

    Raises: ConfigError; AssertionError, where an invariant of the model is broken.
    """
    return _Run(config, run, steps).execute()


def _unrecovered(
    cluster: SimulatedCluster, clients: SimClients, config: RunConfig, since: int
) -> str:
    """What is still missing after healing, "" = nothing."""
    down = [n for n, node in cluster.sim.items() if not node.up]
    if down:
        return f"nodes {down} are down"
    for node in cluster.brokers:
        broker = cluster.sim[node].broker
        assert broker is not None
        for tp, state in broker.node.image.partitions.items():
            if state.leader < 0:
                return f"{tp} has no leader"
            if len(state.isr) < len(state.replicas):
                return f"{tp} has in-sync replicas {list(state.isr)} only"
    slow = [s.spec.slot for s in clients.states if s.counters.ok_invoked_ns < since]
    return f"clients {slow} have done nothing since" if slow else ""


def _names(workload: Workload, config: RunConfig, clients: tuple[ClientSlot, ...]) -> nemeses.Names:
    ids = {c.transactional_id for c in clients if c.transactional_id}
    groups = {c.group for c in clients if c.group}
    return nemeses.Names(
        data=workload.tps(config),
        transactional_ids=tuple(sorted(ids)),
        groups=tuple(sorted(groups)),
        clients=clients,
    )
