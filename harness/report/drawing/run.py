"""The whole run over time: what clients did under which faults, and what the cluster did."""

from collections.abc import Iterable, Sequence

from harness.report import colours, wording
from harness.report.drawing import panels
from harness.report.drawing.strips import ABOVE, LOW, WHOLE, Box, Drawing, Strip, TimeAxis
from harness.report.timeline.lanes import Span, TimelineLane, coalesced
from harness.report.timeline.numbers import Timeline
from harness.report.timeline.partitions import ClusterTimeline, PartitionTimeline

LABEL_MOST = 17


def timeline(timeline: Timeline) -> Drawing:
    """Every lane, then records, ops, latency and errors."""
    axis = _axis(timeline)
    strips = [_lane_strip(lane, axis) for lane in timeline.lanes]
    if timeline.rates is not None:
        strips += panels.rates(timeline, timeline.rates, axis)
    ended = {span.colour for lane in timeline.lanes if lane.kind == "client" for span in lane.spans}
    said = {"replaced": "process replaced by a new one", "crashed": "process died or was cut short"}
    key = [(colours.ENDED[name], said[name]) for name in said if name in ended]
    return Drawing(axis=axis, strips=strips, behind=_behind(timeline, axis), key=key, linked=True)


def cluster(timeline: Timeline) -> Drawing | None:
    """Controller, leaders above in-sync replicas, ends of the logs; None where nothing is on record."""
    of, axis = timeline.cluster, _axis(timeline)
    if not of.shown and not of.drawn:
        return None
    strips = [Strip(label="controller", bars=held(of.controller, axis, WHOLE))] if of.controller else []
    strips += [partition_strip(partition, of, axis) for partition in of.shown]
    strips += panels.ends(of, axis)
    key = cluster_key(of, of.shown)
    return Drawing(axis=axis, strips=strips, behind=_behind(timeline, axis), key=key, linked=True)


def _axis(timeline: Timeline) -> TimeAxis:
    return TimeAxis(timeline.begin, max(timeline.end, timeline.begin + 0.1))


def _behind(timeline: Timeline, axis: TimeAxis) -> list[Box]:
    """A band for each fault of the cluster, a line where each phase begins."""
    faults = [span for lane in timeline.lanes if lane.kind == "fault" for span in lane.spans]
    phases = [span for lane in timeline.lanes if lane.kind == "phase" for span in lane.spans]
    lines = [box for span in phases for box in axis.bar(span.begin, span.begin, span.label, style="begin")]
    return [*axis.bands(faults), *lines]


def _lane_strip(lane: TimelineLane, axis: TimeAxis) -> Strip:
    """A lane. The processes of a client stand low, its faults above them."""
    bars: list[Box] = []
    if lane.kind == "fault":
        bars = fault_bars(lane.spans, axis, WHOLE)
    elif lane.kind == "client":
        bars = fault_bars(lane.behind, axis, ABOVE)
        for span in lane.spans:
            bars += axis.bar(span.begin, span.end, f"process {span.label}", span.text, LOW, style="phase-2")
            if span.colour in colours.ENDED:
                bars += axis.bar(span.end, span.end, span.colour, span.text, style=span.colour)
    else:
        for number, span in enumerate(lane.spans):
            style = f"phase-{number % 2 + 1}" if lane.kind == "phase" else lane.kind
            bars += axis.bar(span.begin, span.end, span.label, span.text, style=style, word=span.label)
    return Strip(label=lane.label, note=_lane_note(lane), bars=bars)


def _lane_note(lane: TimelineLane) -> str:
    if lane.kind == "client":
        return wording.count(len(lane.spans), "process", "processes")
    if lane.kind == "stall":
        return f"longest {max(span.end - span.begin for span in lane.spans):.1f} s"
    return wording.count(len(lane.spans), "fault") if lane.kind == "fault" else ""


def fault_bars(spans: Sequence[Span], axis: TimeAxis, part: tuple[float, float]) -> list[Box]:
    """Faults with their names, which may reach to the next fault of the row."""
    rooms = [*(span.begin for span in spans[1:]), axis.end]
    bars: list[Box] = []
    for span, room in zip(spans, rooms, strict=False):
        detail = f"{span.text}; never healed" if span.open else span.text
        name, colour = span.label, span.colour
        bars += axis.bar(
            span.begin, span.end, name, detail, part, room, colour=colour, style="fault", word=name
        )
    return bars


def held(spans: list[Span], axis: TimeAxis, part: tuple[float, float]) -> list[Box]:
    """Nodes that held a role."""
    bars: list[Box] = []
    for span in coalesced(spans):
        colour = colours.node(span.label)
        name, ink = _holder(span.label), colours.ink_on(colour)
        bars += axis.bar(span.begin, span.end, name, span.text, part, colour=colour, word=span.label, ink=ink)
    return bars


def _holder(label: str) -> str:
    return f"node {label}" if label.isdigit() else {"none": "no leader known"}.get(label, label)


def partition_strip(partition: PartitionTimeline, of: ClusterTimeline, axis: TimeAxis) -> Strip:
    """Leaders of a partition above its in-sync replicas."""
    bars = held(partition.leaders, axis, ABOVE)
    for span in coalesced(partition.isr):
        style = of.isr_colour(partition, span).removeprefix("var(--").removesuffix(")")
        name = f"in sync: {span.label or 'none'}"
        bars += axis.bar(span.begin, span.end, name, span.text, LOW, style=style, word=span.label or "none")
    sizes = dict.fromkeys((partition.least_isr, partition.replicas))
    note = f"in sync {' to '.join(map(str, sizes))}" if partition.isr else ""
    return Strip(label=_tail(partition.name), note=note, bars=bars)


def _tail(name: str) -> str:
    """The end of a long name: partitions differ there."""
    return name if len(name) <= LABEL_MOST else "…" + name[1 - LABEL_MOST :]


def cluster_key(of: ClusterTimeline, partitions: Iterable[PartitionTimeline]) -> list[tuple[str, str]]:
    """What the colours of the rows of partitions mean."""
    shown = list(partitions)
    holders = {span.label for partition in shown for span in partition.leaders}
    holders |= {span.label for span in of.controller}
    nodes = sorted((label for label in holders if label.isdigit()), key=int)
    key = [(colours.node(label), _holder(label)) for label in nodes]
    if "none" in holders:
        key.append((colours.NO_NODE, _holder("none")))
    meanings = {
        colours.ISR_FULL: "all replicas in sync",
        colours.ISR_SHRUNK: "fewer in sync",
        colours.ISR_UNDER: f"fewer than min.insync.replicas ({of.min_isr})",
    }
    seen = {of.isr_colour(partition, span) for partition in shown for span in partition.isr}
    return key + [(colour, text) for colour, text in meanings.items() if colour in seen]
