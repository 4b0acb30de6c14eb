"""Which transactions without a known outcome committed: a consumer saw one of their records.

(docs/checks.md, section 1.) A transaction writes to several partitions, and a record that was seen in one of
them proves it committed in all. So this is found out before any kernel runs. Only rows of such transactions,
and reads of them, are looked at.
"""

from collections.abc import Iterator

import numpy as np

from checkers.engine.findings import FINAL, INFO, OK, RC
from checkers.engine.slots import distinct
from history.columns import Array, Columns, grouped, held
from history.run_folder import Run
from history.unit_files import Ranges, read_blocks

SENDS = ("tp", "op", "op_outcome", "txn", "value")
READS = ("tp", "isolation", "op_outcome", "phase", "value")


def sent_twice(sends: Columns) -> str:
    """Why the records of a partition cannot be distinguished, "" = they can."""
    order = np.argsort(sends["value"], kind="stable")
    values = sends["value"][order]
    again = np.flatnonzero(values[1:] == values[:-1])
    if not len(again):
        return ""
    first, second = (int(sends["op"][order[again[0] + n]]) for n in (0, 1))
    return (
        f"{len(again)} values of {{where}} are sent twice, the first one by ops {first} and {second};"
        " which of their records a poll returned is not known"
    )


def shown(sends: Columns, reads: Columns) -> Array:
    """Ops of open transactions with a record that a read at read_committed shows, in one partition.

    Rows of sends that are not open, and reads of other records, may be missing.
    """
    rows = np.flatnonzero(_open(sends))
    if not len(rows):
        return np.zeros(0, np.int32)
    values = reads["value"][_counting(reads)]
    return distinct(sends["op"][rows[held(sends["value"][rows], values)]])


def shown_in_unit(run: Run, unit: str, *, repeats: bool) -> Iterator[Array]:
    """What `shown` yields, of each partition of a unit. A few million rows at a time are in memory.

    repeats: values may be sent twice; a partition with such values proves nothing.

    Raises: HistoryError.
    """
    sends = _rows((rows, _open(rows)) for rows in read_blocks(run, "sends", unit, SENDS, _may_be_open))
    if not sends or not len(sends["op"]):
        return
    reads = _rows(
        (rows, _counting(rows) & held(rows["value"], sends["value"]))
        for rows in read_blocks(run, "reads", unit, READS, _may_be_committed)
    )
    read = dict(grouped(reads["tp"], reads)) if reads else {}
    refused = _refused(run, unit) if repeats else set()
    for tp, sent in grouped(sends["tp"], sends):
        if tp in read and tp not in refused:
            yield shown(sent, read[tp])


def _refused(run: Run, unit: str) -> set[int]:
    blocks = list(read_blocks(run, "sends", unit, ("tp", "op", "value")))
    whole = {name: np.concatenate([rows[name] for rows in blocks]) for name in blocks[0]}
    return {tp for tp, sends in grouped(whole["tp"], whole) if sent_twice(sends)}


def _rows(blocks: Iterator[tuple[Columns, Array]]) -> Columns:
    """The marked rows of all blocks; no columns where there is no block."""
    found = [{name: column[marked] for name, column in rows.items()} for rows, marked in blocks]
    return {name: np.concatenate([rows[name] for rows in found]) for name in found[0]} if found else {}


def _open(sends: Columns) -> Array:
    return np.asarray((sends["txn"] == 1) & (sends["op_outcome"] == INFO))


def _counting(reads: Columns) -> Array:
    stands = (reads["op_outcome"] == OK) | (reads["phase"] == FINAL)
    return np.asarray(stands & (reads["isolation"] == RC))


def _may_be_open(ranges: Ranges) -> bool:
    low, high = ranges("op_outcome")
    return low <= INFO <= high and ranges("txn")[1] >= 1


def _may_be_committed(ranges: Ranges) -> bool:
    low, high = ranges("isolation")
    return low <= RC <= high
