"""Strongly connected components of ops, with real time or without.

They are scipy's. Real time needs no quadratic number of edges: a chain of nodes in order of completion stands
for it.
"""

from dataclasses import dataclass, field

import numpy as np

from checkers.engine.findings import NEVER, OK
from history.columns import Array, Columns

Edges = Array
"""Shape (2, n): from, to."""


@dataclass(slots=True)
class Components:
    """Strongly connected components of at least two ops. label: of each op, -1 = in none."""

    label: Array
    count: int
    ops: Array = field(init=False)
    sizes: Array = field(init=False)
    lowest: Array = field(init=False)

    def __post_init__(self) -> None:
        self.ops = np.flatnonzero(self.label >= 0)
        mine = self.label[self.ops]
        self.sizes = np.bincount(mine, minlength=self.count)
        self.lowest = np.zeros(self.count, np.int64)
        self.lowest[mine[::-1]] = self.ops[::-1]  # the last one assigned stays

    def same(self, other: "Components") -> Array:
        """Which of these are, as sets of ops, components of `other`."""
        mine, theirs = self.label[self.ops], other.label[self.ops]
        at_lowest = other.label[self.lowest]
        elsewhere = np.zeros(self.count, bool)
        elsewhere[mine[theirs != at_lowest[mine]]] = True
        sizes = np.append(other.sizes, -1)[at_lowest]
        return np.asarray(~elsewhere & (sizes == self.sizes))


def components(
    edges: Edges, clock: Columns, joined: Array | None = None, inner: Components | None = None
) -> Components:
    """Components of these edges, and of real time between the ops that have some, and those `joined`.

    clock: columns of `ops`, indexed by op number. joined: None = without real time. inner: components of some
    of these edges; each is one node of the graph here.
    """
    size = len(clock["outcome"])
    part = np.ones(size, bool)
    if joined is None or by_completion(clock):
        part = _covered(edges, size)
    if joined is not None:
        joined = _timed(edges, joined, part)
    ops = np.flatnonzero(part)
    if not ops.size:
        return Components(np.full(size, -1, np.int32), 0)
    if len(ops) < size // 2:
        number = np.cumsum(part, dtype=np.int32) - np.int32(1)
        found = components(
            number[edges[:, part[edges[0]] & part[edges[1]]]],
            {name: column[ops] for name, column in clock.items()},
            None if joined is None else number[joined],
            None if inner is None else Components(inner.label[ops], inner.count),
        )
        label = np.full(size, -1, np.int32)
        label[ops] = found.label
        return Components(label, found.count)
    node, nodes = _nodes(inner, size)
    between = edges if inner is None else node[edges]
    if inner is not None:
        between = between[:, between[0] != between[1]]
    if joined is not None:
        chain, nodes = _real_time(joined, clock, node, nodes)
        between = np.concatenate((between, chain), axis=1)
    # imported here: lists of checks and anomalies need no scipy
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(between.shape[1])  # as csgraph wants them, else it copies
    matrix = csr_array((ones, (between[0], between[1])), shape=(nodes, nodes))
    _, label = connected_components(matrix, directed=True, connection="strong")
    label = label[node]
    big = np.bincount(label, minlength=nodes) > 1
    number = np.cumsum(big, dtype=np.int32) - np.int32(1)
    return Components(np.where(big, number, -1)[label], int(big.sum()))


def _nodes(inner: Components | None, size: int) -> tuple[Array, int]:
    """The node of each op, and how many there are: one for each component and each op that is in none."""
    if inner is None:
        return np.arange(size, dtype=np.int32), size
    alone = inner.label < 0
    number = np.cumsum(alone, dtype=np.int32) + np.int32(inner.count - 1)
    return np.where(alone, number, inner.label).astype(np.int32), inner.count + int(alone.sum())


def _covered(edges: Edges, size: int) -> Array:
    """Flags by op: between the ends of a backward edge, or one of them. All other ops lie on no cycle."""
    back = np.flatnonzero(edges[0] > edges[1])
    change = np.bincount(edges[1][back], minlength=size + 1)
    change -= np.bincount(edges[0][back] + 1, minlength=size + 1)
    return np.cumsum(change[:-1]) > 0


def _timed(edges: Edges, joined: Array, part: Array) -> Array:
    """The ops with edges, of those of `part`. joined: further ops that have some."""
    some = np.zeros(len(part), bool)
    some[joined] = True
    some[edges.ravel()] = True
    return np.flatnonzero(some & part)


def _real_time(ops: Array, clock: Columns, node: Array, nodes: int) -> tuple[Edges, int]:
    """Edges through a chain of further nodes, one for each node of a completed op, in order of completion;
    and how many nodes there are then. node: of each op.

    Of a node of several ops, the first completion and the last invocation count.
    """
    done = ops[clock["outcome"][ops] == OK]
    first, last = np.full(nodes, NEVER), np.full(nodes, -NEVER)
    np.minimum.at(first, node[done], clock["complete_ns"][done])
    np.maximum.at(last, node[ops], clock["invoke_ns"][ops])
    left = np.flatnonzero(first < NEVER)
    left = left[np.argsort(first[left], kind="stable")].astype(np.int32)
    chain = np.arange(nodes, nodes + len(left), dtype=np.int32)
    before = np.searchsorted(first[left], last, side="left") - 1
    late = np.flatnonzero(before >= 0).astype(np.int32)
    into = np.stack((left, chain))
    along = np.stack((chain[:-1], chain[1:]))
    out = np.stack((chain[before[late]], late))
    return np.concatenate((into, along, out), axis=1), nodes + len(left)


def by_completion(clock: Columns) -> bool:
    """Ops are numbered in the order of their completion, and none completed before it was invoked."""
    done = clock["complete_ns"]
    return not ((done[1:] < done[:-1]).any() or (done < clock["invoke_ns"]).any())
