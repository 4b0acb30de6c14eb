"""Kernel of copies: what was made of the same input twice, and what the driver needs to tell what was
never made (docs/checks.md, "Exactly once").

Not here: eos-loss itself, which joins inputs with the copies of all partitions
(`checkers.exactly_once`); the inputs' side of it (`kernel_groups`).
"""

import numpy as np

from checkers.kernel_delivery import fates, sent
from checkers.kernel_types import Array, Copied, Finding, PartitionResult, runs
from checkers.kernel_view import Partition


def copies(p: Partition, result: PartitionResult) -> None:
    """eos-duplicate; which inputs have a copy here."""
    if not p.context.copies:
        return
    rows = np.flatnonzero(p.sends["src_offset"] >= 0)
    if not len(rows):
        return
    group = p.context.group[p.owner[rows]]
    rows, group = rows[group >= 0], group[group >= 0]
    pair = group.astype(np.int64) << 32 | p.sends["src_tp"][rows]
    for one in np.unique(pair).tolist():  # groups and inputs, not rows: they are few
        _of_one_input(p, result, rows[pair == one], one >> 32, one & 0xFFFFFFFF)


def _of_one_input(
    p: Partition, result: PartitionResult, rows: Array, group: int, source: int
) -> None:
    inputs, committed = p.sends["src_offset"], p.committed[rows]
    made = rows[committed]
    offsets, counts = np.unique(inputs[made], return_counts=True)
    twice = offsets[counts > 1]
    result.count("eos-duplicate", len(twice))
    for offset in twice[: p.context.cap].tolist():
        result.findings.append(_twice(p, made[inputs[made] == offset], group, source, offset))
    pending = rows[~committed & ~p.failed[rows]]
    pending = np.setdiff1d(pending, fates(p, pending)[0])
    result.copied.append(
        Copied(
            group=group,
            source=source,
            committed=runs(offsets),
            pending=runs(np.unique(inputs[pending])),
        )
    )


def _twice(p: Partition, rows: Array, group: int, source: int, offset: int) -> Finding:
    shown = [sent(p, row) for row in rows[:4].tolist()]
    last = int(rows[-1])
    return Finding(
        name="eos-duplicate",
        key=(p.tp, group, source, offset),
        tp=p.tp,
        process=int(p.sends["process"][last]),
        ops=tuple(dict.fromkeys(each.op for each in shown)),
        records=tuple(shown),
        at_ns=int(p.sends["ack_ns"][last]),
        detail={"copies": len(rows)},
    )
