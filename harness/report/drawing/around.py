"""What surrounds a finding: the ops of its witness, its transactions, their records and polls."""

from collections.abc import Sequence

from harness.report import wording
from harness.report.drawing.strips import Box, Drawing, Strip, TimeAxis
from harness.report.evidence.transactions import TransactionLane, TransactionTimeline
from history.verdict import Example, Fault

WITNESS_ROWS_MAX = 16
NOTES_MAX = 4


def witness(example: Example, faults: Sequence[Fault]) -> Drawing | None:
    """The ops of a witness as bars, one row each, the faults in force behind them."""
    ops = example.ops[:WITNESS_ROWS_MAX]
    if not ops:
        return None
    times = [op.begin_s for op in ops] + [op.end_s for op in ops if op.end_s is not None]
    if example.at_s is not None:
        times.append(example.at_s)
    pad = max((max(times) - min(times)) * 0.04, 0.001)
    axis = TimeAxis(min(times) - pad, max(times) + pad)
    strips = []
    for op in ops:
        stop = axis.end if op.end_s is None else op.end_s
        took = "never completed" if op.end_s is None else f"{(stop - op.begin_s) * 1e3:.1f} ms"
        style = f"op-{op.outcome}" if op.outcome in ("ok", "fail", "info") else "op-info"
        strips.append(
            Strip(
                label=f"op {op.op}",
                note=f"{op.f} {op.outcome}, process {op.process}",
                bars=axis.bar(op.begin_s, stop, f"{op.f} {op.outcome}", took, style=style),
                behind=axis.of_client(faults, op.slot),
            )
        )
    return Drawing(axis=axis, strips=strips, behind=axis.in_force(faults))


def transactions(timeline: TransactionTimeline, faults: Sequence[Fault]) -> Drawing:
    """Transactions, records and polls around a finding, faults behind: those of clients only behind
    the clients that they hit."""
    axis = TimeAxis(timeline.begin, timeline.end)
    strips = []
    for lane in timeline.lanes:
        bars: list[Box] = []
        for each in lane.bars:
            lasted = f"{(each.end - each.begin) * 1e3:.1f} ms" if each.completed else "never completed"
            style = f"txn-{each.style}" + (" subject" if each.subject else "")
            bars += axis.bar(each.begin, each.end, each.text, lasted, style=style)
        behind = axis.of_client(faults, lane.slot)
        strips.append(Strip(label=lane.label, note=_subjects(lane), bars=bars, behind=behind))
    return Drawing(axis=axis, strips=strips, behind=axis.in_force(faults))


def _subjects(lane: TransactionLane) -> str:
    """Beside a lane: which of its bars are the finding's."""
    ops = [str(bar.op) for bar in lane.bars if bar.subject]
    more = f" +{len(ops) - NOTES_MAX}" if len(ops) > NOTES_MAX else ""
    if lane.kind == "reader":
        given = sum(bar.style == "read" for bar in lane.bars)
        return f"{wording.count(given, 'poll')} with its records" if given else ""
    return f"op {', '.join(ops[:NOTES_MAX])}{more}" if ops else ""
