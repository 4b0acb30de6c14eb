"""Histories built op by op, for tests: what a process did → the tables of `history.tables`.

The structure is kept as plain lists that a test may change before `tables` is called: columns that
follow from others (`op`, `place`, `op_outcome`, `assignment`, …) are derived only then.

Not here: notation (`tests.histories.notation`), chance (`tests.histories.random_history`), sealing
(`history.seal`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

from core.op import Acknowledgement, AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from history.rows import NUMBER_KEPT
from history.tables import FOREIGN_REASONS, OPEN, TABLES

F = (
    *("send", "poll", "txn", "assign", "subscribe", "crash", "final"),
    *("acquire", "acknowledge", "leave", "instance"),
)
_ORDER = {"sends": ("tp", "op", "pos"), "reads": ("tp", "process", "op", "pos")}


@dataclass(kw_only=True)
class Send:
    """One record that an op set out to send. ns: begin and acknowledgement, None = the op's own."""

    tp: int
    value: int
    offset: int = -1
    outcome: Outcome | None = None
    """None: the op's outcome, but OK where there is an offset."""
    source: tuple[int, int] = (-1, -1)
    """Of a copy: partition and offset of its input."""
    ns: tuple[int, int] | None = None


@dataclass(kw_only=True)
class Read:
    """One record that a poll returned. ns: of the poll, None = the op's own."""

    tp: int
    offset: int
    value: int
    leader_epoch: int = -1
    ns: tuple[int, int] | None = None


@dataclass(kw_only=True)
class Assign:
    """What the process reads changed, before the micro-ops that follow. ns None = op's invocation.

    kept: the process had the partition and keeps its position. A REWIND and a BEGINNING
    raise no number either.
    """

    tp: int
    kind: AssignmentKind = AssignmentKind.ASSIGNED
    kept: bool = False
    ns: int | None = None
    generation: int = -1


@dataclass(kw_only=True)
class Commit:
    """A committed consumer offset. ns: begin and end of the commit, None = the op's own."""

    tp: int
    offset: int
    kind: CommitKind = CommitKind.SYNC
    outcome: Outcome = Outcome.OK
    generation: int = -1
    ns: tuple[int, int] | None = None


@dataclass(kw_only=True)
class Foreign:
    """A polled record that is not this partition's own."""

    tp: int
    offset: int
    reason: str
    payload: bytes = b""


@dataclass(kw_only=True)
class Delivery:
    """One record that a share group gave, at `since` or later (None: the begin of the poll). ns: of the
    poll."""

    tp: int
    offset: int
    value: int
    count: int = 1
    since: int | None = None
    ns: tuple[int, int] | None = None


@dataclass(kw_only=True)
class Said:
    """What a member of a share group said of a record. ns: begin and answer, None = the op's own."""

    tp: int
    offset: int
    kind: Acknowledgement
    outcome: Outcome = Outcome.OK
    ns: tuple[int, int] | None = None


Mop = Send | Read | Assign | Commit | Foreign | Delivery | Said


@dataclass(kw_only=True)
class Op:
    """One op. complete None = never. Records of a transaction that it aborts keep their offsets. error: its
    place in the names of the run."""

    process: int
    f: str
    invoke: int
    complete: int | None
    outcome: Outcome = Outcome.OK
    txn: bool = False
    phase: Phase = Phase.FAULTS
    deliberate: bool = False
    error: int = -1
    mops: list[Mop] = field(default_factory=list)


@dataclass(kw_only=True)
class Process:
    """Settings of one process."""

    isolation: Isolation = Isolation.READ_COMMITTED
    slot: int = 0
    group: int = -1
    acks: int = -1
    idempotent: bool = True
    txn_id: int = -1
    auto_commit: bool = False
    retries: int = 2**31 - 1
    in_flight: int = 5
    socket_timeout_ms: int = 3000
    end: End = End.CLOSED


@dataclass(kw_only=True)
class Bound:
    """What a final read of one partition had to reach, and what it reached."""

    tp: int
    isolation: Isolation
    end: int
    read_to: int
    start: int = 0


