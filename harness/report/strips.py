"""Drawings that need no script: strips of bars, lines and columns, one row each.

A strip is drawn in a box of `WIDTH` x `HEIGHT` that the page stretches to its place, so its words stand
beside it, never in it. Strips replace the interactive figures without JavaScript and on paper, and show
the ops of a witness and the transactions around a finding. Both draw the same `Timeline`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from harness.report import colours, wording
from harness.report.evidence.transactions import TransactionLane, TransactionTimeline
from harness.report.inputs import Floats
from harness.report.timeline.lanes import Span, TimelineLane, clients_only, coalesced, fault_span
from harness.report.timeline.numbers import Rates, Timeline
from harness.report.timeline.partitions import ClusterTimeline, PartitionTimeline
from history.verdict import Example, Fault

Time = TypeVar("Time", float, Floats)
WIDTH, HEIGHT = 1000, 20
LEAST = 3.0
"""Least width of a bar: what happened must be seen, however short it was."""
WITNESS_ROWS_MAX = 16
FAULT_ROWS_MAX = 12
WHOLE, ABOVE, LOW = (0, 1), (0, 0.62), (0.62, 0.38)
"""Upper edge and height of a bar, as shares of the strip: all of it; most of it; what that leaves."""
NOTES_MAX = 4


@dataclass(frozen=True, slots=True)
class Box:
    """One bar of a strip. `style`: classes of the style sheet, or "" with a `colour`."""

    x: float
    width: float
    y: float
    height: float
    title: str
    colour: str
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One row: words at its left, a drawing, a note at its right.

    bands: faults behind the drawing. path: SVG path of a line or of columns, in the box's units.
    """

    label: str
    note: str = ""
    bars: list[Box] = field(default_factory=list)
    bands: list[Box] = field(default_factory=list)
    path: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time from `begin` to `end`, in seconds, across a strip."""

    begin: float
    end: float

    def x(self, at: Time) -> Time:
        """Where a time stands, or each of many."""
        return (at - self.begin) * (WIDTH / (self.end - self.begin))

    def bar(
        self,
        begin: float,
        end: float,
        title: str,
        colour: str = "",
        style: str = "",
        part: tuple[float, float] = WHOLE,
    ) -> list[Box]:
        """One bar for what lies on the axis of a time, or none."""
        if end < self.begin or begin > self.end:
            return []
        left = self.x(max(begin, self.begin))
        width = min(max(self.x(min(end, self.end)) - left, LEAST), WIDTH)
        x, y, height = min(left, WIDTH - width), part[0] * HEIGHT, part[1] * HEIGHT
        return [Box(round(x, 1), round(width, 1), round(y, 1), round(height, 1), title, colour, style)]

    def span(
        self, span: Span, title: str, colour: str = "", style: str = "", part: tuple[float, float] = WHOLE
    ) -> list[Box]:
        """A bar that says from when to when."""
        title = f"{title}, {span.begin:.2f} s to {span.end:.2f} s"
        return self.bar(span.begin, span.end, title, colour, style, part)

    def bands(self, spans: Iterable[Span]) -> list[Box]:
        """Faults behind a drawing, in their colours."""
        return [box for span in spans for box in self.bar(span.begin, span.end, span.label, span.colour)]

    def in_force(self, faults: Sequence[Fault], slot: int) -> list[Box]:
        """The faults behind a lane: those of the cluster, and those of its client (-1 = it has none)."""
        return self.bands(
            fault_span(fault, self.end) for fault in faults if not clients_only(fault) or slot in fault.slots
        )


@dataclass(frozen=True, slots=True)
class Drawing:
    """Strips on one time axis; `key`: what colours mean, as (colour, text)."""

    axis: TimeAxis
    strips: list[Strip]
    key: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Times as (per cent, text)."""
        length = self.axis.end - self.axis.begin
        digits = int(np.clip(np.ceil(1 - np.log10(max(length, 1e-6))), 0, 6))
        shares = (0, 0.25, 0.5, 0.75, 1)
        return [(share * 100, f"{self.axis.begin + share * length:.{digits}f} s") for share in shares]


def _axis(timeline: Timeline) -> TimeAxis:
    return TimeAxis(timeline.begin, max(timeline.end, timeline.begin + 0.1))


def _faults(timeline: Timeline) -> list[Span]:
    """The faults of the whole cluster."""
    return [span for lane in timeline.lanes if lane.kind == "fault" for span in lane.spans]


def timeline(timeline: Timeline) -> Drawing:
    """The timeline as strips: every lane, then records, latency and errors."""
    axis = _axis(timeline)
    strips = [_lane_strip(lane, axis) for lane in _named(timeline)]
    if timeline.rates is not None:
        strips += _rate_strips(timeline.rates, axis, axis.bands(_faults(timeline)))
    ended = {span.colour for lane in timeline.lanes if lane.kind == "client" for span in lane.spans}
    said = {"replaced": "process replaced by a new one", "crashed": "process died or was cut short"}
    return Drawing(axis, strips, [(colours.ENDED[name], said[name]) for name in said if name in ended])


