"""Drawings that need no script: strips of bars, lines and columns, one row each.

A strip is drawn in a box of `WIDTH` x `HEIGHT` that the page stretches to its place, so its words stand
beside it, never in it. Strips replace the interactive figures without JavaScript and on paper, and show
the ops of a witness and the transactions around a finding. Both draw the same `Timeline`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.report import colours, wording
from harness.report.evidence.transactions import TransactionLane, TransactionTimeline
from harness.report.inputs import Floats
from harness.report.timeline.lanes import Span, TimelineLane, clients_only, coalesced
from harness.report.timeline.numbers import Rates, Timeline
from harness.report.timeline.partitions import ClusterTimeline, PartitionTimeline
from history.verdict import Example, Fault

WIDTH, HEIGHT = 1000, 20
LEAST = 3.0
"""Least width of a bar: what happened must be seen, however short it was."""
WITNESS_ROWS_MAX = 16
FAULT_ROWS_MAX = 12
LOW = (0.62, 0.38)
"""Upper edge and height of a bar that leaves room above it, as shares of the strip."""
NOTES_MAX = 4


@dataclass(frozen=True, slots=True)
class Box:
    """One bar of a strip. `style`: classes of the style sheet, or "" with a `colour`."""

    x: float
    width: float
    colour: str
    style: str
    title: str
    y: float = 0
    height: float = HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One row: words at its left, a drawing, a note at its right.

    bands: faults behind the drawing. path: SVG path of a line or of columns, in the box's units.
    """

    label: str
    note: str = ""
    bars: list[Box]
    bands: list[Box]
    path: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Strips on one time axis from `begin` to `end`, in seconds; `ticks` as (per cent, text);
    `key`: what colours mean, as (colour, text)."""

    begin: float
    end: float
    strips: list[Strip]
    ticks: list[tuple[float, str]]
    key: list[tuple[str, str]]


def _bar(
    begin: float,
    end: float,
    window: tuple[float, float],
    colour: str,
    style: str,
    title: str,
    part: tuple[float, float] = (0, 1),
) -> Box | None:
    """The part of a span that lies in the window, or None."""
    low, high = window
    if end < low or begin > high:
        return None
    scale = WIDTH / (high - low)
    left = (max(begin, low) - low) * scale
    width = max((min(end, high) - max(begin, low)) * scale, LEAST)
    return Box(
        round(min(left, WIDTH - width), 1),
        round(width, 1),
        colour,
        style,
        title,
        round(part[0] * HEIGHT, 1),
        round(part[1] * HEIGHT, 1),
    )


def _ticks(window: tuple[float, float]) -> list[tuple[float, str]]:
    low, high = window
    digits = int(np.clip(np.ceil(1 - np.log10(max(high - low, 1e-6))), 0, 6))
    return [(share * 100, f"{low + share * (high - low):.{digits}f} s") for share in (0, 0.25, 0.5, 0.75, 1)]


def timeline(timeline: Timeline) -> Drawing:
    """The timeline as strips: every lane, then records, latency and errors."""
    window = _window(timeline)
    strips = [_lane_strip(lane, window) for lane in _named(timeline.lanes)]
    if timeline.rates is not None:
        strips += _rate_strips(timeline.rates, window, _bands(timeline, window))
    return Drawing(
        begin=window[0], end=window[1], strips=strips, ticks=_ticks(window), key=_lane_key(timeline.lanes)
    )


def _window(timeline: Timeline) -> tuple[float, float]:
    return timeline.begin, max(timeline.end, timeline.begin + 0.1)


def _bands(timeline: Timeline, window: tuple[float, float]) -> list[Box]:
    """The faults of the whole cluster, behind a drawing."""
    bars = (
        _bar(span.begin, span.end, window, colours.safe(span.colour), "", span.label)
        for lane in timeline.lanes
        if lane.kind == "fault"
        for span in lane.spans
    )
    return [bar for bar in bars if bar]


def _lane_key(lanes: Sequence[TimelineLane]) -> list[tuple[str, str]]:
    """What the marks at the end of clients' processes mean, as far as there are any."""
    ended = {span.colour for lane in lanes if lane.kind == "client" for span in lane.spans}
    wording = {"replaced": "process replaced by a new one", "crashed": "process died or was cut short"}
    return [(colours.ENDED[name], wording[name]) for name in wording if name in ended]


