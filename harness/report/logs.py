"""The log of a partition around a finding: what stood at each offset, who sent it, who read it.

From the sealed records: sends say what was acknowledged where, reads say what consumers were shown. A
row is one value at one offset, so an offset with several values has several rows, and a value at
several offsets too.

Not here: reading files (`records`), which transactions were open (`transactions`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.events import TransactionsOpen
from harness.op import Isolation, Outcome, Phase
from harness.report import choice
from harness.report.inputs import Inputs
from harness.report.records import Row, Sealed, Unreadable, any_of, either
from harness.verdict import Example

AROUND = 8
"""Offsets shown on either side."""
TABLES_MAX = 24
PLACES_MAX = 4
"""Offsets of one finding whose surroundings are shown."""
READERS_MAX = 5
VALUES_MAX = 6
"""Values shown of one offset."""
LEVELS = {Isolation.READ_UNCOMMITTED: "RU", Isolation.READ_COMMITTED: "RC"}
NOWHERE = -1
APART = "not shown: far from the finding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value at one offset (-1: at none that is on record), or a gap from `offset` to `last`.

    told: of a gap, what it is; else "". style: `ok`, `fail`, `info` by what became of the record, ""
    unknown. acked: what the acknowledgement said, where it was not this offset. here: it belongs to
    the finding.
    """

    offset: int
    last: int
    told: str = ""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log of a partition around some offsets. left_out: offsets of the finding not shown."""

    partition: str
    entries: list[Entry]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Logs by example; `same`: examples that lie within the log of an earlier one of their class;
    `missing`: examples of partitions that got none, because there were too many."""

    shown: dict[choice.Key, Log]
    same: dict[choice.Key, int]
    missing: set[choice.Key]


@dataclass(slots=True)
class _Wanted:
    """What is to be shown for one example."""

    example: Example
    tp: int
    places: list[int]
    left_out: int

    def window(self) -> set[int]:
        return {o for p in self.places for o in range(max(p - AROUND, 0), p + AROUND + 1)}


Records = Mapping[tuple[int, int], list[Row]]
"""Rows by (tp, offset) or (tp, value)."""


def build(inputs: Inputs) -> Logs:
    """The logs around the findings of the verdict. A file that cannot be read becomes a gap."""
    chosen, same, missing = _chosen(inputs)
    if not chosen or inputs.sealed is None:
        return Logs(shown={}, same={}, missing=set())
    try:
        sends, reads = _fetch(inputs.sealed, list(chosen.values()))
    except Unreadable as error:
        inputs.gaps.append(f"{error}: the logs around findings are not shown.")
        return Logs(shown={}, same={}, missing=set())
    view = _View(inputs, sends, reads)
    logs = {key: view.log(wanted) for key, wanted in chosen.items()}
    shown = {key: log for key, log in logs.items() if log.entries}
    kept = {key: number for key, number in same.items() if (key[0], number) in shown}
    return Logs(shown=shown, same=kept, missing=missing)


def _chosen(
    inputs: Inputs,
) -> tuple[dict[choice.Key, _Wanted], dict[choice.Key, int], set[choice.Key]]:
    """Examples in turn, without those that an earlier log of their class shows already."""
    chosen: dict[choice.Key, _Wanted] = {}
    same: dict[choice.Key, int] = {}
    missing: set[choice.Key] = set()
    if inputs.sealed is None:
        return chosen, same, missing
    for key, example in choice.in_turn(inputs.verdict):
        tp = inputs.sealed.tps.get(example.partition)
        if tp is None:
            continue
        places = _places(inputs, inputs.sealed, tp, example)
        if not places and not example.values:
            continue
        first = next((n for (name, n), w in chosen.items() if name == key[0] and w.tp == tp
                      and places and set(places) <= w.window()), None)  # fmt: skip
        if first is not None:
            same[key] = first
        elif len(chosen) < TABLES_MAX:
            left = len(places[PLACES_MAX:])
            chosen[key] = _Wanted(example, tp, places[:PLACES_MAX], left)
        else:
            missing.add(key)
    return chosen, same, missing


