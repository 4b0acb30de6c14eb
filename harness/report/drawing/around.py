"""What surrounds a finding: the ops of its witness, its transactions, their records and polls."""

import itertools
from collections.abc import Sequence

from core.op import Phase
from harness.report import wording
from harness.report.drawing import held
from harness.report.drawing.run import cluster_key, fault_bars, partition_strip
from harness.report.drawing.strips import WHOLE, Box, Drawing, Strip, TimeAxis
from harness.report.evidence.decisions import CoordinatorDecisions
from harness.report.evidence.group_offsets import GroupOffsets
from harness.report.evidence.replicas import ReplicaEnds
from harness.report.evidence.transactions import TransactionLane, TransactionTimeline
from harness.report.records import Records
from harness.report.timeline.lanes import fault_lanes
from harness.report.timeline.numbers import Timeline
from history.verdict import Example, Fault, OpView

WITNESS_ROWS_MAX = 16
STORY_OPS_MAX = 5
STORY_PARTITIONS_MAX = 2
FINAL = Phase.FINAL.name.lower()
NOTES_MAX = 4
ALONE_S = 1.0
"""What is drawn on both sides of a finding that is about one moment."""
LONG_S = 60.0
"""An op that took longer does not make the drawing of a finding's seconds longer."""


def seconds(
    example: Example,
    ranges: Sequence[Records],
    near: Sequence[Fault],
    timeline: Timeline,
    ends: ReplicaEnds | None = None,
    decisions: CoordinatorDecisions | None = None,
    offsets: GroupOffsets | None = None,
) -> Drawing | None:
    """The seconds of a finding: faults next to it, its records, the leaders of their partitions, how far the
    replicas of its record reached, what was decided about its transaction, its ops. Of a group: its
    coordinators and commits instead of the leaders.

    None where no time of it is on record.
    """
    ops = example.ops[:STORY_OPS_MAX]
    about = [] if decisions else ranges[:STORY_PARTITIONS_MAX]
    times = [at for one in about for at in (one.begin, one.end) if at is not None]
    during = [op for op in ops if op.phase != FINAL] or ops
    times += [at for op in during for at in (op.begin_s, op.end_s) if at is not None]
    times += [example.at_s] if example.at_s is not None else []
    times = times or (decisions.times if decisions else [])
    if not times:
        return None
    first = min(times)
    times = [at for at in times if at <= first + LONG_S]
    times += [one.next_at for one in about if one.next_at is not None]
    times += [at for fault in near for at in (fault.begin_s, fault.end_s) if at is not None]
    times += ends.cuts if ends else []
    times += decisions.times if decisions else []
    times = [at for at in times if abs(at - first) <= LONG_S]
    pad = max((max(times) - min(times)) * 0.06, 0.02) if min(times) < max(times) else ALONE_S
    axis = TimeAxis(max(min(times) - pad, 0.0), max(times) + pad)
    strips = [
        Strip(label=lane.label, bars=fault_bars(lane.spans, axis, WHOLE))
        for lane in fault_lanes(near, axis.end, axis.length / 100)
    ]
    names = list(dict.fromkeys([*(one.partition for one in ranges), example.partition]))
    cluster = timeline.cluster
    partitions = [one for one in cluster.partitions if one.name in names]
    partitions.sort(key=lambda one: names.index(one.name))
    shown = [] if offsets else partitions[:STORY_PARTITIONS_MAX]
    strips += held.offset_strips(offsets, axis) if offsets else []
    strips += [partition_strip(one, cluster, axis) for one in shown]
    strips += [
        _acknowledged(partition, list(some), axis)
        for partition, some in itertools.groupby(
            sorted(
                (one for one in ranges if one.begin is not None), key=lambda one: names.index(one.partition)
            ),
            key=lambda one: one.partition,
        )
    ][:STORY_PARTITIONS_MAX]
    strips += held.replica_strips(ends, axis) if ends else []
    strips += held.decision_strips(decisions, axis) if decisions else []
    strips += [_op_strip(op, axis, near) for op in ops if op.begin_s <= axis.end]
    if not strips:
        return None
    key = cluster_key(cluster, shown) if shown else []
    key += held.replica_key(ends) if ends else []
    key += held.decision_key(decisions) if decisions else []
    key += held.offset_key(offsets) if offsets else []
    return Drawing(axis=axis, strips=strips, behind=axis.in_force(near), key=key)


def _acknowledged(partition: str, ranges: Sequence[Records], axis: TimeAxis) -> Strip:
    """When the records of findings were acknowledged."""
    bars: list[Box] = []
    for one in ranges:
        if one.begin is not None and one.end is not None:
            name = f"{wording.count(one.count, 'record')} acknowledged"
            bars += axis.bar(one.begin, one.end, name, one.partition, style="damage")
    return Strip(label="records", note=f"of {partition}, acknowledged", bars=bars)


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
    strips = [_op_strip(op, axis, faults) for op in ops]
    return Drawing(axis=axis, strips=strips, behind=axis.in_force(faults))


def _op_strip(op: OpView, axis: TimeAxis, faults: Sequence[Fault]) -> Strip:
    stop = axis.end if op.end_s is None else op.end_s
    took = "never completed" if op.end_s is None else f"{(stop - op.begin_s) * 1e3:.1f} ms"
    style = f"op-{op.outcome}" if op.outcome in ("ok", "fail", "info") else "op-info"
    return Strip(
        label=f"op {op.op}",
        note=f"{op.f} {op.outcome}, process {op.process}",
        bars=axis.bar(op.begin_s, stop, f"{op.f} {op.outcome}", took, style=style),
        behind=axis.of_client(faults, op.slot),
    )


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
