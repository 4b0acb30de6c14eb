"""When a record at an offset or above was first acknowledged by all in-sync replicas.

From then on each of them had the log up to there, and had flushed what its settings flush by number
(`checkers.windows`).
"""

from typing import Final

import numpy as np

from checkers.engine.findings import NEVER
from checkers.windows import LogWindows
from history.columns import Array, Columns

ALL: Final = -1
"""`acks` of a process whose records all in-sync replicas acknowledge."""


def acknowledged(sends: Columns, acks: Array, windows: LogWindows, offsets: Array) -> Array:
    """Of each of these offsets: when the first record there or above was acknowledged; NEVER: none was.

    acks: of the process of each row of sends. windows: of the log; a record that was sent before a loss of
    power and acknowledged after it may be one that this loss took.
    """
    known = np.flatnonzero((acks == ALL) & (sends["offset"] >= 0) & (sends["ack_ns"] >= 0))
    since, until = sends["invoke_ns"][known], sends["ack_ns"][known]
    known = known[~windows.any_power.every.between(since, until)]
    known = known[np.argsort(sends["offset"][known], kind="stable")]
    earliest = np.minimum.accumulate(sends["ack_ns"][known][::-1])[::-1]
    return np.asarray(np.append(earliest, NEVER)[np.searchsorted(sends["offset"][known], offsets)])
