"""Lanes of the timeline: what held when, as spans that do not overlap: phases, faults, stalls, clients.

Times are seconds since the start of the run.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from core.op import End, Phase
from harness.report.inputs import Inputs
from harness.report.wording import hits
from history.events import PhaseStarted
from history.reader import Process
from history.verdict import Fault, Stall, Verdict

CLIENTS_MAX = 12
FAULT_LANES_MAX = 5
STALL_LANES_MAX = 3
LETTERS = 165
"""Letters that fit into the width of the timeline on a wide screen."""
SPANS_MAX = 300
"""A lane with more spans is thinned: short neighbours are shown as one."""
PHASES = {
    Phase.SETUP: "the cluster starts",
    Phase.WARMUP: "first ops, no faults",
    Phase.FAULTS: "ops under faults",
    Phase.HEAL: "the harness heals all faults",
    Phase.RECOVER: "the harness waits until every partition is served again",
    Phase.QUIESCE: "clients are closed; the harness waits until the logs no longer change",
    Phase.FINAL: "fresh consumers read every partition to its end",
    Phase.COLLECT: "the harness collects the logs of the nodes",
    Phase.SEAL: "the harness writes the tables of the history",
}
ENDINGS = {
    End.CLOSED: "closed in order",
    End.REPLACED: "replaced after an op with an unknown outcome or a fatal error",
    End.CRASHED: "crashed with its worker process, or cut short",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Something that held from `begin` to `end`; `open`: it still held when the run ended; `short`:
    its label where there is little room."""

    begin: float
    end: float
    label: str
    text: str = ""
    colour: str = ""
    open: bool = False
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """One row of spans that do not overlap. `named`: there is room for their names. `behind`: faults
    that hit only this row (clients)."""

    label: str
    kind: str
    spans: list[Span]
    named: bool = False
    behind: list[Span] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCount:
    """How many clients have a lane; how many that were hit or replaced have none."""

    shown: int = 0
    left_out: int = 0


def build(inputs: Inputs, begin: float, end: float) -> tuple[list[TimelineLane], ClientCount]:
    """All lanes of a run, and how many clients have one."""
    whole = [fault for fault in inputs.verdict.faults if not clients_only(fault)]
    faults = fault_lanes(whole, end, (end - begin) / LETTERS)
    clients, counted = _client_lanes(inputs, end, (end - begin) / LETTERS)
    every = [*_phase_lane(inputs, end), *faults, *_stall_lanes(inputs.verdict), *clients]
    return [
        replace(lane, spans=coalesced(lane.spans), behind=coalesced(lane.behind)) for lane in every
    ], counted


def clients_only(fault: Fault) -> bool:
    """Whether a fault hit clients and no node: it is no matter of the whole cluster."""
    return bool(fault.slots) and not fault.nodes


def _phase_lane(inputs: Inputs, end: float) -> list[TimelineLane]:
    starts = [event for event in inputs.events if isinstance(event, PhaseStarted)]
    times = [*(inputs.seconds(event.ns) for event in starts), end]
    spans = [
        Span(begin, stop, event.phase.name.lower(), PHASES[event.phase])
        for event, begin, stop in zip(starts, times, times[1:], strict=False)
    ]
    return [TimelineLane(label="phase", kind="phase", spans=spans)] if spans else []


