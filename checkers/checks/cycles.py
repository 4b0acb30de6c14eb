"""cycles: dependency cycles over all partitions, and records read before they were sent (docs/checks.md,
"Cycles").

Edges come from the kernel, deduplicated int32 pairs, and stay where it made them. The join collects only
edges that may lie on a cycle, some ops at a time: those inside *windows*. In the order of completion real
time leads onwards only, so every cycle has a backward edge. A window is a range of ops that backward edges
cover without a gap. Each op of a cycle lies in one, since the cycle has to come back over it; and two
windows share no cycle, since the edge back from the later to the earlier one would cover the gap.

References: Adya, Weak Consistency (MIT, 1999) for G0 and G1c; Kingsbury & Alvaro, Elle (VLDB 2020)
for real-time edges.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import itemgetter

import numpy as np

from checkers.allowed import always, never
from checkers.checks.isolation import of_read, one_of_each_op
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.components import Components, Edges, by_completion, components
from checkers.engine.evidence import FetchedRecords, Wanted
from checkers.engine.findings import INFO, OK, RC, Finding, PartitionResult, Shown, at, got, reader, sent
from checkers.engine.partition_view import KernelView, distinct
from history.reader import Array, Columns, History, columns
from history.tables import OPEN

G1C = "G1c"
G1C_REALTIME = "G1c-realtime"
G1C_WW = "G1c-ww"
G0 = "G0"
G0_REALTIME = "G0-realtime"

SHOWN = 16
"""Components of a class that are searched for a cycle."""
SEARCH = 24
"""Edges from which a shortest cycle of a component is looked for."""
BATCH_OPS = 1 << 22
"""The join asks for the edges of windows together until these have this many ops."""
GRAPH_OPS = 1 << 17
"""Windows are searched together until they have this many ops: what is looked up then stays in the caches."""
KINDS = {
    G1C: ("wr",),
    G1C_REALTIME: ("wr", "rt"),
    G0: ("ww",),
    G0_REALTIME: ("ww", "rt"),
    G1C_WW: ("wr", "ww"),
}
"""The kinds of edges of each class; the first one is in each of its cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One edge of a witness: `kind` wr, ww or rt; tp -1 for rt."""

    kind: str
    a: int
    b: int
    tp: int = -1


class FutureRead(Finding):
    """A record that was returned before it was sent: the send and the read."""

    def sentence(self, history: History) -> str:
        """Both ops."""
        s, r = self.records
        return (
            f"{reader(history, r.op)} was given {r.text(history)} at offset {r.offset}"
            f" {at(history, self.at_ns)}, before op {s.op} had begun to send it."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle(Finding):
    """A component; `edges`: one of its cycles, where one was looked for."""

    edges: tuple[Edge, ...]

    @property
    def wanted(self) -> Wanted:
        """The records that make its edges."""
        sent = [(edge.tp, edge.a) for edge in self.edges if edge.kind != "rt"]
        sent += [(edge.tp, edge.b) for edge in self.edges if edge.kind == "ww"]
        read = [(edge.tp, edge.b) for edge in self.edges if edge.kind == "wr"]
        return Wanted(sends=tuple(sent), reads=tuple(read))

    def more(self, fetched: FetchedRecords) -> list[Shown]:
        """For each edge the records that make it."""
        return [record for edge in self.edges for record in _records(edge, fetched)]

    def sentence(self, history: History) -> str:
        """The cycle, edge by edge."""
        size = self.key[2]
        if not self.edges:
            return f"{size} ops, the first of them op {self.key[1]}, depend on each other in a circle."
        told = "; ".join(_link(history, edge) for edge in self.edges)
        more = f" ({size} ops in all depend on each other)" if size > len(self.edges) else ""
        return f"A circle of {len(self.edges)} ops: {told}{more}."


def _link(history: History, edge: Edge) -> str:
    if edge.kind == "rt":
        return f"op {edge.a} had ended before op {edge.b} began"
    if edge.kind == "wr":
        return f"op {edge.b} read what op {edge.a} wrote to {history.tp(edge.tp)}"
    return f"op {edge.a} stands before op {edge.b} in {history.tp(edge.tp)}"


def _records(edge: Edge, fetched: FetchedRecords) -> list[Shown]:
    """The records that make an edge."""
    own = {row.value: row for row in fetched.sends.get(edge.a, ()) if row.tp == edge.tp}
    if edge.kind == "wr":
        reads = fetched.reads.get(edge.b, ())
        read = [r for r in reads if r.tp == edge.tp and r.value in own][:1]
        return [shown for r in read for shown in (sent(own[r.value]), got(r))]
    if edge.kind == "ww":
        later = [row for row in fetched.sends.get(edge.b, ()) if row.tp == edge.tp]
        pairs = [(s, t) for s in own.values() for t in later if 0 <= s.place < t.place]
        nearest = sorted(pairs, key=lambda pair: pair[1].place - pair[0].place)[:1]
        return [shown for s, t in nearest for shown in (sent(s), sent(t))]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEdges:
    """The edges that one partition shows, each once, sorted: writer to reader, writer to next writer.

    wr_ops, ww_ops, sorted: of those within some windows: ops there whose other edges lead out of them.
    """

    wr: Edges
    ww: Edges
    wr_ops: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    ww_ops: Array = field(default_factory=lambda: np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the join needs of each range. windows: of its edges; ends: the first and last op of its log."""

    windows: Array
    ends: Array


