"""Dependency edges that one partition shows (docs/checks.md, "Cycles").

Not here: the graph over all partitions, and its cycles (`checkers.cycles`).
"""

import numpy as np

from checkers.kernel_types import RC, Array, PartitionResult
from checkers.kernel_view import Partition


def edges(p: Partition, result: PartitionResult) -> None:
    """wr edges (writer -> reader) and ww edges (writer -> next writer), each once."""
    if not len(p.context.vertex):
        return
    result.wr = _wr(p)
    if p.context.ww:
        result.ww = _ww(p)


def _wr(p: Partition) -> Array:
    vertex, relay = p.context.vertex, p.context.relay
    if not relay.any():
        return np.zeros((2, 0), np.int32)
    rows = np.flatnonzero((p.writer >= 0) & (p.reads["isolation"] == RC))
    w, r = p.sends["op"][p.writer[rows]], p.reads["op"][rows]
    kept = (relay[w] | relay[r]) & vertex[w] & vertex[r] & (w != r)
    return _once(w[kept], r[kept])


def _ww(p: Partition) -> Array:
    sends = p.sends
    eligible = p.committed & p.context.vertex[sends["op"]]
    acks = np.flatnonzero(eligible & p.acked)
    shown = np.flatnonzero(np.append(eligible, False)[p.writer])
    slot = np.concatenate((p.slots(sends["offset"][acks]), p.read_slot[shown]))
    row = np.concatenate((acks, p.writer[shown]))
    at = np.full(p.slots.size, -1, np.int64)
    at[slot] = row
    at[slot[at[slot] != row]] = -1  # several values at one offset: no order between them
    line = sends["op"][at[at >= 0]]
    moved = line[1:] != line[:-1]
    return _once(line[:-1][moved], line[1:][moved])


def _once(a: Array, b: Array) -> Array:
    """Distinct edges, shape (2, n)."""
    keys = np.unique(a.astype(np.int64) << 32 | b.astype(np.int64))
    return np.stack((keys >> 32, keys & 0xFFFFFFFF)).astype(np.int32)
