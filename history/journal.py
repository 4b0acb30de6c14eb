"""Journals: what each process was asked to do, and what it saw, as it happened.

One file a process (`journal/<process>.jsonl`). The first line is the header with the settings of its
session; then, for each op, its invocation with all its values *before* the client is called, the
results of its micro-ops as they come, and its completion. Each line is one unbuffered write: a
journal is readable after any crash, up to its last whole line. An op without completion is
indefinite (INFO).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from core.client_settings import ClientSettings, SessionSpec
from core.errors import HistoryError
from core.op import AssignmentKind, CommitKind, End, Mop, Outcome, Phase
from history import jsonl, storage

Partition = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Epoch = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**15)]
Offset = Annotated[int, msgspec.Meta(ge=-1, lt=2**62)]
Value = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Ns = Annotated[int, msgspec.Meta(ge=-1, lt=2**62)]
Code = Annotated[int, msgspec.Meta(ge=0, le=2)]
"""Of an `Outcome`."""
Reason = Annotated[int, msgspec.Meta(ge=0, lt=5)]
"""Of a foreign record: a place in `history.tables.FOREIGN_REASONS`."""


class JournalHeader(msgspec.Struct, frozen=True, tag="open", tag_field="event"):
    """Header: the process, what its workload asked of its session, and what its clients work with.

    client: unknown in journals of format 2. remade: how often the topics of the run had been deleted and made
    again before the process began; left out where they never were.
    """

    format: int
    run: str
    process: int
    slot: int
    ns: int
    spec: SessionSpec
    client: ClientSettings = ClientSettings()
    remade: int | msgspec.UnsetType = msgspec.UNSET


class Invoked(msgspec.Struct, frozen=True, tag="invoke", tag_field="event"):
    """An op is about to be executed."""

    op: int
    ns: int
    phase: Phase
    f: str
    txn: bool
    abort: bool
    mops: tuple[Mop, ...]
    forget: bool = False


class SendResults(msgspec.Struct, frozen=True, tag="sent", tag_field="event"):
    """Results of consecutive sends, beginning with micro-op `mop`; or of all of a Copy.

    results: (outcome, offset, ns, code) each: OK with the acknowledged offset (-1 = none given) and
    when it was seen; FAIL and INFO with offset -1 and the error's code.
    """

    op: int
    mop: int
    begin_ns: int
    ns: int
    results: list[tuple[Code, Offset, Ns, str]]


class Copying(msgspec.Struct, frozen=True, tag="copying", tag_field="event"):
    """Micro-op `mop` (a Copy) is about to send these records: (topic, partition, value, topic, partition
    and offset of the input record). Their results follow as `SendResults` of the same micro-op, or never."""

    op: int
    mop: int
    ns: int
    records: list[tuple[str, Partition, Value, str, Partition, Offset]]


class Polled(msgspec.Struct, frozen=True, tag="polled", tag_field="event"):
    """What a poll returned, in order, as runs of one partition: (topic, partition, offsets, values,
    leader epochs). foreign: (topic, partition, offset, reason, payload as base64)."""

    op: int
    mop: int
    begin_ns: int
    ns: int
    runs: list[tuple[str, Partition, list[Offset], list[Value], list[Epoch]]]
    foreign: list[tuple[str, Partition, Offset, Reason, bytes]] = []


class Acquired(msgspec.Struct, frozen=True, tag="acquired", tag_field="event"):
    """What a share group gave, at `since_ns` or later, as runs of one partition: (topic, partition, offsets,
    values, delivery counts). foreign: as of `Polled`."""

    op: int
    mop: int
    begin_ns: int
    since_ns: int
    ns: int
    runs: list[tuple[str, Partition, list[Offset], list[Value], list[Count]]]
    foreign: list[tuple[str, Partition, Offset, Reason, bytes]] = []


class Acknowledging(msgspec.Struct, frozen=True, tag="acknowledging", tag_field="event"):
    """Micro-op `mop` is about to acknowledge these records: (topic, partition, offsets, codes of
    `Acknowledgement`) each. The answers follow as `Acknowledged` of the same micro-op, or never."""

    op: int
    mop: int
    ns: int
    records: list[tuple[str, Partition, list[Offset], list[Annotated[int, msgspec.Meta(ge=1, le=4)]]]]


class Acknowledged(msgspec.Struct, frozen=True, tag="acknowledged", tag_field="event"):
    """The answers: (outcome, code) of each entry of `Acknowledging`."""

    op: int
    mop: int
    begin_ns: int
    ns: int
    results: list[tuple[Code, str]]


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="committed", tag_field="event"):
    """Consumer offsets were committed, or sent to the open transaction (kind TXN)."""

    op: int
    mop: int
    begin_ns: int
    ns: int
    kind: CommitKind
    generation: int
    outcome: Outcome
    offsets: list[tuple[str, int, int]]


class AssignmentChanged(msgspec.Struct, frozen=True, tag="assignment", tag_field="event"):
    """The set of partitions that the process reads changed. `op`: the op during which it noticed."""

    op: int
    ns: int
    kind: AssignmentKind
    generation: int
    tps: list[tuple[str, int]]


class ProducerChanged(msgspec.Struct, frozen=True, tag="producer", tag_field="event"):
    """The client's producer identity changed."""

    ns: int
    producer_id: int
    producer_epoch: int
    epoch_cnt: int


