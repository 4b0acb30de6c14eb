"""Processes whose last lines may be missing, or all of them (docs/checks.md, section 1, "Cut").

A journal ends with the line that its client was closed. Where it does not, a client was killed, which is on
record, or lines are gone: with the machine, or from the folder. Which journals there were is on record, too.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from checkers.engine.findings import NEVER
from core.op import End, Phase
from history.columns import Array, Columns
from history.events import (
    Event,
    FaultFailed,
    FaultStarted,
    JournalsListed,
    PhaseStarted,
    WorkerLost,
    incomplete,
)

KILLING: Final = ("client", "half-open", "wire:init-producer-id")
"""Faults that kill clients, by what their names begin with; the last one starts its client again."""
PAUSE: Final = "client:pause"
"""The kind of them that kills none."""
NOBODY: Final = np.zeros(0, np.int32)


def broke_off(events: Sequence[Event]) -> bool:
    """Whether a run began and never came to its last phase, before which all journals were made durable: the
    harness or its machine was stopped, and journals may lack their newest lines."""
    phases = [event.phase for event in events if isinstance(event, PhaseStarted)]
    return bool(phases) and max(phases) < Phase.COLLECT


def absent(process: Columns, events: Sequence[Event]) -> Array:
    """The numbers of processes that had a journal and are not in the table, sorted."""
    listed = [number for event in events if isinstance(event, JournalsListed) for number in event.processes]
    return np.setdiff1d(np.array(listed, np.int64), process["process"])


def cut(process: Columns, events: Sequence[Event]) -> Array:
    """The numbers of processes of a recorded run whose last lines may be missing, sorted.

    process: columns of `processes`. None where no phase is on record.
    """
    ended = process["end"] == End.CRASHED
    if not ended.any() or not any(isinstance(event, PhaseStarted) for event in events):
        return NOBODY
    if not broke_off(events):
        if any(map(incomplete, events)):
            return NOBODY
        for slot, since, until in _deaths(events):
            ended &= ~_living(process, slot, since, until)
        for slot in {event.slot for event in events if isinstance(event, WorkerLost)}:
            mine = process["slot"] == slot
            ended &= ~(mine & (process["start_ns"] == process["start_ns"][mine].max(initial=-1)))
    return np.asarray(np.sort(process["process"][ended]))


def _deaths(events: Sequence[Event]) -> Iterator[tuple[int, int, int]]:
    """Slots (-1 = any) whose client a fault killed, or may have, and in which time."""
    for event in events:
        match event:
            case FaultStarted() if _kills(event.name):
                for slot in event.slots or (-1,):
                    yield slot, event.begin_ns, event.ns
            case FaultFailed() if _kills(event.name):
                yield -1, max(event.begin_ns, 0), event.ns


def _kills(name: str) -> bool:
    return name.startswith(KILLING) and not name.startswith(PAUSE)


def _living(process: Columns, slot: int, since: int, until: int) -> Array:
    """Flags: the processes of a slot (-1 = of any) that worked at some moment of a time."""
    start = process["start_ns"]
    slots, which = np.unique(process["slot"], return_inverse=True)
    latest = np.full(len(slots), -NEVER)  # the last start of each slot before that time
    before = start <= since
    np.maximum.at(latest, which[before], start[before])
    living = (start <= until) & (start >= latest[which])
    return np.asarray(living if slot < 0 else living & (process["slot"] == slot))
