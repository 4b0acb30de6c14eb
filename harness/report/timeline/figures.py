"""The interactive timeline: two figures for plotly.js on one time axis.

`lanes` shows phases, faults, stalls and clients as bars; `rates` shows records, ops, latency and errors
by bin.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.report import colours
from harness.report.inputs import Floats, Ints
from harness.report.timeline.lanes import Span, TimelineLane
from harness.report.timeline.numbers import Rates, Timeline
from harness.report.timeline.plots import (
    Json,
    Panel,
    bars,
    figure,
    panels,
    rows,
    stroke,
    text,
    trace,
    words,
    wrapped,
)

LANE_PX = 22
FAINT = 0.45
"""Opacity of faults and stalls."""
RECORDS, OPS, LATENCY, ERRORS = range(4)
"""Panels of the rates, from the top."""


def build(timeline: Timeline) -> Json:
    """The figures by name, for the page's script. Empty ones are left out."""
    figures: Json = {}
    if timeline.lanes:
        data = [trace for row, lane in enumerate(timeline.lanes) for trace in _lane(row, lane)]
        figures["lanes"] = rows(timeline, [lane.label for lane in timeline.lanes], data, LANE_PX, 9)
    rates = timeline.rates
    if rates is not None:
        data = [*_lines(rates), *_errors(rates)]
        figures["rates"] = figure(data, lambda kind: _rates_layout(timeline, rates, kind))
    return figures


def _lane(row: int, lane: TimelineLane) -> Iterator[Json]:
    """What is drawn of a lane. The processes of a client stand low, its faults above them."""
    if lane.kind == "client":
        if lane.behind:
            yield _named(row - 0.13, lane, lane.behind, "", width=0.62)
        if lane.spans:
            fills = [colours.PHASES[1]] * len(lane.spans)
            titles = _titles(lane.spans, f"{lane.label}, process ")
            yield bars(row + 0.3, lane.spans, fills, titles, width=0.22)
            yield _ends(row + 0.3, lane)
    else:
        yield _named(row, lane, lane.spans, {"phase": "phase ", "stall": "stall: "}.get(lane.kind, ""))


def _titles(spans: Sequence[Span], before: str) -> list[str]:
    return [f"<b>{text(before + span.label)}</b><br>{wrapped(span.text)}" for span in spans]


def _named(row: float, lane: TimelineLane, spans: Sequence[Span], before: str, **more: object) -> Json:
    """Spans with their names; faults and stalls are tinted."""
    if lane.kind == "phase":
        fills, opacity = [colours.PHASES[number % 2] for number in range(len(spans))], 1.0
    else:
        fills, opacity = (
            [colours.STALL if lane.kind == "stall" else colours.safe(s.colour) for s in spans],
            FAINT,
        )
    shown, brief = [text(span.label) for span in spans], [text(span.short or span.label) for span in spans]
    inks = [colours.INK] * len(spans)
    made = bars(row, spans, fills, _titles(spans, before), opacity, **more)
    return made | words(shown, brief, inks, roomy=lane.named)


def _ends(row: float, lane: TimelineLane) -> Json:
    """Marks where processes ended: a bar where one was replaced, a cross where it died."""
    ended = [span for span in lane.spans if span.colour in colours.ENDED]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(span.end, 3) for span in ended],
        "y": [row] * len(ended),
        "hoverinfo": "skip",
        "marker": {
            "symbol": [{"replaced": "line-ns-open", "crashed": "x"}[span.colour] for span in ended],
            "size": 8,
            "color": [colours.ENDED[span.colour] for span in ended],
            "line": {"width": 2},
        },
    }


