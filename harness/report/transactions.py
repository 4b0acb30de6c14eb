"""The transactions around a finding: who had which open when, where their records went, who polled them.

A lane for each transactional id, with the finding's own transactions (its subjects) among those before,
between and after them; a lane for each partition that they wrote to; a lane for each reader of theirs.

Not here: which transactions (`scenes`), the log at an offset (`logs`), drawing (`static`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.events import OpenTransaction
from harness.op import Isolation, Outcome, Phase
from harness.report import choice
from harness.report.inputs import Inputs, Ops
from harness.report.records import Row, Sealed, Unreadable, any_of
from harness.report.scenes import Scene, scenes, until

PARTITIONS_MAX = 6
READERS_MAX = 6
POLLS_MAX = 60
ROWS_MAX = 24
LEVELS = (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something an op did, in seconds. over: it completed; else its process ended at `end`. outcome:
    `ok`, `fail`, `info`, of polls `read` (a subject's records) or `idle`."""

    op: int
    begin: float
    end: float
    over: bool
    outcome: str
    told: str
    subject: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Bars of one transactional id (`kind` txn), of records to one partition, or of one reader's
    polls. slot: whose it is, -1 = nobody's. left_out: bars that are not shown."""

    label: str
    kind: str
    slot: int
    bars: list[Bar]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One row of the text that tells the same."""

    op: int
    client: str
    begin: float
    end: float | None
    fate: str
    style: str
    records: list[tuple[str, int]]
    subject: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The transactions around one finding. `opened`: those that were still open at the end there;
    `shown`: (level, subjects' records that final reads showed, all of them) where on record."""

    begin: float
    end: float
    lanes: list[Lane]
    rows: list[Transaction]
    left_out: int
    opened: list[OpenTransaction] = field(default_factory=list)
    shown: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timelines:
    """By example; `same`: examples with the subjects of an earlier one of their class."""

    shown: dict[choice.Key, Timeline]
    same: dict[choice.Key, int]


def build(inputs: Inputs) -> Timelines:
    """Timelines for the findings of the verdict. A file that cannot be read becomes a gap."""
    nothing = Timelines(shown={}, same={})
    if inputs.sealed is None or inputs.ops is None:
        return nothing
    try:
        found, same = scenes(inputs, inputs.sealed, inputs.ops)
        if not found:
            return nothing
        ops = {op for scene in found.values() for lane in scene.lanes.values() for op in lane}
        sends = inputs.sealed.rows("sends", any_of("op", ops))
        subjects = {op for scene in found.values() for op in scene.subjects}
        values = {row["value"] for row in sends if row["op"] in subjects}
        reads = inputs.sealed.rows("reads", any_of("value", values))
    except Unreadable as error:
        inputs.gaps.append(f"{error}: the transactions around findings are not shown.")
        return nothing
    view = _View(inputs.sealed, inputs.ops, sends, reads)
    return Timelines(shown={key: view.timeline(scene) for key, scene in found.items()}, same=same)


def fate(ops: Ops, op: int) -> tuple[str, str]:
    """What became of a transaction, in words, and its style."""
    outcome = Outcome(int(ops.outcome[op]))
    if outcome is Outcome.OK:
        return "committed", "ok"
    if outcome is Outcome.INFO:
        return "unknown", "info"
    return f"aborted {'on purpose' if ops.deliberate[op] == 1 else 'after an error'}", "fail"


