"""The metadata of a cluster, as the records of the metadata log make it (KRaft).

Controller and brokers apply the same records in the same order; who has applied fewer knows less.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from model.protocol.messages import Partition, PartitionState


class RegisterBrokerRecord(NamedTuple):
    """A broker came (again): fenced at first. Its epoch is the offset of this record."""

    broker: int
    incarnation: int


class BrokerRegistrationChangeRecord(NamedTuple):
    """A broker is fenced (its session ended: it leads nothing any more) or may lead and be in sync; or it
    asked to shut down, and is given no leadership any more."""

    broker: int
    fenced: bool
    leaving: bool


class PartitionRecord(NamedTuple):
    """State of a partition, whole; its first one creates it."""

    partition: Partition
    state: PartitionState


class RemoveTopicRecord(NamedTuple):
    """A topic is deleted, with all its partitions."""

    topic: str


class ProducerIdsRecord(NamedTuple):
    """Producer ids below `next` were handed out to brokers, the newest ones to `broker`."""

    next: int
    broker: int


MetadataRecord = (
    RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | PartitionRecord
    | RemoveTopicRecord
    | ProducerIdsRecord
)


@dataclass(slots=True)
class RegisteredBroker:
    """A broker in the metadata."""

    epoch: int
    incarnation: int
    fenced: bool = True
    leaving: bool = False


@dataclass(slots=True)
class MetadataImage:
    """`offset`: records applied so far."""

    offset: int = 0
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    partitions: dict[Partition, PartitionState] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    """Number of partitions by topic."""
    topic_ids: dict[str, int] = field(default_factory=dict)
    """Of each topic how many topics of its name were deleted before."""
    deletions: dict[str, int] = field(default_factory=dict)
    """How many topics of a name were deleted."""
    next_id: int = 1

    def apply(self, change: object) -> None:
        """The record at `offset`; None stands for the quorum's own."""
        offset = self.offset
        self.offset += 1
        match change:
            case RegisterBrokerRecord(broker, incarnation):
                self.brokers[broker] = RegisteredBroker(offset, incarnation)
            case BrokerRegistrationChangeRecord(broker, fenced, leaving):
                self.brokers[broker].fenced, self.brokers[broker].leaving = fenced, leaving
            case PartitionRecord((topic, number) as partition, state):
                self.topic_ids.setdefault(topic, self.deletions.get(topic, 0))
                self.partitions[partition] = state
                self.topics[topic] = max(self.topics.get(topic, 0), number + 1)
            case RemoveTopicRecord(topic):
                self._remove(topic)
            case ProducerIdsRecord(next_, _):
                self.next_id = next_

    def _remove(self, topic: str) -> None:
        for number in range(self.topics.pop(topic)):
            del self.partitions[topic, number]
        self.deletions[topic] = self.topic_ids.pop(topic) + 1

    def alive(self) -> set[int]:
        """Brokers that may be in sync."""
        return {n for n, b in self.brokers.items() if not b.fenced}

    def electable(self) -> set[int]:
        """Brokers that may lead."""
        return {n for n, b in self.brokers.items() if not b.fenced and not b.leaving}

    def may_join(self, broker: int, epoch: int) -> bool:
        """Whether a broker that fetched with this broker epoch, -1 = with none, may be in sync: it is
        unfenced, not about to go (KIP-841), and the process that fetched (KIP-903;
        Partition.isReplicaIsrEligible)."""
        known = self.brokers.get(broker)
        eligible = known is not None and not known.fenced and not known.leaving
        return eligible and (epoch == -1 or epoch == self.brokers[broker].epoch)