def _named(lanes: Sequence[TimelineLane]) -> list[TimelineLane]:
    """One lane for each fault where they are few, so that each has its name beside it."""
    faults = [span for lane in lanes if lane.kind == "fault" for span in lane.spans]
    if len(faults) > FAULT_ROWS_MAX:
        return list(lanes)
    faults.sort(key=lambda span: span.begin)
    rows = [TimelineLane(label=f"fault {span.short}", kind="fault", spans=[span]) for span in faults]
    first = [lane for lane in lanes if lane.kind == "phase"]
    return [*first, *rows, *(lane for lane in lanes if lane.kind not in ("phase", "fault"))]


def _lane_strip(lane: TimelineLane, window: tuple[float, float]) -> Strip:
    bars: list[Box | None] = []
    for number, span in enumerate(lane.spans):
        style = {"phase": f"phase-{number % 2 + 1}", "client": "phase-2"}.get(lane.kind, lane.kind)
        colour, style = (colours.safe(span.colour), "") if style == "fault" else ("", style)
        named = f"process {span.label}, {span.text}" if lane.kind == "client" else span.label
        bars.append(
            _bar(
                span.begin,
                span.end,
                window,
                colour,
                style,
                f"{named}, {span.begin:.2f} s to {span.end:.2f} s",
                LOW if lane.kind == "client" else (0, 1),
            )
        )
        if lane.kind == "client" and span.colour in colours.ENDED:
            bars.append(_bar(span.end, span.end, window, "", span.colour, span.text))
    behind = [
        _bar(span.begin, span.end, window, colours.safe(span.colour), "", span.label) for span in lane.behind
    ]
    return Strip(
        label=lane.label,
        note=_lane_note(lane),
        bars=[bar for bar in bars if bar],
        bands=[bar for bar in behind if bar],
    )


def _lane_note(lane: TimelineLane) -> str:
    if lane.kind == "client":
        names = dict.fromkeys(span.label for span in lane.behind)
        return ", ".join(names) or wording.count(len(lane.spans), "process", "processes")
    if lane.kind == "stall":
        return f"longest {max(span.end - span.begin for span in lane.spans):.1f} s"
    return lane.spans[0].label if lane.kind == "fault" and len(lane.spans) == 1 else ""


def cluster(timeline: Timeline) -> Drawing | None:
    """The cluster over time: controller, leaders above in-sync replicas, high watermarks."""
    of, window = timeline.cluster, _window(timeline)
    if not of.shown and not of.drawn:
        return None
    behind = _bands(timeline, window)
    strips = [_held(of.controller.label, of.controller.spans, [], window)] if of.controller else []
    strips += [_partition_strip(partition, of, window) for partition in of.shown]
    strips += [_ends_strip(partition, window, behind) for partition in of.drawn]
    return Drawing(begin=window[0], end=window[1], strips=strips, ticks=_ticks(window), key=cluster_key(of))


def cluster_key(of: ClusterTimeline) -> list[tuple[str, str]]:
    """What the colours of the cluster's rows mean."""
    spans = [span for partition in of.shown for span in partition.leaders]
    held = {span.label for span in (*spans, *(of.controller.spans if of.controller else ()))}
    nodes = sorted((label for label in held if label.isdigit()), key=int)
    key = [(colours.node(label), f"node {label}") for label in nodes]
    if "none" in held:
        key.append((colours.NO_NODE, "no leader known"))
    seen = {of.isr_colour(p, span) for p in of.shown for span in p.isr}
    return key + [
        (colour, text)
        for colour, text in (
            (colours.ISR_FULL, "all replicas in sync"),
            (colours.ISR_SHRUNK, "fewer in sync"),
            (colours.ISR_UNDER, f"fewer than min.insync.replicas ({of.min_isr})"),
        )
        if colour in seen
    ]