@dataclass(kw_only=True)
class Built:
    """A history. `processes` may leave out those with default settings."""

    tps: list[str]
    ops: list[Op] = field(default_factory=list)
    processes: dict[int, Process] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)

    def sends(self) -> list[tuple[Op, Send]]:
        """Every record sent, with its op."""
        return [(op, mop) for op in self.ops for mop in op.mops if isinstance(mop, Send)]

    def reads(self) -> list[tuple[Op, Read]]:
        """Every record read, with its op."""
        return [(op, mop) for op in self.ops for mop in op.mops if isinstance(mop, Read)]

    def forget(self, reads: Sequence[Read]) -> None:
        """Nobody got these."""
        gone = {id(read) for read in reads}
        for op in self.ops:
            op.mops = [mop for mop in op.mops if id(mop) not in gone]

    def tables(self) -> dict[str, pa.Table]:
        """The tables, with the schemas and sort orders of a sealed history."""
        rows = _rows(self)
        return {name: pa.Table.from_pylist(rows[name], schema=TABLES[name]) for name in TABLES}


Rows = Mapping[int, Iterable[tuple[int, int]]]
"""Partition -> (offset, value)."""


def final_reads(
    built: Built, shown: Rows, hidden: Rows | None = None, *, end: int, start: int = 0, at_s: int = 90
) -> Built:
    """Add complete final reads: of `shown` at both levels, of `hidden` at read_uncommitted alone."""
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        built.processes[80 + level] = Process(isolation=level, acks=-2, slot=80 + level)
        begin = at_s * 1_000_000_000
        op = Op(process=80 + level, f="final", invoke=begin, complete=begin + 1, phase=Phase.FINAL)
        for tp, rows in shown.items():
            more = (hidden or {}).get(tp, ()) if level == Isolation.READ_UNCOMMITTED else ()
            op.mops += [Read(tp=tp, offset=offset, value=value) for offset, value in sorted([*rows, *more])]
            built.bounds.append(Bound(tp=tp, isolation=level, end=end, read_to=end, start=start))
        built.ops.append(op)
    return built


def _rows(built: Built) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for tp, name in enumerate(built.tps):
        rows["tps"].append({"tp": tp, "topic": name, "partition": 0})
    end = {True: OPEN, False: 0}
    order = sorted(built.ops, key=lambda op: (op.complete or end[op.complete is None], op.invoke))
    rank = {id(op): n for n, op in enumerate(order)}
    assignment: dict[tuple[int, int], int] = {}
    for op in sorted(built.ops, key=lambda op: op.invoke):
        _op_rows(built, rows, op, rank[id(op)], assignment)
    lowest: dict[tuple[int, int], int] = {}
    for read in rows["reads"]:
        key = (read["tp"], read["value"])
        lowest[key] = min(read["offset"], lowest.get(key, read["offset"]))
    for send in rows["sends"]:
        read_at = lowest.get((send["tp"], send["value"]), -1)
        send["place"] = send["offset"] if send["offset"] >= 0 else read_at
    _process_rows(built, rows)
    for bound in built.bounds:
        rows["bounds"].append(
            {
                "tp": bound.tp,
                "isolation": bound.isolation,
                "start": bound.start,
                "end": bound.end,
                "read_to": bound.read_to,
                "complete": bound.end >= 0 and bound.read_to >= bound.end,
            }
        )
    rows["ops"].sort(key=lambda row: int(row["op"]))
    for table, columns in _ORDER.items():
        rows[table].sort(key=itemgetter(*columns))
    return rows


