"""Inquest's own line format for recordings of any client: JSON Lines, one op a line (docs/importing.md).

    {"line": "recording", "format": 1, "on_record": ["from_start"]}
    {"line": "process", "process": 1, "isolation": "read_committed", "group": "billing"}
    {"line": "op", "process": 0, "outcome": "ok", "begin_ns": 10, "end_ns": 20,
     "sends": [{"topic": "t", "partition": 0, "value": "a", "offset": 0}]}
    {"line": "op", "process": 1, "outcome": "ok", "begin_ns": 30, "end_ns": 40,
     "reads": [{"topic": "t", "partition": 0, "value": "a", "offset": 0}]}

Lines of one process stand in the order in which they happened: its ops neither begin nor end before earlier
ones, and any other line may lie within the op before or after it. Lines of different processes stand in any
order, in one file or in several. docs/import-lines.schema.json is the published schema. Not here: what is
judged (`checkers.engine.kernel_input`).
"""

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec

from checkers.recordings.files import UNREADABLE, lines, opened, reason
from checkers.recordings.recording import NEVER, Recording, value_id
from checkers.recordings.repeated import RepeatedKey, refuse_repeated
from core.op import (
    AssignmentKind,
    CommitKind,
    End,
    Isolation,
    Mop,
    Outcome,
    Phase,
    Poll,
    Send,
    TopicPartition,
)
from history import journal as j
from history.tables import OPEN

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Ns = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Level = Literal["read_committed", "read_uncommitted"]


class _NamedLine(msgspec.Struct, frozen=True, tag_field="line", forbid_unknown_fields=True):
    """A line, named by its field `line`. A field that this format does not have is damage: it may be one that
    was misspelled, such as `transaction` for `txn`."""


class RecordingLine(_NamedLine, frozen=True, kw_only=True, tag="recording"):
    """First line, if any: what the recording holds beside ops and records.

    final_reads: `end` and `reached` lines say which ends the final reads had to reach, and reached.
    from_start: consumers began at the start of each partition, none sought past records, and every poll is
    on record.
    positions: `assignment` lines name each move of a consumer's position that the client did not make by
    polling. commits: ops name all offsets that groups committed.
    """

    format: Literal[1]
    on_record: list[Literal["final_reads", "from_start", "positions", "commits"]] = []


class ProcessLine(_NamedLine, frozen=True, kw_only=True, tag="process"):
    """Settings of a process (a single-threaded client), before its first op. acks null: it does not produce;
    isolation null: it does not consume. What it does not say is as the import's options have it: acks -1,
    idempotent, read_committed."""

    process: Number
    acks: Literal[-1, 0, 1] | msgspec.UnsetType | None = msgspec.UNSET
    idempotent: bool | msgspec.UnsetType = msgspec.UNSET
    isolation: Level | msgspec.UnsetType | None = msgspec.UNSET
    group: str | None = None
    transactional_id: str | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic-partition."""

    topic: str
    partition: Number

    @property
    def tp(self) -> TopicPartition:
        """As the rooms below name it."""
        return TopicPartition(self.topic, self.partition)


class SentRecord(Partition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record that the op set out to send. Its value is unique in its partition. offset: acknowledged,
    null = none. outcome: of the record, null = that of the op (`ok` where it has an offset). What has an
    offset did not fail."""

    value: str | int
    offset: Offset | None = None
    outcome: Literal["ok", "fail", "info"] | None = None


