"""cycles: dependency cycles over all partitions, and records read before they were sent (docs/checks.md,
"Cycles").

Edges come from the kernel and stay where it made them. The join collects only those that may lie on a cycle
(`checkers.engine.dependencies`), some ops at a time.

References: Adya, Weak Consistency (MIT, 1999) for G0 and G1c; Kingsbury & Alvaro, Elle (VLDB 2020)
for real-time edges.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

import numpy as np

from checkers.allowed import always, unless_truncated
from checkers.checks.isolation import of_read, one_of_each_op
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.components import Components, Edges, by_completion, components
from checkers.engine.dependencies import (
    Edge,
    EdgesWithin,
    Graph,
    PartitionEdges,
    edges_inside,
    graphs_of,
    no_edges,
    shortest,
    window_groups,
    windows_of,
)
from checkers.engine.evidence import FetchedRecords, Wanted
from checkers.engine.findings import INFO, RC, Finding, PartitionResult, Shown, at, got, reader, sent
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import distinct
from checkers.windows import NO_EXCUSE, RunWindows
from core.internal_topics import TRANSACTION_TOPIC
from history.columns import Array, Columns, columns
from history.reader import History
from history.tables import OPEN

G1C = "G1c"
G1C_REALTIME = "G1c-realtime"
G1C_WW = "G1c-ww"
G0 = "G0"
G0_REALTIME = "G0-realtime"

SHOWN = 16
"""Components of a class that are searched for a cycle."""
BATCH_OPS = 1 << 22
"""The join asks for the edges of windows together until these have this many ops."""
KINDS = {
    G1C: ("wr",),
    G1C_REALTIME: ("wr", "rt"),
    G0: ("ww",),
    G0_REALTIME: ("ww", "rt"),
    G1C_WW: ("wr", "ww"),
}
"""The kinds of edges of each class; the first one is in each of its cycles."""
OF_READS = (G1C, G1C_REALTIME)
"""Classes of what was read too early: a lost decision may have shown it."""


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
            return f"{size} ops, the first of them op {self.key[1]}, depend on each other in a cycle."
        told = "; ".join(_link(history, edge) for edge in self.edges)
        more = f" ({size} ops in all depend on each other)" if size > len(self.edges) else ""
        return f"Dependency cycle of {len(self.edges)} ops: {told}{more}."


def _link(history: History, edge: Edge) -> str:
    if edge.kind == "rt":
        return f"op {edge.a} had ended before op {edge.b} began"
    if edge.kind == "wr":
        return f"op {edge.b} read what op {edge.a} wrote to {history.tp(edge.tp)}"
    return f"op {edge.a} precedes op {edge.b} in {history.tp(edge.tp)}"


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


def _kernel(p: KernelView, result: PartitionResult) -> None:
    line = _line(p)
    moved = line[1:] != line[:-1]
    wr, ww = _wr(p), _once(line[:-1][moved], line[1:][moved])
    if wr.shape[1] or ww.shape[1]:
        result.kept[NAME] = PartitionEdges(wr=wr, ww=ww)
        result.parts[NAME] = windows_of(np.concatenate((wr, ww), axis=1))
    invoked = p.of_writer(p.sends["invoke_ns"], np.iinfo(np.int64).min)
    early = one_of_each_op(p, np.flatnonzero(p.reads["complete_ns"] < invoked))
    result.report(G1C_REALTIME, early, partial(of_read, p, FutureRead))


def _wr(p: KernelView) -> Edges:
    vertex, relay = p.known.vertex, p.known.relay
    if not relay.any():
        return no_edges()
    rows = np.flatnonzero((p.reads["isolation"] == RC) & (p.writer >= 0))
    rows = rows[relay[p.sends["op"]][p.writer[rows]] | relay[p.reads["op"][rows]]]
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
    return np.asarray(sends["op"][at_slot[at_slot >= 0]])


def _once(a: Array, b: Array) -> Edges:
    keys = distinct(a.astype(np.int64) << 32 | b.astype(np.int64))
    return np.stack((keys >> 32, keys & 0xFFFFFFFF)).astype(np.int32)


@dataclass(slots=True)
class Circles:
    """Components of one class and excuse. sizes, lowest: of the smallest ones of each graph, the number of
    ops and the first of them; edges: of some, by their first op, a cycle."""

    count: int = 0
    sizes: list[Array] = field(default_factory=list)
    lowest: list[Array] = field(default_factory=list)
    edges: dict[int, tuple[Edge, ...]] = field(default_factory=dict)

    def report(self, name: str, excuse: int, clock: Columns, tally: Tally) -> None:
        """All of them, the smallest first."""
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

        tally.report(name, np.arange(self.count), made, excuses=excuse)


def _join(run: WholeRun, tally: Tally) -> None:
    windows = [part for _, part in tally.parts_of(NAME, np.ndarray)]
    if not windows:
        return
    clock = _clock(run)
    found: dict[Sort, Circles] = {}
    for some in window_groups(_all_windows(windows, clock), BATCH_OPS):
        graphs = list(graphs_of(some, run.ask(NAME, EdgesWithin(some)), clock, run.known.relay))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            search = partial(_search, cap=tally.cap, windows=run.known.windows)
            searched = list(threads.map(search, graphs))
        for sort in sorted({sort for each in searched for sort in each}):
            mine = [(graph, each[sort]) for graph, each in zip(graphs, searched, strict=True) if sort in each]
            _add(sort[0], found.setdefault(sort, Circles()), mine)
    for (name, excuse), circles in sorted(found.items(), key=lambda one: [*KINDS].index(one[0][0])):
        circles.report(name, excuse, clock, tally)


def _all_windows(parts: Sequence[Array], clock: Columns) -> Array:
    """The windows of the edges of all partitions."""
    if not by_completion(clock):
        return np.array([[0], [len(clock["outcome"]) - 1]], np.int32)
    first, last = np.concatenate(parts, axis=1)
    return windows_of(np.stack((last, first)))


@dataclass(frozen=True, slots=True)
class Smallest:
    """Components of one class in one graph. count: of all. sizes, lowest: of the smallest ones, the number of
    ops and the first of them; members: of the very smallest ones, all ops."""

    count: int
    sizes: Array
    lowest: Array
    members: Sequence[Array]


Sort = tuple[str, int]
"""A class, and the code of an excuse."""


def _search(graph: Graph, cap: int, windows: RunWindows) -> dict[Sort, Smallest]:
    """The components of each class and excuse, where there are some. cap: components that are wanted; of
    others only their number."""
    found = {}
    for name, every, wanted in _classes(graph):
        excuses = np.full(every.count, NO_EXCUSE)
        if name in OF_READS:
            excuses = _excuses(every, graph.clock, windows)
        for code in np.unique(excuses[wanted]).tolist():
            found[name, code] = _smallest(every, wanted & (excuses == code), graph.base, cap)
    return found


def _excuses(found: Components, clock: Columns, windows: RunWindows) -> Array:
    """Of each component: the code of what may have lost a decision while its ops lasted."""
    since, until = np.full(found.count, OPEN), np.full(found.count, -1)
    mine = found.label[found.ops]
    np.minimum.at(since, mine, clock["invoke_ns"][found.ops])
    np.maximum.at(until, mine, clock["complete_ns"][found.ops])
    return windows.excuses((TRANSACTION_TOPIC,), since, until)


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
    size = int(rows["op"].max()) + 1
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


def _add(name: str, circles: Circles, searched: Sequence[tuple[Graph, Smallest]]) -> None:
    """Add the components of some graphs to those of a class; for the smallest ones look for a cycle."""
    found = [each for _, each in searched]
    circles.count += sum(each.count for each in found)
    circles.sizes += [each.sizes for each in found]
    circles.lowest += [each.lowest for each in found]
    few = [(len(ops), n, ops) for n, each in enumerate(found) for ops in each.members]
    chosen: dict[int, list[Array]] = {}
    for _, n, ops in sorted(few, key=itemgetter(0))[:SHOWN]:
        chosen.setdefault(n, []).append(ops)
    for n, members in chosen.items():
        graph, _ = searched[n]
        for ops, steps in zip(members, edges_inside(graph, members, KINDS[name]), strict=True):
            edges = shortest(graph, ops, steps, KINDS[name])
            circles.edges[graph.base + int(ops[0])] = tuple(
                replace(edge, a=graph.base + edge.a, b=graph.base + edge.b) for edge in edges
            )


_UNISOLATED = "informational: Kafka does not isolate writes of concurrent transactions"

NAME = "cycles"
CHECK = Check(
    claim="Transactions do not depend on each other in a cycle, nor on the future.",
    anomalies={
        G1C: AnomalyClass(
            title="Circular information flow",
            meaning="Transactions read each other's records in a cycle: each would have had to commit first.",
            literature="G1c",
            rule=unless_truncated(
                "read_committed forbids it: a record is read after its transaction committed"
            ),
        ),
        G1C_REALTIME: AnomalyClass(
            title="Information flow against real time",
            meaning="A record was read before it was sent, or transactions read from each other in a"
            " circle that closes through real time.",
            literature="G1c-realtime; future read",
            early=Early(("tp", "value", "op")),
            rule=unless_truncated("nothing is read before it is sent"),
        ),
        G1C_WW: AnomalyClass(
            title="Circle of reads and writes",
            meaning="Transactions depend on each other in a cycle of reads and of the order of their writes.",
            literature="G1c with ww edges",
            informational=True,
            rule=always(_UNISOLATED),
        ),
        G0: AnomalyClass(
            title="Circle of writes",
            meaning="Transactions' records interleave so that each stands before the other somewhere.",
            literature="G0, dirty write",
            informational=True,
            rule=always(_UNISOLATED),
        ),
        G0_REALTIME: AnomalyClass(
            title="Circle of writes and real time",
            meaning="The order of writes and real time form a circle over several transactions.",
            literature="G0-realtime",
            informational=True,
            rule=always("informational; a direct inversion is reported as offset-realtime-inversion"),
        ),
    },
    kernel=_kernel,
    join=_join,
    subject="reads",
)
