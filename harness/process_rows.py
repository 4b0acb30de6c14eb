"""The lines of journals, taken one by one into the rows of the history's tables.

Not here: the tables as a whole (`harness.rows`), the journal's format (`harness.journal`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness import journal as j
from harness.history import OPEN
from harness.op import AssignmentKind, CommitKind, Copy, End, Outcome, Poll, Send
from harness.rows import Rows
from harness.store import FORMAT

POSITION_KEPT = (AssignmentKind.REWIND,)
"""Kinds after which reads go on from where the last completed op left them."""


def read_journals(paths: Iterable[Path]) -> Rows:
    """Rows of all these journals. Raises JournalError."""
    return rows_of((str(path), j.read(path)) for path in paths)


def rows_of(journals: Iterable[tuple[str, list[j.Line]]]) -> Rows:
    """Rows of journals that were read: (name, lines) each. Raises JournalError."""
    rows = Rows()
    for name, lines in journals:
        if not lines or not isinstance(header := lines[0], j.Opened):
            continue  # the process ended before its header was written: it did nothing
        if header.format > FORMAT:
            raise j.JournalError(f"{name} has format {header.format}, newer than {FORMAT}")
        process = _Process(rows, header)
        for line in lines[1:]:
            process.take(line)
        process.finish(lines[-1].ns)
    return rows


@dataclass(slots=True)
class _Op:
    """An op while its journal is read. `polled`: by micro-op, the lines of a poll (two where a reset
    parts it), each with the assignment number of each run beside it. `copying`, `copied`: of a copy, what
    it set out to send, and what became of it."""

    invoked: j.Invoked
    number: int
    sent: dict[int, tuple[int, tuple[int, int, int, str]]] = field(default_factory=dict)
    polled: dict[int, list[tuple[j.Polled, list[int]]]] = field(default_factory=dict)
    copying: dict[int, j.Copying] = field(default_factory=dict)
    copied: dict[int, j.Sent] = field(default_factory=dict)
    committed: list[j.OffsetsCommitted] = field(default_factory=list)
    completed: j.Completed | None = None
    n_sends: int = 0
    """Records that it set out to send: its sends, and the copies that it came to."""

    @property
    def outcome(self) -> Outcome:
        return self.completed.outcome if self.completed else Outcome.INFO


class _Process:
    """One process: its open op, and what it is assigned."""

    def __init__(self, rows: Rows, header: j.Opened) -> None:
        self.rows = rows
        self.header = header
        self.isolation = int(header.spec["isolation"])
        self.op: _Op | None = None
        self.last = -1
        self.end = End.CRASHED
        self.assigned: set[int] = set()
        self.assignments: dict[int, int] = {}

    def take(self, line: j.Line) -> None:
        """One line, in the order of the journal."""
        op = self.op
        match line:
            case j.Invoked():
                self._flush()
                self.op = _Op(line, self.rows.ops)
                self.last = self.rows.ops
                self.rows.ops += 1
            case j.Copying() if op:
                op.copying[line.mop] = line
            case j.Sent() if op and line.mop in op.copying:
                op.copied[line.mop] = line
            case j.Sent() if op:
                for n, result in enumerate(line.results):
                    op.sent[line.mop + n] = (line.begin_ns, result)
            case j.Polled() if op:
                tps = [self.rows.tp(run[0], run[1]) for run in line.runs]
                numbers = [self.assignments.get(tp, 0) for tp in tps]
                op.polled.setdefault(line.mop, []).append((line, numbers))
            case j.OffsetsCommitted() if op:
                op.committed.append(line)
            case j.OffsetsCommitted():  # as the client was closed
                self._commits(self.last, line.outcome, line)
            case j.Completed() if op:
                op.completed = line
                self._flush()
            case j.AssignmentChanged():
                self._assignment(line)
            case j.ProducerChanged():
                self.rows.columns["producers"].add(
                    1, process=self.header.process, producer_id=line.producer_id,
                    producer_epoch=line.producer_epoch, epoch_cnt=line.epoch_cnt, ns=line.ns,
                )  # fmt: skip
            case j.EndSeen() if self.header.spec["report_end"]:
                tp = self.rows.tp(line.topic, line.partition)
                self.rows.reached(tp, self.isolation, line.offset)
            case j.Closed():
                self.end = line.end

    def finish(self, last_ns: int) -> None:
        """The journal is over."""
        self._flush()
        spec = self.header.spec
        self.rows.columns["processes"].add(
            1, process=self.header.process, slot=self.header.slot,
            group=self.rows.group(spec["group"]), isolation=self.isolation,
            txn_id=self.rows.txn_id(spec["transactional_id"]),
            acks=-2 if spec["acks"] is None else spec["acks"], idempotent=int(spec["idempotent"]),
            auto_commit=int(spec["auto_commit"]), start_ns=self.header.ns, end_ns=last_ns, end=int(self.end),
        )  # fmt: skip

    def _assignment(self, line: j.AssignmentChanged) -> None:
        """Number the change: reads of a partition under different numbers need not connect."""
        tps = {self.rows.tp(*tp) for tp in line.tps}
        if line.kind is AssignmentKind.MANUAL:
            # The client keeps the position of a partition that it had and still has.
            changed = tps - self.assigned
            self.assigned = tps
        elif line.kind in POSITION_KEPT:
            changed = set()
        else:
            changed = tps
        for tp in changed:
            self.assignments[tp] = self.assignments.get(tp, 0) + 1
        for tp in sorted(tps):
            self.rows.columns["assignments"].add(
                1, process=self.header.process, tp=tp, generation=line.generation,
                op=self.op.number if self.op else -1, assignment=self.assignments.get(tp, 0),
                kind=int(line.kind), ns=line.ns,
            )  # fmt: skip

    def _flush(self) -> None:
        """The open op is over, or will never be."""
        op, self.op = self.op, None
        if op is None:
            return
        op.n_sends = sum(isinstance(mop, Send) for mop in op.invoked.mops)
        op.n_sends += sum(len(line.records) for line in op.copying.values())
        pos = reads = 0
        for at, mop in enumerate(op.invoked.mops):
            if isinstance(mop, Send):
                self._send(op, at, mop, pos)
                pos += 1
            elif isinstance(mop, Copy) and at in op.copying:
                pos += self._copy(op, at, pos)
            elif isinstance(mop, Poll):
                for line, numbers in op.polled.get(at, ()):
                    count = self._reads(op, line, numbers, pos)
                    reads, pos = reads + count, pos + count
        for committed in op.committed:
            outcome = op.outcome if committed.kind is CommitKind.TXN else committed.outcome
            self._commits(op.number, outcome, committed)
        done, invoked = op.completed, op.invoked
        self.rows.columns["ops"].add(
            1, op=op.number, process=self.header.process, f=self.rows.f(invoked.f),
            outcome=int(op.outcome), phase=int(invoked.phase), txn=int(invoked.txn),
            deliberate=int(invoked.abort),
            error=self.rows.error(done.error) if done and done.error else -1,
            n_sends=op.n_sends, n_reads=reads, invoke_ns=invoked.ns,
            complete_ns=done.ns if done else OPEN,
        )  # fmt: skip

    def _send(self, op: _Op, at: int, mop: Send, pos: int) -> None:
        if at in op.sent:
            begin, (outcome, offset, ns, _) = op.sent[at]
        else:
            # Where the op completed, it ended before this record was handed to the client.
            outcome = int(Outcome.FAIL if op.completed else Outcome.INFO)
            begin, offset, ns = op.invoked.ns, -1, -1
        result = (outcome, offset, ns)
        self._send_row(op, pos, (*mop.tp, mop.value), (begin, result), (-1, -1))

    def _copy(self, op: _Op, at: int, pos: int) -> int:
        """Rows of a copy; how many. Without results nobody knows: its line is written last thing
        before its records are handed to the client."""
        line, done = op.copying[at], op.copied.get(at)
        for n, (topic, partition, value, source, source_partition, offset) in enumerate(
            line.records
        ):
            begin, result = line.ns, (int(Outcome.INFO), -1, -1)
            if done is not None:
                begin, result = done.begin_ns, done.results[n][:3]
            src = (self.rows.tp(source, source_partition), offset)
            self._send_row(op, pos + n, (topic, partition, value), (begin, result), src)
        return len(line.records)

    def _send_row(
        self,
        op: _Op,
        pos: int,
        record: tuple[str, int, int],
        sent: tuple[int, tuple[int, int, int]],
        src: tuple[int, int],
    ) -> None:
        """One row. record: topic, partition, value; sent: when, and (outcome, offset, ns)."""
        topic, partition, value = record
        begin, (outcome, offset, ns) = sent
        self.rows.columns["sends"].add(
            1, tp=self.rows.tp(topic, partition), op=op.number, process=self.header.process,
            pos=pos, value=value, offset=offset, place=-1, outcome=outcome,
            op_outcome=int(op.outcome), txn=int(op.invoked.txn), op_sends=op.n_sends,
            invoke_ns=begin, ack_ns=ns if outcome == Outcome.OK else -1,
            src_tp=src[0], src_offset=src[1],
        )  # fmt: skip

    def _reads(self, op: _Op, line: j.Polled, numbers: list[int], pos: int) -> int:
        count = 0
        for (topic, partition, offsets, values, epochs), number in zip(
            line.runs, numbers, strict=True
        ):
            n = len(offsets)
            self.rows.columns["reads"].add(
                n, tp=self.rows.tp(topic, partition), op=op.number, process=self.header.process,
                pos=range(pos + count, pos + count + n), isolation=self.isolation,
                op_outcome=int(op.outcome), phase=int(op.invoked.phase), assignment=number,
                leader_epoch=epochs, offset=offsets, value=values,
                invoke_ns=line.begin_ns, complete_ns=line.ns,
            )  # fmt: skip
            count += n
        for topic, partition, offset, reason, payload in line.foreign:
            self.rows.columns["foreign"].add(
                1, tp=self.rows.tp(topic, partition), op=op.number, offset=offset,
                reason=reason, payload=[payload],
            )  # fmt: skip
        return count

    def _commits(self, op: int, outcome: Outcome, line: j.OffsetsCommitted) -> None:
        for topic, partition, offset in line.offsets:
            self.rows.columns["commits"].add(
                1, group=self.rows.group(self.header.spec["group"]),
                tp=self.rows.tp(topic, partition), op=op, process=self.header.process,
                generation=line.generation, offset=offset, kind=int(line.kind),
                outcome=int(outcome), invoke_ns=line.begin_ns, complete_ns=line.ns,
            )  # fmt: skip
