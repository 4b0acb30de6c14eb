"""Dependency cycles over all partitions: G0, G1c and their real-time forms (docs/checks.md, "Cycles").

Edges come from the kernels, deduplicated int32 pairs; components are scipy's. Real time needs no
quadratic number of edges: a chain of nodes in order of completion stands for it.

References: Adya, Weak Consistency (MIT, 1999) for G0 and G1c; Kingsbury & Alvaro, Elle (VLDB 2020)
for real-time edges.

Not here: building edges (`kernel_edges`), direct future reads (`kernel_reads`).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from checkers.kernel_types import OK, Array, Columns, Finding, PartitionResult

Edges = Array
"""Shape (2, n): from, to."""

SHOWN = 16
"""Components of a class of which a cycle is looked for."""
SEARCH = 24
"""Edges from which a shortest cycle of a component is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One edge of a witness: `kind` wr, ww or rt; tp -1 for rt."""

    kind: str
    a: int
    b: int
    tp: int = -1


@dataclass(slots=True)
class Components:
    """Strongly connected components of at least two ops: `label` of each op in `ops` (sorted)."""

    ops: Array
    label: Array
    count: int
    sizes: Array = field(init=False)
    lowest: Array = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = np.bincount(self.label, minlength=self.count)
        self.lowest = np.full(self.count, np.iinfo(np.int32).max, np.int64)
        np.minimum.at(self.lowest, self.label, self.ops)

    def of(self, ops: Array) -> Array:
        """Labels of ops, -1 = in no component."""
        if not len(self.ops):
            return np.full(len(ops), -1)
        at = np.minimum(np.searchsorted(self.ops, ops), len(self.ops) - 1)
        return np.where(self.ops[at] == ops, self.label[at], -1)

    def same(self, other: "Components") -> Array:
        """Which of these are, as sets of ops, components of `other`."""
        theirs = other.of(self.ops)
        low = np.full(self.count, np.iinfo(np.int64).max)
        high = np.full(self.count, -2)
        np.minimum.at(low, self.label, theirs)
        np.maximum.at(high, self.label, theirs)
        one = (low == high) & (low >= 0)
        sizes = np.append(other.sizes, -1)[np.where(one, low, -1)]
        return np.asarray(one & (sizes == self.sizes))


def components(edges: Edges, clock: Columns, *, timed: bool = False) -> Components:
    """Components of these edges; `timed`: also of real time between the ops that they join.

    clock: columns of `ops`, indexed by op number.
    """
    part = np.zeros(len(clock["outcome"]), bool)
    part[edges.ravel()] = True
    ops = np.flatnonzero(part)
    graph: Array = (np.cumsum(part, dtype=np.int32) - 1)[edges]
    size: int = len(ops)
    if timed and size:
        chain, size = _real_time(ops, clock)
        graph = np.concatenate((graph, chain.astype(np.int32)), axis=1)
    ones = np.ones(graph.shape[1], np.int32)
    matrix = csr_array((ones, (graph[0], graph[1])), shape=(size, size))
    _, label = connected_components(matrix, directed=True, connection="strong")
    label = label[: len(ops)]
    big = np.bincount(label, minlength=1)[label] > 1 if len(ops) else np.zeros(0, bool)
    _, dense = np.unique(label[big], return_inverse=True)
    return Components(ops[big], dense, int(dense.max(initial=-1)) + 1)


def _real_time(ops: Array, clock: Columns) -> tuple[Edges, int]:
    """Edges through a chain of nodes, one for each completed op, in order of completion."""
    done = np.flatnonzero(clock["outcome"][ops] == OK)
    done = done[np.argsort(clock["complete_ns"][ops[done]], kind="stable")]
    times = clock["complete_ns"][ops[done]]
    nodes = len(ops) + np.arange(len(done))
    last = np.searchsorted(times, clock["invoke_ns"][ops], side="left") - 1
    late = np.flatnonzero(last >= 0)
    into = np.stack((done, nodes))
    along = np.stack((nodes[:-1], nodes[1:]))
    out = np.stack((nodes[last[late]], late))
    return np.concatenate((into, along, out), axis=1), len(ops) + len(done)


@dataclass(slots=True, kw_only=True)
class Graph:
    """All edges of a history, by kind; `clock`: columns of `ops`, indexed by op number."""

    results: Sequence[PartitionResult]
    clock: Columns
    wr: Edges
    ww: Edges
    relay: Array
    cap: int

    @property
    def soon(self) -> Edges:
        """wr edges that are not future reads on their own."""
        late = self.clock["complete_ns"][self.wr[1]] < self.clock["invoke_ns"][self.wr[0]]
        return self.wr[:, ~late]


def find(
    results: Sequence[PartitionResult], clock: Columns, relay: Array, *, cap: int
) -> tuple[Mapping[str, int], list[Finding]]:
    """Counts of all cycles, and at most `cap` findings of each class."""
    graph = Graph(
        results=results,
        clock=clock,
        wr=np.concatenate([r.wr for r in results] or [np.zeros((2, 0), np.int32)], axis=1),
        ww=np.concatenate([r.ww for r in results] or [np.zeros((2, 0), np.int32)], axis=1),
        relay=relay,
        cap=cap,
    )
    counts: dict[str, int] = {}
    findings: list[Finding] = []
    inner = graph.wr[:, relay[graph.wr[1]]] if graph.wr.shape[1] else graph.wr
    wr, ww = components(inner, clock), components(graph.ww, clock)
    _report(graph, counts, findings, "G1c", wr, np.ones(wr.count, bool), ("wr",))
    rt = components(graph.soon, clock, timed=True)
    _report(graph, counts, findings, "G1c-realtime", rt, ~rt.same(wr), ("wr", "rt"))
    if not graph.ww.shape[1]:
        return counts, findings
    _report(graph, counts, findings, "G0", ww, np.ones(ww.count, bool), ("ww",))
    ww_rt = components(graph.ww, clock, timed=True)
    _report(graph, counts, findings, "G0-realtime", ww_rt, ~ww_rt.same(ww), ("ww", "rt"))
    both = components(np.concatenate((inner, graph.ww), axis=1), clock)
    crossing = both.of(inner[0])
    with_wr = np.zeros(both.count + 1, bool)
    with_wr[crossing[crossing == both.of(inner[1])]] = True
    wanted = with_wr[:-1] & ~both.same(wr) & ~both.same(ww)
    _report(graph, counts, findings, "G1c-ww", both, wanted, ("wr", "ww"))
    return counts, findings


def _report(
    graph: Graph,
    counts: dict[str, int],
    findings: list[Finding],
    name: str,
    found: Components,
    wanted: Array,
    kinds: tuple[str, ...],
) -> None:
    labels = np.flatnonzero(wanted)
    if not len(labels):
        return
    counts[name] = len(labels)
    labels = labels[np.argsort(found.sizes[labels], kind="stable")]
    inside = _inside(graph, found, labels[:SHOWN], kinds)
    for label in labels[: graph.cap].tolist():
        cycle: list[Step] = []
        if label in inside:
            members = found.ops[found.label == label]
            cycle = shortest(graph, members, inside[label], kinds)
        findings.append(
            Finding(
                name=name,
                key=(-1, int(found.lowest[label]), int(found.sizes[label])),
                ops=tuple(step.a for step in cycle),
                at_ns=max((int(graph.clock["invoke_ns"][step.a]) for step in cycle), default=-1),
                detail={"steps": len(cycle), "members": int(found.sizes[label])},
                steps=tuple((s.kind, s.a, s.b, s.tp) for s in cycle),
            )
        )


def _inside(
    graph: Graph, found: Components, labels: Array, kinds: tuple[str, ...]
) -> dict[int, list[Step]]:
    """Edges within each of these components (by label), without future reads where time counts."""
    steps: dict[int, list[Step]] = {label: [] for label in labels.tolist()}
    members = np.zeros(len(graph.clock["outcome"]), bool)
    members[found.ops[np.isin(found.label, labels)]] = True
    done, invoked = graph.clock["complete_ns"], graph.clock["invoke_ns"]
    for kind in kinds:
        for result in graph.results:
            edges = {"wr": result.wr, "ww": result.ww}.get(kind)
            if edges is None or not edges.shape[1]:
                continue
            edges = edges[:, members[edges[0]] & members[edges[1]]]
            if kind == "wr" and "rt" in kinds:
                edges = edges[:, done[edges[1]] >= invoked[edges[0]]]
            mine = found.of(edges[0])
            same = mine == found.of(edges[1])
            for label, a, b in zip(mine[same].tolist(), *edges[:, same].tolist(), strict=True):
                steps[label].append(Step(kind=kind, a=a, b=b, tp=result.tp))
    return steps


def shortest(
    graph: Graph, members: Array, steps: Sequence[Step], kinds: tuple[str, ...]
) -> list[Step]:
    """A shortest cycle of one component through one of its first edges of the first kind.

    members: ops of the component, sorted. steps: its edges but those of real time.
    """
    onward: dict[int, list[Step]] = {}
    for step in steps:
        onward.setdefault(step.a, []).append(step)
    timed = members if "rt" in kinds else members[:0]
    best: list[Step] = []
    for start in [step for step in steps if step.kind == kinds[0]][:SEARCH]:
        path = _path(graph, onward, timed, start.b, start.a)
        if path is not None and (not best or len(path) + 1 < len(best)):
            best = [start, *path]
    return best


def _path(
    graph: Graph, onward: Mapping[int, list[Step]], timed: Array, source: int, target: int
) -> list[Step] | None:
    """A shortest path by breadth-first search; real time leads from an op to all later ones."""
    clock = graph.clock
    waiting = timed[np.argsort(clock["invoke_ns"][timed], kind="stable")].tolist()
    came: dict[int, Step | None] = {source: None}
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
                    came[later] = Step(kind="rt", a=op, b=later)
                    queue.append(later)
    if target not in came:
        return None
    path: list[Step] = []
    at: Step | None = came[target]
    while at is not None:
        path.append(at)
        at = came[at.a]
    return path[::-1]
