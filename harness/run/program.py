"""The run program: the phases of a run, written once for every system and both runtimes.

set-up → warm-up → faults → heal → recover → quiesce → final reads → collect; the docstring of `harness.run`
says what each promises. Whatever happens (Ctrl-C, a full disk, lost clients, a dead Docker engine), the
program heals the faults, ends the clients, and leaves a recording that can be sealed.
"""

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Protocol

from core.capabilities import Linked, Wired, WiredBetween, WiredWithin
from core.cluster import PROGRAM_LOST, SENT, Cluster
from core.errors import ClusterError, ConfigError
from core.op import Phase, TopicPartition
from core.retention import removes
from core.runtime import Runtime, Signal, SpawnedTask
from core.systems import ExternalSection
from harness.clients.database import Store
from harness.clients.pool import ClientPool, Loss
from harness.clients.worker import FINAL_LEVELS
from harness.run import share_groups
from harness.run.cluster_monitor import ClusterMonitor
from harness.run.faults import Faults
from harness.run.guide import Guide
from harness.run.log_ends import (
    STABLE_S,
    after_reads,
    ends_of_run,
    open_ends,
    to_read,
    with_rows,
    with_unlisted,
)
from harness.run.planning import RunPlan
from harness.run.progress import Display, RunProgress, StatusLine
from harness.run.recovery import cold, lagging, stalled, unrecovered, unserved
from history import events as ev
from nemesis.execute import needs
from nemesis.types import Environment

WARMUP_S = 60.0
"""Every client must have worked once within this time."""
HEAL_S = 120.0
"""All of healing, with the end of the fault that is just being made, may take so long."""
ASKED_S = 10.0
"""After so long healing is only waited for while what runs the cluster answers, and so long where the user
interrupts it."""
SILENT_S = 5.0
"""A client that has not reported for so long stands still."""
FOR_EVER_S = 1e9
SENT_TO_CLIENTS = frozenset(-number for number in SENT)
"""Exit statuses of a client that was killed from outside; with any other signal it failed."""


class EventWriter(Protocol):
    """Takes the events of a run, from any thread."""

    broken: str
    """Why events could not be written ("" = they could)."""

    def write(self, event: ev.Event) -> None:
        """Append one event; does not raise."""


