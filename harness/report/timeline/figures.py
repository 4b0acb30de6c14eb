"""The interactive timeline: two figures for plotly.js, as plain JSON, on one time axis.

`lanes` shows phases, faults, stalls and clients as bars; `rates` shows records, ops, latency and errors
by bin. Colours may be tokens (`colours`), which the page's script resolves for its theme.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from core.op import Outcome
from harness.report import colours
from harness.report.inputs import Floats, Ints
from harness.report.timeline.lanes import Span, TimelineLane
from harness.report.timeline.numbers import Rates, Timeline

Json = dict[str, Any]
LEFT_PX = {"wide": 96, "narrow": 66}
LABEL_MOST = {"wide": 16, "narrow": 10}
FOOT_PX = 28
FONT = {"family": "system-ui, sans-serif", "size": 12, "color": colours.INK}
LANE_PX = 22
PANELS = ("records", "ops", "latency", "errors")
HEIGHTS = {"records": 105, "ops": 105, "latency": 135, "errors": 105}
HEADER_PX = {
    "wide": {"records": 30, "ops": 40, "latency": 40, "errors": 76},
    "narrow": {"records": 50, "ops": 90, "latency": 90, "errors": 44},
}
"""Room above each panel for its heading and legend; on a narrow screen legends break into lines."""


def build(timeline: Timeline) -> Json:
    """The figures by name, for the page's script. Empty ones are left out."""
    figures: Json = {}
    if timeline.lanes:
        figures["lanes"] = lanes_figure(timeline)
    if timeline.rates is not None:
        figures["rates"] = rates_figure(timeline, timeline.rates)
    return figures


def lanes_figure(timeline: Timeline) -> Json:
    """Bars by lane, the first lane on top. Hover tells what, when and for how long."""
    data = [trace for row, lane in enumerate(timeline.lanes) for trace in _traces(row, lane)]
    return {"data": data, "layouts": {kind: _lanes_layout(timeline, kind) for kind in LEFT_PX}}


def _lanes_layout(timeline: Timeline, kind: str) -> Json:
    lanes = timeline.lanes
    return layout(
        timeline,
        kind,
        LANE_PX * len(lanes),
        2,
        barmode="overlay",
        bargap=0.12,
        showlegend=False,
        hovermode="closest",
        uniformtext={"mode": "hide", "minsize": 9},
        xaxis=time_axis(timeline),
        yaxis=axis(
            range=[len(lanes) - 0.5, -0.5],
            showgrid=False,
            tickvals=list(range(len(lanes))),
            ticktext=[short(lane.label, LABEL_MOST[kind]) for lane in lanes],
        ),
    )


def _named(spans: Sequence[Span], inks: list[str], *, roomy: bool) -> Json:
    return {
        "text": [text(span.label) for span in spans],
        "meta": [text(span.short or span.label) for span in spans],
        "textposition": "inside",
        "insidetextanchor": "start" if roomy else "middle",
        "textangle": 0,
        "constraintext": "none" if roomy else "inside",
        "insidetextfont": {"color": inks, "size": 11},
    }


def _traces(row: int, lane: TimelineLane) -> list[Json]:
    """What is drawn of a lane. The processes of a client stand low, its faults above them."""
    if lane.kind != "client":
        return [_bars(row, lane)] if lane.spans else []
    traces = [_behind(row - 0.13, lane)] if lane.behind else []
    return traces + ([_processes(row + 0.3, lane), _ends(row + 0.3, lane)] if lane.spans else [])


def _bars(row: int, lane: TimelineLane) -> Json:
    """The spans of a lane, with their names."""
    fills = [_fill(lane.kind, number, span) for number, span in enumerate(lane.spans)]
    made = spans_trace(row, lane.spans, fills, _hovers(lane))
    if lane.kind in ("fault", "stall"):
        made["marker"]["opacity"] = 0.45
    return made | _named(lane.spans, [colours.INK] * len(fills), roomy=lane.named)


