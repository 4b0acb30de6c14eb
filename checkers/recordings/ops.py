"""Ops of portable histories and of Jepsen's as lines of journals.

- A key is a topic with one partition. A value has the number that `value_id` gives it.
- An op without completion has an invocation alone.
- Outcome of a record: in a transaction OK once it has an offset or the op is ok; outside of one the
  op's own, except that an op which says `"txn": false` lets an offset acknowledge its record.
- assign and subscribe (ok or info) drop the positions of the keys that they do not list, and a rebalance
  those of the keys that it names: the polls of that op come after it. What was dropped is named by an
  assignment, which no poll connects across.
"""

from collections.abc import Iterator
from typing import Protocol

from checkers.recordings.portable import Name, PortableOp, SendMop
from checkers.recordings.recording import value_id
from core.op import Assign, AssignmentKind, End, Mop, Outcome, Phase, Poll, Send, Subscribe, TopicPartition
from history import journal as j


class Journals(Protocol):
    """What takes lines of journals: see `checkers.recordings.recording.Recording`."""

    @property
    def ops(self) -> int:
        """How many ops it has."""

    def known(self, process: int) -> bool:
        """Whether its settings were given."""

    def process(self, process: int, *, ns: int) -> None:
        """Settings of a process, before its first line."""

    def write(self, process: int, *lines: j.Line) -> None:
        """Lines of a process, in order of time."""

    def ended(self, process: int, end: End) -> None:
        """How the process ended."""


class OpWriter:
    """Writes ops to journals; ops of one process in order. began, ended: times in ns of the op.

    moved_by_groups: a process that subscribes is a member of a group from then on, which moves its positions;
    that is not on record. Else rebalances are.
    """

    def __init__(self, journals: Journals, *, moved_by_groups: bool) -> None:
        self._journals = journals
        self._moved_by_groups = moved_by_groups
        self._crashed: set[int] = set()
        self._touched: dict[int, set[TopicPartition]] = {}
        self._tps: dict[str, TopicPartition] = {}

    def write(
        self, op: PortableOp, began: int, ended: int, *, rewind: bool = False, left: bool = False
    ) -> None:
        """One op. rewind: an assign that also goes to the beginning of the keys that it lists. left: an op
        without completion, whose process invoked another one; it ended in doubt before that."""
        process, number = op.process, self._journals.ops
        if not self._journals.known(process):
            self._journals.process(process, ns=began)
        mops = tuple(self._mops(op))
        lines: list[j.Line] = [
            j.Invoked(op=number, ns=began, phase=Phase.FAULTS, f=_f(op), txn=op.txn, abort=False, mops=mops)
        ]
        if op.completed is not None or left:
            lines += self._rebalances(op, number, began)
            lines += self._results(op, number, began, ended)
            if op.assigned is not None and op.outcome != Outcome.FAIL:
                if op.f == "subscribe" and self._moved_by_groups:
                    lines.append(self._assigned(op, number, ended))
                lines += self._dropped(op, number, ended, rewind=rewind)
        if op.completed is not None or left:
            lines.append(j.OpCompleted(op=number, ns=ended, outcome=op.outcome))
        self._journals.write(process, *lines)
        if op.f == "crash" or op.completed is None:
            self._crashed.add(process)
        self._journals.ended(process, End.CRASHED if process in self._crashed else End.CLOSED)

    def _tp(self, key: Name) -> TopicPartition:
        text = str(key)
        if text not in self._tps:
            self._tps[text] = TopicPartition(text, 0)
        return self._tps[text]

    def _mops(self, op: PortableOp) -> Iterator[Mop]:
        touched = self._touched.setdefault(op.process, set())
        for mop in op.mops:
            if isinstance(mop, SendMop):
                tp = self._tp(mop.key)
                touched.add(tp)
                yield Send(tp, value_id(_value(mop)))
            else:
                yield Poll()
        if op.assigned is not None:
            tps = tuple(map(self._tp, op.assigned))
            touched.update(tps)
            yield Assign(tps) if op.f == "assign" else Subscribe(tuple(sorted({tp.topic for tp in tps})))

    def _rebalances(self, op: PortableOp, number: int, ns: int) -> Iterator[j.Line]:
        for event in op.rebalances:
            tps = [(tp.topic, tp.partition) for tp in map(self._tp, event.keys)]
            kind = AssignmentKind[event.type.upper()]
            yield j.AssignmentChanged(op=number, ns=ns, kind=kind, generation=-1, tps=tps)

    def _results(self, op: PortableOp, number: int, began: int, ended: int) -> Iterator[j.Line]:
        touched = self._touched[op.process]
        decided = op.txn or (op.said_txn is False and op.outcome == Outcome.INFO)
        for at, mop in enumerate(op.mops):
            if isinstance(mop, SendMop):
                offset = mop.value[0] if isinstance(mop.value, tuple) else None
                offset = -1 if offset is None else offset
                acked = op.outcome == Outcome.OK or (offset >= 0 and decided)
                result = (int(Outcome.OK if acked else op.outcome), offset, ended, "")
                yield j.SendResults(op=number, mop=at, begin_ns=began, ns=ended, results=[result])
            else:
                runs = [self._run(key, records) for key, records in mop.records.items() if records]
                touched.update(TopicPartition(run[0], run[1]) for run in runs)
                yield j.Polled(op=number, mop=at, begin_ns=began, ns=ended, runs=runs)

    def _run(
        self, key: str, records: list[tuple[int, Name]]
    ) -> tuple[str, int, list[int], list[int], list[int]]:
        offsets = [offset for offset, _ in records]
        values = [value_id(value) for _, value in records]
        return (*self._tp(key), offsets, values, [-1] * len(records))

    def _assigned(self, op: PortableOp, number: int, ns: int) -> j.Line:
        tps = sorted((tp.topic, tp.partition) for tp in map(self._tp, op.assigned or ()))
        return j.AssignmentChanged(op=number, ns=ns, kind=AssignmentKind.ASSIGNED, generation=-1, tps=tps)

    def _dropped(self, op: PortableOp, number: int, ns: int, *, rewind: bool) -> Iterator[j.Line]:
        kept = set() if rewind else set(map(self._tp, op.assigned or ()))
        tps = [(tp.topic, tp.partition) for tp in sorted(self._touched[op.process] - kept)]
        kind = AssignmentKind.RESET if rewind else AssignmentKind.MANUAL
        if kind is AssignmentKind.MANUAL:  # what was dropped before is dropped again: it may have been read
            yield j.AssignmentChanged(op=number, ns=ns, kind=kind, generation=-1, tps=[])
        yield j.AssignmentChanged(op=number, ns=ns, kind=kind, generation=-1, tps=tps)


def _f(op: PortableOp) -> str:
    """Its kind; a transaction that only sends polls nothing, and nothing in doubt either."""
    only_sends = bool(op.mops) and all(isinstance(mop, SendMop) for mop in op.mops)
    return "send" if only_sends else op.f


def _value(mop: SendMop) -> Name:
    return mop.value[1] if isinstance(mop.value, tuple) else mop.value