def _no_edges() -> Edges:
    return np.zeros((2, 0), np.int32)


def _kernel(p: KernelView, result: PartitionResult) -> None:
    line = _line(p)
    moved = line[1:] != line[:-1]
    wr, ww = _wr(p), _once(line[:-1][moved], line[1:][moved])
    if wr.shape[1] or ww.shape[1]:
        result.kept[NAME] = PartitionEdges(wr=wr, ww=ww)
    if len(line) or wr.shape[1]:
        windows = _windows(np.concatenate((wr, ww), axis=1))
        result.parts[NAME] = Summary(windows=windows, ends=np.append(line[:1], line[-1:]))
    invoked = p.of_writer(p.sends["invoke_ns"], np.iinfo(np.int64).min)
    early = one_of_each_op(p, np.flatnonzero(p.reads["complete_ns"] < invoked))
    result.report(G1C_REALTIME, early, partial(of_read, p, FutureRead))


def _wr(p: KernelView) -> Edges:
    vertex, relay = p.known.vertex, p.known.relay
    if not relay.any():
        return _no_edges()
    rows = np.flatnonzero((p.reads["isolation"] == RC) & (p.writer >= 0))
    rows = p.of_reads(rows[relay[p.sends["op"]][p.writer[rows]] | relay[p.reads["op"][rows]]])
    w, r = p.sends["op"][p.writer[rows]], p.reads["op"][rows]
    kept = vertex[w] & vertex[r] & (w != r)
    return _once(w[kept], r[kept])


def _line(p: KernelView) -> Array:
    """The ops whose records stand in the log, in its order."""
    sends = p.sends
    eligible = p.committed & p.known.vertex[sends["op"]]
    acks = np.flatnonzero(eligible & p.acked)
    places = p.placed_rows[eligible[p.placed_rows]]
    shown = p.odd[np.append(eligible, False)[p.writer[p.odd]]]
    slots = (p.slots(sends["offset"][acks]), p.slots(sends["place"][places]), p.read_slot[shown])
    row = np.concatenate((acks, places, p.writer[shown]))
    slot = np.concatenate(slots)
    at_slot = np.full(p.slots.size, -1, np.int64)
    at_slot[slot] = row
    at_slot[slot[at_slot[slot] != row]] = -1  # several values at one offset: no order between them
    return np.asarray(sends["op"][at_slot[p.of_slots(np.flatnonzero(at_slot >= 0))]])


def _once(a: Array, b: Array) -> Edges:
    keys = distinct(a.astype(np.int64) << 32 | b.astype(np.int64))
    return np.stack((keys >> 32, keys & 0xFFFFFFFF)).astype(np.int32)


def _windows(edges: Edges) -> Array:
    """Ranges of ops that backward edges cover without a gap, shape (2, n): the first op, the last one."""
    back = np.flatnonzero(edges[0] > edges[1])
    first, last = edges[1][back], edges[0][back]
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    starts = np.flatnonzero(np.append(True, first[1:] > last[:-1])[: len(first)])
    ends = np.append(starts[1:], len(first))[: len(starts)] - 1
    return np.stack((first[starts], last[ends]))


