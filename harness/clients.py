"""The loading clients of a run, as their parent keeps them: told, crashed, started again, paused.

`LoadingClients` implements `harness.cluster.Clients` for nemeses. The thread of faults acts on it while
the main thread supervises: what changes a client happens under one lock, and never waits for a client
to die while it is held.

A client that a fault crashed is not lost: the fault, or `heal_all` after it, starts it again. One that
dies by itself is, and stays down.

Not here: one process (`harness.workers`), what it does (`harness.worker`), when which of them is hurt
(`nemesis`), what the loss of one means (`harness.interpreter`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from harness.cluster import ClientSlot, ClusterError, CrashPoint
from harness.messages import Crash, Enter, Progress, Start
from harness.op import Phase
from harness.store import Run
from harness.workers import WorkerHandle, wait_ended

CRASH_S = 2.0
"""A client that does not get to its crash point within this time dies where it is."""
DEATH_S = 5.0
"""A process ends this soon after SIGKILL, or something holds it that SIGKILL does not end."""


class LoadingClients:
    """All loading clients, one worker process each; slots are 0 to N - 1.

    open: starts the worker of a slot.
    """

    def __init__(
        self,
        run: Run,
        slots: Sequence[ClientSlot],
        open_worker: Callable[[Run, int], WorkerHandle] = WorkerHandle,
    ) -> None:
        self._run = run
        self._slots = tuple(slots)
        self._open = open_worker
        self._lock = threading.RLock()
        self._handles: list[WorkerHandle] = []
        self._start: Start | None = None
        self._phase = Phase.SETUP
        self._over = False
        self._before = Progress()
        """What clients did that were replaced since."""

    # -- what the interpreter does with them

    def launch(self) -> None:
        """Start all worker processes, one by one: what was started is ended, come what may."""
        for slot in self._slots:
            self._handles.append(self._open(self._run, slot.slot))

    def begin(self, start: Start) -> None:
        """Tell all how to reach the cluster."""
        with self._lock:
            self._start = start
            for handle in self._handles:
                handle.tell(start)

    def enter(self, phase: Phase) -> None:
        """Tell all, and whoever is started later, that the run enters a phase."""
        with self._lock:
            self._phase = phase
            for handle in self._handles:
                handle.tell(Enter(phase))

    @property
    def handles(self) -> tuple[WorkerHandle, ...]:
        """The worker of each slot, as it is now."""
        return tuple(self._handles)

    @property
    def down(self) -> tuple[int, ...]:
        """Slots whose client a fault crashed, and nobody has started again."""
        return tuple(handle.slot for handle in self.handles if handle.executed)

    def progress(self) -> Progress:
        """What all clients together did so far."""
        with self._lock:
            return _sum(self._before, *(handle.progress for handle in self._handles))

    def strike(self) -> None:
        """SIGKILL to all, and none is started again. Takes no lock: safe in a handler of signals."""
        self._over = True
        for handle in self.handles:
            handle.strike()

    def end(self) -> None:
        """Kill what still runs and release everything; none is started again."""
        self._over = True
        with self._lock:
            for handle in self._handles:
                handle.kill()
                handle.close()

    # -- what nemeses do with them (harness.cluster.Clients)

    @property
    def slots(self) -> tuple[ClientSlot, ...]:
        """All loading clients."""
        return self._slots

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        """SIGKILL each when it gets to the point; after 2 s wherever it is then.

        Raises: ClusterError, where one is not running (then nobody is crashed) or did not die.
        """
        with self._lock:
            handles = self._running(slots)
            for handle in handles:
                handle.condemned = True
                handle.tell(Crash(point))
        for handle in wait_ended(handles, CRASH_S):
            handle.strike()
        if alive := wait_ended(handles, DEATH_S):
            raise ClusterError(f"clients {[h.slot for h in alive]} outlive SIGKILL")

    async def restart(self, slots: Sequence[int]) -> None:
        """Start clients that a fault crashed: new processes of the same slots. No-op for others.

        Raises: OSError, where a process cannot be started.
        """
        for slot in slots:
            with self._lock:
                dead = self._handles[slot]
                if self._over or not dead.executed:
                    continue
                dead.close()
                fresh = self._open(self._run, slot)
                self._before = _sum(self._before, dead.progress)
                self._handles[slot] = fresh
                if self._start is not None:
                    fresh.tell(self._start)
                fresh.tell(Enter(self._phase))

    async def pause(self, slots: Sequence[int]) -> None:
        """SIGSTOP. They go on when the harness dies, come what may.

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


def idle_groups(
    slots: Sequence[ClientSlot], progress: Mapping[int, Progress], since_ns: int
) -> list[str]:
    """Groups of which no member was given a record by an op that was invoked at or after `since_ns`.

    progress: of each client that is there, by slot. Members of a group that works may well be given
    nothing, where there are more of them than partitions; all together may not, as long as somebody
    feeds them. Without a producer that is no member itself nobody can tell.
    """
    there = [slot for slot in slots if slot.slot in progress]
    if not any(slot.produces and not slot.group for slot in there):
        return []
    newest: dict[str, int] = {}
    for slot in there:
        worked = progress[slot.slot].worked_ns
        newest[slot.group] = max(worked, newest.get(slot.group, 0))
    return sorted(group for group, worked in newest.items() if group and worked < since_ns)


def _sum(*all_progress: Progress) -> Progress:
    """Counters together; the newest of the times."""
    total = {
        name: (max if name.endswith("_ns") else sum)(getattr(p, name) for p in all_progress)
        for name in Progress.__struct_fields__
    }
    return Progress(**total)
