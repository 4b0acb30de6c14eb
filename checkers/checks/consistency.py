"""consistency: offsets that hold several records (docs/checks.md, "Offsets")."""

from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, always, truncation
from checkers.engine.check import AnomalyClass, Check, Early
from checkers.engine.findings import NEVER, Finding, PartitionResult, Variant, What
from checkers.engine.partition_view import NOTHING, KernelView
from checkers.engine.slots import among, distinct
from checkers.windows import SLACK_NS, Excuse
from history.columns import Array
from history.reader import History

INCONSISTENT = "inconsistent-offsets"
REUSE = "offset-reuse"


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
    if not p.contested.any():
        return
    sends = p.sends
    acked = np.flatnonzero(p.acked)
    acked = acked[p.contested[p.slots(sends["offset"][acked])]]
    known, other = acked[p.committed[acked]], acked[~p.committed[acked]]
    read = np.flatnonzero(p.contested[p.read_slot])
    slots, values = p.read_slot[read], p.reads["value"][read]
    value_at = np.full(p.slots.size, NOTHING, np.int64)
    value_at[p.slots(sends["offset"][known])] = sends["value"][known]
    value_at[slots] = values
    differing = slots[value_at[slots] != values]
    bad = distinct(np.concatenate((differing, _differing(p, value_at, known))))
    free = other[value_at[p.slots(sends["offset"][other])] == NOTHING]
    value_at[p.slots(sends["offset"][free])] = sends["value"][free]
    reused = _differing(p, value_at, other)
    result.report(REUSE, reused[~among(reused, bad)], partial(_conflict, p))
    if len(bad):
        codes = _contradictions(p, bad, read, known)
        excuses = _replaced(p, bad, read, known)
        result.report(INCONSISTENT, bad, partial(_conflict, p), codes, VARIANTS, excuses=excuses)


def _replaced(p: KernelView, bad: Array, read: Array, known: Array) -> Array:
    """Codes of what may have put another record to each of these slots, between the first and the last sign
    of a record there."""
    if not p.windows:
        return np.zeros(len(bad), np.int8)
    here = read[among(p.read_slot[read], bad)]
    rows = known[among(p.slots(p.sends["offset"][known]), bad)]
    at = np.concatenate((p.read_slot[here], p.slots(p.sends["offset"][rows])))
    at = np.searchsorted(bad, at)
    seen, acked = p.reads["complete_ns"][here], p.sends["ack_ns"][rows]
    first, last = np.full(len(bad), NEVER), np.zeros(len(bad), np.int64)
    np.minimum.at(first, at, np.concatenate((seen - SLACK_NS, p.sends["invoke_ns"][rows])))
    np.maximum.at(last, at, np.concatenate((seen, np.where(acked < 0, NEVER, acked))))
    return p.windows.excuses(first, last, weak=np.full(len(bad), bool(p.known.weak.any())))


def _contradictions(p: KernelView, bad: Array, read: Array, known: Array) -> Array:
    """Codes of `VARIANTS` for slots with several values. read, known: reads and sends (rows) that may
    be of one of them."""
    here = read[among(p.read_slot[read], bad)]
    pairs = np.unique(np.stack((p.read_slot[here], p.reads["value"][here]), axis=1), axis=0)
    slots, values = np.unique(pairs[:, 0], return_counts=True)
    codes = np.full(len(bad), _READS)
    rows = known[among(p.slots(p.sends["offset"][known]), bad)]
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
    if variant == Contradiction.ACK_NONE:
        return True, "acks=0: an acknowledgement promises nothing"
    if variant == Contradiction.ACK_LEADER and ground.excuse is Excuse.LEADER:
        return True, "acks=1: what the leader alone had there may have been truncated"
    return False, "below the high watermark a log never changes"


CHECK = Check(
    claim="An offset holds one record, for every observer and for ever.",
    anomalies={
        INCONSISTENT: AnomalyClass(
            title="One offset, several records",
            meaning="The same offset of a partition held different records for different observers: the"
            " log changed after it was acknowledged or read.",
            literature="divergence",
            early=Early(("tp", "offset"), weakest_acks=True),
            rule=conflict,
        ),
        REUSE: AnomalyClass(
            title="Offset of an uncommitted record used again",
            meaning="An offset was acknowledged for a record that did not commit, and holds another record.",
            informational=True,
            rule=always("informational: nothing was promised for the record that did not commit"),
        ),
    },
    kernel=_kernel,
    content=True,
    subject="reads",
)