@dataclass(frozen=True)
class Cut:
    """Edges within some windows: what the join asks of each partition."""

    windows: Array

    @cached_property
    def number(self) -> Array:
        """The window of each op, counted from the one before the first window; 0 = none."""
        first = self.windows[0] - self.windows[0, 0] + np.int32(1)
        behind = self.windows[1] - self.windows[0, 0] + np.int32(2)
        change = np.zeros(int(behind[-1]) + 1, np.int32)
        change[first] = np.arange(1, len(first) + 1)
        change[behind] -= np.arange(1, len(first) + 1)
        return np.cumsum(change, dtype=np.int32)

    def __call__(self, part: object) -> PartitionEdges:
        """What lies within of the edges of a partition."""
        assert isinstance(part, PartitionEdges)
        (wr, wr_ops), (ww, ww_ops) = self._within(part.wr), self._within(part.ww)
        return PartitionEdges(wr=wr, ww=ww, wr_ops=wr_ops, ww_ops=ww_ops)

    def _within(self, edges: Edges) -> tuple[Edges, Array]:
        """The edges that lie within one window; the ops of windows whose other edges do not.

        Ops are counted from the first op of the first window.
        """
        first, last = self.windows[0, 0], self.windows[1, -1]
        low, high = np.searchsorted(edges[0], np.array((first, last + 1), np.int32))
        before = first - np.int32(1)
        near = np.clip(edges[:, low:high], before, last + np.int32(1)) - before
        window = self.number[near[0]], self.number[near[1]]
        within = (window[0] == window[1]) & (window[0] > 0)
        into = np.concatenate((edges[1, :low], edges[1, high:]))
        into = into[(into >= first) & (into <= last)] - before
        leaving = np.concatenate((*near[:, ~within], into))
        ops = distinct(leaving[self.number[leaving] > 0])
        return near[:, within] - np.int32(1), ops - np.int32(1)


@dataclass(slots=True, kw_only=True)
class Graph:
    """The edges within some windows, by kind. Ops are counted from `base`.

    clock: columns of `ops` from there on. relay: flags by op. parts: the edges of each partition.
    """

    base: int
    clock: Columns
    relay: Array
    parts: Sequence[tuple[int, PartitionEdges]]
    wr: Edges = field(init=False)
    ww: Edges = field(init=False)
    wr_ops: Array = field(init=False)
    ww_ops: Array = field(init=False)

    def __post_init__(self) -> None:
        self.wr = np.concatenate([_no_edges(), *(part.wr for _, part in self.parts)], axis=1)
        self.ww = np.concatenate([_no_edges(), *(part.ww for _, part in self.parts)], axis=1)
        self.wr_ops = np.concatenate([_no_edges()[0], *(part.wr_ops for _, part in self.parts)])
        self.ww_ops = np.concatenate([_no_edges()[0], *(part.ww_ops for _, part in self.parts)])

    @property
    def inner(self) -> Edges:
        """wr edges that may lie on a cycle of such edges."""
        return self.wr[:, self.relay[self.wr[1]]]

    @property
    def soon(self) -> Edges:
        """wr edges that are not future reads on their own."""
        late = self.clock["complete_ns"][self.wr[1]] < self.clock["invoke_ns"][self.wr[0]]
        return self.wr[:, ~late]


@dataclass(slots=True)
class Circles:
    """Components of one class. sizes, lowest: of the smallest ones of each graph, the number of ops and the
    first of them; edges: of some, by their first op, a cycle."""

    count: int = 0
    sizes: list[Array] = field(default_factory=list)
    lowest: list[Array] = field(default_factory=list)
    edges: dict[int, tuple[Edge, ...]] = field(default_factory=dict)

    def report(self, name: str, clock: Columns, tally: Tally) -> None:
        """All of them, the smallest first."""
        if not self.count:
            return
        sizes, lowest = np.concatenate(self.sizes), np.concatenate(self.lowest)
        order = np.lexsort((lowest, sizes))

        def made(number: int) -> Finding:
            first, size = int(lowest[order[number]]), int(sizes[order[number]])
            edges = self.edges.get(first, ())
            return Cycle(
                key=(-1, first, size),
                ops=tuple(edge.a for edge in edges),
                at_ns=max((int(clock["invoke_ns"][edge.a]) for edge in edges), default=-1),
                edges=edges,
            )

        tally.report(name, np.arange(self.count), made)


