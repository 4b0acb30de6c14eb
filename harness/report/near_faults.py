"""The faults next to a finding: in force when it came about, before, and after where that may explain it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.report.classes import DONE_BY_THEN
from harness.report.records import Records
from harness.report.traces import Traces
from history.verdict import NOT_RECOVERED, Example, Fault

Moments = tuple[str, str]
"""The first and the last moment of a finding, in words."""
OF_OPS: Moments = ("the example’s first op began", "the example’s last op ended")
TEXT_MOST = 200
"""A longer text of a fault is shortened."""
NEAR_S = 30.0
"""A fault that began or ended within this time of a finding is next to it."""


@dataclass(frozen=True, slots=True)
class NearFault:
    """A fault and how it stands to the findings in time. text: what was done."""

    fault: Fault
    when: str
    text: str = ""


def of_story(name: str, faults: Sequence[Fault], times: list[float], moments: Moments) -> list[NearFault]:
    """Those next to the findings of a class, the nearest first. times, moments: as `when` has them."""
    if name == NOT_RECOVERED:
        healed = [one for one in faults if one.end_s is not None and one.end_s < min(times, default=0.0)]
        found = [
            NearFault(one, f"ended {_span(min(times) - (one.end_s or 0))} before {moments[0]}")
            for one in sorted(healed, key=lambda one: one.end_s or 0, reverse=True)
        ]
    else:
        found = near(faults, times, moments)
        found.sort(key=lambda one: _apart(one.fault, min(times)))
    if name in DONE_BY_THEN:
        found = [one for one in found if one.fault.begin_s <= max(times)]
    return [replace(one, text=shortened(one.fault.text)) for one in found]


def when(name: str, traces: Traces, ranges: Sequence[Records]) -> tuple[list[float], Moments]:
    """When the findings of a class came about: during the ops of their example, where all had happened by
    their end; else when the records were acknowledged; and the first and the last moment in words."""
    ops = _of_ops(traces.example)
    if name in DONE_BY_THEN and ops:
        return ops, OF_OPS
    acked = [at for one in ranges[:1] for at in (one.begin, one.end) if at is not None]
    if not acked:
        return _moments(traces)
    row = "of these records" if len(ranges) == 1 else "record of row 1"
    return acked, (f"the first {row} was acknowledged", f"the last {row} was acknowledged")


def _of_ops(example: Example) -> list[float]:
    return [at for op in example.ops for at in (op.begin_s, op.end_s) if at is not None]


def _moments(traces: Traces) -> tuple[list[float], Moments]:
    """When a finding came about, as a group's commits, its ops or brokers' files tell; and that in words."""
    example, found, decided = traces.example, traces.offsets, traces.decided
    past = found.past if found else 0
    if found and past < len(found.commits):
        return [found.commits[past].at], ("the group committed past the record",) * 2
    times = times_of(example)
    if not times and decided and decided.states:
        return [decided.states[0][0]], ("the transaction began",) * 2
    if not times and traces.written is not None:
        return [traces.written], ("it was written",) * 2
    return times, moments_of(example)


def moments_of(example: Example) -> Moments:
    """What the times of an example are (`times_of`)."""
    return ("this was seen", "this was seen") if example.at_s is not None else OF_OPS


def times_of(example: Example) -> list[float]:
    """When the finding was made: at its own time, else during its ops."""
    if example.at_s is not None:
        return [example.at_s]
    return _of_ops(example)


def near(faults: Sequence[Fault], times: list[float], moments: Moments) -> list[NearFault]:
    """The faults in force then, the one that ended last before, the one that began next."""
    if not times:
        return []
    first, last = min(times), max(times, default=0.0)
    by_time = sorted(faults, key=lambda fault: fault.begin_s)
    found = [
        NearFault(fault, _meanwhile(fault, first, moments[0]))
        for fault in by_time
        if fault.begin_s <= last and (fault.end_s is None or fault.end_s >= first)
    ]
    before = [fault for fault in by_time if fault.end_s is not None and first - NEAR_S < fault.end_s < first]
    after = [fault for fault in by_time if last < fault.begin_s < last + NEAR_S]
    if before:
        ended = max(before, key=lambda fault: fault.end_s or 0)
        found.insert(0, NearFault(ended, f"ended {_span(first - (ended.end_s or 0))} before {moments[0]}"))
    if after:
        found.append(NearFault(after[0], f"began {_span(after[0].begin_s - last)} after {moments[1]}"))
    return found


def shortened(text: str) -> str:
    """What a fault did, without most of what its nodes were."""
    if len(text) <= TEXT_MOST:
        return text
    return re.sub(r"(node \d+ \([^()]{24})[^()]+\)", lambda found: f"{found[1].rstrip(' ,;')}…)", text)


def _apart(fault: Fault, at: float) -> float:
    """Seconds between a fault and a time; 0 = it was in force."""
    return max(fault.begin_s - at, at - (fault.end_s if fault.end_s is not None else at), 0.0)


def _meanwhile(fault: Fault, first: float, moment: str) -> str:
    if fault.begin_s > first:
        return f"began {_span(fault.begin_s - first)} after {moment}"
    return f"in force when {moment}"


def beside(example: Example, faults: Sequence[Fault]) -> list[NearFault]:
    """The faults next to an example that its witness does not name as in force."""
    return [
        one
        for one in near(faults, times_of(example), moments_of(example))
        if one.fault.fault not in example.faults
    ]


def _span(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
