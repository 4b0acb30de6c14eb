"""The load clients of a run: start, command, crash, restart, pause, and notice which are lost.

`ClientPool` implements `core.load_clients.Clients` for nemeses, over worker processes or simulated tasks
alike. The task of the faults acts on it while the run program supervises: one lock guards every change of a
client, and nothing waits for the end of a client while it holds the lock.

A client that a fault crashed is not lost: that fault, or `heal_all` after it, restarts it. A client that
ended without a fault is lost, and stays down.
"""

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from core.errors import ClusterError
from core.load_clients import ClientSlot, CrashPoint
from core.op import Isolation, Phase, TopicPartition
from core.runtime import Runtime
from harness.clients.worker_protocol import (
    ClientProgress,
    Command,
    Crash,
    Enter,
    Grow,
    ReadFinal,
    Rest,
    Resume,
    WorkerHandle,
)

CRASH_S = 2.0
"""A client that does not get to its crash point within this time dies where it is."""
DEATH_S = 5.0
"""A process ends this soon after SIGKILL, or something holds it that SIGKILL does not end."""


class Loss(NamedTuple):
    """A client that ended without a fault, or that the pool had to kill. status: its exit status, None =
    killed by the pool. words: the last line of its stderr. level: as of `history.events.WorkerLost`."""

    slot: int
    status: int | None
    why: str
    words: str = ""
    level: str = ""


