"""The log of a partition around a finding: what stands at each offset, who sent it, who read it.

Sends say which offsets brokers acknowledged, reads say what consumers received. A row is one value at
one offset, so an offset with several values has several rows, and a value at
several offsets too.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from core.errors import HistoryError
from core.op import Isolation, Outcome, Phase
from harness.report.evidence.choice import (
    LEVELS,
    ChosenExamples,
    choose,
    open_at_end,
    stable_end,
    transaction_fate,
)
from harness.report.inputs import Inputs
from harness.report.wording import Key, in_turn
from history.reader import History, ReadRow, SendRow
from history.verdict import Example

AROUND = 8
"""Offsets shown on either side."""
TABLES_MAX = 24
PLACES_MAX = 4
"""Offsets of one finding whose surroundings are shown."""
READERS_MAX = 5
VALUES_MAX = 6
"""Values shown of one offset."""
NOWHERE = -1
APART = "not shown: far from the finding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value at one offset (-1: at none that is on record), or a gap from `offset` to `last`.

    gap: why a gap has no record; "" for a record. style: `ok`, `fail` or `info`, by what happened to the
    record. acked: what the acknowledgement said, where it was not this offset. here: it belongs to the
    finding.
    """

    offset: int
    last: int
    gap: str = ""
    value: int = -1
    producer: str = ""
    op: int = -1
    sent: float | None = None
    fate: str = ""
    style: str = ""
    acked: str = ""
    readers: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    here: bool = False


@dataclass(frozen=True, slots=True)
class LogTable:
    """The log of a partition around some offsets. left_out: offsets of the finding not shown."""

    partition: str
    entries: list[Entry]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be shown for one example. places: all offsets that it is about."""

    example: Example
    tp: int
    places: list[int]

    @property
    def kept(self) -> list[int]:
        """The offsets whose surroundings are shown."""
        return self.places[:PLACES_MAX]

    @property
    def window(self) -> set[int]:
        """All offsets that are shown."""
        return {offset for p in self.kept for offset in range(max(p - AROUND, 0), p + AROUND + 1)}

    def covers(self, other: "_Wanted") -> bool:
        """Whether the log around this example shows that around another."""
        return self.tp == other.tp and bool(other.places) and set(other.places) <= self.window


Place = tuple[int, int]


def build(inputs: Inputs) -> ChosenExamples[LogTable]:
    """The logs around the findings of the verdict. A file that cannot be read becomes a gap."""
    if inputs.history is None:
        return ChosenExamples()
    wanted = choose(_wanted(inputs, inputs.history), _Wanted.covers, TABLES_MAX)
    try:
        sends, reads = _fetch(inputs.history, list(wanted.shown.values()))
    except HistoryError as error:
        inputs.gaps.append(f"{error}: the logs around findings are not shown.")
        return ChosenExamples()
    return wanted.made(_LogBuilder(inputs, inputs.history, sends, reads).log)


def _wanted(inputs: Inputs, history: History) -> Iterator[tuple[Key, _Wanted]]:
    """Examples in turn, with the offsets that they are about; of a stuck partition, where its last stable
    offset stands."""
    for key, example in in_turn(inputs.verdict):
        tp = history.tp_numbers.get(example.partition)
        if tp is None:
            continue
        places = [offset for offset in example.offsets if offset >= 0]
        if not example.offsets and not example.values:
            places = stable_end(history, tp, open_at_end(inputs, example.partition))
        if places or example.values:
            yield key, _Wanted(example, tp, list(dict.fromkeys(places)))


def _fetch(history: History, wanted: list[_Wanted]) -> tuple[list[SendRow], list[ReadRow]]:
    """Rows of the windows and of the findings' values; then all rows of every value among them."""
    windows: dict[int, set[int]] = defaultdict(set)
    values: dict[int, set[int]] = defaultdict(set)
    for each in wanted:
        windows[each.tp] |= each.window
        values[each.tp] |= set(each.example.values)
    near = {tp: {"offset": some, "place": some} for tp, some in windows.items() if some}
    for sent in history.sends(near):
        values[sent.tp].add(sent.value)
    for read in history.reads({tp: {"offset": some} for tp, some in windows.items() if some}):
        values[read.tp].add(read.value)
    same = {tp: {"value": some} for tp, some in values.items() if some}
    return history.sends(same), history.reads(same)