def _named(timeline: Timeline) -> list[TimelineLane]:
    """One lane for each fault where they are few, so that each has its name beside it."""
    lanes, faults = timeline.lanes, sorted(_faults(timeline), key=lambda span: span.begin)
    if len(faults) > FAULT_ROWS_MAX:
        return lanes
    rows = [TimelineLane(label=f"fault {span.short}", kind="fault", spans=[span]) for span in faults]
    first = [lane for lane in lanes if lane.kind == "phase"]
    return [*first, *rows, *(lane for lane in lanes if lane.kind not in ("phase", "fault"))]


def _lane_strip(lane: TimelineLane, axis: TimeAxis) -> Strip:
    client = lane.kind == "client"
    bars: list[Box] = []
    for number, span in enumerate(lane.spans):
        style = {"phase": f"phase-{number % 2 + 1}", "client": "phase-2", "fault": ""}.get(
            lane.kind, lane.kind
        )
        title = f"process {span.label}, {span.text}" if client else span.label
        bars += axis.span(span, title, span.colour, style, LOW if client else WHOLE)
        if client and span.colour in colours.ENDED:
            bars += axis.bar(span.end, span.end, span.text, style=span.colour)
    return Strip(label=lane.label, note=_lane_note(lane), bars=bars, bands=axis.bands(lane.behind))


def _lane_note(lane: TimelineLane) -> str:
    if lane.kind == "client":
        names = dict.fromkeys(span.label for span in lane.behind)
        return ", ".join(names) or wording.count(len(lane.spans), "process", "processes")
    if lane.kind == "stall":
        return f"longest {max(span.end - span.begin for span in lane.spans):.1f} s"
    return lane.spans[0].label if lane.kind == "fault" and len(lane.spans) == 1 else ""


def cluster(timeline: Timeline) -> Drawing | None:
    """The cluster over time: controller, leaders above in-sync replicas, high watermarks."""
    of, axis, behind = timeline.cluster, _axis(timeline), _faults(timeline)
    if not of.shown and not of.drawn:
        return None
    strips = [Strip(label="controller", bars=_held(of.controller, axis, WHOLE))] if of.controller else []
    strips += [_partition_strip(partition, of, axis) for partition in of.shown]
    strips += [_ends_strip(partition, axis, axis.bands(behind)) for partition in of.drawn]
    return Drawing(axis, strips, cluster_key(of))


def cluster_key(of: ClusterTimeline) -> list[tuple[str, str]]:
    """What the colours of the cluster's rows mean."""
    spans = [span for partition in of.shown for span in partition.leaders]
    held = {span.label for span in (*spans, *of.controller)}
    nodes = sorted((label for label in held if label.isdigit()), key=int)
    key = [(colours.node(label), _holder(label)) for label in nodes]
    if "none" in held:
        key.append((colours.NO_NODE, _holder("none")))
    meanings = {
        colours.ISR_FULL: "all replicas in sync",
        colours.ISR_SHRUNK: "fewer in sync",
        colours.ISR_UNDER: f"fewer than min.insync.replicas ({of.min_isr})",
    }
    seen = {of.isr_colour(partition, span) for partition in of.shown for span in partition.isr}
    return key + [(colour, text) for colour, text in meanings.items() if colour in seen]


def _held(spans: list[Span], axis: TimeAxis, part: tuple[float, float]) -> list[Box]:
    """Nodes that held a role."""
    return [
        box
        for span in coalesced(spans)
        for box in axis.span(span, _holder(span.label), colours.node(span.label), part=part)
    ]


def _holder(label: str) -> str:
    return f"node {label}" if label.isdigit() else {"none": "no leader known"}.get(label, label)


def _partition_strip(partition: PartitionTimeline, of: ClusterTimeline, axis: TimeAxis) -> Strip:
    bars = _held(partition.leaders, axis, ABOVE)
    for span in coalesced(partition.isr):
        style = of.isr_colour(partition, span).removeprefix("var(--").removesuffix(")")
        bars += axis.span(span, f"in sync: {span.label or 'none'}", style=style, part=LOW)
    sizes = dict.fromkeys((partition.least_isr, partition.replicas))
    note = f"in sync {' to '.join(map(str, sizes))}" if partition.isr else ""
    return Strip(label=partition.name, note=note, bars=bars)