def _places(inputs: Inputs, sealed: Sealed, tp: int, example: Example) -> list[int]:
    """Offsets of the finding; of a stuck partition, where its last stable offset stands."""
    if example.offsets or example.values:
        return list(dict.fromkeys(offset for offset in example.offsets if offset >= 0))
    opened = [event for event in inputs.events if isinstance(event, TransactionsOpen)]
    starts = [
        row.start
        for row in (opened[-1].rows if opened else ())
        if f"{row.topic}-{row.partition}" == example.partition and row.start >= 0
    ]
    bound = sealed.bounds.get((tp, Isolation.READ_COMMITTED))
    stuck = [bound.end] if bound and bound.end >= 0 else []
    return list(dict.fromkeys(starts or stuck))


def _fetch(sealed: Sealed, wanted: list[_Wanted]) -> tuple[list[Row], list[Row]]:
    """Rows of the windows and of the findings' values; then all rows of every value among them."""
    windows: dict[int, set[int]] = defaultdict(set)
    values: dict[int, set[int]] = defaultdict(set)
    for each in wanted:
        windows[each.tp] |= each.window()
        values[each.tp] |= set(each.example.values)
    for table, columns in (("sends", ("offset", "place")), ("reads", ("offset",))):
        near = {
            tp: either(any_of(name, offsets) for name in columns)
            for tp, offsets in windows.items()
            if offsets
        }
        for row in sealed.rows_of(table, near):
            values[row["tp"]].add(row["value"])
    same = {tp: any_of("value", some) for tp, some in values.items() if some}
    return sealed.rows_of("sends", same), sealed.rows_of("reads", same)


def _by(rows: list[Row], column: str) -> dict[tuple[int, int], list[Row]]:
    found: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row[column] >= 0:
            found[row["tp"], row[column]].append(row)
    return found