def _rates_layout(timeline: Timeline, rates: Rates, kind: str) -> Json:
    """Four panels. On a narrow screen legends break into lines, and the last panel has none."""
    wide = kind == "wide"
    errors = "Failed and unknown ops" if wide else "Failed (blue), unknown (orange) ops"
    load: Json = {"range": [0, _load_peak(timeline, rates)]}
    zero: Json = {"rangemode": "tozero"}
    shown = (
        Panel("Records per second (ops that ended ok)", 105, 30 if wide else 50, load, wide),
        Panel("Ops that ended ok, per second; aborts: intended", 105, 40 if wide else 90, zero, wide),
        Panel(
            "Latency of ok ops, ms (dotted: p99)", 135, 40 if wide else 90, {"type": "log", "dtick": 1}, wide
        ),
        Panel(f"{errors} per {rates.width:g} s", 105, 76 if wide else 44, zero, False, legend=wide),
    )
    more = {"barmode": "stack", "bargap": 0, "hoversubplots": "axis"}
    made = panels(timeline, kind, shown, 28 if wide else 4, **more)
    if not rates.fail and not rates.info:
        middle = {"xref": "paper", "x": 0.5, "yref": "paper", "y": made["yaxis4"]["domain"][1] / 2}
        none = {"text": "none", "showarrow": False, "font": {"color": colours.MUTED}}
        made["annotations"].append(middle | none)
    return made


def _load_peak(timeline: Timeline, rates: Rates) -> float:
    """Highest rate of records before the final reads, which would dwarf all that was load."""
    final = [
        span.begin
        for lane in timeline.lanes
        if lane.kind == "phase"
        for span in lane.spans
        if span.label == "final"
    ]
    load = rates.edges[1:] <= min(final, default=float("inf"))
    peak = max(int(counts[load].max(initial=0)) for counts in (rates.written, rates.read))
    return round(1.05 * max(peak, 1) / rates.width, 2)


def _lines(rates: Rates) -> Iterator[Json]:
    """Records, ops and latencies."""
    middles = (rates.edges[:-1] + rates.width / 2).tolist()

    def line(panel: int, name: str, y: list[float | None], look: Json, unit: str, **more: object) -> Json:
        return trace(panel, name, middles, y, **(look | _alone(y)), hovertemplate=f"%{{y:{unit}", **more)

    def rate(panel: int, name: str, counts: Ints, look: Json, unit: str) -> Json:
        return line(panel, name, [round(float(count) / rates.width, 2) for count in counts], look, unit)

    yield rate(RECORDS, "written", rates.written, stroke(colours.SERIES[0]), ",.0f}/s")
    yield rate(RECORDS, "read", rates.read, stroke(colours.SERIES[1]), ",.0f}/s")
    for (kind, counts), colour in zip(rates.ok.items(), colours.SERIES, strict=False):
        yield rate(OPS, kind, counts, stroke(colour), ",.1f}/s")
    if rates.aborts.any():
        yield rate(OPS, "aborts", rates.aborts, stroke(colours.MUTED, "dash"), ",.1f}/s")
    for (kind, latency), colour in zip(rates.latency.items(), colours.SERIES, strict=False):
        if not np.isnan(latency.median).all():
            for name, values, dash in ((kind, latency.median, "solid"), (f"{kind} p99", latency.p99, "dot")):
                more = {"legendgroup": text(kind), "showlegend": name == kind}
                yield line(LATENCY, name, _known(values), stroke(colour, dash), ",.1f} ms", **more)


def _alone(y: list[float | None]) -> Json:
    """Dots for the values that have no neighbour, which a line would not show."""
    known = [False, *(value is not None for value in y), False]
    sizes = [
        4 * (here and not before and not after)
        for before, here, after in zip(known, known[1:], known[2:], strict=False)
    ]
    dots = {"mode": "lines+markers", "marker": {"size": sizes, "opacity": 1, "line": {"width": 0}}}
    return dots if any(sizes) else {}


def _known(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(max(float(value), 0.01), 2) for value in values]


def _errors(rates: Rates) -> Iterator[Json]:
    middles = (rates.edges[:-1] + rates.width / 2).tolist()
    for word, counted, palette in (
        ("unknown", rates.info, colours.INFO),
        ("failed", rates.fail, colours.FAIL),
    ):
        for (error, counts), colour in zip(counted.items(), palette, strict=False):
            yield trace(
                ERRORS,
                f"{word}: {error}",
                middles,
                [int(count) or None for count in counts],
                type="bar",
                width=rates.width,
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate="%{y}",
            )
