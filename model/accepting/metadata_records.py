"""Records of the metadata log as an acceptor takes them, and the image that they make."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from model.accepting.partition_state import alike
from model.metadata.image import RegisteredBroker
from model.protocol.messages import Partition, PartitionState

SAME: Final = -2
"""Leader of a change that leaves it, and its epoch, as they are (LeaderConstants.NO_LEADER_CHANGE)."""
MIGRATING: Final = "A" * 22
"""Id of a directory that was chosen before directories had ids (DirectoryId)."""
UNASSIGNED: Final = "A" * 21 + "Q"
"""Of one that is still to be chosen."""
LOST: Final = "A" * 21 + "g"
"""Of an offline one that is not named."""


class FeatureLevel(NamedTuple):
    """The level of a feature is finalized."""

    name: str
    level: int


class Config(NamedTuple):
    """A setting of a topic, or of all (`topic` ""). value: None = it is removed."""

    topic: str
    name: str
    value: str | None


class TopicCreated(NamedTuple):
    """A topic, by name and id."""

    topic: str
    topic_id: str


class TopicRemoved(NamedTuple):
    """It goes, with its partitions and settings."""

    topic: str


class BrokerRegistered(NamedTuple):
    """A broker came, or says more about itself under the epoch that it has. directories: ids of those that
    it can use; () = not known (before 3.7)."""

    broker: int
    epoch: int
    fenced: bool = True
    leaving: bool = False
    directories: tuple[str, ...] = ()


class BrokerUnregistered(NamedTuple):
    """It is known no more."""

    broker: int


class BrokerChanged(NamedTuple):
    """fenced: None = as it is. leaving: it is in controlled shutdown. directories: those that are left, where
    one failed; () = as they are."""

    broker: int
    epoch: int
    fenced: bool | None = None
    leaving: bool = False
    directories: tuple[str, ...] = ()


class PartitionCreated(NamedTuple):
    """The first state of a partition; in a snapshot the one it has there. directories: where each replica
    is, in the order of the replicas; () = not known."""

    partition: Partition
    state: PartitionState
    directories: tuple[str, ...] = ()


class PartitionChanged(NamedTuple):
    """What changes; None = as it is. leader: SAME = it and its epoch as they are. leader_epoch,
    partition_epoch: as the log says, None = it does not: they follow. directories: as in PartitionCreated.
    other: it changes them, or what the model has not (the leader's recovery)."""

    partition: Partition
    leader: int = SAME
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_elr: tuple[int, ...] | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    other: bool = False
    directories: tuple[str, ...] | None = None

    def after(self, state: PartitionState) -> PartitionState:
        """The state that it makes (PartitionRegistration.merge)."""
        stays = self.leader == SAME
        epoch, version = self.leader_epoch, self.partition_epoch
        return PartitionState(
            replicas=state.replicas if self.replicas is None else self.replicas,
            isr=state.isr if self.isr is None else self.isr,
            leader=state.leader if stays else self.leader,
            leader_epoch=state.leader_epoch + (not stays) if epoch is None else epoch,
            partition_epoch=state.partition_epoch + 1 if version is None else version,
            elr=state.elr if self.elr is None else self.elr,
            last_elr=state.last_elr if self.last_elr is None else self.last_elr,
            adding=state.adding if self.adding is None else self.adding,
            removing=state.removing if self.removing is None else self.removing,
        )


class ElrCleared(NamedTuple):
    """The eligible replicas of a topic (all: "") are forgotten, as its minimum was changed."""

    topic: str


class ProducerIds(NamedTuple):
    """Ids below `next` are given away."""

    next: int


class MetadataTransaction(NamedTuple):
    """Begins; ends; or, aborted, takes back what was written since it began (KIP-868)."""

    begins: bool = False
    aborted: bool = False


class Other(NamedTuple):
    """Anything else."""


MetadataLogRecord = (
    FeatureLevel
    | Config
    | TopicCreated
    | TopicRemoved
    | BrokerRegistered
    | BrokerUnregistered
    | BrokerChanged
    | PartitionCreated
    | PartitionChanged
    | ElrCleared
    | ProducerIds
    | MetadataTransaction
    | Other
)


@dataclass(slots=True)
class LogImage:
    """What the records so far make."""

    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    """Id by name."""
    partitions: dict[Partition, PartitionState] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    configs: dict[tuple[str, str], str] = field(default_factory=dict)
    """Value by topic ("" = all) and name."""
    directories: dict[Partition, tuple[str, ...]] = field(default_factory=dict)
    """Where the replicas of a partition are, in their order."""
    online: dict[int, frozenset[str]] = field(default_factory=dict)
    """Directories that a broker can use; none = not known."""
    next_id: int = -1

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's setting; None = the log does not tell it."""
        return self.configs.get((topic, name), self.configs.get(("", name)))

    def active(self) -> set[int]:
        """Brokers that may be in sync."""
        return {n for n, known in self.brokers.items() if not known.fenced and not known.leaving}

    def electable(self, tp: Partition) -> set[int]:
        """Brokers that may lead a partition (ReplicationControlManager.LeaderAcceptor)."""
        return self.active() - self.offline(tp)

    def offline(self, tp: Partition) -> set[int]:
        """Brokers whose replica of a partition is in a directory that failed (DirectoryId.isOnline)."""
        state = self.partitions.get(tp)
        if state is None:
            return set()
        places = dict(zip(state.replicas, self.directories.get(tp, ()), strict=False))
        return {n for n, place in places.items() if not self._online(n, place)}

    def _online(self, broker: int, directory: str) -> bool:
        if directory in (MIGRATING, UNASSIGNED):
            return True
        usable = self.online.get(broker, frozenset())
        return directory != LOST and (not usable or directory in usable)

    def apply(self, record: MetadataLogRecord) -> None:
        """Take over a record, whether a controller may write it or not."""
        match record:
            case FeatureLevel(name, 0):  # FeaturesDelta.apply
                self.features.pop(name, None)
            case FeatureLevel(name, level):
                self.features[name] = level
            case Config(topic, name, None):
                self.configs.pop((topic, name), None)
            case Config(topic, name, str(value)):
                self.configs[topic, name] = value
            case TopicCreated(topic, topic_id):
                self.topics[topic] = topic_id
            case TopicRemoved(topic):
                self.topics.pop(topic, None)
                for key in [key for key in self.configs if key[0] == topic]:  # ConfigurationsDelta.replay
                    del self.configs[key]
                for tp in [tp for tp in self.partitions if tp[0] == topic]:
                    del self.partitions[tp]
                    self.directories.pop(tp, None)
            case BrokerRegistered(broker, epoch, fenced, leaving, directories):
                self.brokers[broker] = RegisteredBroker(epoch, 0, fenced, leaving)
                self.online[broker] = frozenset(directories)
            case BrokerUnregistered(broker):
                self.brokers.pop(broker, None)
                self.online.pop(broker, None)
            case BrokerChanged(broker, _, fenced, leaving, directories) if known := self.brokers.get(broker):
                known.fenced = known.fenced if fenced is None else fenced
                known.leaving = known.leaving or leaving
                self.online[broker] = frozenset(directories) or self.online.get(broker, frozenset())
            case PartitionCreated(tp, state, directories):
                self.partitions[tp], self.directories[tp] = state, directories
            case PartitionChanged(tp) if before := self.partitions.get(tp):
                self.partitions[tp] = record.after(before)
                if record.directories is not None:
                    self.directories[tp] = record.directories
            case ElrCleared(topic):
                self._clear(topic)
            case ProducerIds(next_):
                self.next_id = next_

    def unlike(self, other: "LogImage") -> Iterator[str]:
        """In which respects a snapshot differs. It may have settings of a topic that was removed, where they
        were as new as the topic (ConfigurationsDelta)."""
        for name in ("brokers", "topics", "partitions", "configs", "features"):
            mine, theirs = getattr(self, name), getattr(other, name)
            for key in sorted({*mine, *theirs}, key=str):
                one, two = mine.get(key), theirs.get(key)
                if name == "configs" and key[0] and key[0] not in self.topics:
                    continue
                if isinstance(one, PartitionState) and isinstance(two, PartitionState) and alike(one, two):
                    continue
                if one != two:
                    yield f"{name}, {key}: the snapshot has {two}, the log makes {one}"
        if self.next_id != other.next_id:
            yield f"the snapshot has producer ids below {other.next_id}, the log makes {self.next_id}"

    def _clear(self, topic: str) -> None:
        for tp, state in self.partitions.items():
            if topic in ("", tp[0]) and (state.elr or state.last_elr):
                version = state.partition_epoch + 1
                self.partitions[tp] = replace(state, elr=(), last_elr=(), partition_epoch=version)
