"""What one process reads: its positions, what an op may copy or commit of it, and its journal lines.

Polls and the events around them are journaled in the order in which they happened, which stays true
wherever the journal is cut off. For the current op we track the records that polls returned since each
partition was last assigned. Only these may be copied, committed or rewound: a record of a partition that was
revoked meanwhile is the next owner's work.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from core.op import AssignmentKind, CommitKind, Outcome, TopicPartition
from core.payload import Foreign, Uncommitted, decode
from core.session import (
    AssignmentEvent,
    AutoCommitted,
    ClientError,
    CommittedSeen,
    EndReached,
    Fetched,
    ProducerEvent,
    SessionEvent,
)
from history import journal as j
from history.journal import JournalWriter

BEGINNING = -2
"""Position of a partition that was never read: the beginning of its log."""

Run = tuple[str, int, list[int], list[int], list[int]]
"""Records of one partition in a row: topic, partition, offsets, values, leader epochs."""

REBALANCES = (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST)


@dataclass(slots=True, kw_only=True)
class ConsumerProcess:
    """One process. `op`: number of the op under way, or of the last one."""

    run: str
    journal: JournalWriter
    now_ns: Callable[[], int]
    op: int = 0
    value: Callable[[TopicPartition, int, bytes], int | Foreign | Uncommitted] | None = None
    """The value of a record by its place and payload; None = that which the payload carries."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Highest end of each partition that the consumer reported to have reached."""
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _taken: set[TopicPartition] = field(default_factory=set)
    """Partitions that were taken away and not given back."""
    _records: list[tuple[TopicPartition, list[int], list[int]]] = field(default_factory=list)
    """Offsets and values of this op's records of this run, in order."""
    _first: dict[TopicPartition, int] = field(default_factory=dict)
    """The lowest offset that this op was given of each partition, foreign records included."""
    _copied: set[TopicPartition] = field(default_factory=set)
    _orphaned: bool = False
    _unsettled: set[TopicPartition] = field(default_factory=set)
    """Partitions that were polled since their offsets were last committed."""
    _resets: list[AssignmentEvent] = field(default_factory=list)
    """Resets whose place among the records is still to come."""
    _begun_again: set[TopicPartition] = field(default_factory=set)
    """Partitions that were reset, and not read since: their position is unknown."""

    def begin(self) -> None:
        """The next op begins."""
        self.op += 1
        self._records.clear()
        self._first.clear()
        self._copied.clear()
        self._orphaned = False

    # what the op may do with what it polled

    def to_copy(self) -> list[tuple[TopicPartition, int, int]]:
        """Partition, offset and value of each record that this op polled and still answers for."""
        records = [
            (tp, offset, value)
            for tp, offsets, values in self._records
            for offset, value in zip(offsets, values, strict=True)
        ]
        self._copied.update(tp for tp, _, _ in records)
        return records

    def to_offer(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int] | None:
        """Positions after the records that this op polled and still answers for.

        positions: the client's own. They pass control records too, which makes them the better ones
            where they are at least as high.

        None: the op copied records of a partition that was taken away since. To commit the copies
        without their offsets would copy them twice: the transaction has to abort.
        """
        offered = {tp: max(self._positions[tp], positions[tp]) for tp in self._first if tp in positions}
        if self._orphaned or not self._copied <= offered.keys():
            return None
        return offered

    def to_rewind(self) -> dict[TopicPartition, int]:
        """Where the partitions that this op polled, and that are still assigned, stood before it."""
        return dict(self._first)

    def rewound(self, positions: Mapping[TopicPartition, int]) -> None:
        """The client went back to these positions."""
        self._place(set(positions))
        self._positions.update(positions)
        self._begun_again.difference_update(positions)
        self._unsettled.difference_update(positions)
        self._journal_assignment(AssignmentKind.REWIND, tuple(positions), self.now_ns())

    @property
    def uncommitted(self) -> bool:
        """This process polled records that it still owns and whose offsets it has not committed yet."""
        return bool(self._unsettled)

    def committed(self, tps: Iterable[TopicPartition]) -> None:
        """The positions of these partitions were committed, or sent to the open transaction."""
        self._unsettled.difference_update(tps)

    # what is assigned

    def to_assign(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The process's own last positions of these partitions, else their beginnings."""
        return {tp: self._positions.get(tp, BEGINNING) for tp in tps}

    def assigned(self, tps: Sequence[TopicPartition]) -> None:
        """The process now reads these partitions, by its own choice, each from its place in `to_assign`."""
        now, begun = self.now_ns(), [tp for tp, at in self.to_assign(tps).items() if at == BEGINNING]
        self._place({*tps})
        self._drop(self._positions.keys() - set(tps))
        self._begun_again.difference_update(tps)
        self._taken.clear()
        self._journal_assignment(AssignmentKind.MANUAL, tps, now)
        if begun:
            self._journal_assignment(AssignmentKind.BEGINNING, begun, now)

    def subscribed(self) -> None:
        """The process leaves it to its group what it reads; no position is kept."""
        self._drop(set(self._positions))
        self._journal_assignment(AssignmentKind.MANUAL, (), self.now_ns())

    def _drop(self, tps: Iterable[TopicPartition]) -> None:
        """What was polled of these partitions is no longer this process's business."""
        dropped = set(tps)
        self._place(dropped)
        self._unsettled -= dropped
        self._orphaned = self._orphaned or bool(self._copied & dropped)
        self._records = [some for some in self._records if some[0] not in dropped]
        for tp in dropped:
            self._positions.pop(tp, None)
            self._first.pop(tp, None)
            self._begun_again.discard(tp)

    # what was read

    def polled(self, at: int, begin: int, fetched: list[Fetched], events: Sequence[SessionEvent]) -> None:
        """Journal what a poll (micro-op `at`) returned, and around it what happened meanwhile.

        A rebalance stands where it happened, a reset where its partition's records show it (`_parted`). An
        end comes after the records below it: an end without them would make them lost.
        """
        resets = [event for event in events if _is(event, AssignmentKind.RESET)]
        self._resets += resets
        done, told = 0, bool(resets)
        for event in events:
            if event in resets or isinstance(event, EndReached):
                continue
            if _is(event, *REBALANCES) and event.after > done:
                self._read(at, begin, fetched[done : event.after])
                done, told = event.after, True
            self.note((event,))
        if fetched[done:] or not told:
            self._read(at, begin, fetched[done:])
        self._place()
        self.note([event for event in events if isinstance(event, EndReached)])

    def _read(self, at: int, begin: int, fetched: list[Fetched]) -> None:
        """Journal records, and the resets in their place among them."""
        positions = {tp: at for tp, at in self._positions.items() if tp not in self._begun_again}
        before, after, doubtful = _parted(fetched, self._resets, positions)
        again = [event for event in self._resets if not doubtful.isdisjoint(event.tps)]
        self._records_read(at, begin, before)
        while after:
            self._place_oldest({record.tp for record in after})
            first = {record.tp: record.offset for record in reversed(after)}
            before, after, _ = _parted(after, self._resets, positions | first)
            if before:
                self._records_read(at, begin, before)
        self._resets += again

    def _place_oldest(self, tps: set[TopicPartition]) -> None:
        """Journal the oldest reset of each of these partitions, and all whose place no position shows."""
        resets, self._resets = self._resets, []
        placed: set[TopicPartition] = set()
        for event in resets:
            mine = tps.intersection(event.tps)
            if mine and (event.position < 0 or mine.isdisjoint(placed)):
                placed |= mine
                self._rebalanced(event)
            else:
                self._resets.append(event)

    def _place(self, tps: Collection[TopicPartition] | None = None) -> None:
        """Journal the resets of these partitions; None: those that no record can come before any more, and
        that no earlier one of their partitions has to come before."""
        resets, self._resets = self._resets, []
        waiting: set[TopicPartition] = set()
        for event in resets:
            if tps is None:
                passed = all(self._positions.get(tp, -1) >= event.position for tp in event.tps)
                due = passed and (waiting | self._begun_again).isdisjoint(event.tps)
            else:
                due = any(tp in tps for tp in event.tps)
            if due:
                self._rebalanced(event)
            else:
                waiting.update(event.tps)
                self._resets.append(event)

    def _records_read(self, at: int, begin: int, fetched: list[Fetched]) -> None:
        runs: list[Run] = []
        foreign: list[tuple[str, int, int, int, bytes]] = []
        last: TopicPartition | None = None
        run: Run = ("", -1, [], [], [])
        for record in fetched:
            tp, offset = record.tp, record.offset
            if tp != last:
                last, run = tp, (tp.topic, tp.partition, [], [], [])
                if tp not in self._taken:
                    self._unsettled.add(tp)
                    self._first[tp] = min(offset, self._first.get(tp, offset))
                    self._records.append((tp, run[2], run[3]))
            self._positions[tp] = offset + 1
            self._begun_again.discard(tp)
            value = self._value(tp, offset, record.payload)
            if isinstance(value, Uncommitted):
                foreign.append((*tp, offset, int(Foreign.UNCOMMITTED), value.name))
                continue
            if isinstance(value, Foreign):
                foreign.append((*tp, offset, int(value), record.payload[:1024]))
                continue
            if not run[2]:
                runs.append(run)
            run[2].append(offset)
            run[3].append(value)
            run[4].append(record.leader_epoch)
        self.journal.write(j.Polled(self.op, at, begin, self.now_ns(), runs, foreign))

    def _value(self, tp: TopicPartition, offset: int, payload: bytes) -> int | Foreign | Uncommitted:
        return decode(self.run, tp, payload) if self.value is None else self.value(tp, offset, payload)

    def rows_read(
        self, at: int, begin: int, tp: TopicPartition, numbers: list[int], values: list[int]
    ) -> None:
        """Journal all rows of a partition of the database, as records to its end."""
        now, end = self.now_ns(), len(numbers)
        runs = [(tp.topic, tp.partition, numbers, values, [-1] * end)] if end else []
        self.journal.write(j.Polled(self.op, at, begin, now, runs))
        self.note((EndReached(tp=tp, offset=end, ns=now),))

    # what happened beside

    def note(self, events: Iterable[SessionEvent]) -> None:
        """Journal events, and take in what they change."""
        for event in events:
            match event:
                case AssignmentEvent(kind=AssignmentKind.RESET):
                    self._resets.append(event)
                    self._place()
                case AssignmentEvent():
                    self._rebalanced(event)
                case CommittedSeen():
                    self._journal_commit(event, CommitKind.FETCHED, Outcome.OK)
                case AutoCommitted():
                    self._journal_commit(event, CommitKind.AUTO, event.outcome)
                case ProducerEvent():
                    identity = (event.producer_id, event.producer_epoch, event.epoch_cnt)
                    self.journal.write(j.ProducerChanged(event.ns, *identity))
                case EndReached(tp=tp):
                    self.ends[tp] = max(event.offset, self.ends.get(tp, -1))
                    line = j.EndSeen(event.ns, tp.topic, tp.partition, event.offset)
                    self.journal.write(line)
                case ClientError():
                    self.journal.write(j.ErrorSeen(event.ns, event.code, event.message))

    def _rebalanced(self, event: AssignmentEvent) -> None:
        if event.kind is AssignmentKind.RESET:
            self._begun_again.update(event.tps)
        elif event.kind in REBALANCES:
            self._drop(event.tps)
            if event.kind is AssignmentKind.ASSIGNED:
                self._taken.difference_update(event.tps)
            else:
                self._taken.update(event.tps)
        self._journal_assignment(event.kind, event.tps, event.ns, event.generation)

    def _journal_assignment(
        self, kind: AssignmentKind, tps: Sequence[TopicPartition], ns: int, generation: int = -1
    ) -> None:
        names = [(tp.topic, tp.partition) for tp in tps]
        self.journal.write(j.AssignmentChanged(self.op, ns, kind, generation, names))

    def _journal_commit(
        self, event: CommittedSeen | AutoCommitted, kind: CommitKind, outcome: Outcome
    ) -> None:
        offsets = [(tp.topic, tp.partition, at) for tp, at in event.offsets.items()]
        head = (self.op, -1, event.begin_ns, event.ns)
        self.journal.write(j.OffsetsCommitted(*head, kind, event.generation, outcome, offsets))


def _is(event: SessionEvent, *kinds: AssignmentKind) -> TypeGuard[AssignmentEvent]:
    return isinstance(event, AssignmentEvent) and event.kind in kinds


def _parted(
    fetched: list[Fetched], resets: Sequence[AssignmentEvent], positions: Mapping[TopicPartition, int]
) -> tuple[list[Fetched], list[Fetched], set[TopicPartition]]:
    """Records before and after the resets of some partitions among them; and where that is doubtful.

    A client does not say where among its records a reset happened. A truncated log sends its reader back,
    one that lost its beginning sends it forward: after the reset come the records from the first one that
    goes back, or that is not below the position that the reset left. Where the records show neither, it came
    before the first one of a reader that had none; and where the position that it left is not known, at the
    first gap. That may also be a gap of records that no reader sees, and the reset is still to come: such
    partitions are doubtful.
    """
    left = {tp: event.position for event in reversed(resets) for tp in event.tps}
    if not left:
        return fetched, [], set()
    shown: set[TopicPartition] = set()
    for record, next_ in _with_next(fetched, positions):
        if record.offset < next_ or 0 <= left.get(record.tp, -1) <= record.offset + 1:
            shown.add(record.tp)
    before: list[Fetched] = []
    after: list[Fetched] = []
    moved: set[TopicPartition] = set()
    for record, next_ in _with_next(fetched, positions):
        tp, offset = record.tp, record.offset
        if tp in left and tp not in moved:
            sure = offset < next_ or 0 <= left[tp] <= offset
            gap = next_ < 0 or (left[tp] < 0 and offset > next_)
            if sure or (gap and tp not in shown):
                moved.add(tp)
        (after if tp in moved else before).append(record)
    return before, after, {tp for tp in moved - shown if left[tp] < 0}


def _with_next(
    fetched: Iterable[Fetched], positions: Mapping[TopicPartition, int]
) -> Iterator[tuple[Fetched, int]]:
    """Each record, and the offset after the one of its partition before it; -1 = there is none."""
    next_ = dict(positions)
    for record in fetched:
        yield record, next_.get(record.tp, -1)
        next_[record.tp] = record.offset + 1
