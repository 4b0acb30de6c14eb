"""Portable histories (`checkers.portable.format`) as the tables of a sealed history.

How a case becomes tables:
- A key is a topic with one partition. A value is unique within its key only, so each (key, value)
  gets an id, made as recorded runs make it; `PortableTables.values` gives the name back.
- The n-th event happens at n microseconds.
- Outcome of a record: in a transaction OK once it has an offset or the op is ok; outside of one the
  op's own, except that an op which says `"txn": false` lets an offset acknowledge its record.
- assign and subscribe (ok or info) drop the positions of the keys that they do not list: an event of
  `assignments` for each. So is each key that a rebalance names; the reads of that op come after it.
- There are no final reads (`bounds` is empty), commits or producer identities.

Not here: the verdict of a case (`checkers.api`), and recorded runs (`history.seal`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from checkers.portable.cases import read
from checkers.portable.format import Name, PollMop, PortableOp, SendMop
from core.errors import HistoryError
from core.op import AssignmentKind, End, Isolation, Outcome, Phase, value_of
from history.tables import OPEN, TABLES

F: Final = ("send", "poll", "txn", "assign", "subscribe", "crash")
TICK_NS: Final = 1_000
_ORDER: Final = {"sends": ("tp", "op", "pos"), "reads": ("tp", "process", "op", "pos")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableTables:
    """One history. `ops[n]` is the op that the tables number n; `values` names the value ids.

    tables: as `history.tables` describes them, `ops.f` = position in `F`; none where the case is of the kind
    `unit`, or cannot be judged: `error` says why.
    """

    name: str
    kind: str
    ops: tuple[PortableOp, ...]
    tables: dict[str, pa.Table]
    values: dict[int, Name]
    error: str = ""


def cases(path: Path) -> Iterator[PortableTables]:
    """The cases of a file, in order; those that cannot be judged have an `error`.

    Raises: HistoryError, where the file cannot be read or holds nothing.
    """
    for case in read(path):
        tables: dict[str, pa.Table] = {}
        values: dict[int, Name] = {}
        error = case.error
        if case.kind != "unit" and not error:
            builder = _Builder(f"{path}: case {case.name!r}", case.ops)
            try:
                tables, values = builder.tables(), builder.values
            except HistoryError as refused:
                error = str(refused)
        yield PortableTables(
            name=case.name, kind=case.kind, ops=case.ops, tables=tables, values=values, error=error
        )


class _Builder:
    """Rows of one history's tables; `tables` is called once."""

    def __init__(self, where: str, ops: tuple[PortableOp, ...]) -> None:
        self._where = where
        self._ops = ops
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._tp = {key: tp for tp, key in enumerate(sorted(set(_keys(ops))))}
        self._ids: dict[tuple[int, Name], int] = {}
        self._assignment: dict[tuple[int, int], int] = {}
        self._lowest_read: dict[int, int] = {}

    @property
    def values(self) -> dict[int, Name]:
        return {id_: value for (_, value), id_ in self._ids.items()}

    def tables(self) -> dict[str, pa.Table]:
        self._rows["tps"] = [{"tp": tp, "topic": key, "partition": 0} for key, tp in self._tp.items()]
        self._number_values()
        # assignments count in the order in which a process invoked its ops
        for number, op in sorted(enumerate(self._ops), key=lambda pair: pair[1].invoked_at):
            self._op(number, op)
        for row in self._rows["sends"]:
            acked = row["offset"] >= 0
            row["place"] = row["offset"] if acked else self._lowest_read.get(row["value"], -1)
        self._processes()
        self._rows["ops"].sort(key=lambda row: int(row["op"]))
        for name, columns in _ORDER.items():
            self._rows[name].sort(key=itemgetter(*columns))
        return {
            name: pa.Table.from_pylist(self._rows[name], schema=schema) for name, schema in TABLES.items()
        }

    def _number_values(self) -> None:
        """Ids as a recorded run has them; values without a send belong to an extra process."""
        writer: dict[tuple[int, Name], PortableOp] = {}
        count: dict[int, int] = {}
        for op in self._ops:
            for mop in op.sends:
                key = (self._tp[str(mop.key)], _offset_and_value(mop)[1])
                if key in writer:
                    raise HistoryError(
                        f"{self._where}: value {key[1]!r} of key {mop.key!r} is sent twice, by the "
                        f"ops invoked at history[{writer[key].invoked_at}] and "
                        f"history[{op.invoked_at}]; expected once"
                    )
                writer[key] = op
                self._ids[key] = value_of(op.process, count.get(op.process, 0))
                count[op.process] = count.get(op.process, 0) + 1
        nobody = max((op.process for op in self._ops), default=0) + 1
        for name, _, value in _polled(self._ops):
            key = (self._tp[name], value)
            if key not in self._ids:
                self._ids[key] = value_of(nobody, count.get(nobody, 0))
                count[nobody] = count.get(nobody, 0) + 1

    def _op(self, number: int, op: PortableOp) -> None:
        times = {
            "invoke_ns": op.invoked_at * TICK_NS,
            "complete_ns": OPEN if op.completed_at is None else op.completed_at * TICK_NS,
        }
        for event in op.rebalances:
            for key in event.keys:
                self._assign(number, op, self._tp[str(key)], AssignmentKind[event.type.upper()])
        pos = 0
        for mop in op.mops:
            if isinstance(mop, SendMop):
                self._send(number, op, mop, pos, times)
                pos += 1
            else:
                pos += self._poll(number, op, mop, pos, times)
        if op.assigned is not None and op.outcome != Outcome.FAIL:
            for key, tp in self._tp.items():
                if key not in op.assigned:
                    self._assign(number, op, tp, AssignmentKind.MANUAL)
        self._rows["ops"].append(
            {
                "op": number,
                "process": op.process,
                "f": F.index(op.f),
                "outcome": op.outcome,
                "phase": Phase.FAULTS,
                "txn": int(op.txn),
                "deliberate": 0,
                "error": -1,
                "n_sends": len(op.sends),
                "n_reads": pos - len(op.sends),
                **times,
            }
        )

    def _send(self, number: int, op: PortableOp, mop: SendMop, pos: int, times: dict[str, int]) -> None:
        offset, value = _offset_and_value(mop)
        tp = self._tp[str(mop.key)]
        decided = op.txn or (op.said_txn is False and op.outcome == Outcome.INFO)
        acked = op.outcome == Outcome.OK or (offset >= 0 and decided)
        self._rows["sends"].append(
            {
                "tp": tp,
                "op": number,
                "process": op.process,
                "pos": pos,
                "value": self._ids[tp, value],
                "offset": offset,
                "outcome": Outcome.OK if acked else op.outcome,
                "op_outcome": op.outcome,
                "txn": int(op.txn),
                "op_sends": len(op.sends),
                "invoke_ns": times["invoke_ns"],
                "ack_ns": times["complete_ns"] if acked or offset >= 0 else -1,
                "src_tp": -1,
                "src_offset": -1,
            }
        )

    def _poll(self, number: int, op: PortableOp, mop: PollMop, pos: int, times: dict[str, int]) -> int:
        first = pos
        for key, records in mop.records.items():
            tp = self._tp[key]
            for offset, value in records:
                id_ = self._ids[tp, value]
                self._lowest_read[id_] = min(offset, self._lowest_read.get(id_, offset))
                self._rows["reads"].append(
                    {
                        "tp": tp,
                        "op": number,
                        "process": op.process,
                        "pos": pos,
                        "isolation": Isolation.READ_COMMITTED,
                        "op_outcome": op.outcome,
                        "phase": Phase.FAULTS,
                        "leader_epoch": -1,
                        "offset": offset,
                        "value": id_,
                        "assignment": self._assignment.get((op.process, tp), 0),
                        **times,
                    }
                )
                pos += 1
        return pos - first

    def _assign(self, number: int, op: PortableOp, tp: int, kind: AssignmentKind) -> None:
        assignment = self._assignment.get((op.process, tp), 0) + 1
        self._assignment[op.process, tp] = assignment
        self._rows["assignments"].append(
            {
                "process": op.process,
                "tp": tp,
                "generation": -1,
                "op": number,
                "assignment": assignment,
                "kind": kind,
                "ns": op.invoked_at * TICK_NS + 1,
            }
        )

    def _processes(self) -> None:
        ops: dict[int, list[PortableOp]] = {}
        for op in self._ops:
            ops.setdefault(op.process, []).append(op)
        for slot, (process, own) in enumerate(sorted(ops.items())):
            ends = [op.invoked_at if op.completed_at is None else op.completed_at for op in own]
            crashed = any(op.f == "crash" or op.completed is None for op in own)
            self._rows["processes"].append(
                {
                    "process": process,
                    "slot": slot,
                    "group": -1,
                    "txn_id": -1,
                    "acks": -1,
                    "isolation": Isolation.READ_COMMITTED,
                    "idempotent": 1,
                    "auto_commit": 0,
                    "retries": -1,
                    "in_flight": -1,
                    "socket_timeout_ms": -1,
                    "start_ns": min(op.invoked_at for op in own) * TICK_NS,
                    "end_ns": max(ends) * TICK_NS,
                    "end": End.CRASHED if crashed else End.CLOSED,
                }
            )


def _offset_and_value(mop: SendMop) -> tuple[int, Name]:
    """Offset (-1 unknown) and value of a send."""
    if not isinstance(mop.value, tuple):
        return -1, mop.value
    offset, value = mop.value
    return -1 if offset is None else offset, value


def _polled(ops: Iterable[PortableOp]) -> Iterator[tuple[str, int, Name]]:
    """Every polled record: key, offset, value."""
    for op in ops:
        for mop in op.mops:
            if isinstance(mop, PollMop):
                for key, records in mop.records.items():
                    yield from ((key, offset, value) for offset, value in records)


def _keys(ops: Iterable[PortableOp]) -> Iterator[str]:
    """Every key that the history names, as text."""
    for op in ops:
        yield from op.assigned or ()
        yield from (str(key) for event in op.rebalances for key in event.keys)
        yield from (str(mop.key) for mop in op.sends)
        yield from (key for mop in op.mops if isinstance(mop, PollMop) for key in mop.records)