def _held(
    label: str,
    spans: Sequence[Span],
    more: list[Box | None],
    window: tuple[float, float],
    note: str = "",
    part: tuple[float, float] = (0, 1),
) -> Strip:
    bars = [
        _bar(
            span.begin,
            span.end,
            window,
            colours.node(span.label),
            "",
            f"{_holder(span.label)}, {span.begin:.2f} s to {span.end:.2f} s",
            part,
        )
        for span in coalesced(list(spans))
    ]
    return Strip(label=label, note=note, bars=[bar for bar in (*bars, *more) if bar], bands=[])


def _holder(label: str) -> str:
    return f"node {label}" if label.isdigit() else {"none": "no leader known"}.get(label, label)


def _partition_strip(partition: PartitionTimeline, of: ClusterTimeline, window: tuple[float, float]) -> Strip:
    isr = [
        _bar(
            span.begin,
            span.end,
            window,
            "",
            _style(of.isr_colour(partition, span)),
            f"in sync: {span.label or 'none'}, {span.begin:.2f} s to {span.end:.2f} s",
            LOW,
        )
        for span in coalesced(partition.isr)
    ]
    note = f"in sync {partition.least_isr} to {partition.replicas}" if partition.isr else ""
    if partition.isr and partition.least_isr == partition.replicas:
        note = f"in sync {partition.replicas}"
    return _held(partition.name, partition.leaders, isr, window, note, (0, LOW[0]))


def _style(colour: str) -> str:
    """The class of the style sheet with the name of a colour token."""
    return colour.removeprefix("var(--").removesuffix(")")


def _ends_strip(partition: PartitionTimeline, window: tuple[float, float], behind: list[Box]) -> Strip:
    """The high watermark as a line on a scale of its own."""
    low, high = window
    top = max(max(each.hw for each in partition.ends), 1)
    points = [
        f"{(each.at - low) * WIDTH / (high - low):.1f} {HEIGHT - 1 - each.hw / top * (HEIGHT - 2):.1f}"
        for each in partition.ends
        if low <= each.at <= high
    ]
    return Strip(
        label=f"{partition.name} HW",
        note=f"max {wording.number(top)}",
        bars=[],
        bands=behind,
        path="M" + "L".join(points) if points else "",
        style="plot-line",
    )


def _rate_strips(rates: Rates, window: tuple[float, float], bands: list[Box]) -> list[Strip]:
    errors = np.zeros(len(rates.aborts), dtype=np.int64)
    for counts in (*rates.fail.values(), *rates.info.values()):
        errors = errors + counts
    worst = np.full(len(rates.aborts), np.nan)
    for latency in rates.latency.values():
        worst = np.fmax(worst, latency.p99)
    rows: list[tuple[str, str, Floats, str]] = [
        ("written", "records/s", rates.written / rates.width, "line"),
        ("read", "records/s", rates.read / rates.width, "line"),
        ("p99 latency", "ms", worst, "line"),
        ("failed, unknown", f"ops per {rates.width:g} s", errors.astype(np.float64), "columns"),
    ]
    return [
        Strip(
            label=label,
            note=f"max {_most(values):,.0f} {unit}".replace(",", "\u202f"),
            bars=[],
            bands=bands,
            path=(_line if style == "line" else _columns)(rates.edges, values, window),
            style=f"plot-{style}",
        )
        for label, unit, values, style in rows
    ]