@dataclass
class ClientPool:
    """All load clients, in slots 0 to N - 1, and after them the final readers.

    open_worker: starts the client of a slot. crash_s: see `CRASH_S`.
    """

    slots: tuple[ClientSlot, ...]
    open_worker: Callable[[int], WorkerHandle]
    runtime: Runtime
    crash_s: float = CRASH_S
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _handles: list[WorkerHandle] = field(default_factory=list)
    _readers: list[WorkerHandle] = field(default_factory=list)
    _levels: dict[int, str] = field(default_factory=dict)
    """What each reader reads at, by slot."""
    _lost: set[int] = field(default_factory=set)
    _phase: Phase = Phase.SETUP
    _ended: bool = False
    _reading: bool = False
    """The final readers were asked to read."""
    _before: ClientProgress = field(default_factory=ClientProgress)
    """What clients did that were restarted since."""
    _grown: list[tuple[str, int]] = field(default_factory=list)
    """Partitions that topics got during the run."""
    _resting: bool = False
    _remade: int = 0
    """How often the topics of the run were deleted and made again."""

    # -- the run program

    def launch(self) -> None:
        """Start all clients. Where that fails half-way, `end` still ends those that were started."""
        for slot in self.slots:
            self._handles.append(self.open_worker(slot.slot))

    def launch_readers(self, levels: Sequence[Isolation]) -> None:
        """Start the final readers, one at each level; they wait for `read_final`."""
        for slot, level in enumerate(levels, len(self.slots)):
            self._levels[slot] = level.name.lower()
            self._readers.append(self.open_worker(slot))
            if self._grown:
                self._readers[-1].tell(Grow(self._grown))
            if self._remade:
                self._readers[-1].tell(Resume(self._remade))

    def enter(self, phase: Phase) -> None:
        """Tell all load clients, those that are restarted later too, that the run enters a phase."""
        with self._lock:
            self._phase = phase
            for handle in self._handles:
                if handle.ended is None:
                    handle.tell(Enter(phase))

    @property
    def handles(self) -> tuple[WorkerHandle, ...]:
        """The client of each slot, as it is now."""
        return tuple(self._handles)

    @property
    def working(self) -> dict[int, ClientProgress]:
        """The progress of each client that is not lost, by slot."""
        return {h.slot: h.progress for h in self.handles if h.slot not in self._lost}

    @property
    def down(self) -> tuple[int, ...]:
        """Slots whose client a fault crashed and nothing has restarted."""
        return tuple(handle.slot for handle in self.handles if _executed(handle))

    def silent(self, since_ns: int) -> list[int]:
        """Clients that run, as far as the pool knows, and have not reported since: they stand still."""
        return [
            handle.slot
            for handle in self.handles
            if handle.ended is None and handle.slot not in self._lost and handle.heard_ns < since_ns
        ]

    @property
    def has_readers(self) -> bool:
        """The final readers were started."""
        return bool(self._readers)

    def progress(self) -> ClientProgress:
        """What all clients together have done so far."""
        with self._lock:
            return reduce(ClientProgress.plus, (h.progress for h in self._handles), self._before)

    def losses(self) -> list[Loss]:
        """Clients and readers that were lost since the last call."""
        found = []
        for worker in (*self.handles, *self._readers):
            ended = worker.ended
            if ended is None or worker.slot in self._lost or _executed(worker):
                continue
            if ended == 0 and self._asked_to_end(worker.slot):
                continue
            self._lost.add(worker.slot)
            why, words = worker.why_ended(), worker.last_words()
            found.append(Loss(worker.slot, ended, why, words, self._levels.get(worker.slot, "")))
        return found

    def _asked_to_end(self, slot: int) -> bool:
        """A client that has ended in order did so because it was asked to."""
        return self._phase >= Phase.QUIESCE if slot < len(self.slots) else self._reading

    async def quiesce(self, deadline_s: float) -> list[Loss]:
        """Wait until all load clients have ended, as `Phase.QUIESCE` asked them to; those that were
        killed because they had not by the deadline."""
        return await self._all_end(self._handles, deadline_s, "did not stop in time and was killed")

    async def read_final(
        self, ends: dict[int, list[tuple[str, int, int]]], deadline_s: float, begun_ns: int = 0
    ) -> list[Loss]:
        """Let the readers read up to these ends (see `ReadFinal`); those that were killed because they had
        not by the deadline."""
        self._reading = True
        for reader in self._readers:
            reader.tell(ReadFinal(ends, begun_ns))
        why = "did not end its reads in time and was killed"
        return await self._all_end(self._readers, deadline_s, why)

    async def _all_end(self, workers: Sequence[WorkerHandle], deadline_s: float, why: str) -> list[Loss]:
        late = []
        await self._until_ended(workers, deadline_s)
        for worker in workers:
            if worker.ended is None:
                self._lost.add(worker.slot)
                late.append(Loss(worker.slot, None, why, level=self._levels.get(worker.slot, "")))
                worker.strike()
                worker.close()
        return late

    async def _until_ended(self, workers: Sequence[WorkerHandle], deadline_s: float) -> bool:
        return await self.runtime.until(
            lambda: all(worker.ended is not None for worker in workers), deadline_s
        )

    def strike(self) -> None:
        """SIGKILL to all; nothing restarts them. Takes no lock: safe in a handler of signals."""
        self._ended = True
        for handle in (*self.handles, *self._readers):
            handle.strike()

    def end(self) -> None:
        """Kill those that still run and release everything; nothing restarts them."""
        self._ended = True
        with self._lock:
            for handle in (*self._handles, *self._readers):
                handle.strike()
                handle.close()

    # -- nemeses (core.load_clients.Clients)

    def acked_ns(self, slot: int) -> int:
        """When the client of a slot last learned that a record was acknowledged; 0 = never."""
        return self._handles[slot].progress.acked_ns

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        """SIGKILL each when it gets to the point; after `crash_s` wherever it is then.

        Raises: ClusterError, where one has ended already (then none is crashed) or did not die.
        """
        with self._lock:
            handles = self._running(slots)
            for handle in handles:
                handle.condemned = True
                handle.tell(Crash(point))
        await self._until_ended(handles, self.crash_s)
        for handle in handles:
            if handle.ended is None:
                handle.strike()
        if not await self._until_ended(handles, DEATH_S):
            alive = [handle.slot for handle in handles if handle.ended is None]
            raise ClusterError(f"clients {alive} outlive SIGKILL")

    async def restart(self, slots: Sequence[int]) -> None:
        """Start clients that a fault crashed: new processes of the same slots. No-op for others.

        Raises: OSError, where a process cannot be started.
        """
        for slot in slots:
            with self._lock:
                dead = self._handles[slot]
                if self._ended or not _executed(dead):
                    continue
                dead.close()
                fresh = self.open_worker(slot)
                self._before = self._before.plus(dead.progress)
                self._handles[slot] = fresh
                if self._grown:
                    fresh.tell(Grow(self._grown))
                if self._remade:
                    fresh.tell(Resume(self._remade))
                if self._resting:
                    fresh.tell(Rest())
                fresh.tell(Enter(self._phase))

    async def grow(self, tps: Sequence[TopicPartition]) -> None:
        """Tell all load clients, those that are restarted later too, of new partitions."""
        with self._lock:
            self._grown += [(tp.topic, tp.partition) for tp in tps]
            self._tell(Grow(self._grown))

    async def rest(self, within_s: float) -> tuple[int, ...]:
        """See `core.load_clients.Clients`."""
        with self._lock:
            self._resting = True
            self._tell(Rest())

        def working() -> tuple[int, ...]:
            return tuple(h.slot for h in self.handles if h.ended is None and not h.progress.rested_ns)

        await self.runtime.until(lambda: not working(), within_s)
        return working()

    async def work(self, remade: int) -> None:
        """See `core.load_clients.Clients`."""
        with self._lock:
            self._resting, self._remade = False, remade
            self._tell(Resume(remade))

    def _tell(self, command: Command) -> None:
        for handle in self._handles:
            if handle.ended is None:
                handle.tell(command)

    async def pause(self, slots: Sequence[int]) -> None:
        """SIGSTOP. They continue when the harness dies, however it dies.

        Raises: ClusterError, where one is not running.
        """
        with self._lock:
            try:
                for handle in self._running(slots):
                    handle.pause()
            except OSError as error:
                raise ClusterError(str(error)) from error

    async def resume(self, slots: Sequence[int]) -> None:
        """SIGCONT. No-op for running ones."""
        with self._lock:
            for slot in slots:
                self._handles[slot].resume()

    def _running(self, slots: Sequence[int]) -> list[WorkerHandle]:
        handles = [self._handles[slot] for slot in slots]
        if gone := [handle.slot for handle in handles if handle.ended is not None]:
            raise ClusterError(f"clients {gone} are not running")
        return handles


def _executed(worker: WorkerHandle) -> bool:
    """A fault condemned the client, and it died as meant."""
    return worker.condemned and worker.ended == -signal.SIGKILL
