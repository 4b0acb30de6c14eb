"""The phases of a run: the sole owner of the run folder while it goes on.

set-up → warm-up → faults → heal → recover → quiesce → final reads → collect (docs/architecture.md).
Whatever happens (Ctrl-C, a full disk, lost workers, a dead Docker engine) the faults are healed, the
workers end, and what was recorded can be sealed.

Not here: who does what (`harness.run`), executing the faults (`harness.faults`), the verdict.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness import events as ev
from harness.cluster import Cluster, Roles
from harness.config import RunConfig
from harness.faults import FaultThread, Nemesis
from harness.messages import Enter, ReadFinal, Start
from harness.op import Isolation, Phase, TopicPartition
from harness.progress import Display
from harness.recorder import Interrupts, Recorder
from harness.session import drive
from harness.store import Run
from harness.workers import WorkerHandle, wait_ended

WARMUP_S = 60.0
"""Every client must have worked once within this time."""
SAMPLE_S = 0.5
"""Distance between looks at who leads what."""
STABLE_S = 2.0
"""The ends of the logs must not change for this long before they are final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the interpreter needs to know of the workload.

    topics: topic → partitions. slots: number of loading clients; two final readers follow them.
    """

    topics: Mapping[str, int]
    tps: tuple[TopicPartition, ...]
    slots: int


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
    workers: list[WorkerHandle] = field(default_factory=list)
    readers: list[WorkerHandle] = field(default_factory=list)
    phase: Phase = Phase.SETUP
    interrupted: bool = False
    broken: str = ""
    """Why the recording is not whole ("" = it is)."""
    _roles: Roles = field(default_factory=lambda: Roles(ns=0))
    _lost: set[int] = field(default_factory=set)
    _faults: FaultThread | None = None
    _sampling: threading.Event = field(default_factory=threading.Event)

    def execute(self) -> None:
        """All phases. Raises: ClusterError, KeyboardInterrupt before anything was
        recorded; afterwards only for faults of the harness itself."""
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
            self._sampling.set()
            try:
                self.end_workers()
            finally:
                drive(self.cluster.stop())

    def end_workers(self) -> None:
        """Kill what still runs and release all pipes."""
        for worker in (*self.workers, *self.readers):
            worker.kill()
            worker.close()

    # -- phases -------------------------------------------------------------------------------

    def _set_up(self) -> None:
        self.recorder.write(
            ev.RunStarted(
                ns=time.monotonic_ns(), wall=self.wall(), run=self.run.name, versions=self.versions
            )
        )
        self._enter(Phase.SETUP)
        self.interrupts.second = self._kill_all
        for slot in range(self.load.slots):  # one by one: what was started is ended, come what may
            self.workers.append(WorkerHandle(self.run, slot))
        begin = time.monotonic()
        drive(self.cluster.start())
        self.display.say(
            f"cluster of {len(self.cluster.nodes)} brokers ready in "
            f"{time.monotonic() - begin:.1f} s"
        )
        settings = {
            "min.insync.replicas": str(self.config.min_insync_replicas),
            "unclean.leader.election.enable": str(self.config.unclean_leader_election).lower(),
            **self.config.topic_settings,
        }
        for topic, partitions in self.load.topics.items():
            drive(
                self.cluster.create_topic(
                    topic, partitions, self.config.replication_factor, settings
                )
            )
        self.interrupts.immediate = False
        threading.Thread(target=self._sample_roles, name="roles", daemon=True).start()
        start = Start(self.cluster.endpoint(), self.load.slots + len(Isolation) - 1)
        for worker in self.workers:
            worker.tell(start)

    def _warm_up(self) -> bool:
        """Every client works once; false where the run is to be cut short."""
        self._enter(Phase.WARMUP)

        def missing() -> str:
            slow = [w.slot for w in self._loading() if not w.progress.ok_invoked_ns]
            return f"clients {slow} have not done anything yet" if slow else ""

        why = self._wait(missing, WARMUP_S)
        if why and not self._cut_short():
            self._break(f"warm-up: {why} after {WARMUP_S:.0f} s")
        return not why

    def _suffer(self) -> None:
        self._enter(Phase.FAULTS)
        self._faults = self._fault_thread()
        self._faults.start()
        until = time.monotonic() + self.config.duration_s
        self._wait(lambda: "" if time.monotonic() >= until else "…", self.config.duration_s + 1)

    def _fault_thread(self) -> FaultThread:
        return FaultThread(self.nemesis, self.cluster, self.recorder, self.config.duration_s)

    def _heal(self) -> None:
        self._enter(Phase.HEAL)
        faults = self._faults or self._fault_thread()
        faults.stop()
        if trouble := faults.heal_all():
            self.recorder.note(trouble)
            self.display.say(trouble)

    def _recover(self) -> None:
        if self._cut_short():
            return
        self._enter(Phase.RECOVER)
        for level in range(len(Isolation) - 1):
            self.readers.append(WorkerHandle(self.run, self.load.slots + level))
        begin = time.monotonic_ns()
        why = self._wait(lambda: self._unrecovered(begin), self.config.recovery_deadline_s)
        seconds = (time.monotonic_ns() - begin) / 1e9
        if self._cut_short():
            return
        if why and (trouble := drive(self.cluster.trouble())):
            self._break(trouble)
            return
        self.recorder.write(
            ev.Recovered(ns=time.monotonic_ns(), recovered=not why, seconds=seconds, why=why)
        )
        self.display.say(f"recovered in {seconds:.1f} s" if not why else f"not recovered: {why}")

    def _unrecovered(self, since_ns: int) -> str:
        """What is still missing after healing, "" = nothing."""
        roles = self._roles
        if roles.ns < since_ns or not roles.agreed:
            return f"brokers {list(roles.answering)} answer, and do not all agree on the leaders"
        for tp, leader in sorted(roles.leaders.items()):
            if leader < 0:
                return f"{tp} has no leader"
            isr = roles.isr.get(tp, ())
            if tp in self.load.tps and len(isr) < self.config.replication_factor:
                return f"{tp} has in-sync replicas {list(isr)} only"
        stuck = [w.slot for w in self._loading() if w.progress.ok_invoked_ns < since_ns]
        return f"clients {stuck} have done nothing since" if stuck else ""

    def _quiesce(self) -> None:
        self._enter(Phase.QUIESCE)
        # The op in hand may take its whole deadline, and so may closing the clients.
        allowed = 2 * self.config.verb_deadline_s + 2
        for worker in wait_ended(self.workers, allowed):
            self._lose(worker, "did not stop in time and was killed")
            worker.kill()
        self._look_after_workers()

    def _final_reads(self) -> None:
        if self._cut_short() or not self.readers:
            return
        bounds = self._stable_bounds()
        self.recorder.write(bounds)
        if self._cut_short():
            return
        self._enter(Phase.FINAL)
        ends: dict[int, list[tuple[str, int, int]]] = {0: [], 1: []}
        for topic, partition, isolation, _, end in bounds.rows:
            ends[isolation].append((topic, partition, end))
        start = Start(self.cluster.endpoint(), self.load.slots + len(Isolation) - 1)
        for reader in self.readers:
            reader.tell(start)
            reader.tell(ReadFinal(ends))
        allowed = self.config.final_deadline_s + 2 * self.config.verb_deadline_s
        for reader in wait_ended(self.readers, allowed):
            self._lose(reader, "final reads did not end in time and were killed")
            reader.kill()
        self._look_after_workers()

    def _stable_bounds(self) -> ev.BoundsListed:
        """The ends of all logs: LSO = HW everywhere and unchanged for STABLE_S, or the newest ones
        seen when the time for that (transaction timeout, its scan, 5 s) is over."""
        deadline = time.monotonic() + self.config.transaction_timeout_s + 1 + 5 + STABLE_S
        seen: tuple[tuple[str, int, int, int, int], ...] = ()
        since, why = time.monotonic(), "nothing was listed"
        while time.monotonic() < deadline and not self._cut_short():
            rows = self._list_bounds()
            if rows != seen:
                seen, since = rows, time.monotonic()
            why = _unstable(rows, self.load.tps)
            if not why and time.monotonic() - since >= STABLE_S:
                break
            if not why:
                why = f"the ends still changed less than {STABLE_S:.0f} s ago"
            self.display.status(f"quiesce: {why}")
            time.sleep(0.1)
        return ev.BoundsListed(ns=time.monotonic_ns(), rows=seen, stable=not why, why=why)

    def _list_bounds(self) -> tuple[tuple[str, int, int, int, int], ...]:
        rows = []
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
            offsets = drive(self.cluster.offsets(self.load.tps, isolation))
            rows += [
                (tp.topic, tp.partition, int(isolation), start, end)
                for tp, (start, end) in sorted(offsets.items())
            ]
        return tuple(rows)

    # -- supervision --------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.recorder.write(ev.PhaseStarted(ns=time.monotonic_ns(), phase=phase))
        for worker in self.workers:
            worker.tell(Enter(phase))

    def _loading(self) -> list[WorkerHandle]:
        return [worker for worker in self.workers if worker.slot not in self._lost]

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
        for worker in (*self.workers, *self.readers):
            worker.strike()

    def _look_after_workers(self) -> None:
        for worker in (*self.workers, *self.readers):
            if worker.ended in (None, 0) or worker.slot in self._lost:
                continue
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

    def _sample_roles(self) -> None:
        before: tuple[object, ...] = ()
        while not self._sampling.is_set():
            roles = drive(self.cluster.roles())
            if self._sampling.is_set():
                return  # the cluster may have been stopping
            self._roles = roles
            leaders = {str(tp): node for tp, node in sorted(roles.leaders.items())}
            isr = {str(tp): nodes for tp, nodes in sorted(roles.isr.items())}
            now = (leaders, isr, roles.controller, roles.answering, roles.agreed)
            if now != before:
                before = now
                self.recorder.write(
                    ev.RolesSeen(
                        ns=roles.ns,
                        leaders=leaders,
                        isr=isr,
                        controller=roles.controller,
                        answering=roles.answering,
                        agreed=roles.agreed,
                    )
                )
            self._sampling.wait(SAMPLE_S)

    def _show(self) -> None:
        done = [worker.progress for worker in self.workers]
        faults = ", ".join(self._faults.in_force) if self._faults else ""
        self.display.status(
            f"{self.phase.name.lower()}: {sum(p.ok for p in done)} ops ok, "
            f"{sum(p.fail for p in done)} failed, {sum(p.info for p in done)} unknown, "
            f"{sum(p.acked for p in done)} records acknowledged, {sum(p.read for p in done)} read; "
            f"faults: {faults or 'none'}; brokers answering: {list(self._roles.answering)}"
        )


def _unstable(
    rows: tuple[tuple[str, int, int, int, int], ...], tps: tuple[TopicPartition, ...]
) -> str:
    """Why these bounds are not final yet, apart from their age."""
    ends = {(topic, p, isolation): end for topic, p, isolation, _, end in rows}
    for tp in tps:
        hw, lso = ends.get((*tp, 0)), ends.get((*tp, 1))
        if hw is None or lso is None:
            return f"the end of {tp} could not be listed"
        if lso < hw:
            return f"the last stable offset of {tp} is {lso}, its high watermark {hw}"
    return ""
