"""Rows of the metadata log (`METADATA` of evidence) as the records that the model's acceptor takes."""

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from model.accepting import metadata_records as log
from model.accepting.metadata_records import MetadataLogRecord
from model.protocol.messages import Partition, PartitionState

TOPIC, BROKER = 2, 4
"""Kinds of resources that have settings (ConfigResource.Type)."""
READ: Final = frozenset(
    {
        "AbortTransactionRecord",
        "BeginTransactionRecord",
        "BrokerRegistrationChangeRecord",
        "ClearElrRecord",
        "ConfigRecord",
        "FeatureLevelRecord",
        "FenceBrokerRecord",
        "PartitionChangeRecord",
        "PartitionRecord",
        "ProducerIdsRecord",
        "RegisterBrokerRecord",
        "RemoveTopicRecord",
        "TopicRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
    }
)
"""Records that say something to the model. All that follows is unknown where one of these cannot be read."""


class Row(NamedTuple):
    """The columns of a metadata record that are looked at, by the names of `METADATA`."""

    offset: int
    timestamp: int
    leader_epoch: int
    name: str
    broker: int | None
    broker_epoch: int | None
    topic: str | None
    topic_id: str | None
    partition: int | None
    leader: int | None
    partition_leader_epoch: int | None
    partition_epoch: int | None
    replicas: Sequence[int] | None
    isr: Sequence[int] | None
    elr: Sequence[int] | None
    last_known_elr: Sequence[int] | None
    removing: Sequence[int] | None
    adding: Sequence[int] | None
    recovery: int | None
    fenced: int | None
    feature: str | None
    level: int | None
    body: str | None
    opaque: bytes | None


def rows(table: pa.Table) -> Iterator[Row]:
    """The rows of the table `metadata`, in its order."""
    columns = (table[name].to_pylist() for name in Row._fields)
    return map(Row._make, zip(*columns, strict=True))


def record(row: Row, names: dict[str, str]) -> MetadataLogRecord:
    """What a row says. names: topics by id, of the rows so far; gets another one."""
    if row.topic_id is not None and row.name == "TopicRecord":
        names[row.topic_id] = str(row.topic)
    topic = names.get(row.topic_id or "", row.topic or str(row.topic_id))
    number, broker = -1 if row.partition is None else row.partition, -1 if row.broker is None else row.broker
    epoch = -1 if row.broker_epoch is None else row.broker_epoch
    match row.name:
        case "FeatureLevelRecord":
            return log.FeatureLevel(str(row.feature), row.level or 0)
        case "TopicRecord":
            return log.TopicCreated(topic, str(row.topic_id))
        case "RemoveTopicRecord":
            return log.TopicRemoved(topic)
        case "PartitionRecord":
            return log.PartitionCreated((topic, number), state(row), _directories(row, "directories"))
        case "PartitionChangeRecord":
            return change(row, (topic, number))
        case "RegisterBrokerRecord":
            leaving = bool(_body(row).get("inControlledShutdown", False))
            return log.BrokerRegistered(broker, epoch, row.fenced != 0, leaving, _directories(row, "logDirs"))
        case "UnregisterBrokerRecord":
            return log.BrokerUnregistered(broker)
        case "FenceBrokerRecord" | "UnfenceBrokerRecord":
            return log.BrokerChanged(broker, epoch, row.name == "FenceBrokerRecord")
        case "BrokerRegistrationChangeRecord":
            leaving = _body(row).get("inControlledShutdown", 0) == 1
            fenced = row.fenced > 0 if row.fenced else None
            return log.BrokerChanged(broker, epoch, fenced, leaving, _directories(row, "logDirs"))
    return _of_body(row)


def _of_body(row: Row) -> MetadataLogRecord:
    """Records whose fields have no columns."""
    body = _body(row)
    match row.name:
        case "ConfigRecord":
            kind, resource = body.get("resourceType"), str(body.get("resourceName"))
            value = body.get("value")
            if kind == TOPIC or (kind == BROKER and not resource):
                return log.Config(resource, str(body["name"]), None if value is None else str(value))
        case "ProducerIdsRecord":
            return log.ProducerIds(int(str(body["nextProducerId"])))
        case "ClearElrRecord":
            return log.ElrCleared(str(body.get("topicName") or ""))
        case "BeginTransactionRecord":
            return log.MetadataTransaction(begins=True)
        case "AbortTransactionRecord":
            return log.MetadataTransaction(aborted=True)
    return log.Other()


def _body(row: Row) -> dict[str, object]:
    found: dict[str, object] = json.loads(row.body) if row.body else {}
    return found


def _directories(row: Row, name: str) -> tuple[str, ...]:
    """Ids in a field; () = it has none."""
    found = _body(row).get(name)
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _nodes(nodes: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if nodes is None else tuple(nodes)


def state(row: Row) -> PartitionState:
    """What a PartitionRecord says."""
    return PartitionState(
        replicas=tuple(row.replicas or ()),
        isr=tuple(row.isr or ()),
        leader=-1 if row.leader is None else row.leader,
        leader_epoch=row.partition_leader_epoch or 0,
        partition_epoch=row.partition_epoch or 0,
        elr=tuple(row.elr or ()),
        last_elr=tuple(row.last_known_elr or ()),
        adding=tuple(row.adding or ()),
        removing=tuple(row.removing or ()),
    )


def change(row: Row, tp: Partition) -> log.PartitionChanged:
    """What a PartitionChangeRecord says."""
    recovers = row.recovery is not None and row.recovery >= 0
    directories = _directories(row, "directories") or None
    return log.PartitionChanged(
        tp,
        log.SAME if row.leader is None else row.leader,
        _nodes(row.isr),
        _nodes(row.replicas),
        _nodes(row.adding),
        _nodes(row.removing),
        _nodes(row.elr),
        _nodes(row.last_known_elr),
        row.partition_leader_epoch,
        row.partition_epoch,
        other=recovers or directories is not None,
        directories=directories,
    )
