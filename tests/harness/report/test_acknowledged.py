"""An acknowledged offset is a moment of its leader's log, where it is known for certain who that was."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.op import TopicPartition
from harness.report import inputs
from harness.report.drawing import held
from harness.report.drawing.strips import TimeAxis
from harness.report.evidence import acknowledged, replicas
from harness.report.evidence.replicas import ReplicaEnds, ReplicaMoment
from harness.report.inputs import Inputs
from history import trace as tr
from history.events import ClockJumped, Event, RolesSeen
from history.replica_lines import ReplicaLine
from tests.histories import traced

S = 1_000_000_000
INF = float("inf")


def line(at: float, node: int, end: int = 0, *, leads: bool = True, cut: bool = False) -> ReplicaLine:
    wall = datetime.fromtimestamp(at, UTC)
    return ReplicaLine(node=node, wall=wall, end=end, high=-1, cut=cut, leads=leads and not cut)


def named(at: float, node: int) -> RolesSeen:
    seen: dict[str, Any] = {"isr": {}, "controller": 1, "answering": (1,), "agreed": True}
    return RolesSeen(ns=round(at * S), leaders={"x-0": node}, **seen)


def made(*events: Event, sut: str = "kafka") -> Inputs:
    verdict = SimpleNamespace(config={"sut": sut})
    clock = {"seconds": lambda ns: ns / S, "seconds_of_clock": lambda ms: ms / 1e3}
    return cast("Inputs", SimpleNamespace(run=None, events=[*events], verdict=verdict, **clock))


MOVED = [line(1.0, 2), line(1.1, 3, leads=False), line(9.0, 3), line(12.0, 2, leads=False)]
"""Node 2 leads; node 3 is elected at 9 s, which node 2 hears 3 s later."""
SEEN = [named(0.5, -1), named(2.0, 2), named(9.5, 3)]


@pytest.mark.parametrize(
    ("lines", "events", "sut", "alone"),
    [
        (MOVED, SEEN, "kafka", [(0.9, 8.9, 2), (12.1, INF, 3)]),
        (MOVED, [named(0.2, 2), *SEEN], "kafka", [(0.9, 8.9, 2), (12.1, INF, 3)]),  # it had not begun to lead
        ([*MOVED, line(30.0, 1)], [*SEEN, named(14.0, 1)], "kafka", []),  # it had no reason to wait so long
        (MOVED[:3], SEEN, "kafka", [(0.9, 8.9, 2)]),  # node 2 may answer for ever
        ([*MOVED, line(15.0, 3), line(16.0, 2)], SEEN, "kafka", [(0.9, 8.9, 2), (12.1, 15.9, 3)]),
        ([*MOVED, line(5.0, 2, cut=True)], SEEN, "kafka", [(0.9, 8.9, 2), (12.1, INF, 3)]),
        (MOVED, [*SEEN, named(11.0, 1)], "kafka", []),  # whose log is not there
        ([line(9.0, 3), *MOVED[3:]], SEEN, "kafka", []),  # the log of node 2 begins too late
        (MOVED, [*SEEN, ClockJumped(before_ns=1, ns=2, wall_s=3.0)], "kafka", []),
        (MOVED, SEEN, "external", []),  # its nodes have clocks of their own
        ([], SEEN, "kafka", []),
    ],
)
def test_one_node_alone_may_have_answered(
    lines: list[ReplicaLine],
    events: list[Event],
    sut: str,
    alone: list[tuple[float, float, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acknowledged, "replica_lines", lambda *_: lines)
    found = acknowledged.alone(made(*events, sut=sut), "x-0")
    assert [(round(begin, 3), round(end, 3), node) for begin, end, node in found] == alone


def as_logged(read: Inputs, partition: str) -> list[ReplicaLine]:
    """What brokers would log of the replicas of a simulated run."""
    assert read.trace is not None
    last: dict[int, tr.TracedReplica] = {}
    lines = []
    for one in read.trace.states:
        if not isinstance(one, tr.TracedReplica) or one.partition != partition:
            continue
        at, before = read.start_ms / 1e3 + read.seconds(one.ns), last.get(one.node)
        last[one.node] = one
        if before is not None and one.end < before.end:
            lines.append(line(at, one.node, one.end, cut=True))
        if one.role != tr.IDLE and (before is None or (before.role, before.epoch) != (one.role, one.epoch)):
            end = one.end if before is None else before.end
            lines.append(line(at, one.node, end, leads=one.role == tr.LEADER))
    return lines


@pytest.mark.sampled(48)
def test_each_moment_is_true_of_the_log_of_its_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace of a simulated run says how far each log reached; from what brokers log, and the clients'
    history, the same is said where something is."""
    read = inputs.read(traced.recorded(tmp_path / "run", traced.losing()))
    assert read.trace is not None
    monkeypatch.setattr(acknowledged, "replica_lines", lambda _, partition: as_logged(read, partition))
    monkeypatch.setattr(replicas, "replica_lines", lambda _, partition: as_logged(read, partition))
    bare = dataclasses.replace(read, trace=None, evidence=None)
    states = [
        one for one in read.trace.states if isinstance(one, tr.TracedReplica) and one.partition == "queue-0"
    ]
    answered = []
    for least in (0, 100, 4000, 4112, 5000, 7700, 7773):
        for node, at, offset in acknowledged.offsets(bare, TopicPartition("queue", 0), least):
            last = [one for one in states if one.node == node and read.seconds(one.ns) <= at + 1e-6][-1]
            assert last.end > offset >= least
            assert last.role in (tr.LEADER, tr.IDLE)
            answered.append(at)
    elected = [at for at, _ in replicas.leaders(read, "queue-0")]
    assert any(at < elected[1] for at in answered)
    assert any(at > elected[3] for at in answered)
    lost = replicas.build(bare, "queue-0", 4112)
    assert lost is not None
    (first, *_) = [moment for moment in lost.moments[1] if moment.end > lost.offset]
    assert first.least, "before it logged anything of this record, it acknowledged it"


def test_how_far_a_log_reached_at_least_is_no_more_than_that() -> None:
    moments = [
        ReplicaMoment(2.0, 8, least=True), ReplicaMoment(4.0, 9, least=True), ReplicaMoment(5.0, 2, cut=True),
        ReplicaMoment(6.0, 9, 9), ReplicaMoment(7.0, 9, least=True), ReplicaMoment(8.0, 9, 9),
    ]  # fmt: skip
    ends = ReplicaEnds(partition="x-0", offset=5, whole=False, moments={1: moments, 2: moments[:2]})
    strip, other = held.replica_strips(ends, TimeAxis(0.0, 10.0))
    bars = {box.style: box for box in strip.bars}
    assert (bars[held.HAS].x, bars[held.HAS].width, bars[held.HAS].detail) == (
        2.0, 3.0, "its log ends at 9 or later"
    )  # fmt: skip
    assert (bars[held.HIGH].x, bars[held.HIGH].width) == (6.0, 2.0), "nothing is said of the high watermark"
    assert (strip.note, other.note) == ("cut off, 9+ → 2", "past it at 4.000 s")