class ReadRecord(Partition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record that the op's polls returned."""

    value: str | int
    offset: Offset


class CommittedOffset(Partition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An offset that the op committed to the group of its process: that of the next record to read."""

    offset: Offset


class OpLine(_NamedLine, frozen=True, kw_only=True, tag="op"):
    """One op: what the client set out to do between begin_ns and end_ns (one clock for all processes; end_ns
    null = it never ended, so that when it read or was acknowledged is not known), and what happened. outcome:
    `ok` it happened, `fail` it did not and never will, `info` it may have. txn: it is one transaction. final:
    its reads are final reads."""

    process: Number
    outcome: Literal["ok", "fail", "info"]
    begin_ns: Ns
    end_ns: Ns | None = None
    txn: bool = False
    final: bool = False
    sends: list[SentRecord] = []
    reads: list[ReadRecord] = []
    commits: list[CommittedOffset] = []


class AssignmentLine(_NamedLine, frozen=True, kw_only=True, tag="assignment"):
    """What a process reads changed: by the group (assigned, revoked, lost), by the process (manual: reads
    these instead of the previous ones; seek: on from another position; rewind: back to its begin positions
    after an abort), or by `auto.offset.reset` (reset)."""

    process: Number
    ns: Ns
    kind: Literal["assigned", "revoked", "lost", "manual", "seek", "rewind", "reset"]
    partitions: list[Partition]


class EndLine(_NamedLine, frozen=True, kw_only=True, tag="end"):
    """The log of a partition when all clients had ended: first offset, and the offset after the last one
    that a
    consumer of this level can reach (high watermark, or last stable offset)."""

    topic: str
    partition: Number
    isolation: Level = "read_committed"
    start: Offset = 0
    end: Offset


class ReachedLine(_NamedLine, frozen=True, kw_only=True, tag="reached"):
    """A final reader's position in a partition (`KafkaConsumer.position`). It read the partition in ops that
    are `final`."""

    process: Number
    ns: Ns
    topic: str
    partition: Number
    offset: Offset


class _OfProcess(msgspec.Struct, frozen=True):
    process: int = -1


Line = RecordingLine | ProcessLine | OpLine | AssignmentLine | EndLine | ReachedLine
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_OF_PROCESS: msgspec.json.Decoder[_OfProcess] = msgspec.json.Decoder(_OfProcess)
_KINDS: Final = frozenset(kind.__struct_config__.tag for kind in get_args(Line))
_KIND: Final = re.compile(rb'"line"\s*:\s*"(\w*)"')
_NUMBER: Final = re.compile(rb'"process"\s*:\s*(\d{1,10})\s*[,}]')
ANY: Final = -1
"""Stands for every process."""


def process_of(content: bytes | None) -> int:
    """The process that a line names, whatever else stands in it; -1 = none, or the line is not JSON."""
    try:
        return -1 if content is None else _OF_PROCESS.decode(content).process
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return -1


def lost_settings(content: bytes | None) -> int | None:
    """Whose settings may be lost with a line that cannot be read: the number of a process, `ANY`, or None =
    it had none. content: None = it is too long."""
    kinds = [] if content is None else [found[1].decode() for found in _KIND.finditer(content)]
    if kinds and all(kind in _KINDS and kind != "process" for kind in kinds):
        return None
    if (process := process_of(content)) >= 0:
        return process
    numbers = _NUMBER.findall(content or b"")
    return int(numbers[0]) if kinds == ["process"] and len(numbers) == 1 else ANY


class _Contradiction(ValueError):
    """A line that contradicts itself or what came before it."""


@dataclass(slots=True)
class _Times:
    """Of a process: when its last op began and ended, and when its last line of one moment was."""

    begun: int = 0
    ended: int = 0
    at: int = 0


class LinesImport:
    """Reads files of this format into a recording. on_record: what the first line says. ends: start and end
    of a log by topic, partition and isolation level."""

    def __init__(self, recording: Recording) -> None:
        self.on_record: tuple[str, ...] = ()
        self._recording = recording
        self.ends: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._settings: dict[int, ProcessLine] = {}
        self._times: dict[int, _Times] = {}
        self._lowest: dict[tuple[int, TopicPartition, bool], int] = {}
        """The lowest offset that each process read of a partition, in final ops and in others."""
        self._unreadable: set[int] = set()
        """Processes whose settings could not be read: those of the import need not be theirs."""
        self._lost = False
        """Some line may have had the settings of any process that no line named before."""
        self._read = False

    def read(self, path: Path) -> None:
        """One file. Raises: HistoryError, where it cannot be opened."""
        with opened(path) as file:
            try:
                for number, line in lines(file):
                    self.take(f"{path}: line {number}", line, is_first=not self._read)
                    self._read = True
            except UNREADABLE as error:
                self._recording.refuse(str(path), f"cannot be read to its end: {reason(error)}")

    @property
    def bounds(self) -> list[tuple[str, int, int, int, int]]:
        """Ends of partitions, as `history.events.BoundsListed` has them."""
        return [(*key, *ends) for key, ends in sorted(self.ends.items())]

    def take(self, where: str, content: bytes | None, *, is_first: bool) -> None:
        """One line; lines of one process come in order. is_first: of the recording. content: None = it is
        too long."""
        if content is None:
            self._recording.refuse(where, "longer than 64 MiB")
            self.lose(lost_settings(content))
            return
        try:
            line = _DECODER.decode(content)
            refuse_repeated(content)
            self._place(line, is_first=is_first)
        except (
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
            RepeatedKey,
            _Contradiction,
        ) as error:
            self._recording.refuse(where, reason(error))
            self.lose(lost_settings(content))

    def lose(self, process: int | None) -> None:
        """The settings of this process, or of `ANY`, may have stood here."""
        if process == ANY:
            self._lost = True
        elif process is not None:
            self._unreadable.add(process)

    def _place(self, line: Line, *, is_first: bool) -> None:
        match line:
            case RecordingLine():
                if not is_first:
                    raise _Contradiction("a `recording` line that is not the first one")
                self.on_record = tuple(dict.fromkeys(line.on_record))
            case ProcessLine():
                self._process(line)
            case OpLine():
                self._op(line)
            case AssignmentLine():
                self._at(line.process, line.ns)
                tps = [(each.topic, each.partition) for each in line.partitions]
                # A reset may lead anywhere, too, as far as an import says.
                kind = AssignmentKind.RESET if line.kind == "seek" else AssignmentKind[line.kind.upper()]
                changed = j.AssignmentChanged(op=-1, ns=line.ns, kind=kind, generation=-1, tps=tps)
                self._recording.write(line.process, changed)
            case EndLine():
                self._end(line)
            case ReachedLine():
                self._reached(line)
                self._at(line.process, line.ns)
                seen = j.EndSeen(ns=line.ns, topic=line.topic, partition=line.partition, offset=line.offset)
                self._recording.write(line.process, seen)

    def _end(self, line: EndLine) -> None:
        key = (line.topic, line.partition, int(Isolation[line.isolation.upper()]))
        if line.start > line.end:
            raise _Contradiction(f"a log that starts at {line.start} and ends at {line.end}")
        if self.ends.setdefault(key, (line.start, line.end)) != (line.start, line.end):
            start, end = self.ends[key]
            raise _Contradiction(
                f"another end of {line.topic}-{line.partition} than an earlier line has: {start} to {end}"
            )

    def _reached(self, line: ReachedLine) -> None:
        """Final reads are those of final ops: without these the partition would look empty."""
        tp = TopicPartition(line.topic, line.partition)
        other = self._lowest.get((line.process, tp, False), NEVER)
        if other < self._lowest.get((line.process, tp, True), NEVER):
            why = f"read {line.topic}-{line.partition} in an op that is not final, below its final reads"
            raise _Contradiction(f"process {line.process} reached an end, and {why}")

    def _process(self, line: ProcessLine) -> None:
        if self._recording.known(line.process):
            raise _Contradiction(f"settings of process {line.process} after its first line")
        weak = line.acks in (0, 1)
        if line.idempotent is True and weak:
            raise _Contradiction("an idempotent producer has acks -1 (all)")
        self._settings[line.process] = line
        idempotent = None if line.idempotent is msgspec.UNSET else line.idempotent
        isolation = line.isolation or None
        self._recording.process(
            line.process,
            ns=0,
            produces=line.acks is not None,
            consumes=line.isolation is not None,
            acks=line.acks if isinstance(line.acks, int) else None,
            idempotent=False if weak else idempotent,
            isolation=Isolation[isolation.upper()] if isinstance(isolation, str) else None,
            group=line.group,
            transactional_id=line.transactional_id,
        )

    def _at(self, process: int, ns: int) -> None:
        """A line of one moment, which may lie within the op before or after it. Raises: _Contradiction."""
        times = self._goes_on(process)
        if ns < times.begun:
            raise _Contradiction(
                f"process {process} is at {ns} ns, before the op that it began at {times.begun} ns"
            )
        if ns < times.at:
            raise _Contradiction(
                f"process {process} is at {ns} ns, before what stands above it, at {times.at} ns"
            )
        self._known(process, ns)
        times.at = ns

    def _runs(self, process: int, begin: int, end: int) -> None:
        """An op. Intervals may overlap, for they may be wider than what they stand for. Raises:
        _Contradiction."""
        times = self._goes_on(process)
        if begin < times.begun:
            why = f"begins an op at {begin} ns, before one that it began earlier, at {times.begun} ns"
            raise _Contradiction(f"process {process} {why}")
        if end < (latest := max(times.ended, times.at)):
            raise _Contradiction(
                f"process {process} ends an op at {end} ns, before what stands above it, at {latest} ns"
            )
        self._known(process, begin)
        times.begun, times.ended = begin, end

    def _goes_on(self, process: int) -> "_Times":
        times = self._times.setdefault(process, _Times())
        if times.ended == NEVER:
            raise _Contradiction(f"process {process} continues after an op that never ended")
        return times

    def _known(self, process: int, ns: int) -> None:
        if not self._recording.known(process):
            if process in self._unreadable:
                raise _Contradiction(f"the settings of process {process} could not be read")
            if self._lost:
                why = "its settings may stand in a line that could not be read, and it has no `process` line"
                raise _Contradiction(f"process {process}: {why}")
            self._recording.process(process, ns=ns)

    def _op(self, line: OpLine) -> None:
        process, end = line.process, line.end_ns
        if end is not None and end < line.begin_ns:
            raise _Contradiction(f"an op that ends at {end} ns, before it begins")
        if end is None and line.outcome != "info":
            raise _Contradiction(f"an op without end_ns, and with outcome {line.outcome!r}")
        if why := _contradiction(line, self._settings.get(process)):
            raise _Contradiction(why)
        self._runs(process, line.begin_ns, NEVER if end is None else end)
        for record in line.reads:
            key = (process, record.tp, line.final)
            self._lowest[key] = min(self._lowest.get(key, NEVER), record.offset)
        self._recording.write(process, *_op_lines(self._recording.ops, line))
        self._recording.ended(process, End.CRASHED if end is None else End.CLOSED)


def _contradiction(line: OpLine, settings: ProcessLine | None) -> str:
    """Why the op cannot have happened as its line says, "" = it can. settings: of its process, if given."""
    if settings is not None and settings.acks is None and line.sends:
        return f"process {line.process} sends, and its settings say that it does not produce (acks null)"
    if settings is not None and settings.isolation is None and line.reads:
        return f"process {line.process} reads, and its settings say that it does not consume (isolation null)"
    if line.commits and (settings is None or settings.group is None):
        return f"process {line.process} commits offsets, and its settings name no group"
    for record in line.sends:
        failed = record.outcome or (line.outcome if line.outcome == "fail" and not line.txn else "ok")
        if record.offset is not None and failed != "ok":
            return f"a record with an offset, {record.offset}, and the outcome {failed!r}"
    return ""


def _op_lines(number: int, line: OpLine) -> list[j.Line]:
    began, polls = line.begin_ns, bool(line.reads) or not line.sends
    # When an op that never ended was acknowledged, or read, is not known: maybe long after it began.
    acked, ended = (-1, OPEN) if line.end_ns is None else (line.end_ns, line.end_ns)
    mops: list[Mop] = [Send(record.tp, value_id(record.value)) for record in line.sends]
    f = "txn" if line.sends and line.reads else "send" if line.sends else "poll"
    invoked = j.Invoked(
        op=number,
        ns=began,
        phase=Phase.FINAL if line.final else Phase.FAULTS,
        f=f,
        txn=line.txn,
        abort=False,
        mops=(*mops, Poll()) if polls else tuple(mops),
    )
    found: list[j.Line] = [invoked]
    if line.sends:
        results = [
            (int(_outcome(line, r)), -1 if r.offset is None else r.offset, acked, "") for r in line.sends
        ]
        found.append(j.SendResults(op=number, mop=0, begin_ns=began, ns=ended, results=results))
    if line.reads:
        runs = [_run(tp, list(some)) for tp, some in groupby(line.reads, key=lambda record: record.tp)]
        found.append(j.Polled(op=number, mop=len(mops), begin_ns=began, ns=ended, runs=runs))
    outcome = Outcome[line.outcome.upper()]
    if line.commits:
        kind = CommitKind.TXN if line.txn else CommitKind.SYNC
        offsets = [(*each.tp, each.offset) for each in line.commits]
        found.append(
            j.OffsetsCommitted(
                op=number,
                mop=-1,
                begin_ns=began,
                ns=ended,
                kind=kind,
                generation=-1,
                outcome=outcome,
                offsets=offsets,
            )
        )
    if line.end_ns is not None:
        found.append(j.OpCompleted(op=number, ns=ended, outcome=outcome))
    return found


def _outcome(line: OpLine, record: SentRecord) -> Outcome:
    if record.outcome is not None:
        return Outcome[record.outcome.upper()]
    return Outcome.OK if record.offset is not None else Outcome[line.outcome.upper()]


def _run(tp: TopicPartition, records: list[ReadRecord]) -> tuple[str, int, list[int], list[int], list[int]]:
    values = [value_id(record.value) for record in records]
    return (*tp, [record.offset for record in records], values, [-1] * len(records))
