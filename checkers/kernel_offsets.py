"""Kernels of offsets: one offset with several values, and offsets that go back in real time
(docs/checks.md, "Offsets").

Not here: the order of one process's sends (`kernel_sends`).
"""

import numpy as np

from checkers.kernel_delivery import got, sent
from checkers.kernel_types import (
    ACKS,
    Array,
    Finding,
    PartitionResult,
    Shown,
    integers,
    spelled,
)
from checkers.kernel_view import Partition

_NOTHING = -(2**63)
_CONTRADICTED = ((0, "ack 0"), (1, "ack 1"), (2, "ack all"), (3, "reads"))


def conflicts(p: Partition, result: PartitionResult) -> None:
    """inconsistent-offsets and offset-reuse."""
    sends, reads = p.sends, p.reads
    known = np.flatnonzero(p.acked & p.committed)
    other = np.flatnonzero(p.acked & ~p.committed)
    value_at = np.full(p.slots.size, _NOTHING, np.int64)
    value_at[p.slots(sends["offset"][known])] = sends["value"][known]
    value_at[p.read_slot] = reads["value"]
    bad = np.concatenate(
        (
            p.read_slot[value_at[p.read_slot] != reads["value"]],
            _differing(p, value_at, known),
        )
    )
    bad = np.unique(bad)
    free = other[value_at[p.slots(sends["offset"][other])] == _NOTHING]
    value_at[p.slots(sends["offset"][free])] = sends["value"][free]
    reused = np.setdiff1d(_differing(p, value_at, other), bad)
    result.count("offset-reuse", len(reused))
    for slot in reused[: p.context.cap].tolist():
        result.findings.append(_conflict(p, "offset-reuse", p.slots.offset(slot), ""))
    if len(bad):
        _inconsistent(p, result, bad)


def _inconsistent(p: Partition, result: PartitionResult, bad: Array) -> None:
    """Report slots with several values, told apart by who contradicts whom."""
    here = np.isin(p.read_slot, bad)
    pairs = np.unique(np.stack((p.read_slot[here], p.reads["value"][here]), axis=1), axis=0)
    slots, values = np.unique(pairs[:, 0], return_counts=True)
    variant = np.full(len(bad), 3)  # three: reads disagree; else rank of the lowest acks
    rows = np.flatnonzero(p.acked & p.committed)
    rows = rows[np.isin(p.slots(p.sends["offset"][rows]), bad)]
    acks = p.context.acks[p.context.process_rows(p.sends["process"][rows])]
    np.minimum.at(
        variant,
        np.searchsorted(bad, p.slots(p.sends["offset"][rows])),
        np.where(acks == -1, 2, acks),
    )
    variant[np.isin(bad, slots[values > 1])] = 3
    result.count_by("inconsistent-offsets", variant, _CONTRADICTED)
    for code, name in _CONTRADICTED:
        for slot in bad[variant == code][: p.context.cap].tolist():
            offset = p.slots.offset(slot)
            result.findings.append(_conflict(p, "inconsistent-offsets", offset, name))


def _differing(p: Partition, value_at: Array, rows: Array) -> Array:
    slots = p.slots(p.sends["offset"][rows])
    return np.unique(slots[value_at[slots] != p.sends["value"][rows]])


def _conflict(p: Partition, name: str, offset: int, variant: str) -> Finding:
    sends = np.flatnonzero(p.sends["offset"] == offset)
    reads = np.flatnonzero(p.reads["offset"] == offset)
    _, first = np.unique(p.reads["value"][reads], return_index=True)
    shown: list[Shown] = [sent(p, row) for row in sends[:4].tolist()]
    shown += [got(p, row) for row in reads[first][:4].tolist()]
    times = [int(p.reads["complete_ns"][row]) for row in reads[first].tolist()]
    times += [int(p.sends["ack_ns"][row]) for row in sends.tolist()]
    return Finding(
        name=name,
        key=(p.tp, offset),
        variant=variant,
        tp=p.tp,
        process=int(p.sends["process"][sends[0]]) if len(sends) else -1,
        ops=tuple(dict.fromkeys(each.op for each in shown)),
        records=tuple(shown),
        at_ns=max(times),
    )


def inversions(p: Partition, result: PartitionResult) -> None:
    """offset-realtime-inversion: sent after another was acknowledged, placed before it."""
    sends = p.sends
    first = np.flatnonzero(p.acked & (sends["ack_ns"] >= 0))
    second = np.flatnonzero(sends["place"] >= 0)
    if not len(first) or not len(second):
        return
    first = first[np.argsort(sends["ack_ns"][first], kind="stable")]
    highest = np.maximum.accumulate(sends["offset"][first])
    before = np.searchsorted(sends["ack_ns"][first], sends["invoke_ns"][second], side="left")
    bound = np.append(highest, -1)[before - 1]  # before = 0: the -1 at the end
    hits = np.flatnonzero(bound > sends["place"][second])
    if not len(hits):
        return
    # the earlier send is the first in order of acknowledgement with that highest offset
    top = np.searchsorted(highest, bound[hits], side="left")
    earlier, later = first[top], second[hits]
    acks = p.context.acks[p.context.process_rows(sends["process"][earlier])]
    result.count_by("offset-realtime-inversion", acks, ACKS)
    for s, t, level in zip(
        earlier[: p.context.cap].tolist(), later.tolist(), acks.tolist(), strict=False
    ):
        result.findings.append(
            Finding(
                name="offset-realtime-inversion",
                key=integers(p.tp, sends["value"][t]),
                variant=spelled(level, ACKS),
                tp=p.tp,
                process=int(sends["process"][t]),
                ops=tuple(dict.fromkeys(integers(sends["op"][s], sends["op"][t]))),
                records=(sent(p, s), placed(p, t)),
                at_ns=int(sends["ack_ns"][t]),
                detail={
                    "row": t,
                    "acked_ns": int(sends["ack_ns"][s]),
                    "invoked_ns": int(sends["invoke_ns"][t]),
                },
            )
        )


def placed(p: Partition, row: int) -> Shown:
    """A send at the offset where it was acknowledged or read."""
    s = p.sends
    op, value, place, outcome = (int(s[c][row]) for c in ("op", "value", "place", "outcome"))
    return Shown(op, "send", p.tp, value, place, outcome)