def _most(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0


def _scaled(edges: Floats, values: Floats, window: tuple[float, float]) -> tuple[Floats, Floats]:
    """Left edges and heights of the bins in the units of the box."""
    left = (edges - window[0]) * WIDTH / (window[1] - window[0])
    top = HEIGHT - 1 - values / max(_most(values), 1e-9) * (HEIGHT - 2)
    return np.clip(left, 0, WIDTH), top


def _line(edges: Floats, values: Floats, window: tuple[float, float]) -> str:
    """A line through the middles of the bins, broken where there is no value."""
    left, top = _scaled(edges, values, window)
    middle = (left[:-1] + left[1:]) / 2
    parts, pen = [], "M"
    for x, y in zip(middle, top, strict=True):
        if np.isnan(y):
            pen = "M"
            continue
        parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def _columns(edges: Floats, values: Floats, window: tuple[float, float]) -> str:
    left, top = _scaled(edges, values, window)
    return "".join(
        f"M{a:.1f} {HEIGHT}V{y:.1f}H{max(b, a + 1):.1f}V{HEIGHT}Z"
        for a, b, y, value in zip(left[:-1], left[1:], top, values, strict=True)
        if value > 0
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
    window = (min(times) - pad, max(times) + pad)
    strips = []
    for op in ops:
        stop = window[1] if op.end_s is None else op.end_s
        took = "never completed" if op.end_s is None else f"{(stop - op.begin_s) * 1e3:.1f} ms"
        style = f"op-{op.outcome}" if op.outcome in ("ok", "fail", "info") else "op-info"
        bar = _bar(op.begin_s, stop, window, "", style, f"{op.f} {op.outcome}, {took}")
        note = f"{op.f} {op.outcome}, process {op.process}"
        bars = [bar] if bar else []
        strips.append(
            Strip(label=f"op {op.op}", note=note, bars=bars, bands=_in_force(faults, op.slot, window))
        )
    return Drawing(begin=window[0], end=window[1], strips=strips, ticks=_ticks(window), key=[])


def _in_force(faults: Sequence[Fault], slot: int, window: tuple[float, float]) -> list[Box]:
    """The faults behind a lane: those of the cluster, and those of its client (-1 = the lane has none)."""
    bands = (
        _bar(
            fault.begin_s,
            window[1] if fault.end_s is None else fault.end_s,
            window,
            colours.safe(fault.colour),
            "",
            fault.name,
        )
        for fault in faults
        if not clients_only(fault) or slot in fault.slots
    )
    return [band for band in bands if band]


def transactions(timeline: TransactionTimeline, faults: Sequence[Fault]) -> Drawing:
    """Transactions, records and polls around a finding, faults behind: those of clients only behind
    the clients that they hit."""
    window = (timeline.begin, timeline.end)
    strips = []
    for lane in timeline.lanes:
        bars = []
        for each in lane.bars:
            lasted = f"{(each.end - each.begin) * 1e3:.1f} ms" if each.completed else "never completed"
            style = f"txn-{each.style}" + (" subject" if each.subject else "")
            bars.append(_bar(each.begin, each.end, window, "", style, f"{each.text}; {lasted}"))
        strips.append(
            Strip(
                label=lane.label,
                note=_subjects(lane),
                bars=[bar for bar in bars if bar],
                bands=_in_force(faults, lane.slot, window),
            )
        )
    return Drawing(begin=window[0], end=window[1], strips=strips, ticks=_ticks(window), key=[])


def _subjects(lane: TransactionLane) -> str:
    """Beside a lane: which of its bars are the finding's own."""
    ops = [str(bar.op) for bar in lane.bars if bar.subject]
    more = f" +{len(ops) - NOTES_MAX}" if len(ops) > NOTES_MAX else ""
    if lane.kind == "reader":
        given = sum(bar.style == "read" for bar in lane.bars)
        return f"{wording.count(given, 'poll')} with its records" if given else ""
    return f"op {', '.join(ops[:NOTES_MAX])}{more}" if ops else ""