class _LogBuilder:
    """The values at each offset, what is known of each value, and the table that they make."""

    def __init__(self, inputs: Inputs, history: History, sends: list[SendRow], reads: list[ReadRow]) -> None:
        self.history = history
        self.ops = inputs.ops
        self.sends = {(row.tp, row.value): row for row in sends}
        self.values: dict[Place, dict[int, None]] = defaultdict(dict)
        self.reads: dict[Place, list[ReadRow]] = defaultdict(list)
        for read in reads:
            self.values[read.tp, read.offset][read.value] = None
            self.reads[read.tp, read.value].append(read)
        for sent in sends:
            self.values[sent.tp, sent.offset][sent.value] = None
        for sent in sends:
            self.values[sent.tp, sent.place][sent.value] = None
        self.transactional = any(p.transactional_id for p in history.processes.values())

    def log(self, wanted: _Wanted) -> LogTable | None:
        """The log around one finding; None where nothing of it is on record."""
        entries: list[Entry] = []
        before: int | None = None
        for offset in sorted(wanted.window):
            if before is not None and offset > before + 1:
                entries.append(Entry(offset=before + 1, last=offset - 1, gap=APART))
            before = offset
            found = list(self._at(wanted, offset))
            if found:
                entries += found
            else:
                self._gap(wanted.tp, offset, entries)
        while entries and entries[0].gap:
            del entries[0]
        while entries and entries[-1].gap == APART:
            del entries[-1]
        shown = {entry.value for entry in entries}
        entries += [
            self._entry(wanted, NOWHERE, value)
            for value in wanted.example.values[:VALUES_MAX]
            if value not in shown and (wanted.tp, value) in self.sends
        ]
        left_out = len(wanted.places) - len(wanted.kept)
        return LogTable(wanted.example.partition, entries, left_out) if entries else None

    def _at(self, wanted: _Wanted, offset: int) -> Iterator[Entry]:
        """The values on record for an offset, in the order in which clients sent them."""
        found = self.values.get((wanted.tp, offset), {})
        values = sorted(found, key=lambda value: value not in wanted.example.values)
        kept = sorted(values[:VALUES_MAX], key=lambda value: self._sent(wanted.tp, value))
        for value in kept:
            yield self._entry(wanted, offset, value, len(values))

    def _sent(self, tp: int, value: int) -> int:
        send = self.sends.get((tp, value))
        return send.invoke_ns if send else -1

    def _gap(self, tp: int, offset: int, entries: list[Entry]) -> None:
        why = self._nothing(tp, offset)
        begin = entries.pop().offset if entries and entries[-1].gap == why else offset
        entries.append(Entry(offset=begin, last=offset, gap=why))

    def _nothing(self, tp: int, offset: int) -> str:
        """Why the history has no record for an offset, as far as the final reads show it."""
        bound = self.history.bounds.get(tp, {}).get(Isolation.READ_UNCOMMITTED)
        if bound and 0 <= bound.end <= offset:
            return f"after the end of the log, which is {bound.end}"
        if bound and offset < bound.start:
            return "before the start of the log"
        if bound and offset < bound.read_to:
            marker = "; it may hold a transaction marker" if self.transactional else ""
            return f"the final reads returned no record here{marker}"
        return "unknown: the final reads stopped before this offset"

    def _entry(self, wanted: _Wanted, offset: int, value: int, values: int = 1) -> Entry:
        tp, example = wanted.tp, wanted.example
        send = self.sends.get((tp, value))
        reads = self.reads.get((tp, value), []) if value >= 0 else []
        here = value in example.values and (not example.offsets or offset in (*example.offsets, -1))
        if not example.values:
            here = offset in wanted.kept
        others = sorted({row.offset for row in reads} - {offset})
        marks = [f"{values} values at this offset"] if values > 1 else []
        if others and offset >= 0:
            marks.append(f"also at {', '.join(map(str, others[:4]))}")
        entry = Entry(
            offset=offset,
            last=offset,
            value=value,
            producer="no producer on record",
            readers=_readers(reads, offset),
            marks=marks,
            here=here,
        )
        if send is None:
            return entry
        if send.src_offset >= 0:
            marks.append(f"copy of {self.history.tp(send.src_tp)} offset {send.src_offset}")
        fate, style = self._fate(send)
        return replace(
            entry,
            producer=self.history.client(send.process),
            op=send.op,
            sent=self.history.seconds(send.invoke_ns),
            fate=fate,
            style=style,
            acked=_acked(send, offset),
        )

    def _fate(self, send: SendRow) -> tuple[str, str]:
        """What happened to a record, in words, and its style."""
        if send.outcome == Outcome.FAIL:
            return "not written: its producer got a definite error", "fail"
        if not send.txn:
            return ("acknowledged", "ok") if send.outcome == Outcome.OK else ("unknown", "info")
        ops = self.ops
        meant = ops is not None and send.op < len(ops.f) and ops.deliberate[send.op] == 1
        words, style = transaction_fate(send.op_outcome, bool(meant))
        return f"transaction {words}" if style == "info" else words, style


def _readers(reads: list[ReadRow], offset: int) -> list[str]:
    """Who received the value at an offset: processes by isolation level, final reads apart."""
    by: dict[tuple[bool, int], set[int]] = defaultdict(set)
    for row in reads:
        if row.offset == offset:
            by[row.phase == Phase.FINAL, -row.isolation].add(row.process)
    words = []
    for (final, level), processes in sorted(by.items()):
        name = LEVELS.get(Isolation(-level), "?")
        more = len(processes) - READERS_MAX
        listed = ", ".join(map(str, sorted(processes)[:READERS_MAX]))
        words.append(f"final {name}" if final else f"{name} {listed}{f' +{more}' * (more > 0)}")
    return words


def _acked(send: SendRow, offset: int) -> str:
    """What the acknowledgement said, unless it named this offset."""
    if send.outcome != Outcome.OK:
        return "" if send.outcome == Outcome.FAIL else "no acknowledgement"
    if send.offset < 0:
        return "acknowledged without an offset"
    return "" if send.offset == offset else f"acknowledged at {send.offset}"
