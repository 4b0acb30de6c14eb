"""recovery: whether the cluster came back to full service; and when each partition served its producers
(docs/checks.md, "Groups, LSO, recovery", "Liveness").

Not here: how fast it came back, fault by fault (`checkers.liveness`).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.allowed import never
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import INFO, NEVER, Finding, PartitionResult, at
from checkers.engine.partition_view import SPARSE, KernelView, distinct
from history.events import Recovered
from history.reader import Array, History

NOT_RECOVERED = "not-recovered"

BIN_NS: Final = 50_000_000
"""Width of a bin."""
WAIT_NS: Final = 2 * BIN_NS
"""Shorter waits are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRecovered(Finding):
    """The cluster was not back `seconds` after all faults had been healed. why: as far as it is known."""

    seconds: float
    why: str

    def sentence(self, history: History) -> str:
        """How long the harness waited."""
        return (
            f"All faults healed, the cluster had not recovered {self.seconds:.0f} s later"
            f" ({at(history, self.at_ns)}): {self.why or 'no reason on record'}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTimes:
    """When a partition served its producers. Times in ns.

    acked: bins of `BIN_NS` with an acknowledgement. sent: bins in which records were sent, and when the
    first of each bin's records to be acknowledged was, shape (2, n). waits: shape (2, n), from and to.
    """

    acked: Array
    sent: Array
    waits: Array


def _kernel(p: KernelView, result: PartitionResult) -> None:
    if not p.known.on_record.recovery or not len(p.sends["op"]):
        return
    acks, invoked = p.sends["ack_ns"], p.sends["invoke_ns"]
    answered = acks >= 0
    waiting = answered | (p.sends["outcome"] == INFO)
    acked = _bins(acks[answered])
    result.parts[NAME] = ServedTimes(
        acked=acked,
        sent=_answers(invoked[waiting], np.where(answered, acks, NEVER)[waiting]),
        waits=_waits(acked, acks[answered], invoked[answered], invoked[waiting & ~answered]),
    )


def _bins(ns: Array) -> Array:
    """Distinct bins, sorted."""
    return _distinct_bins(ns // BIN_NS)


def _distinct_bins(bins: Array) -> Array:
    if not len(bins):
        return bins
    low, high = int(bins.min()), int(bins.max())
    if high - low > SPARSE * len(bins) + 1024:
        return distinct(bins)
    flags = np.zeros(high - low + 1, bool)
    flags[bins - low] = True
    return np.flatnonzero(flags) + low


def _answers(invoked: Array, acks: Array) -> Array:
    """Bins in which records were sent, and the first acknowledgement of a record of each."""
    bin_of = invoked // BIN_NS
    bins = _distinct_bins(bin_of)
    first = np.full(len(bins), NEVER)
    new = np.flatnonzero(np.append(True, bin_of[1:] != bin_of[:-1])[: len(bin_of)])
    if len(new):  # of neighbours in one bin the first answer, then of each bin
        np.minimum.at(first, np.searchsorted(bins, bin_of[new]), np.minimum.reduceat(acks, new))
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


def _join(run: WholeRun, tally: Tally) -> None:
    if not run.known.on_record.recovery:
        return
    seen = [event for event in run.events if isinstance(event, Recovered)]
    if not seen:
        tally.doubt(NAME, 1, "the run ended before it showed whether the cluster recovers")
    elif not seen[-1].recovered:
        ns, seconds, why = seen[-1].ns, seen[-1].seconds, seen[-1].why
        tally.add(NOT_RECOVERED, [NotRecovered(key=(-1,), at_ns=ns, seconds=seconds, why=why)])


NAME = "recovery"
CHECK = Check(
    claim="After the faults are healed the cluster comes back to full service in time.",
    anomalies={
        NOT_RECOVERED: AnomalyClass(
            title="Cluster did not recover",
            meaning="After all faults were healed the cluster did not come back to full service in time.",
            rule=never("a healed cluster recovers"),
        )
    },
    kernel=_kernel,
    join=_join,
    needs="recovery",
)
