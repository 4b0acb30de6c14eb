"""What each fault hit: what was under way there, and what happened under it (docs/checks.md, "Hits").

All of it is derived from the sealed history and the events, so older recordings have it too. This is not a
finding: a fault that hit nothing tests nothing, and a run of such faults proves little.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from checkers.engine.findings import FAIL, INFO, OK
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.op import GONE_MARK
from core.session import UNAWAITED
from history.columns import Array, columns
from history.events import Event, FaultHealed, FaultStarted, RolesSeen
from history.reader import History, SendRow
from history.tables import OPEN
from history.unit_files import EVERYWHERE
from history.verdict import FaultHits, Liveness

LATE_NS: Final = 2_000_000_000
"""How long after healing a moved leader still counts: four looks at the leaders."""
WAITED_S: Final = 1.0
"""Who made a record wait so long was hit."""


@dataclass(slots=True)
class Leaders:
    """The last known leader and in-sync replicas of every partition, and the last known controller; -1 = none
    was ever known. replicas: nodes that ever were in sync."""

    nodes: dict[str, int] = field(default_factory=dict)
    isr: dict[str, tuple[int, ...]] = field(default_factory=dict)
    replicas: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    controller: int = -1

    def take(self, seen: RolesSeen) -> None:
        """A later look."""
        self.nodes |= {name: node for name, node in seen.leaders.items() if node >= 0}
        self.isr |= seen.isr
        for name, nodes in seen.isr.items():
            self.replicas[name].update(nodes)
        self.controller = seen.controller if seen.controller >= 0 else self.controller

    def coordinator(self, topic: str, name: str) -> str:
        """The partition that coordinates a transactional id or a group; "" = not known."""
        count = sum(one.rpartition("-")[0] == topic for one in self.nodes)
        return f"{topic}-{java_hash(name) % count}" if count else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInForce:
    """A fault, when it ended (healed, or the last event), and the leaders when it began. until_ns: until when
    a moved leader counts: `LATE_NS` after its end, or the beginning of the next fault after its end."""

    fault: FaultStarted
    end_ns: int
    leaders: Leaders
    until_ns: int

    def looks(self, events: Iterable[Event]) -> list[RolesSeen]:
        """The looks at the leaders that count."""
        seen = (event for event in events if isinstance(event, RolesSeen))
        return [look for look in seen if self.fault.begin_ns < look.ns <= self.until_ns]


@dataclass(frozen=True)
class OpsUnderWay:
    """The ops of a run with the moment from which nothing of them was under way any more."""

    history: History

    @cached_property
    def columns(self) -> Mapping[str, Array]:
        """The table `ops`, and `ended`."""
        ops = columns(self.history.tables["ops"])
        ended = ops["complete_ns"].copy()
        for op in np.flatnonzero(ended == OPEN).tolist():
            ended[op] = self._died(int(ops["process"][op]))
        return {**ops, "ended": ended}

    def _died(self, process: int) -> int:
        """When a process ended in the middle of an op: when a fault on its client was in force, if one was
        before the client's next process began; else with the last line of its journal."""
        own = self.history.processes[process]
        later = [p.start_ns for p in self.history.processes.values() if p.slot == own.slot]
        following = min((ns for ns in later if ns > own.end_ns), default=OPEN)
        faults = [e.ns for e in self.history.events if isinstance(e, FaultStarted) and own.slot in e.slots]
        return min((ns for ns in faults if own.end_ns <= ns < following), default=own.end_ns)

    def at(self, ns: int) -> Array:
        """Ops under way at a moment."""
        ops = self.columns
        return np.flatnonzero((ops["invoke_ns"] <= ns) & (ops["ended"] > ns))

    def failed(self, begin: int, end: int) -> tuple[int, int]:
        """How many ops failed, and how many ended in doubt, within a time."""
        here = (self.columns["ended"] >= begin) & (self.columns["ended"] <= end)
        failed, in_doubt = self._unmeant
        return int((here & failed).sum()), int((here & in_doubt).sum())

    @cached_property
    def _unmeant(self) -> tuple[Array, Array]:
        return _unmeant(self.history, self.columns)


def given_up(history: History) -> Array:
    """When ops with records failed or ended in doubt, and their clients lived."""
    names = ("deliberate", "error", "outcome", "n_sends", "complete_ns")
    ops = columns(history.tables["ops"], names)
    failed, in_doubt = _unmeant(history, ops)
    rows = (failed | in_doubt) & (ops["n_sends"] > 0) & (ops["complete_ns"] != OPEN)
    return np.asarray(ops["complete_ns"][rows])


def _unmeant(history: History, ops: Mapping[str, Array]) -> tuple[Array, Array]:
    """Flags: ops that failed, and ops that ended in doubt. Neither has what the application meant: an abort,
    or a record whose acknowledgement it does not wait for."""
    unawaited = -2  # -1 is the code of no error
    if UNAWAITED in history.names.error:
        unawaited = history.names.error.index(UNAWAITED)
    meant = (ops["deliberate"] == 1) & (ops["error"] < 0)
    return (ops["outcome"] == FAIL) & ~meant, (ops["outcome"] == INFO) & (ops["error"] != unawaited)


