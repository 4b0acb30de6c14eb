"""The cluster over time, for plotly.js: who led and which replicas were in sync; how far the logs went.

`cluster` has a row for each partition: the leading node above, the in-sync replicas below. `ends` has
two panels: high watermark (line) with last stable offset (dots), and the records between the two.
"""

from harness.report import colours
from harness.report.timeline.figures import (
    LABEL_MOST,
    LEFT_PX,
    Json,
    axis,
    lasted,
    layout,
    legend,
    short,
    spans_trace,
    text,
    time_axis,
)
from harness.report.timeline.lanes import Span, coalesced
from harness.report.timeline.numbers import Timeline
from harness.report.timeline.partitions import ClusterTimeline, PartitionTimeline

ROW_PX = 42
LEADER, ISR = (-0.22, 0.42), (0.21, 0.4)
"""Middle and height of the two bars within a row."""
PANEL_PX = {"offsets": 200, "open": 90}
HEADER_PX = {"wide": {"offsets": 34, "open": 40}, "narrow": {"offsets": 96, "open": 40}}
HEADINGS = {
    "offsets": {
        "wide": "High watermark (line), last stable offset (dotted)",
        "narrow": "High watermark, dotted: last stable offset",
    },
    "open": dict.fromkeys(("wide", "narrow"), "Offsets above the last stable offset"),
}


def build(timeline: Timeline) -> Json:
    """The figures by name. Those without data are left out."""
    cluster, found = timeline.cluster, Json()
    if cluster.shown:
        found["cluster"] = _roles_figure(timeline, cluster)
    if cluster.drawn:
        found["ends"] = _ends_figure(timeline, cluster.drawn)
    return found


def _roles_figure(timeline: Timeline, cluster: ClusterTimeline) -> Json:
    data: list[Json] = []
    if cluster.controller:
        data.append(_held(0, cluster.controller.spans, "controller", (0, 0.62)))
    for row, partition in enumerate(cluster.shown, bool(cluster.controller)):
        leaders, isr = coalesced(partition.leaders), coalesced(partition.isr)
        if leaders:
            data.append(_held(row, leaders, f"leader of {partition.name}", LEADER))
        if isr:
            data.append(_in_sync(row, partition, isr, cluster))
    return {"data": data, "layouts": {kind: _roles_layout(timeline, cluster, kind) for kind in LEFT_PX}}


def _held(row: int, spans: list[Span], what: str, place: tuple[float, float]) -> Json:
    """Bars of nodes."""
    fills = [colours.node(span.label) for span in spans]
    hovers = []
    for span in spans:
        holder = "no leader known" if span.label == "none" else f"node {text(span.label)}"
        hovers.append(f"<b>{text(what)}</b>: {text(span.text) or holder}<br>{lasted(span)}")
    return (
        spans_trace(row + place[0], spans, fills, hovers)
        | {"width": place[1]}
        | _words([text(span.label) for span in spans], [colours.ink_on(fill) for fill in fills], 11)
    )


def _in_sync(row: int, partition: PartitionTimeline, spans: list[Span], cluster: ClusterTimeline) -> Json:
    """Bars of in-sync replicas, with their numbers."""
    fills = [cluster.isr_colour(partition, span) for span in spans]
    hovers = [
        f"<b>in-sync replicas of {text(partition.name)}</b>: {text(span.label) or 'none'} "
        f"({span.short} of {partition.replicas})<br>{lasted(span)}"
        for span in spans
    ]
    shown = [text(span.label) or "none" for span in spans]
    return (
        spans_trace(row + ISR[0], spans, fills, hovers)
        | {"width": ISR[1]}
        | _words(shown, [colours.INK] * len(spans), 9)
    )


def _words(shown: list[str], inks: list[str], size: int) -> Json:
    return {
        "text": shown,
        "meta": shown,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "insidetextfont": {"color": inks, "size": size},
    }