class _View:
    """The rows of all timelines, by op and by value."""

    def __init__(self, sealed: Sealed, ops: Ops, sends: list[Row], reads: list[Row]) -> None:
        self.sealed, self.ops = sealed, ops
        self.tps = {number: name for name, number in sealed.tps.items()}
        self.sends: dict[int, list[Row]] = defaultdict(list)
        for row in sends:
            self.sends[row["op"]].append(row)
        self.reads: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for row in reads:
            self.reads[row["tp"], row["value"]].append(row)

    def timeline(self, scene: Scene) -> Timeline:
        """The timeline of one finding."""
        shown = [op for lane in scene.lanes.values() for op in lane]
        rows = self._rows(scene, shown)
        return Timeline(
            begin=scene.window[0],
            end=scene.window[1],
            lanes=[
                *(self._transactions(scene, key) for key in scene.lanes),
                *self._partitions(scene, shown),
                *self._readers(scene),
            ],
            rows=rows,
            left_out=len(shown) - len(rows),
            opened=scene.opened,
            shown=self._final(scene),
        )

    def _bar(self, scene: Scene, op: int, told: str, outcome: str) -> Bar:
        return Bar(
            op=op, begin=float(self.ops.invoke[op]), end=until(self.sealed, self.ops, op),
            over=bool(np.isfinite(self.ops.complete[op])), outcome=outcome, told=told,
            subject=op in scene.subjects,
        )  # fmt: skip

    def _transactions(self, scene: Scene, key: tuple[str, int]) -> Lane:
        bars = []
        for op in scene.lanes[key]:
            words, style = fate(self.ops, op)
            where = ", ".join(f"{name} ({many})" for name, many in self._written(op))
            told = (
                f"op {op}, process {self.ops.process[op]}, {words}; records to {where or 'nothing'}"
            )
            bars.append(self._bar(scene, op, told, style))
        twins = sum(identity == key[0] for identity, _ in scene.lanes) > 1
        label = f"{key[0]}, client {key[1]}" if twins else key[0]
        return Lane(label=label, kind="txn", slot=key[1], bars=bars, left_out=scene.left_out[key])

    def _written(self, op: int) -> list[tuple[str, int]]:
        """Partitions of a transaction's records, with how many."""
        counts = Counter(row["tp"] for row in self.sends[op])
        return [(self.tps.get(tp, str(tp)), many) for tp, many in sorted(counts.items())]

    def _partitions(self, scene: Scene, shown: Sequence[int]) -> list[Lane]:
        """A lane for each partition of the subjects' records: when records to it were on their way."""
        own = Counter(row["tp"] for op in scene.subjects for row in self.sends[op])
        of_finding = self.sealed.tps.get(scene.example.partition, -1)
        order = sorted(own, key=lambda tp: (tp != of_finding, -own[tp], tp))[:PARTITIONS_MAX]
        lanes = []
        for tp in sorted(order, key=lambda tp: self.tps.get(tp, "")):
            bars = []
            for op in shown:
                rows = [row for row in self.sends[op] if row["tp"] == tp]
                if rows:
                    bars.append(self._flight(scene, op, rows))
            lanes.append(
                Lane(label=self.tps.get(tp, str(tp)), kind="partition", slot=-1, bars=bars)
            )
        return lanes

    def _flight(self, scene: Scene, op: int, rows: Sequence[Row]) -> Bar:
        """From the first record handed over to the last acknowledgement, or to the op's end."""
        words, style = fate(self.ops, op)
        places = [row["place"] for row in rows if row["place"] >= 0]
        lost = sum(row["ack_ns"] < 0 for row in rows)
        end = self.sealed.seconds(max(row["ack_ns"] for row in rows))
        if lost:
            end = until(self.sealed, self.ops, op)
        told = f"op {op} ({words}): {len(rows)} of its records"
        if places:
            told += f", offset {min(places)}" + (f" to {max(places)}" if len(places) > 1 else "")
        told += f"; {lost} not acknowledged" if lost else ""
        begin = self.sealed.seconds(min(row["invoke_ns"] for row in rows))
        return Bar(
            op=op, begin=begin, end=end, over=not lost, outcome=style, told=told,
            subject=op in scene.subjects,
        )  # fmt: skip

    def _readers(self, scene: Scene) -> list[Lane]:
        """A lane for each process that was given a subject's record before the final reads."""
        given: dict[int, Counter[int]] = defaultdict(Counter)
        for row in self._given(scene):
            if row["phase"] != Phase.FINAL:
                given[row["process"]][row["op"]] += 1
        named = {op.op for op in scene.example.ops}
        order = sorted(given, key=lambda p: (not named & given[p].keys(), -given[p].total(), p))
        lanes = (self._polls(scene, p, given[p], named) for p in sorted(order[:READERS_MAX]))
        return [lane for lane in lanes if lane.bars]

    def _polls(self, scene: Scene, process: int, given: Counter[int], named: set[int]) -> Lane:
        low, high = scene.window
        ops = self.ops
        inside = (ops.process == process) & (ops.n_reads > 0)
        inside &= (ops.invoke <= high) & (ops.complete >= low)
        polls = np.flatnonzero(inside).tolist()
        polls.sort(key=lambda op: (op not in named, op not in given, ops.invoke[op]))
        bars = []
        for op in sorted(polls[:POLLS_MAX]):
            many = f"{ops.n_reads[op]} records, {given[op]} of them of this finding's transactions"
            bar = self._bar(scene, op, f"op {op}: {many}", "read" if given[op] else "idle")
            bars.append(bar)
        row = self.sealed.processes.get(process)
        level = {Isolation.READ_COMMITTED: "RC", Isolation.READ_UNCOMMITTED: "RU"}.get(
            Isolation(row.isolation) if row else Isolation.NONE, "?"
        )
        return Lane(
            label=f"reader {process} {level}", kind="reader", slot=row.slot if row else -1,
            bars=bars, left_out=len(polls) - len(bars),
        )  # fmt: skip

    def _given(self, scene: Scene) -> Iterable[Row]:
        """Reads of the subjects' records."""
        for op in scene.subjects:
            for row in self.sends[op]:
                yield from self.reads[row["tp"], row["value"]]

    def _final(self, scene: Scene) -> list[tuple[str, int, int]]:
        """How many of the subjects' records the final reads showed, by level."""
        sent = {(row["tp"], row["value"]) for op in scene.subjects for row in self.sends[op]}
        found = []
        for level in LEVELS:
            if any((tp, level) in self.sealed.bounds for tp, _ in sent):
                seen = {
                    (row["tp"], row["value"])
                    for row in self._given(scene)
                    if row["phase"] == Phase.FINAL and row["isolation"] == level
                }
                found.append((level.name.lower(), len(seen), len(sent)))
        return found

    def _rows(self, scene: Scene, shown: Sequence[int]) -> list[Transaction]:
        """The subjects, and what is nearest to them, by time."""
        times = np.array([self.ops.invoke[op] for op in scene.subjects])

        def rank(op: int) -> tuple[bool, float]:
            return op not in scene.subjects, float(np.abs(times - self.ops.invoke[op]).min())

        rows = []
        for op in sorted(
            sorted(shown, key=rank)[:ROWS_MAX], key=lambda op: float(self.ops.invoke[op])
        ):
            words, style = fate(self.ops, op)
            end = float(self.ops.complete[op])
            rows.append(Transaction(
                op=op, client=self.sealed.client(int(self.ops.process[op])),
                begin=float(self.ops.invoke[op]), end=end if np.isfinite(end) else None,
                fate=words, style=style, records=self._written(op), subject=op in scene.subjects,
            ))  # fmt: skip
        return rows
