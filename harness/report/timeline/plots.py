"""What the figures for plotly.js share: bars on rows, panels of lines, the time axis, the bands of faults.

A figure is plain JSON: its data, and a layout for each kind of screen, `wide` and `narrow`. Colours may be
tokens (`colours`), which the page's script resolves for its theme.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from harness.report import colours
from harness.report.timeline.lanes import Span
from harness.report.timeline.numbers import Timeline

Json = dict[str, Any]
LEFT_PX = {"wide": 96, "narrow": 66}
LABEL_MOST = {"wide": 16, "narrow": 10}
FOOT_PX = 28
CLEAR = "rgba(0,0,0,0)"


class Panel(NamedTuple):
    """One of the panels above each other. header: pixels above it for its heading and its legend, which
    stands beside the heading or else under it. scale: of its axis."""

    heading: str
    height: int
    header: int
    scale: Json
    beside: bool
    legend: bool = True


def figure(data: list[Json], layout_of: Callable[[str], Json]) -> Json:
    """Data with the layouts for both kinds of screen."""
    return {"data": data, "layouts": {kind: layout_of(kind) for kind in LEFT_PX}}


def rows(timeline: Timeline, names: list[str], data: list[Json], row_px: int, letters: int) -> Json:
    """A figure of bars with named rows, the first on top. letters: least size of words on bars."""

    def layout_of(kind: str) -> Json:
        return layout(
            timeline,
            kind,
            row_px * len(names),
            2,
            barmode="overlay",
            bargap=0.12,
            showlegend=False,
            hovermode="closest",
            uniformtext={"mode": "hide", "minsize": letters},
            xaxis=time_axis(timeline),
            yaxis=axis(
                range=[len(names) - 0.5, -0.5],
                showgrid=False,
                tickvals=list(range(len(names))),
                ticktext=[short(name, LABEL_MOST[kind]) for name in names],
            ),
        )

    return figure(data, layout_of)


def panels(timeline: Timeline, kind: str, shown: Sequence[Panel], top: int, **more: object) -> Json:
    """The layout of panels on one time axis; hovering shows all values of one time."""
    plot = sum(panel.header + panel.height for panel in shown)
    made = layout(
        timeline,
        kind,
        plot,
        top,
        hovermode="x unified",
        xaxis=time_axis(timeline, anchor=numbered("y", len(shown) - 1)),
        annotations=[],
        **more,
    )
    room = plot
    for number, panel in enumerate(shown):
        room -= panel.header
        low, high = round((room - panel.height) / plot, 5), round(room / plot, 5)
        room -= panel.height
        made[numbered("yaxis", number)] = axis(domain=[low, high], **{"nticks": 4, **panel.scale})
        place = {"x": 1, "xanchor": "right"} if panel.beside else {"x": 0, "xanchor": "left"}
        made[numbered("legend", number)] = place | {
            "visible": panel.legend,
            "orientation": "h",
            "y": high,
            "yanchor": "bottom",
            "font": {"size": 11},
            "bgcolor": CLEAR,
            "itemwidth": 30,
        }
        made["annotations"].append(
            {
                "text": panel.heading,
                "showarrow": False,
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": "paper",
                "y": high,
                "yanchor": "bottom",
                "yshift": 4 if panel.beside else panel.header - 24,
                "font": {"size": 12, "color": colours.INK},
            }
        )
    return made


def layout(timeline: Timeline, kind: str, height: int, top: int, **more: object) -> Json:
    """Size, colours and bands of a figure."""
    return {
        "height": height + top + FOOT_PX,
        "margin": {"l": LEFT_PX[kind], "r": 10, "t": top, "b": FOOT_PX},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": colours.INK},
        "separators": ".\u202f",
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "shapes": bands(timeline),
        "modebar": {"bgcolor": CLEAR, "color": colours.MUTED, "activecolor": colours.INK},
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
            begin, end = round(span.begin, 3), round(span.end, 3)
            shape: Json = {"xref": "x", "yref": "paper", "x0": begin, "y0": 0, "y1": 1, "layer": "below"}
            if lane.kind == "fault":
                fill = {"line": {"width": 0}, "fillcolor": colours.safe(span.colour), "opacity": 0.18}
                shapes.append(shape | fill | {"type": "rect", "x1": end})
            elif lane.kind == "phase":
                line = {"line": {"color": colours.MUTED, "width": 1, "dash": "dot"}, "opacity": 0.6}
                shapes.append(shape | line | {"type": "line", "x1": begin})
    return shapes


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
    range_s = [round(timeline.begin - pad, 3), round(timeline.end + pad, 3)]
    return axis(range=range_s, ticksuffix=" s", hoverformat=".2f") | {"fixedrange": False} | more


def bars(
    row: float, spans: Sequence[Span], fills: list[str], titles: list[str], opacity: float = 1, **more: object
) -> Json:
    """Bars on one row, without words. Hovering shows a bar's title, when it was and how long."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row] * len(spans),
        "base": [round(span.begin, 3) for span in spans],
        "x": [round(max(span.end - span.begin, 0.02), 3) for span in spans],
        "marker": {"color": fills, "opacity": opacity, "line": {"width": 0}},
        "hovertext": [f"{title}<br>{lasted(span)}" for title, span in zip(titles, spans, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
        **more,
    }


def words(shown: list[str], brief: list[str], inks: list[str], size: int = 11, roomy: bool = False) -> Json:
    """Words on bars; brief: on a narrow screen. roomy: there is room for them beyond the bar's end."""
    return {
        "text": shown,
        "meta": brief,
        "textposition": "inside",
        "insidetextanchor": "start" if roomy else "middle",
        "textangle": 0,
        "constraintext": "none" if roomy else "inside",
        "insidetextfont": {"color": inks, "size": size},
    }


def trace(panel: int, name: str, x: Sequence[float], y: Sequence[float | None], **more: object) -> Json:
    """Values over time in a panel."""
    return {
        "type": "scatter",
        "name": text(name),
        "xaxis": "x",
        "yaxis": numbered("y", panel),
        "legend": numbered("legend", panel),
        "showlegend": True,
        "x": [round(float(each), 3) for each in x],
        "y": y,
        **more,
    }


def stroke(colour: str, dash: str = "solid") -> Json:
    """The look of a line."""
    return {"mode": "lines", "line": {"color": colour, "width": 1.4, "dash": dash}}


def numbered(name: str, number: int) -> str:
    """`y`, `y2`, `y3`."""
    return f"{name}{number + 1 if number else ''}"


def text(value: str) -> str:
    """Text from outside, for plotly."""
    return escape(value, quote=False).replace("\n", " ")


def short(value: str, most: int) -> str:
    """The end of a long name: partitions differ there."""
    return text(value if len(value) <= most else "…" + value[1 - most :])


def wrapped(value: str, width: int = 60, most: int = 6) -> str:
    """Lines of words for a hover label, which plotly does not wrap."""
    lines = [""]
    for word in value.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(text(line[: 2 * width]) for line in lines[:most])


def lasted(span: Span) -> str:
    """From when to when, in words."""
    until = "the end of the run, never healed" if span.open else f"{span.end:.2f} s"
    return f"{span.begin:.2f} s to {until} ({span.end - span.begin:.2f} s)"
