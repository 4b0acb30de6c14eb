"""What an application made of its input, as the final reader at read_committed sees it.

The reader reads the input to its end, then the output: of each output record the input record is known by
then. What it finds becomes the journal of one more process, see the docstring of the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.op import CommitKind, CommitOffsets, Copy, End, Outcome, Phase, TopicPartition, value_of
from core.payload import Foreign, decode, origin
from history import journal as j
from history.journal import JournalWriter

OP_RECORDS = 1000
"""Copies of one op of the journal."""

Made = tuple[str, int, int, str, int, int]
"""As in `Copying`: topic, partition and value of a copy, topic, partition and offset of its input."""


@dataclass(slots=True, kw_only=True)
class Copies:
    """Of one application. input: its topic. process: whose copies they are to be. size: of input records."""

    run: str
    input: str
    process: int
    size: int
    _inputs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition and offset of each input record, by value."""
    _made: list[Made] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    """Where each copy is."""

    def value(self, tp: TopicPartition, offset: int, payload: bytes) -> int | Foreign:
        """The value of a record that was read, or why it is foreign: an input record has its own, a copy one
        that nothing else has."""
        if tp.topic == self.input:
            value = decode(self.run, tp, payload)
            if not isinstance(value, Foreign):
                self._inputs[value] = (tp.partition, offset)
            return value
        found = origin(self.run, self.input, payload, self.size)
        if isinstance(found, Foreign):
            return found
        source = self._inputs.get(found[1])
        if source is None:
            return Foreign.UNCOMMITTED
        value = value_of(self.process, len(self._made) + 1)
        self._made.append((*tp, value, self.input, *source))
        self._offsets.append(offset)
        return value

    def write(
        self, journal: JournalWriter, begin_ns: int, ns: int, committed: Mapping[TopicPartition, int] | None
    ) -> None:
        """Journal what was found, as copies that were made between two times, and the offsets that the group
        has committed (None = they are not known)."""
        for op, at in enumerate(range(0, len(self._made), OP_RECORDS), start=1):
            made, offsets = self._made[at : at + OP_RECORDS], self._offsets[at : at + OP_RECORDS]
            copy = Copy(made[0][0], made[0][2], len(made))
            journal.write(j.Invoked(op, begin_ns, Phase.FAULTS, "application", False, False, (copy,)))
            journal.write(j.Copying(op, 0, begin_ns, made))
            results = [(0, offset, ns, "") for offset in offsets]
            journal.write(j.SendResults(op, 0, begin_ns, ns, results))
            journal.write(j.OpCompleted(op, ns, Outcome.OK))
        if committed is not None:
            op = -(-len(self._made) // OP_RECORDS) + 1
            mops = (CommitOffsets(),)
            journal.write(j.Invoked(op, begin_ns, Phase.FAULTS, "application", False, False, mops))
            offsets_of = [(*tp, offset) for tp, offset in sorted(committed.items())]
            head = (op, 0, begin_ns, ns, CommitKind.SYNC, -1, Outcome.OK)
            journal.write(j.OffsetsCommitted(*head, offsets_of))
            journal.write(j.OpCompleted(op, ns, Outcome.OK))
        journal.write(j.Closed(ns, End.CLOSED))
        journal.close()
