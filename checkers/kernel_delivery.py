"""Kernels of delivery: what was committed and is not there, what is there twice, what of a
transaction is missing (docs/checks.md, "Delivery").

Not here: joining the records of a transaction over partitions (`checkers.whole`).
"""

import numpy as np

from checkers.kernel_types import (
    ABSENT,
    ACKS,
    FAIL,
    IDEMPOTENT,
    INFO,
    MISSING,
    OK,
    RC,
    UNDECIDED,
    Array,
    Bound,
    Finding,
    PartitionResult,
    Shown,
    Unseen,
    integers,
    spelled,
)
from checkers.kernel_view import Partition


def delivery(p: Partition, result: PartitionResult) -> None:
    """lost-write and unseen."""
    if p.context.portable:
        _unseen(p, result)
        _losses(p, result, _lost_portable(p))
        return
    missing, undecided = fates(p, np.flatnonzero(p.committed & ~p.shown_rc))
    _losses(p, result, missing)
    result.undecided = len(undecided)
    result.unread = _unread(p)


def _unread(p: Partition) -> bool:
    """A partition with sends lacks a complete final read at a level that it needs."""
    if not len(p.sends["op"]):
        return False
    ru, rc = (bound is not None and bound.complete for bound in p.bounds)
    return not (rc or (ru and not bool((p.sends["txn"] == 1).any())))


def fates(p: Partition, rows: Array) -> tuple[Array, Array]:
    """Of sends that the final reads did not show: the missing ones, the undecided ones."""
    ru, rc = p.bounds
    offset = p.sends["offset"][rows]
    missing = np.zeros(len(rows), bool)
    removed = np.zeros(len(rows), bool)
    hiding = ru is not None and rc is not None and ru.end >= 0 and rc.end < ru.end
    for bound, hides, shown in ((ru, False, p.shown_any), (rc, hiding, p.shown_rc)):
        if bound is not None:
            missing |= _covers(bound, offset, hides=hides) & ~shown[rows]
            removed |= (offset >= 0) & (offset < bound.start)
    missing &= ~removed
    return rows[missing], rows[~missing & ~removed]


def _covers(bound: Bound, offset: Array, *, hides: bool) -> Array:
    whole = bound.complete and not hides
    placed = (offset >= bound.start) & ((offset < bound.read_to) | whole)
    return np.asarray(np.where(offset >= 0, placed, whole and bound.start == 0))


def _losses(p: Partition, result: PartitionResult, rows: Array) -> None:
    if not len(rows):
        return
    sends = p.sends
    acks = p.context.acks[p.context.process_rows(sends["process"][rows])]
    result.count_by("lost-write", acks, ACKS)
    beyond = max((b.end for b in p.bounds if b is not None), default=-1)
    for row, level in zip(rows[: p.context.cap].tolist(), acks.tolist(), strict=False):
        result.findings.append(
            Finding(
                name="lost-write",
                key=integers(p.tp, sends["value"][row]),
                variant=spelled(level, ACKS),
                tp=p.tp,
                process=int(sends["process"][row]),
                ops=integers(sends["op"][row]),
                records=(sent(p, row), *_earlier_reads(p, row)),
                at_ns=int(sends["ack_ns"][row]),
                detail={"end": beyond, "row": row},
            )
        )


def _earlier_reads(p: Partition, row: int) -> list[Shown]:
    """Reads of a send, by whomever: at most three."""
    return [got(p, read) for read in np.flatnonzero(p.writer == row)[:3].tolist()]


def _unseen(p: Partition, result: PartitionResult) -> None:
    rows = np.flatnonzero(p.committed & ~p.seen)
    result.count("unseen", len(rows))
    for row in rows[: p.context.cap].tolist():
        result.findings.append(
            Finding(
                name="unseen",
                key=integers(p.tp, p.sends["value"][row]),
                tp=p.tp,
                process=int(p.sends["process"][row]),
                ops=integers(p.sends["op"][row]),
                records=(sent(p, row),),
                at_ns=int(p.sends["ack_ns"][row]),
            )
        )


def _lost_portable(p: Partition) -> Array:
    """Committed sends whose place lies at or below the highest that was read, read by nobody."""
    sends, reads = p.sends, p.reads
    txn = sends["txn"] == 1
    rc = reads["isolation"] == RC
    touched = p.flagged(rc | (p.of_writer(sends["txn"], 1) == 0))
    rows = np.flatnonzero(p.committed & ~touched)
    if not len(rows) or not p.counting.any():
        return rows[:0]
    first = _first_offsets(p)
    bound_rc = first[p.counting & rc].max(initial=-1)
    bound_any = first[p.counting].max(initial=-1)
    last = highest_offsets(p)[rows]
    bound = np.where(txn[rows], bound_rc, bound_any)
    return np.asarray(rows[(last >= 0) & (last <= bound)])


