"""Dependencies of ops: the edges that partitions show, graphs of those that may lie on a cycle, and short
cycles in them.

Edges are int32 pairs, each once, and stay in the partition that shows them. Only those inside *windows* are
asked for. In the order of completion real time leads onwards only, so every cycle has a backward edge. A
window is a range of ops that backward edges cover without a gap. Each op of a cycle lies in one, since the
cycle has to come back over it; and two windows share no cycle, since the edge back from the later to the
earlier one would cover the gap.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from checkers.engine.components import Edges
from checkers.engine.findings import OK
from checkers.engine.slots import distinct
from history.columns import Array, Columns

GRAPH_OPS = 1 << 17
"""Windows are searched together until they have this many ops: what is looked up then stays in the caches."""
SEARCH = 24
"""Edges from which a shortest cycle of a component is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One edge of a witness: `kind` wr, ww or rt; tp -1 for rt."""

    kind: str
    a: int
    b: int
    tp: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEdges:
    """The edges that one partition shows, each once, sorted: writer to reader, writer to next writer.

    wr_ops, ww_ops, sorted: of those within some windows: ops there whose other edges lead out of them.
    """

    wr: Edges
    ww: Edges
    wr_ops: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    ww_ops: Array = field(default_factory=lambda: np.zeros(0, np.int32))

    def pieces(self, limits: Array) -> Iterator["PartitionEdges"]:
        """Those from each limit to the next, ops counted from there; no edge crosses a limit."""
        columns = (self.wr[0], self.ww[0], self.wr_ops, self.ww_ops)
        cuts = [np.searchsorted(column, limits) for column in columns]
        for n, first in enumerate(limits[:-1]):
            wr, ww, wr_ops, ww_ops = (slice(cut[n], cut[n + 1]) for cut in cuts)
            yield PartitionEdges(
                wr=self.wr[:, wr] - first,
                ww=self.ww[:, ww] - first,
                wr_ops=self.wr_ops[wr_ops] - first,
                ww_ops=self.ww_ops[ww_ops] - first,
            )


def no_edges() -> Edges:
    """None of any kind."""
    return np.zeros((2, 0), np.int32)


def windows_of(edges: Edges) -> Array:
    """Ranges of ops that backward edges cover without a gap, shape (2, n): the first op, the last one."""
    back = np.flatnonzero(edges[0] > edges[1])
    first, last = edges[1][back], edges[0][back]
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    starts = np.flatnonzero(np.append(True, first[1:] > last[:-1])[: len(first)])
    ends = np.append(starts[1:], len(first))[: len(starts)] - 1
    return np.stack((first[starts], last[ends]))


@dataclass(frozen=True)
class EdgesWithin:
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
        self.wr = np.concatenate([no_edges(), *(part.wr for _, part in self.parts)], axis=1)
        self.ww = np.concatenate([no_edges(), *(part.ww for _, part in self.parts)], axis=1)
        self.wr_ops = np.concatenate([no_edges()[0], *(part.wr_ops for _, part in self.parts)])
        self.ww_ops = np.concatenate([no_edges()[0], *(part.ww_ops for _, part in self.parts)])

    @property
    def inner(self) -> Edges:
        """wr edges that may lie on a cycle of such edges."""
        return self.wr[:, self.relay[self.wr[1]]]

    @property
    def soon(self) -> Edges:
        """wr edges that are not future reads on their own."""
        late = self.clock["complete_ns"][self.wr[1]] < self.clock["invoke_ns"][self.wr[0]]
        return self.wr[:, ~late]


def window_groups(windows: Array, ops: int) -> Sequence[Array]:
    """The windows in groups; `ops`: about how many a group has."""
    number = np.cumsum(windows[1] - windows[0], dtype=np.int64) // ops
    return np.split(windows, np.flatnonzero(number[1:] != number[:-1]) + 1, axis=1) if windows.size else ()


def graphs_of(
    windows: Array, parts: Iterable[tuple[int, PartitionEdges]], clock: Columns, relay: Array
) -> Iterator[Graph]:
    """Graphs of about `GRAPH_OPS` ops. parts: what lies within the windows, ops counted from the first."""
    firsts = [some[0, 0] for some in window_groups(windows, GRAPH_OPS)]
    before = int(windows[0, 0])
    limits = np.array([*firsts, windows[1, -1] + 1], np.int32) - np.int32(before)
    pieces = [(tp, part.pieces(limits)) for tp, part in parts]
    for first, end in pairwise(limits.tolist()):
        yield Graph(
            base=before + first,
            clock={name: column[before + first : before + end] for name, column in clock.items()},
            relay=relay[before + first : before + end],
            parts=[(tp, next(each)) for tp, each in pieces],
        )


def edges_inside(graph: Graph, components: Sequence[Array], kinds: tuple[str, ...]) -> list[list[Edge]]:
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
        if not best or len(path) + 1 < len(best):
            best = [start, *path]
    return best


def _path(
    graph: Graph, onward: Mapping[int, list[Edge]], timed: Array, source: int, target: int
) -> list[Edge]:
    """A shortest path within a component, where there always is one, by breadth-first search; real time leads
    from an op to all later ones."""
    clock = graph.clock
    waiting = timed[np.argsort(clock["invoke_ns"][timed], kind="stable")].tolist()
    came: dict[int, Edge | None] = {source: None}
    queue = deque([source])
    while target not in came:
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
    path: list[Edge] = []
    at: Edge | None = came[target]
    while at is not None:
        path.append(at)
        at = came[at.a]
    return path[::-1]
