"""Offsets of a partition as dense numbers, and sets of numbers as sorted arrays."""

import numpy as np

from history.columns import Array

SPARSE = 8
"""Offsets spread over more than this many times the rows are compressed by sorting."""


def distinct(values: Array) -> Array:
    """Sorted distinct values. (numpy.unique hashes since 2.3: on millions of numbers 20 times as slow.)"""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def among(values: Array, ordered: Array) -> Array:
    """Of each value: whether it is one of these sorted ones."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values)


class Slots:
    """Known offsets of a partition -> dense slots in offset order."""

    def __init__(self, *offsets: Array) -> None:
        given = [each for each in offsets if len(each)]
        lowest = min((int(each.min()) for each in given), default=0)
        highest = max((int(each.max()) for each in given), default=-1)
        self._base = lowest
        self._sorted: Array | None = None
        self.size = highest - lowest + 1
        if self.size > SPARSE * sum(map(len, given)) + 1024:
            self._sorted = distinct(np.concatenate(given))
            self.size = len(self._sorted)

    def __call__(self, offsets: Array) -> Array:
        """Slots of offsets, which are all known."""
        if self._sorted is None:
            return offsets - self._base
        return np.searchsorted(self._sorted, offsets)

    def offsets(self, slots: Array | int) -> Array:
        """The offsets of slots."""
        return np.asarray(slots + self._base if self._sorted is None else self._sorted[slots])