def fault_lanes(faults: Sequence[Fault], end: float, label_s: float = 0.0) -> list[TimelineLane]:
    """Faults in as few lanes as show each in full. label_s: time that a letter of a name takes in
    the drawing; names get room, unless that took more than `FAULT_LANES_MAX` lanes."""
    lanes: list[list[Span]] = []
    for fault in sorted(faults, key=lambda fault: (fault.begin_s, fault.fault)):
        span = fault_span(fault, end)
        lane = next((lane for lane in lanes if _needs(lane[-1], label_s) <= span.begin), None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    if label_s and len(lanes) > FAULT_LANES_MAX:
        return fault_lanes(faults, end)
    return [
        TimelineLane(label="faults" if number == 0 else "", kind="fault", spans=spans, named=label_s > 0)
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
    short = min(span.short for span in group)
    return Span(group[0].begin, group[-1].end, label, text, group[0].colour, group[-1].open, short)


def fault_span(fault: Fault, end: float) -> Span:
    """The time in which a fault was in force."""
    stop = end if fault.end_s is None else max(fault.end_s, fault.begin_s)
    text = f"{fault.text}; it hit: {hits(fault.hits)}" if fault.hits else fault.text
    return Span(fault.begin_s, stop, fault.name, text, fault.colour, fault.end_s is None, str(fault.fault))


def _stall_lanes(verdict: Verdict) -> list[TimelineLane]:
    """Times without any acknowledgement: of the whole run in one lane, of partitions below it."""
    whole = [stall for stall in verdict.liveness.stalls if not stall.partition]
    parts = [stall for stall in verdict.liveness.stalls if stall.partition]
    lanes = [TimelineLane(label="stalls", kind="stall", spans=spans) for spans in _packed(whole, 1)]
    lanes += [
        TimelineLane(label="" if number else "partitions", kind="stall", spans=spans)
        for number, spans in enumerate(_packed(parts, STALL_LANES_MAX))
    ]
    return lanes


def _packed(stalls: Sequence[Stall], most: int) -> list[list[Span]]:
    """Stalls in lanes in which they do not overlap; the shorter ones that find none are left out."""
    lanes: list[list[Span]] = []
    for stall in sorted(stalls, key=lambda stall: (stall.begin_s - stall.end_s, stall.begin_s)):
        name = stall.partition or "nothing acknowledged"
        span = Span(stall.begin_s, stall.end_s, name, _during(stall))
        apart = (lane for lane in lanes if all(span.end <= o.begin or o.end <= span.begin for o in lane))
        lane = next(apart, None)
        if lane is not None:
            lane.append(span)
        elif len(lanes) < most:
            lanes.append([span])
    return [sorted(lane, key=lambda span: span.begin) for lane in lanes]


def _during(stall: Stall) -> str:
    where = f"of {stall.partition}" if stall.partition else "in the whole run"
    faults = f", under fault {', '.join(map(str, stall.faults))}" if stall.faults else ""
    return f"records waited, and no broker acknowledged any {where}{faults}"


def _client_lanes(inputs: Inputs, end: float, label_s: float) -> tuple[list[TimelineLane], ClientCount]:
    """Lanes of the clients that a fault hit or whose process was replaced, those hit first."""
    hit: dict[int, list[Span]] = defaultdict(list)
    for fault in inputs.verdict.faults:
        for slot in fault.slots:
            hit[slot].append(fault_span(fault, end))
    by: dict[int, list[Process]] = defaultdict(list)
    for process in inputs.history.processes.values() if inputs.history else ():
        by[process.slot].append(process)
    ended = {slot for slot, rows in by.items() if len(rows) > 1 or rows[0].end is End.CRASHED}
    slots = sorted(hit.keys() | ended, key=lambda s: (s not in hit, -len(by[s]), s))
    lanes = [_client_lane(inputs, slot, by[slot], hit[slot], label_s) for slot in sorted(slots[:CLIENTS_MAX])]
    return lanes, ClientCount(shown=len(lanes), left_out=len(slots) - len(lanes))


def _client_lane(
    inputs: Inputs, slot: int, processes: Iterable[Process], faults: list[Span], label_s: float
) -> TimelineLane:
    """One client: its processes, and the faults behind them, with names where there is room."""
    spans = []
    for process in processes:
        begin, end = inputs.seconds(process.start_ns), inputs.seconds(max(process.end_ns, process.start_ns))
        said = ", ".join(filter(None, (process.transactional_id, process.level, ENDINGS[process.end])))
        spans.append(Span(begin, end, str(process.process), said, process.end.name.lower()))
    spans.sort(key=lambda span: span.begin)
    behind = sorted(faults, key=lambda span: span.begin)
    roomy = all(_needs(a, label_s) <= b.begin for a, b in itertools.pairwise(behind))
    return TimelineLane(label=f"client {slot}", kind="client", spans=spans, named=roomy, behind=behind)
