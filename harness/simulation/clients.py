"""Loading clients in a simulation: one task each, that can die, be started again and stand still.

Not here: what a client does (`harness.client`, `harness.load`), its session (`session`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness import journal as j
from harness.client import Client, Counters
from harness.cluster import ClientSlot, CrashPoint
from harness.config import RunConfig
from harness.generator import Planned, Slot, source
from harness.load import live, read_final
from harness.op import End, Isolation, Phase, TopicPartition
from harness.session import SessionSpec
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.scheduler import Future, Scheduler
from harness.simulation.session import SimSession
from harness.store import FORMAT

REOPEN_S = 0.1
CRASH_US = 2_000_000

Ops = Callable[[SessionSpec, Slot], Iterator[Planned]]


class Crashed(BaseException):
    """The client died at this point of its work."""


class Lines:
    """A journal in memory; a client that is dead writes nothing."""

    def __init__(self, header: j.Opened) -> None:
        self.lines: list[j.Line] = [header]
        self.dead = False

    def write(self, line: j.Line) -> None:
        """Append one line."""
        if not self.dead:
            self.lines.append(line)

    def close(self) -> None:
        """No more lines."""
        self.dead = True


@dataclass(slots=True)
class VirtualClock:
    """`harness.session.Clock` in virtual time; sleeping ends early once `stop` is set."""

    scheduler: Scheduler
    stop: Future[None]

    def now_ns(self) -> int:
        """Virtual time."""
        return self.scheduler.ns

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if seconds <= 0 or self.stop.done:
            return
        woken: Future[None] = Future()
        self.scheduler.after(int(seconds * 1e6), woken.set, None)
        self.stop.then(lambda: woken.set(None))
        await woken


@dataclass(slots=True)
class State:
    """One slot. `life` counts up with every start: a task of an earlier life has no effect."""

    spec: SessionSpec
    counters: Counters = field(default_factory=Counters)
    life: int = 0
    incarnation: int = 0
    up: bool = False
    crash_at: CrashPoint | None = None
    session: SimSession | None = None
    journal: Lines | None = None
    done: Future[None] = field(default_factory=Future)


class SimClients:
    """`harness.cluster.Clients`, and the tasks behind it. `journals`: of all processes, by number."""

    def __init__(
        self,
        config: RunConfig,
        run: str,
        plans: Sequence[SessionSpec],
        ops: Ops,
        tps: tuple[TopicPartition, ...],
        cluster: SimulatedCluster,
        stop: Future[None],
    ) -> None:
        self.config = config
        self.run = run
        self.phase = Phase.SETUP
        self.journals: dict[int, Lines] = {}
        self._ops = ops
        self._tps = tps
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._stop = stop
        self.clock = VirtualClock(self._scheduler, stop)
        self.states = [State(spec) for spec in plans]
        self._width = len(plans) + len(Isolation) - 1

    @property
    def slots(self) -> tuple[ClientSlot, ...]:
        """All loading clients."""
        return tuple(
            ClientSlot(
                slot=s.spec.slot,
                transactional_id=s.spec.transactional_id or "",
                group=s.spec.group or "",
                produces=s.spec.acks is not None,
            )
            for s in self.states
        )

    def begin(self) -> None:
        """Start all."""
        for state in self.states:
            self._start(state)

    def _start(self, state: State) -> None:
        state.life += 1
        state.up = True
        state.crash_at = None
        self._scheduler.spawn(self._serve(state, state.life))

    async def _serve(self, state: State, life: int) -> None:
        """Process after process, until the load stops or the client dies."""
        try:
            while not self._stop.done:
                process = state.spec.slot + state.incarnation * self._width
                spec = replace(state.spec, process=process)
                client = self._open(spec, state, life)
                slot = Slot(
                    slot=spec.slot,
                    process=process,
                    tps=self._tps,
                    rng=source(self.config.seed, spec.slot, state.incarnation),
                )
                state.incarnation += 1
                ended = lambda: self._stop.done  # noqa: E731
                end = await live(client, self._ops(spec, slot), self.clock, ended)
                await client.close(end)
                await self.clock.sleep(REOPEN_S)
        except Crashed:
            return
        if life == state.life:
            state.done.set(None)

    def _open(self, spec: SessionSpec, state: State | None, life: int) -> Client:
        scheduler = self._scheduler
        cluster = self._cluster
        session = SimSession(
            spec,
            cluster.brokers,
            scheduler,
            cluster.sender(object(), spec.process),
            cluster.settings,
        )
        header = j.Opened(
            FORMAT, self.run, spec.process, spec.slot, self.clock.now_ns(), spec.as_json()
        )
        journal = self.journals[spec.process] = Lines(header)
        if state is not None:
            state.session, state.journal = session, journal

        def at(point: CrashPoint) -> None:
            if state is not None and state.crash_at is point:
                self._die(state)
                raise Crashed

        return Client(
            run=self.run,
            process=spec.process,
            session=session,
            journal=journal,
            clock=self.clock,
            phase=lambda: self.phase,
            record_size=self.config.record_size,
            isolation=spec.isolation,
            counters=state.counters if state is not None else Counters(),
            at=at,
            replication=self.config.replication_factor,
            topic_settings=self.config.settings_of_topics(),
        )

    def _die(self, state: State) -> None:
        state.up = False
        if state.session is not None:
            state.session.dead = True
        if state.journal is not None:
            state.journal.dead = True

    async def read_final(self, level: Isolation, ends: dict[TopicPartition, int]) -> None:
        """A fresh consumer reads everything."""
        spec = SessionSpec(
            slot=len(self.states) + level,
            process=len(self.states) + level,
            isolation=level,
            report_end=True,
            deadline_s=self.config.verb_deadline_s,
        )
        clock = VirtualClock(self._scheduler, Future())
        client = self._open(spec, None, 0)
        await read_final(client, ends, clock, self.config.final_deadline_s)
        await client.close(End.CLOSED)

    # ---- what nemeses do

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        """SIGKILL each when it gets to the point; after 2 s wherever it is then."""
        for slot in slots:
            state = self.states[slot]
            if point is CrashPoint.ANYWHERE:
                self._die(state)
            else:
                state.crash_at = point
        until = self._scheduler.now + CRASH_US
        while any(self.states[s].up for s in slots) and self._scheduler.now < until:
            await self._scheduler.sleep(20_000)
        for slot in slots:
            if self.states[slot].up:
                self._die(self.states[slot])

    async def restart(self, slots: Sequence[int]) -> None:
        """Start clients that are down."""
        for slot in slots:
            if not self.states[slot].up and self.states[slot].life:
                self._start(self.states[slot])

    async def pause(self, slots: Sequence[int]) -> None:
        """Stand still."""
        for slot in slots:
            session = self.states[slot].session
            if session is not None:
                session.pause()

    async def resume(self, slots: Sequence[int]) -> None:
        """Go on."""
        for slot in slots:
            session = self.states[slot].session
            if session is not None:
                session.resume()
