"""Drawings that need no script: strips of bars, lines and columns, one row each.

A strip is drawn in a box of `WIDTH` x `HEIGHT` that the page stretches to its place, so its words stand
beside it, never in it. They stand for the interactive timeline without JavaScript and on paper, and
show the ops of a witness.

Not here: markup (the template), the interactive timeline (`figures`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.report import colours
from harness.report.inputs import Floats
from harness.report.lanes import Lane
from harness.report.timeline import Rates, Timeline
from harness.verdict import Example, Fault

WIDTH, HEIGHT = 1000, 20
LEAST = 3.0
"""Least width of a bar: what happened must be seen, however short it was."""
WITNESS_ROWS_MAX = 16
FAULT_ROWS_MAX = 12
HOLDERS = ("leader", "controller")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a strip. `style`: a class of the style sheet, or "" with a `colour`."""

    x: float
    width: float
    colour: str
    style: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One row: words at its left, a drawing, a note at its right.

    bands: faults behind the drawing. path: SVG path of a line or of columns, in the box's units.
    """

    label: str
    note: str = ""
    bars: list[Bar]
    bands: list[Bar]
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
    begin: float, end: float, window: tuple[float, float], colour: str, style: str, title: str
) -> Bar | None:
    """The part of a span that lies in the window, or None."""
    low, high = window
    if end < low or begin > high:
        return None
    scale = WIDTH / (high - low)
    left = (max(begin, low) - low) * scale
    width = max((min(end, high) - max(begin, low)) * scale, LEAST)
    return Bar(round(min(left, WIDTH - width), 1), round(width, 1), colour, style, title)


def _ticks(window: tuple[float, float]) -> list[tuple[float, str]]:
    low, high = window
    digits = int(np.clip(np.ceil(1 - np.log10(max(high - low, 1e-6))), 0, 6))
    return [
        (share * 100, f"{low + share * (high - low):.{digits}f} s")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]


def timeline(timeline: Timeline) -> Drawing:
    """The timeline as strips: every lane, then records, latency and errors."""
    window = (timeline.begin, max(timeline.end, timeline.begin + 0.1))
    bands = [
        bar
        for lane in timeline.lanes
        if lane.kind == "fault"
        for span in lane.spans
        if (bar := _bar(span.begin, span.end, window, colours.safe(span.colour), "", span.label))
    ]
    strips = [_lane_strip(lane, window) for lane in _named(timeline.lanes)]
    if timeline.rates is not None:
        strips += _rate_strips(timeline.rates, window, bands)
    return Drawing(
        begin=window[0],
        end=window[1],
        strips=strips,
        ticks=_ticks(window),
        key=_key(timeline.lanes),
    )


def _key(lanes: Sequence[Lane]) -> list[tuple[str, str]]:
    """Nodes that led something."""
    held = {span.label for lane in lanes if lane.kind in HOLDERS for span in lane.spans}
    nodes = sorted((label for label in held if label.isdigit()), key=int)
    key = [(colours.node(label), f"node {label}") for label in nodes]
    return [*key, (colours.NOBODY, "nobody known")] if "none" in held else key


def _named(lanes: Sequence[Lane]) -> list[Lane]:
    """One lane for each fault where they are few, so that each has its name beside it."""
    faults = [span for lane in lanes if lane.kind == "fault" for span in lane.spans]
    if len(faults) > FAULT_ROWS_MAX:
        return list(lanes)
    faults.sort(key=lambda span: span.begin)
    rows = [Lane(label=f"fault {span.short}", kind="fault", spans=[span]) for span in faults]
    first = [lane for lane in lanes if lane.kind == "phase"]
    return [*first, *rows, *(lane for lane in lanes if lane.kind not in ("phase", "fault"))]


def _lane_strip(lane: Lane, window: tuple[float, float]) -> Strip:
    bars = []
    for number, span in enumerate(lane.spans):
        colour, style = "", ""
        if lane.kind == "phase":
            style = f"phase-{number % 2 + 1}"
        else:
            colour = colours.safe(span.colour) if lane.kind == "fault" else colours.node(span.label)
        who = f"node {span.label}" if lane.kind in HOLDERS else span.label
        bars.append(
            _bar(span.begin, span.end, window, colour, style,
                 f"{who}, {span.begin:.2f} s to {span.end:.2f} s")
        )  # fmt: skip
    note = lane.spans[0].label if lane.kind == "fault" and len(lane.spans) == 1 else ""
    return Strip(label=lane.label, note=note, bars=[bar for bar in bars if bar], bands=[])


def _rate_strips(rates: Rates, window: tuple[float, float], bands: list[Bar]) -> list[Strip]:
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
    bands = [
        _bar(fault.begin_s, window[1] if fault.end_s is None else fault.end_s, window,
             colours.safe(fault.colour), "", fault.name)
        for fault in faults
    ]  # fmt: skip
    behind = [band for band in bands if band]
    strips = []
    for op in ops:
        stop = window[1] if op.end_s is None else op.end_s
        took = "never completed" if op.end_s is None else f"{(stop - op.begin_s) * 1e3:.1f} ms"
        style = f"op-{op.outcome}" if op.outcome in ("ok", "fail", "info") else "op-info"
        bar = _bar(op.begin_s, stop, window, "", style, f"{op.f} {op.outcome}, {took}")
        note = f"{op.f} {op.outcome}, process {op.process}"
        bars = [bar] if bar else []
        strips.append(Strip(label=f"op {op.op}", note=note, bars=bars, bands=behind))
    return Drawing(begin=window[0], end=window[1], strips=strips, ticks=_ticks(window), key=[])
