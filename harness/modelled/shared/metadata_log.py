"""The metadata log of a modelled node as Kafka writes it: rows of the tables of `history.evidence`.

The model's log has one record for what are several in Kafka: a topic is there with its first partition. So
offsets here are larger than the model's, and with them broker epochs, which are offsets of registrations.
What the model does not have (end points, directories, supported features) is empty.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid5

from harness.evidence.metadata_records import TOPIC as TOPIC
from harness.evidence.metadata_records import columns, types
from harness.modelled.shared.topic_uuids import topic_id, uuid_text
from harness.protocol.messages import NO_UUID, Message, Value
from history.evidence_tables import Row
from model.metadata.image import (
    BrokerRegistrationChangeRecord,
    MetadataImage,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)
from model.protocol.messages import Partition, PartitionState
from model.replication.node import settings_of
from model.settings import Settings

LEVELS: Final = {"3.3": 7, "3.6": 14, "3.9": 21, "4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30, "4.4": 33}
"""Newest level of metadata.version that a release has (MetadataVersion)."""
NUMBERS: Final = {name: number for number, name in types().items()}
NO_TIMESTAMP: Final = -1
"""The model's metadata records have no time."""
TOPICS: Final = 2
"""ConfigResource.Type.TOPIC."""
VERSIONS: Final = {"RegisterBrokerRecord": 3, "BrokerRegistrationChangeRecord": 1}
"""Of records that have more fields than in version 0."""
ELIGIBLE: Final = "eligibleLeaderReplicas"
NO_CHANGE: Final = -2
"""`leader` of a PartitionChangeRecord that leaves the leader as it is."""
CHANGED: Final = {
    "isr": "isr",
    "replicas": "replicas",
    "removing": "removingReplicas",
    "adding": "addingReplicas",
    "elr": ELIGIBLE,
    "last_elr": "lastKnownElr",
}
"""Fields of a PartitionState that a PartitionChangeRecord has only where they change."""


@dataclass(frozen=True, slots=True)
class MetadataLogRecord:
    """One record. name: of Kafka, "" = a control record (LEADER_CHANGE)."""

    offset: int
    leader_epoch: int
    name: str = ""
    fields: Message = field(default_factory=dict)

    def row(self) -> Row:
        """Of `evidence.METADATA`."""
        version = 2 if ELIGIBLE in self.fields else VERSIONS.get(self.name, 0)
        place: Row = (
            -1,
            self.offset,
            self.leader_epoch,
            NO_TIMESTAMP,
            NUMBERS[self.name],
            self.name,
            version,
        )
        return *place, *columns(self.name, self.fields), json.dumps(self.fields), None


def records(entries: Sequence[tuple[int, object]], settings: Settings, era: str) -> list[MetadataLogRecord]:
    """The log of a node of the quorum (`KafkaRaftClient.entries`) in an era of this name."""
    made: list[MetadataLogRecord] = []
    translation = _Translation(settings, era)
    for epoch, entry in entries:
        for name, fields in translation.of(entry, len(made)):
            made.append(MetadataLogRecord(len(made), epoch, name, fields))
    return made