def _op_rows(
    built: Built,
    rows: dict[str, list[dict[str, Any]]],
    op: Op,
    number: int,
    assignment: dict[tuple[int, int], int],
) -> None:
    settings = built.processes.get(op.process, Process())
    sends = [mop for mop in op.mops if isinstance(mop, Send)]
    complete = OPEN if op.complete is None else op.complete
    own = {"op": number, "process": op.process}
    pos = reads = 0
    for mop in op.mops:
        match mop:
            case Send():
                begin, acked_ns = mop.ns or (op.invoke, complete)
                outcome = mop.outcome
                if outcome is None:
                    outcome = Outcome.OK if mop.offset >= 0 else op.outcome
                rows["sends"].append(
                    {
                        "tp": mop.tp,
                        **own,
                        "pos": pos,
                        "value": mop.value,
                        "offset": mop.offset,
                        "outcome": outcome,
                        "op_outcome": op.outcome,
                        "txn": int(op.txn),
                        "op_sends": len(sends),
                        "invoke_ns": begin,
                        "ack_ns": acked_ns if outcome == Outcome.OK else -1,
                        "src_tp": mop.source[0],
                        "src_offset": mop.source[1],
                    }
                )
                pos += 1
            case Read():
                begin, end = mop.ns or (op.invoke, complete)
                rows["reads"].append(
                    {
                        "tp": mop.tp,
                        **own,
                        "pos": pos,
                        "isolation": settings.isolation,
                        "op_outcome": op.outcome,
                        "phase": op.phase,
                        "assignment": assignment.get((op.process, mop.tp), 0),
                        "leader_epoch": mop.leader_epoch,
                        "offset": mop.offset,
                        "value": mop.value,
                        "invoke_ns": begin,
                        "complete_ns": end,
                    }
                )
                pos += 1
                reads += 1
            case Assign():
                key = (op.process, mop.tp)
                kept = mop.kept or mop.kind in NUMBER_KEPT
                assignment[key] = assignment.get(key, 0) + (0 if kept else 1)
                rows["assignments"].append(
                    {
                        **own,
                        "tp": mop.tp,
                        "generation": mop.generation,
                        "assignment": assignment[key],
                        "kind": mop.kind,
                        "ns": op.invoke if mop.ns is None else mop.ns,
                    }
                )
            case Commit():
                begin, end = mop.ns or (op.invoke, complete)
                outcome = op.outcome if mop.kind == CommitKind.TXN else mop.outcome
                rows["commits"].append(
                    {
                        **own,
                        "group": settings.group,
                        "tp": mop.tp,
                        "generation": mop.generation,
                        "offset": mop.offset,
                        "kind": mop.kind,
                        "outcome": outcome,
                        "invoke_ns": begin,
                        "complete_ns": end,
                    }
                )
            case Delivery():
                begin, end = mop.ns or (op.invoke, complete)
                rows["deliveries"].append(
                    {
                        **own,
                        "group": settings.group,
                        "tp": mop.tp,
                        "offset": mop.offset,
                        "value": mop.value,
                        "delivery_count": mop.count,
                        "since_ns": begin if mop.since is None else mop.since,
                        "invoke_ns": begin,
                        "complete_ns": end,
                    }
                )
            case Said():
                begin, end = mop.ns or (op.invoke, complete)
                rows["acknowledgements"].append(
                    {
                        **own,
                        "group": settings.group,
                        "tp": mop.tp,
                        "offset": mop.offset,
                        "kind": mop.kind,
                        "outcome": mop.outcome,
                        "invoke_ns": begin,
                        "complete_ns": end,
                    }
                )
            case Foreign():
                reason = FOREIGN_REASONS.index(mop.reason)
                rows["foreign"].append(
                    {
                        "tp": mop.tp,
                        "op": number,
                        "offset": mop.offset,
                        "reason": reason,
                        "payload": mop.payload,
                    }
                )
    rows["ops"].append(
        {
            **own,
            "f": F.index(op.f),
            "outcome": op.outcome,
            "phase": op.phase,
            "txn": int(op.txn),
            "deliberate": int(op.deliberate),
            "error": op.error,
            "n_sends": len(sends),
            "n_reads": reads,
            "invoke_ns": op.invoke,
            "complete_ns": complete,
        }
    )


def _process_rows(built: Built, rows: dict[str, list[dict[str, Any]]]) -> None:
    ops: dict[int, list[Op]] = {}
    for op in built.ops:
        ops.setdefault(op.process, []).append(op)
    for process in sorted(set(ops) | set(built.processes)):
        settings = built.processes.get(process, Process())
        own: Sequence[Op] = ops.get(process, ())
        rows["processes"].append(
            {
                "process": process,
                "slot": settings.slot,
                "group": settings.group,
                "isolation": settings.isolation,
                "txn_id": settings.txn_id,
                "acks": settings.acks,
                "idempotent": int(settings.idempotent),
                "auto_commit": int(settings.auto_commit),
                "retries": settings.retries,
                "in_flight": settings.in_flight,
                "socket_timeout_ms": settings.socket_timeout_ms,
                "start_ns": min((op.invoke for op in own), default=0),
                "end_ns": max((op.complete or op.invoke for op in own), default=0),
                "end": settings.end,
            }
        )
