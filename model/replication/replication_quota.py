"""How much of throttled partitions a broker fetches, or serves, in a second (KIP-73).

Everything of these partitions counts, also what goes to or comes from replicas that are in sync; only those
that are not have to wait (ReplicationQuotaManager).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from model.log.unified_log import RecordBatch
from model.protocol.messages import Partition

WINDOW_MS: Final = 1000
"""replication.quota.window.size.seconds."""
WINDOWS: Final = 11
"""replication.quota.window.num."""
RECORD_BYTES: Final = 100
"""The model does not count bytes: each record counts as this number of them."""


class ReplicationQuota:
    """One side of one broker: leader or follower."""

    def __init__(self) -> None:
        self._parts: frozenset[Partition] = frozenset()
        self._rate = 0
        self._seen: deque[tuple[int, int]] = deque()
        """(begin of a window, bytes in it), the oldest first."""

    def limit(self, parts: Iterable[Partition], rate: int) -> None:
        """These partitions are throttled from now on, to `rate` bytes in a second."""
        self._parts, self._rate = frozenset(parts), rate

    def record(self, tp: Partition, batches: Sequence[RecordBatch], now: int) -> None:
        """Batches of a partition went over the network."""
        if tp in self._parts and batches:
            begin, size = now - now % WINDOW_MS, RECORD_BYTES * sum(batch.size for batch in batches)
            if self._seen and self._seen[-1][0] == begin:
                size += self._seen.pop()[1]
            self._seen.append((begin, size))

    def throttles(self, tp: Partition, now: int) -> bool:
        """Whether a replica of the partition that is not in sync has to wait: more than the rate went, in the
        windows that count."""
        if tp not in self._parts:
            return False
        while self._seen and self._seen[0][0] <= now - WINDOWS * WINDOW_MS:
            self._seen.popleft()
        if not self._seen:
            return False
        spent = sum(size for _, size in self._seen)
        return spent * 1000 > self._rate * max(WINDOW_MS, now - self._seen[0][0])
