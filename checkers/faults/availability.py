"""Served time: how much of a time lies within a second after an acknowledgement (docs/checks.md, "Liveness").

One definition for the phase of faults, for each fault and for all time under faults. It needs no record that
waits: where clients cannot even begin a transaction, nothing is acknowledged, and no time is served.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from history.columns import Array

REACH_NS: Final = 1_000_000_000
"""How long after an acknowledgement the time still counts as served."""

TimeSpan = tuple[int, int]
"""From and to, in ns."""


def served_share(acked_ns: Array, spans: Iterable[TimeSpan]) -> float | None:
    """The share of these times that is served: not later than `REACH_NS` after an acknowledgement.

    acked_ns: sorted. spans: may overlap; what several cover counts once. None where they cover nothing.
    """
    apart = _apart(spans)
    length = sum(end - begin for begin, end in apart)
    return sum(_served(acked_ns, begin, end) for begin, end in apart) / length if length else None


def _apart(spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    """The same time, in spans that do not overlap."""
    found: list[TimeSpan] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif begin < end:
            found.append((begin, end))
    return found


def _served(acked_ns: Array, begin: int, end: int) -> int:
    """How many ns of a span are served."""
    low, high = np.searchsorted(acked_ns, (begin - REACH_NS, end))
    at = acked_ns[low:high]
    until = np.minimum(at + REACH_NS, np.append(at[1:], end))
    return int(np.maximum(np.minimum(until, end) - np.maximum(at, begin), 0).sum())
