"""What an application made of its input, as the final reader at read_committed sees it.

The reader reads the input to its end, then the output: of each output record the input record is known by
then. What it finds becomes the journal of one more process, see the docstring of the package.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from core.op import (
    DATABASE,
    CommitKind,
    CommitOffsets,
    Copy,
    End,
    Mop,
    Outcome,
    Phase,
    Send,
    TopicPartition,
    value_of,
)
from core.payload import Foreign, Uncommitted, decode, origin
from harness.clients.application.results import Results
from history import journal as j
from history.journal import JournalWriter

OP_RECORDS = 1000
"""Copies of one op of the journal."""

NO_INPUT: Final = (-1, -1)
"""In the place of partition and offset of the input of an output record: it is made of several, or of one
that was not read."""

Made = tuple[str, int, int, str, int, int]
"""As in `Copying`: topic, partition and value of a copy, topic, partition and offset of its input."""


@dataclass(slots=True, kw_only=True)
class Copies:
    """Of one application. input: its topic. process: whose copies they are to be. size: of input records.
    outputs: of a flat-map, how many there are of each input record (0 = any number); None = it is none.
    repeats: the application may make output again. results: of an aggregate; None = it is none.

    Of a flat-map the output records of one input record are distinguished by their bytes. The first one is
    its copy, and so are a repeated one and one too many, which therefore count as copied twice. The others
    are records of the process; so is the first one, where some are missing, which therefore counts as not
    copied. Where some are missing and others repeated, the input counts as copied twice, or as not copied
    where output may be repeated: what is permitted hides no loss. Of an aggregate the output records are
    records of the process, and no copies: these are the input records that the last results name.
    """

    run: str
    input: str
    process: int
    size: int
    outputs: int | None = None
    repeats: bool = False
    results: Results | None = None
    _inputs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Partition and offsets of each input record, by value: several, where Kafka doubled it."""
    _times: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """How often there was output of a value; of a flat-map, with these bytes."""
    _made: list[Made] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    """Where each copy is."""
    _parts: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    """Of a flat-map: digests of the output records of each input record, in order."""
    _part: dict[int, int] = field(default_factory=dict)
    """Of a flat-map, by the number of the output record: which one of its input it is, from 0."""
    _unread: frozenset[int] = frozenset()
    """Partitions of the input that were not read to their end."""

    def input_read(self, unread: Iterable[int]) -> None:
        """All of the input was read, but of some partitions not all. Output of a record that was not read has
        an input that is not known: it is a record of the process, and no copy."""
        self._unread = frozenset(unread)
        if self.results is not None:
            self.results.unread = self._unread

    def value(self, tp: TopicPartition, offset: int, payload: bytes) -> int | Foreign | Uncommitted:
        """The value of a record that was read, or why it is foreign: an input record has its own, a copy one
        that nothing else has."""
        if tp.topic == self.input:
            value = decode(self.run, tp, payload)
            if not isinstance(value, Foreign):
                self._inputs.setdefault(value, []).append((tp.partition, offset))
                if self.results is not None:
                    self.results.partitions[value] = tp.partition
            return value
        if self.results is not None and tp.topic != DATABASE:
            wrong = self.results.take(tp, payload)
            return self._of(tp, offset, NO_INPUT) if wrong is None else wrong
        found = (
            self.results.number(payload)
            if self.results is not None
            else origin(self.run, self.input, payload, self.size)
        )
        if isinstance(found, Foreign | Uncommitted):
            return found
        partition, number = found
        if number not in self._inputs:
            return self._of(tp, offset, NO_INPUT) if partition in self._unread else Uncommitted(number)
        bytes_ = b"" if self.outputs is None else blake2b(payload, digest_size=16).digest()
        source = self._source(number, bytes_)
        value = self._of(tp, offset, source)
        if self.outputs is not None:
            parts = self._parts.setdefault(source, [])
            self._part[len(self._made) - 1] = len(parts)
            parts.append(bytes_)
        return value

    def _source(self, number: int, bytes_: bytes) -> tuple[int, int]:
        """Which input record output of a value was made of: of a doubled one each in turn, then the last."""
        times = self._times.get((number, bytes_), 0)
        self._times[number, bytes_] = times + 1
        every = self._inputs[number]
        return every[min(times, len(every) - 1)]

    def _of(self, tp: TopicPartition, offset: int, source: tuple[int, int]) -> int:
        """A value of the process, for an output record that was made of an input."""
        value = value_of(self.process, len(self._made) + 1)
        self._made.append((*tp, value, self.input, *source))
        self._offsets.append(offset)
        return value

    def _is_copy(self, number: int) -> bool:
        """Whether an output record counts as the copy of its input."""
        if self._made[number][4:] == NO_INPUT:
            return False
        if self.outputs is None:
            return True
        parts, part = self._parts[self._made[number][4:]], self._part[number]
        several = len(set(parts))
        if self.repeats and several < self.outputs:
            return False
        if parts[part] in parts[:part]:
            return True
        if len(set(parts[:part])) >= (self.outputs or several):
            return True
        return part == 0 and (several >= self.outputs or several < len(parts))

    def write(
        self, journal: JournalWriter, begin_ns: int, ns: int, committed: Mapping[TopicPartition, int] | None
    ) -> None:
        """Journal what was found, as copies that were made between two times, and the offsets that the group
        has committed (None = they are not known)."""
        copies = [number for number in range(len(self._made)) if self._is_copy(number)]
        others = sorted(set(range(len(self._made))) - set(copies))
        kinds = [(some, of) for of, every in ((True, copies), (False, others)) for some in _in_ops(every)]
        for op, (numbers, are_copies) in enumerate(kinds, start=1):
            made = [self._made[number] for number in numbers]
            mops: tuple[Mop, ...] = tuple(Send(TopicPartition(*one[:2]), one[2]) for one in made)
            if are_copies:
                mops = (Copy(made[0][0], made[0][2], len(made)),)
            journal.write(j.Invoked(op, begin_ns, Phase.FAULTS, "application", False, False, mops))
            if are_copies:
                journal.write(j.Copying(op, 0, begin_ns, made))
            results = [(0, self._offsets[number], ns, "") for number in numbers]
            journal.write(j.SendResults(op, 0, begin_ns, ns, results))
            journal.write(j.OpCompleted(op, ns, Outcome.OK))
        if committed is not None:
            op = len(kinds) + 1
            mops = (CommitOffsets(),)
            journal.write(j.Invoked(op, begin_ns, Phase.FAULTS, "application", False, False, mops))
            offsets_of = [(*tp, offset) for tp, offset in sorted(committed.items())]
            head = (op, 0, begin_ns, ns, CommitKind.SYNC, -1, Outcome.OK)
            journal.write(j.OffsetsCommitted(*head, offsets_of))
            journal.write(j.OpCompleted(op, ns, Outcome.OK))
        journal.write(j.Closed(ns, End.CLOSED))
        journal.close()


def _in_ops(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many as one op has."""
    for at in range(0, len(numbers), OP_RECORDS):
        yield numbers[at : at + OP_RECORDS]
