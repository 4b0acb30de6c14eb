"""What happened in a run without being planned, and which checks it keeps from deciding (docs/checks.md,
section 3).

Nodes that ended, heals that failed, clients that were lost, clocks that jumped, evidence that is missing: the
harness records each as an event, and here it becomes a line of the verdict. So does a journal that ends too
early.

Not here: nodes that ended on their own, which are a finding (`checkers.checks.recovery`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from checkers.checks import CHECKS
from checkers.engine.cut_journals import absent, broke_off, cut
from core.cluster import PROGRAM_LOST, SENT
from core.config import RunConfig
from core.op import Phase
from core.systems import ImportedSection
from history import events as ev
from history.columns import Columns, columns
from history.events import Event
from history.tables import TABLES
from workloads.registry import workload_named

ALL: Final = frozenset(CHECKS)
RECOVERY: Final = frozenset({"recovery"})
CLOCKED: Final = frozenset({"recovery", "stability"})
"""Checks that rest on time-outs which brokers measure by the wall's clock."""
STEP_S: Final = 0.5
"""Steps of the wall's clock that are smaller move no time-out by so much that it matters."""
GROUPS: Final = frozenset({"poll-order", "group-offsets", "exactly-once", "group-delivery"})
READERS: Final = frozenset({"poll-order"})
CLIENTS: Final = ALL - {"recovery", "stability"}
"""Checks that need what clients recorded."""
LISTED: Final = 4
"""Processes that a line names."""
NO_PROCESSES: Final = pa.Table.from_batches([], schema=TABLES["processes"])
"""Without rows. (`Schema.empty_table` would import pandas.)"""
DESERTED_SHARE: Final = 0.2
"""A role that no client had for a greater part of the phase of faults was not under load there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that nothing had planned. checks: those that it keeps from deciding."""

    ns: int
    text: str
    checks: frozenset[str] = frozenset()


class Role(msgspec.Struct, frozen=True):
    """What clients of a run have in common, so that one of them can stand in for another."""

    produces: bool
    transactional: bool
    group: str

    def __str__(self) -> str:
        """In words."""
        if self.group:
            return f"group {self.group}"
        if not self.produces:
            return "consumers without a group"
        return "producers with transactions" if self.transactional else "producers without transactions"

    @property
    def judges(self) -> frozenset[str]:
        """The checks that have nothing to judge where no client has this role."""
        if self.produces:
            return ALL
        return GROUPS if self.group else READERS


def incidents(
    events: Sequence[Event], config: RunConfig, processes: pa.Table = NO_PROCESSES
) -> list[Incident]:
    """All of a run, the earliest first. processes: the table of a recorded run."""
    found = [one for event in events if (one := _incident(event)) is not None]
    found += [*_lost(events), *_deserted(events, config)]
    if processes is not NO_PROCESSES:
        found += [*_cut(events, columns(processes)), *_absent(events, columns(processes))]
    return sorted(found, key=lambda one: one.ns)


def _incident(event: Event) -> Incident | None:
    match event:
        case ev.NodeEnded(end=end):
            asked = end.oom_killed or end.signal in SENT
            failed = end.own_program and not asked
            checks = ALL if failed else RECOVERY if end.outside else frozenset[str]()
            return Incident(ns=event.ns, text=str(end), checks=checks)
        case ev.EndsUnseen():
            text = f"nodes could not be watched, and one may have ended on its own: {event.why}"
            return Incident(ns=event.ns, text=text, checks=RECOVERY)
        case ev.HealFailed(fault=-1):
            return Incident(ns=event.ns, text=ev.incomplete(event))  # as of every recording that is not whole
        case ev.HealFailed():
            text = f"healing {event.name} failed, and was tried again at the end of the faults: {event.why}"
            return Incident(ns=event.ns, text=text)
        case ev.ClockJumped() if event.suspended_s or abs(event.wall_s) >= STEP_S:
            return Incident(ns=event.ns, text=_jump(event), checks=CLOCKED)
        case ev.BoundsListed() if event.moving:
            text = f"the ends of the logs were listed too early: {event.moving}"
            return Incident(ns=event.ns, text=text, checks=frozenset({"stability"}))
        case ev.EvidenceMissing():
            return Incident(ns=event.ns, text=f"evidence is missing: {event.why}")
    return None


