"""Facts that a run reached: what its faults met, and what they caused (docs/checks.md, "Reached").

A verdict is as strong as what its run reached: where no transaction was ever interrupted, a run says little
about transactions. This is not a finding.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from checkers.faults.hits import FaultInForce, given_up, stages_of
from checkers.logs.answers import FENCING
from checkers.logs.orders import refused_at
from checkers.run_windows import RECREATES
from core.op import AssignmentKind, Phase
from history.columns import Array, columns
from history.events import PhaseStarted, RecordsDeleted
from history.evidence import Evidence
from history.reader import History
from history.tables import OPEN
from history.verdict import FaultHits
from nemesis.registry import NEMESES

REFUSED: Final = FENCING | {"FENCED_INSTANCE_ID"}
"""Errors by which a client hears that it is fenced."""
REBALANCES: Final = (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST)


@dataclass(frozen=True)
class ClientFates:
    """What clients of a run went through, and when; and what captured messages show beside that."""

    history: History
    evidence: Evidence

    @cached_property
    def fenced(self) -> Array:
        """When an op ended because its client was fenced."""
        ops = columns(self.history.tables["ops"], ("error", "complete_ns"))
        codes = [n for n, name in enumerate(self.history.names.error) if name in REFUSED]
        return np.asarray(ops["complete_ns"][np.isin(ops["error"], codes) & (ops["complete_ns"] != OPEN)])

    @cached_property
    def given_up(self) -> Array:
        """When ops with records failed or ended in doubt."""
        return given_up(self.history)

    @cached_property
    def orders_refused(self) -> Array:
        """When a broker refused an order of a former controller."""
        return np.array(refused_at(self.evidence), np.int64)

    @cached_property
    def rebalanced(self) -> Array:
        """When a group gave partitions to a member, or took them, under load: members that close at its end
        give up what they have."""
        rows = columns(self.history.tables["assignments"], ("kind", "ns"))
        phases = (event for event in self.history.events if isinstance(event, PhaseStarted))
        end = min((one.ns for one in phases if one.phase >= Phase.QUIESCE), default=OPEN)
        moved = np.isin(rows["kind"], [int(kind) for kind in REBALANCES]) & (rows["ns"] < end)
        return np.asarray(rows["ns"][moved])

    @cached_property
    def cut_off(self) -> set[int]:
        """Processes that ended in the middle of a transaction with a record."""
        ops = columns(self.history.tables["ops"], ("process", "txn", "n_sends", "complete_ns"))
        rows = (ops["txn"] == 1) & (ops["n_sends"] > 0) & (ops["complete_ns"] == OPEN)
        return set(ops["process"][rows].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderFault:
    """A fault, what it hit, and what clients went through."""

    stage: FaultInForce
    hits: FaultHits
    clients: ClientFates

    def within(self, moments: Array) -> bool:
        """Whether one of these moments is under the fault."""
        return bool(((moments >= self.stage.fault.begin_ns) & (moments <= self.stage.until_ns)).any())

    @property
    def leaders(self) -> int:
        """Partitions of the workload that another node led afterwards. A topic that is remade has leaders of
        its own."""
        return 0 if self.stage.fault.name.startswith(RECREATES) else self.hits.leaders

    def died_in_transaction(self) -> bool:
        """A client of the fault died in a transaction, and its next process began after the fault."""
        fault, every = self.stage.fault, self.clients.history.processes
        for process in (every[number] for number in self.clients.cut_off):
            starts = (p.start_ns for p in every.values() if p.slot == process.slot)
            following = min((ns for ns in starts if ns > process.end_ns), default=OPEN)
            if process.slot in fault.slots and process.end_ns <= fault.ns < following:
                return True
        return False

    def left_isr(self) -> set[tuple[int, bool]]:
        """Nodes that left the in-sync replicas of a partition, and whether they answered then."""
        before = self.stage.leaders.isr
        return {
            (node, node in look.answering)
            for look in self.stage.looks(self.clients.history.events)
            for name, isr in look.isr.items()
            if 0 < len(isr) < len(before.get(name, ())) or self._exchanged(name, isr)
            for node in set(before.get(name, ())) - set(isr)
        }

    def _exchanged(self, name: str, isr: Collection[int]) -> bool:
        """Whether these in-sync replicas were known to be replicas, so that a missing one has left. A
        partition that moves, or is remade, has others, and as many."""
        known, moves = self.stage.leaders.replicas.get(name, set()), (RECREATES, "reassign:")
        return bool(isr) and set(isr) <= known and not self.stage.fault.name.startswith(moves)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a fault can reach. at_all: the same of the run as a whole, faults or not."""

    meaning: str
    of_fault: Callable[[UnderFault], object]
    at_all: Callable[[ClientFates], object] = lambda _: False


