"""A run in small: faults, stalls, and when findings were made, from its verdict alone."""

from harness.report.drawing.run import fault_bars
from harness.report.drawing.strips import WHOLE, Box, Drawing, Strip, TimeAxis
from harness.report.timeline.lanes import fault_lanes
from history.verdict import Verdict

FAULT_ROWS_MAX = 2


def run(verdict: Verdict) -> Drawing | None:
    """The run on one axis; None where the verdict names no time."""
    found = [
        (example.at_s, name)
        for name, anomaly in verdict.anomalies.items()
        for example in anomaly.examples
        if not example.allowed and example.at_s is not None
    ]
    stalls = [one for one in verdict.liveness.stalls if not one.partition]
    times = [at for at, _ in found] + [one.end_s for one in stalls]
    times += [at for one in verdict.faults for at in (one.begin_s, one.end_s) if at is not None]
    if not times:
        return None
    axis = TimeAxis(0.0, max(*times, verdict.stats.get("seconds recorded", 0.0), 1.0))
    lanes = fault_lanes(verdict.faults, axis.end, axis.length / 100)
    strips = [
        Strip(label="faults" if row == 0 else "", bars=fault_bars(lane.spans, axis, WHOLE))
        for row, lane in enumerate(lanes[:FAULT_ROWS_MAX])
    ]
    stalled = [b for s in stalls for b in axis.bar(s.begin_s, s.end_s, "no acknowledgement", style="stall")]
    marks: list[Box] = [box for at, name in found for box in axis.bar(at, at, name, style="damage")]
    strips += [Strip(label="stalls", bars=stalled)] if stalled else []
    strips += [Strip(label="found", bars=marks)] if marks else []
    return Drawing(axis=axis, strips=strips)
