"""Who held a record when, and how a transaction ended: rows below the seconds of a finding."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace

from harness.report import colours
from harness.report.drawing.strips import ABOVE, LOW, WHOLE, Box, Strip, TimeAxis
from harness.report.evidence.decisions import DONE, CoordinatorDecisions, WrittenPart
from harness.report.evidence.group_offsets import GroupOffsets
from harness.report.evidence.replicas import ReplicaEnds, ReplicaMoment

HAS, AGAIN, HIGH, CUT = "has", "again", "high", "damage"
"""Classes of the style sheet."""
STYLES = {"Ongoing": "txn-idle", "PrepareCommit": "txn-ok", "CompleteCommit": "txn-ok"}
"""Of states of a coordinator's log that are not about aborting."""


def replica_strips(ends: ReplicaEnds, axis: TimeAxis) -> list[Strip]:
    """A row for each replica: whether its log reached past the record, and below it its high watermark."""
    return [_replica_strip(node, mine, ends, axis) for node, mine in ends.moments.items()]


def _replica_strip(node: int, mine: list[ReplicaMoment], ends: ReplicaEnds, axis: TimeAxis) -> Strip:
    offset, note = ends.offset, _note(mine[-1], ends.offset)
    last = replace(mine[-1], at=axis.end if ends.whole else mine[-1].at, cut=False)
    pairs = list(itertools.pairwise([*mine, last]))
    cuts = [(a, b) for a, b in pairs if b.cut and a.end > offset >= b.end]
    first_cut = cuts[0][1].at if cuts else math.inf
    has = _joined((a, b, ends.whole or b.end > offset or b.cut) for a, b in pairs if a.up and a.end > offset)
    told = itertools.pairwise(one for one in [*mine, last] if not one.least)
    high = _joined((a, b, ends.whole or b.high > offset) for a, b in told if a.up and a.high > offset)
    bars: list[Box] = []
    for begin, end, moment in has:
        style, more = (AGAIN, ", after it was cut") if begin >= first_cut else (HAS, "")
        name, words = f"node {node} reaches past offset {offset}", f"its log ends at {moment.ended}{more}"
        bars += axis.bar(begin, end, name, words, ABOVE, style=style)
    for begin, end, moment in high:
        words = f"{moment.high}, past offset {offset}"
        bars += axis.bar(begin, end, f"node {node}: high watermark", words, LOW, style=HIGH)
    for before, after in cuts:
        words = f"its log ended at {before.ended}, and was cut to {after.end}"
        bars += axis.bar(after.at, after.at, f"node {node} cuts its log", words, WHOLE, style=CUT)
        note = f"cut off, {before.end}{'+' * before.least} → {after.end}"
    return Strip(label=f"node {node}", note=note, bars=bars)


def _joined(
    held: Iterable[tuple[ReplicaMoment, ReplicaMoment, bool]],
) -> list[tuple[float, float, ReplicaMoment]]:
    """Spans from moments that follow each other, with the last moment of each. The flag: it is known to have
    held until the next one."""
    spans: list[tuple[float, float, ReplicaMoment]] = []
    for before, after, until in held:
        end = after.at if until else before.at
        if spans and spans[-1][1] >= before.at:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]), before)
        else:
            spans.append((before.at, end, before))
    return spans


def _note(last: ReplicaMoment, offset: int) -> str:
    if last.least:
        return f"past it at {last.at:.3f} s"
    return "past it at the end" if last.end > offset else f"ends at {last.end}"


def replica_key(ends: ReplicaEnds) -> list[tuple[str, str]]:
    """What the colours of these rows mean."""
    return [
        ("var(--held)", f"the log reaches past offset {ends.offset}"),
        ("var(--held-again)", "again, after it was cut off"),
        ("var(--held-high)", "below: the high watermark is past it"),
        ("var(--anomaly)", "cut off"),
    ]


