"""Lanes of the timeline: what held when, as spans that do not overlap: phases, faults, who led what.

Times are seconds since the start of the run.

Not here: what was done per bin (`timeline`), drawing (`figures`, `static`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.events import PhaseStarted, RolesSeen
from harness.op import Phase
from harness.report.inputs import Inputs
from harness.verdict import Fault

LANES_MAX = 12
FAULT_LANES_MAX = 5
LETTERS = 165
"""Letters that fit into the width of the timeline on a wide screen."""
SPANS_MAX = 300
"""A lane with more spans is thinned: short neighbours are shown as one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that held from `begin` to `end`; `open`: it still held when the run ended; `short`:
    its label where there is little room."""

    begin: float
    end: float
    label: str
    text: str
    colour: str
    open: bool = False
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One row of spans that do not overlap. `named`: there is room for their names."""

    label: str
    kind: str
    spans: list[Span]
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """How often leaders of partitions changed; of how many partitions lanes are shown, or not."""

    changes: int = 0
    shown: int = 0
    left_out: int = 0


def build(inputs: Inputs, begin: float, end: float) -> tuple[list[Lane], Roles]:
    """All lanes of a run, and what is to be known of the roles."""
    faults = fault_lanes(inputs.verdict.faults, end, (end - begin) / LETTERS)
    lanes, roles = _role_lanes(inputs, end)
    every = [*_phase_lane(inputs, end), *faults, *lanes]
    return [replace(lane, spans=coalesced(lane.spans)) for lane in every], roles


def _phase_lane(inputs: Inputs, end: float) -> list[Lane]:
    starts = [event for event in inputs.events if isinstance(event, PhaseStarted)]
    times = [*(inputs.seconds(event.ns) for event in starts), end]
    spans = [
        Span(begin, stop, event.phase.name.lower(), _phase_text(event.phase), "")
        for event, begin, stop in zip(starts, times, times[1:], strict=False)
    ]
    return [Lane(label="phase", kind="phase", spans=spans)] if spans else []


def _phase_text(phase: Phase) -> str:
    return {
        Phase.SETUP: "the cluster starts",
        Phase.WARMUP: "first ops, no faults",
        Phase.FAULTS: "ops under faults",
        Phase.HEAL: "all faults are taken back",
        Phase.RECOVER: "waiting until every partition works again",
        Phase.QUIESCE: "clients closed; waiting until nothing changes",
        Phase.FINAL: "fresh consumers read every partition to its end",
        Phase.COLLECT: "logs are collected",
        Phase.SEAL: "the history is sealed",
    }[phase]


def fault_lanes(faults: Sequence[Fault], end: float, label_s: float = 0.0) -> list[Lane]:
    """Faults in as few lanes as show each in full. label_s: time that a letter of a name takes in
    the drawing; names get room, unless that took more than `FAULT_LANES_MAX` lanes."""
    lanes: list[list[Span]] = []
    for fault in sorted(faults, key=lambda fault: (fault.begin_s, fault.fault)):
        stop = end if fault.end_s is None else max(fault.end_s, fault.begin_s)
        span = Span(
            fault.begin_s, stop, fault.name, fault.text, fault.colour, fault.end_s is None,
            str(fault.fault),
        )  # fmt: skip
        lane = next((lane for lane in lanes if _needs(lane[-1], label_s) <= span.begin), None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    if label_s and len(lanes) > FAULT_LANES_MAX:
        return fault_lanes(faults, end)
    return [
        Lane(label="faults" if number == 0 else "", kind="fault", spans=spans, named=label_s > 0)
        for number, spans in enumerate(lanes)
    ]


def _needs(span: Span, label_s: float) -> float:
    """Until when a span and its name need their lane."""
    return max(span.end, span.begin + label_s * (len(span.label) + 2))


def coalesced(spans: list[Span]) -> list[Span]:
    """At most twice `SPANS_MAX` spans: neighbours too short to tell apart become one."""
    if len(spans) <= SPANS_MAX:
        return spans
    least = (spans[-1].end - spans[0].begin) / SPANS_MAX
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span.end - groups[-1][0].begin <= least:
            groups[-1].append(span)
        else:
            groups.append([span])
    return [group[0] if len(group) == 1 else _several(group) for group in groups]


def _several(group: list[Span]) -> Span:
    labels = {span.label for span in group}
    label = group[0].label if len(labels) == 1 else "several"
    text = f"{len(group)} in a row: {', '.join(sorted(labels)[:8])}"
    return Span(group[0].begin, group[-1].end, label, text, group[0].colour, group[-1].open)


def _role_lanes(inputs: Inputs, end: float) -> tuple[list[Lane], Roles]:
    """Lanes of the controller and of the partitions whose leader changed most."""
    seen = [event for event in inputs.events if isinstance(event, RolesSeen)]
    if not seen:
        return [], Roles()
    keys = {key for event in seen for key in event.leaders if not key.startswith("__")}
    held = {
        key: _held([(inputs.seconds(e.ns), e.leaders[key]) for e in seen if key in e.leaders], end)
        for key in keys
    }
    changes = {key: _changes(spans) for key, spans in held.items()}
    shown = sorted(keys, key=lambda key: (-changes[key], _natural(key)))[:LANES_MAX]
    controller = _held([(inputs.seconds(e.ns), e.controller) for e in seen], end)
    lanes = [Lane(label="controller", kind="controller", spans=controller)]
    lanes += [
        Lane(label=key, kind="leader", spans=held[key]) for key in sorted(shown, key=_natural)
    ]
    return lanes, Roles(
        changes=sum(changes.values()), shown=len(shown), left_out=len(keys) - len(shown)
    )


def _held(points: list[tuple[float, int]], end: float) -> list[Span]:
    """Spans of one holder from what was seen at points in time; -1 = nobody known."""
    spans: list[Span] = []
    for position, (begin, node) in enumerate(points):
        stop = points[position + 1][0] if position + 1 < len(points) else max(end, begin)
        label = str(node) if node >= 0 else "none"
        if spans and spans[-1].label == label:
            begin = spans.pop().begin
        spans.append(Span(begin, stop, label, "", ""))
    return spans


def _changes(spans: list[Span]) -> int:
    """How often the holder became another node; a gap without any is not a change by itself."""
    nodes = [span.label for span in spans if span.label != "none"]
    return sum(before != after for before, after in itertools.pairwise(nodes))


def _natural(key: str) -> tuple[str, int]:
    topic, _, number = key.rpartition("-")
    return (topic, int(number)) if number.isdigit() else (key, -1)
