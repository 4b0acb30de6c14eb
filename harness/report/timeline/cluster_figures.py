"""The cluster over time, for plotly.js: who led and which replicas were in sync; how far the logs went.

`cluster` has a row for each partition: the leading node above, the in-sync replicas below. `ends` has
two panels: high watermark (line) with last stable offset (dots), and the records between the two.
"""

from collections.abc import Iterator

from harness.report import colours
from harness.report.timeline.lanes import Span, coalesced
from harness.report.timeline.numbers import Timeline
from harness.report.timeline.partitions import ClusterTimeline, PartitionTimeline
from harness.report.timeline.plots import Json, Panel, bars, figure, panels, rows, stroke, text, trace, words

ROW_PX = 42
LEADER, ISR = (-0.22, 0.42), (0.21, 0.4)
"""Middle and height of the two bars within a row."""
ENDS, OPEN = range(2)
"""Panels of the ends, from the top."""


def build(timeline: Timeline) -> Json:
    """The figures by name. Those without data are left out."""
    cluster, found = timeline.cluster, Json()
    if cluster.shown:
        names = ["controller"] if cluster.controller else []
        names += [partition.name for partition in cluster.shown]
        found["cluster"] = rows(timeline, names, list(_roles(cluster)), ROW_PX, 8)
    if cluster.drawn:
        lines = [
            line
            for partition, colour in zip(cluster.drawn, colours.SERIES, strict=False)
            for line in _ends(partition, colour)
        ]
        found["ends"] = figure(lines, lambda kind: _ends_layout(timeline, kind))
    return found


def _roles(cluster: ClusterTimeline) -> Iterator[Json]:
    if cluster.controller:
        yield _held(0, cluster.controller, "controller", (0, 0.62))
    for row, partition in enumerate(cluster.shown, bool(cluster.controller)):
        leaders, isr = coalesced(partition.leaders), coalesced(partition.isr)
        if leaders:
            yield _held(row, leaders, f"leader of {partition.name}", LEADER)
        if isr:
            yield _in_sync(row, partition, isr, cluster)


def _held(row: int, spans: list[Span], what: str, place: tuple[float, float]) -> Json:
    """Bars of nodes."""
    fills = [colours.node(span.label) for span in spans]
    shown = [text(span.label) for span in spans]
    titles = []
    for span, name in zip(spans, shown, strict=True):
        holder = "no leader known" if name == "none" else f"node {name}"
        titles.append(f"<b>{text(what)}</b>: {text(span.text) or holder}")
    made = bars(row + place[0], spans, fills, titles, width=place[1])
    return made | words(shown, shown, [colours.ink_on(fill) for fill in fills])


def _in_sync(row: int, partition: PartitionTimeline, spans: list[Span], cluster: ClusterTimeline) -> Json:
    """Bars of in-sync replicas, with their numbers."""
    fills = [cluster.isr_colour(partition, span) for span in spans]
    shown = [text(span.label) or "none" for span in spans]
    what = f"<b>in-sync replicas of {text(partition.name)}</b>"
    titles = [
        f"{what}: {members} ({span.short} of {partition.replicas})"
        for span, members in zip(spans, shown, strict=True)
    ]
    made = bars(row + ISR[0], spans, fills, titles, width=ISR[1])
    return made | words(shown, shown, [colours.INK] * len(spans), 9)


def _ends(partition: PartitionTimeline, colour: str) -> Iterator[Json]:
    """High watermark, last stable offset, the offsets between them; marks where the first fell."""
    name, ends, falls = partition.name, partition.ends, partition.falls
    times = [each.at for each in ends]
    dots = {"mode": "lines+markers", "marker": {"size": 4, "color": colour}}
    group = {"legendgroup": text(name), "legend": "legend"}
    beside = group | {"showlegend": False}
    lso = [each.lso if each.lso >= 0 else None for each in ends]
    between = [each.hw - each.lso if each.lso >= 0 else None for each in ends]
    hover = {"hovertemplate": "%{y:,.0f}"}
    yield trace(ENDS, name, times, [each.hw for each in ends], **(group | stroke(colour) | dots | hover))
    yield trace(ENDS, f"{name} LSO", times, lso, **(beside | stroke(colour, "dot") | hover))
    above = {"hovertemplate": "%{y:,.0f} above LSO"}
    yield trace(OPEN, name, times, between, **(beside | stroke(colour) | dots | above))
    if falls:
        said = [f"from {before.hw:,} to {after.hw:,}" for before, after in falls]
        marks = {
            "mode": "markers",
            "marker": {"symbol": "triangle-down", "size": 11, "color": colours.INFO[0]},
            "text": said,
            "meta": said,
            "hovertemplate": "%{text}",
        }
        at, fallen = [after.at for _, after in falls], [after.hw for _, after in falls]
        yield trace(ENDS, f"{name} fell", at, fallen, **(beside | marks))


def _ends_layout(timeline: Timeline, kind: str) -> Json:
    wide = kind == "wide"
    heading = "High watermark (line), last stable offset (dotted)"
    scale = {"nticks": 5, "rangemode": "tozero", "tickformat": ",d", "autorangeoptions": {"include": [0, 4]}}
    shown = (
        Panel(
            heading if wide else "High watermark, dotted: last stable offset",
            200,
            34 if wide else 96,
            scale,
            wide,
        ),
        Panel("Offsets above the last stable offset", 90, 40, scale, True, legend=False),
    )
    return panels(timeline, kind, shown, 4)
