"""When a record at an offset or above was first acknowledged by all in-sync replicas.

From then on each of them had the log up to there, and had flushed what its settings flush by number
(`checkers.windows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.engine.findings import NEVER
from checkers.windows import LogWindows
from history.columns import Array, Columns

ALL: Final = -1
"""`acks` of a process whose records all in-sync replicas acknowledge."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """offsets, ascending; earliest: of each, when the first record there or above was acknowledged."""

    offsets: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    earliest: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, offsets: Array, acks: Array) -> "Acknowledged":
        """Of offsets and times of acknowledgements, in any order."""
        order = np.argsort(offsets, kind="stable")
        return cls(offsets[order], np.minimum.accumulate(acks[order][::-1])[::-1])

    def at(self, offsets: Array | int) -> Array:
        """Of each offset: when the first record there or above was acknowledged; NEVER: none was."""
        return np.asarray(np.append(self.earliest, NEVER)[np.searchsorted(self.offsets, offsets)])

    def some(self, low: int, number: int) -> "Acknowledged":
        """Its part of `number` offsets from `low` on: of all behind them the first time alone."""
        begin, end = np.searchsorted(self.offsets, (low, low + number))
        behind = self.earliest[end : end + 1]
        offsets = np.append(self.offsets[begin:end], np.full(len(behind), low + number))
        return Acknowledged(offsets, np.append(self.earliest[begin:end], behind))


def acknowledged(sends: Columns, acks: Array, windows: LogWindows) -> Acknowledged:
    """Of rows of sends. acks: of the process of each. windows: of the log; a record that was sent before a
    loss of power and acknowledged after it may be one that this loss took."""
    known = np.flatnonzero((acks == ALL) & (sends["offset"] >= 0) & (sends["ack_ns"] >= 0))
    since, until = sends["invoke_ns"][known], sends["ack_ns"][known]
    known = known[~windows.any_power.every.between(since, until)]
    return Acknowledged.of(sends["offset"][known], sends["ack_ns"][known])


def above_each(ranges: Sequence[Acknowledged], number: int) -> list[Acknowledged]:
    """Of each range of a log, in order: what those above it tell of `number` offsets from its end on."""
    found = [Acknowledged()]
    for each in reversed(ranges[1:]):
        both = Acknowledged.of(
            np.append(each.offsets, found[-1].offsets), np.append(each.earliest, found[-1].earliest)
        )
        found.append(both.some(int(both.offsets[:1].max(initial=0)), number))
    return found[::-1]
