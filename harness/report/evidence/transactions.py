"""The transactions around a finding: which were open when, where their records went, who received them.

The transactions of the finding itself are its *subjects*. Where a last stable offset stands still, the
subject is the transaction whose record stands there. A timeline has a lane for each transactional id,
with its subjects among its other transactions; a lane for each partition that the subjects wrote to; and
a lane for each consumer that received their records.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from core.cluster import OpenTransaction
from core.errors import HistoryError
from core.op import Outcome, Phase
from harness.report.evidence.choice import (
    LEVELS,
    ChosenExamples,
    choose,
    open_at_end,
    stable_end,
    transaction_fate,
)
from harness.report.inputs import Inputs, Ints, Mask, OpColumns
from harness.report.wording import Key, count, in_turn
from history.reader import History, ReadRow, SendRow
from history.unit_files import EVERYWHERE
from history.verdict import Example

CLASSES = frozenset(
    {
        *("torn-txn", "aborted-read", "precommitted-read", "zombie-write"),
        *("eos-duplicate", "eos-loss", "hanging-txn", "stuck-lso"),
        *("G1c", "G1c-ww", "G1c-realtime", "G0", "G0-realtime"),
    }
)
"""Classes that are about transactions. Other findings get a timeline where they name one."""
STUCK = ("hanging-txn", "stuck-lso")
TIMELINES_MAX = 12
LANES_MAX = 8
BARS_MAX = 60
"""Transactions of one lane."""
SUBJECTS_MAX = 16
WINDOW_S = 12.0
"""Longest part of one transaction that a timeline has to show."""
PARTITIONS_MAX = 6
READERS_MAX = 6
POLLS_MAX = 60
ROWS_MAX = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OpBar:
    """Something that an op did, in seconds. completed: else its process ended at `end`. style: `ok`,
    `fail` or `info`; of polls `read` (with a subject's record) or `idle`. Of transactions
    only: whose they are, how they ended, and how many records they wrote to each partition."""

    op: int
    begin: float
    end: float
    completed: bool
    style: str
    text: str
    subject: bool
    client: str = ""
    fate: str = ""
    records: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLane:
    """Bars of one transactional id (`kind` txn), of records to one partition, or of one consumer's
    polls. slot: number of the client, -1 for a partition."""

    label: str
    kind: str
    slot: int
    bars: list[OpBar]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimeline:
    """The transactions around one finding, from `begin` to `end` in seconds.

    rows: of the table, by time: the subjects and the transactions nearest to them; left_out: the others.
    opened: transactions that the partition still held open at the end. shown: (isolation level,
    subjects' records that final reads returned, all subjects' records).
    """

    begin: float
    end: float
    lanes: list[TransactionLane]
    rows: list[OpBar]
    left_out: int
    opened: list[OpenTransaction] = field(default_factory=list)
    shown: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Chosen:
    """What is drawn for one example: subjects, window in seconds, the transactions of each lane by
    (transactional id, client)."""

    example: Example
    subjects: list[int]
    opened: list[OpenTransaction]
    window: tuple[float, float] = (0.0, 0.0)
    lanes: dict[tuple[str, int], list[int]] = field(default_factory=dict)


def build(inputs: Inputs) -> ChosenExamples[TransactionTimeline]:
    """Timelines for the findings of the verdict. A file that cannot be read becomes a gap."""
    history, ops = inputs.history, inputs.ops
    if history is None or ops is None:
        return ChosenExamples()
    try:
        chosen = _Chooser(inputs, history, ops).choice()
        every = list(chosen.shown.values())
        wanted = {op for each in every for lane in each.lanes.values() for op in lane}
        sends = history.sends({EVERYWHERE: {"op": wanted}}) if wanted else []
        subjects = {op for each in every for op in each.subjects}
        values: dict[int, set[int]] = defaultdict(set)
        for row in sends:
            if row.op in subjects:
                values[row.tp].add(row.value)
        reads = history.reads({tp: {"value": some} for tp, some in values.items()})
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the transactions around findings are not shown.")
        return ChosenExamples()
    return chosen.made(_TimelineBuilder(history, ops, sends, reads).timeline)


def fate(ops: OpColumns, op: int) -> tuple[str, str]:
    """What happened to a transaction, in words, and its style."""
    return transaction_fate(int(ops.outcome[op]), ops.deliberate[op] == 1)


class _Chooser:
    """Which transactions each timeline shows. The cost depends on the findings, not on the history."""

    def __init__(self, inputs: Inputs, history: History, ops: OpColumns) -> None:
        self.inputs, self.history, self.ops = inputs, history, ops
        self.processes: dict[str, list[int]] = defaultdict(list)
        for process in history.processes:
            self.processes[self._identity(process)].append(process)

    def choice(self) -> ChosenExamples[_Chosen]:
        """What is drawn, by example.

        Raises: HistoryError.
        """
        return choose(
            self._about(), lambda one, other: set(other.subjects) <= set(one.subjects), TIMELINES_MAX
        ).made(self._filled)

    def _about(self) -> Iterator[tuple[Key, _Chosen]]:
        """Examples in turn, as far as they are about transactions, with their subjects."""
        for key, example in in_turn(self.inputs.verdict):
            named = [op.op for op in example.ops if op.txn and 0 <= op.op < len(self.ops.f)]
            if key[0] in CLASSES or named:
                opened = self._opened(example) if key[0] in STUCK else []
                subjects = list(dict.fromkeys(named or self._at_stable_end(example, opened)))[:SUBJECTS_MAX]
                if subjects:
                    yield key, _Chosen(example, subjects, opened)

    def _opened(self, example: Example) -> list[OpenTransaction]:
        rows = open_at_end(self.inputs, example.partition)
        producer = example.producer.get("producer_id", -1)
        return [row for row in rows if row.producer_id == producer] or rows

    def _at_stable_end(self, example: Example, opened: Sequence[OpenTransaction]) -> list[int]:
        """Transactions with a record where the last stable offset stands."""
        tp = self.history.tp_numbers.get(example.partition, -1)
        starts = stable_end(self.history, tp, opened)
        if tp < 0 or not starts:
            return []
        return [row.op for row in self.history.sends({tp: {"place": starts}}) if row.txn == 1]

    def _identity(self, process: int) -> str:
        """Transactional id of a process, else its client."""
        row = self.history.processes.get(process)
        if row is None:
            return f"process {process}"
        return row.transactional_id or f"client {row.slot}"

    def _filled(self, chosen: _Chosen) -> _Chosen:
        """The window around the subjects, and the transactions of their ids in it."""
        ops = self.ops
        begins = [float(ops.invoke[op]) for op in chosen.subjects]
        ends = [min(until(self.history, ops, op), ops.invoke[op] + WINDOW_S) for op in chosen.subjects]
        for shown in chosen.example.ops:
            if shown.phase != Phase.FINAL.name.lower():
                begins.append(shown.begin_s)
                ends.append(shown.begin_s if shown.end_s is None else shown.end_s)
        low, high = min(begins), max(ends)
        pad = float(np.clip(0.3 * (high - low), 0.15, 5.0))
        chosen.window = (low - pad, high + pad)
        lanes: dict[tuple[str, int], list[int]] = defaultdict(list)
        for op in chosen.subjects:
            lanes[self._lane_of(int(ops.process[op]))].append(op)
        for name in list(dict.fromkeys(name for name, _ in lanes)):
            for process in self.processes.get(name, []):
                lane = lanes[self._lane_of(process)]
                subjects = set(lane)
                lane += [op for op in self._inside(process, chosen.window) if op not in subjects]
        for key in sorted([key for key in lanes if lanes[key]][:LANES_MAX]):
            every = np.array(lanes[key])
            certain = ops.outcome[every] != Outcome.INFO
            chosen.lanes[key] = nearest(ops, chosen.subjects, every, BARS_MAX, certain)
        return chosen

    def _lane_of(self, process: int) -> tuple[str, int]:
        row = self.history.processes.get(process)
        return self._identity(process), row.slot if row else -1

    def _inside(self, process: int, window: tuple[float, float]) -> list[int]:
        """Transactions of a process that were open at some time of the window."""
        found = during(self.history, self.ops, process, window)
        found = found[self.ops.txn[found] == 1]
        return [op for op in found.tolist() if until(self.history, self.ops, op) >= window[0]]


def during(history: History, ops: OpColumns, process: int, window: tuple[float, float]) -> Ints:
    """Ops of a process that were invoked before the end of the window and completed after its begin."""
    mine = history.ops_of(process)
    low, high = window
    mine = mine[: np.searchsorted(ops.invoke[mine], high, side="right")]
    return np.asarray(mine[ops.complete[mine] >= low])


def until(history: History, ops: OpColumns, op: int) -> float:
    """When an op ended: its completion, or the end of its process where it never completed."""
    end = float(ops.complete[op])
    if np.isfinite(end):
        return end
    process = history.processes.get(int(ops.process[op]))
    return max(history.seconds(process.end_ns) if process else 0.0, float(ops.invoke[op]))


def nearest(ops: OpColumns, subjects: Sequence[int], others: Ints, most: int, *before: Mask) -> list[int]:
    """By time at most `most` ops: subjects, then those nearest to one. before: what counts more than
    nearness, false first."""
    times = ops.invoke[np.array(subjects)]
    far = np.abs(ops.invoke[others][:, None] - times).min(axis=1)
    kept = others[np.lexsort((far, *before, ~np.isin(others, subjects)))[:most]]
    return [int(op) for op in kept[np.argsort(ops.invoke[kept], kind="stable")]]


class _TimelineBuilder:
    """The records of all timelines, by op and by value, and the timelines that they make."""

    def __init__(self, history: History, ops: OpColumns, sends: list[SendRow], reads: list[ReadRow]) -> None:
        self.history, self.ops = history, ops
        self.sends: dict[int, list[SendRow]] = defaultdict(list)
        for sent in sends:
            self.sends[sent.op].append(sent)
        self.reads: dict[tuple[int, int], list[ReadRow]] = defaultdict(list)
        for read in reads:
            self.reads[read.tp, read.value].append(read)

    def timeline(self, chosen: _Chosen) -> TransactionTimeline:
        """The timeline of one finding."""
        lanes = [self._transactions(chosen, key) for key in chosen.lanes]
        bars = {bar.op: bar for lane in lanes for bar in lane.bars}
        shown = np.array(list(bars))
        rows = [bars[op] for op in nearest(self.ops, chosen.subjects, shown, ROWS_MAX)]
        return TransactionTimeline(
            begin=chosen.window[0],
            end=chosen.window[1],
            lanes=[*lanes, *self._partitions(chosen, list(bars)), *self._readers(chosen)],
            rows=rows,
            left_out=len(bars) - len(rows),
            opened=chosen.opened,
            shown=self._final(chosen),
        )

    def _bar(self, chosen: _Chosen, op: int, text: str, style: str) -> OpBar:
        return OpBar(
            op=op,
            begin=float(self.ops.invoke[op]),
            end=until(self.history, self.ops, op),
            completed=bool(np.isfinite(self.ops.complete[op])),
            style=style,
            text=text,
            subject=op in chosen.subjects,
        )

    def _transactions(self, chosen: _Chosen, key: tuple[str, int]) -> TransactionLane:
        bars = []
        for op in chosen.lanes[key]:
            words, style = fate(self.ops, op)
            process, written = int(self.ops.process[op]), Counter(row.tp for row in self.sends[op])
            records = [(self.history.tp(tp), many) for tp, many in sorted(written.items())]
            where = ", ".join(f"{name} ({many})" for name, many in records)
            text = f"op {op}, process {process}, {words}; records to {where or 'nothing'}"
            bar = self._bar(chosen, op, text, style)
            bars.append(replace(bar, client=self.history.client(process), fate=words, records=records))
        twins = sum(identity == key[0] for identity, _ in chosen.lanes) > 1
        label = f"{key[0]}, client {key[1]}" if twins else key[0]
        return TransactionLane(label=label, kind="txn", slot=key[1], bars=bars)

    def _partitions(self, chosen: _Chosen, shown: Sequence[int]) -> list[TransactionLane]:
        """A lane for each partition of the subjects' records: when records to it were in flight."""
        own = Counter(row.tp for op in chosen.subjects for row in self.sends[op])
        of_finding = self.history.tp_numbers.get(chosen.example.partition, -1)
        order = sorted(own, key=lambda tp: (tp != of_finding, -own[tp], tp))[:PARTITIONS_MAX]
        lanes = []
        for tp in sorted(order, key=self.history.tp):
            rows = {op: [row for row in self.sends[op] if row.tp == tp] for op in shown}
            bars = [self._flight(chosen, op, some) for op, some in rows.items() if some]
            label = self.history.tp(tp)
            lanes.append(TransactionLane(label=label, kind="partition", slot=-1, bars=bars))
        return lanes

    def _flight(self, chosen: _Chosen, op: int, rows: Sequence[SendRow]) -> OpBar:
        """From the first record handed to the producer to the last acknowledgement, or the op's end."""
        words, style = fate(self.ops, op)
        places = [row.place for row in rows if row.place >= 0]
        lost = sum(row.ack_ns < 0 for row in rows)
        end = self.history.seconds(max(row.ack_ns for row in rows))
        text = f"op {op} ({words}): {len(rows)} of its records"
        if places:
            text += f", offset {min(places)}" + (f" to {max(places)}" if len(places) > 1 else "")
        text += f"; {lost} not acknowledged" if lost else ""
        whole = self._bar(chosen, op, text, style)
        begin = self.history.seconds(min(row.invoke_ns for row in rows))
        return replace(whole, begin=begin, end=whole.end if lost else end, completed=not lost)

    def _readers(self, chosen: _Chosen) -> list[TransactionLane]:
        """A lane for each process that received a subject's record before the final reads."""
        received: dict[int, Counter[int]] = defaultdict(Counter)
        for row in self._received(chosen):
            if row.phase != Phase.FINAL:
                received[row.process][row.op] += 1
        named = {op.op for op in chosen.example.ops}
        order = sorted(received, key=lambda p: (not named & received[p].keys(), -received[p].total(), p))
        lanes = (self._polls(chosen, p, received[p], named) for p in sorted(order[:READERS_MAX]))
        return [lane for lane in lanes if lane.bars]

    def _polls(
        self, chosen: _Chosen, process: int, received: Counter[int], named: set[int]
    ) -> TransactionLane:
        ops = self.ops
        found = during(self.history, ops, process, chosen.window)
        found = found[ops.n_reads[found] > 0]
        wanted = [np.isin(found, list(some)) for some in (named, received)]
        first = np.lexsort((ops.invoke[found], ~wanted[1], ~wanted[0]))[:POLLS_MAX]
        bars = []
        for op in sorted(int(op) for op in found[first]):
            records = count(int(ops.n_reads[op]), "record")
            text = f"op {op}: {records}, {received[op]} from transactions of this finding"
            bars.append(self._bar(chosen, op, text, "read" if received[op] else "idle"))
        row = self.history.processes.get(process)
        return TransactionLane(
            label=f"consumer {process} {LEVELS.get(row.isolation, '?') if row else '?'}",
            kind="reader",
            slot=row.slot if row else -1,
            bars=bars,
        )

    def _received(self, chosen: _Chosen) -> Iterable[ReadRow]:
        """Reads of the subjects' records."""
        for op in chosen.subjects:
            for row in self.sends[op]:
                yield from self.reads[row.tp, row.value]

    def _final(self, chosen: _Chosen) -> list[tuple[str, int, int]]:
        """How many of the subjects' records the final reads returned, by isolation level."""
        sent = {(row.tp, row.value) for op in chosen.subjects for row in self.sends[op]}
        found = []
        for level in LEVELS:
            if any(level in self.history.bounds.get(tp, {}) for tp, _ in sent):
                seen = {
                    (row.tp, row.value)
                    for row in self._received(chosen)
                    if row.phase == Phase.FINAL and row.isolation == level
                }
                found.append((level.name.lower(), len(seen), len(sent)))
        return found