@dataclass(slots=True)
class RunProgram:
    """One run, from starting the cluster to the end of the final reads.

    started: the first event. logs, evidence: folders for the logs of the nodes, and for what they leave on
    disk. stable_s: see `log_ends.STABLE_S`. database: that the clients write to; None = they have none.
    guide: decides about the phase of faults.
    """

    plan: RunPlan
    cluster: Cluster
    clients: ClientPool
    runtime: Runtime
    recorder: EventWriter
    display: Display
    started: ev.RunStarted
    _: KW_ONLY
    logs: Path
    evidence: Path
    stable_s: float = STABLE_S
    database: Store | None = None
    guide: Guide = field(default_factory=Guide)
    phase: Phase = Phase.SETUP
    """The newest one."""
    _stop_faults: Signal = field(init=False)
    _monitor: ClusterMonitor = field(init=False)
    _faults: Faults = field(init=False)
    _faults_task: SpawnedTask | None = None
    _interrupted: bool = False
    _broken: str = ""
    """Why the recording is not whole ("" = it is)."""
    _healed: int = 0
    """How many nodes had ended unasked when healing started those that were down again."""
    _lagged: frozenset[TopicPartition] = frozenset()
    """Of a cluster of others: internal partitions that were not whole before the faults."""
    _met: set[str] = field(default_factory=set)
    """Brokers of other clusters, in words."""
    _unhealed: str = ""
    """Which faults the harness could not take back ("" = none)."""
    _said: int = 0
    """How many ends of nodes were shown to the user."""
    _entered: int = 0
    """When the newest phase began."""
    _line: StatusLine = field(default_factory=StatusLine)
    _hangs: bool = False
    """What runs the cluster did not let healing end."""

    def __post_init__(self) -> None:
        plan, cluster, runtime = self.plan, self.cluster, self.runtime
        # who led between two looks matters to locks, and to what a leader alone acknowledges
        epochs = plan.config.acks != -1 or bool(plan.workload.share_groups(plan.config))
        data, apart = set(plan.names.data), share_groups.queues(plan)
        self._monitor = ClusterMonitor(
            cluster, runtime, self.recorder.write, data, epochs=epochs, apart=frozenset(apart)
        )
        if not self.guide.alone:
            self._monitor.topics = frozenset(tp.topic for tp in plan.names.data)
        self._stop_faults = runtime.signal()
        clock, stopping = runtime.clock(self._stop_faults), self._stop_faults.is_set
        stage = Environment(
            cluster=cluster,
            clients=self.clients,
            clock=clock,
            stopping=stopping,
            healing_clock=runtime.clock(runtime.signal()),
            config=plan.config,
        )
        waits, length_s = plan.config.faults_begin == "served", plan.config.duration_s
        acked_ns = (lambda: self.clients.progress().acked_ns) if waits else self._now
        self._faults = Faults(plan.steps, plan.names, stage, self.recorder.write, acked_ns, length_s)

    async def run(self) -> None:
        """All phases. Raises: ClusterError, KeyboardInterrupt before anything was recorded; ConfigError until
        the end of the warm-up, where clients refuse their settings; afterwards only for faults of the harness
        itself."""
        try:
            await self._set_up()
            if await self._warm_up() and await self._faults_decided():
                await self._inject_faults()
            await self._heal()
            await self._recover()
            await self._hold()
            await self._quiesce()
            await self._final_reads()
            await self._collect()
        except GeneratorExit:  # a simulation that was given up: nothing can be awaited any more
            raise
        except BaseException:
            await self._clean_up()
            raise
        await self._clean_up()

    async def _clean_up(self) -> None:
        self.runtime.hold_interrupts()  # cleaning up is not cut short
        begin = self._now()

        async def overdue() -> bool:
            return self._now() - begin >= HEAL_S * 1e9

        self._monitor.stop()
        try:
            self._stop_faults.set()
            if self._faults_task is not None and not self._hangs:
                await self.runtime.attend(self._faults_task, overdue)
            self.clients.end()
        finally:
            await self.cluster.stop()

    # -- phases -------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        self.recorder.write(self.started)
        self._enter(Phase.SETUP)
        if isinstance(self.cluster, Linked) and Linked in needs(self.plan.steps):
            await self.cluster.use_proxies()
        if isinstance(self.cluster, Wired) and Wired in needs(self.plan.steps):
            await self.cluster.use_wire()
        if isinstance(self.cluster, WiredBetween) and WiredBetween in needs(self.plan.steps):
            await self.cluster.use_wire_between()
        if isinstance(self.cluster, WiredWithin) and WiredWithin in needs(self.plan.steps):
            await self.cluster.use_wire_within()
        self.clients.launch()
        begin = self._now()
        await self.cluster.start()
        count, seconds = len(self.cluster.brokers), (self._now() - begin) / 1e9
        self.display.say(f"cluster of {count} brokers ready in {seconds:.1f} s")
        settings = self.plan.config.settings_of_topics()
        for topic, partitions in self.plan.workload.topics(self.plan.config).items():
            replication = self.plan.config.replication_factor
            await self.cluster.create_topic(topic, partitions, replication, settings)
        await share_groups.configure(self.cluster, self.plan)
        self.runtime.hold_interrupts()
        self._monitor.start()

    async def _warm_up(self) -> bool:
        """Wait until every client has worked once; false where the run is to be cut short."""
        self._enter(Phase.WARMUP)
        missing = await self._wait(lambda: cold(self.clients.slots, self.clients.working), WARMUP_S)
        if missing and not self._cut_short():
            self._break(f"warm-up: {missing} after {WARMUP_S:.0f} s")
        return not missing

    async def _faults_decided(self) -> bool:
        """Wait until the guide has decided about faults; false where the run is to be cut short."""

        def undecided() -> str:
            steps = self.guide.faults(self.plan, self.cluster)
            if steps is not None:
                self._faults.steps = steps
            return "which faults" if steps is None else ""

        return not undecided() or not await self._wait(undecided, FOR_EVER_S)

    async def _inject_faults(self) -> None:
        self._enter(Phase.FAULTS)
        if self.plan.config.has(ExternalSection):
            self._lagged = lagging(self._monitor.roles)
        self._faults_task = self.runtime.spawn("faults", self._faults.run())
        early = ""

        def rest() -> str:
            nonlocal early
            early = self.guide.over(self._faults.in_force)
            return "" if early else "the time of this phase"

        await self._wait(rest, self.plan.config.duration_s)
        if early:
            why = f"the faults ended before their time, {early}"
            self.recorder.write(ev.Note(ns=self._now(), text=why))
            self.display.say(why)

    async def _heal(self) -> None:
        """Take all faults back, beside this task: what runs the cluster may not answer."""
        self._enter(Phase.HEAL)
        await self._monitor.look_at_nodes()
        self._healed = len(self._monitor.ended)
        healing = self.runtime.spawn("healing", self._take_back())
        begin = asked = self._now()
        ends, interruptible = begin + int(HEAL_S * 1e9), not self.runtime.interrupted
        why = ""

        async def give_up() -> bool:
            nonlocal asked, ends, interruptible, why
            self._supervise()
            self.display.refresh(self._status)
            now = self._now()
            if interruptible and self.runtime.interrupted:
                ends, interruptible = min(ends, now + int(ASKED_S * 1e9)), False
            if now - asked >= ASKED_S * 1e9:
                asked, why = now, await self.cluster.trouble()
            return bool(why) or now >= ends

        if await self.runtime.attend(healing, give_up):
            if self._unhealed:
                self._break(f"not everything could be healed: {self._unhealed}", on_record=True)
        else:
            self._hangs = True
            why = why or f"healing did not end within {(self._now() - begin) / 1e9:.0f} s"
            self.recorder.write(ev.HealFailed(ns=self._now(), why=why))
            self._break(f"not everything could be healed: {why}", on_record=True)
            return
        if (down := self.clients.down) and not self._cut_short():
            self._break(f"clients {list(down)} were crashed and could not be started again")

    async def _take_back(self) -> None:
        self._stop_faults.set()
        if self._faults_task is not None:
            await self._faults_task.join()
        self._unhealed = await self._faults.heal_all()

    async def _recover(self) -> None:
        if self._cut_short():
            return
        self._enter(Phase.RECOVER)
        self.clients.launch_readers(FINAL_LEVELS)
        begin = self._now()
        why = await self._wait(lambda: self._unrecovered(begin), self.plan.config.recovery_deadline_s)
        now = self._now()
        seconds = (now - begin) / 1e9
        if self._cut_short():
            return
        # What the harness cannot run any more is not the cluster's to recover from.
        if why and (trouble := await self.cluster.trouble()):
            self._break(trouble)
            return
        if why and (still := self.clients.silent(now - int(SILENT_S * 1e9))):
            self._break(f"clients {still} stand still: they have not reported for {SILENT_S:.0f} s")
            return
        ended = self._monitor.ended[self._healed :]
        if why and ended:
            why = "; ".join((why, *map(str, ended)))
        stand = self._stalled(begin) if why and not ended else ()
        self.recorder.write(ev.Recovered(ns=now, recovered=not why, seconds=seconds, why=why, stalled=stand))
        self.display.say(f"recovered in {seconds:.1f} s" if not why else f"not recovered: {why}")

    def _unrecovered(self, since_ns: int) -> str:
        clients, factor = self.clients, self.plan.config.replication_factor
        roles, data = self._monitor.roles, set(self._monitor.tps)
        return unrecovered(roles, data, factor, clients.slots, clients.working, since_ns, self._lagged)

    def _stalled(self, since_ns: int) -> tuple[int, ...]:
        """The clients that stand still, where nothing else is missing."""
        roles, data = self._monitor.roles, set(self._monitor.tps)
        if unserved(roles, data, self.plan.config.replication_factor, since_ns, self._lagged):
            return ()
        return stalled(self.clients.slots, self.clients.working, since_ns)

    async def _hold(self) -> None:
        """Keep cluster and load until the guide lets the run end."""
        if not self._cut_short() and not self.guide.done():
            await self._wait(lambda: "" if self.guide.done() else "leave to end", FOR_EVER_S)

    async def _quiesce(self) -> None:
        self._enter(Phase.QUIESCE)
        self._lose(await self.clients.quiesce(self.plan.end_s))
        self._supervise()

    async def _final_reads(self) -> None:
        if self._cut_short() or not self.clients.has_readers:
            return
        bounds = await self._list_ends()
        if self._cut_short():
            return
        self._enter(Phase.FINAL)
        ends = to_read(bounds.rows, self.plan.config)
        allowed = self.plan.config.final_reads_s + 2 * self.plan.config.verb_deadline_s
        self._lose(await self.clients.read_final(ends, allowed, self.started.ns))
        self._supervise()
        if removes(self.plan.config):
            self.recorder.write(await after_reads(self.cluster, bounds))

    async def _list_ends(self) -> ev.BoundsListed:
        """Record the ends of all logs, once they are stable, and what still holds one back then."""
        await self._monitor.look()  # topics made a moment ago
        bounds = await ends_of_run(
            self.cluster,
            self._monitor.tps,
            self.runtime,
            self.plan.config,
            stable_s=self.stable_s,
            cut_short=self._cut_short,
            show=lambda why: self.display.refresh(lambda: f"waiting until the logs stop growing: {why}"),
        )
        bounds = with_unlisted(bounds, self._monitor.tps, self.plan.config)
        if self.database is not None:
            try:
                bounds = with_rows(bounds, self.database.ends(tp.partition for tp in self._monitor.tps))
            except ClusterError as error:
                self._break(str(error))
        self.recorder.write(bounds)
        async for event in share_groups.listed(
            self.cluster, self.plan, self.started.run, self._monitor.tps, self._now
        ):
            self.recorder.write(event)
        if (tps := open_ends(bounds.rows)) and not self._cut_short():
            rows = tuple(await self.cluster.open_transactions(tps))
            self.recorder.write(ev.TransactionsOpen(ns=self._now(), rows=rows))
        return bounds

    async def _collect(self) -> None:
        self._enter(Phase.COLLECT)
        await self._monitor.look_at_nodes()
        if why := self._monitor.blind:
            self.recorder.write(ev.EndsUnseen(ns=self._now(), why=why))
        if self._hangs and (why := await self.cluster.trouble()):
            self.recorder.write(ev.EvidenceMissing(ns=self._now(), why=why))
            return
        if isinstance(self.cluster, Wired):
            for seen in await self.cluster.seen():
                self.recorder.write(ev.RequestSeen(seen=seen))
        await self.cluster.collect(self.logs)
        for why in await self.cluster.take_evidence(self.evidence):
            self.recorder.write(ev.EvidenceMissing(ns=self._now(), why=why))
            self.display.say(f"evidence is missing: {why}")

    # -- supervision --------------------------------------------------------------------------

    def _now(self) -> int:
        return self.runtime.now_ns()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._entered = phase, self._now()
        self.display.entered(phase)
        self.recorder.write(ev.PhaseStarted(ns=self._now(), phase=phase))
        self.clients.enter(phase)
        self.display.refresh(self._status)

    async def _wait(self, missing: Callable[[], str], deadline_s: float) -> str:
        """Wait until nothing is missing, or the run is cut short; "" or what was still missing."""
        why = ""

        def done() -> bool:
            nonlocal why
            self._supervise()
            self.display.refresh(self._status)
            why = missing()
            return not why or self._cut_short()

        await self.runtime.until(done, deadline_s)
        return why

    def _cut_short(self) -> bool:
        """The run is to end now: the user interrupted it, or the recording is broken."""
        if self.runtime.interrupted and not self._interrupted:
            self._interrupted = True
            self.recorder.write(ev.Interrupted(ns=self._now()))
            self.display.say("interrupted: healing, then checking what was recorded so far")
        if self.recorder.broken and not self._broken:
            self._break(self.recorder.broken)
        return self._interrupted or bool(self._broken)

    def _break(self, why: str, *, on_record: bool = False) -> None:
        """The recording is not whole. on_record: another event says so already."""
        self._broken = self._broken or why
        if not on_record:
            self.recorder.write(ev.Note(ns=self._now(), text=why, incomplete=True))
        self.display.say(why)

    def _supervise(self) -> None:
        """Record lost clients and brokers of another cluster, and say which nodes ended. Raises: ConfigError,
        where a client refuses its settings."""
        self._say_ends()
        for node, cluster in self._monitor.roles.strangers.items():
            self._meet(f"a broker of cluster {cluster} answers at the address of node {node}")
        for loss in self.clients.losses():
            if loss.status == os.EX_CONFIG and self.phase <= Phase.WARMUP:
                raise ConfigError(loss.words)
            (lost,) = self._lose([loss])
            if loss.status == os.EX_PROTOCOL:
                self._meet(f"{lost.who}: {loss.words}", loss.slot)
            elif loss.status == os.EX_IOERR:
                self._break(f"the journal of {lost.who} could not be written: {loss.why}")
            elif loss.status and loss.status not in SENT_TO_CLIENTS | PROGRAM_LOST:
                self._break(f"{lost.who} of the harness failed: {loss.why}")
        if self.phase <= Phase.RECOVER and not self.clients.working and not self._broken:
            self._break("all clients were lost")

    def _say_ends(self) -> None:
        """Nodes that ended and clocks that jumped, as soon as that is seen."""
        for end in self._monitor.ended[self._said :]:
            self._said += 1
            self.display.say(str(end))
        after = self._monitor.ended[self._healed :]
        if self.phase is Phase.RECOVER and not self._broken:
            for end in after:
                if end.outside:
                    self._break(f"after all was healed, {end}: whether the cluster recovers cannot be said")
                    return

    def _meet(self, text: str, slot: int = -1) -> None:
        """Another cluster answered. The run ends: its clients may work on that one."""
        if text not in self._met:
            self._met.add(text)
            self._broken = self._broken or text
            self.recorder.write(ev.WrongClusterSeen(ns=self._now(), slot=slot, text=text))
            self.display.say(text)

    def _lose(self, losses: list[Loss]) -> list[ev.WorkerLost]:
        now = self._now()
        lost = [
            ev.WorkerLost(ns=now, slot=one.slot, why=one.why, status=one.status, level=one.level)
            for one in losses
        ]
        for event in lost:
            self.recorder.write(event)
            self.display.say(f"{event.who} {event.why}")
        return lost

    def _status(self) -> str:
        config, now, done = self.plan.config, self._now(), self.clients.progress()
        loading = self.phase is Phase.FAULTS
        limits = {
            Phase.WARMUP: WARMUP_S,
            Phase.FAULTS: config.duration_s,
            Phase.HEAL: HEAL_S,
            Phase.RECOVER: config.recovery_deadline_s,
        }
        return self._line.text(
            RunProgress(
                phase="load" if loading and not self._faults.steps else self.phase.name.lower(),
                at_s=now / 1e9,
                seconds=(now - self._entered) / 1e9,
                of_s=limits.get(self.phase, 0.0),
                planned=loading,
                acked=done.acked,
                read=done.read,
                unknown=done.info,
                faults=self._faults.in_force,
                brokers=len(self._monitor.roles.answering),
                of_brokers=config.brokers,
            )
        )
