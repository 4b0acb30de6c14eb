"""Journals → rows of the history's tables, by one pass over each journal."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from core.errors import HistoryError
from core.op import AssignmentKind, CommitKind, Copy, End, Isolation, Outcome, Poll, ReadDatabase, Send
from history import journal as j
from history.rows import NUMBER_KEPT, NUMBERS, Misfit, Rows
from history.run_folder import FORMAT
from history.tables import NO_PRODUCER, OPEN

SPILL_LINES = 1000
Spill = Callable[[Rows], None]
"""Called after each `SPILL_LINES` lines; it may take the rows of clustered tables."""


def read_journals(paths: Iterable[Path], spill: Spill = lambda _: None) -> Rows:
    """Rows of all these journals. Raises: HistoryError; what `spill` raises."""
    return rows_of(((str(path), j.lines(path)) for path in paths), spill)


def rows_of(journals: Iterable[tuple[str, Iterable[j.Line]]], spill: Spill = lambda _: None) -> Rows:
    """Rows of journals: (name, lines) each, read once. Raises: HistoryError; what `spill` raises."""
    rows = Rows()
    for name, lines in journals:
        header = next(rest := iter(lines), None)
        if not isinstance(header, j.JournalHeader):
            continue  # the process ended before its header was written: it did nothing
        if header.format > FORMAT:
            raise HistoryError(f"{name} has format {header.format}, newer than {FORMAT}")
        number = 1
        try:
            process = _Process(rows, header)
            last_ns = header.ns
            for line in rest:
                number += 1
                process.take(line)
                last_ns = line.ns
                if not number % SPILL_LINES:
                    spill(rows)
            process.finish(last_ns)
        except (Misfit, OverflowError, IndexError) as error:
            why = error if isinstance(error, Misfit) else "a number or a list that does not fit"
            raise HistoryError(f"{name} line {number} is damaged: {why}") from None
    return rows


@dataclass(slots=True)
class _Op:
    """An op while its journal is read. `polled`: by micro-op, the lines of a poll (two where a reset
    parts it), each with the assignment number of each run beside it. `copying`, `copied`: of a copy, what
    it set out to send, and the results."""

    invoked: j.Invoked
    number: int
    sent: dict[int, tuple[int, tuple[int, int, int, str]]] = field(default_factory=dict)
    polled: dict[int, list[tuple[j.Polled, list[int]]]] = field(default_factory=dict)
    copying: dict[int, j.Copying] = field(default_factory=dict)
    copied: dict[int, j.SendResults] = field(default_factory=dict)
    committed: list[j.OffsetsCommitted] = field(default_factory=list)
    acquired: list[j.Acquired] = field(default_factory=list)
    acknowledging: dict[int, j.Acknowledging] = field(default_factory=dict)
    acknowledged: dict[int, j.Acknowledged] = field(default_factory=dict)
    completed: j.OpCompleted | None = None
    n_sends: int = 0
    """Records that it set out to send: its sends, and the copies that it came to."""

    @property
    def outcome(self) -> Outcome:
        return self.completed.outcome if self.completed else Outcome.INFO


class _Process:
    """One process: its open op, and what it is assigned."""

    def __init__(self, rows: Rows, header: j.JournalHeader) -> None:
        if not 0 <= header.process < NUMBERS:
            raise Misfit(f"there is no process {header.process}")
        rows.of_run(header.run)
        self.remade = 0 if header.remade is msgspec.UNSET else header.remade
        rows.remade = max(rows.remade, self.remade)
        self.rows = rows
        self.header = header
        self.isolation = int(header.spec.isolation)
        self.op: _Op | None = None
        self.last = -1
        self.end = End.CRASHED
        self.assigned: set[int] = set()
        self.assignments: dict[int, int] = {}

    def _tp(self, topic: str, partition: int) -> int:
        """A partition that this process works with."""
        return self.rows.tp(topic, partition, self.remade)

    def take(self, line: j.Line) -> None:
        """One line, in the order of the journal."""
        op = self.op
        match line:
            case j.JournalHeader():
                raise Misfit("a second header: the journal is there twice over, or another one behind it")
            case j.Invoked():
                self._flush()
                self.op = _Op(line, self.rows.ops)
                self.last = self.rows.ops
                self.rows.ops += 1
            case j.Copying() if op:
                op.copying[line.mop] = line
            case j.SendResults() if op and line.mop in op.copying:
                op.copied[line.mop] = line
            case j.SendResults() if op:
                if self.header.spec.acks is None:
                    raise Misfit("a process that does not produce (acks null) has results of sends")
                for n, result in enumerate(line.results):
                    op.sent[line.mop + n] = (line.begin_ns, result)
            case j.Polled() if op:
                if self.isolation == Isolation.NONE and line.runs:
                    raise Misfit("a process that does not consume (isolation -1) has records of polls")
                tps = [self._tp(run[0], run[1]) for run in line.runs]
                numbers = [self.assignments.get(tp, 0) for tp in tps]
                op.polled.setdefault(line.mop, []).append((line, numbers))
            case j.Acquired() if op:
                op.acquired.append(line)
            case j.Acknowledging() if op:
                op.acknowledging[line.mop] = line
            case j.Acknowledged() if op and line.mop in op.acknowledging:
                op.acknowledged[line.mop] = line
            case j.OffsetsCommitted() if op:
                op.committed.append(line)
            case j.OffsetsCommitted():  # as the client was closed
                self._commits(self.last, line.outcome, line)
            case j.OpCompleted() if op:
                op.completed = line
                self._flush()
            case j.AssignmentChanged():
                self._assignment(line)
            case j.ProducerChanged():
                self.rows.columns["producers"].add(process=self.header.process, **asdict(line))
            case j.EndSeen() if self.header.spec.report_end:
                tp = self._tp(line.topic, line.partition)
                self.rows.reached(tp, self.isolation, line.offset)
            case j.Closed():
                self.end = line.end

    def finish(self, last_ns: int) -> None:
        """The journal has ended."""
        self._flush()
        spec, producer = self.header.spec, self.header.client.producer
        self.rows.columns["processes"].add(
            process=self.header.process,
            slot=self.header.slot,
            group=self.rows.group(spec.group),
            isolation=self.isolation,
            txn_id=self.rows.txn_id(spec.transactional_id),
            acks=NO_PRODUCER if spec.acks is None else spec.acks,
            idempotent=int(spec.idempotent),
            auto_commit=int(spec.auto_commit),
            retries=-1 if producer is None else producer.retries,
            in_flight=-1 if producer is None else producer.in_flight,
            socket_timeout_ms=-1 if producer is None else producer.socket_timeout_ms,
            start_ns=self.header.ns,
            end_ns=last_ns,
            end=int(self.end),
        )

    def _assignment(self, line: j.AssignmentChanged) -> None:
        """Number the change: reads of a partition under different numbers need not connect."""
        tps = {self._tp(*tp) for tp in line.tps}
        if line.kind is AssignmentKind.MANUAL:
            # The client keeps the position of a partition that it had and still has.
            changed = tps - self.assigned
            self.assigned = tps
        elif line.kind in NUMBER_KEPT:
            changed = set()
        else:
            changed = tps
        for tp in changed:
            self.assignments[tp] = self.assignments.get(tp, 0) + 1
        # A process goes back because of an op: where it is on record after that op, of the last one.
        last = self.last if line.kind is AssignmentKind.REWIND else -1
        op = self.op.number if self.op else last
        for tp in [self._tp(*name) for name in sorted(set(line.tps))]:
            self.rows.columns["assignments"].add(
                process=self.header.process,
                tp=tp,
                generation=line.generation,
                op=op,
                assignment=self.assignments.get(tp, 0),
                kind=int(line.kind),
                ns=line.ns,
            )

    def _flush(self) -> None:
        """The open op has ended, or never will."""
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
            elif isinstance(mop, Poll | ReadDatabase):
                for line, numbers in op.polled.get(at, ()):
                    count = self._reads(op, line, numbers, pos)
                    reads, pos = reads + count, pos + count
        for acquired in op.acquired:
            self._deliveries(op.number, acquired)
        for at, acknowledging in op.acknowledging.items():
            self._acknowledgements(op.number, acknowledging, op.acknowledged.get(at))
        for committed in op.committed:
            outcome = op.outcome if committed.kind is CommitKind.TXN else committed.outcome
            self._commits(op.number, outcome, committed)
        done, invoked = op.completed, op.invoked
        self.rows.columns["ops"].add(
            op=op.number,
            process=self.header.process,
            f=self.rows.f(invoked.f),
            outcome=int(op.outcome),
            phase=int(invoked.phase),
            txn=int(invoked.txn),
            deliberate=int(invoked.abort),
            error=self.rows.error(done.error) if done and done.error else -1,
            n_sends=op.n_sends,
            n_reads=reads,
            invoke_ns=invoked.ns,
            complete_ns=done.ns if done else OPEN,
        )

    def _send(self, op: _Op, at: int, mop: Send, pos: int) -> None:
        # Where the op completed, it ended before a record without a result was handed to the client.
        unsent = Outcome.FAIL if op.completed else Outcome.INFO
        begin, result = op.sent.get(at, (op.invoked.ns, (unsent, -1, -1, "")))
        self._send_row(op, pos, (*mop.tp, mop.value), (begin, result), (-1, -1))

    def _copy(self, op: _Op, at: int, pos: int) -> int:
        """Rows of a copy; how many. Without results the number is unknown: the copy's line precedes the
        hand-over of its records to the client."""
        line, done = op.copying[at], op.copied.get(at)
        for n, (topic, partition, value, source, source_partition, offset) in enumerate(line.records):
            begin, result = line.ns, (int(Outcome.INFO), -1, -1, "")
            if done is not None:
                begin, result = done.begin_ns, done.results[n]
            src = (self._tp(source, source_partition), offset)
            self._send_row(op, pos + n, (topic, partition, value), (begin, result), src)
        return len(line.records)

    def _send_row(
        self,
        op: _Op,
        pos: int,
        record: tuple[str, int, int],
        sent: tuple[int, tuple[int, int, int, str]],
        src: tuple[int, int],
    ) -> None:
        """One row. record: topic, partition, value; sent: when, and the result as `SendResults` has it."""
        topic, partition, value = record
        begin, (outcome, offset, ns, _) = sent
        self.rows.columns["sends"].add(
            tp=self._tp(topic, partition),
            op=op.number,
            process=self.header.process,
            pos=pos,
            value=value,
            offset=offset,
            place=-1,
            outcome=outcome,
            op_outcome=int(op.outcome),
            txn=int(op.invoked.txn),
            op_sends=op.n_sends,
            invoke_ns=begin,
            ack_ns=ns if outcome == Outcome.OK or offset >= 0 else -1,
            src_tp=src[0],
            src_offset=src[1],
        )

    def _reads(self, op: _Op, line: j.Polled, numbers: list[int], pos: int) -> int:
        count = 0
        for (topic, partition, offsets, values, epochs), number in zip(line.runs, numbers, strict=True):
            n = len(offsets)
            self.rows.columns["reads"].add_rows(
                n,
                tp=self._tp(topic, partition),
                op=op.number,
                process=self.header.process,
                pos=range(pos + count, pos + count + n),
                isolation=self.isolation,
                op_outcome=int(op.outcome),
                phase=int(op.invoked.phase),
                assignment=number,
                leader_epoch=epochs,
                offset=offsets,
                value=values,
                invoke_ns=line.begin_ns,
                complete_ns=line.ns,
            )
            count += n
        self._foreign(op.number, line.foreign)
        return count

    def _commits(self, op: int, outcome: Outcome, line: j.OffsetsCommitted) -> None:
        for topic, partition, offset in line.offsets:
            self.rows.columns["commits"].add(
                group=self.rows.group(self.header.spec.group),
                tp=self._tp(topic, partition),
                op=op,
                process=self.header.process,
                generation=line.generation,
                offset=offset,
                kind=int(line.kind),
                outcome=int(outcome),
                invoke_ns=line.begin_ns,
                complete_ns=line.ns,
            )

    def _deliveries(self, op: int, line: j.Acquired) -> None:
        for topic, partition, offsets, values, counts in line.runs:
            self.rows.columns["deliveries"].add_rows(
                len(offsets),
                group=self.rows.group(self.header.spec.group),
                tp=self._tp(topic, partition),
                op=op,
                process=self.header.process,
                offset=offsets,
                value=values,
                delivery_count=counts,
                since_ns=line.since_ns,
                invoke_ns=line.begin_ns,
                complete_ns=line.ns,
            )
        self._foreign(op, line.foreign)

    def _acknowledgements(self, op: int, line: j.Acknowledging, done: j.Acknowledged | None) -> None:
        for at, (topic, partition, offsets, kinds) in enumerate(line.records):
            outcome = int(Outcome.INFO) if done is None else done.results[at][0]
            self.rows.columns["acknowledgements"].add_rows(
                len(offsets),
                group=self.rows.group(self.header.spec.group),
                tp=self._tp(topic, partition),
                op=op,
                process=self.header.process,
                offset=offsets,
                kind=kinds,
                outcome=outcome,
                invoke_ns=line.ns if done is None else done.begin_ns,
                complete_ns=OPEN if done is None else done.ns,
            )

    def _foreign(self, op: int, records: Iterable[tuple[str, int, int, int, bytes]]) -> None:
        for topic, partition, offset, reason, payload in records:
            self.rows.columns["foreign"].add(
                tp=self._tp(topic, partition), op=op, offset=offset, reason=reason, payload=payload
            )