def _first_offsets(p: Partition) -> Array:
    """For each read: the lowest offset of its value in the log pairs."""
    reads, sends = p.reads, p.sends
    none = np.iinfo(np.int64).max
    lowest = np.where(p.acked & p.committed, sends["offset"], none)
    sent_ = p.writer >= 0
    np.minimum.at(lowest, p.writer[sent_], reads["offset"][sent_])
    first = np.append(lowest, none)[p.writer]
    phantom = np.flatnonzero(~sent_)
    if len(phantom):
        _, which = np.unique(reads["value"][phantom], return_inverse=True)
        low = np.full(int(which.max()) + 1, none)
        np.minimum.at(low, which, reads["offset"][phantom])
        first[phantom] = low[which]
    return np.asarray(first)


def highest_offsets(p: Partition) -> Array:
    """For each send: the highest offset of its value in the log pairs, -1 = none."""
    highest = np.where(p.acked & p.committed, p.sends["offset"], -1)
    sent_ = p.writer >= 0
    np.maximum.at(highest, p.writer[sent_], p.reads["offset"][sent_])
    return np.asarray(highest)


def duplicates(p: Partition, result: PartitionResult) -> None:
    """duplicate: a value at several offsets."""
    sends, reads = p.sends, p.reads
    place = p.of_writer(sends["place"], -1)
    odd = np.flatnonzero((p.writer < 0) | (place != reads["offset"]))
    if not len(odd):
        return
    suspects = np.unique(reads["value"][odd])
    near = np.flatnonzero(np.isin(reads["value"], suspects))
    acks = np.flatnonzero(p.acked & p.committed & np.isin(sends["value"], suspects))
    values = np.concatenate((reads["value"][near], sends["value"][acks]))
    offsets = np.concatenate((reads["offset"][near], sends["offset"][acks]))
    pairs = np.unique(np.stack((values, offsets), axis=1), axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    found = found[counts > 1]
    if not len(found):
        return
    rows = np.flatnonzero(np.isin(sends["value"], found))
    idempotent = p.context.idempotent[p.context.process_rows(sends["process"][rows])]
    result.count_by("duplicate", idempotent, IDEMPOTENT)
    result.count("duplicate", len(found) - len(rows), "1")
    code = dict(zip(sends["value"][rows].tolist(), idempotent.tolist(), strict=True))
    row_of = dict(zip(sends["value"][rows].tolist(), rows.tolist(), strict=True))
    for value in found[: p.context.cap].tolist():
        places = pairs[pairs[:, 0] == value, 1].tolist()
        result.findings.append(
            _duplicate(p, value, places, row_of.get(value, -1), int(code.get(value, 1)))
        )


def _duplicate(p: Partition, value: int, places: list[int], row: int, code: int) -> Finding:
    reads = np.flatnonzero(p.reads["value"] == value)
    shown = [sent(p, row)] if row >= 0 else []
    first_seen = -1
    for place in places[:4]:
        there = reads[p.reads["offset"][reads] == place]
        if len(there):
            first = int(there[np.argmin(p.reads["complete_ns"][there])])
            shown.append(got(p, first))
            first_seen = max(first_seen, int(p.reads["complete_ns"][first]))
    return Finding(
        name="duplicate",
        key=integers(p.tp, value),
        variant=spelled(code, IDEMPOTENT),
        tp=p.tp,
        process=int(p.sends["process"][row]) if row >= 0 else -1,
        ops=tuple(dict.fromkeys(each.op for each in shown)),
        records=tuple(shown),
        at_ns=first_seen,
        detail={"copies": len(places), "row": row},
    )


def unseen_of_transactions(p: Partition, result: PartitionResult) -> None:
    """The local half of torn-txn: records of transactions that no counting read showed."""
    sends = p.sends
    maybe = (sends["txn"] == 1) & (sends["op_outcome"] != FAIL)
    info = sends["op_outcome"] == INFO
    result.seen_info = np.unique(sends["op"][maybe & info & p.seen])
    rows = np.flatnonzero(maybe & (~p.seen | (sends["outcome"] == FAIL)))
    fate = np.full(len(rows), ABSENT, np.int8)
    expected = sends["outcome"][rows] != FAIL
    if p.context.portable:
        fate[expected] = MISSING
    else:
        missing, undecided = fates(p, rows[expected & ~p.shown_rc[rows]])
        fate[np.isin(rows, missing)] = MISSING
        fate[np.isin(rows, undecided)] = UNDECIDED
    result.unseen = Unseen(
        op=sends["op"][rows], op_sends=sends["op_sends"][rows], value=sends["value"][rows],
        info=info[rows], fate=fate,
    )  # fmt: skip


def sent(p: Partition, row: int) -> Shown:
    """A send as a witness shows it."""
    s = p.sends
    op, value, offset, outcome = (int(s[c][row]) for c in ("op", "value", "offset", "outcome"))
    source = integers(s["src_tp"][row], s["src_offset"][row]) if p.context.copies else (-1, -1)
    return Shown(op, "send", p.tp, value, offset, outcome, source=(source[0], source[1]))


def got(p: Partition, row: int) -> Shown:
    """A read as a witness shows it."""
    r = p.reads
    op, value, offset, epoch = (int(r[c][row]) for c in ("op", "value", "offset", "leader_epoch"))
    return Shown(op, "read", p.tp, value, offset, OK, epoch)