def _join(run: WholeRun, tally: Tally) -> None:
    parts = tally.parts_of(NAME, Summary)
    if not parts:
        return
    clock, seams = _clock(run), _seams(parts)
    windows = [part.windows for _, part in parts]
    windows += [_windows(seam.ww) for _, seam in seams]
    found = {name: Circles() for name in KINDS}
    for some in _groups(_all_windows(windows, clock), BATCH_OPS):
        cut = Cut(some)
        asked = [*run.ask(NAME, cut), *((tp, cut(seam)) for tp, seam in seams)]
        graphs = list(_graphs(some, asked, clock, run.known.relay))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            searched = list(threads.map(partial(_search, cap=tally.cap), graphs))
        for name, circles in found.items():
            _add(name, circles, graphs, [each[name] for each in searched])
    for name, circles in found.items():
        circles.report(name, clock, tally)


def _seams(parts: Iterable[tuple[int, Summary]]) -> list[tuple[int, PartitionEdges]]:
    """The edges from each range of a partition to the next one that has some record."""
    found, last = [], (-1, -1)
    for tp, part in parts:
        for op, end in zip(part.ends[:1].tolist(), part.ends[1:].tolist(), strict=True):
            if last[0] == tp and last[1] != op:
                seam = np.array([[last[1]], [op]], np.int32)
                found.append((tp, PartitionEdges(wr=_no_edges(), ww=seam)))
            last = tp, end
    return found


def _all_windows(parts: Sequence[Array], clock: Columns) -> Array:
    """The windows of the edges of all partitions."""
    if not by_completion(clock):
        return np.array([[0], [len(clock["outcome"]) - 1]], np.int32)
    first, last = np.concatenate(parts, axis=1)
    return _windows(np.stack((last, first)))


def _groups(windows: Array, ops: int) -> Sequence[Array]:
    """The windows in groups; `ops`: about how many a group has."""
    number = np.cumsum(windows[1] - windows[0], dtype=np.int64) // ops
    return np.split(windows, np.flatnonzero(number[1:] != number[:-1]) + 1, axis=1) if windows.size else ()


def _graphs(
    windows: Array, parts: Iterable[tuple[int, PartitionEdges]], clock: Columns, relay: Array
) -> Iterator[Graph]:
    """Graphs of about `GRAPH_OPS` ops. parts: what lies within the windows, ops counted from the first."""
    groups = _groups(windows, GRAPH_OPS)
    before = int(windows[0, 0])
    limits = np.array([*(some[0, 0] for some in groups), windows[1, -1] + 1], np.int32) - np.int32(before)
    cuts = [
        (
            tp,
            part,
            [
                np.searchsorted(of, limits).tolist()
                for of in (part.wr[0], part.ww[0], part.wr_ops, part.ww_ops)
            ],
        )
        for tp, part in parts
    ]
    for n, (first, end) in enumerate(pairwise(limits.tolist())):
        yield Graph(
            base=before + first,
            clock={name: column[before + first : before + end] for name, column in clock.items()},
            relay=relay[before + first : before + end],
            parts=[
                (
                    tp,
                    PartitionEdges(
                        wr=part.wr[:, wr[n] : wr[n + 1]] - np.int32(first),
                        ww=part.ww[:, ww[n] : ww[n + 1]] - np.int32(first),
                        wr_ops=part.wr_ops[wr_ops[n] : wr_ops[n + 1]] - np.int32(first),
                        ww_ops=part.ww_ops[ww_ops[n] : ww_ops[n + 1]] - np.int32(first),
                    ),
                )
                for tp, part, (wr, ww, wr_ops, ww_ops) in cuts
            ],
        )