def _hovers(lane: TimelineLane) -> list[str]:
    return [f"{_hover(lane, span)}<br>{lasted(span)}" for span in lane.spans]


def _behind(row: float, lane: TimelineLane) -> Json:
    """Faults that hit only this client: tinted, as all faults are."""
    fills = [colours.safe(span.colour) for span in lane.behind]
    hovers = [f"<b>{text(span.label)}</b><br>{wrapped(span.text)}<br>{lasted(span)}" for span in lane.behind]
    made = spans_trace(row, lane.behind, fills, hovers) | {"width": 0.62}
    made["marker"]["opacity"] = 0.45
    return made | _named(lane.behind, [colours.INK] * len(fills), roomy=lane.named)


def _processes(row: float, lane: TimelineLane) -> Json:
    fills = [colours.PHASES[1]] * len(lane.spans)
    return spans_trace(row, lane.spans, fills, _hovers(lane)) | {"width": 0.22}


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


def _fill(kind: str, number: int, span: Span) -> str:
    if kind == "fault":
        return colours.safe(span.colour)
    if kind == "stall":
        return colours.STALL
    return colours.PHASES[number % 2]


def _hover(lane: TimelineLane, span: Span) -> str:
    return {
        "phase": f"<b>phase {text(span.label)}</b><br>{text(span.text)}",
        "fault": f"<b>{text(span.label)}</b><br>{wrapped(span.text)}",
        "stall": f"<b>stall: {text(span.label)}</b><br>{wrapped(span.text)}",
        "client": f"<b>{text(lane.label)}, process {text(span.label)}</b><br>{wrapped(span.text)}",
    }[lane.kind]


def rates_figure(timeline: Timeline, rates: Rates) -> Json:
    """Four panels on one time axis; hovering shows all values of one bin."""
    return {
        "data": [*_records(rates), *_ops(rates), *_latencies(rates), *_errors(rates)],
        "layouts": {kind: _rates_layout(timeline, rates, kind) for kind in HEADER_PX},
    }


def _headings(rates: Rates, kind: str) -> dict[str, str]:
    errors = "Failed and unknown ops" if kind == "wide" else "Failed (blue), unknown (orange) ops"
    return {
        "records": "Records per second (ops that ended ok)",
        "ops": "Ops that ended ok, per second; aborts: intended",
        "latency": "Latency of ok ops, ms (dotted: p99)",
        "errors": f"{errors} per {rates.width:g} s",
    }


def _rates_layout(timeline: Timeline, rates: Rates, kind: str) -> Json:
    header = HEADER_PX[kind]
    plot = sum(HEIGHTS.values()) + sum(header.values())
    made = layout(
        timeline,
        kind,
        plot,
        28 if kind == "wide" else 4,
        barmode="stack",
        bargap=0,
        hovermode="x unified",
        hoversubplots="axis",
        xaxis=time_axis(timeline, anchor=_y(len(PANELS) - 1)),
        annotations=[],
    )
    top = float(plot)
    for number, panel in enumerate(PANELS):
        top -= header[panel]
        bottom = top - HEIGHTS[panel]
        domain = [round(max(bottom, 0) / plot, 5), round(top / plot, 5)]
        scale: Json = {"rangemode": "tozero"}
        if panel == "latency":
            scale = {"type": "log", "dtick": 1}
        if panel == "records":
            scale = {"range": [0, _load_peak(timeline, rates)]}
        made[f"yaxis{number + 1 if number else ''}"] = axis(domain=domain, nticks=4, **scale)
        beside = kind == "wide" and panel != "errors"
        made["annotations"].append(
            {
                "text": _headings(rates, kind)[panel],
                "showarrow": False,
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": "paper",
                "y": domain[1],
                "yanchor": "bottom",
                "yshift": 4 if beside else header[panel] - 24,
                "font": {"size": 12, "color": colours.INK},
            }
        )
        made[f"legend{number + 1 if number else ''}"] = legend(domain[1], beside) | {
            "visible": kind == "wide" or panel != "errors"
        }
        top = bottom
    if not rates.fail and not rates.info:
        made["annotations"].append(
            {
                "text": "none",
                "showarrow": False,
                "xref": "paper",
                "x": 0.5,
                "yref": "paper",
                "y": HEIGHTS["errors"] / plot / 2,
                "font": {"color": colours.MUTED},
            }
        )
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