def _ends_strip(partition: PartitionTimeline, axis: TimeAxis, behind: list[Box]) -> Strip:
    """The high watermark as a line on a scale of its own."""
    top = max(max(each.hw for each in partition.ends), 1)
    points = [
        f"{axis.x(each.at):.1f} {HEIGHT - 1 - each.hw / top * (HEIGHT - 2):.1f}"
        for each in partition.ends
        if axis.begin <= each.at <= axis.end
    ]
    return Strip(
        label=f"{partition.name} HW",
        note=f"max {wording.number(top)}",
        bands=behind,
        path="M" + "L".join(points) if points else "",
        style="plot-line",
    )


def _rate_strips(rates: Rates, axis: TimeAxis, bands: list[Box]) -> list[Strip]:
    errors = sum((*rates.fail.values(), *rates.info.values()), np.zeros(len(rates.aborts)))
    worst = np.full(len(rates.aborts), np.nan)
    for latency in rates.latency.values():
        worst = np.fmax(worst, latency.p99)
    strips = []
    for label, unit, values, style in (
        ("written", "records/s", rates.written / rates.width, "line"),
        ("read", "records/s", rates.read / rates.width, "line"),
        ("p99 latency", "ms", worst, "line"),
        ("failed, unknown", f"ops per {rates.width:g} s", errors, "columns"),
    ):
        most = float(np.fmax.reduce(values, initial=0.0))
        left = np.clip(axis.x(rates.edges), 0, WIDTH)
        top = HEIGHT - 1 - values / max(most, 1e-9) * (HEIGHT - 2)
        strips.append(
            Strip(
                label=label,
                note=f"max {wording.number(most)} {unit}",
                bands=bands,
                path=_line(left, top) if style == "line" else _columns(left, top),
                style=f"plot-{style}",
            )
        )
    return strips


def _line(left: Floats, top: Floats) -> str:
    """A line through the middles of the bins, broken where there is no value."""
    parts, pen = [], "M"
    for x, y in zip((left[:-1] + left[1:]) / 2, top, strict=True):
        if not np.isnan(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "M" if np.isnan(y) else "L"
    return "".join(parts)


def _columns(left: Floats, top: Floats) -> str:
    return "".join(
        f"M{a:.1f} {HEIGHT}V{y:.1f}H{max(b, a + 1):.1f}V{HEIGHT}Z"
        for a, b, y in zip(left[:-1], left[1:], top, strict=True)
        if y < HEIGHT - 1
    )


def witness(example: Example, faults: Sequence[Fault]) -> Drawing | None:
    """The ops of a witness as bars, one row each, the faults in force behind them."""
    ops = example.ops[:WITNESS_ROWS_MAX]
    if not ops:
        return None
    times = [op.begin_s for op in ops] + [op.end_s for op in ops if op.end_s is not None]
    if example.at_s is not None:
        times.append(example.at_s)
    pad = max((max(times) - min(times)) * 0.04, 0.001)
    axis = TimeAxis(min(times) - pad, max(times) + pad)
    strips = []
    for op in ops:
        stop = axis.end if op.end_s is None else op.end_s
        took = "never completed" if op.end_s is None else f"{(stop - op.begin_s) * 1e3:.1f} ms"
        style = f"op-{op.outcome}" if op.outcome in ("ok", "fail", "info") else "op-info"
        strips.append(
            Strip(
                label=f"op {op.op}",
                note=f"{op.f} {op.outcome}, process {op.process}",
                bars=axis.bar(op.begin_s, stop, f"{op.f} {op.outcome}, {took}", style=style),
                bands=axis.in_force(faults, op.slot),
            )
        )
    return Drawing(axis, strips)


def transactions(timeline: TransactionTimeline, faults: Sequence[Fault]) -> Drawing:
    """Transactions, records and polls around a finding, faults behind: those of clients only behind
    the clients that they hit."""
    axis = TimeAxis(timeline.begin, timeline.end)
    strips = []
    for lane in timeline.lanes:
        bars: list[Box] = []
        for each in lane.bars:
            lasted = f"{(each.end - each.begin) * 1e3:.1f} ms" if each.completed else "never completed"
            style = f"txn-{each.style}" + (" subject" if each.subject else "")
            bars += axis.bar(each.begin, each.end, f"{each.text}; {lasted}", style=style)
        bands = axis.in_force(faults, lane.slot)
        strips.append(Strip(label=lane.label, note=_subjects(lane), bars=bars, bands=bands))
    return Drawing(axis, strips)


def _subjects(lane: TransactionLane) -> str:
    """Beside a lane: which of its bars are the finding's own."""
    ops = [str(bar.op) for bar in lane.bars if bar.subject]
    more = f" +{len(ops) - NOTES_MAX}" if len(ops) > NOTES_MAX else ""
    if lane.kind == "reader":
        given = sum(bar.style == "read" for bar in lane.bars)
        return f"{wording.count(given, 'poll')} with its records" if given else ""
    return f"op {', '.join(ops[:NOTES_MAX])}{more}" if ops else ""
