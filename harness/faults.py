"""Executing a plan of faults against a running cluster and its clients, in a thread of its own.

Every fault is announced before and recorded after it is in force, with the nodes and the clients it
hit. Healing always happens: at the end of its time, at the end of the phase, and when the run is
interrupted. Putting a fault in force may take long (a rolling restart): its waits end early, and it
leaves the rest undone, when no further faults are wanted.

Not here: which faults there are and whom they hit (`nemesis`).
"""

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.cluster import Clients, Cluster, Roles
from harness.events import Event, FaultFailed, FaultHealed, FaultStarted, Note
from harness.recorder import Recorder
from harness.session import Clock, drive


class Step(Protocol):
    """One planned fault."""

    @property
    def fault(self) -> int:
        """Dense id."""

    @property
    def name(self) -> str:
        """`family:kind@target`."""

    @property
    def at_s(self) -> float:
        """Start, seconds after the phase of faults began."""

    @property
    def hold_s(self) -> float:
        """How long it is in force."""


class Injected(Protocol):
    """A fault in force."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Which nodes were hit."""

    @property
    def slots(self) -> tuple[int, ...]:
        """Which clients were hit."""

    @property
    def text(self) -> str:
        """One sentence."""

    @property
    def colour(self) -> str:
        """Of its band."""


class Nemesis(Protocol):
    """A plan bound to a run: what `harness.run` hands to the interpreter."""

    @property
    def steps(self) -> Sequence[Step]:
        """The plan."""

    def stage(
        self, cluster: Cluster, clients: Clients, clock: Clock, stopping: Callable[[], bool]
    ) -> Any:
        """What its faults act on, for the other verbs. `clock.sleep` returns early once `stopping`."""

    async def inject(self, stage: Any, step: Any, roles: Roles) -> Injected:
        """Put a fault in force. Raises: NoTarget, ClusterError."""

    async def heal(self, stage: Any, injected: Any) -> None:
        """Take it back."""

    async def heal_all(self, stage: Any) -> None:
        """Take back whatever may be in force."""


class _FaultClock:
    """Real time. Sleeping ends early when no further faults are wanted."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        self._stop.wait(max(0.0, seconds))


def _healing(agenda: Sequence[tuple[float, int, int, Step]], step: Step) -> float:
    """When the fault in force of the same family is to be healed, -1 = there is none.

    At the same time healing comes before starting (0 < 1)."""
    family = step.name.partition(":")[0]
    due = [at for at, starts, _, it in agenda if not starts and it.name.partition(":")[0] == family]
    return max(due, default=-1.0)


class Faults:
    """Carries out a plan within `length_s`; `in_force` names the faults in force now.

    A coroutine in whatever time `clock` has; `note` takes a text for the record.
    """

    def __init__(
        self,
        nemesis: Nemesis,
        cluster: Cluster,
        stage: Any,
        clock: Clock,
        write: Callable[[Event], None],
        length_s: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._nemesis = nemesis
        self._cluster = cluster
        self._stage = stage
        self._clock = clock
        self._write = write
        self._length_s = length_s
        self._stopping = stopping
        self._held: dict[int, Injected] = {}
        self._names: dict[int, str] = {}
        self.in_force: tuple[str, ...] = ()

    async def run(self) -> None:
        """The whole plan; its times count from now. Ends early once `stopping`."""
        begin = self._clock.now_ns()
        agenda = [(step.at_s, 1, step.fault, step) for step in self._nemesis.steps]
        heapq.heapify(agenda)
        while agenda:
            due, starts, fault, step = heapq.heappop(agenda)
            await self._clock.sleep(due - (self._clock.now_ns() - begin) / 1e9)
            if self._stopping():
                return
            if not starts:
                await self._heal(fault)
            elif (free := _healing(agenda, step)) >= 0:
                # A fault that took longer to make than planned still holds what this one would
                # hit, and healing the one would heal the other.
                heapq.heappush(agenda, (max(due, free), 1, fault, step))
            elif await self._inject(step):
                # Held from when it is in force: finding the target may have taken seconds.
                held = (self._clock.now_ns() - begin) / 1e9 + step.hold_s
                heapq.heappush(agenda, (min(held, self._length_s), 0, fault, step))

    async def heal_all(self) -> str:
        """Heal everything; "" or what could not be healed. Call when `run` is over."""
        for fault in sorted(self._held, reverse=True):
            await self._heal(fault)
        begin = self._clock.now_ns()
        try:
            await self._nemesis.heal_all(self._stage)
        except Exception as error:  # noqa: BLE001 - the run goes on, the reason is recorded
            return f"not everything could be healed: {error}"
        for fault in sorted(self._held):
            self._healed(fault, begin)
        return ""

    async def _inject(self, step: Step) -> bool:
        """Whether it is in force now."""
        begin = self._clock.now_ns()
        try:
            roles = await self._cluster.roles()
            injected = await self._nemesis.inject(self._stage, step, roles)
        except Exception as error:  # noqa: BLE001 - a fault that failed is recorded, not fatal
            # The notes tell what could not be taken back.
            why = "; ".join((f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))
            now = self._clock.now_ns()
            self._write(FaultFailed(ns=now, fault=step.fault, name=step.name, why=why))
            return False
        self._held[step.fault] = injected
        self._names[step.fault] = step.name
        self._set_in_force()
        self._write(
            FaultStarted(
                begin_ns=begin,
                ns=self._clock.now_ns(),
                fault=step.fault,
                name=step.name,
                nodes=tuple(injected.nodes),
                slots=tuple(injected.slots),
                text=injected.text,
                colour=injected.colour,
            )
        )
        return True

    async def _heal(self, fault: int) -> None:
        if fault not in self._held:
            return
        begin = self._clock.now_ns()
        try:
            await self._nemesis.heal(self._stage, self._held[fault])
        except Exception as error:  # noqa: BLE001 - still in force; heal_all tries again
            text = f"healing {self._names[fault]} failed: {error}"
            self._write(Note(ns=self._clock.now_ns(), text=text))
            return
        self._healed(fault, begin)

    def _healed(self, fault: int, begin: int) -> None:
        del self._held[fault]
        self._write(FaultHealed(begin_ns=begin, ns=self._clock.now_ns(), fault=fault))
        self._set_in_force()

    def _set_in_force(self) -> None:
        self.in_force = tuple(self._names[fault] for fault in sorted(self._held))


class FaultThread:
    """`Faults` in real time, in a thread of its own."""

    def __init__(
        self,
        nemesis: Nemesis,
        cluster: Cluster,
        clients: Clients,
        recorder: Recorder,
        length_s: float,
    ) -> None:
        self._stop = threading.Event()
        clock = _FaultClock(self._stop)
        stage = nemesis.stage(cluster, clients, clock, self._stop.is_set)
        self._faults = Faults(
            nemesis, cluster, stage, clock, recorder.write, length_s, self._stop.is_set
        )
        self._thread = threading.Thread(
            target=lambda: drive(self._faults.run()), name="nemesis", daemon=True
        )

    @property
    def in_force(self) -> tuple[str, ...]:
        """Names of the faults in force now."""
        return self._faults.in_force

    def start(self) -> None:
        """Begin; the plan's times count from now."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """The whole plan was executed."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """No further faults, the one at work leaves off; returns when the thread has ended."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def heal_all(self) -> str:
        """Heal everything; "" or what could not be healed. Call after `stop`."""
        return drive(self._faults.heal_all())
