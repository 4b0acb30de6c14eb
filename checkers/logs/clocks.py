"""How far the times of clients, of messages and of brokers' logs may be apart.

Records have the time of the wall's clock, which may be set while a run lasts, and which counts the time that
a machine sleeps. Ops have that of a clock that is never set. Nodes of a cluster that the harness did not
start may have clocks of their own.
"""

from collections.abc import Container
from itertools import accumulate
from math import inf
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from core.config import recorded_config
from core.systems import ExternalSection
from history.events import ClockJumped
from history.reader import History

CLOCK_MS: Final = 5
"""How far times may be apart that one clock gave."""
UNNOTICED_MS: Final = 500
"""How far a clock may be set in a run before the harness notes it (`harness.processes.clocks`)."""
OWN_CLOCKS: Final = "the nodes have clocks of their own, and nothing says how far these are apart"


COPIED: Final = "its producer may have given records the times of what they were made of"


class _Every:
    """Has each transactional id."""

    def __contains__(self, transactional_id: object) -> bool:
        return True


def timely(history: History | None) -> Container[str]:
    """The transactional ids whose records have the time of their making, if brokers did not give it: those of
    the harness's clients. An application keeps the time of its input, and a program of the user's gives any.
    history: None = all."""
    if history is None:
        return _Every()
    if recorded_config(history.run.config).clients == "command":
        return ()
    return frozenset(process.transactional_id for process in history.processes.values())


def own_clocks(history: History | None) -> str:
    """Why times that several nodes gave, or a node and a client, cannot be compared, "" = they can. history:
    None = of a run whose nodes have one clock."""
    if history is None:
        return ""
    config = recorded_config(history.run.config)
    known = not config.has(ExternalSection) or config.section(ExternalSection).one_clock
    return "" if known else OWN_CLOCKS


def nodes_apart_ms(history: History | None) -> float:
    """How far times may be apart that a client and a node gave, or two nodes; infinity = nothing says it."""
    return inf if own_clocks(history) else apart_ms(history)


def apart_ms(history: History | None) -> int:
    """Of the wall's clock and that of ops, or of two moments of the first. history: None = of a real run in
    which no clock jumped."""
    if history is None:
        return UNNOTICED_MS
    if recorded_config(history.run.config).sut == "simulated":
        return CLOCK_MS
    return UNNOTICED_MS + jumped_ms(history)


def jumped_ms(history: History) -> int:
    """The same, by the jumps that the run notes."""
    jumps = (event.wall_s for event in history.events if isinstance(event, ClockJumped))
    ahead_s = list(accumulate(jumps, initial=0.0))
    return round(1000 * (max(ahead_s) - min(ahead_s)))


class StepBack(NamedTuple):
    """The wall's clock was set back; it may have shown times from first_ms to last_ms (since 1970) twice."""

    first_ms: int
    last_ms: int
    text: str


def steps_back(history: History) -> list[StepBack]:
    """Those that the run notes. The step lies between two looks at the clocks: the second saw no time before
    its own less what passed since the first, which saw none after its own and that."""
    found = []
    for event in history.events:
        if isinstance(event, ClockJumped) and event.wall_s < 0:
            passed_ms = (event.ns - event.before_ns) // 1_000_000 + CLOCK_MS
            before_ms = history.wall_ms(event.before_ns) + _ahead_ms(history, event.before_ns)
            after_ms = history.wall_ms(event.ns) + _ahead_ms(history, event.ns)
            text = f"the wall's clock was set back by {-1000 * event.wall_s:.0f} ms then"
            found.append(StepBack(after_ms - passed_ms, before_ms + passed_ms, text))
    return found


def _ahead_ms(history: History, ns: int) -> int:
    """By how much the wall's clock was ahead of where the run's anchor puts it."""
    jumps = (event for event in history.events if isinstance(event, ClockJumped))
    return round(1000 * sum(event.wall_s for event in jumps if event.ns <= ns))


def seen_apart_ms(frames: pa.Table) -> int:
    """The same of messages, which were seen with both clocks."""
    ahead_ns = frames["ms"].to_numpy() * 1_000_000 - frames["at_ns"].to_numpy()
    return CLOCK_MS + int(np.ptp(ahead_ns)) // 1_000_000 if len(ahead_ns) else CLOCK_MS