def hits(history: History, served: Liveness) -> dict[int, FaultHits]:
    """What each fault hit, by its number.

    Raises: HistoryError, where records cannot be read.
    """
    stages, ops = stages_of(history.events), OpsUnderWay(history)
    under_way = {stage.fault.fault: ops.at(stage.fault.begin_ns) for stage in stages}
    sending = ops.columns["n_sends"] > 0
    wanted = {op for found in under_way.values() for op in found[sending[found]].tolist()}
    sends: dict[int, list[SendRow]] = {op: [] for op in wanted}
    for row in history.sends({EVERYWHERE: {"op": wanted}}) if wanted else ():
        sends[row.op].append(row)
    waited = {cost.fault: cost.partition_stalled_s >= WAITED_S for cost in served.faults}
    found = {}
    for stage in stages:
        number = stage.fault.fault
        own = under_way[number]
        mine = {op: sends[op] for op in own.tolist() if op in sends}
        found[number] = _hits(history, stage, ops, own, mine, waited=waited.get(number, False))
    return found


def stages_of(events: Sequence[Event]) -> list[FaultInForce]:
    """The faults of a run, each as it was in force."""
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    last = max((event.ns for event in events), default=0)
    stages = []
    faults = [event for event in events if isinstance(event, FaultStarted)]
    for fault in faults:
        leaders = Leaders()
        for seen in (e for e in events if isinstance(e, RolesSeen) and e.ns <= fault.begin_ns):
            leaders.take(seen)
        end = healed.get(fault.fault, last)
        until = min([end + LATE_NS, *(e.begin_ns for e in faults if e.begin_ns > end)])
        stages.append(FaultInForce(fault=fault, end_ns=end, leaders=leaders, until_ns=until))
    return stages


def _hits(
    history: History,
    stage: FaultInForce,
    ops: OpsUnderWay,
    under_way: Array,
    sends: Mapping[int, Sequence[SendRow]],
    *,
    waited: bool,
) -> FaultHits:
    fault, leaders = stage.fault, stage.leaders
    ended = ops.columns["ended"]
    clients = {n for n, process in history.processes.items() if process.slot in fault.slots}

    def hit(process: int, partition: str) -> bool | None:
        """Whether the fault is on this client or on the leader; None = the leader is not known."""
        if process in clients:
            return True
        node = leaders.nodes.get(partition, -1)
        return node in fault.nodes if node >= 0 or not fault.nodes else None

    rows = [row for of_op in sends.values() for row in of_op if _in_flight(row, ended, fault.begin_ns)]
    records = [hit(row.process, _place(history, row.tp)) for row in rows]
    states = []
    for of_op in sends.values():
        if state := _transaction(of_op, fault.begin_ns):
            name = history.processes[of_op[0].process].transactional_id
            states.append((state, hit(of_op[0].process, leaders.coordinator(TRANSACTION_TOPIC, name))))
    transactions = [each for _, each in states]
    moved = _moved(history, stage)
    ops_hit = int(np.isin(ops.columns["process"][under_way], list(clients)).sum())
    members = len({history.processes[n].slot for n in clients if history.processes[n].group >= 0})
    failed, in_doubt = ops.failed(fault.begin_ns, stage.end_ns)
    something = any((*records, *transactions, ops_hit, members, *moved, failed, in_doubt, waited))
    unknown = None in (*records, *transactions)
    return FaultHits(
        records=len(records),
        records_hit=None if None in records else sum(map(bool, records)),
        transactions=len(transactions),
        transactions_hit=None if None in transactions else sum(map(bool, transactions)),
        sending=sum(each is True for state, each in states if state == "sending"),
        ending=sum(each is True for state, each in states if state == "ending"),
        ops_hit=ops_hit,
        members=members,
        leaders=moved[0],
        coordinators=moved[1],
        controller=moved[2],
        failed=failed,
        in_doubt=in_doubt,
        nothing=False if something else None if unknown else True,
    )


def _place(history: History, tp: int) -> str:
    """A partition as looks at the leaders name it: those of a deleted topic do not know that it is one."""
    topic, _, number = history.tp(tp).rpartition("-")
    return f"{topic.partition(GONE_MARK)[0]}-{number}"


def _handed_over(row: SendRow, ns: int) -> bool:
    """Whether the client had taken the record. One with outcome FAIL it never took, or never sent."""
    return row.outcome != FAIL and row.invoke_ns <= ns


def _in_flight(row: SendRow, ended: Array, ns: int) -> bool:
    answered = row.ack_ns if row.ack_ns >= 0 else int(ended[row.op])
    return _handed_over(row, ns) and answered > ns


def _transaction(rows: Sequence[SendRow], ns: int) -> str:
    """What a transaction under way was at; "" = it is none, or no record of it had been handed over.

    `ending`: all its records were acknowledged; it sends its offsets or is being committed or aborted.
    """
    if not rows or not rows[0].txn or not any(_handed_over(row, ns) for row in rows):
        return ""
    acknowledged = sum(row.outcome == OK and 0 <= row.ack_ns <= ns for row in rows)
    return "ending" if acknowledged == rows[0].op_sends else "sending"


def _moved(history: History, stage: FaultInForce) -> tuple[int, int, bool]:
    """Data partitions and coordinating partitions that moved to another leader, and whether the controller
    moved."""
    before = stage.leaders
    moved: set[str] = set()
    controller = False
    topics = {name.rpartition("-")[0] for name in before.nodes}
    for seen in stage.looks(history.events):
        moved |= {name for name, node in seen.leaders.items() if 0 <= node != before.nodes.get(name, node)}
        new = {name for name, node in seen.leaders.items() if node >= 0} - before.nodes.keys()
        moved |= {name for name in new if name.rpartition("-")[0] in topics}  # the topic was given it
        controller |= 0 <= seen.controller != before.controller >= 0
    coordinators = {before.coordinator(TRANSACTION_TOPIC, name) for name in history.names.txn_id if name}
    coordinators |= {before.coordinator(GROUP_TOPIC, name) for name in history.names.group if name}
    return sum(not name.startswith("__") for name in moved), len(moved & coordinators), controller