def _deleted(one: UnderFault) -> bool:
    events = one.clients.history.events
    return any(isinstance(e, RecordsDeleted) and e.fault == one.stage.fault.fault for e in events)


FACTS: Final[Mapping[str, Fact]] = {
    "in-flight": Fact("a record to a node of the fault, or of its client, was in flight when it began",
                      lambda one: one.hits.records_hit),
    "open-transaction": Fact("a transaction was open then, of its client or coordinated by its node; or its"
                             " client died in one",
                             lambda one: one.hits.transactions_hit or one.died_in_transaction()),
    "ending-transaction": Fact("such a transaction had all its records acknowledged: it was about to end",
                               lambda one: one.hits.ending),
    "leader-moved": Fact("another node led a partition of the workload afterwards",
                         lambda one: one.leaders),
    "leader-moved-in-flight": Fact("the same under a fault that hit a record in flight",
                                   lambda one: one.leaders and one.hits.records_hit),
    "coordinator-moved": Fact("another node coordinated a transactional id or a group afterwards",
                              lambda one: one.hits.coordinators),
    "controller-moved": Fact("another node was the active controller afterwards",
                             lambda one: one.hits.controller),
    "isr-shrank": Fact("a replica left the in-sync replicas of a partition",
                       lambda one: one.left_isr()),
    "follower-lagged": Fact("the same while its node answered: it lived, and fell behind",
                            lambda one: any(answered for _, answered in one.left_isr())),
    "in-doubt": Fact("an op ended in doubt while it was in force", lambda one: one.hits.in_doubt),
    "given-up": Fact("an op with records failed or ended in doubt, and its client lived",
                     lambda one: one.within(one.clients.given_up), lambda clients: len(clients.given_up)),
    "fenced": Fact("a client was refused: another had its place, or its transaction had timed out",
                   lambda one: one.within(one.clients.fenced), lambda clients: len(clients.fenced)),
    "rebalanced": Fact("a consumer group gave or took partitions",
                       lambda one: one.within(one.clients.rebalanced)),
    "order-refused": Fact("a broker refused an order of a former controller, as captured messages show (with"
                          " ZooKeeper)",
                          lambda one: one.within(one.clients.orders_refused),
                          lambda clients: len(clients.orders_refused)),
    "records-deleted": Fact("it had records deleted from logs", _deleted),
    "voter-removed": Fact("it had a voter removed from the metadata quorum",
                          lambda one: one.stage.fault.name.startswith("quorum:remove")),
}  # fmt: skip
"""What a run can reach, by name. `fenced`, `given-up` and `order-refused` need no fault."""


def wanted(name: str) -> list[str]:
    """A fault of this name (`family:kind@target`) is there to reach one of these facts; none = whatever it
    hits."""
    family, _, kind = name.partition("@")[0].partition(":")
    nemesis = NEMESES.get(family)
    found = None if nemesis is None else nemesis.kinds.get(kind)
    return list(found.reaches) if found is not None else []


def reached(clients: ClientFates, hits: Mapping[int, FaultHits]) -> dict[int, list[str]]:
    """The facts that each fault reached, by its number."""
    found = {}
    for stage in stages_of(clients.history.events):
        number = stage.fault.fault
        one = UnderFault(stage=stage, hits=hits[number], clients=clients)
        found[number] = [name for name, fact in FACTS.items() if fact.of_fault(one)]
    return found


def reached_by_run(clients: ClientFates, of_faults: Iterable[Iterable[str]]) -> list[str]:
    """The facts that a fault, or the run as a whole, reached."""
    some = {name for names in of_faults for name in names}
    return [name for name, fact in FACTS.items() if name in some or fact.at_all(clients)]
