"""The partitions over time: their leaders, in-sync replicas and ends of logs.

The harness asked the brokers: it recorded roles when they changed, and ends every two seconds. Answers may
be late, and ends may fall at a change of leader: the report shows them, no check judges them.

Times are seconds since the start of the run.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report import colours
from harness.report.inputs import Inputs
from harness.report.timeline.lanes import Span, coalesced
from harness.report.wording import in_turn
from history.events import EndsSeen, RolesSeen

LANES_MAX = 16
LINES_MAX = 6
ROWS_MAX = 60


@dataclass(frozen=True, slots=True)
class Ends:
    """What the leader of a partition listed at one time."""

    at: float
    hw: int
    lso: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimeline:
    """One partition over time. `leaders`: nodes; `isr`: members, with their number in `short`. copies: the
    replication factor that the run asked for, 0 = not on record."""

    name: str
    found: bool
    leaders: list[Span]
    isr: list[Span]
    ends: list[Ends]
    copies: int = 0

    @property
    def changes(self) -> int:
        """How often another node became the leader; a gap without a leader does not count."""
        nodes = [span.label for span in self.leaders if span.label != "none"]
        return sum(before != after for before, after in itertools.pairwise(nodes))

    @property
    def leaderless_s(self) -> float:
        """Seconds in which the brokers named no leader."""
        return sum(span.end - span.begin for span in self.leaders if span.label == "none")

    @property
    def replicas(self) -> int:
        """Replicas in sync at best. A reassignment may give a partition more replicas for
        a time: with as many as the run asked for it is whole."""
        most = max((int(span.short) for span in self.isr), default=0)
        return min(most, self.copies or most)

    @property
    def least_isr(self) -> int:
        """Fewest replicas in sync."""
        return min((int(span.short) for span in self.isr), default=0)

    @property
    def shrunk_s(self) -> float:
        """Time with fewer replicas in sync than at best."""
        most = self.replicas
        return sum(span.end - span.begin for span in self.isr if int(span.short) < most)

    @property
    def falls(self) -> list[tuple[Ends, Ends]]:
        """Neighbouring listings between which the high watermark fell."""
        return [(a, b) for a, b in itertools.pairwise(self.ends) if b.hw < a.hw]

    @property
    def most_open(self) -> int:
        """Most records between last stable offset and high watermark."""
        return max((each.hw - each.lso for each in self.ends if each.lso >= 0), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTimeline:
    """All partitions, those of findings first, then those with most changes; who was the controller.
    min_isr: replicas that acks=all needs."""

    partitions: list[PartitionTimeline]
    controller: list[Span]
    min_isr: int

    def isr_colour(self, partition: PartitionTimeline, span: Span) -> str:
        """Colour of in-sync replicas: all, fewer, or fewer than `min.insync.replicas`."""
        size = int(span.short)
        if size < self.min_isr:
            return colours.ISR_UNDER
        return colours.ISR_FULL if size >= partition.replicas else colours.ISR_SHRUNK

    @property
    def changes(self) -> int:
        """How often leaders of partitions changed in all."""
        return sum(partition.changes for partition in self.partitions)

    @property
    def shown(self) -> list[PartitionTimeline]:
        """Partitions with lanes, by name; none where no leader is on record."""
        return _by_name(self.partitions[:LANES_MAX]) if any(p.leaders for p in self.partitions) else []

    @property
    def drawn(self) -> list[PartitionTimeline]:
        """Partitions with lines, by name."""
        return _by_name([partition for partition in self.partitions if len(partition.ends) > 1][:LINES_MAX])

    @property
    def listed(self) -> list[PartitionTimeline]:
        """Partitions with a row, by name."""
        return _by_name(self.partitions[:ROWS_MAX])

    @property
    def ended(self) -> int:
        """Partitions whose ends are on record."""
        return sum(bool(partition.ends) for partition in self.partitions)


def build(inputs: Inputs, end: float) -> ClusterTimeline:
    """The partitions of a run; empty without events."""
    roles = [(inputs.seconds(event.ns), event) for event in inputs.events if isinstance(event, RolesSeen)]
    ends = [(inputs.seconds(event.ns), event) for event in inputs.events if isinstance(event, EndsSeen)]
    names = {name for _, event in roles for name in (*event.leaders, *event.isr)}
    names |= {name for _, event in ends for name in event.hw}
    copies = inputs.verdict.config.get("replication_factor")
    found = list(dict.fromkeys(e.partition for _, e in in_turn(inputs.verdict) if e.partition))
    partitions = [
        PartitionTimeline(
            name=name,
            found=name in found,
            leaders=_holders([(at, e.leaders[name]) for at, e in roles if name in e.leaders], end),
            isr=_spans([(at, *_members(e.isr[name])) for at, e in roles if name in e.isr], end),
            ends=[Ends(at, e.hw[name], e.lso.get(name, -1)) for at, e in ends if name in e.hw],
            copies=copies if isinstance(copies, int) else 0,
        )
        for name in names
        if not name.startswith("__")
    ]
    place = {name: number for number, name in enumerate(found)}
    partitions.sort(
        key=lambda p: (place.get(p.name, len(place)), -p.changes, -len(p.falls), -p.shrunk_s, natural(p.name))
    )
    min_isr = inputs.verdict.config.get("min_insync_replicas")
    return ClusterTimeline(
        partitions=partitions,
        controller=coalesced(_holders([(at, event.controller) for at, event in roles], end)),
        min_isr=min_isr if isinstance(min_isr, int) else 1,
    )


def _holders(points: list[tuple[float, int]], end: float) -> list[Span]:
    """Spans of one node from what was seen at points in time; -1 = none known."""
    return _spans([(at, str(node) if node >= 0 else "none", "") for at, node in points], end)


def _members(isr: Sequence[int]) -> tuple[str, str]:
    """In-sync replicas, and how many."""
    return ", ".join(map(str, sorted(isr))), str(len(isr))


def _spans(points: list[tuple[float, str, str]], end: float) -> list[Span]:
    """Spans of one label each; the last lasts to the end."""
    spans: list[Span] = []
    stops = [*(at for at, _, _ in points[1:]), max(end, points[-1][0])] if points else []
    for (begin, label, short), stop in zip(points, stops, strict=True):
        if spans and spans[-1].label == label:
            begin = spans.pop().begin
        spans.append(Span(begin, stop, label, short=short))
    return spans


def _by_name(partitions: list[PartitionTimeline]) -> list[PartitionTimeline]:
    return sorted(partitions, key=lambda partition: natural(partition.name))


def natural(key: str) -> tuple[str, int]:
    """Sorts partitions by topic and number."""
    topic, _, number = key.rpartition("-")
    return (topic, int(number)) if number.isdigit() else (key, -1)