def _y(panel: int) -> str:
    return "y" if panel == 0 else f"y{panel + 1}"


def _trace(panel: str, name: str, rates: Rates, y: list[float | None], **more: object) -> Json:
    number = PANELS.index(panel)
    centres = rates.edges[:-1] + rates.width / 2
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text(name),
        "xaxis": "x",
        "yaxis": _y(number),
        "legend": f"legend{number + 1 if number else ''}",
        "showlegend": True,
        "x": [round(float(centre), 3) for centre in centres],
        "y": y,
        **_alone(y),
        **more,
    }


def _alone(y: list[float | None]) -> Json:
    """Dots for the values that have no neighbour, which a line would not show."""
    known = [False, *(value is not None for value in y), False]
    sizes = [
        4 * (here and not before and not after)
        for before, here, after in zip(known, known[1:], known[2:], strict=False)
    ]
    return (
        {"mode": "lines+markers", "marker": {"size": sizes, "opacity": 1, "line": {"width": 0}}}
        if any(sizes)
        else {}
    )


def _line(colour: str, **more: object) -> Json:
    return {"color": colour, "width": 1.4, **more}


def per_second(counts: Ints, rates: Rates) -> list[float | None]:
    """Counts by bin as rates."""
    return [round(float(count) / rates.width, 2) for count in counts]


def _records(rates: Rates) -> list[Json]:
    return [
        _trace(
            "records", name, rates, per_second(counts, rates), line=_line(colour), hovertemplate="%{y:,.0f}/s"
        )
        for name, counts, colour in (
            ("written", rates.written, colours.SERIES[0]),
            ("read", rates.read, colours.SERIES[1]),
        )
    ]


def _ops(rates: Rates) -> list[Json]:
    traces = [
        _trace("ops", kind, rates, per_second(counts, rates), line=_line(colour), hovertemplate="%{y:,.1f}/s")
        for (kind, counts), colour in zip(rates.ok.items(), colours.SERIES, strict=False)
    ]
    if rates.aborts.any():
        traces.append(
            _trace(
                "ops",
                "aborts",
                rates,
                per_second(rates.aborts, rates),
                line=_line(colours.MUTED, dash="dash"),
                hovertemplate="%{y:,.1f}/s",
            )
        )
    return traces


def _latencies(rates: Rates) -> list[Json]:
    traces: list[Json] = []
    for (kind, latency), colour in zip(rates.latency.items(), colours.SERIES, strict=False):
        if np.isnan(latency.median).all():
            continue
        traces += [
            _trace(
                "latency",
                name,
                rates,
                _known(values),
                legendgroup=text(kind),
                showlegend=first,
                line=_line(colour, dash="solid" if first else "dot"),
                connectgaps=False,
                hovertemplate="%{y:,.1f} ms",
            )
            for name, values, first in ((kind, latency.median, True), (f"{kind} p99", latency.p99, False))
        ]
    return traces


def _known(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(max(float(value), 0.01), 2) for value in values]


def _errors(rates: Rates) -> list[Json]:
    traces: list[Json] = []
    for outcome, counted, palette in (
        (Outcome.INFO, rates.info, colours.INFO),
        (Outcome.FAIL, rates.fail, colours.FAIL),
    ):
        word = {Outcome.INFO: "unknown", Outcome.FAIL: "failed"}[outcome]
        for (error, counts), colour in zip(counted.items(), palette, strict=False):
            y: list[float | None] = [int(count) or None for count in counts]
            traces.append(
                _trace(
                    "errors",
                    f"{word}: {error}",
                    rates,
                    y,
                    type="bar",
                    width=rates.width,
                    marker={"color": colour, "line": {"width": 0}},
                    hovertemplate="%{y}",
                )
            )
            del traces[-1]["mode"]
    return traces


