"""The life of one load client, in whatever runs it: it takes commands, and lives through processes.

A client has a *slot*, and works as one *process* (incarnation) after another: after an indefinite op it
closes its session and continues under the next process number of its slot (slot, slot + width, …). A client
that is started after a crash takes the first number without a journal: no number is used twice.

Slots below the number of the workload's plans load the cluster; the two after them read everything at the
end, one at each isolation level.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from core.client_settings import ClientSettings, SessionSpec
from core.config import RunConfig
from core.generator import Planned, Slot, source
from core.load_clients import CrashPoint
from core.op import DATABASE, Assign, End, Isolation, Op, Outcome, Phase, Poll, ReadDatabase, TopicPartition
from core.runtime import Clock, Runtime
from core.session import Session
from harness.clients.application.copies import Copies
from harness.clients.application.instance import started
from harness.clients.application.position import GroupPosition
from harness.clients.application.results import Results
from harness.clients.database import Store
from harness.clients.executor import Client
from harness.clients.worker_protocol import (
    ClientProgress,
    Command,
    Crash,
    Enter,
    Grow,
    ReadFinal,
    Rest,
    Resume,
)
from history.journal import Closed, Invoked, JournalHeader, JournalWriter, OpCompleted
from history.run_folder import FORMAT
from workloads.registry import workload_of_run

LOOK_S = 0.5
"""Pause between two looks at an instance of an application."""
BUSY = "BUSY"
"""Code of an instance that did not end in order (`Instance.end`)."""
REOPEN_S = 0.1
"""Pause before the next process of a slot: a client that fails at once must not spin."""
BEHIND_NS = 1_000_000_000
"""A client that is later than this does not try to catch up."""
FINAL_LEVELS = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
"""Isolation levels of the final readers, in the order of their slots."""


class Died(BaseException):
    """The client was crashed at this point of its work."""


class Host(Protocol):
    """What runs a client: a worker process, or the simulator."""

    def connect(self, spec: SessionSpec) -> Session:
        """Open the session of a process."""

    def journal(self, header: JournalHeader) -> JournalWriter:
        """Open the journal of a process."""

    def used(self, process: int) -> bool:
        """Whether a journal of this process exists."""

    def database(self, config: RunConfig) -> Store | None:
        """What holds rows of the run outside of Kafka; None where its workload has none."""

    def die(self) -> None:
        """SIGKILL: nothing of the client has an effect from now on."""

    def outside(self) -> tuple[Mapping[str, str], Path]:
        """For a program beside the session: how it reaches the cluster, as `Endpoint.args` says, and the
        folder for its log."""


class Worker:
    """One slot. `take` may be called from another thread than `serve`."""

    def __init__(self, run: str, slot: int, config: RunConfig, runtime: Runtime, host: Host) -> None:
        self.slot = slot
        self.phase = Phase.SETUP
        self.progress = ClientProgress()
        self._run = run
        self._config = config
        self._workload = workload_of_run(config)
        self._plans = self._workload.plans(config)
        self._width = len(self._plans) + len(FINAL_LEVELS)
        self._instances = [plan.slot for plan in self._plans if config.app and plan.group]
        self._host = host
        self._database = host.database(config)
        self._dead = False
        self._crash_at: CrashPoint | None = None
        self._final: ReadFinal | None = None
        self._more: tuple[TopicPartition, ...] = ()
        """Partitions that topics got during the run."""
        self._resting = False
        self._remade = 0
        self._begun = runtime.signal()
        self._stopping = runtime.signal()
        self._clock, self._runtime = runtime.clock(self._stopping), runtime

    def take(self, command: Command) -> None:
        """Do what a command says."""
        match command:
            case Enter(phase=phase):
                self.phase = phase
                if phase >= Phase.QUIESCE:
                    self._stopping.set()
                if phase >= Phase.WARMUP:
                    self._begun.set()
            case ReadFinal():
                self.phase = Phase.FINAL
                self._final = command
                self._begun.set()
            case Grow(tps=tps):
                self._more = tuple(TopicPartition(*tp) for tp in tps)
            case Rest():
                self._resting = True
            case Resume(remade=remade):
                self._remade, self._resting = remade, False
            case Crash(point=CrashPoint.ANYWHERE):
                self.die()
            case Crash(point=point):
                self._crash_at = point

    def die(self) -> None:
        """SIGKILL."""
        self._dead = True
        self._host.die()

    async def serve(self) -> None:
        """The whole life. Raises: Died, in a simulation; a worker process dies instead."""
        await self._begun.wait()
        if self.slot in self._instances:
            await self._run_instance(self._plans[self.slot])
        elif self.slot < len(self._plans):
            await self._load(self._plans[self.slot])
        else:
            await self._read_final(FINAL_LEVELS[self.slot - len(self._plans)])

    def at(self, point: CrashPoint) -> None:
        """The client gets to this point of its work, and dies if a crash was asked for here. Raises: Died."""
        if self._crash_at is point:
            self.die()
        if self._dead:
            raise Died

    async def _load(self, plan: SessionSpec) -> None:
        while not self._stopping.is_set():
            process = self._unused()
            spec = replace(plan, process=process)
            client, more = self._open(spec), self._more
            slot = Slot(
                slot=self.slot,
                process=process,
                tps=tuple(sorted({*self._workload.tps(self._config), *more})),
                rng=source(self._config.seed, self.slot, (process - self.slot) // self._width),
            )
            ops = self._workload.ops(self._config, spec, slot)
            told = plan.acks is not None or plan.group is None  # others learn of partitions by their group
            over = partial(self._over, len(more) if told else sys.maxsize)
            end = await invoke_when_due(client, ops, self._clock, over)
            await client.close(end)
            await self._clock.sleep(REOPEN_S)
            await self._rest()

    async def _rest(self) -> None:
        """Wait until the slot may have a process again."""
        while self._resting and not self._stopping.is_set():
            self.progress.rested_ns = self.progress.rested_ns or self._clock.now_ns()
            await self._clock.sleep(REOPEN_S)
        self.progress.rested_ns = 0

    async def _run_instance(self, plan: SessionSpec) -> None:
        """Run an instance of the application until nothing feeds it and it has finished."""
        assert self._config.app is not None
        topic = self._config.app.input
        spec = replace(plan, process=self._unused())
        journal, begin = self._journal(spec, ClientSettings()), self._clock.now_ns()
        journal.write(Invoked(1, begin, self.phase, "instance", False, False, ()))
        instance = started(self._config, spec, *self._host.outside())
        while not (self._stopping.is_set() and instance.finished()):
            looked = self._clock.now_ns()
            known, on = instance.look(sorted(self._partitions(topic)))
            self.progress.ok_invoked_ns = looked if known else self.progress.ok_invoked_ns
            self.progress.worked_ns = looked if on else self.progress.worked_ns
            await self._runtime.until(lambda: False, LOOK_S)
        in_order = instance.end()
        done = (Outcome.OK, "") if in_order else (Outcome.INFO, BUSY)
        journal.write(OpCompleted(1, self._clock.now_ns(), *done))
        journal.write(Closed(self._clock.now_ns(), End.CLOSED))
        journal.close()

    def _partitions(self, topic: str) -> set[TopicPartition]:
        """All partitions of a topic of the application, those that it got during the run, too."""
        named = self._config.prefix + topic
        return {tp for tp in (*self._workload.tps(self._config), *self._more) if tp.topic == named}

    async def _read_application(self, client: Client, ends: Mapping[TopicPartition, int]) -> None:
        """Read input and output of the application, and journal what it made as one more process of its.

        ends: all that were listed. Each topic has its own time: a partition that cannot be read to its end
        leaves the others. Where not all of the input is read, what was made of the rest is not known
        (`Copies.input_read`). Where not all of the output is, what else was made is not known: then no
        committed offset is journaled, so that nothing is missed.
        """
        plan = self._plans[self._instances[0]]
        spec = replace(plan, process=self._unused(plan.slot))
        app = self._config.app
        assert self._final is not None
        assert app is not None
        made = Copies(
            run=self._run,
            input=self._config.prefix + app.input,
            process=spec.process,
            size=self._config.record_size,
            outputs=app.outputs if app.shape == "flat-map" else None,
            repeats=self._config.repeats,
            results=self._database if isinstance(self._database, Results) else None,
        )
        client.read_values(made.value)
        if made.results is not None:
            made.results.grown = any(tp.topic == self._config.prefix + app.output for tp in self._more)
        made.input_read(tp.partition for tp in await self._read_topic(client, app.input, ends))
        whole = not (app.output and await self._read_topic(client, app.output, ends))
        if whole and (rows := tuple(tp for tp in ends if tp.topic == DATABASE)):
            done = await client.invoke(Op(f="read-effects", mops=(ReadDatabase(rows),)))
            whole = done.outcome is Outcome.OK
        inputs = sorted(self._partitions(app.input) | {tp for tp in ends if tp.topic == made.input})
        position = GroupPosition(self._host.outside()[0], plan.group or "")
        committed = position.committed(inputs, self._config.verb_deadline_s) if whole else None
        position.close()
        journal = self._journal(spec, ClientSettings())
        made.write(journal, self._final.begun_ns, self._clock.now_ns(), committed)

    async def _read_topic(
        self, client: Client, topic: str, ends: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Read a topic of the application; the partitions that were not read up to a listed end."""
        own = {tp: end for tp, end in ends.items() if tp.topic == self._config.prefix + topic}
        await read_to_ends(client, own, self._clock, self._config.final_deadline_s)
        late = {tp for tp, end in own.items() if not reached(client, {tp: end})}
        return self._partitions(topic) - own.keys() | late

    async def _read_final(self, isolation: Isolation) -> None:
        """Read every partition from its beginning up to the listed end, with a fresh consumer."""
        assert self._final is not None
        spec = SessionSpec(
            slot=self.slot,
            process=self.slot,
            isolation=isolation,
            report_end=True,
            deadline_s=self._config.verb_deadline_s,
        )
        ends = {TopicPartition(topic, p): end for topic, p, end in self._final.ends[isolation]}
        client = self._open(spec)
        if self._instances and isolation is Isolation.READ_COMMITTED:
            await self._read_application(client, ends)
        else:
            await self._read_logs(client, ends)
        await client.close(End.CLOSED)

    async def _read_logs(self, client: Client, ends: Mapping[TopicPartition, int]) -> None:
        rows = tuple(tp for tp in ends if tp.topic == DATABASE)
        records = {tp: end for tp, end in ends.items() if tp not in rows}
        await read_to_ends(client, records, self._clock, self._config.final_deadline_s)
        if rows:
            await client.invoke(Op(f="read-database", mops=(ReadDatabase(rows),)))

    def _over(self, known: int) -> bool:
        """Whether a process is to end that knows this number of further partitions."""
        return self._stopping.is_set() or self._resting or len(self._more) > known

    def _unused(self, slot: int | None = None) -> int:
        process = self.slot if slot is None else slot
        while self._host.used(process):
            process += self._width
        return process

    def _open(self, spec: SessionSpec) -> Client:
        session = self._host.connect(spec)
        return Client(
            run=self._run,
            process=spec.process,
            session=session,
            journal=self._journal(spec, session.client),
            clock=self._clock,
            phase=lambda: self.phase,
            config=self._config,
            progress=self.progress,
            at=self.at,
            database=self._database,
        )

    def _journal(self, spec: SessionSpec, client: ClientSettings) -> JournalWriter:
        header = JournalHeader(
            format=FORMAT,
            run=self._run,
            process=spec.process,
            slot=spec.slot,
            ns=self._clock.now_ns(),
            spec=spec,
            client=client,
            remade=self._remade or msgspec.UNSET,
        )
        return self._host.journal(header)


