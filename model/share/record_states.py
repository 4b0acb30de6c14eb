"""The delivery states of records: one by one, and as runs of offsets."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from model.protocol.share_messages import StateBatch


class RecordState(IntEnum):
    """Kafka's names and numbers (org.apache.kafka.server.share.fetch.RecordState)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """It will be archived, once the dead-letter queue has it (KIP-1191)."""
    ARCHIVED = 4


class StoredState(NamedTuple):
    """What is stored of a record. times: how often it was delivered."""

    state: RecordState
    times: int


def spread(batches: Iterable[StateBatch]) -> dict[int, StoredState]:
    """By offset. Of an offset that two batches have, the later one counts."""
    return {
        offset: StoredState(RecordState(batch.state), batch.times)
        for batch in batches
        for offset in range(batch.first, batch.last + 1)
    }


def combined(before: Mapping[int, StoredState], after: Mapping[int, StoredState]) -> dict[int, StoredState]:
    """By offset; of an offset that both have, what was delivered more often counts, and then what is further
    (PersisterStateBatchCombiner)."""
    found = dict(before)
    for offset, new in after.items():
        found[offset] = max(new, found.get(offset, new), key=lambda one: (one.times, one.state))
    return found


def gathered(states: Mapping[int, StoredState]) -> tuple[StateBatch, ...]:
    """The fewest batches that say the same, by offset."""
    found: list[StateBatch] = []
    for offset, (state, times) in sorted(states.items()):
        last = found[-1] if found else None
        if last is not None and last.last == offset - 1 and (last.state, last.times) == (state, times):
            found[-1] = last._replace(last=offset)
        else:
            found.append(StateBatch(offset, offset, int(state), times))
    return tuple(found)