def _roles_layout(timeline: Timeline, cluster: ClusterTimeline, kind: str) -> Json:
    names = ["controller"] if cluster.controller else []
    names += [partition.name for partition in cluster.shown]
    return layout(
        timeline,
        kind,
        ROW_PX * len(names),
        2,
        barmode="overlay",
        bargap=0.1,
        showlegend=False,
        hovermode="closest",
        uniformtext={"mode": "hide", "minsize": 8},
        xaxis=time_axis(timeline),
        yaxis=axis(
            range=[len(names) - 0.5, -0.5],
            showgrid=False,
            tickvals=list(range(len(names))),
            ticktext=[short(name, LABEL_MOST[kind]) for name in names],
        ),
    )


def _ends_figure(timeline: Timeline, drawn: list[PartitionTimeline]) -> Json:
    data: list[Json] = []
    for partition, colour in zip(drawn, colours.SERIES, strict=False):
        data += _end_lines(partition, colour)
    return {"data": data, "layouts": {kind: _ends_layout(timeline, kind) for kind in LEFT_PX}}


def _end_lines(partition: PartitionTimeline, colour: str) -> list[Json]:
    """High watermark, last stable offset, the offsets between them; marks where the first fell."""
    name, ends = text(partition.name), partition.ends
    common: Json = {"type": "scatter", "x": [round(e.at, 3) for e in ends], "xaxis": "x", "legendgroup": name}
    mode: Json = {"mode": "lines+markers", "marker": {"size": 4, "color": colour}}
    lso = [each.lso if each.lso >= 0 else None for each in ends]
    between = [each.hw - each.lso if each.lso >= 0 else None for each in ends]
    lines: list[Json] = [
        common
        | mode
        | {
            "name": name,
            "yaxis": "y",
            "legend": "legend",
            "y": [each.hw for each in ends],
            "line": {"color": colour, "width": 1.4},
            "hovertemplate": "%{y:,.0f}",
        },
        common
        | {
            "name": f"{name} LSO",
            "yaxis": "y",
            "legend": "legend",
            "showlegend": False,
            "mode": "lines",
            "y": lso,
            "line": {"color": colour, "width": 1.4, "dash": "dot"},
            "hovertemplate": "%{y:,.0f}",
        },
        common
        | mode
        | {
            "name": name,
            "yaxis": "y2",
            "legend": "legend",
            "showlegend": False,
            "y": between,
            "line": {"color": colour, "width": 1.4},
            "hovertemplate": "%{y:,.0f} above LSO",
        },
    ]
    falls = partition.falls
    if falls:
        lines.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{name} fell",
                "xaxis": "x",
                "yaxis": "y",
                "legend": "legend",
                "legendgroup": name,
                "showlegend": False,
                "x": [round(after.at, 3) for _, after in falls],
                "y": [after.hw for _, after in falls],
                "marker": {"symbol": "triangle-down", "size": 11, "color": colours.INFO[0]},
                "text": [f"from {before.hw:,} to {after.hw:,}" for before, after in falls],
                "meta": [f"from {before.hw:,} to {after.hw:,}" for before, after in falls],
                "hovertemplate": "%{text}",
            }
        )
    return lines


def _ends_layout(timeline: Timeline, kind: str) -> Json:
    header = HEADER_PX[kind]
    plot = sum(PANEL_PX.values()) + sum(header.values())
    made = layout(
        timeline, kind, plot, 4, hovermode="x unified", xaxis=time_axis(timeline, anchor="y2"), annotations=[]
    )
    top = float(plot)
    for number, panel in enumerate(PANEL_PX):
        top -= header[panel]
        bottom = top - PANEL_PX[panel]
        domain = [round(max(bottom, 0) / plot, 5), round(top / plot, 5)]
        made[f"yaxis{number + 1 if number else ''}"] = axis(
            domain=domain, nticks=5, rangemode="tozero", tickformat=",d", autorangeoptions={"include": [0, 4]}
        )
        first = panel == "offsets"
        made["annotations"].append(
            {
                "text": HEADINGS[panel][kind],
                "showarrow": False,
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": "paper",
                "y": domain[1],
                "yanchor": "bottom",
                "yshift": header[panel] - 24 if first and kind == "narrow" else 4,
                "font": {"size": 12, "color": colours.INK},
            }
        )
        if first:
            made["legend"] = legend(domain[1], kind == "wide")
        top = bottom
    return made