class EndSeen(msgspec.Struct, frozen=True, tag="end-seen", tag_field="event"):
    """The consumer reached the end of a partition."""

    ns: int
    topic: str
    partition: int
    offset: int


class ErrorSeen(msgspec.Struct, frozen=True, tag="client-error", tag_field="event"):
    """The client reported an error outside of any verb."""

    ns: int
    code: str
    message: str


class OpCompleted(msgspec.Struct, frozen=True, tag="complete", tag_field="event"):
    """The op has ended. `error`: the code that made it FAIL or INFO ("" for a deliberate abort)."""

    op: int
    ns: int
    outcome: Outcome
    error: str = ""


class Closed(msgspec.Struct, frozen=True, tag="close", tag_field="event"):
    """The process has ended."""

    ns: int
    end: End


Line = (
    JournalHeader
    | Invoked
    | SendResults
    | Copying
    | Polled
    | Acquired
    | Acknowledging
    | Acknowledged
    | OffsetsCommitted
    | AssignmentChanged
    | ProducerChanged
    | EndSeen
    | ErrorSeen
    | OpCompleted
    | Closed
)

DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class JournalWriter(Protocol):
    """Takes the lines of one process."""

    def write(self, line: Line) -> None:
        """Append one line."""

    def close(self) -> None:
        """No more lines; idempotent."""


class Journal:
    """`JournalWriter` to a file."""

    def __init__(self, path: Path, header: JournalHeader) -> None:
        self._file = jsonl.Appender(path, new=True)
        self.write(header)

    def write(self, line: Line) -> None:
        """Append one line in one write. Raises: OSError (a full disk), also for a partial write."""
        self._file.append(line)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def by_process(paths: Iterable[Path]) -> list[Path]:
    """Files of journals in the order of their processes, whose numbers are their names.

    Raises: HistoryError, where a file has another name: it may be a copy of a journal.
    """
    found = sorted(paths)
    for path in found:
        if storage.remote(path) is None and not path.is_file():
            raise HistoryError(f"{path}: not a file")
        if not path.stem.isascii() or not path.stem.isdigit() or str(int(path.stem)) != path.stem:
            raise HistoryError(f"{path}: not the journal of a process, which is called by its number")
    return sorted(found, key=lambda path: int(path.stem))


def read(path: Path) -> list[Line]:
    """All whole lines of a journal. A last line without newline is what a crash cut off: left out.

    Raises: HistoryError, where the header is missing or another line cannot be read.
    """
    return list(lines(path))


def lines(path: Path) -> Iterator[Line]:
    """The same, one at a time: a journal may be larger than the memory."""
    with storage.file_errors(), path.open("rb") as file:
        for number, line in enumerate(jsonl.values(file, DECODER, str(path))):
            if number == 0 and not isinstance(line, JournalHeader):
                raise HistoryError(f"{path} line 1 is not the header of a journal")
            if isinstance(line, JournalHeader) and path.stem != str(line.process):
                raise HistoryError(f"{path} line {number + 1} is the header of process {line.process}")
            yield line