@dataclass(frozen=True, slots=True)
class Smallest:
    """Components of one class in one graph. count: of all. sizes, lowest: of the smallest ones, the number of
    ops and the first of them; members: of the very smallest ones, all ops."""

    count: int
    sizes: Array
    lowest: Array
    members: Sequence[Array]


def _search(graph: Graph, cap: int) -> dict[str, Smallest]:
    """The components of each class. cap: components that are wanted; of others only their number."""
    return {name: _smallest(found, wanted, graph.base, cap) for name, found, wanted in _classes(graph)}


def _classes(graph: Graph) -> Iterator[tuple[str, Components, Array]]:
    """Class, components, and flags of those that belong to it."""
    clock, inner = graph.clock, graph.inner
    wr, ww = components(inner, clock), components(graph.ww, clock)
    yield G1C, wr, np.ones(wr.count, bool)
    rt = components(graph.soon, clock, graph.wr_ops)
    yield G1C_REALTIME, rt, ~rt.same(wr)
    yield G0, ww, np.ones(ww.count, bool)
    ww_rt = components(graph.ww, clock, graph.ww_ops, ww)
    yield G0_REALTIME, ww_rt, ~ww_rt.same(ww)
    both = components(np.concatenate((inner, graph.ww), axis=1), clock, inner=ww)
    crossing = both.label[inner[0]]
    with_wr = np.zeros(both.count + 1, bool)
    with_wr[crossing[crossing == both.label[inner[1]]]] = True
    yield G1C_WW, both, with_wr[:-1] & ~both.same(wr) & ~both.same(ww)


def _smallest(found: Components, wanted: Array, base: int, cap: int) -> Smallest:
    labels = np.flatnonzero(wanted)
    labels = labels[np.lexsort((found.lowest[labels], found.sizes[labels]))]
    rank = np.full(found.count + 1, -1)
    rank[labels[:SHOWN]] = np.arange(len(labels[:SHOWN]))
    ranks = rank[found.label]
    ops = np.flatnonzero(ranks >= 0)
    return Smallest(
        count=len(labels),
        sizes=found.sizes[labels[:cap]],
        lowest=found.lowest[labels[:cap]] + base,
        members=[ops[ranks[ops] == n] for n in range(len(labels[:SHOWN]))],
    )


def _clock(run: WholeRun) -> Columns:
    """Outcome and times of ops, indexed by op number."""
    names = ("op", "outcome", "invoke_ns", "complete_ns")
    rows = columns(run.tables["ops"], names)
    size = int(rows["op"].max(initial=-1)) + 1
    if size == len(rows["op"]) and bool((rows["op"][1:] > rows["op"][:-1]).all()):
        return rows
    indexed: dict[str, Array] = {
        "outcome": np.full(size, INFO, np.int8),
        "invoke_ns": np.zeros(size, np.int64),
        "complete_ns": np.full(size, OPEN, np.int64),
    }
    for name, column in indexed.items():
        column[rows["op"]] = rows[name]
    return indexed


def _add(name: str, circles: Circles, graphs: Sequence[Graph], found: Sequence[Smallest]) -> None:
    """Add the components of some graphs to those of a class; for the smallest ones look for a cycle."""
    circles.count += sum(each.count for each in found)
    circles.sizes += [each.sizes for each in found]
    circles.lowest += [each.lowest for each in found]
    few = [(len(ops), n, ops) for n, each in enumerate(found) for ops in each.members]
    chosen: dict[int, list[Array]] = {}
    for _, n, ops in sorted(few, key=itemgetter(0))[:SHOWN]:
        chosen.setdefault(n, []).append(ops)
    for n, members in chosen.items():
        graph = graphs[n]
        for ops, steps in zip(members, _inside(graph, members, KINDS[name]), strict=True):
            edges = shortest(graph, ops, steps, KINDS[name])
            circles.edges[graph.base + int(ops[0])] = tuple(
                replace(edge, a=graph.base + edge.a, b=graph.base + edge.b) for edge in edges
            )