async def invoke_when_due(
    client: Client, ops: Iterable[Planned], clock: Clock, stopping: Callable[[], bool]
) -> End:
    """Invoke the ops when they are due, until they end, the load stops, or one calls for a new process.

    Ops are due at fixed distances, so that waiting for one answer does not lower the rate.
    """
    planned_ns = clock.now_ns()
    for planned in ops:
        planned_ns += int(planned.wait_s * 1e9)
        now = clock.now_ns()
        planned_ns = max(planned_ns, now - BEHIND_NS)
        await clock.sleep((planned_ns - now) / 1e9)
        if stopping():
            break
        done = await client.invoke(planned.op)
        if done.replace or (planned.first and done.outcome is not Outcome.OK):
            return End.REPLACED
    return End.CLOSED


async def read_to_ends(
    client: Client, ends: Mapping[TopicPartition, int], clock: Clock, deadline_s: float
) -> None:
    """Read every partition from its beginning up to the listed end, or until the deadline."""
    deadline = clock.now_ns() + int(deadline_s * 1e9)
    done = await client.invoke(Op(f="assign", mops=(Assign(tuple(ends)),)))
    while not done.replace and clock.now_ns() < deadline and not reached(client, ends):
        done = await client.invoke(Op(f="poll", mops=(Poll(5000, 200),)))


def reached(client: Client, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether everything was read up to these ends."""
    return all(client.ends.get(tp, -1) >= end for tp, end in ends.items())
