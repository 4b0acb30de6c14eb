"""Output of Kafka's own tools VerifiableProducer and VerifiableConsumer (package org.apache.kafka.tools):
JSON Lines.

One file is the output of one process; a run gives the files of all its producers and consumers. What is on
record:

- Producer: a line for each acknowledged record and each error. When a record was handed to the client is
not on
  record: all count as sent at the first moment of the recording, so nothing is claimed about real time. An
  error names no partition and does not say that the record was not written. A record that a consumer read
  and no producer acknowledged is in doubt (INFO) if some producer may have sent it: its prefix and number
  fit; all of one producer are those of a process with its settings. Else no producer sent it. A tool that
  only started may be a producer with any one prefix.
- Consumer: `record_data` (only with `--verbose`) is a read; `records_consumed` ends the poll.
`partitions_assigned`
  and `partitions_revoked` are moves of positions; `offsets_committed` are commits. Without `--verbose` no
  read is on record, and nothing about the content of logs can be decided.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import msgspec

from checkers.recordings.files import UNREADABLE, lines, opened, reason
from checkers.recordings.recording import Recording, value_id
from checkers.recordings.repeated import RepeatedKey, refuse_repeated
from core.errors import HistoryError
from core.op import AssignmentKind, CommitKind, End, Mop, Outcome, Phase, Poll, Send, TopicPartition
from history import journal as j

BATCH: Final = 1_000
"""Acknowledgements that become one op of the producer, in the order of their numbers."""
MS: Final = 1_000_000
NUMBER_MOST: Final = 1 << 28

Millis = Annotated[int, msgspec.Meta(ge=0, lt=2**42)]
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Partition(msgspec.Struct, frozen=True):
    topic: str
    partition: Number


class _Committed(_Partition, frozen=True):
    offset: Offset


class _Started(msgspec.Struct, frozen=True, tag="startup_complete", tag_field="name"):
    timestamp: Millis


class _Ending(msgspec.Struct, frozen=True, tag="shutdown_requested", tag_field="name"):
    """A consumer got SIGTERM (printed since Kafka 4.2.1). The line holds no record."""

    timestamp: Millis


class _Ended(msgspec.Struct, frozen=True, tag="shutdown_complete", tag_field="name"):
    timestamp: Millis


class _Acked(msgspec.Struct, frozen=True, tag="producer_send_success", tag_field="name"):
    timestamp: Millis
    topic: str
    partition: Number
    offset: Annotated[int, msgspec.Meta(ge=-1, lt=2**62)]
    value: str


class _Failed(msgspec.Struct, frozen=True, tag="producer_send_error", tag_field="name"):
    timestamp: Millis
    topic: str
    value: str


class _Totals(msgspec.Struct, frozen=True, tag="tool_data", tag_field="name"):
    timestamp: Millis
    sent: Annotated[int, msgspec.Meta(ge=0)]


class _Data(_Partition, frozen=True, tag="record_data", tag_field="name"):
    timestamp: Millis
    offset: Offset
    value: str | None = None


class _Summary(msgspec.Struct, frozen=True):
    count: Annotated[int, msgspec.Meta(ge=0)]


class _Consumed(msgspec.Struct, frozen=True, tag="records_consumed", tag_field="name"):
    timestamp: Millis
    count: Annotated[int, msgspec.Meta(ge=0)]
    partitions: list[_Summary] = []

    @property
    def shown(self) -> int:
        """How many `record_data` lines belong to it: with `--max-messages` fewer than it was returned."""
        return sum(each.count for each in self.partitions) if self.partitions else self.count


class _Assigned(msgspec.Struct, frozen=True, tag="partitions_assigned", tag_field="name"):
    timestamp: Millis
    partitions: list[_Partition]


class _Revoked(msgspec.Struct, frozen=True, tag="partitions_revoked", tag_field="name"):
    timestamp: Millis
    partitions: list[_Partition]


class _OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets_committed", tag_field="name"):
    timestamp: Millis
    offsets: list[_Committed]
    success: bool


_Line = (
    _Started
    | _Ending
    | _Ended
    | _Acked
    | _Failed
    | _Totals
    | _Data
    | _Consumed
    | _Assigned
    | _Revoked
    | _OffsetsCommitted
)
_DECODER: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_VALUE = re.compile(r"(?:(\d+)\.)?(\d{1,18})")


@dataclass(slots=True)
class _Producer:
    """What one producer may have sent. settled: a bit for each number that was acknowledged, or that became
    a send in
    doubt. sent: how many it set out to send, -1 = not on record. doubts: its sends in doubt, by number."""

    process: int
    settled: bytearray = field(default_factory=bytearray)
    sent: int = -1
    doubts: list[tuple[int, TopicPartition, str]] = field(default_factory=list)

    def settle(self, number: int) -> bool:
        """Whether the number was not settled before."""
        at, bit = number >> 3, 1 << (number & 7)
        if at >= len(self.settled):
            self.settled.extend(bytes(max(at + 1, 2 * len(self.settled)) - len(self.settled)))
        new = not self.settled[at] & bit
        self.settled[at] |= bit
        return new

    def may_have_sent(self, number: int) -> bool:
        """Whether it may have sent this number."""
        return number < (NUMBER_MOST if self.sent < 0 else self.sent)


class VerifiableImport:
    """Reads the files of one run into a recording. one_group: all consumers are members of one group; else
    nothing is known of their groups, and what they committed says nothing."""

    def __init__(self, recording: Recording, *, one_group: bool) -> None:
        self._recording = recording
        self.one_group = one_group
        self.verbose = True
        """Whether the records of every poll are on record."""
        self._producers: dict[tuple[str, str], list[_Producer]] = {}
        self._silent: list[int] = []
        """Processes that may be producers, of whose topic and prefix nothing is on record."""
        self._shared: list[tuple[int, tuple[int, TopicPartition, str]]] = []
        """Sends in doubt, each by one of several producers, with the process of one of them."""
        self._start = 0

    def read(self, paths: list[Path]) -> None:
        """All files. Raises: HistoryError, where one cannot be opened, or is output of neither tool."""
        kinds = {path: _kind(path) for path in dict.fromkeys(paths)}
        self._start = min((kind[1] for kind in kinds.values()), default=0) * MS
        order = sorted(kinds, key=lambda path: kinds[path][0] == "consumer")  # stable: producers first
        for process, path in enumerate(order):
            if kinds[path][0] != "consumer":
                if kinds[path][0] == "either":
                    self._silent.append(process)
                self._recording.process(process, ns=self._start, consumes=False)
                _ProducerFile(self, process).read(path)
            else:
                group = "consumers" if self.one_group else None
                self._recording.process(process, ns=self._start, produces=False, group=group)
                _ConsumerFile(self, process).read(path)
        self._write_doubts(len(order))

    def refuse(self, path: Path, line: int, why: str) -> None:
        """A line could not be read."""
        self._recording.refuse(f"{path}: line {line}", why)

    def producers(self, topic: str, prefix: str) -> list[_Producer]:
        """The producers that send values with this prefix to the topic."""
        return self._producers.setdefault((topic, prefix), [])

    def doubt(self, tp: TopicPartition, value: str | None) -> None:
        """A value was read: if a producer may have sent it and none acknowledged it, its send is in doubt."""
        found = None if value is None else _VALUE.fullmatch(value)
        if found is None:
            return
        prefix, number = found[1] or "", int(found[2])
        candidates = [one for one in self.producers(tp.topic, prefix) if one.may_have_sent(number)]
        if not candidates and self._silent:  # it has one prefix
            candidates = [_Producer(self._silent.pop(0))]
            self.producers(tp.topic, prefix).extend(candidates)
        new = [one.settle(number) for one in candidates]
        if candidates and all(new):
            one, doubt = candidates[0], (number, tp, value or "")
            if len(candidates) == 1:
                one.doubts.append(doubt)
            else:
                self._shared.append((one.process, doubt))

    def _write_doubts(self, process: int) -> None:
        """Sends in doubt are those of processes of their own, from this number on, of the same client: when
        each of them was sent, beside what its producer had acknowledged, is not on record."""
        every = (one for some in self._producers.values() for one in some if one.doubts)
        chains = [(one.process, sorted(one.doubts)) for one in every]
        chains += [(slot, [one]) for slot, one in self._shared]
        for number, (slot, chain) in enumerate(chains, process):
            self._recording.process(number, ns=self._start, consumes=False, slot=slot)
            for at in range(0, len(chain), BATCH):
                records = [(tp, value, Outcome.INFO, -1) for _, tp, value in chain[at : at + BATCH]]
                self.write(number, self._start, records, self._start)
            self._recording.ended(number, End.CRASHED)

    def write(
        self, process: int, ns: int, records: list[tuple[TopicPartition, str, Outcome, int]], last: int
    ) -> None:
        """An op of a producer with the results of these records."""
        op, begin = self._recording.ops, self._start
        mops: tuple[Mop, ...] = tuple(Send(tp, value_id(value)) for tp, value, _, _ in records)
        results = [(int(outcome), offset, ns, "") for _, _, outcome, offset in records]
        self._recording.write(
            process,
            j.Invoked(op=op, ns=begin, phase=Phase.FAULTS, f="send", txn=False, abort=False, mops=mops),
            j.SendResults(op=op, mop=0, begin_ns=begin, ns=ns, results=results),
            j.OpCompleted(op=op, ns=last, outcome=Outcome.OK),
        )

    @property
    def recording(self) -> Recording:
        """Where it writes."""
        return self._recording


class _File(ABC):
    """The output of one process."""

    def __init__(self, owner: VerifiableImport, process: int) -> None:
        self.owner, self.process = owner, process
        self.ns = 0
        self.ended = End.CRASHED

    def read(self, path: Path) -> None:
        with opened(path) as file:
            try:
                for number, content in lines(file):
                    self._line(path, number, content)
            except UNREADABLE as error:
                self.owner.recording.refuse(str(path), f"cannot be read to its end: {reason(error)}")
        self.finish()
        self.owner.recording.ended(self.process, self.ended)

    def _line(self, path: Path, number: int, content: bytes | None) -> None:
        if content is None:
            self.owner.refuse(path, number, "longer than 64 MiB")
            return
        try:
            line = _DECODER.decode(content)
            refuse_repeated(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RepeatedKey) as error:
            self.owner.refuse(path, number, reason(error))
            return
        # the host may set its clock back, and lines of one moment are in order
        self.ns = max(self.ns + 1, line.timestamp * MS)
        if isinstance(line, _Ended):
            self.ended = End.CLOSED
        elif why := self.take(line):
            self.owner.refuse(path, number, why)

    @abstractmethod
    def take(self, line: _Line) -> str:
        """One line; why it cannot stand there, "" = it can."""

    @abstractmethod
    def finish(self) -> None:
        """The file has ended."""


class _ProducerFile(_File):
    def __init__(self, owner: VerifiableImport, process: int) -> None:
        super().__init__(owner, process)
        self._batch: list[tuple[int, TopicPartition, str, int, int]] = []
        self._own: dict[tuple[str, str], _Producer] = {}

    def take(self, line: _Line) -> str:
        match line:
            case _Started():
                return ""
            case _Totals():
                for one in self._own.values():
                    one.sent = line.sent
                return ""
            case _Acked():
                number = self._number(line.topic, line.value)
                if number is None:
                    return f"not a value of VerifiableProducer: {line.value[:40]!r}"
                tp = TopicPartition(line.topic, line.partition)
                self._batch.append((number, tp, line.value, line.offset, self.ns))
                if len(self._batch) >= BATCH:
                    self.finish()
                return ""
            case _Failed():
                number = self._number(line.topic, line.value, settle=False)
                return "" if number is not None else f"not a value of VerifiableProducer: {line.value[:40]!r}"
        return f"a line {line.__struct_config__.tag} in the output of a producer"

    def _number(self, topic: str, value: str, *, settle: bool = True) -> int | None:
        found = _VALUE.fullmatch(value)
        if found is None or int(found[2]) >= NUMBER_MOST:
            return None
        prefix, number = found[1] or "", int(found[2])
        if (topic, prefix) not in self._own:
            self._own[topic, prefix] = _Producer(self.process)
            self.owner.producers(topic, prefix).append(self._own[topic, prefix])
        if settle:
            self._own[topic, prefix].settle(number)
        return number

    def finish(self) -> None:
        """Write the acknowledgements as one op."""
        if self._batch:
            batch = sorted(self._batch, key=lambda each: each[0])
            records = [(tp, value, Outcome.OK, offset) for _, tp, value, offset, _ in batch]
            self.owner.write(self.process, self.ns, records, self.ns)
            self._batch.clear()


class _ConsumerFile(_File):
    def __init__(self, owner: VerifiableImport, process: int) -> None:
        super().__init__(owner, process)
        self._polled: list[_Data] = []
        self._began = 0
        self._shows = self._silent = False
        """Whether some poll was followed by its records, and some poll by none of them."""

    def take(self, line: _Line) -> str:
        why = ""
        match line:
            case _Started():
                self._began = self.ns
            case _Ending():
                pass
            case _Data():
                if self._silent and not self._shows:
                    why = "the records of an earlier poll are not on record"
                self._shows = True
                self._polled.append(line)
                self.owner.doubt(TopicPartition(line.topic, line.partition), line.value)
            case _Consumed():
                why = self._consumed(line)
            case _Assigned() | _Revoked():
                why = self._unfinished()
                tps = [(each.topic, each.partition) for each in line.partitions]
                kind = AssignmentKind.ASSIGNED if isinstance(line, _Assigned) else AssignmentKind.REVOKED
                changed = j.AssignmentChanged(op=-1, ns=self.ns, kind=kind, generation=-1, tps=tps)
                self.owner.recording.write(self.process, changed)
            case _OffsetsCommitted():
                why = self._unfinished()
                self._commit(line)
            case _:
                return f"a line {line.__struct_config__.tag} in the output of a consumer"
        return why

    def _consumed(self, line: _Consumed) -> str:
        """The end of a poll. Why its records are not on record as it says, "" = they are."""
        shown = len(self._polled)
        self._silent |= shown < line.shown
        if self._shows and shown != line.shown:
            self._poll(known=True)
            return f"a poll of {line.shown} records, and {shown} lines of record_data before it"
        self.owner.verbose &= not self._silent
        self._poll(known=not self._silent or not line.shown)
        return ""

    def _unfinished(self) -> str:
        """What comes after a poll comes before its end: the line of its end is missing."""
        if not self._polled:
            return ""
        self._poll(known=True)
        return "the line records_consumed of the poll before this line is missing"

    def _poll(self, *, known: bool) -> None:
        """The poll has returned; known: its records are on record."""
        op = self.owner.recording.ops
        runs: list[tuple[str, int, list[int], list[int], list[int]]] = []
        for data in self._polled:
            if not runs or runs[-1][:2] != (data.topic, data.partition):
                runs.append((data.topic, data.partition, [], [], []))
            runs[-1][2].append(data.offset)
            runs[-1][3].append(value_id("" if data.value is None else data.value))
            runs[-1][4].append(-1)
        self.owner.recording.write(
            self.process,
            j.Invoked(
                op=op, ns=self._began, phase=Phase.FAULTS, f="poll", txn=False, abort=False, mops=(Poll(),)
            ),
            j.Polled(op=op, mop=0, begin_ns=self._began, ns=self.ns, runs=runs),
            j.OpCompleted(op=op, ns=self.ns, outcome=Outcome.OK if known else Outcome.INFO),
        )
        self._polled.clear()
        self._began = self.ns

    def _commit(self, line: _OffsetsCommitted) -> None:
        if not self.owner.one_group:
            return
        op = self.owner.recording.ops
        outcome = Outcome.OK if line.success else Outcome.INFO
        offsets = [(each.topic, each.partition, each.offset) for each in line.offsets]
        self.owner.recording.write(
            self.process,
            j.Invoked(op=op, ns=self._began, phase=Phase.FAULTS, f="commit", txn=False, abort=False, mops=()),
            j.OffsetsCommitted(
                op=op,
                mop=0,
                begin_ns=self._began,
                ns=self.ns,
                kind=CommitKind.SYNC,
                generation=-1,
                outcome=outcome,
                offsets=offsets,
            ),
            j.OpCompleted(op=op, ns=self.ns, outcome=outcome),
        )

    def finish(self) -> None:
        """Records without the end of their poll were returned all the same."""
        if self._polled:
            self._poll(known=True)


def _kind(path: Path) -> tuple[str, int]:
    """Which tool wrote the file, and its first time: `producer`, `consumer`, or `either` where it only
    started. Raises: HistoryError."""
    first, ended = -1, False
    with opened(path) as file:
        try:
            for _, content in lines(file):
                try:
                    line = _DECODER.decode(content or b"")
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
                first = line.timestamp if first < 0 else min(first, line.timestamp)
                if isinstance(line, _Acked | _Failed | _Totals):
                    return "producer", first
                if not isinstance(line, _Started | _Ended):
                    return "consumer", first
                ended |= isinstance(line, _Ended)
        except UNREADABLE as error:
            raise HistoryError(f"{path}: cannot be read: {reason(error)}") from None
    if first >= 0:
        return "consumer" if ended else "either", first  # a producer that ends says how many records it sent
    raise HistoryError(f"{path}: no line of VerifiableProducer or VerifiableConsumer in it")
