"""Kernels of isolation and integrity: reads that should not have been possible
(docs/checks.md, "Isolation and integrity", and direct future reads under "Cycles").

Not here: the order in which records were read (`kernel_polls`).
"""

import numpy as np

from checkers.kernel_delivery import got, sent
from checkers.kernel_types import (
    FAIL,
    FINAL,
    LOG,
    RC,
    Array,
    Finding,
    PartitionResult,
    integers,
)
from checkers.kernel_view import Partition

_UNSENT, _LOG, _RC, _RU = 3, 2, 1, 0
_VARIANTS = ((_UNSENT, "unsent"), (_RC, "rc"), (_RU, "ru"), (_LOG, LOG))


def isolation(p: Partition, result: PartitionResult) -> None:
    """aborted-read and precommitted-read."""
    sends, reads = p.sends, p.reads
    written = p.writer >= 0
    level = np.where(reads["isolation"] == RC, _RC, np.where(reads["phase"] == FINAL, _LOG, _RU))
    never = (sends["txn"] == 0) | (sends["op_outcome"] != FAIL)
    failed = _once(p, written & np.append(p.failed, False)[p.writer])
    variant = np.where(never[p.writer[failed]], _UNSENT, level[failed])
    _report(p, result, "aborted-read", failed, variant)
    own = (p.of_writer(sends["op"], -1) == reads["op"]) & (p.of_writer(sends["txn"], 0) == 1)
    early = _once(p, written & own)
    _report(p, result, "precommitted-read", early, level[early])


def integrity(p: Partition, result: PartitionResult) -> None:
    """phantom-read."""
    rows = np.flatnonzero(p.writer < 0)
    if not len(rows):
        return
    pairs = np.stack((p.reads["offset"][rows], p.reads["value"][rows]), axis=1)
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    result.count("phantom-read", len(pairs))
    for (offset, value), at in zip(
        pairs[: p.context.cap].tolist(), rows[first].tolist(), strict=False
    ):
        result.findings.append(
            Finding(
                name="phantom-read",
                key=(p.tp, offset, value),
                tp=p.tp,
                ops=integers(p.reads["op"][at]),
                records=(got(p, at),),
                at_ns=int(p.reads["complete_ns"][at]),
            )
        )


def future_reads(p: Partition, result: PartitionResult) -> None:
    """G1c-realtime, direct: a record that was returned before it was sent."""
    invoked = p.of_writer(p.sends["invoke_ns"], np.iinfo(np.int64).min)
    rows = _once(p, (p.writer >= 0) & (p.reads["complete_ns"] < invoked))
    _report(p, result, "G1c-realtime", rows, None)


def _once(p: Partition, reads: Array) -> Array:
    """Of these reads (a mask): one for each value and reading op."""
    rows = np.flatnonzero(reads)
    if not len(rows):
        return rows
    keys = p.writer[rows].astype(np.int64) << 32 | p.reads["op"][rows]
    return np.asarray(rows[np.unique(keys, return_index=True)[1]])


def _report(
    p: Partition, result: PartitionResult, name: str, rows: Array, variant: Array | None
) -> None:
    if variant is None:
        result.count(name, len(rows))
    else:
        result.count_by(name, variant, _VARIANTS)
    names = dict(_VARIANTS)
    for row in _spread(rows, variant, p.context.cap):
        writer, read = int(p.writer[rows[row]]), int(rows[row])
        ops = (int(p.sends["op"][writer]), int(p.reads["op"][read]))
        result.findings.append(
            Finding(
                name=name,
                key=integers(p.tp, p.reads["value"][read], p.reads["op"][read]),
                variant="" if variant is None else names[int(variant[row])],
                tp=p.tp,
                process=int(p.sends["process"][writer]),
                ops=tuple(dict.fromkeys(ops)),
                records=(sent(p, writer), got(p, read)),
                at_ns=int(p.reads["complete_ns"][read]),
                detail={"row": writer, "isolation": int(p.reads["isolation"][read])},
            )
        )


def _spread(rows: Array, variant: Array | None, cap: int) -> list[int]:
    """At most `cap` positions of each variant (one kind must not crowd out another)."""
    if variant is None:
        return list(range(min(cap, len(rows))))
    return [
        int(at) for code, _ in _VARIANTS for at in np.flatnonzero(variant == code)[:cap].tolist()
    ]
