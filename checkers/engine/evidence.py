"""Records that few findings need and no kernel had: looked up for all examples of a run at once.

A kernel hands on the records of its own partition. What is left are findings over several partitions:
whole transactions, cycles, inputs and their copies.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from history.reader import History, ReadRow, SendRow
from history.unit_files import EVERYWHERE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one finding needs.

    ops: all records of these ops. written: what these ops sent, and every read of it. sends, reads: what an
    op sent to a partition, or read there (partition, op). inputs: what was read at these places (partition,
    offset), and the copies of it.
    """

    ops: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    sends: tuple[tuple[int, int], ...] = ()
    reads: tuple[tuple[int, int], ...] = ()
    inputs: tuple[tuple[int, int], ...] = ()


class InputRecords(NamedTuple):
    """What is on record of an input: its sends (of the value that stands there first), reads, copies."""

    sends: Sequence[SendRow] = ()
    reads: Sequence[ReadRow] = ()
    copies: Sequence[SendRow] = ()


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """What all of them wanted: sends and reads by op; reads of a record by partition and value; inputs by
    partition and offset."""

    sends: Mapping[int, Sequence[SendRow]] = field(default_factory=dict)
    reads: Mapping[int, Sequence[ReadRow]] = field(default_factory=dict)
    reads_of: Mapping[tuple[int, int], Sequence[ReadRow]] = field(default_factory=dict)
    inputs: Mapping[tuple[int, int], InputRecords] = field(default_factory=dict)


def fetch(history: History, wanted: Iterable[Wanted]) -> FetchedRecords:
    """Look up what is wanted.

    Raises: HistoryError, where a file cannot be read.
    """
    everything = list(wanted)
    ops = {op for each in everything for op in each.ops}
    written = {op for each in everything for op in each.written}
    inputs = {place for each in everything for place in each.inputs}
    sends: dict[int, list[SendRow]] = defaultdict(list)
    reads: dict[int, list[ReadRow]] = defaultdict(list)
    for send in history.sends(_of_ops(ops | written, (place for each in everything for place in each.sends))):
        sends[send.op].append(send)
    for read in history.reads(_of_ops(ops, (place for each in everything for place in each.reads))):
        reads[read.op].append(read)
    reads_of: dict[tuple[int, int], list[ReadRow]] = defaultdict(list)
    values: dict[int, set[int]] = defaultdict(set)
    for send in (row for op in written for row in sends.get(op, ())):
        values[send.tp].add(send.value)
    for read in history.reads({tp: {"value": some} for tp, some in values.items()}):
        reads_of[read.tp, read.value].append(read)
    return FetchedRecords(sends, reads, reads_of, _inputs(history, inputs))


def _of_ops(ops: set[int], places: Iterable[tuple[int, int]]) -> dict[int, dict[str, set[int]]]:
    """The condition: of these ops, or of an op in a partition."""
    found = {EVERYWHERE: {"op": ops}} if ops else {}
    for tp, op in places:
        found.setdefault(tp, {"op": set()})["op"].add(op)
    return found


def _inputs(history: History, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], InputRecords]:
    offsets: dict[int, set[int]] = defaultdict(set)
    for tp, offset in places:
        offsets[tp].add(offset)
    if not offsets:
        return {}
    reads: dict[tuple[int, int], list[ReadRow]] = defaultdict(list)
    values: dict[int, set[int]] = defaultdict(set)
    for read in history.reads({tp: {"offset": some} for tp, some in offsets.items()}):
        reads[read.tp, read.offset].append(read)
        values[read.tp].add(read.value)
    senders = {
        (row.tp, row.value): row
        for row in history.sends({tp: {"value": some} for tp, some in values.items()})
    }
    copies: dict[tuple[int, int], list[SendRow]] = defaultdict(list)
    for row in history.sends({EVERYWHERE: {"src_offset": set().union(*offsets.values())}}):
        copies[row.src_tp, row.src_offset].append(row)
    found = {}
    for tp, offset in {(tp, offset) for tp, some in offsets.items() for offset in some}:
        own = reads[tp, offset]
        known = {row.value: senders.get((tp, row.value)) for row in own}
        sends = sorted(filter(None, known.values()), key=lambda row: row.place != offset)
        found[tp, offset] = InputRecords(sends, own, copies[tp, offset])
    return found
