"""consistency: offsets that hold several records (docs/checks.md, "Offsets")."""

from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, always, truncation
from checkers.engine.check import AnomalyClass, Check
from checkers.engine.findings import Finding, PartitionResult, Variant, What
from checkers.engine.partition_view import KernelView, distinct
from history.reader import Array, History

INCONSISTENT = "inconsistent-offsets"
REUSE = "offset-reuse"
_NOTHING: Final = -(2**63)


class Contradiction(Variant):
    """Who contradicts whom: two reads, or the acknowledgement with the lowest acks and another."""

    ACK_NONE = "ack 0"
    ACK_LEADER = "ack 1"
    ACK_ALL = "ack all"
    READS = "reads"


_READS: Final = 3
VARIANTS: Final = dict(enumerate(Contradiction))
"""Rank of the lowest acks, or `_READS` -> variant."""


class SeveralRecords(Finding):
    """One offset with several records."""

    def sentence(self, history: History) -> str:
        """What the offset was for each observer."""
        told = []
        for s in self.records:
            verb = "acknowledged for" if s.what is What.SEND else "read as"
            epoch = f", leader epoch {s.leader_epoch}" if s.leader_epoch >= 0 else ""
            told.append(f"{verb} {s.name} (op {s.op}{epoch})")
        return f"Offset {self.key[1]} of {history.tp(self.tp)} was {', and '.join(told)}."


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends, reads = p.sends, p.reads
    known = np.flatnonzero(p.acked & p.committed)
    other = np.flatnonzero(p.acked & ~p.committed)
    value_at = np.full(p.slots.size, _NOTHING, np.int64)
    value_at[p.slots(sends["offset"][known])] = sends["value"][known]
    value_at[p.read_slot] = reads["value"]
    differing = p.read_slot[value_at[p.read_slot] != reads["value"]]
    bad = np.unique(np.concatenate((differing, _differing(p, value_at, known))))
    free = other[value_at[p.slots(sends["offset"][other])] == _NOTHING]
    value_at[p.slots(sends["offset"][free])] = sends["value"][free]
    reused = np.setdiff1d(_differing(p, value_at, other), bad)
    result.report(REUSE, reused, partial(_conflict, p))
    if len(bad):
        result.report(INCONSISTENT, bad, partial(_conflict, p), _contradictions(p, bad), VARIANTS)


def _contradictions(p: KernelView, bad: Array) -> Array:
    """Codes of `VARIANTS` for slots with several values."""
    here = np.isin(p.read_slot, bad)
    pairs = np.unique(np.stack((p.read_slot[here], p.reads["value"][here]), axis=1), axis=0)
    slots, values = np.unique(pairs[:, 0], return_counts=True)
    codes = np.full(len(bad), _READS)
    rows = np.flatnonzero(p.acked & p.committed)
    rows = rows[np.isin(p.slots(p.sends["offset"][rows]), bad)]
    acks = p.known.acks[p.owner[rows]]
    at = np.searchsorted(bad, p.slots(p.sends["offset"][rows]))
    np.minimum.at(codes, at, np.where(acks == -1, 2, acks))
    codes[np.isin(bad, slots[values > 1])] = _READS
    return codes


def _differing(p: KernelView, value_at: Array, rows: Array) -> Array:
    slots = p.slots(p.sends["offset"][rows])
    return distinct(slots[value_at[slots] != p.sends["value"][rows]])


def _conflict(p: KernelView, slot: int) -> Finding:
    offset = int(p.slots.offsets(slot))
    sends = np.flatnonzero(p.sends["offset"] == offset)
    reads = np.flatnonzero(p.reads["offset"] == offset)
    _, first = np.unique(p.reads["value"][reads], return_index=True)
    shown = [*map(p.sent, sends[:4].tolist()), *map(p.got, reads[first][:4].tolist())]
    times = p.reads["complete_ns"][reads[first]].tolist() + p.sends["ack_ns"][sends].tolist()
    return SeveralRecords(
        key=(p.tp, offset),
        process=p.process_of(int(sends[0])) if len(sends) else -1,
        records=tuple(shown),
        at_ns=max(times),
    )


def conflict(ground: Ground, variant: str) -> Answer:
    """An offset held several records."""
    if reason := truncation(ground):
        return True, reason
    if variant in (Contradiction.ACK_NONE, Contradiction.ACK_LEADER):
        acks = 0 if variant == Contradiction.ACK_NONE else 1
        return True, f"acks={acks}: what was acknowledged there may have been truncated"
    return False, "below the high watermark a log never changes"


CHECK = Check(
    claim="An offset holds one record, for every observer and for ever.",
    anomalies={
        INCONSISTENT: AnomalyClass(
            title="One offset, several records",
            meaning="The same offset of a partition held different records for different observers: the"
            " log changed after it was acknowledged or read.",
            literature="divergence",
            rule=conflict,
        ),
        REUSE: AnomalyClass(
            title="Offset of an uncommitted record used again",
            meaning="An offset was acknowledged for a record that did not commit, and holds another record.",
            rule=always("informational: nothing was promised for the record that did not commit"),
        ),
    },
    kernel=_kernel,
    content=True,
)
