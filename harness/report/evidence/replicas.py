"""How far each replica of a partition reached, around a record of a finding: the ends of its log over time.

A simulated run records every change. Of real brokers there are moments: what their logs say where a replica
leads, follows or is cut, offsets that a leader acknowledged from the record's on (where it is known for
certain which leader), offsets from which followers fetched (captured), and files that were taken. Between
two moments a replica had the record where both say so; where they differ, nothing is said of that time.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow.compute as pc

from core.errors import HistoryError
from core.op import TopicPartition
from harness.report.evidence import acknowledged
from harness.report.inputs import Inputs
from history import trace as tr
from history.events import RolesSeen
from history.evidence import Evidence
from history.evidence_tables import CLIENT, FETCH
from history.replica_lines import replica_lines


@dataclass(frozen=True, slots=True)
class ReplicaMoment:
    """What is known of a replica at one time. end: its log's end. high: its high watermark, -1 = not on
    record. cut: the log was cut to this end. up: its node did not stand still and was not down. least: it
    ended there or later."""

    at: float
    end: int
    high: int = -1
    cut: bool = False
    up: bool = True
    least: bool = False

    @property
    def ended(self) -> str:
        """Where its log ended, in words."""
        return f"{self.end} or later" if self.least else str(self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnds:
    """The replicas of a partition. offset: of the record. whole: every change is on record. moments: by node,
    in order of time. leaders: as (since when, node). passed: when the high watermark of a leader passed the
    record first, the leader, and the replicas in sync then; None = not on record."""

    partition: str
    offset: int
    whole: bool
    moments: dict[int, list[ReplicaMoment]] = field(default_factory=dict)
    leaders: list[tuple[float, int]] = field(default_factory=list)
    passed: tuple[float, int, tuple[int, ...]] | None = None

    @property
    def cuts(self) -> list[float]:
        """When replicas that had the record were first cut back to before it."""
        cuts = (
            next((b.at for a, b in itertools.pairwise(mine) if b.cut and a.end > self.offset >= b.end), None)
            for mine in self.moments.values()
        )
        return sorted(at for at in cuts if at is not None)

    @property
    def differ(self) -> bool:
        """Whether a replica was cut, or does not reach the record in the end."""
        return bool(self.cuts) or any(mine[-1].end <= self.offset for mine in self.moments.values())


def build(inputs: Inputs, partition: str, offset: int) -> ReplicaEnds | None:
    """The ends of the replicas of a partition; None where nothing of them is on record."""
    topic, _, number = partition.rpartition("-")
    if offset < 0 or not number.isdecimal():
        return None
    found: dict[int, list[ReplicaMoment]] = defaultdict(list)
    whole = inputs.trace is not None
    try:
        if inputs.trace is not None:
            moments = _traced(inputs, inputs.trace, partition)
        else:
            moments = _moments(inputs, TopicPartition(topic, int(number)), offset)
        for node, moment in moments:
            found[node].append(moment)
        led = leaders(inputs, partition)
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the ends of the replicas of {partition} are not shown.")
        return None
    for mine in found.values():
        mine.sort(key=lambda moment: moment.at)
    reached = any(moment.end > offset for mine in found.values() for moment in mine)
    ends = ReplicaEnds(
        partition=partition,
        offset=offset,
        whole=whole,
        moments=dict(sorted(found.items())),
        leaders=led,
        passed=_passed(inputs, inputs.trace, partition, offset) if inputs.trace is not None else None,
    )
    return ends if reached and ends.differ else None


def in_sync(inputs: Inputs, partition: str, node: int, at: float) -> tuple[int, ...]:
    """The in-sync replicas as a leader had them at a time, by the trace; () = not on record."""
    found: tuple[int, ...] = ()
    for one in inputs.trace.states if inputs.trace else ():
        if inputs.seconds(one.ns) > at:
            break
        if isinstance(one, tr.TracedReplica) and (one.partition, one.node) == (partition, node):
            found = one.isr
    return found


def _passed(
    inputs: Inputs, trace: tr.Trace, partition: str, offset: int
) -> tuple[float, int, tuple[int, ...]] | None:
    for one in trace.states:
        if not isinstance(one, tr.TracedReplica) or (one.partition, one.role) != (partition, tr.LEADER):
            continue
        if one.high > offset:
            return inputs.seconds(one.ns), one.node, one.isr
    return None


def leaders(inputs: Inputs, partition: str) -> list[tuple[float, int]]:
    """Who led a partition, as (since when, node): as `elected`, else as brokers answered when they were
    asked, which may be late. Raises: HistoryError."""
    return elected(inputs, partition) or _terms(
        (inputs.seconds(event.ns), node)
        for event in inputs.events
        if isinstance(event, RolesSeen) and (node := event.leaders.get(partition)) is not None
    )


def elected(inputs: Inputs, partition: str) -> list[tuple[float, int]]:
    """Who led a partition, as (since when, node): by the trace, else by brokers' logs, else by the metadata
    on their disks. Raises: HistoryError."""
    found: list[tuple[float, int]] = []
    if inputs.trace is not None:
        found = [
            (inputs.seconds(one.ns), one.node)
            for one in inputs.trace.states
            if isinstance(one, tr.TracedReplica) and (one.partition, one.role) == (partition, tr.LEADER)
        ]
    found = found or [
        (inputs.seconds_of_clock(line.wall.timestamp() * 1e3), line.node)
        for line in replica_lines(inputs.run, partition)
        if line.leads
    ]
    topic, _, number = partition.rpartition("-")
    if not found and number.isdecimal() and inputs.evidence is not None:
        from checkers.logs.elections import elections  # few reports need it

        terms = elections(inputs.evidence, TopicPartition(topic, int(number))).found
        found = [(inputs.seconds_of_clock(one.ms), one.leader) for one in terms if one.ms >= 0]
    return _terms(found)


def _terms(found: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    return [next(term) for _, term in itertools.groupby(sorted(found), key=lambda one: one[1])]


def _traced(inputs: Inputs, trace: tr.Trace, partition: str) -> Iterator[tuple[int, ReplicaMoment]]:
    last: dict[int, ReplicaMoment] = {}
    for state in trace.states:
        at = inputs.seconds(state.ns)
        before = last.get(state.node)
        if isinstance(state, tr.TracedReplica) and state.partition == partition:
            cut = before is not None and state.end < before.end
            moment = ReplicaMoment(at, state.end, state.high, cut, before.up if before else True)
        elif isinstance(state, tr.TracedNode) and before and before.up != (state.state == tr.UP):
            moment = ReplicaMoment(at, before.end, before.high, up=state.state == tr.UP)
        else:
            continue
        last[state.node] = moment
        yield state.node, moment


def _moments(inputs: Inputs, tp: TopicPartition, offset: int) -> Iterator[tuple[int, ReplicaMoment]]:
    for node, at, reached in acknowledged.offsets(inputs, tp, offset):
        yield node, ReplicaMoment(at, reached + 1, least=True)
    for line in replica_lines(inputs.run, str(tp)):
        at = inputs.seconds_of_clock(line.wall.timestamp() * 1e3)
        yield line.node, ReplicaMoment(at, line.end, line.high, line.cut)
    if inputs.evidence is not None:
        yield from _taken(inputs, inputs.evidence, tp)
        yield from _fetched(inputs, inputs.evidence, tp)


def _taken(inputs: Inputs, evidence: Evidence, tp: TopicPartition) -> Iterator[tuple[int, ReplicaMoment]]:
    """Where copies ended when files were taken."""
    times = {(row["take"], row["node"]): row["at_ns"] for row in evidence.table("takes").to_pylist()}
    ends = evidence.of("batches", tp).select(["take", "node", "last"]).group_by(["take", "node"])
    for row in ends.aggregate([("last", "max")]).to_pylist():
        at_ns = times.get((row["take"], row["node"]))
        if at_ns is not None:
            yield row["node"], ReplicaMoment(inputs.seconds(at_ns), row["last_max"] + 1)


def _fetched(inputs: Inputs, evidence: Evidence, tp: TopicPartition) -> Iterator[tuple[int, ReplicaMoment]]:
    """A follower fetches from the end of its log."""
    if not evidence.captured:
        return
    frames = evidence.table("frames")
    asked = pc.and_(pc.equal(frames["api"], FETCH), pc.not_equal(frames["client"], CLIENT))
    frames = frames.filter(pc.and_(asked, pc.invert(frames["answer"])))
    parts = evidence.table("frame_parts")
    parts = parts.filter(pc.equal(parts["partition"], tp.partition)).join(
        frames.select(["number", "at_ns", "client"]), "number", join_type="inner"
    )
    names = evidence.topics
    for row in parts.to_pylist():
        if (row["topic"] or names.get(row["topic_id"])) == tp.topic and row["offset"] is not None:
            yield row["client"], ReplicaMoment(inputs.seconds(row["at_ns"]), row["offset"])
