"""Another cluster in a recording: where one answered, nothing that was found is this cluster's doing.

The harness proves the id of the cluster at each connection (`WrongClusterSeen`). The other side of such a
mistake shows in the records: each carries its run (`core.payload`), and the brokers of a run begin empty.
"""

from typing import Final

import numpy as np

from history.columns import numbers
from history.events import WrongClusterSeen
from history.reader import History
from history.tables import FOREIGN_REASONS

OTHER_RUN: Final = FOREIGN_REASONS.index("other-run")


def mixed(history: History) -> str:
    """What of another cluster or run a recording holds, in words; "" = nothing."""
    for event in history.events:
        if isinstance(event, WrongClusterSeen):
            return event.text
    foreign = history.tables["foreign"]
    rows = np.flatnonzero(numbers(foreign, "reason") == OTHER_RUN)
    if not len(rows):
        return ""
    first = history.tp(int(numbers(foreign, "tp")[rows[0]]))
    return f"{len(rows)} records of another run were read, the first of them in {first}"
