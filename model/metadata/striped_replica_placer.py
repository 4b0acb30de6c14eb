"""Which brokers hold the replicas of new partitions in a KRaft cluster (StripedReplicaPlacer, KIP-36).

place(usable(1, 2, 3), partitions=2, replication=2)  ->  ((1, 2), (2, 3))

Replicas go to racks in turn, and inside a rack to its brokers in turn; each partition begins one rack and, in
each rack that it uses, one broker further on. Kafka draws where the first partition begins, and shuffles
racks and brokers once there are as many partitions as unfenced brokers. Here the caller draws.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class UsableBroker(NamedTuple):
    """A broker that may get replicas. rack "": none is set. A fenced one leads no new partition, and gets
    replicas only where its rack has no other one left."""

    broker: int
    rack: str = ""
    fenced: bool = False


def usable(*brokers: int) -> tuple[UsableBroker, ...]:
    """Brokers that are not fenced, without racks."""
    return tuple(map(UsableBroker, brokers))


def place(
    brokers: Iterable[UsableBroker],
    *,
    partitions: int,
    replication: int,
    draw: Callable[[int], int] = lambda _: 0,
    shuffle: Callable[[list[Any]], None] = lambda _: None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, the preferred leader first. draw(n): a number below n.

    Raises: ValueError, where there are too few brokers, or all are fenced.
    """
    racks = _Racks(sorted(brokers), draw)
    if not 0 < replication <= racks.total or not racks.unfenced:
        raise ValueError(f"replication {replication} on {racks.total} brokers, {racks.unfenced} not fenced")
    return tuple(racks.place(replication, shuffle) for _ in range(partitions))


@dataclass(slots=True)
class _BrokerList:
    brokers: list[int]
    offset: int
    index: int = 0
    epoch: int = 0

    def next(self, epoch: int) -> int:
        """The next broker in this epoch, -1 = all were given."""
        if not self.brokers:
            return -1
        if self.epoch != epoch:
            self.epoch, self.index = epoch, 0
            self.offset = (self.offset + 1) % len(self.brokers)
        if self.index >= len(self.brokers):
            return -1
        self.index += 1
        return self.brokers[(self.index - 1 + self.offset) % len(self.brokers)]


@dataclass(slots=True)
class _Rack:
    unfenced: _BrokerList
    fenced: _BrokerList

    def next(self, epoch: int) -> int:
        """A broker, one that is not fenced first."""
        found = self.unfenced.next(epoch)
        return found if found >= 0 else self.fenced.next(epoch)


@dataclass(slots=True)
class _Racks:
    """The state of one placement. epoch: partitions since the last shuffle; offset: the rack that is next."""

    brokers: Sequence[UsableBroker]
    draw: Callable[[int], int]
    racks: list[_Rack] = field(init=False)
    epoch: int = 0
    offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.racks = [
            _Rack(self._list(rack, fenced=False), self._list(rack, fenced=True))
            for rack in sorted({one.rack for one in self.brokers})
        ]
        self.offset = self.draw(len(self.racks)) if self.racks else 0

    def _list(self, rack: str, *, fenced: bool) -> _BrokerList:
        mine = [one.broker for one in self.brokers if (one.rack, one.fenced) == (rack, fenced)]
        return _BrokerList(mine, self.draw(len(mine)) if mine else 0)

    @property
    def total(self) -> int:
        """All brokers."""
        return len(self.brokers)

    @property
    def unfenced(self) -> int:
        """Those that may lead."""
        return sum(not one.fenced for one in self.brokers)

    def place(self, replication: int, shuffle: Callable[[list[Any]], None]) -> tuple[int, ...]:
        """The replicas of the next partition (RackList.place)."""
        if self.epoch == self.unfenced > 1:
            shuffle(self.racks)
            for rack in self.racks:
                shuffle(rack.unfenced.brokers)
                shuffle(rack.fenced.brokers)
            self.epoch = 0
        count = len(self.racks)
        self.offset %= count
        first, leader = self.offset, -1
        while (leader := self.racks[first].unfenced.next(self.epoch)) < 0:
            first = (first + 1) % count
        placed, at = [leader], self.offset
        while len(placed) < replication:
            if at == first:
                first = -1  # the leader's rack is passed once
            elif (found := self.racks[at].next(self.epoch)) >= 0:
                placed.append(found)
            at = (at + 1) % count
        self.epoch += 1
        self.offset += 1
        return tuple(placed)
