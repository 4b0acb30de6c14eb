"""Sets of numbers, and columns looked up in them: which rows are among them, and at which position."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from history.columns import Array

CLOSE: Final = 1 << 30
TABLE: Final = 1 << 22
"""Numbers below the one, and ranges below the other, get a table with a flag for each (`NumberSet`)."""
BLOCK_BITS: Final = 8
"""Bits of a number by which `Positions` tells those of one block apart."""


class NumberSet:
    """A set of numbers, and quickly which of a column are among them.

    A table of flags, by number where they lie close together, else by a hash that sorts out most others.
    """

    def __init__(self, some: Iterable[int]) -> None:
        self.ordered = np.sort(np.fromiter(some, np.int64))
        least, greatest = self.ordered[[0, -1]].tolist() if len(self.ordered) else (0, 0)
        self.close = least > -CLOSE and greatest < CLOSE and greatest - least < TABLE
        self.before = least - 1
        self.bits = len(self.ordered).bit_length() + 6
        self.marked = np.zeros(greatest - least + 3 if self.close else 1 << self.bits, bool)
        self.marked[self.ordered - self.before if self.close else self._hash(self.ordered)] = True

    def _hash(self, values: Array) -> Array:
        return np.asarray((values ^ (values >> 29)) & ((1 << self.bits) - 1))

    def overlap(self, least: int, greatest: int) -> bool:
        """Whether one of them lies in a range."""
        at = int(np.searchsorted(self.ordered, least))
        return at < len(self.ordered) and int(self.ordered[at]) <= greatest

    def rows(self, values: Array) -> Array:
        """Rows whose value is one of them."""
        if self.close:
            return np.flatnonzero(self.flags(values))
        maybe = np.flatnonzero(self.marked[self._hash(values.astype(np.int64, copy=False))])
        at = np.searchsorted(self.ordered, values[maybe])
        return np.asarray(maybe[np.append(self.ordered, 0)[at] == values[maybe]])

    def flags(self, values: Array) -> Array:
        """Of each of these values: whether it is one of them."""
        if self.close:  # numbers outside of the table meet its first or last flag, which are not set
            return np.take(self.marked, values - self.before, mode="clip")
        found = np.zeros(len(values), bool)
        found[self.rows(values)] = True
        return found


class Positions:
    """Where numbers stand among sorted distinct ones: no search, but a table of the blocks that hold some."""

    def __init__(self, ordered: Array) -> None:
        self.ordered = ordered
        self.negative = bool((ordered < 0).any())
        block = ordered >> BLOCK_BITS
        held = np.flatnonzero(np.append(True, block[1:] != block[:-1])[: len(block)])
        self.start = np.zeros(0 if self.negative else int(block.max(initial=-1)) + 1, np.int32)
        self.table = np.zeros(len(held) << BLOCK_BITS, np.int32)
        if not self.negative:
            self.start[block[held]] = np.arange(len(held)) << BLOCK_BITS
            self.table[self._place(ordered)] = np.arange(len(ordered))

    def _place(self, numbers: Array) -> Array:
        place = self.start[numbers >> BLOCK_BITS]
        place += numbers & ((1 << BLOCK_BITS) - 1)
        return np.asarray(place)

    def __call__(self, numbers: Array) -> Array:
        """The position of each of these numbers, which are all among them."""
        return np.searchsorted(self.ordered, numbers) if self.negative else self.table[self._place(numbers)]
