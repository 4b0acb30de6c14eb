"""The metadata of a cluster, as the records of the metadata log make it (KRaft).

Controller and brokers apply the same records in the same order; who has applied fewer knows less.

Not here: which records are written (`controller`), how they spread (`quorum`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from model.messages import Partition, PartitionState


class RegisterBroker(NamedTuple):
    """A broker came (again): fenced at first. Its epoch is the offset of this record."""

    broker: int
    incarnation: int


class FenceBroker(NamedTuple):
    """Its session ended: it leads nothing any more."""

    broker: int


class UnfenceBroker(NamedTuple):
    """It may lead and be in sync."""

    broker: int


class LeavingBroker(NamedTuple):
    """It asked to shut down: it is given no leadership any more."""

    broker: int


class ChangePartition(NamedTuple):
    """State of a partition, whole; its first one creates it."""

    partition: Partition
    state: PartitionState


class UsedIds(NamedTuple):
    """Producer ids below `next` were handed out to brokers."""

    next: int


Change = RegisterBroker | FenceBroker | UnfenceBroker | LeavingBroker | ChangePartition | UsedIds


@dataclass(slots=True)
class Registered:
    """A broker in the metadata."""

    epoch: int
    incarnation: int
    fenced: bool = True
    leaving: bool = False


@dataclass(slots=True)
class Image:
    """`offset`: records applied so far."""

    offset: int = 0
    brokers: dict[int, Registered] = field(default_factory=dict)
    partitions: dict[Partition, PartitionState] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    """Number of partitions by topic."""
    next_id: int = 1

    def apply(self, change: Change | None) -> None:
        """The record at `offset`; None stands for the quorum's own."""
        offset = self.offset
        self.offset += 1
        match change:
            case RegisterBroker(broker, incarnation):
                self.brokers[broker] = Registered(offset, incarnation)
            case FenceBroker(broker):
                self.brokers[broker].fenced = True
            case UnfenceBroker(broker):
                self.brokers[broker].fenced = False
            case LeavingBroker(broker):
                self.brokers[broker].leaving = True
            case ChangePartition((topic, number) as partition, state):
                self.partitions[partition] = state
                self.topics[topic] = max(self.topics.get(topic, 0), number + 1)
            case UsedIds(next_):
                self.next_id = next_

    def alive(self) -> set[int]:
        """Brokers that may be in sync."""
        return {n for n, b in self.brokers.items() if not b.fenced}

    def electable(self) -> set[int]:
        """Brokers that may lead."""
        return {n for n, b in self.brokers.items() if not b.fenced and not b.leaving}
