"""A log's leader-epoch cache: which epochs its records are of, and where each begins (KIP-101).

A follower asks its leader where an epoch ends, by the leader's cache, and cuts its own log back to there.
"""

from bisect import bisect_right
from typing import Final

from model.eras import Era

NO_LEADER_EPOCH: Final = -1


class LeaderEpochFileCache(list[tuple[int, int]]):
    """(epoch, its first offset), both rising. Kafka's LeaderEpochFileCache."""

    def __init__(self, era: Era) -> None:
        super().__init__()
        self.era = era

    @property
    def last(self) -> int:
        """The newest epoch."""
        return self[-1][0] if self else NO_LEADER_EPOCH

    def at(self, offset: int) -> int:
        """Epoch under which the record at `offset` was appended."""
        for epoch, begin in reversed(self):
            if begin <= offset:
                return epoch
        return NO_LEADER_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch up to `epoch`, where it ends): the answer to OffsetForLeaderEpoch.

        Its end is where the next larger epoch begins, the log's end for the newest. An epoch older than all
        in the cache ends where the cache begins: what it had is gone here. (-1, -1) where it is newer than
        the newest (LeaderEpochFileCache.endOffsetFor).
        """
        if not self or epoch < 0 or epoch > self[-1][0]:
            return (NO_LEADER_EPOCH, -1)
        if epoch < self[0][0]:
            return (epoch, self[0][1]) if self.era.epoch_walk else (NO_LEADER_EPOCH, -1)
        at = bisect_right(self, (epoch, 2**63)) - 1
        ends = self[at + 1][1] if at + 1 < len(self) else log_end
        return (self[at][0], ends)

    def lead(self, epoch: int, log_end: int) -> None:
        """This log's replica leads from now on: the epoch begins at the log's end, and is noted now or, in
        earlier eras, with its first batch (`take`)."""
        if self.era.epoch_when_led and epoch > self.last:
            self.cut(log_end)
            self.append((epoch, log_end))

    def take(self, epoch: int, base: int) -> None:
        """A batch of this epoch stands at `base` (LeaderEpochFileCache.assign). Entries that contradict it
        go: of an epoch that began there and left no record."""
        if self and epoch == self[-1][0]:
            return
        if self.era.fenced_fetch:
            while self and (self[-1][0] >= epoch or self[-1][1] >= base):
                self.pop()
        if epoch > self.last:
            self.append((epoch, base))

    def begin(self, log_start: int) -> None:
        """The log begins here: of the epochs before, the newest begins here too, and the others are forgotten
        (LeaderEpochFileCache.truncateFromStart)."""
        gone = bisect_right(self, log_start, key=lambda entry: entry[1])
        if gone:
            self[:gone] = [(self[gone - 1][0], log_start)]

    def cut(self, log_end: int) -> None:
        """The log ends here: epochs without a record are forgotten."""
        while self and self[-1][1] >= log_end:
            self.pop()