class _View:
    """The rows, by offset and by value."""

    def __init__(self, inputs: Inputs, sends: list[Row], reads: list[Row]) -> None:
        assert inputs.sealed is not None
        self.sealed: Sealed = inputs.sealed
        self.ops = inputs.ops
        self.sends = {(row["tp"], row["value"]): row for row in sends}
        self.acked, self.placed = _by(sends, "offset"), _by(sends, "place")
        self.reads, self.reads_of = _by(reads, "offset"), _by(reads, "value")
        self.transactional = any(p.transactional_id for p in self.sealed.processes.values())

    def log(self, wanted: _Wanted) -> Log:
        """The log around one finding."""
        entries: list[Entry] = []
        before: int | None = None
        for offset in sorted(wanted.window()):
            if before is not None and offset > before + 1:
                entries.append(Entry(offset=before + 1, last=offset - 1, told=APART))
            before = offset
            found = list(self._at(wanted, offset))
            if found:
                entries += found
            else:
                self._gap(wanted.tp, offset, entries)
        while entries and entries[0].told:
            del entries[0]
        while entries and entries[-1].told == APART:
            del entries[-1]
        shown = {entry.value for entry in entries}
        entries += [
            self._entry(wanted, NOWHERE, value)
            for value in wanted.example.values[:VALUES_MAX]
            if value not in shown and (wanted.tp, value) in self.sends
        ]
        return Log(partition=wanted.example.partition, entries=entries, left_out=wanted.left_out)

    def _at(self, wanted: _Wanted, offset: int) -> Iterator[Entry]:
        """The values on record for an offset, in the order in which they were sent."""
        key = (wanted.tp, offset)
        rows = [*self.reads.get(key, ()), *self.acked.get(key, ()), *self.placed.get(key, ())]
        values = list(dict.fromkeys(row["value"] for row in rows))
        values.sort(key=lambda value: value not in wanted.example.values)
        kept = sorted(values[:VALUES_MAX], key=lambda value: self._sent(wanted.tp, value))
        for value in kept:
            yield self._entry(wanted, offset, value, len(values))

    def _sent(self, tp: int, value: int) -> int:
        send = self.sends.get((tp, value))
        return int(send["invoke_ns"]) if send else -1

    def _gap(self, tp: int, offset: int, entries: list[Entry]) -> None:
        told = self._nothing(tp, offset)
        begin = entries.pop().offset if entries and entries[-1].told == told else offset
        entries.append(Entry(offset=begin, last=offset, told=told))

    def _nothing(self, tp: int, offset: int) -> str:
        """Why nothing is on record for an offset, as far as the final reads tell."""
        bound = self.sealed.bounds.get((tp, Isolation.READ_UNCOMMITTED))
        if bound and 0 <= bound.end <= offset:
            return f"after the end of the log, which was {bound.end}"
        if bound and offset < bound.start:
            return "before the start of the log"
        if bound and offset < bound.read_to:
            markers = "; transaction markers take such offsets" if self.transactional else ""
            return f"no record in the final reads{markers}"
        return "nothing on record: the final reads did not get there"

    def _entry(self, wanted: _Wanted, offset: int, value: int, values: int = 1) -> Entry:
        tp, example = wanted.tp, wanted.example
        send = self.sends.get((tp, value))
        reads = self.reads_of.get((tp, value), [])
        here = value in example.values and (not example.offsets or offset in (*example.offsets, -1))
        if not example.values:
            here = offset in wanted.places
        others = sorted({row["offset"] for row in reads} - {offset})
        marks = [f"{values} values at this offset"] if values > 1 else []
        if others and offset >= 0:
            marks.append(f"also at {', '.join(map(str, others[:4]))}")
        if send is None:
            return Entry(offset=offset, last=offset, value=value, producer="nobody on record", here=here,
                         readers=self._readers(reads, offset), marks=marks)  # fmt: skip
        source = send.get("src_offset", -1)
        if source >= 0:
            marks.append(f"copy of {self.sealed.tp(send['src_tp'])} offset {source}")
        fate, style = self._fate(send)
        return Entry(
            offset=offset, last=offset, value=value, producer=self.sealed.client(send["process"]),
            op=send["op"], sent=self.sealed.seconds(send["invoke_ns"]), fate=fate, style=style,
            acked=_acked(send, offset), readers=self._readers(reads, offset), marks=marks, here=here,
        )  # fmt: skip

    def _fate(self, send: Row) -> tuple[str, str]:
        """What became of a record, in words, and its colour."""
        if send["outcome"] == Outcome.FAIL:
            return "not written, as its client was told", "fail"
        if not send["txn"]:
            return {
                Outcome.OK: ("acknowledged", "ok"), Outcome.INFO: ("unknown", "info"),
            }[Outcome(send["outcome"])]  # fmt: skip
        if send["op_outcome"] == Outcome.OK:
            return "committed", "ok"
        if send["op_outcome"] == Outcome.INFO:
            return "transaction unknown", "info"
        ops, op = self.ops, send["op"]
        meant = ops is not None and op < len(ops.deliberate) and ops.deliberate[op] == 1
        return f"aborted {'on purpose' if meant else 'after an error'}", "fail"

    def _readers(self, reads: list[Row], offset: int) -> list[str]:
        """Who was given the value at an offset: processes by level, final reads apart."""
        by: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for row in reads:
            if row["offset"] == offset:
                final = row["phase"] == Phase.FINAL
                by[final, -row["isolation"]].append(row["process"])
        told = []
        for (final, level), processes in sorted(by.items()):
            name = LEVELS.get(Isolation(-level), "?")
            distinct = sorted(set(processes))
            more = len(distinct) - READERS_MAX
            listed = ", ".join(map(str, distinct[:READERS_MAX])) + (f" +{more}" if more > 0 else "")
            told.append(f"final {name}" if final else f"{name} {listed}")
        return told


def _acked(send: Row, offset: int) -> str:
    """What the acknowledgement said, unless it named this offset."""
    if send["outcome"] != Outcome.OK:
        return "" if send["outcome"] == Outcome.FAIL else "no acknowledgement"
    if send["offset"] < 0:
        return "acknowledged without an offset"
    return "" if send["offset"] == offset else f"acknowledged at {send['offset']}"