def _inside(graph: Graph, components: Sequence[Array], kinds: tuple[str, ...]) -> list[list[Edge]]:
    """Edges within each of these components, without future reads where time counts."""
    steps: list[list[Edge]] = [[] for _ in components]
    number = np.full(len(graph.clock["outcome"]), -1)
    for n, ops in enumerate(components):
        number[ops] = n
    done, invoked = graph.clock["complete_ns"], graph.clock["invoke_ns"]
    for kind in kinds:
        for tp, part in graph.parts:
            edges = {"wr": part.wr, "ww": part.ww}.get(kind)
            if edges is None or not edges.shape[1]:
                continue
            mine = number[edges[0]]
            edges = edges[:, (mine >= 0) & (mine == number[edges[1]])]
            if kind == "wr" and "rt" in kinds:
                edges = edges[:, done[edges[1]] >= invoked[edges[0]]]
            for n, a, b in zip(number[edges[0]].tolist(), *edges.tolist(), strict=True):
                steps[n].append(Edge(kind=kind, a=a, b=b, tp=tp))
    return steps


def shortest(graph: Graph, members: Array, steps: Sequence[Edge], kinds: tuple[str, ...]) -> list[Edge]:
    """A shortest cycle of one component through one of its first edges of the first kind.

    members: ops of the component, sorted. steps: its edges but those of real time.
    """
    onward: dict[int, list[Edge]] = {}
    for step in steps:
        onward.setdefault(step.a, []).append(step)
    timed = members if "rt" in kinds else members[:0]
    best: list[Edge] = []
    for start in [step for step in steps if step.kind == kinds[0]][:SEARCH]:
        path = _path(graph, onward, timed, start.b, start.a)
        if path is not None and (not best or len(path) + 1 < len(best)):
            best = [start, *path]
    return best


def _path(
    graph: Graph, onward: Mapping[int, list[Edge]], timed: Array, source: int, target: int
) -> list[Edge] | None:
    """A shortest path by breadth-first search; real time leads from an op to all later ones."""
    clock = graph.clock
    waiting = timed[np.argsort(clock["invoke_ns"][timed], kind="stable")].tolist()
    came: dict[int, Edge | None] = {source: None}
    queue = deque([source])
    while queue and target not in came:
        op = queue.popleft()
        for step in onward.get(op, ()):
            if step.b not in came:
                came[step.b] = step
                queue.append(step.b)
        if timed.size and clock["outcome"][op] == OK:
            done = int(clock["complete_ns"][op])
            while waiting and int(clock["invoke_ns"][waiting[-1]]) > done:
                later = waiting.pop()
                if later not in came:
                    came[later] = Edge(kind="rt", a=op, b=later)
                    queue.append(later)
    if target not in came:
        return None
    path: list[Edge] = []
    at: Edge | None = came[target]
    while at is not None:
        path.append(at)
        at = came[at.a]
    return path[::-1]


_UNISOLATED = "informational: Kafka does not isolate writes of concurrent transactions"

NAME = "cycles"
CHECK = Check(
    claim="Transactions do not depend on each other in a circle, nor on the future.",
    anomalies={
        G1C: AnomalyClass(
            title="Circular information flow",
            meaning="Transactions read each other's records in a circle: each would have had to commit"
            " first.",
            literature="G1c",
            rule=never("read_committed forbids it: a record is read after its transaction committed"),
        ),
        G1C_REALTIME: AnomalyClass(
            title="Information flow against real time",
            meaning="A record was read before it was sent, or transactions read from each other in a"
            " circle that closes through real time.",
            literature="G1c-realtime; future read",
            rule=never("nothing is read before it is sent"),
        ),
        G1C_WW: AnomalyClass(
            title="Circle of reads and writes",
            meaning="Transactions depend on each other in a circle of reads and of the order of their"
            " writes.",
            literature="G1c with ww edges",
            rule=always(_UNISOLATED),
        ),
        G0: AnomalyClass(
            title="Circle of writes",
            meaning="Transactions' records interleave so that each stands before the other somewhere.",
            literature="G0, dirty write",
            rule=always(_UNISOLATED),
        ),
        G0_REALTIME: AnomalyClass(
            title="Circle of writes and real time",
            meaning="The order of writes and real time form a circle over several transactions.",
            literature="G0-realtime",
            rule=always("informational; a direct inversion is reported as offset-realtime-inversion"),
        ),
    },
    kernel=_kernel,
    join=_join,
)
