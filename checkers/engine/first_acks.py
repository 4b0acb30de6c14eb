"""When each process had its transactional id for certain: its first acknowledged record of a transaction.

(docs/checks.md, "zombie-write".) A broker takes such a record only after InitProducerId. A process writes to
several partitions, so this is found out before any kernel runs, and only where an id had several holders.
"""

from collections.abc import Iterable

import numpy as np

from checkers.engine.findings import NEVER
from checkers.engine.kernel_input import KernelInput
from history.columns import Array, Columns
from history.run_folder import Run
from history.unit_files import Ranges, read_blocks

COLUMNS = ("process", "txn", "ack_ns")


def first_acks(sends: Columns, known: KernelInput) -> Array:
    """Of each process, as in the kernel input: when a record of a transaction of it was first acknowledged,
    NEVER = none was. sends: `COLUMNS`, rows in any order."""
    rows = np.flatnonzero((sends["txn"] == 1) & (sends["ack_ns"] >= 0))
    found = np.full(len(known.processes), NEVER)
    np.minimum.at(found, known.positions(sends["process"][rows]), sends["ack_ns"][rows])
    return found


def first_acks_in_unit(run: Run, unit: str, known: KernelInput) -> Array:
    """What `first_acks` yields, of a unit. A few million rows at a time are in memory.

    Raises: HistoryError.
    """
    return earliest(
        (first_acks(rows, known) for rows in read_blocks(run, "sends", unit, COLUMNS, _txn)), known
    )


def earliest(found: Iterable[Array], known: KernelInput) -> Array:
    """The earliest of what several parts show, of each process."""
    return np.asarray(np.min([np.full(len(known.processes), NEVER), *found], axis=0))


def _txn(ranges: Ranges) -> bool:
    return ranges("txn")[1] >= 1
