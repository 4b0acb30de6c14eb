"""real-time: records that stand before one that was acknowledged before they were sent (docs/checks.md,
"Offsets")."""

from dataclasses import dataclass

import numpy as np

from checkers.checks.durability import loss
from checkers.engine.check import AnomalyClass, Check, Early
from checkers.engine.findings import ACKS, NEVER, Finding, PartitionResult, at
from checkers.engine.partition_view import KernelView
from history.columns import Array
from history.reader import History

INVERSION = "offset-realtime-inversion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversion(Finding):
    """A later send at a lower offset: its records are the earlier and the later send. kept: the log may have
    that earlier one at the end, or another one that the later one stands before, too."""

    kept: bool

    def sentence(self, history: History) -> str:
        """Both records."""
        s, t = self.records
        return (
            f"{s.text(history)}, at offset {s.offset}, was acknowledged {at(history, s.done_ns)};"
            f" record {t.name}, sent afterwards ({at(history, t.invoke_ns)}), stands before it, at"
            f" offset {t.offset}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends = p.sends
    first = np.flatnonzero((sends["place"] >= 0) & (sends["ack_ns"] >= 0))
    second = np.flatnonzero(sends["place"] >= 0)
    if not len(first) or not len(second):
        return
    first, second = _opposed(p, first, second)
    first = first[np.argsort(sends["ack_ns"][first], kind="stable")]
    highest = np.maximum.accumulate(sends["place"][first])
    bound = _bound(p, first, second)
    hits = np.flatnonzero(bound > sends["place"][second])
    if not len(hits):
        return
    # the earlier send is the first in order of acknowledgement with that highest place
    earlier = first[np.searchsorted(highest, bound[hits], side="left")]
    later = second[hits]
    kept = _before_kept(p, first, later)

    def inversion(hit: int) -> Finding:
        s, t = p.placed(int(earlier[hit])), p.placed(int(later[hit]))
        return Inversion(
            key=(p.tp, t.value), process=t.process, records=(s, t), at_ns=t.done_ns, kept=bool(kept[hit])
        )

    until = sends["ack_ns"][later]
    alone = p.known.weak[p.owner[later]] & ~p.flagged(slice(None))[later]  # its leader alone may have had it
    mixed = alone & p.known.weak[p.owner[earlier]]
    weaker = np.where(alone, later, earlier)
    codes = p.known.acks[p.owner[weaker]]
    codes = np.where(mixed, np.minimum(codes, p.known.acks[p.owner[earlier]]), codes)
    excuses = p.excuses(weaker, sends["invoke_ns"][earlier], np.where(until < 0, NEVER, until))
    result.report(INVERSION, np.arange(len(hits)), inversion, codes, ACKS, excuses=excuses)


def _bound(p: KernelView, first: Array, second: Array) -> Array:
    """Of each of `second`: the highest place of those of `first`, which are in the order of their
    acknowledgements, that were acknowledged before it was sent; -1 = there is none."""
    sends = p.sends
    highest = np.maximum.accumulate(sends["place"][first])
    before = np.searchsorted(sends["ack_ns"][first], sends["invoke_ns"][second], side="left")
    return np.append(highest, -1)[before - 1]  # before = 0: the -1 at the end


def _before_kept(p: KernelView, first: Array, later: Array) -> Array:
    """Which of `later` stand before one that the log may have at the end (flags)."""
    kept = first[p.may_be_kept(first)]
    return np.asarray(_bound(p, kept, later) > p.sends["place"][later])


def _opposed(p: KernelView, first: Array, second: Array) -> tuple[Array, Array]:
    """Those of `first` acknowledged before one of `second` below them was sent, and the reverse: few."""
    above_of, places = (p.slots(p.sends["place"][rows]) for rows in (first, second))
    acked, sent = p.sends["ack_ns"][first], p.sends["invoke_ns"][second]
    above, below = np.full(p.slots.size + 1, NEVER), np.full(p.slots.size + 1, -NEVER)
    np.minimum.at(above, above_of, acked)
    np.maximum.at(below, places + 1, sent)
    above = np.minimum.accumulate(above[::-1])[::-1]
    below = np.maximum.accumulate(below)
    return first[below[above_of] > acked], second[above[places + 1] < sent]


CHECK = Check(
    claim="A record that is sent after another was acknowledged stands behind it.",
    anomalies={
        INVERSION: AnomalyClass(
            title="Later send, lower offset",
            meaning="A record was sent after another of the same partition had been acknowledged, and"
            " stands before it in the log. A log grows at its end only.",
            literature="real-time order violation",
            early=Early(("tp", "value"), weakest_acks=True),
            rule=loss,
        )
    },
    kernel=_kernel,
    subject="acknowledgements",
)