def decision_strips(found: CoordinatorDecisions, axis: TimeAxis) -> list[Strip]:
    """What the coordinator decided, and below it a row for each partition, from its records to its marker."""
    bars: list[Box] = []
    stops = [*(at for at, _ in found.states[1:]), axis.end]
    for (at, state), stop in zip(found.states, stops, strict=True):
        if state not in DONE:
            style = STYLES.get(state, "txn-fail")
            bars += axis.bar(at, stop, state, found.transactional_id, style=style, word=state)
    note = f"coordinator of {found.transactional_id}"
    strips = [Strip(label="decided", note=note, bars=bars)]
    return strips + [_partition_strip(name, some, axis) for name, some in found.partitions.items()]


def _partition_strip(name: str, written: list[WrittenPart], axis: TimeAxis) -> Strip:
    bars: list[Box] = []
    for one in written:
        records = f"offsets {one.first} to {one.last}, producer {one.producer}"
        if one.marker is None:
            bars += axis.bar(one.begin, axis.end, "no marker", records, style="txn-info", word="no marker")
            continue
        style = "txn-ok" if one.marker.commit else "txn-fail"
        word = "COMMIT" if one.marker.commit else "ABORT"
        bars += axis.bar(one.begin, one.marker.at, one.marker.words, records, style=style, word=word)
    ended = written[-1].marker.words if written[-1].marker else "no marker"
    return Strip(label=name, note=f"last drawn: {ended}" if len(written) > 1 else ended, bars=bars)


def decision_key(found: CoordinatorDecisions) -> list[tuple[str, str]]:
    """What the colours of these rows mean, those that occur."""
    markers = {
        one.marker.commit if one.marker else None for some in found.partitions.values() for one in some
    }
    states = {state for _, state in found.states}
    rows = [
        ("Ongoing" in states, "var(--phase-2)", "transaction open"),
        (True in markers or any("Commit" in state for state in states), "var(--series-1)", "committed"),
        (False in markers or any("Abort" in state for state in states), "var(--fail-2)", "aborted"),
        (None in markers, "var(--info-1)", "no marker"),
    ]
    return [(colour, text) for shown, colour, text in rows if shown]


COMMITTED = {"ABORT": CUT, "no marker": "txn-info"}
"""Styles of commits by the end of their transaction; others took effect."""


def offset_strips(found: GroupOffsets, axis: TimeAxis) -> list[Strip]:
    """Who coordinated the group, and what it committed in the partition."""
    bars: list[Box] = []
    stops = [*(since for since, _ in found.coordinators[1:]), axis.end]
    for (since, node), stop in zip(found.coordinators, stops, strict=True):
        label = str(node) if node >= 0 else "none"
        colour = colours.node(label)
        ink = colours.ink_on(colour)
        bars += axis.bar(since, stop, f"node {label}", found.log, colour=colour, word=label, ink=ink)
    commits: list[Box] = []
    until = [*(one.at for one in found.commits[1:]), axis.end]
    for one, stop in zip(found.commits, until, strict=True):
        style, told = COMMITTED.get(one.end, HIGH), f"{found.group}, offset {one.place} of {found.log}"
        words = f"committed {one.committed}" + (f", {one.end}" if one.end else "")
        commits += axis.bar(one.at, one.at, words, told, room=stop, style=style, word=str(one.committed))
    strips = [
        Strip(label="coordinator", note=found.log.strip("_"), bars=bars),
        Strip(label="committed", note=f"by {found.group} for {found.partition}", bars=commits),
    ]
    return [strip for strip in strips if strip.bars]


def offset_key(found: GroupOffsets) -> list[tuple[str, str]]:
    """What the colours of commits mean, those that occur."""
    ends = {one.end for one in found.commits}
    rows = [
        (bool(ends & {"", "COMMIT"}), "var(--held-high)", "offset committed"),
        ("ABORT" in ends, "var(--anomaly)", "in an aborted transaction"),
        ("no marker" in ends, "var(--info-1)", "in a transaction without marker"),
    ]
    return [(colour, text) for shown, colour, text in rows if shown]
