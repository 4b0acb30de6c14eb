"""What all figures share: the time axis, the bands of faults, texts that plotly must not take for tags.

Plotly takes a few tags out of any text it draws, so every text from outside is escaped here.

Not here: the figures (`figures`, `cluster_figures`).
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from harness.report import colours
from harness.report.lanes import Span
from harness.report.timeline import Timeline

Json = dict[str, Any]
LEFT_PX = {"wide": 96, "narrow": 66}
LABEL_MOST = {"wide": 16, "narrow": 10}
FOOT_PX = 28
FONT = {"family": "system-ui, sans-serif", "size": 12, "color": colours.INK}


def text(value: str) -> str:
    """Text from outside, for plotly."""
    return escape(value, quote=False).replace("\n", " ")


def short(value: str, most: int) -> str:
    """The end of a long name: partitions differ there."""
    return text(value if len(value) <= most else "…" + value[1 - most :])


def axis(**more: Any) -> Json:
    """An axis in the page's colours."""
    return {
        "showline": False, "zeroline": False, "gridcolor": colours.GRID, "fixedrange": True,
        "tickfont": {"color": colours.MUTED, "size": 11}, **more,
    }  # fmt: skip


def time_axis(timeline: Timeline, **more: Any) -> Json:
    """The axis of time, which all figures share."""
    pad = 0.01 * (timeline.end - timeline.begin)
    return axis(
        range=[round(timeline.begin - pad, 3), round(timeline.end + pad, 3)],
        ticksuffix=" s", hoverformat=".2f", fixedrange=False,
    ) | more  # fmt: skip


def layout(timeline: Timeline, kind: str, height: int, top: int, **more: Any) -> Json:
    """Size, colours and bands of a figure; `kind`: `wide` or `narrow`."""
    return {
        "height": height + top + FOOT_PX,
        "margin": {"l": LEFT_PX[kind], "r": 10, "t": top, "b": FOOT_PX},
        "font": FONT,
        "separators": ".\u202f",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "shapes": bands(timeline),
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": colours.MUTED,
            "activecolor": colours.INK,
        },
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
            shape = {"xref": "x", "yref": "paper", "x0": round(span.begin, 3), "y0": 0, "y1": 1,
                     "layer": "below"}  # fmt: skip
            if lane.kind == "fault":
                shapes.append(shape | {
                    "type": "rect", "x1": round(span.end, 3), "line": {"width": 0},
                    "fillcolor": colours.safe(span.colour), "opacity": 0.18,
                })  # fmt: skip
            elif lane.kind == "phase":
                shapes.append(shape | {
                    "type": "line", "x1": round(span.begin, 3),
                    "line": {"color": colours.MUTED, "width": 1, "dash": "dot"}, "opacity": 0.6,
                })  # fmt: skip
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
    return {"orientation": "h", "y": top, "yanchor": "bottom", "font": {"size": 11},
            "bgcolor": "rgba(0,0,0,0)", "itemwidth": 30, **place}  # fmt: skip


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
    until = "end of the run, never healed" if span.open else f"{span.end:.2f} s"
    return f"{span.begin:.2f} s to {until} ({span.end - span.begin:.2f} s)"