def _lost(events: Sequence[Event]) -> Iterable[Incident]:
    """Clients that were lost; those that ended alike together."""
    alike: dict[tuple[str, str], list[ev.WorkerLost]] = {}
    for event in events:
        if isinstance(event, ev.WorkerLost):
            alike.setdefault((event.why, event.level), []).append(event)
    for (why, _), some in alike.items():
        slots = {event.slot for event in some}
        clients = f"{some[0].who} was" if len(slots) == 1 else f"clients {_listed(slots)} were"
        # A program of the user's that is the client: no one else says whether it or the cluster is to blame.
        gone = any(event.status in PROGRAM_LOST for event in some)
        checks = RECOVERY if gone else frozenset[str]()
        yield Incident(ns=some[0].ns, text=f"{clients} lost: {why}", checks=checks)


def _cut(events: Sequence[Event], process: Columns) -> Iterable[Incident]:
    """Journals that end too early, together."""
    numbers = cut(process, events)
    if not len(numbers):
        return
    rows = np.isin(process["process"], numbers)
    of = f"process {numbers[0]} (client {process['slot'][rows][0]}) ends"
    if len(numbers) > 1:
        more = ", …" if len(numbers) > LISTED else ""
        of = f"{len(numbers)} processes ({_listed(numbers[:LISTED].tolist())}{more}) end"
    why = "the recording broke off" if broke_off(events) else "nothing on record ended its client there"
    text = f"the recording is not whole: the journal of {of} without a last line, and {why}"
    yield Incident(ns=int(process["end_ns"][rows].min()), text=text, checks=CLIENTS)


def _absent(events: Sequence[Event], process: Columns) -> Iterable[Incident]:
    """Journals that are gone, together."""
    numbers = absent(process, events)
    if len(numbers):
        which = f"process {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} processes"
        more = ", …" if len(numbers) > LISTED else ""
        which += f" ({_listed(numbers[:LISTED].tolist())}{more})" if len(numbers) > 1 else ""
        ns = next(event.ns for event in events if isinstance(event, ev.JournalsListed))
        text = f"the recording is not whole: the journal of {which} is gone"
        yield Incident(ns=ns, text=text, checks=CLIENTS)


def _jump(event: ev.ClockJumped) -> str:
    slept = f"the machine slept for {event.suspended_s:.1f} s" if event.suspended_s else ""
    set_s = event.wall_s - event.suspended_s
    way = "forward" if set_s > 0 else "back"
    stepped = f"the wall's clock was set {way} by {abs(set_s):.1f} s" if abs(set_s) >= 0.1 else ""
    return " and ".join(filter(None, (slept, stepped))) or "the clocks of the machine went apart"


def _deserted(events: Sequence[Event], config: RunConfig) -> Iterable[Incident]:
    """Roles whose clients were all lost while they were needed."""
    begun = {event.phase: event.ns for event in events if isinstance(event, ev.PhaseStarted)}
    faults, healing = begun.get(Phase.FAULTS), begun.get(Phase.HEAL)
    until = next((begun[phase] for phase in sorted(begun) if phase >= Phase.QUIESCE), None)
    lost = {event.slot: event.ns for event in events if isinstance(event, ev.WorkerLost)}
    if faults is None or healing is None or until is None or not lost:
        return
    for role, slots in _roles(config).items():
        if not slots <= lost.keys() or (since := max(lost[slot] for slot in slots)) >= until:
            continue
        absent = (healing - max(since, faults)) / max(1, healing - faults)
        under = role.judges if absent > DESERTED_SHARE else frozenset[str]()
        text = f"all clients of a role were lost ({role}: {_listed(slots)})"
        yield Incident(ns=since, text=text, checks=under | RECOVERY)


def _listed(slots: Collection[int]) -> str:
    return ", ".join(map(str, sorted(slots)))


def _roles(config: RunConfig) -> dict[Role, set[int]]:
    """Who has which role in the workload of a run."""
    workload = workload_named(config.workload)
    roles: dict[Role, set[int]] = {}
    for plan in workload.plans(config) if workload and not config.has(ImportedSection) else ():
        role = Role(plan.acks is not None, bool(plan.transactional_id), plan.group or "")
        roles.setdefault(role, set()).add(plan.slot)
    return roles
