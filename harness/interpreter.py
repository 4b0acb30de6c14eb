"""The phases of a run: the sole owner of the run folder while it goes on.

set-up → warm-up → faults → heal → recover → quiesce → final reads → collect (docs/architecture.md).
Whatever happens (Ctrl-C, a full disk, lost workers, a dead Docker engine) the faults are healed, the
workers end, and what was recorded can be sealed.

Not here: who does what (`harness.run`), executing the faults (`harness.faults`), the verdict.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness import events as ev
from harness.bounds import open_ends, stable_bounds
from harness.clients import LoadingClients, idle_groups
from harness.cluster import ClientSlot, Cluster
from harness.config import ConfigError, RunConfig
from harness.faults import FaultThread, Nemesis
from harness.messages import ReadFinal, Start
from harness.op import Isolation, Phase, TopicPartition
from harness.progress import Display
from harness.recorder import Interrupts, Recorder
from harness.sampling import Sampler
from harness.session import drive
from harness.store import Run
from harness.workers import WorkerHandle, wait_ended

WARMUP_S = 60.0
"""Every client must have worked once within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the interpreter needs to know of the workload.

    topics: topic → partitions. slots: the loading clients; two final readers follow them.
    """

    topics: Mapping[str, int]
    tps: tuple[TopicPartition, ...]
    slots: tuple[ClientSlot, ...]


@dataclass(slots=True, kw_only=True)
class Interpreter:
    """One run, from starting the cluster to the end of the final reads."""

    run: Run
    config: RunConfig
    cluster: Cluster
    load: Load
    nemesis: Nemesis
    recorder: Recorder
    interrupts: Interrupts
    display: Display
    versions: dict[str, str]
    wall: Callable[[], str]
    clients: LoadingClients = field(init=False)
    sampler: Sampler = field(init=False)
    readers: list[WorkerHandle] = field(default_factory=list)
    phase: Phase = Phase.SETUP
    interrupted: bool = False
    broken: str = ""
    """Why the recording is not whole ("" = it is)."""
    _unhealed: str = ""
    """Which faults the harness could not take back ("" = it could, or there was none)."""
    _lost: set[int] = field(default_factory=set)
    _faults: FaultThread = field(init=False)

    def __post_init__(self) -> None:
        self.clients = LoadingClients(self.run, self.load.slots)
        self.sampler = Sampler(self.cluster, self.recorder, self.load.tps)
        self._faults = FaultThread(
            self.nemesis, self.cluster, self.clients, self.recorder, self.config.duration_s
        )

    def execute(self) -> None:
        """All phases. Raises: ClusterError, KeyboardInterrupt before anything was recorded; ConfigError
        until the end of the warm-up; afterwards only for faults of the harness itself."""
        try:
            self._set_up()
            if self._warm_up():
                self._suffer()
            self._heal()
            self._recover()
            self._quiesce()
            self._final_reads()
            self._enter(Phase.COLLECT)
            drive(self.cluster.collect(self.run.cluster))
        finally:
            self.interrupts.immediate = False  # cleaning up is not cut short
            self.sampler.stop()
            try:
                self._faults.stop()
                self.end_workers()
            finally:
                drive(self.cluster.stop())

    def end_workers(self) -> None:
        """Kill what still runs and release all pipes."""
        try:
            self.clients.end()
        finally:
            for reader in self.readers:
                reader.kill()
                reader.close()

    # -- phases -------------------------------------------------------------------------------

    def _set_up(self) -> None:
        self.recorder.write(
            ev.RunStarted(
                ns=time.monotonic_ns(), wall=self.wall(), run=self.run.name, versions=self.versions
            )
        )
        self._enter(Phase.SETUP)
        self.interrupts.second = self._kill_all
        self.clients.launch()
        begin = time.monotonic()
        drive(self.cluster.start())
        self.display.say(
            f"cluster of {len(self.cluster.brokers)} brokers ready in "
            f"{time.monotonic() - begin:.1f} s"
        )
        settings = self.config.settings_of_topics()
        for topic, partitions in self.load.topics.items():
            drive(
                self.cluster.create_topic(
                    topic, partitions, self.config.replication_factor, settings
                )
            )
        self.interrupts.immediate = False
        self.sampler.start()
        self.clients.begin(self._start())

    def _start(self) -> Start:
        return Start(self.cluster.endpoint(), len(self.load.slots) + len(Isolation) - 1)

    def _warm_up(self) -> bool:
        """Every client works once; false where the run is to be cut short."""
        self._enter(Phase.WARMUP)

        def missing() -> str:
            slow = [w.slot for w in self._loading() if not w.progress.ok_invoked_ns]
            if slow:
                return f"clients {slow} have not done anything yet"
            idle = self._idle_groups(since_ns=1)
            return f"groups {idle} were not given anything yet" if idle else ""

        why = self._wait(missing, WARMUP_S)
        if why and not self._cut_short():
            self._break(f"warm-up: {why} after {WARMUP_S:.0f} s")
        return not why

    def _suffer(self) -> None:
        self._enter(Phase.FAULTS)
        self._faults.start()
        until = time.monotonic() + self.config.duration_s
        self._wait(lambda: "" if time.monotonic() >= until else "…", self.config.duration_s + 1)

    def _heal(self) -> None:
        self._enter(Phase.HEAL)
        self._faults.stop()
        self._unhealed = self._faults.heal_all()
        if self._unhealed:
            self.recorder.note(self._unhealed)
            self.display.say(self._unhealed)
        if (down := self.clients.down) and not self._cut_short():
            self._break(f"clients {list(down)} were crashed and could not be started again")

    def _recover(self) -> None:
        if self._cut_short():
            return
        self._enter(Phase.RECOVER)
        for level in range(len(Isolation) - 1):
            self.readers.append(WorkerHandle(self.run, len(self.load.slots) + level))
        begin = time.monotonic_ns()
        why = self._wait(lambda: self._unrecovered(begin), self.config.recovery_deadline_s)
        seconds = (time.monotonic_ns() - begin) / 1e9
        if self._cut_short():
            return
        # What the harness could not take back is not the cluster's to recover from.
        if why and (trouble := self._unhealed or drive(self.cluster.trouble())):
            self._break(trouble)
            return
        self.recorder.write(
            ev.Recovered(ns=time.monotonic_ns(), recovered=not why, seconds=seconds, why=why)
        )
        self.display.say(f"recovered in {seconds:.1f} s" if not why else f"not recovered: {why}")

    def _unrecovered(self, since_ns: int) -> str:
        """What is still missing after healing, "" = nothing."""
        roles, data = self.sampler.roles, set(self.sampler.tps)
        if roles.ns < since_ns or not roles.agreed:
            return f"brokers {list(roles.answering)} answer, and do not all agree on the leaders"
        for tp, leader in sorted(roles.leaders.items()):
            if leader < 0:
                return f"{tp} has no leader"
            isr = roles.isr.get(tp, ())
            if tp in data and len(isr) < self.config.replication_factor:
                return f"{tp} has in-sync replicas {list(isr)} only"
        stuck = [w.slot for w in self._loading() if w.progress.ok_invoked_ns < since_ns]
        if stuck:
            return f"clients {stuck} have done nothing since"
        idle = self._idle_groups(since_ns)
        return f"groups {idle} were given nothing since" if idle else ""

    def _idle_groups(self, since_ns: int) -> list[str]:
        progress = {worker.slot: worker.progress for worker in self._loading()}
        return idle_groups(self.load.slots, progress, since_ns)

    def _quiesce(self) -> None:
        self._enter(Phase.QUIESCE)
        # The op in hand may take its whole deadline, and so may closing the clients.
        allowed = 2 * self.config.verb_deadline_s + 2
        for worker in wait_ended(self.clients.handles, allowed):
            self._lose(worker, "did not stop in time and was killed")
            worker.kill()
        self._look_after_workers()

    def _final_reads(self) -> None:
        if self._cut_short() or not self.readers:
            return
        bounds = self._list_bounds()
        if self._cut_short():
            return
        self._enter(Phase.FINAL)
        ends: dict[int, list[tuple[str, int, int]]] = {0: [], 1: []}
        for topic, partition, isolation, _, end in bounds.rows:
            ends[isolation].append((topic, partition, end))
        start = self._start()
        for reader in self.readers:
            reader.tell(start)
            reader.tell(ReadFinal(ends))
        allowed = self.config.final_deadline_s + 2 * self.config.verb_deadline_s
        for reader in wait_ended(self.readers, allowed):
            self._lose(reader, "final reads did not end in time and were killed")
            reader.kill()
        self._look_after_workers()

    def _list_bounds(self) -> ev.BoundsListed:
        """Record the ends of all logs, once they are stable, and what still holds one back then."""
        self.sampler.take(drive(self.cluster.roles()))  # topics made a moment ago
        bounds = stable_bounds(
            self.cluster,
            self.sampler.tps,
            allowed_s=self.config.transaction_timeout_s + 1 + 5,  # its scan, and a margin
            cut_short=self._cut_short,
            status=self.display.status,
        )
        self.recorder.write(bounds)
        if (tps := open_ends(bounds.rows)) and not self._cut_short():
            rows = tuple(drive(self.cluster.open_transactions(tps)))
            self.recorder.write(ev.TransactionsOpen(ns=time.monotonic_ns(), rows=rows))
        return bounds

    # -- supervision --------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.recorder.write(ev.PhaseStarted(ns=time.monotonic_ns(), phase=phase))
        self.clients.enter(phase)

    def _loading(self) -> list[WorkerHandle]:
        return [client for client in self.clients.handles if client.slot not in self._lost]

    def _wait(self, missing: Callable[[], str], deadline_s: float) -> str:
        """Wait until nothing is missing; "" or what was still missing at the end."""
        until = time.monotonic() + deadline_s
        while (why := missing()) and time.monotonic() < until and not self._cut_short():
            self._look_after_workers()
            self._show()
            time.sleep(0.05)
        return why

    def _cut_short(self) -> bool:
        """The run is to end now: interrupted, or the recording is broken."""
        if self.interrupts.asked.is_set() and not self.interrupted:
            self.interrupted = True
            self.recorder.note("interrupted", incomplete=True)
            self.display.say("interrupted: healing, sealing and checking what there is")
        if self.recorder.broken and not self.broken:
            self._break(self.recorder.broken)
        return self.interrupted or bool(self.broken)

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        self.recorder.note(why, incomplete=True)
        self.display.say(why)

    def _kill_all(self) -> None:
        """Called in the handler of signals."""
        self.clients.strike()
        for reader in self.readers:
            reader.strike()

    def _look_after_workers(self) -> None:
        for worker in (*self.clients.handles, *self.readers):
            if worker.ended in (None, 0) or worker.slot in self._lost or worker.executed:
                continue
            if worker.ended == os.EX_CONFIG and self.phase <= Phase.WARMUP:
                raise ConfigError(worker.last_words())
            self._lose(worker, worker.why_ended())
            if worker.ended == os.EX_IOERR:
                self._break(
                    f"the journal of client {worker.slot} could not be written: "
                    f"{worker.why_ended()}"
                )
            elif worker.ended is not None and worker.ended > 0:
                self._break(f"client {worker.slot} of the harness failed: {worker.why_ended()}")

    def _lose(self, worker: WorkerHandle, why: str) -> None:
        self._lost.add(worker.slot)
        self.recorder.write(ev.WorkerLost(ns=time.monotonic_ns(), slot=worker.slot, why=why))
        self.display.say(f"client {worker.slot} {why}")

    def _show(self) -> None:
        done = self.clients.progress()
        self.display.status(
            f"{self.phase.name.lower()}: {done.ok} ops ok, {done.fail} failed, {done.info} unknown, "
            f"{done.acked} records acknowledged, {done.read} read; "
            f"faults: {', '.join(self._faults.in_force) or 'none'}; "
            f"brokers answering: {list(self.sampler.roles.answering)}"
        )