# ---- shared with the cluster's figures


def text(value: str) -> str:
    """Text from outside, for plotly."""
    return escape(value, quote=False).replace("\n", " ")


def short(value: str, most: int) -> str:
    """The end of a long name: partitions differ there."""
    return text(value if len(value) <= most else "…" + value[1 - most :])


def axis(**more: object) -> Json:
    """An axis in the page's colours."""
    return {
        "showline": False,
        "zeroline": False,
        "gridcolor": colours.GRID,
        "fixedrange": True,
        "tickfont": {"color": colours.MUTED, "size": 11},
        **more,
    }


def time_axis(timeline: Timeline, **more: object) -> Json:
    """The axis of time, which all figures share."""
    pad = 0.01 * (timeline.end - timeline.begin)
    return (
        axis(
            range=[round(timeline.begin - pad, 3), round(timeline.end + pad, 3)],
            ticksuffix=" s",
            hoverformat=".2f",
            fixedrange=False,
        )
        | more
    )


def layout(timeline: Timeline, kind: str, height: int, top: int, **more: object) -> Json:
    """Size, colours and bands of a figure; `kind`: `wide` or `narrow`."""
    return {
        "height": height + top + FOOT_PX,
        "margin": {"l": LEFT_PX[kind], "r": 10, "t": top, "b": FOOT_PX},
        "font": FONT,
        "separators": ".\u202f",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "shapes": bands(timeline),
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.MUTED, "activecolor": colours.INK},
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--line)",
            "font": {"color": colours.INK, "size": 12},
        },
        **more,
    }


def bands(timeline: Timeline) -> list[Json]:
    """Shapes behind the data: a band for each fault of the cluster, a dotted line where each phase begins."""
    shapes: list[Json] = []
    for lane in timeline.lanes:
        for span in lane.spans:
            shape = {
                "xref": "x",
                "yref": "paper",
                "x0": round(span.begin, 3),
                "y0": 0,
                "y1": 1,
                "layer": "below",
            }
            if lane.kind == "fault":
                shapes.append(
                    shape
                    | {
                        "type": "rect",
                        "x1": round(span.end, 3),
                        "line": {"width": 0},
                        "fillcolor": colours.safe(span.colour),
                        "opacity": 0.18,
                    }
                )
            elif lane.kind == "phase":
                shapes.append(
                    shape
                    | {
                        "type": "line",
                        "x1": round(span.begin, 3),
                        "line": {"color": colours.MUTED, "width": 1, "dash": "dot"},
                        "opacity": 0.6,
                    }
                )
    return shapes


def wrapped(value: str, width: int = 60, most: int = 6) -> str:
    """Lines of words for a hover label, which plotly does not wrap."""
    lines = [""]
    for word in value.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(text(line[: 2 * width]) for line in lines[:most])


def legend(top: float, beside: bool) -> Json:
    """Place of a legend: above its panel: beside the heading, or under it."""
    place = {"x": 1, "xanchor": "right"} if beside else {"x": 0, "xanchor": "left"}
    return {
        "orientation": "h",
        "y": top,
        "yanchor": "bottom",
        "font": {"size": 11},
        "bgcolor": "rgba(0,0,0,0)",
        "itemwidth": 30,
        **place,
    }


def spans_trace(row: float, spans: Sequence[Span], fills: list[str], hovers: list[str]) -> Json:
    """Bars on one row, without words."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row] * len(spans),
        "base": [round(span.begin, 3) for span in spans],
        "x": [round(max(span.end - span.begin, 0.02), 3) for span in spans],
        "marker": {"color": fills, "line": {"width": 0}},
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def lasted(span: Span) -> str:
    """From when to when, in words."""
    until = "the end of the run, never healed" if span.open else f"{span.end:.2f} s"
    return f"{span.begin:.2f} s to {until} ({span.end - span.begin:.2f} s)"
