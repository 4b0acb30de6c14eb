"""Panels of lines: records, ops, latency and errors by bin; the ends of the partitions' logs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.report import colours, wording
from harness.report.drawing import scales
from harness.report.drawing.scales import Scale
from harness.report.drawing.strips import HEIGHT, Line, Series, Strip, TimeAxis
from harness.report.inputs import Floats, Ints
from harness.report.timeline.numbers import Rates, Timeline
from harness.report.timeline.partitions import ClusterTimeline, Ends

FALL = (0, 0.16)
"""Place of the mark of a high watermark that fell."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines of one name: (values, classes of the style sheet)."""

    name: str
    colour: str
    lines: list[tuple[Floats, str]]


def panel(label: str, unit: str, curves: list[Curve], x: Floats, scale: Scale, axis: TimeAxis) -> Strip:
    """Lines over the same times. x: seconds after the begin of the axis."""
    series = []
    for curve in curves:
        lines = [
            Line(scales.line(x, scale.y(values), axis.digits), style, scales.texts(values))
            for values, style in curve.lines
        ]
        series.append(Series(curve.name, curve.colour, lines, f"max {scales.text(_peak([curve]))}"))
    return Strip(label=label, unit=unit, series=series, at=scales.texts(x), scale=scale.ticks)


def rates(timeline: Timeline, rates: Rates, axis: TimeAxis) -> list[Strip]:
    """Records, ops, latency and errors of a run."""
    x = rates.edges[:-1] + rates.width / 2 - axis.begin
    load = _curves({"written": rates.written, "read": rates.read}, rates.width)
    ops = _curves(rates.ok, rates.width)
    if rates.aborts.any():
        ops.append(Curve("intended aborts", colours.MUTED, [(rates.aborts / rates.width, "dash")]))
    latencies = [
        Curve(kind, colour, [(latency.median, ""), (latency.p99, "dots")])
        for (kind, latency), colour in zip(rates.latency.items(), colours.SERIES, strict=False)
        if not np.isnan(latency.median).all()
    ]
    peak = _load_peak(timeline, rates)
    strips = [
        panel("Records", "per second", load, x, scales.linear(peak, HEIGHT), axis),
        panel("Successful ops", "per second", ops, x, scales.linear(_peak(ops), HEIGHT), axis),
    ]
    if latencies:
        known = np.concatenate([values for curve in latencies for values, _ in curve.lines])
        scale = scales.logarithmic(max(np.nanmin(known), 0.01), max(np.nanmax(known), 0.02), HEIGHT)
        strips.append(panel("Latency", "ms: median · p99 (dotted)", latencies, x, scale, axis))
    return [*strips, _errors(rates, axis)]


def _curves(counts: dict[str, Ints], width: float) -> list[Curve]:
    """Counts by bin as rates, in the colours of lines."""
    return [
        Curve(name, colour, [(many / width, "")])
        for (name, many), colour in zip(counts.items(), colours.SERIES, strict=False)
    ]


def _peak(curves: Iterable[Curve]) -> float:
    """Highest of all values, 0 without any."""
    return max(
        (float(np.fmax.reduce(values, initial=0)) for c in curves for values, _ in c.lines), default=0.0
    )


def _load_peak(timeline: Timeline, rates: Rates) -> float:
    """Highest rate of records before the final reads, which would dwarf all that was load."""
    spans = (span for lane in timeline.lanes if lane.kind == "phase" for span in lane.spans)
    final = min((span.begin for span in spans if span.label == "final"), default=float("inf"))
    load = rates.edges[1:] <= final
    peak = max(int(counts[load].max(initial=0)) for counts in (rates.written, rates.read))
    return 1.05 * peak / rates.width


def _errors(rates: Rates, axis: TimeAxis) -> Strip:
    """Failed and unknown ops by error, as columns on top of each other."""
    x, n = rates.edges - axis.begin, len(rates.aborts)
    named = [
        (f"unknown: {e}", many, c) for (e, many), c in zip(rates.info.items(), colours.INFO, strict=False)
    ]
    named += [
        (f"failed: {e}", many, c) for (e, many), c in zip(rates.fail.items(), colours.FAIL, strict=False)
    ]
    total = np.sum([many for _, many, _ in named], axis=0) if named else np.zeros(n)
    scale = scales.linear(float(total.max(initial=0)), HEIGHT)
    series, below = [], np.zeros(n)
    for name, many, colour in named:
        path = scales.columns(x[:-1], x[1:], scale.y(below), scale.y(below + many), axis.digits)
        values = scales.texts(many.astype(np.float64))
        series.append(Series(name, colour, [Line(path, "columns", values)], wording.number(many.sum())))
        below = below + many
    unit = f"per {rates.width:g} s" if named else "none"
    middles = x[:-1] + rates.width / 2
    return Strip(
        label="Failed, unknown ops", unit=unit, series=series, at=scales.texts(middles), scale=scale.ticks
    )


def ends(cluster: ClusterTimeline, axis: TimeAxis) -> list[Strip]:
    """High watermarks with last stable offsets, and the offsets between the two."""
    drawn = list(zip(cluster.drawn, colours.SERIES, strict=False))
    if not drawn:
        return []
    times = sorted({each.at for partition, _ in drawn for each in partition.ends})
    high, between, falls = [], [], []
    for partition, colour in drawn:
        hw, lso = _by_time(times, partition.ends)
        high.append(Curve(partition.name, colour, [(hw, ""), (lso, "dots")]))
        between.append(Curve(partition.name, colour, [(hw - lso, "")]))
        for before, after in partition.falls:
            said = f"from {wording.number(before.hw)} to {wording.number(after.hw)}"
            falls += axis.bar(
                after.at, after.at, f"{partition.name}: the high watermark fell", said, FALL, style="fall"
            )
    x = np.asarray(times) - axis.begin
    upper = panel("High watermark", "offset · last stable (dotted)", high, x, _scale(high), axis)
    upper.bars.extend(falls)
    return [upper, panel("Above last stable", "offsets", between, x, _scale(between), axis)]


def _scale(curves: list[Curve]) -> Scale:
    return scales.linear(max(_peak(curves), 4.0), HEIGHT)


def _by_time(times: list[float], ends: list[Ends]) -> tuple[Floats, Floats]:
    """High watermark and last stable offset at each time, NaN where neither was listed."""
    at = {each.at: each for each in ends}
    found = [at.get(time) for time in times]
    hw = np.asarray([np.nan if one is None else one.hw for one in found], dtype=np.float64)
    lso = np.asarray([np.nan if one is None or one.lso < 0 else one.lso for one in found], dtype=np.float64)
    return hw, lso
