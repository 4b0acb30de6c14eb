"""Kernel of progress: when a partition served its producers, in bins (docs/checks.md, "Liveness").

Not here: what it means for a run, with its phases and faults (`checkers.liveness`).
"""

from typing import Final

import numpy as np

from checkers.kernel_types import INFO, NEVER, Array, PartitionResult, Progress
from checkers.kernel_view import SPARSE, Partition

BIN_NS: Final = 50_000_000
"""Width of a bin."""
WAIT_NS: Final = 2 * BIN_NS
"""Shorter waits are left out."""


def progress(p: Partition, result: PartitionResult) -> None:
    """Bins of acknowledgements and of sends, and waits."""
    if p.context.portable or not len(p.sends["op"]):
        return
    acks, invoked = p.sends["ack_ns"], p.sends["invoke_ns"]
    answered = acks >= 0
    waiting = answered | (p.sends["outcome"] == INFO)
    acked = _bins(acks[answered])
    result.progress = Progress(
        acked=acked,
        sent=_answers(invoked[waiting], np.where(answered, acks, NEVER)[waiting]),
        waits=_waits(acked, acks[answered], invoked[answered], invoked[waiting & ~answered]),
    )


def _bins(ns: Array) -> Array:
    """Distinct bins, sorted."""
    bins = ns // BIN_NS
    if not len(bins):
        return bins
    low, high = int(bins.min()), int(bins.max())
    if high - low > SPARSE * len(bins) + 1024:
        return np.unique(bins)
    flags = np.zeros(high - low + 1, bool)
    flags[bins - low] = True
    return np.flatnonzero(flags) + low


def _answers(invoked: Array, acks: Array) -> Array:
    """Bins in which records were sent, and the first acknowledgement of a record of each."""
    bins = _bins(invoked)
    first = np.full(len(bins), NEVER)
    np.minimum.at(first, np.searchsorted(bins, invoked // BIN_NS), acks)
    return np.stack((bins, first))


def _waits(acked: Array, acks: Array, invoked: Array, unanswered: Array) -> Array:
    """From and to of each time in which a record waited and none was acknowledged.

    acked: bins of `acks`; invoked: of the acknowledged records; unanswered: when others were sent.
    """
    if not len(unanswered) and not (np.diff(acked) > 1).any() and _prompt(acks, invoked):
        return np.zeros((2, 0), np.int64)
    order = np.argsort(acks, kind="stable")
    times = np.concatenate(([-1], acks[order], [NEVER]))
    oldest = np.minimum.accumulate(invoked[order][::-1])[::-1]  # of those acknowledged from here on
    sent = np.sort(unanswered)
    following = np.append(sent, NEVER)[np.searchsorted(sent, times[:-1], side="left")]
    begin = np.minimum(np.append(oldest, NEVER), following)
    begin, end = np.maximum(begin, times[:-1]), times[1:]
    kept = (begin < NEVER) & (end - begin >= WAIT_NS)
    return np.stack((begin[kept], end[kept]))


def _prompt(acks: Array, invoked: Array) -> bool:
    """Even the first acknowledgement came before its record had waited."""
    return not len(acks) or int(acks.min() - invoked.min()) < WAIT_NS
