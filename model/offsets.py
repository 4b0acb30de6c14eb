"""Committed offsets, as a partition of `__consumer_offsets` tells them; the records that it holds.

The state is the replay of the committed part of the log: the newest record of a key counts. Offsets that a
transaction committed are pending until its marker: a commit makes them effective, an abort drops them.

Not here: who may commit, membership (`groups`, `membership`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from model.log import COMMIT, Batch, Log
from model.messages import Partition

Key = tuple[str, Partition]
"""Group and partition."""


class OffsetRecord(NamedTuple):
    """`group` reads `partition` on from `offset`; the last record that it read had `leader_epoch`."""

    group: str
    partition: Partition
    offset: int
    leader_epoch: int = -1


class Kept(NamedTuple):
    """A committed offset. `at`: where its record stands in the log."""

    offset: int
    at: int
    leader_epoch: int


class MemberRecord(NamedTuple):
    """A member of a `GroupRecord`."""

    member: str
    session_ms: int
    rebalance_ms: int
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]


class GroupRecord(NamedTuple):
    """A generation of a group, written when its leader has assigned the partitions."""

    group: str
    generation: int
    leader: str
    members: tuple[MemberRecord, ...]


NOTHING: Final = Kept(-1, -1, -1)


@dataclass(slots=True)
class Offsets:
    """See the module. `applied`: everything below this offset of the log is in here.

    pending: by producer id."""

    bugs: frozenset[str]
    applied: int = 0
    committed: dict[Key, Kept] = field(default_factory=dict)
    pending: dict[int, dict[Key, Kept]] = field(default_factory=dict)
    late: dict[Key, Kept] = field(default_factory=dict)
    """With a planted bug: committed, and not effective before `settle`."""

    def apply(self, log: Log, until: int) -> None:
        """Replay on as far as `until`, the high watermark."""
        self.applied = max(self.applied, log.start)
        for batch in log.read(self.applied, until, until) if self.applied < until else ():
            if batch.control:
                self._end(batch)
            else:
                self._add(batch)
            self.applied = batch.last + 1

    def _add(self, batch: Batch) -> None:
        early = "offsets-visible-before-commit" in self.bugs  # and they stay when it is aborted
        pending = batch.transactional and not early
        for n, record in enumerate(batch.records):
            if not isinstance(record, OffsetRecord):
                continue
            found = Kept(record.offset, batch.base + n, record.leader_epoch)
            key = (record.group, record.partition)
            if pending:
                self.pending.setdefault(batch.producer_id, {})[key] = found
            else:
                self.committed[key] = found

    def _end(self, marker: Batch) -> None:
        ended = self.pending.pop(marker.producer_id, {})
        effective = marker.control == COMMIT
        if "offsets-of-aborted-txn" in self.bugs:
            effective = True  # input counts as processed whose output was taken back
        if "offsets-of-committed-txn-dropped" in self.bugs:
            effective = False  # input is processed again
        if not effective:
            return
        if "offsets-applied-late" in self.bugs:
            self.late |= ended  # the marker was answered before (KAFKA-17507)
            return
        self._effective(ended)

    def settle(self) -> None:
        """Some time has passed."""
        self._effective(self.late)
        self.late = {}

    def _effective(self, ended: dict[Key, Kept]) -> None:
        for key, found in ended.items():
            # A record that was written later counts, though it took effect earlier.
            if found.at > self.committed.get(key, NOTHING).at:
                self.committed[key] = found

    def offset(self, group: str, partition: Partition) -> int:
        """Committed offset, -1 = none."""
        return self.committed.get((group, partition), NOTHING).offset

    def leader_epoch(self, group: str, partition: Partition) -> int:
        """Leader epoch that was committed with it, -1 = none."""
        return self.committed.get((group, partition), NOTHING).leader_epoch

    def unstable(self, group: str, partitions: Sequence[Partition], log: Log) -> bool:
        """These offsets are about to change: a transaction whose end is not known holds them, or a commit
        in the tail of the log is not replicated yet."""
        wanted = {(group, tp) for tp in partitions}
        if any(key in wanted for held in self.pending.values() for key in held):
            return True
        for batch in log.read(self.applied, log.end, log.end) if self.applied < log.end else ():
            records = (r for r in batch.records if isinstance(r, OffsetRecord))
            if any((r.group, r.partition) in wanted for r in records):
                return True
        return False