class _Translation:
    """Entries of the model's log, one after the other."""

    def __init__(self, settings: Settings, era: str) -> None:
        self._settings = settings
        self._level = LEVELS.get(era.split("-")[0], -1)
        self._image = MetadataImage()
        self._epochs: dict[int, int] = {}
        """Broker -> its epoch, as offsets are here."""

    def of(self, entry: object, offset: int) -> Iterator[tuple[str, Message]]:
        """Names and fields of Kafka's records; the first one stands at `offset`."""
        image = self._image
        match entry:
            case None:
                yield "", {}
                if not image.offset:
                    yield from self._features()
            case RegisterBrokerRecord(broker, incarnation):
                self._epochs[broker] = offset
                yield "RegisterBrokerRecord", self._registration(broker, incarnation, offset)
            case BrokerRegistrationChangeRecord(broker, fenced, leaving):
                known = image.brokers[broker]
                yield (
                    "BrokerRegistrationChangeRecord",
                    {
                        "brokerId": broker,
                        "brokerEpoch": self._epochs[broker],
                        "fenced": int(fenced) - int(known.fenced),
                        "inControlledShutdown": int(leaving and not known.leaving),
                    },
                )
            case PartitionRecord(partition, state):
                yield from self._partition(partition, state)
            case RemoveTopicRecord(topic):
                yield "RemoveTopicRecord", {"topicId": self._id(topic)}
            case ProducerIdsRecord(next_, broker):
                epoch = self._epochs.get(broker, -1)
                yield "ProducerIdsRecord", {"brokerId": broker, "brokerEpoch": epoch, "nextProducerId": next_}
            case _:
                raise AssertionError(f"unknown metadata record {entry!r}")
        image.apply(entry)

    def _features(self) -> Iterator[tuple[str, Message]]:
        """What a cluster begins with (BootstrapMetadata)."""
        era = self._settings.era
        levels = {
            "metadata.version": self._level,
            "eligible.leader.replicas.version": int(era.eligible_replicas),
            "transaction.version": era.server_transaction_version if self._level >= LEVELS["4.0"] else 0,
        }
        for name, level in levels.items():
            if level > 0:
                yield "FeatureLevelRecord", {"name": name, "featureLevel": level}

    @staticmethod
    def _registration(broker: int, incarnation: int, offset: int) -> Message:
        return {
            "brokerId": broker,
            "isMigratingZkBroker": False,
            "incarnationId": uuid_text(uuid5(UUID(int=0), f"{broker}/{incarnation}")),
            "brokerEpoch": offset,
            "endPoints": [],
            "features": [],
            "rack": None,
            "fenced": True,
            "inControlledShutdown": False,
            "logDirs": [],
        }

    def _id(self, topic: str) -> str:
        """As it is once the next record is applied."""
        return topic_id(topic, self._image.topic_ids.get(topic, self._image.deletions.get(topic, 0)))

    def _partition(self, partition: Partition, state: PartitionState) -> Iterator[tuple[str, Message]]:
        topic, number = partition
        if topic not in self._image.topics:
            yield "TopicRecord", {"name": topic, "topicId": self._id(topic)}
            yield from self._configs(topic)
        before = self._image.partitions.get(partition)
        where: Message = {"partitionId": number, "topicId": self._id(topic)}
        change = _change(before, state) if before is not None else None
        if change is not None:
            yield "PartitionChangeRecord", where | self._known(change)
        else:
            yield "PartitionRecord", where | self._known(_whole(state))

    def _known(self, fields: Message) -> Message:
        """Without the fields that came with KIP-966 and KIP-858, where the era is older."""
        newer = () if self._settings.era.eligible_replicas else (ELIGIBLE, "lastKnownElr", "directories")
        return {name: value for name, value in fields.items() if name not in newer}

    def _configs(self, topic: str) -> Iterator[tuple[str, Message]]:
        settings = settings_of(self._settings, topic)
        for name, value in (
            ("min.insync.replicas", str(settings.min_isr)),
            ("unclean.leader.election.enable", str(settings.unclean).lower()),
        ):
            yield (
                "ConfigRecord",
                {"resourceType": TOPICS, "resourceName": topic, "name": name, "value": value},
            )


def _whole(state: PartitionState) -> Message:
    return {
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "removingReplicas": list(state.removing),
        "addingReplicas": list(state.adding),
        "leader": state.leader,
        "leaderRecoveryState": 0,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
        "directories": [NO_UUID] * len(state.replicas),
        ELIGIBLE: list(state.elr),
        "lastKnownElr": list(state.last_elr),
    }


def _change(before: PartitionState, after: PartitionState) -> Message | None:
    """The fields of a PartitionChangeRecord; None: none can tell this change, because epochs are not what
    follows from it (PartitionRegistration.merge)."""
    rises = after.leader_epoch - before.leader_epoch
    if after.partition_epoch != before.partition_epoch + 1 or rises not in (0, 1):
        return None
    if after.leader != before.leader and not rises:
        return None
    fields: dict[str, Value] = {
        theirs: list(getattr(after, ours)) if getattr(after, ours) != getattr(before, ours) else None
        for ours, theirs in CHANGED.items()
    }
    return fields | {
        "leader": after.leader if rises else NO_CHANGE,
        "leaderRecoveryState": -1,
        "directories": None,
    }
