"""Executing a plan of faults against a running cluster and its clients.

A fault begins on a cluster that serves: one that acknowledged a record a moment ago. A fault that begins
before the cluster is back from the last one would hit nothing.

Each fault is recorded when it is in force, with the nodes and clients it hit. One that finds nothing to hit
(other faults may keep it from that) is tried again for a while, and has failed if it never does. Healing
always happens: when the time of a fault ends, when the phase ends, and when the run is interrupted. Putting a
fault in force may take long (a rolling restart): once no further faults are wanted, its waits end early and
it leaves the rest undone.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from core.errors import Unanswered
from history.events import Event, FaultFailed, FaultHealed, FaultStarted, HealFailed, RecordsDeleted
from nemesis.execute import aim, heal, heal_all, make
from nemesis.registry import NEMESES
from nemesis.types import AimedFault, Environment, NoEffect, NoTarget, PlannedFault, WorkloadNames

SERVED_S = 0.7
"""A cluster serves if it acknowledged a record so long ago at most."""
LOOK_S = 0.1
AGAIN_S = 0.5
"""Between two tries of a fault that finds nothing to hit."""
TRIED_S = 20.0
"""How long such a fault is tried."""
LATE = "NoTarget: the phase of faults ended before its turn"
Agenda = list[tuple[float, int, int, PlannedFault]]
"""When a fault begins (1) or is healed (0), its number, its step: a heap, in which healing comes first."""
NOT_IN_PART = frozenset(
    {"elections", "client", "links", "wire", "half-open", "reassign", "quorum"}
    | {"slow-follower", "add-partitions", "delete-records"}
)
"""Families that begin a change that is made or not, and their failing says which. A fault of any other one,
an extension among them, may take nodes or links away and give them back: one that fails half-way was in force
for a while; see `_part`."""


def _part(hit: AimedFault, error: Exception) -> str:
    """The name of what a fault that failed so may have been until it was taken back, "" = nothing. A change
    that ends nodes on its way says by its failing how it went, and has ended them; logs were not cut where
    nothing was lost."""
    step = hit.step
    target = f"@{step.target}" if step.target else ""
    if isinstance(error, NoTarget) or (step.family == "upgrade" and step.kind == "finalize"):
        return ""
    if step.family == "upgrade":
        return f"restart:graceful{target}" if target else "restart:rolling"
    if step.family == "recreate-topics":
        return f"kill:one{target}" if hit.nodes else ""
    if step.family == "power" and isinstance(error, NoEffect):
        return f"kill:{step.kind}{target}"
    return "" if step.family in NOT_IN_PART else step.name


def _healing(agenda: Agenda, step: PlannedFault) -> float:
    """When the fault in force of the same family is due to be healed, -1 = none is in force.

    At the same time healing comes before starting (0 < 1)."""
    due = [at for at, starts, _, other in agenda if not starts and other.family == step.family]
    return max(due, default=-1.0)


def _next_healing(agenda: Agenda, otherwise: float) -> float:
    """When the next fault in force is due to be healed."""
    return min((at for at, starts, _, _ in agenda if not starts), default=otherwise)


@dataclass(frozen=True, slots=True)
class Tried:
    """A fault that found nothing to hit: when it was first tried, how often, and why it did not when it was
    last."""

    step: PlannedFault
    first_ns: int
    times: int
    why: str


@dataclass(slots=True)
class Faults:
    """Carries out a plan within `length_s` seconds, in the time of `stage.clock`.

    write: takes events. acked_ns: when a broker last acknowledged a record.
    """

    steps: Sequence[PlannedFault]
    names: WorkloadNames
    stage: Environment
    write: Callable[[Event], None]
    acked_ns: Callable[[], int]
    length_s: float
    in_force: tuple[str, ...] = ()
    """Names of the faults in force now."""
    _held: dict[int, AimedFault] = field(default_factory=dict)
    _tried: dict[int, Tried] = field(default_factory=dict)

    async def run(self) -> None:
        """The whole plan; its times count from now. Ends early once `stage.stopping()`."""
        begin = self.stage.clock.now_ns()
        agenda = [(step.at_s, 1, step.fault, step) for step in self.steps]
        heapq.heapify(agenda)
        await self._run(begin, agenda)
        tried, passed = tuple(self._tried.values()), (self.stage.clock.now_ns() - begin) / 1e9
        for one in tried:
            self._failed(one.step, one.why)
        for _, starts, _, step in sorted(agenda):
            if starts and step.at_s <= passed and step not in [one.step for one in tried]:
                self._failed(step, LATE)

    async def _run(self, begin: int, agenda: Agenda) -> None:
        """What the end of the faults leaves undone stays on the agenda."""
        while agenda:
            due, starts, fault, step = agenda[0]
            await self.stage.clock.sleep(due - (self.stage.clock.now_ns() - begin) / 1e9)
            if self.stage.stopping():
                return
            heapq.heappop(agenda)
            if not starts:
                await self._heal(fault)
            elif due >= self.length_s:
                self._failed(step, LATE)
            elif (free := _healing(agenda, step)) >= 0:
                # A fault that took longer to make than planned still holds what this one would
                # hit, and healing the one would heal the other.
                heapq.heappush(agenda, (max(due, free), 1, fault, step))
            elif not await self._serving(begin, heal := _next_healing(agenda, self.length_s)):
                if self.stage.stopping():
                    heapq.heappush(agenda, (due, 1, fault, step))
                elif heal < self.length_s:  # the fault in force keeps the cluster from serving
                    heapq.heappush(agenda, (heal, 1, fault, step))
                else:
                    self._failed(step, "no record was acknowledged any more in the phase of faults")
            elif await self._inject(step):
                # Held from when it is in force: finding the target may have taken seconds.
                held = (self.stage.clock.now_ns() - begin) / 1e9 + step.hold_s
                heapq.heappush(agenda, (min(held, self.length_s), 0, fault, step))
            elif fault in self._tried:
                again = (self.stage.clock.now_ns() - begin) / 1e9 + AGAIN_S
                if again < self.length_s:
                    heapq.heappush(agenda, (again, 1, fault, step))

    async def _serving(self, begin_ns: int, until_s: float) -> bool:
        """Wait until the cluster serves; whether it did before `until_s`."""
        while not self.stage.stopping():
            now = self.stage.clock.now_ns()
            if (now - self.acked_ns()) / 1e9 <= SERVED_S:
                return True
            if (now - begin_ns) / 1e9 >= until_s:
                return False
            await self.stage.clock.sleep(LOOK_S)
        return False

    async def heal_all(self) -> str:
        """Heal everything; "" or what could not be healed, which is on record then. Call when `run` has
        ended."""
        for fault in sorted(self._held, reverse=True):
            if isinstance(await self._heal(fault), Unanswered):
                break  # each further call could take as long; `heal_all` tries once more for all together
        begin = self.stage.clock.now_ns()
        try:
            await heal_all(self.stage)
        except Exception as error:  # noqa: BLE001 - the run continues, and the reason is recorded
            self.write(HealFailed(ns=self.stage.clock.now_ns(), why=str(error)))
            return str(error)
        for fault in sorted(self._held):
            self._healed(fault, begin)
        return ""

    async def _inject(self, step: PlannedFault) -> bool:
        """Put a fault in force; whether that worked. Not: it failed, or is among those to be tried again."""
        begin, hit = self.stage.clock.now_ns(), None
        try:
            roles = await self.stage.cluster.roles()
            hit = aim(self.stage, step, roles, self.names)
            hit = await make(self.stage, hit)
        except Exception as error:  # noqa: BLE001 - a fault that failed is recorded, not fatal
            # The notes of the exception say what could not be taken back.
            self._deleted(step)
            why = "; ".join((f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))
            taken_back = not hasattr(error, "__notes__")
            if hit and (part := _part(hit, error)):
                self._half_made(hit, begin, part, why, taken_back=taken_back)
            self._end_pauses(certain=taken_back)
            before = self._tried.get(step.fault, Tried(step, begin, 0, ""))
            self._tried[step.fault] = replace(before, times=before.times + 1, why=why)
            over = self.stage.clock.now_ns() - before.first_ns >= TRIED_S * 1e9
            if over or not isinstance(error, NoTarget):
                self._failed(step, why)
            return False
        self._deleted(step)
        self._tried.pop(step.fault, None)
        self._hold(hit, begin, step.name, hit.text)
        self._end_pauses()
        return True

    def _hold(self, hit: AimedFault, begin: int, name: str, text: str) -> None:
        """A fault is in force. name: of what is."""
        step = hit.step
        self._held[step.fault] = hit
        self._set_in_force()
        self.write(
            FaultStarted(
                begin_ns=begin,
                ns=self.stage.clock.now_ns(),
                fault=step.fault,
                name=name,
                nodes=hit.nodes,
                slots=hit.slots,
                text=text,
                colour=NEMESES[name.partition(":")[0]].colour,
            )
        )

    def _half_made(self, hit: AimedFault, begin: int, part: str, why: str, *, taken_back: bool) -> None:
        """Making a fault failed half-way: what it did by then stays on record, under the name of that, or no
        check could tell what took the records that it cut off. What was not taken back is healed with all
        else."""
        self._hold(hit, begin, part, f"made in part, perhaps: {hit.text}; {why}")
        if taken_back:
            self._healed(hit.step.fault, self.stage.clock.now_ns())

    def _deleted(self, step: PlannedFault) -> None:
        if self.stage.deleted:
            offsets = {str(tp): offset for tp, offset in self.stage.deleted.items()}
            self.stage.deleted.clear()
            self.write(RecordsDeleted(ns=self.stage.clock.now_ns(), fault=step.fault, offsets=offsets))

    def _failed(self, step: PlannedFault, why: str) -> None:
        now = self.stage.clock.now_ns()
        tried = self._tried.pop(step.fault, None)
        if tried is not None and tried.times > 1:
            why = f"{why}; tried {tried.times} times in {(now - tried.first_ns) / 1e9:.0f} s"
        begin = now if tried is None else tried.first_ns
        self.write(FaultFailed(begin_ns=begin, ns=now, fault=step.fault, name=step.name, why=why))

    async def _heal(self, fault: int) -> Exception | None:
        """Heal one fault, if it is in force; what kept it from that."""
        if fault not in self._held:
            return None
        begin = self.stage.clock.now_ns()
        try:
            await heal(self.stage, self._held[fault])
        except Exception as error:  # noqa: BLE001 - still in force; heal_all tries again
            name, now = self._held[fault].step.name, self.stage.clock.now_ns()
            self.write(HealFailed(ns=now, fault=fault, name=name, why=str(error)))
            self._end_pauses(certain=False)
            return error
        self._healed(fault, begin)
        self._end_pauses()
        return None

    def _end_pauses(self, *, certain: bool = True) -> None:
        """A node that another fault has ended is paused no more. certain: it has ended, or runs again."""
        ended, now = self.stage.ended, self.stage.clock.now_ns()
        for fault, hit in tuple(self._held.items()):
            if certain and hit.step.family == "pause" and ended.issuperset(hit.nodes):
                self._healed(fault, now)
        ended.clear()

    def _healed(self, fault: int, begin: int) -> None:
        del self._held[fault]
        self.write(FaultHealed(begin_ns=begin, ns=self.stage.clock.now_ns(), fault=fault))
        self._set_in_force()

    def _set_in_force(self) -> None:
        self.in_force = tuple(self._held[fault].step.name for fault in sorted(self._held))
